"""The engine's clocks: time passes when nothing else can happen, and no moment is passed over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.cancel import Cancelled, CancelToken
from prover.pipeline.clock import EngineClock, PacedClock, VirtualClock, engine_clock

SECONDS = st.integers(0, 1000).map(lambda quarters: quarters / 4)


def together(clock: VirtualClock, *bodies: Callable[[], object]) -> None:
    """Run each in a thread that takes part, to its end."""
    threads = [clock.thread(body, f"body-{index}") for index, body in enumerate(bodies)]
    with clock.attending():
        for thread in threads:
            thread.start()
        with clock.outside():
            for thread in threads:
                thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(SECONDS, max_size=8), min_size=1, max_size=6))
def test_every_sleeper_wakes_at_its_own_moment(plans: list[list[float]]) -> None:
    clock = VirtualClock(10.0)
    seen: list[list[float]] = [[] for _ in plans]

    def body(own: int) -> None:
        for seconds in plans[own]:
            clock.sleep(seconds)
            seen[own].append(clock())

    together(clock, *(lambda own=own: body(own) for own in range(len(plans))))
    assert seen == [list(accumulate(plan, initial=10.0))[1:] for plan in plans]
    assert clock() == 10.0 + max(sum(plan) for plan in plans)


@settings(deadline=None, max_examples=50)
@given(st.lists(SECONDS, min_size=1, max_size=10), SECONDS)
def test_who_is_woken_wakes_at_that_moment_and_time_stands_still_till_then(gaps: list[float], work: float) -> None:
    """A producer hands things over; one consumer works on each, however its thread is scheduled."""
    clock = VirtualClock()
    lock = threading.Lock()
    changed = clock.condition(lock)
    waiting: list[float] = []
    taken: list[float] = []

    def producer() -> None:
        for gap in gaps:
            clock.sleep(gap)
            with lock:
                waiting.append(clock())
                changed.notify()

    def consumer() -> None:
        for _ in gaps:
            with lock:
                changed.wait_for(lambda: waiting)
                waiting.pop(0)
            taken.append(clock())
            clock.sleep(work)

    together(clock, producer, consumer)
    expected, free = [], 0.0
    for made in accumulate(gaps):
        expected.append(max(made, free))
        free = expected[-1] + work
    assert taken == expected


def test_time_stands_still_while_a_thread_works() -> None:
    clock = VirtualClock()
    began = threading.Event()
    seen = []

    def worker() -> None:
        began.set()
        time.sleep(0.05)
        seen.append(clock())

    together(clock, lambda: clock.sleep(3600.0), worker)
    assert seen == [0.0] and clock() == 3600.0


@pytest.mark.parametrize("notified", [True, False])
def test_a_wait_with_a_limit_tells_which_came_first(notified: bool) -> None:
    clock = VirtualClock()
    lock = threading.Lock()
    changed = clock.condition(lock)
    seen: list[tuple[bool, float]] = []

    def waiter() -> None:
        with lock:
            seen.append((changed.wait(5.0), clock()))

    def ringer() -> None:
        clock.sleep(4.0 if notified else 6.0)
        with lock:
            changed.notify_all()

    together(clock, waiter, ringer)
    assert seen == [(notified, 4.0 if notified else 5.0)]
    with lock:
        assert not changed.wait(0.0)


def test_notify_wakes_so_many_and_the_oldest_first() -> None:
    clock = VirtualClock()
    lock = threading.Lock()
    changed = clock.condition(lock)
    seen: list[tuple[int, float]] = []

    def waiter(number: int) -> None:
        clock.sleep(number)
        with lock:
            changed.wait()
            seen.append((number, clock()))

    def ringer() -> None:
        for count in (1, 2, 9):
            clock.sleep(10.0)
            with lock:
                changed.notify(count)

    together(clock, ringer, *(lambda number=number: waiter(number) for number in range(1, 6)))
    assert sorted(seen) == [(1, 10.0), (2, 20.0), (3, 20.0), (4, 30.0), (5, 30.0)]


def test_an_event_is_waited_for_in_the_clocks_time() -> None:
    clock = VirtualClock()
    event = clock.event()
    seen: list[tuple[bool, float]] = []

    def waiter() -> None:
        seen.append((event.wait(2.0), clock()))
        seen.append((event.wait(), clock()))
        seen.append((event.wait(0.0), clock()))

    def setter() -> None:
        clock.sleep(9.0)
        assert not event.is_set()
        event.set()

    together(clock, waiter, setter)
    assert seen == [(False, 2.0), (True, 9.0), (True, 9.0)]
    event.clear()
    assert not event.is_set()


def test_cancelling_ends_a_sleep_at_that_moment() -> None:
    clock, token = VirtualClock(), CancelToken()
    seen = []

    def sleeper() -> None:
        with pytest.raises(Cancelled):
            clock.sleep(100.0, token)
        seen.append(clock())
        with pytest.raises(Cancelled):
            clock.sleep(100.0, token)
        seen.append(clock())

    def canceller() -> None:
        clock.sleep(7.0)
        token.cancel()

    together(clock, sleeper, canceller)
    assert seen == [7.0, 7.0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_holds_nobody_up() -> None:
    clock = VirtualClock()

    def dies() -> None:
        raise ValueError("dead")

    together(clock, dies, lambda: clock.sleep(5.0))
    assert clock() == 5.0


def test_a_thread_that_cannot_start_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            clock.thread(lambda: None, "never").start()
    together(clock, lambda: clock.sleep(5.0))
    assert clock() == 5.0


def test_a_thread_from_outside_may_wait_too() -> None:
    clock = VirtualClock()
    clock.sleep(5.0)
    assert clock() == 5.0


def test_by_hand_time_moves_only_when_told() -> None:
    clock = VirtualClock(autopilot=False)
    seen: list[float] = []

    def body() -> None:
        for _ in range(2):
            clock.sleep(5.0)
            seen.append(clock())

    thread = clock.thread(body, "body")
    thread.start()
    clock.settle()
    assert (clock(), seen) == (0.0, [])
    assert clock.advance(until=2.0)
    clock.settle()
    assert (clock(), seen) == (2.0, [])
    assert clock.advance()
    clock.settle()
    assert seen == [5.0]
    assert clock.advance()
    thread.join(30)
    assert seen == [5.0, 10.0] and not clock.advance()


def test_who_never_rests_is_told() -> None:
    clock = VirtualClock(autopilot=False)
    go = threading.Event()
    thread = clock.thread(lambda: go.wait(30), "busy")
    thread.start()
    with pytest.raises(TimeoutError, match="1 threads neither end nor wait"):
        clock.settle(0.05)
    go.set()
    thread.join(30)
    clock.settle()


@contextmanager
def paced(speed: float, start: float = 0.0) -> Iterator[PacedClock]:
    clock = PacedClock(speed, start)
    try:
        yield clock
    finally:
        clock.close()


def test_a_paced_clock_is_exact_for_who_takes_part_and_takes_its_time() -> None:
    with paced(1000.0, start=50.0) as clock:
        seen: list[float] = []

        def body() -> None:
            for _ in range(3):
                clock.sleep(5.0)
                time.sleep(0.01)  # takes none of the clock's time
                seen.append(clock())

        began = time.monotonic()
        thread = clock.thread(body, "body")
        thread.start()
        thread.join(30)
        assert time.monotonic() - began >= 3 * 0.005
        assert [round(later - earlier, 9) for earlier, later in pairwise(seen)] == [5.0, 5.0]


def test_who_watches_a_paced_clock_sees_time_flow_forwards_and_never_past_what_is_to_come() -> None:
    with paced(200.0) as clock:
        ends: list[float] = []

        def body() -> None:
            for seconds in (3.0, 0.5, 4.0):
                clock.sleep(seconds)
                ends.append(clock())

        thread = clock.thread(body, "body")
        thread.start()
        readings = []
        while thread.is_alive():
            known = len(ends)
            readings.append((known, clock(), len(ends)))
        assert all(a[1] <= b[1] for a, b in pairwise(readings))
        assert len({reading for _, reading, _ in readings}) > 20
        for before, reading, after in readings:
            if before == after:  # between two wakings
                assert before == 0 or reading >= ends[before - 1]
                assert after == len(ends) or reading <= ends[after]


def test_what_an_outsider_wakes_on_a_paced_clock_runs_no_earlier_than_what_was_read() -> None:
    with paced(500.0) as clock:
        lock = threading.Lock()
        changed = clock.condition(lock)
        woken: list[float] = []
        ready = threading.Event()

        def body() -> None:
            with lock:
                ready.set()
                changed.wait(10_000.0)
                woken.append(clock())

        thread = clock.thread(body, "body")
        thread.start()
        ready.wait(30)
        time.sleep(0.01)
        with lock:
            read = clock()
            changed.notify()
        thread.join(30)
        assert 0 < read <= woken[0] < 10_000.0
        read = clock()
        time.sleep(0.002)
        assert clock() > read  # nothing is to come: time flows on
        outside = clock()
        clock.sleep(2.0)
        assert clock() >= outside + 2.0
    assert clock() == clock()
    with pytest.raises(ValueError, match="forwards"):
        PacedClock(0.0)


def test_a_bare_reading_becomes_a_clock_and_a_clock_stays_what_it_is() -> None:
    clock = VirtualClock()
    assert engine_clock(clock) is clock
    real = engine_clock(lambda: 42.0)
    assert type(real) is EngineClock and real() == 42.0
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        EngineClock().sleep(3600.0, token)
    EngineClock().sleep(0.001)
