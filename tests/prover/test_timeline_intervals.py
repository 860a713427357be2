"""Interval sets against sets of integers."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from prover.intervals import IntervalSet, intersect, length, subtract

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=20)


def points(intervals: object) -> set[int]:
    """The unit cells that integer intervals cover."""
    return {cell for start, end in intervals for cell in range(int(start), int(end))}  # type: ignore[attr-defined]


@given(INTERVALS)
def test_union_is_sorted_disjoint_and_nowhere_touching(pairs: list[tuple[int, int]]) -> None:
    union = list(IntervalSet(pairs))
    assert points(union) == points(pairs)
    assert all(start < end for start, end in union)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(union))


@given(INTERVALS, st.integers(0, 40), st.integers(0, 40))
def test_clip_and_cover(pairs: list[tuple[int, int]], start: int, end: int) -> None:
    intervals = IntervalSet(pairs)
    expected = points(pairs) & set(range(start, end))
    assert points(intervals.clip(start, end)) == expected
    assert intervals.covered(start, end) == len(expected)


@given(INTERVALS, INTERVALS)
def test_algebra(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    first, second = list(IntervalSet(one)), list(IntervalSet(two))
    assert points(intersect(first, second)) == points(one) & points(two)
    assert points(subtract(first, second)) == points(one) - points(two)
    assert length(intersect(first, second)) + length(subtract(first, second)) == length(first)


@given(INTERVALS, st.integers(0, 40))
def test_pruning_keeps_what_does_not_end_before(pairs: list[tuple[int, int]], before: int) -> None:
    intervals = IntervalSet(pairs)
    intervals.prune(before)
    assert points(intervals.clip(before, 100)) == points(pairs) & set(range(before, 100))


def test_pruning_bounds_memory() -> None:
    intervals = IntervalSet()
    for second in range(100_000):
        intervals.add(2 * second, 2 * second + 1)
        intervals.prune(2 * second - 1000)
    assert len(intervals) < 1500
    assert intervals.covered(199_000, 200_000) == 500
