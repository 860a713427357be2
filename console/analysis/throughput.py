"""Throughput now: from one completion to the next, so that a single slow proof moves it and the tick does not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from console.frame import Throughput
from prover.model import EventKind
from prover.timeline import Completion, RunFigures

_LAST = 12
_LAST_S = 20.0
"""What counts as now: so many completions, or those of so many seconds where they are more."""
_TREND = 0.1


def throughput(run: RunFigures, completions: Sequence[Completion], begin: float, now: float) -> Throughput:
    """Figures of the stretch ``run``; the rate from its last completions."""
    ends = sorted(c.ended for c in completions if c.kind is EventKind.JOB_DONE and begin <= c.ended <= now)
    recent = max(_LAST + 1, sum(end > now - _LAST_S for end in ends))
    between = [b - a for a, b in pairwise(ends[-recent:])]
    rate: float | None = None
    if between:
        mean = sum(between) / len(between)
        waited = now - ends[-1]
        # A completion that is overdue counts as if it came now, so that a stall shows.
        seconds = (sum(between) + waited) / (len(between) + 1) if waited > 2 * mean else mean
        rate = 60 / seconds if seconds > 0 else None
    devices = run.devices
    return Throughput(
        proofs_per_minute=rate,
        trend=_trend(between),
        seconds_per_proof=run.steady_seconds_per_proof,
        steady_utilisation=devices[0].steady_utilisation if devices else None,
        ceiling_proofs_per_minute=run.ceiling_proofs_per_minute,
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
