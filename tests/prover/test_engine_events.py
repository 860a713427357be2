"""Rings: numbers without holes that fill later, bounded memory, readers that stall nobody."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.model import EventKind
from prover.pipeline.events import EventLog


def emit(log: EventLog, ring: object, count: int = 1) -> None:
    for _ in range(count):
        log.emit(ring, EventKind.JOB_DONE, 0.0)  # type: ignore[arg-type]


def numbers(log: EventLog, since: int = 0) -> list[int]:
    return [event.seq for event in log.since(since)]


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(0, 70))
def test_merged_by_number_whatever_ring(writers: list[int], since: int) -> None:
    log = EventLog(capacity=128)
    rings = [log.ring() for _ in range(3)]
    for writer in writers:
        emit(log, rings[writer])
    assert numbers(log, since) == list(range(since + 1, len(writers) + 1))
    assert log.last_seq == len(writers)


def test_a_full_ring_loses_its_oldest_only() -> None:
    log = EventLog(capacity=4)
    chatty, quiet = log.ring(), log.ring()
    emit(log, quiet)
    emit(log, chatty, 10)
    assert numbers(log) == [1, 8, 9, 10, 11]


def test_a_ring_given_back_keeps_its_events_and_is_used_again() -> None:
    log = EventLog()
    ring = log.ring()
    emit(log, ring)
    log.give_back(ring)
    assert numbers(log) == [1]
    assert log.ring() is ring
    assert log.ring() is not ring
    emit(log, ring)
    assert numbers(log) == [1, 2]


def test_an_event_that_is_being_stored_holds_back_later_ones() -> None:
    """A writer stopped between taking its number and storing its event."""
    log = EventLog()
    slow, fast = log.ring(), log.ring()
    emit(log, fast)
    taken, go_on = threading.Event(), threading.Event()
    push = slow.push

    def stalled(event: object) -> None:
        taken.set()
        go_on.wait(10)
        push(event)  # type: ignore[arg-type]

    class Stalling:
        """The slow ring, which waits before it stores."""

        floor = None

        def __setattr__(self, name: str, value: object) -> None:
            setattr(slow, name, value)

        push = staticmethod(stalled)

    writer = threading.Thread(target=emit, args=(log, Stalling()))
    writer.start()
    assert taken.wait(10)
    emit(log, fast)
    assert numbers(log) == [1]  # 3 is stored, but 2 is not
    go_on.set()
    writer.join(10)
    assert numbers(log) == [1, 2, 3]


def test_concurrent_writers_and_readers_miss_and_repeat_nothing() -> None:
    log = EventLog(capacity=100_000)
    done = threading.Event()
    seen: list[int] = []

    def write() -> None:
        ring = log.ring()
        emit(log, ring, 3000)
        log.give_back(ring)

    def read() -> None:
        while True:
            last = done.is_set()
            seen.extend(event.seq for event in log.since(seen[-1] if seen else 0))
            if last:
                return

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write) for _ in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen == list(range(1, 12_001))


def test_a_reader_takes_no_lock_and_a_writer_none_that_a_reader_holds() -> None:
    log = EventLog()
    ring = log.ring()
    emit(log, ring)
    with log._lock:
        assert numbers(log) == [1]


def test_a_bell_rings_for_what_is_stored_after_it_was_cleared() -> None:
    log = EventLog()
    ring = log.ring()
    bell = log.subscribe()
    assert not bell.is_set()
    emit(log, ring)
    assert bell.is_set()
    bell.clear()
    emit(log, ring)
    assert bell.is_set()
    log.unsubscribe(bell)
    bell.clear()
    emit(log, ring)
    assert not bell.is_set()


def test_a_ring_needs_room() -> None:
    with pytest.raises(ValueError, match="at least one"):
        EventLog(capacity=0)
