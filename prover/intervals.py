"""Sets of time intervals: disjoint, sorted, half-open, touching ones joined."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Interval = tuple[float, float]


class IntervalSet:
    """A growing set of intervals; adding near its end, as a clock does, costs next to nothing."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        for start, end in intervals:
            self.add(start, end)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Interval]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    def add(self, start: float, end: float) -> None:
        """Unite with ``[start, end)``; an empty one changes nothing."""
        if end <= start:
            return
        first = bisect_left(self._ends, start)  # the first that ends at or after start: it touches or comes later
        last = bisect_right(self._starts, end)  # one past the last that starts at or before end
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def grow(self, start: float, end: float) -> list[Interval]:
        """Unite with ``[start, end)``; the parts of it that were not there, in order."""
        fresh = subtract([(start, end)], self.clip(start, end)) if start < end else []
        self.add(start, end)
        return fresh

    def clip(self, start: float, end: float) -> list[Interval]:
        """The parts within ``[start, end)``, in order."""
        if end <= start:
            return []
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        return [
            (max(self._starts[index], start), min(self._ends[index], end)) for index in range(first, max(first, last))
        ]

    def covered(self, start: float, end: float) -> float:
        """Seconds of ``[start, end)`` that are in the set."""
        return length(self.clip(start, end))

    def prune(self, before: float) -> None:
        """Forget the intervals that end before an instant. Called often, works rarely."""
        gone = bisect_left(self._ends, before)
        if gone > 64 and gone * 2 > len(self._ends):
            del self._starts[:gone], self._ends[:gone]


def length(intervals: Iterable[Interval]) -> float:
    """Total seconds of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def intersect(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """What two sorted disjoint sequences share."""
    shared = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            shared.append((start, end))
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return shared


def subtract(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """What a sorted disjoint sequence has and another has not."""
    left = []
    j = 0
    for start, end in one:
        while j < len(other) and other[j][1] <= start:
            j += 1
        at, k = start, j
        while k < len(other) and other[k][0] < end:
            if other[k][0] > at:
                left.append((at, other[k][0]))
            at = max(at, other[k][1])
            k += 1
        if at < end:
            left.append((at, end))
    return left


def steady_utilisation(busy: Sequence[Interval]) -> float | None:
    """Pick to pick: the first n-1 busy intervals over the time from the first's start to the last's; None below two."""
    if len(busy) < 2:
        return None
    return length(busy[:-1]) / (busy[-1][0] - busy[0][0])


class Switch:
    """Something that is on or off."""

    def __init__(self) -> None:
        self.times = IntervalSet()
        """When it was on, what goes on now apart."""
        self.since: float | None = None

    def turn(self, on: bool, at: float) -> None:
        """It is on, or off, from now on."""
        if on and self.since is None:
            self.since = at
        elif not on and self.since is not None:
            self.times.add(self.since, at)
            self.since = None

    def clip(self, start: float, end: float) -> list[Interval]:
        """When it was on within ``[start, end)``."""
        return clip_open(self.times, [] if self.since is None else [self.since], start, end)


def clip_open(intervals: IntervalSet, open_since: Sequence[float], start: float, end: float) -> list[Interval]:
    """What lies within ``[start, end)``, with what goes on since these moments."""
    clipped = intervals.clip(start, end)
    if not open_since or min(open_since) >= end:
        return clipped
    whole = IntervalSet(clipped)
    whole.add(max(start, min(open_since)), end)
    return list(whole)
