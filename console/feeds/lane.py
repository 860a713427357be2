"""A device's lane as it grows: what is settled is asked of the timeline once."""

from __future__ import annotations

from bisect import bisect_right

from prover.timeline import Segment, Timeline
from widgets.timegrid import LaneSegment

_SETTLED_S = 3.0
"""A span is told when it ends, within a moment: what lies this far back is told completely."""
_KEPT_S = 660.0


class LaneHistory:
    """The segments of one device, oldest first."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._settled: list[LaneSegment] = []
        self._until: float | None = None

    def segments(self, timeline: Timeline, begin: float, now: float) -> tuple[LaneSegment, ...]:
        """The lane from ``begin`` (at least) to ``now``."""
        if self._until is None:
            self._until = max(begin, now - _KEPT_S)
        fresh = [_lane(segment) for segment in timeline.segments(self._device, self._until, now)]
        old = self._settled
        place = bisect_right(old, begin, key=lambda segment: segment.end)
        whole = tuple(_joined(old[place:], fresh))
        self._settle(fresh, now)
        return whole

    def _settle(self, fresh: list[LaneSegment], now: float) -> None:
        limit = now - _SETTLED_S
        if self._until is None or limit <= self._until:
            return
        cut = [LaneSegment(s.start, min(s.end, limit), s.state, s.cause) for s in fresh if s.start < limit]
        self._settled = _joined(self._settled, cut)
        self._until = limit
        if self._settled and self._settled[0].end < now - 2 * _KEPT_S:
            place = bisect_right(self._settled, now - _KEPT_S, key=lambda segment: segment.end)
            del self._settled[:place]


def _joined(old: list[LaneSegment], fresh: list[LaneSegment]) -> list[LaneSegment]:
    """Two stretches in a row; the state that spans the seam becomes one segment again."""
    if old and fresh and (old[-1].state, old[-1].cause) == (fresh[0].state, fresh[0].cause):
        seam = LaneSegment(old[-1].start, fresh[0].end, old[-1].state, old[-1].cause)
        return [*old[:-1], seam, *fresh[1:]]
    return [*old, *fresh]


def _lane(segment: Segment) -> LaneSegment:
    return LaneSegment(segment.start, segment.end, segment.state, segment.cause)
