"""Events: one ring a thread, merged by sequence number. Writers never wait for a reader, and memory is bounded.

A writer announces the highest number given out before it takes its own (``floor``), takes the number, stores the event,
and withdraws the announcement. A reader notes the highest number given out, then the announcements, then reads the
rings: every event up to the lowest announcement is stored by then, so what it returns has no hole that is filled later.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from prover.model import Event, EventKind, FieldValue, Phase

_NO_FIELDS: Final[Mapping[str, FieldValue]] = {}


class Ring:
    """The last ``capacity`` events of one thread. Only that thread writes."""

    __slots__ = ("_events", "count", "floor")

    def __init__(self, capacity: int) -> None:
        self._events: list[Event | None] = [None] * capacity
        self.count = 0
        self.floor: int | None = None

    def push(self, event: Event) -> None:
        """Store an event over the oldest one."""
        self._events[self.count % len(self._events)] = event
        self.count += 1

    def newer(self, since: int, until: int) -> list[Event]:
        """Events with ``since < seq <= until``, newest first. Safe beside a writer."""
        found: list[Event] = []
        capacity = len(self._events)
        count = self.count
        last: int | None = None
        for position in range(count - 1, max(-1, count - 1 - capacity), -1):
            event = self._events[position % capacity]
            if event is None or event.seq <= since or (last is not None and event.seq >= last):
                break  # the last case: the writer came round, all older ones are gone
            last = event.seq
            if event.seq <= until:
                found.append(event)
        return found


class EventLog:
    """The rings of all threads of an engine."""

    def __init__(self, capacity: int = 8192) -> None:
        if capacity < 1:
            raise ValueError("a ring holds at least one event")
        self._capacity = capacity
        self._lock = threading.Lock()  # numbers and the list of rings; no reader of events takes it
        self._last = 0
        self._rings: tuple[Ring, ...] = ()
        self._free: list[Ring] = []
        self._bells: tuple[threading.Event, ...] = ()

    @property
    def last_seq(self) -> int:
        """The highest number given out."""
        return self._last

    def ring(self) -> Ring:
        """A ring for the calling thread to write. A ring that was given back is used again with its events."""
        with self._lock:
            if self._free:
                return self._free.pop()
            ring = Ring(self._capacity)
            self._rings = (*self._rings, ring)
            return ring

    def give_back(self, ring: Ring) -> None:
        """The thread of this ring ends; its events stay readable."""
        with self._lock:
            self._free.append(ring)

    def emit(
        self,
        ring: Ring,
        kind: EventKind,
        at: float,
        *,
        job: str | None = None,
        partitions: tuple[int, ...] = (),
        phase: Phase | None = None,
        start: float | None = None,
        device: int | None = None,
        worker: str | None = None,
        fields: Mapping[str, FieldValue] = _NO_FIELDS,
    ) -> None:
        """Number an event and store it in the ring of the calling thread."""
        ring.floor = self._last
        try:
            with self._lock:
                self._last += 1
                seq = self._last
            ring.push(Event(seq, at, kind, job, partitions, phase, start, device, worker, fields))
        finally:
            ring.floor = None
        for bell in self._bells:
            if not bell.is_set():
                bell.set()

    def since(self, seq: int) -> list[Event]:
        """Events numbered above ``seq``, oldest first, as far back as the rings hold."""
        until = self._last
        rings = self._rings
        for ring in rings:
            floor = ring.floor
            if floor is not None and floor < until:
                until = floor
        if until <= seq:
            return []
        found = [event for ring in rings for event in ring.newer(seq, until)]
        found.sort(key=lambda event: event.seq)
        return found

    def subscribe(self) -> threading.Event:
        """A bell that rings when events are stored. The reader clears it before it reads."""
        bell = threading.Event()
        with self._lock:
            self._bells = (*self._bells, bell)
        return bell

    def unsubscribe(self, bell: threading.Event) -> None:
        """Ring this bell no more."""
        with self._lock:
            self._bells = tuple(other for other in self._bells if other is not bell)
