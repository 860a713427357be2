"""Throughput now: from one completion to the next, so that a single slow proof moves it and the tick does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from console.frame import Throughput
from prover.model import EventKind
from prover.timeline import Completion, RunFigures

_LAST = 12
_LAST_S = 20.0
"""What counts as now: so many completions, or those of so many seconds where they are more."""
_TREND = 0.1


def throughput(
    run: RunFigures,
    completions: Sequence[Completion],
    begin: float,
    now: float,
    busy: Callable[[float, float], float],
) -> Throughput:
    """Figures of the stretch ``run``; the rate, its inverse and its ceiling from its last completions.

    ``busy(start, end)`` gives the busy seconds of the busiest device. The ceiling is taken over the very proofs that
    the rate is taken over: over another stretch, or with proofs half done in it, it could fall below the rate.
    """
    ends = sorted(c.ended for c in completions if c.kind is EventKind.JOB_DONE and begin <= c.ended <= now)
    recent = max(_LAST + 1, sum(end > now - _LAST_S for end in ends))
    between = [b - a for a, b in pairwise(ends[-recent:])]
    rate: float | None = None
    ceiling = run.ceiling_proofs_per_minute
    if between:
        computed = busy(ends[-len(between) - 1], ends[-1])
        ceiling = 60 * len(between) / computed if computed > 0 else None
        mean = sum(between) / len(between)
        waited = now - ends[-1]
        # A completion that is overdue counts as if it came now, so that a stall shows.
        seconds = (sum(between) + waited) / (len(between) + 1) if waited > 2 * mean else mean
        rate = 60 / seconds if seconds > 0 else None
    devices = run.devices
    return Throughput(
        proofs_per_minute=rate,
        trend=_trend(between),
        seconds_per_proof=60 / rate if rate else run.steady_seconds_per_proof,
        steady_utilisation=devices[0].steady_utilisation if devices else None,
        ceiling_proofs_per_minute=ceiling,
    )


def _trend(between: Sequence[float]) -> int:
    """Whether the later half of the times between proofs is shorter (1) or longer (-1) than the earlier."""
    half = len(between) // 2
    if half < 2:
        return 0
    before = sum(between[:half]) / half
    after = sum(between[-half:]) / half
    if before <= 0 or abs(after - before) <= _TREND * before:
        return 0
    return 1 if after < before else -1
