"""Figures from samples, as the contract defines them: nearest-rank quantiles, spread, gap clusters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prover.model import Cause

# Two-sided 95 % quantiles of Student's t distribution for 1, 2, ... degrees of freedom (standard table).
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_Z95 = 1.959964
CLUSTER_RATIO = 1.5
CLUSTER_STEP_S = 0.2


@dataclass(frozen=True, slots=True)
class PhaseStatistics:
    """Seconds of one phase. ``stdev_s`` is the sample standard deviation, None for a single sample."""

    count: int
    mean_s: float
    stdev_s: float | None
    p50_s: float
    p95_s: float
    min_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class GapCluster:
    """Gaps of about the same length and one cause. ``centre_s`` is their median (nearest rank)."""

    count: int
    centre_s: float
    low_s: float
    high_s: float
    cause: Cause


def nearest_rank(ordered: Sequence[float], quantile: float) -> float:
    """The quantile of a non-empty ascending sequence: its value of rank ceil(quantile * n), at least 1."""
    return ordered[max(1, math.ceil(quantile * len(ordered))) - 1]


def stdev(samples: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1); None for fewer than two."""
    if len(samples) < 2:
        return None
    mean = math.fsum(samples) / len(samples)
    return math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1))


def ci95(samples: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of the mean (Student's t); None for fewer than two samples."""
    spread = stdev(samples)
    if spread is None:
        return None
    freedom = len(samples) - 1
    # beyond the table, the first term of the expansion of t in 1 / freedom is right to a thousandth
    t = _T95[freedom - 1] if freedom <= len(_T95) else _Z95 + (_Z95**3 + _Z95) / (4 * freedom)
    return t * spread / math.sqrt(len(samples))


def phase_statistics(seconds: Iterable[float]) -> PhaseStatistics | None:
    """Statistics of samples; None if there are none."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    return PhaseStatistics(
        count=len(ordered),
        mean_s=math.fsum(ordered) / len(ordered),
        stdev_s=stdev(ordered),
        p50_s=nearest_rank(ordered, 0.50),
        p95_s=nearest_rank(ordered, 0.95),
        min_s=ordered[0],
        max_s=ordered[-1],
    )


def gap_clusters(gaps: Iterable[tuple[float, Cause]]) -> list[GapCluster]:
    """Clusters of gaps, given as (seconds, cause), largest count first (ties: longest in total, then shortest centre).

    The sorted lengths are split where one is over 1.5 times the one before and 0.2 s longer; then each stretch is
    split by cause.
    """
    ordered = sorted(gaps)
    stretches: list[list[tuple[float, Cause]]] = []
    for gap in ordered:
        before = stretches[-1][-1][0] if stretches else None
        if before is None or (gap[0] > CLUSTER_RATIO * before and gap[0] - before > CLUSTER_STEP_S):
            stretches.append([])
        stretches[-1].append(gap)
    clusters = []
    for stretch in stretches:
        for cause in dict.fromkeys(cause for _, cause in stretch):
            lengths = [seconds for seconds, other in stretch if other is cause]
            clusters.append(GapCluster(len(lengths), nearest_rank(lengths, 0.5), lengths[0], lengths[-1], cause))
    return sorted(clusters, key=lambda cluster: (-cluster.count, -cluster.count * cluster.centre_s, cluster.centre_s))
