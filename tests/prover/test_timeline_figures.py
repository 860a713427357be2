"""Statistics and gap clusters."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.figures import ci95, gap_clusters, nearest_rank, phase_statistics, stdev
from prover.model import Cause

SECONDS = st.lists(st.floats(0, 1e3), min_size=1, max_size=60)


@given(SECONDS, st.floats(0.01, 1.0))
def test_nearest_rank_is_a_sample_with_enough_at_or_below(samples: list[float], quantile: float) -> None:
    ordered = sorted(samples)
    value = nearest_rank(ordered, quantile)
    assert value in samples
    assert sum(sample <= value for sample in samples) >= quantile * len(samples) - 1e-9
    assert sum(sample < value for sample in samples) < quantile * len(samples)


@given(SECONDS)
def test_phase_statistics_agree_with_the_standard_library(samples: list[float]) -> None:
    found = phase_statistics(samples)
    assert found is not None
    assert (found.count, found.min_s, found.max_s) == (len(samples), min(samples), max(samples))
    assert found.mean_s == pytest.approx(statistics.fmean(samples))
    expected = statistics.stdev(samples) if len(samples) > 1 else None
    assert found.stdev_s == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_nothing_has_no_statistics() -> None:
    assert phase_statistics([]) is None
    assert stdev([1.0]) is None
    assert ci95([1.0]) is None


@pytest.mark.parametrize(("count", "t"), [(2, 12.706), (5, 2.776), (31, 2.042), (61, 2.0003), (1001, 1.9623)])
def test_confidence_intervals_by_students_t(count: int, t: float) -> None:
    samples = [0.0, 1.0] * (count // 2) + [0.5] * (count % 2)
    spread = stdev(samples)
    assert spread is not None
    assert ci95(samples) == pytest.approx(t * spread / count**0.5, rel=1e-3)


def test_clusters_split_at_a_jump_of_both_kinds_then_by_cause() -> None:
    gaps = [(length, Cause.SYNTHESIS) for length in (1.0, 1.1, 1.2, 4.0, 4.1)]
    gaps += [(0.001, Cause.LOCK), (0.1, Cause.LOCK), (0.2, Cause.LOCK), (1.15, Cause.LOCK)]
    found = [(c.count, c.centre_s, c.low_s, c.high_s, c.cause) for c in gap_clusters(gaps)]
    assert found == [
        (3, 1.1, 1.0, 1.2, Cause.SYNTHESIS),
        (3, 0.1, 0.001, 0.2, Cause.LOCK),  # 100 times longer, yet less than 0.2 s
        (2, 4.0, 4.0, 4.1, Cause.SYNTHESIS),
        (1, 1.15, 1.15, 1.15, Cause.LOCK),
    ]
    assert gap_clusters([]) == []


@given(st.lists(st.tuples(st.floats(0, 20), st.sampled_from(list(Cause))), max_size=40))
def test_clusters_keep_every_gap(gaps: list[tuple[float, Cause]]) -> None:
    clusters = gap_clusters(gaps)
    assert sum(cluster.count for cluster in clusters) == len(gaps)
    for cause in Cause:
        assert sum(c.count for c in clusters if c.cause is cause) == sum(other is cause for _, other in gaps)
    assert all(cluster.low_s <= cluster.centre_s <= cluster.high_s for cluster in clusters)
    counts = [cluster.count for cluster in clusters]
    assert counts == sorted(counts, reverse=True)
