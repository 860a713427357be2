"""The time axis that samples, lane and markers share: a window of seconds cut into one bucket a column.

Buckets lie at fixed multiples of their length, so a finished column never changes again: the picture moves left by
whole columns and nothing in it flickers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from prover.model import Cause, DeviceState

_SETTLED_S = 4.0
_HOLD_S = 3.0
"""A sample stands for the time since the one before it, but for no longer than this."""


@dataclass(frozen=True, slots=True)
class LaneSegment:
    """What the device did from ``start`` to ``end``; ``cause`` says why it did not compute, ``None`` if it did."""

    start: float
    end: float
    state: DeviceState
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """An instant worth a sign on the axis: a knob that came into force."""

    at: float
    text: str


@dataclass(slots=True)
class LaneCell:
    """What one column holds: seconds known, seconds of computing, seconds of each other cause."""

    known: float = 0.0
    busy: float = 0.0
    lost: dict[tuple[DeviceState, Cause | None], float] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """Busy share of what is known, or ``None`` where nothing is."""
        return self.busy / self.known if self.known > 0 else None

    @property
    def gap(self) -> tuple[DeviceState, Cause | None] | None:
        """What kept the device from computing for the longest part of the column."""
        return max(self.lost, key=self.lost.__getitem__) if self.lost else None


class TimeGrid:
    """``columns`` buckets of ``cell`` seconds, the last of which holds ``now``. Buckets are numbered from time zero."""

    __slots__ = ("cell", "columns", "first", "now", "window")

    def __init__(self, now: float, window: float, columns: int) -> None:
        self.now = now
        self.window = window
        self.columns = max(1, columns)
        self.cell = window / self.columns
        """Seconds a column."""
        self.first = math.floor(now / self.cell) + 1 - self.columns
        """Number of the leftmost bucket."""

    def column(self, at: float) -> int | None:
        """The column of an instant, or ``None`` outside the window."""
        column = math.floor(at / self.cell) - self.first
        return column if 0 <= column < self.columns else None

    def pieces(self, start: float, end: float, since: int) -> Iterable[tuple[int, float]]:
        """The buckets from ``since`` on that ``[start, end]`` touches, counted from it, with the seconds inside."""
        cell = self.cell
        start = max(start, since * cell)
        end = min(end, self.now)
        if end <= start:
            return
        left, right = math.floor(start / cell), math.floor(end / cell)
        if left == right:
            yield left - since, end - start
            return
        yield left - since, (left + 1) * cell - start
        for bucket in range(left + 1, right):
            yield bucket - since, cell
        if end > right * cell and right < self.first + self.columns:
            yield right - since, end - right * cell

    def lane(self, segments: Sequence[LaneSegment], since: int | None = None) -> list[LaneCell]:
        """The lane by bucket, from the bucket ``since`` (the leftmost) on. ``segments`` are in order of time."""
        since = self.first if since is None else since
        cells = [LaneCell() for _ in range(self.first + self.columns - since)]
        begin = since * self.cell
        for segment in reversed(segments):
            if segment.end <= begin:
                break
            computing = segment.state is DeviceState.COMPUTING
            key = (segment.state, segment.cause)
            for place, seconds in self.pieces(segment.start, segment.end, since):
                cell = cells[place]
                cell.known += seconds
                if computing:
                    cell.busy += seconds
                else:
                    cell.lost[key] = cell.lost.get(key, 0.0) + seconds
        return cells

    def mean(self, samples: Sequence[tuple[float, float]], since: int | None = None) -> list[float | None]:
        """The mean of a sampled series by bucket; each sample stands for the time since the one before it."""
        since = self.first if since is None else since
        count = self.first + self.columns - since
        weight, total = [0.0] * count, [0.0] * count
        begin = since * self.cell
        for (before, _), (at, value) in zip(reversed(samples[:-1]), reversed(samples[1:]), strict=True):
            if at <= begin:
                break
            for place, seconds in self.pieces(max(before, at - _HOLD_S), at, since):
                weight[place] += seconds
                total[place] += value * seconds
        means: list[float | None] = [t / w if w > 0 else None for t, w in zip(total, weight, strict=True)]
        # The newest column may have begun after the last sample: show that sample until the next one comes.
        if samples and means and means[-1] is None and self.now - samples[-1][0] < _HOLD_S:
            means[-1] = samples[-1][1]
        return means

    def lowest(self, samples: Sequence[tuple[float, float]], since: int | None = None) -> list[float | None]:
        """The lowest sample of each bucket: a gap that is shorter than a column is still seen.

        A sample that only touches a bucket is left out; a bucket with no other shows the mean of what touches it.
        """
        since = self.first if since is None else since
        lows: list[float | None] = list(self.mean(samples, since))
        taken = [False] * len(lows)
        begin = since * self.cell
        for (before, _), (at, value) in zip(reversed(samples[:-1]), reversed(samples[1:]), strict=True):
            if at <= begin:
                break
            start = max(before, at - _HOLD_S)
            enough = 0.5 * min(self.cell, at - start)
            for place, seconds in self.pieces(start, at, since):
                low = lows[place]
                if seconds >= enough and (not taken[place] or low is None or value < low):
                    lows[place], taken[place] = value, True
        return lows


Cell = TypeVar("Cell")


class Settled(Generic[Cell]):
    """Columns that are worked out once: what lies ``_SETTLED_S`` back does not change while the cell length stays."""

    def __init__(self) -> None:
        self._length = 0.0
        self._begin = 0
        self._cells: list[Cell] = []

    def columns(self, grid: TimeGrid, work_out: Callable[[int], list[Cell]]) -> list[Cell]:
        """All columns of ``grid``; ``work_out(bucket)`` gives those from a bucket on."""
        known_to = self._begin + len(self._cells)
        if grid.cell != self._length or not self._begin <= grid.first <= known_to:
            self._length, self._begin, self._cells = grid.cell, grid.first, []
        self._cells = self._cells[grid.first - self._begin :]
        self._begin = grid.first
        since = self._begin + len(self._cells)
        fresh = work_out(since)
        settled = math.floor((grid.now - _SETTLED_S) / grid.cell) - since
        columns = self._cells + fresh
        self._cells += fresh[: max(0, settled)]
        return columns
