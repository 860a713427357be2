"""The time axis that samples, lane and markers share: a window of seconds cut into one bucket a column.

Buckets lie at fixed multiples of their length, so a finished column never changes again: the picture moves left by
whole columns and nothing in it flickers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prover.model import Cause, DeviceState

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


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """``columns`` buckets of ``cell`` seconds, the last of which holds ``now``."""

    now: float
    window: float
    columns: int

    @property
    def cell(self) -> float:
        """Seconds a column."""
        return self.window / max(1, self.columns)

    @property
    def first(self) -> int:
        """Number of the leftmost bucket, counted from time zero."""
        return math.floor(self.now / self.cell) + 1 - self.columns

    def column(self, at: float) -> int | None:
        """The column of an instant, or ``None`` outside the window."""
        column = math.floor(at / self.cell) - self.first
        return column if 0 <= column < self.columns else None

    def pieces(self, start: float, end: float) -> Iterable[tuple[int, float]]:
        """The columns that ``[start, end]`` touches, each with the seconds inside it."""
        cell, first = self.cell, self.first
        start = max(start, first * cell)
        end = min(end, self.now)
        if end <= start:
            return
        left, right = math.floor(start / cell) - first, math.floor(end / cell) - first
        for column in range(max(0, left), min(self.columns - 1, right) + 1):
            begin = (first + column) * cell
            seconds = min(end, begin + cell) - max(start, begin)
            if seconds > 0:
                yield column, seconds

    def lane(self, segments: Sequence[LaneSegment]) -> list[LaneCell]:
        """The lane by column."""
        cells = [LaneCell() for _ in range(self.columns)]
        begin = self.first * self.cell
        for segment in segments:
            if segment.end <= begin:
                continue
            computing = segment.state is DeviceState.COMPUTING
            for column, seconds in self.pieces(segment.start, segment.end):
                cell = cells[column]
                cell.known += seconds
                if computing:
                    cell.busy += seconds
                else:
                    key = (segment.state, segment.cause)
                    cell.lost[key] = cell.lost.get(key, 0.0) + seconds
        return cells

    def mean(self, samples: Sequence[tuple[float, float]]) -> list[float | None]:
        """The mean of a sampled series by column; each sample stands for the time since the one before it."""
        weight = [0.0] * self.columns
        total = [0.0] * self.columns
        before: float | None = None
        for at, value in samples:
            if before is not None:
                for column, seconds in self.pieces(max(before, at - _HOLD_S), at):
                    weight[column] += seconds
                    total[column] += value * seconds
            before = at
        means: list[float | None] = [t / w if w > 0 else None for t, w in zip(total, weight, strict=True)]
        # The newest column may have begun after the last sample: show that sample until the next one comes.
        if samples and means and means[-1] is None and self.now - samples[-1][0] < _HOLD_S:
            means[-1] = samples[-1][1]
        return means
