"""The channel's and the device lock's exact semantics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prover.pipeline.channel import Channel
from prover.pipeline.device_lock import DeviceLock


class Bench:
    """Threads around one lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.wakers: list[Callable[[], object]] = []
        self.waiting = 0
        self.changed = threading.Condition()
        self.started = 0
        self.returned = 0

    def wait(self, condition: threading.Condition) -> None:
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
        condition.wait()

    def run(self, call: Callable[[], Any]) -> list[Any]:
        """Run ``call`` with the lock on a thread; its result appears in the list."""
        result: list[Any] = []

        def body() -> None:
            with self.lock:
                value = call()
            with self.changed:
                result.append(value)
                self.returned += 1
                self.changed.notify_all()

        self.started += 1
        thread = threading.Thread(target=body, daemon=True)
        self.threads.append(thread)
        thread.start()
        return result

    def close(self) -> None:
        """Let every waiting thread end."""
        self.over.set()
        with self.lock:
            for wake in self.wakers:
                wake()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()

    def until(self, true: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(true, 10)


BENCHES: list[Bench] = []


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    while BENCHES:
        BENCHES.pop().close()


def channel(capacity: int) -> tuple[Bench, Channel[str]]:
    bench = Bench()
    chan: Channel[str] = Channel(bench.lock, capacity, bench.wait)
    bench.wakers += [lambda: chan.withdraw(lambda item: True), chan.wake]
    BENCHES.append(bench)
    return bench, chan


def device_lock() -> tuple[Bench, DeviceLock]:
    bench = Bench()
    lock = DeviceLock(bench.lock, bench.wait)
    bench.wakers.append(lock.wake)
    BENCHES.append(bench)
    return bench, lock


def put(bench: Bench, chan: Channel[str], item: str, age: int) -> list[Any]:
    """Put; returns once it is queued, handed over or held."""
    result = bench.run(lambda: chan.put(item, lambda: (age, 0)))
    bench.until(lambda: bool(result) or item in [offer.item for offer in chan._offers])
    return result


def take(bench: Bench, chan: Channel[str], leave: Callable[[], bool] | None = None) -> list[Any]:
    before = chan.waiting
    result = bench.run(lambda: chan.take(lambda: bench.over.is_set() or (leave is not None and leave())))
    bench.until(lambda: bool(result) or chan.waiting > before)
    return result


def test_it_holds_its_capacity_and_no_more() -> None:
    bench, chan = channel(2)
    first, second, third = (put(bench, chan, name, age) for age, name in enumerate("abc"))
    assert (first, second, third) == ([True], [True], [])
    assert (chan.queued, chan.held) == (2, 1)
    assert take(bench, chan) == ["a"]
    bench.until(lambda: third == [True])
    assert (chan.queued, chan.held) == (2, 0)


def test_zero_hands_over_only_to_a_worker_that_waits() -> None:
    bench, chan = channel(0)
    held = put(bench, chan, "a", 0)
    assert held == [] and (chan.queued, chan.held) == (0, 1)
    assert take(bench, chan) == ["a"]
    bench.until(lambda: held == [True])
    waiting = take(bench, chan)
    assert waiting == []
    assert put(bench, chan, "b", 1) == [True]
    bench.until(lambda: waiting == ["b"])
    assert chan.queued == 0


def test_a_waiting_worker_takes_past_the_queue() -> None:
    """What is handed over never counts as queued: with room for one, two waiting workers and three slots queue one."""
    bench, chan = channel(1)
    workers = [take(bench, chan) for _ in range(2)]
    results = [put(bench, chan, name, age) for age, name in enumerate("abc")]
    bench.until(lambda: all(workers) and all(results))
    assert [worker[0] for worker in workers] == ["a", "b"]
    assert (chan.queued, chan.held) == (1, 0)


def test_the_oldest_goes_first_queued_or_in_hand() -> None:
    bench, chan = channel(1)
    put(bench, chan, "young", 5)
    put(bench, chan, "old", 1)
    put(bench, chan, "middle", 3)
    assert (chan.queued, chan.held) == (1, 2)
    assert [take(bench, chan)[0] for _ in range(3)] == ["old", "middle", "young"]


def test_growing_takes_slots_in_at_once_and_shrinking_waits() -> None:
    bench, chan = channel(0)
    hands = [put(bench, chan, name, age) for age, name in enumerate("abcd")]
    with bench.lock:
        chan.resize(3)
    bench.until(lambda: sum(map(len, hands)) == 3)
    assert [len(hand) for hand in hands] == [1, 1, 1, 0]
    assert (chan.queued, chan.held, chan.capacity) == (3, 1, 3)
    with bench.lock:
        chan.resize(1)
    assert (chan.queued, chan.held) == (3, 1)
    for queued in (2, 1, 1, 0):
        take(bench, chan)
        assert chan.queued == queued
    bench.until(lambda: all(hands))


def test_a_closed_channel_gives_nothing_out() -> None:
    bench, chan = channel(1)
    with bench.lock:
        chan.set_open(False)
    worker = take(bench, chan)
    put(bench, chan, "a", 0)
    assert worker == [] and chan.queued == 1
    with bench.lock:
        chan.set_open(True)
    bench.until(lambda: worker == ["a"])


def test_withdrawing_takes_from_queue_and_hands_and_makes_room() -> None:
    bench, chan = channel(1)
    put(bench, chan, "a1", 0)
    doomed = put(bench, chan, "a2", 1)
    other = put(bench, chan, "b1", 2)
    with bench.lock:
        gone = chan.withdraw(lambda item: item.startswith("a"))
    assert gone == ["a1"]
    bench.until(lambda: bool(doomed) and bool(other))
    assert doomed == [False] and other == [True] and chan.queued == 1


def test_a_worker_that_should_leave_is_woken() -> None:
    bench, chan = channel(1)
    leaving = threading.Event()
    worker = take(bench, chan, leaving.is_set)
    stays = take(bench, chan)
    leaving.set()
    with bench.lock:
        chan.wake()
    bench.until(lambda: worker == [None])
    bench.until(lambda: chan.waiting == 1)
    assert stays == []


class ChannelMachine(RuleBasedStateMachine):
    """Against a model without threads: queue, hands and waiting workers as lists."""

    def __init__(self) -> None:
        super().__init__()
        self.bench, self.chan = channel(1)
        self.capacity, self.open, self.age = 1, True, 0
        self.queue: list[int] = []
        self.hands: list[int] = []
        self.claims: list[list[Any]] = []
        self.puts: dict[int, list[Any]] = {}
        self.given: list[tuple[list[Any], int]] = []

    def match(self) -> None:
        while self.open and self.claims and (self.queue or self.hands):
            item = min(self.queue + self.hands)
            (self.queue if item in self.queue else self.hands).remove(item)
            self.given.append((self.claims.pop(0), item))
        while self.hands and len(self.queue) < self.capacity:
            self.hands.sort()
            self.queue.append(self.hands.pop(0))

    @rule(age=st.integers(0, 20))
    def put(self, age: int) -> None:
        self.age += 1
        item = age * 1000 + self.age
        self.puts[item] = self.bench.run(lambda: self.chan.put(str(item), lambda: (item, 0)))
        result = self.puts[item]
        self.bench.until(lambda: bool(result) or str(item) in [offer.item for offer in self.chan._offers])
        self.hands.append(item)
        self.match()

    @precondition(lambda self: len(self.claims) < 5)
    @rule()
    def take(self) -> None:
        result = take(self.bench, self.chan)
        self.claims.append(result)
        self.match()

    @rule(capacity=st.integers(0, 4))
    def resize(self, capacity: int) -> None:
        self.capacity = capacity
        with self.bench.lock:
            self.chan.resize(capacity)
        self.match()

    @rule(open_=st.booleans())
    def gate(self, open_: bool) -> None:
        self.open = open_
        with self.bench.lock:
            self.chan.set_open(open_)
        self.match()

    @rule(modulus=st.integers(2, 4))
    def withdraw(self, modulus: int) -> None:
        with self.bench.lock:
            gone = self.chan.withdraw(lambda item: int(item) % modulus == 0)
        assert sorted(map(int, gone)) == sorted(item for item in self.queue if item % modulus == 0)
        for item in [item for item in self.hands if item % modulus == 0]:
            result = self.puts.pop(item)
            self.bench.until(lambda result=result: result == [False])  # type: ignore[misc]
        self.queue = [item for item in self.queue if item % modulus]
        self.hands = [item for item in self.hands if item % modulus]
        self.match()

    @invariant()
    def agrees(self) -> None:
        assert (self.chan.queued, self.chan.held) == (len(self.queue), len(self.hands))
        assert self.chan.queued <= max(self.capacity, len(self.queue))
        for result, item in self.given:
            self.bench.until(lambda result=result, item=item: result == [str(item)])  # type: ignore[misc]
        self.given.clear()

    def teardown(self) -> None:
        BENCHES.remove(self.bench)
        self.bench.close()


TestChannelMachine = ChannelMachine.TestCase
TestChannelMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def acquire(
    bench: Bench, lock: DeviceLock, who: str, age: int, abandoned: Callable[[], bool] | None = None
) -> list[Any]:
    def over() -> bool:
        return bench.over.is_set() or (abandoned is not None and abandoned())

    before = lock.waiting
    result = bench.run(lambda: lock.acquire(who, lambda: (age, 0), over))
    bench.until(lambda: bool(result) or lock.waiting > before)
    return result


def test_the_device_lock_goes_to_the_oldest_slot() -> None:
    bench, lock = device_lock()
    assert acquire(bench, lock, "a", 9) == [True]
    young, old = acquire(bench, lock, "b", 5), acquire(bench, lock, "c", 2)
    assert (young, old, lock.holder, lock.waiting) == ([], [], "a", 2)
    with bench.lock:
        lock.release("a")
    bench.until(lambda: old == [True])
    assert lock.holder == "c" and young == []
    with bench.lock:
        lock.release("c")
    bench.until(lambda: young == [True])
    with bench.lock:
        lock.release("b")
    assert lock.holder is None


def test_whoever_becomes_urgent_while_waiting_gets_the_lock_that_is_kept_free() -> None:
    bench, lock = device_lock()
    lock.reserved = lambda: True
    urgent: list[str] = []

    def ask(who: str, age: int) -> list[Any]:
        before = lock.waiting
        result = bench.run(
            lambda: lock.acquire(who, lambda: (who not in urgent, age), bench.over.is_set, lambda: who in urgent)
        )
        bench.until(lambda: bool(result) or lock.waiting > before)
        return result

    first, second = ask("a", 0), ask("b", 1)
    assert (first, second, lock.waiting) == ([], [], 2)
    with bench.lock:
        urgent.append("b")
        lock.pass_on()
    bench.until(lambda: second == [True])
    with bench.lock:
        urgent.remove("b")
        urgent.append("a")
        lock.release("b")
        urgent.clear()
    bench.until(lambda: first == [True])
    late = ask("c", 2)
    with bench.lock:
        lock.release("a")
    assert (late, lock.holder) == ([], None), "it is urgent no more"
    bench.over.set()
    with bench.lock:
        lock.wake()
    bench.until(lambda: late == [False])


def test_a_wait_for_the_device_lock_can_be_abandoned() -> None:
    bench, lock = device_lock()
    acquire(bench, lock, "a", 0)
    over = threading.Event()
    waiting = acquire(bench, lock, "b", 1, over.is_set)
    over.set()
    with bench.lock:
        lock.wake()
    bench.until(lambda: waiting == [False])
    assert lock.waiting == 0 and lock.holder == "a"
    assert acquire(bench, lock, "c", 2, over.is_set) == [False]


def test_only_the_holder_releases() -> None:
    bench, lock = device_lock()
    acquire(bench, lock, "a", 0)
    with bench.lock, pytest.raises(RuntimeError, match="b releases a lock that a holds"):
        lock.release("b")
