"""Which slot is begun next, as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.pipeline.scheduler import Assignment, Scheduler, cut


@pytest.mark.parametrize(
    ("partitions", "slot_size", "slots"),
    [
        (1, 0, [(0,)]),
        (1, 1, [(0,)]),
        (3, 0, [(0, 1, 2)]),
        (3, 1, [(0,), (1,), (2,)]),
        (5, 2, [(0, 1), (2, 3), (4,)]),
        (4, 4, [(0, 1, 2, 3)]),
        (2, 1024, [(0, 1)]),
    ],
)
def test_cut(partitions: int, slot_size: int, slots: list[tuple[int, ...]]) -> None:
    assert list(cut(partitions, slot_size)) == slots


@given(st.integers(1, 200), st.integers(0, 250))
def test_cut_keeps_every_partition_once_and_in_order(partitions: int, slot_size: int) -> None:
    slots = cut(partitions, slot_size)
    assert [index for slot in slots for index in slot] == list(range(partitions))
    sizes = [len(slot) for slot in slots]
    assert set(sizes[:-1]) <= {slot_size} and 0 < sizes[-1] <= (slot_size or partitions)


def taken(scheduler: Scheduler, slot_size: int = 1) -> list[tuple[int, tuple[int, ...]]]:
    found = []
    while (assignment := scheduler.next(slot_size)) is not None:
        found.append((assignment.job, assignment.partitions))
    return found


def test_older_jobs_first_then_lower_partitions() -> None:
    scheduler = Scheduler()
    scheduler.submit(7, 2)
    scheduler.submit(3, 2)
    assert taken(scheduler) == [(3, (0,)), (3, (1,)), (7, (0,)), (7, (1,))]
    assert scheduler.empty


def test_a_job_is_cut_when_it_starts() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 4)
    scheduler.submit(1, 4)
    assert scheduler.next(2) == Assignment(0, (0, 1), 0, cut_to=2)
    assert scheduler.next(4) == Assignment(0, (2, 3))
    assert scheduler.next(4) == Assignment(1, (0, 1, 2, 3), 0, cut_to=4)
    assert scheduler.next(4) is None


def test_what_is_made_again_goes_before_the_rest_of_its_job_but_not_before_older_jobs() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 1)
    scheduler.submit(1, 3)
    scheduler.submit(2, 1)
    assert scheduler.next(1) == Assignment(0, (0,), 0, cut_to=1)
    assert scheduler.next(1) == Assignment(1, (0,), 0, cut_to=1)
    scheduler.again(1, (0,), attempt=1)
    scheduler.again(0, (0,), attempt=1)
    assert scheduler.next(1) == Assignment(0, (0,), 1)
    assert scheduler.next(1) == Assignment(1, (0,), 1)
    assert taken(scheduler) == [(1, (1,)), (1, (2,)), (2, (0,))]


def test_dropping_forgets_only_that_job() -> None:
    scheduler = Scheduler()
    for job in range(3):
        scheduler.submit(job, 2)
    scheduler.next(1)
    scheduler.drop(0)
    scheduler.drop(99)
    scheduler.drop(1)
    assert taken(scheduler) == [(2, (0,)), (2, (1,))]


def test_waiting_slots_counts_what_would_be_begun() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 5)
    scheduler.submit(1, 3)
    assert [scheduler.waiting_slots(size) for size in (0, 1, 2)] == [2, 8, 5]
    scheduler.next(2)
    assert scheduler.waiting_slots(1) == 2 + 3
    scheduler.again(0, (0, 1), 1)
    assert scheduler.waiting_slots(1) == 3 + 3


def test_bad_jobs() -> None:
    scheduler = Scheduler()
    with pytest.raises(ValueError, match="at least one"):
        scheduler.submit(0, 0)
    scheduler.submit(0, 1)
    with pytest.raises(ValueError, match="known"):
        scheduler.submit(0, 1)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.lists(st.integers(0, 3), min_size=1, max_size=50))
def test_every_partition_is_begun_once(jobs: list[int], sizes: list[int]) -> None:
    scheduler = Scheduler()
    for number, partitions in enumerate(jobs):
        scheduler.submit(number, partitions)
    begun: list[tuple[int, int]] = []
    turn = 0
    while (assignment := scheduler.next(sizes[turn % len(sizes)])) is not None:
        begun += [(assignment.job, index) for index in assignment.partitions]
        turn += 1
    assert begun == [(number, index) for number, partitions in enumerate(jobs) for index in range(partitions)]
