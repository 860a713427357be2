"""Which slot is begun next, as tables."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prover.model import Priority
from prover.pipeline.scheduler import Assignment, Cut, Part, Scheduler, cut


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


ONE = Cut()
STANDARD = Cut(slot_size=0)


def taken(scheduler: Scheduler, how: Cut = ONE, now: float = 0.0) -> list[Part]:
    found: list[Part] = []
    while (assignment := scheduler.next(how, now)) is not None:
        found += assignment.parts
    return found


def jobs_in_order(scheduler: Scheduler, how: Cut = STANDARD, now: float = 0.0) -> list[int]:
    return [part.job for part in taken(scheduler, how, now)]


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
    assert scheduler.next(Cut(2)) == Assignment((Part(0, (0, 1)),), 0, cut_to=2, members=(0,))
    assert scheduler.next(Cut(4)) == Assignment((Part(0, (2, 3)),))
    assert scheduler.next(Cut(4)) == Assignment((Part(1, (0, 1, 2, 3)),), 0, cut_to=4, members=(1,))
    assert scheduler.next(Cut(4)) is None


def test_only_missing_partitions_are_begun() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, (1, 4, 5))
    assert scheduler.remaining(0) == (1, 4, 5)
    assert taken(scheduler, Cut(2)) == [(0, (1, 4)), (0, (5,))]
    assert scheduler.remaining(0) == ()


def test_what_is_made_again_goes_before_the_rest_of_its_job_but_not_before_older_jobs() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 1)
    scheduler.submit(1, 3)
    scheduler.submit(2, 1)
    assert scheduler.next(ONE) == Assignment((Part(0, (0,)),), 0, cut_to=1, members=(0,))
    assert scheduler.next(ONE) == Assignment((Part(1, (0,)),), 0, cut_to=1, members=(1,))
    scheduler.again(Part(1, (0,)), 1)
    scheduler.again(Part(0, (0,)), 1)
    assert scheduler.next(ONE) == Assignment((Part(0, (0,)),), 1)
    assert scheduler.next(ONE) == Assignment((Part(1, (0,)),), 1)
    assert taken(scheduler) == [(1, (1,)), (1, (2,)), (2, (0,))]


def test_dropping_forgets_only_that_job() -> None:
    scheduler = Scheduler()
    for job in range(3):
        scheduler.submit(job, 2)
    scheduler.next(ONE)
    scheduler.drop(0)
    scheduler.drop(99)
    scheduler.drop(1)
    assert taken(scheduler) == [(2, (0,)), (2, (1,))]


def test_waiting_slots_counts_what_would_be_begun() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 5)
    scheduler.submit(1, 3)
    assert [scheduler.waiting_slots(size) for size in (0, 1, 2)] == [2, 8, 5]
    scheduler.next(Cut(2))
    assert scheduler.waiting_slots(1) == 2 + 3
    scheduler.again(Part(0, (0, 1)), 1)
    assert scheduler.waiting_slots(1) == 3 + 3


def test_bad_jobs() -> None:
    scheduler = Scheduler()
    with pytest.raises(ValueError, match="at least one"):
        scheduler.submit(0, 0)
    scheduler.submit(0, 1)
    with pytest.raises(ValueError, match="known"):
        scheduler.submit(0, 1)


def test_class_then_deadline_then_age() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 1, priority=Priority.LOW)
    scheduler.submit(1, 1)
    scheduler.submit(2, 1, deadline=50.0)
    scheduler.submit(3, 1, deadline=20.0)
    scheduler.submit(4, 1, priority=Priority.HIGH)
    scheduler.submit(5, 1, priority=Priority.CRITICAL, deadline=99.0)
    scheduler.submit(6, 1, priority=Priority.CRITICAL)
    assert scheduler.critical
    assert jobs_in_order(scheduler) == [5, 6, 4, 3, 2, 1, 0]
    assert not scheduler.critical


def test_a_critical_job_goes_before_the_rest_of_one_that_runs() -> None:
    scheduler = Scheduler()
    scheduler.submit(0, 3)
    scheduler.next(ONE)
    scheduler.submit(1, 1, priority=Priority.CRITICAL)
    assert taken(scheduler) == [(1, (0,)), (0, (1,)), (0, (2,))]


def test_age_moves_a_job_up_but_never_before_a_critical_one() -> None:
    scheduler = Scheduler(ageing_s=10.0)
    scheduler.submit(0, 1, priority=Priority.LOW, now=0.0)
    scheduler.submit(1, 1, priority=Priority.NORMAL, now=5.0)
    scheduler.submit(2, 1, priority=Priority.HIGH, now=19.0)
    scheduler.submit(3, 1, priority=Priority.CRITICAL, now=100.0)
    early = copy.deepcopy(scheduler)
    assert jobs_in_order(early, now=9.9) == [3, 2, 1, 0]
    assert jobs_in_order(copy.deepcopy(scheduler), now=10.0) == [3, 2, 0, 1]  # now of one class: the older first
    assert jobs_in_order(scheduler, now=1000.0) == [3, 0, 1, 2]


def test_another_priority_counts_from_then_on() -> None:
    scheduler = Scheduler(ageing_s=10.0)
    scheduler.submit(0, 1, now=0.0)
    scheduler.submit(1, 1, now=0.0)
    scheduler.reprioritise(0, Priority.LOW, now=9.0)
    assert jobs_in_order(copy.deepcopy(scheduler), now=9.0) == [1, 0]
    assert jobs_in_order(copy.deepcopy(scheduler), now=18.0) == [1, 0]  # 1 is high by now, 0 still low
    assert jobs_in_order(copy.deepcopy(scheduler), now=29.0) == [0, 1]  # both high: the older
    scheduler.reprioritise(1, Priority.CRITICAL, now=9.0)
    assert scheduler.critical
    scheduler.reprioritise(99, Priority.LOW, now=9.0)


def test_jobs_of_the_circuit_at_hand_go_together_until_age_says_otherwise() -> None:
    scheduler = Scheduler(ageing_s=10.0)
    for job, circuit in enumerate("abab"):
        scheduler.submit(job, 1, circuit=circuit, now=0.0)
    assert jobs_in_order(copy.deepcopy(scheduler), Cut(sort_by_type=True)) == [0, 2, 1, 3]
    assert jobs_in_order(copy.deepcopy(scheduler), Cut(sort_by_type=False)) == [0, 1, 2, 3]
    assert jobs_in_order(copy.deepcopy(scheduler), Cut(sort_by_type=True), now=10.0) == [0, 1, 2, 3]
    scheduler.submit(4, 1, circuit="b", deadline=5.0)
    assert jobs_in_order(scheduler, Cut(sort_by_type=True)) == [4, 1, 3, 0, 2]


def test_a_batch_fills_or_its_time_comes() -> None:
    how = Cut(slot_size=0, max_batch_size=3, max_batch_wait_s=5.0)
    scheduler = Scheduler()
    scheduler.submit(0, 2, now=1.0)
    scheduler.submit(1, 1, now=2.0)
    assert scheduler.next(how, 3.0) is None and scheduler.ready_at == 6.0
    full = copy.deepcopy(scheduler)
    full.submit(2, 2, now=4.0)
    full.submit(3, 2, now=4.0)
    parts = (Part(0, (0, 1)), Part(1, (0,)), Part(2, (0, 1)))
    assert full.next(how, 4.0) == Assignment(parts, 0, cut_to=5, members=(0, 1, 2))
    assert full.next(how, 4.0) is None and full.ready_at == 9.0
    assert scheduler.next(how, 6.0) == Assignment(parts[:2], 0, cut_to=3, members=(0, 1))
    assert scheduler.empty and scheduler.next(how, 6.0) is None and scheduler.ready_at is None


def test_slots_of_a_batch_go_across_its_jobs() -> None:
    scheduler = Scheduler()
    for job in range(3):
        scheduler.submit(job, 3)
    how = Cut(slot_size=2, max_batch_size=2)
    assert scheduler.next(how) == Assignment((Part(0, (0, 1)),), 0, cut_to=2, members=(0, 1))
    assert scheduler.next(how) == Assignment((Part(0, (2,)), Part(1, (0,))))
    scheduler.drop(0)
    assert scheduler.remaining(1) == (1, 2) and scheduler.remaining(0) == ()
    scheduler.again(Part(1, (0,)), 0)
    assert scheduler.next(how) == Assignment((Part(1, (0,)),))
    assert scheduler.next(how) == Assignment((Part(1, (1, 2)),))
    scheduler.drop(1)
    assert taken(scheduler, Cut(slot_size=2, max_batch_size=9)) == [(2, (0, 1)), (2, (2,))]


def test_other_circuits_and_urgent_jobs_join_no_batch_and_wait_for_none() -> None:
    how = Cut(slot_size=0, max_batch_size=2, max_batch_wait_s=5.0)
    scheduler = Scheduler()
    scheduler.submit(0, 1, circuit="a")
    scheduler.submit(1, 1, circuit="b")
    scheduler.submit(2, 1, circuit="a", priority=Priority.HIGH)
    scheduler.submit(3, 1, circuit="a", priority=Priority.LOW)
    assert taken(scheduler, how) == [(2, (0,))]
    scheduler.submit(4, 1, circuit="b")
    assert scheduler.next(how) == Assignment((Part(1, (0,)), Part(4, (0,))), 0, cut_to=2, members=(1, 4))
    assert taken(scheduler, how) == [] and scheduler.ready_at == 5.0
    scheduler.drop(0)
    scheduler.drop(3)
    assert scheduler.empty


class AnyScheduling(RuleBasedStateMachine):
    """Whatever is asked: each partition is begun exactly once unless its job was dropped or it is asked for again, and
    nothing of a lower class is begun while a critical job waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(ageing_s=7.0)
        self.now = 0.0
        self.left: dict[int, set[int]] = {}
        self.priority: dict[int, Priority] = {}
        self.count = 0

    @rule(
        partitions=st.integers(1, 5),
        circuit=st.sampled_from("ab"),
        priority=st.sampled_from(Priority),
        deadline=st.none() | st.floats(0, 50),
    )
    def submit(self, partitions: int, circuit: str, priority: Priority, deadline: float | None) -> None:
        job, self.count = self.count, self.count + 1
        self.scheduler.submit(job, partitions, circuit=circuit, priority=priority, deadline=deadline, now=self.now)
        self.left[job], self.priority[job] = set(range(partitions)), priority

    @rule(slot=st.integers(0, 4), batch=st.integers(1, 3), wait=st.sampled_from([0.0, 3.0]), sort=st.booleans())
    def begin(self, slot: int, batch: int, wait: float, sort: bool) -> None:
        how = Cut(slot, batch, wait, sort)
        critical = {job for job, left in self.left.items() if left and self.priority[job] is Priority.CRITICAL}
        ahead = self.scheduler.peek(how, self.now)
        assert self.scheduler.peek(how, self.now) == ahead
        assignment = self.scheduler.next(how, self.now)
        assert ahead == (None if assignment is None else assignment.parts)
        if assignment is None:
            assert all(not left for left in self.left.values()) or (self.scheduler.ready_at or 0) > self.now
            assert not critical
            return
        for part in assignment.parts:
            assert set(part.partitions) <= self.left[part.job]
            self.left[part.job] -= set(part.partitions)
        assert not critical or critical & {part.job for part in assignment.parts}

    @precondition(lambda self: self.count)
    @rule(data=st.data(), priority=st.sampled_from(Priority))
    def reprioritise(self, data: st.DataObject, priority: Priority) -> None:
        job = data.draw(st.integers(0, self.count - 1))
        shared = self.scheduler._of_job.get(job)
        self.scheduler.reprioritise(job, priority, self.now)
        if shared is not None:
            for member in shared.members:
                self.priority[member] = shared.priority

    @precondition(lambda self: self.count)
    @rule(data=st.data(), attempt=st.integers(0, 1))
    def again(self, data: st.DataObject, attempt: int) -> None:
        job = data.draw(st.sampled_from(sorted(self.left)) if self.left else st.none())
        if job is None or 0 in self.left[job]:
            return
        priority = self.priority[job]
        self.scheduler.again(Part(job, (0,)), attempt, priority=priority, submitted=0.0, now=self.now)
        self.left[job].add(0)
        row = self.scheduler._of_job[job]
        self.priority[job] = row.priority

    @precondition(lambda self: self.count)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        job = data.draw(st.integers(0, self.count - 1))
        self.scheduler.drop(job)
        self.left.pop(job, None)

    @rule(seconds=st.floats(0, 9))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def it_knows_what_is_left(self) -> None:
        for job, left in self.left.items():
            assert set(self.scheduler.remaining(job)) == left
        assert self.scheduler.empty == (not any(self.left.values()))


AnyScheduling.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_any_scheduling = AnyScheduling.TestCase
