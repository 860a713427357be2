"""Several logs as one stream in the order of the times at the heads of their lines, with a bounded hold-back.

A line without a time belongs to the line before it in its file. A source with nothing new may yet bring an earlier
line, so what the others have brought waits for it, a moment and no longer. Sources that are behind are read a piece at
a time and never ahead of one another.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from console.feeds.logs.follow_stamps import stamp_at
from console.feeds.logs.sources import Chunk, Item

_INFINITE = float("inf")
_HEAD = 1024
"""Bytes of a line in which its time is looked for."""
_LAST_LINES = 8
_AHEAD = 4 << 20
"""Bytes read ahead, of all sources together."""
_LEAST = 16 * 1024


class Source(Protocol):
    """What a stream is made of."""

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""

    def read(self, limit: int) -> list[Item]:
        """What is new."""


@dataclass(slots=True)
class _Lane:
    """One source's items that wait for their turn."""

    source: Source
    items: deque[Item] = field(default_factory=deque)
    arrived: float = 0.0
    key: float = -_INFINITE
    """The time of the item at the front; never less than of what was before it."""
    bytes: int = 0

    def fill(self, limit: int, now: float) -> None:
        for item in self.source.read(limit):
            self.items.append(item)
            self.bytes += len(item.data) if isinstance(item, Chunk) else 0
        self.arrived = now
        self._set_key()

    def _set_key(self) -> None:
        if self.items and isinstance(front := self.items[0], Chunk):
            stamp = stamp_at(front.data[:_HEAD])
            if stamp is not None and stamp > self.key:
                self.key = stamp

    def release(self, until: float) -> Item:
        """The front item, or of a chunk the lines up to a time; at least one line."""
        front = self.items.popleft()
        if isinstance(front, Chunk):
            cut = len(front.data) if _last_stamp(front.data) <= until else _cut(front.data, until)
            if cut < len(front.data):
                self.items.appendleft(Chunk(front.file, front.offset + cut, front.data[cut:]))
                front = Chunk(front.file, front.offset, front.data[:cut])
            self.bytes -= cut
        self._set_key()
        return front


def _last_stamp(data: bytes) -> float:
    """The time of the last line of whole lines that has one; infinite if none of the last few has."""
    end = len(data)
    for _ in range(_LAST_LINES):
        start = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
        if (stamp := stamp_at(data[start : min(end, start + _HEAD)])) is not None:
            return stamp
        if start == 0:
            break
        end = start
    return _INFINITE


def _cut(data: bytes, until: float) -> int:
    """Where the first line after a time starts, the first line apart."""
    place = data.find(b"\n") + 1
    while 0 < place < len(data):
        stamp = stamp_at(data[place : place + _HEAD])
        if stamp is not None and stamp > until:
            return place
        place = data.find(b"\n", place) + 1
    return len(data)


class Merge:
    """Puts the items of several sources in order. With one source there is nothing to hold back."""

    def __init__(self, hold_s: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._hold_s = hold_s
        self._clock = clock
        self._lanes: dict[int, _Lane] = {}

    @property
    def holding(self) -> bool:
        """Whether lines wait for their turn."""
        return any(lane.items for lane in self._lanes.values())

    def pull(self, sources: Sequence[Source], limit: int, final: bool = False) -> list[Item]:
        """The next items, about ``limit`` bytes; with ``final`` nothing is waited for."""
        self._lanes = {id(source): self._lanes.get(id(source)) or _Lane(source) for source in sources}
        lanes = list(self._lanes.values())
        if len(lanes) == 1 and not lanes[0].items:
            return lanes[0].source.read(limit)
        ahead = max(_LEAST, _AHEAD // max(1, len(lanes)))
        out: list[Item] = []
        now = self._clock()
        for lane in lanes:
            if not lane.items:
                lane.fill(ahead, now)
        while limit > 0:
            waiting = [lane for lane in lanes if lane.items]
            if not waiting:
                break
            first = min(waiting, key=lambda lane: lane.key)
            absent = len(waiting) < len(lanes)
            if absent and not final and now - first.arrived < self._hold_s:
                break
            until = min((lane.key for lane in waiting if lane is not first), default=_INFINITE)
            item = first.release(until)
            out.append(item)
            limit -= len(item.data) if isinstance(item, Chunk) else 0
            if not first.items and first.source.behind:
                first.fill(ahead, now)
        return out
