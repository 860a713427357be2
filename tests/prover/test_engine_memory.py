"""The memory budget in the engine: what may begin, what is told of it, what changes live; never over, never stuck."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from engine_rig import Rig, rig
from fake_workload import FakeMemory
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.memory_limits import memory_limits
from prover.model import Cause, DeviceState, EventKind, KnobValue, MemoryView, Priority
from prover.pipeline.budget import Kind, Resident
from prover.pipeline.interfaces import Change, JobRequest

GIB = 1 << 30
KEY = Resident("key", Kind.KEYS, 20)


def memory(r: Rig) -> MemoryView:
    found = r.engine.snapshot().memory
    assert found is not None
    return found


def test_a_slot_takes_its_memory_and_gives_it_back_in_two_steps() -> None:
    with rig({"total_budget": 100}, memory=FakeMemory(6, 4, {Kind.MATRICES: 5}, (KEY,))) as r:
        assert memory(r) == MemoryView(100, 5, (("keys", 0), ("matrices", 5), ("working", 0), ("pinned", 0)), 5)
        r.submit(1, 1)
        used = []
        for end in (1.0, 1.1, 1.2, 2.6, 2.7):  # set-up, h2d, ntt, d2h, finalizing
            r.run(lambda end=end: r.time() >= 100 + end - 1e-9)  # type: ignore[misc]
            used.append(memory(r).used)
        assert used == [35, 35, 29, 29, 25]
        r.run()


def test_the_bound_is_the_budget_and_not_the_number_of_slots() -> None:
    with rig({"total_budget": 20, "synthesis_concurrency": 4, "synthesis_lookahead": 4}, memory=FakeMemory()) as r:
        job = r.submit(1, 12)
        r.run()
        r.check_delivered(job, 1, 12)
        assert r.workload.footprint is not None and r.workload.footprint.most <= 20
        assert 1 < r.engine.most_slots_alive <= 3, "the rest of a slot that lost its vectors is four"
    with rig({"total_budget": 200, "synthesis_concurrency": 4, "synthesis_lookahead": 4}, memory=FakeMemory()) as r:
        r.submit(1, 12)
        r.run()
        assert r.engine.most_slots_alive > 3


def test_a_device_that_starves_for_memory_says_so() -> None:
    with rig({"total_budget": 10, "synthesis_concurrency": 2}, memory=FakeMemory()) as r:
        r.submit(1, 3)
        seen = set()
        while not all(future.done() for future in r.futures.values()):
            r.run_for(0.05)
            device, view = r.engine.snapshot().devices[0], memory(r)
            assert r.timeline().state(0) == (device.state, device.cause)
            assert (device.cause is Cause.MEMORY) <= (view.waits_for is not None)
            seen.add((device.state, device.cause))
            if device.cause is Cause.MEMORY:
                assert view.waits_for is not None and view.waits_for.startswith("job job-1, partition ")
        assert (DeviceState.STARVED, Cause.MEMORY) in seen
        (first, *_) = r.timeline().gaps(0, 100, r.time())
        assert first.cause is Cause.MEMORY
        told = [event.fields["waits"] for event in r.events(EventKind.MEMORY)]
        assert told[:2] == [True, False] and told == [True, False] * (len(told) // 2)


def test_a_job_that_can_never_fit_fails_in_one_line_and_the_others_go_on() -> None:
    with rig({"total_budget": 25, "slot_size": 0}, memory=FakeMemory(lasting={Kind.KEYS: 5})) as r:
        large, small = r.submit(1, 3), r.submit(2, 2)
        r.run()
        assert r.error(large) == (
            "job failed: job job-1, partitions 0-2: needs 30 bytes beside 5 bytes that stay, "
            "the whole memory budget is 25 bytes: raise total_budget, or make slots smaller"
        )
        r.check_delivered(small, 2, 2)
        assert r.engine.snapshot().counters.jobs_failed == 1


@pytest.mark.parametrize("size", [0, 12])
def test_a_batch_that_can_never_fit_is_made_smaller(size: int) -> None:
    knobs: dict[str, KnobValue] = {"total_budget": 100, "max_batch_size": 8, "max_batch_wait_ms": 0, "slot_size": size}
    with rig({**knobs, "paused": True}, memory=FakeMemory(6, 4)) as r:
        jobs = [r.submit(inputs, 4) for inputs in range(6)]
        r.set("paused", False)
        r.run()
        for inputs, job in enumerate(jobs):
            r.check_delivered(job, inputs, 4)
        batches = [event.fields["batch"] for event in r.events(EventKind.JOB_STARTED)]
        assert batches == [2] * 6, "two jobs of 40 fit, three do not"


def test_a_change_for_which_a_waiting_job_would_never_fit_is_refused() -> None:
    with rig({"total_budget": 60, "slot_size": 2, "synthesis_concurrency": 1}, memory=FakeMemory()) as r:
        job = r.submit(1, 6)
        r.run_for(0.5)
        refused = r.engine.propose(Change("total_budget", 19))
        assert not refused.accepted and refused.reason == (
            "job job-1, partitions 0-1: needs 20 bytes, the whole memory budget is 19 bytes"
        )
        waiting = r.submit(2, 8)
        refused = r.engine.propose(Change("slot_size", 0))
        assert not refused.accepted and "partitions 0-7: needs 80 bytes" in str(refused.reason)
        r.set("total_budget", 20)
        r.run()
        r.check_delivered(job, 1, 6)
        r.check_delivered(waiting, 2, 8)


def test_a_change_of_the_slots_size_says_what_a_slot_takes() -> None:
    with rig(memory=FakeMemory(6 << 20, 4 << 20)) as r:
        assert r.engine.propose(Change("slot_size", 2)).note is None, "of which job?"
        r.submit(1, 10)
        standard = r.engine.propose(Change("slot_size", 0))
        assert standard.note == "standard mode: 100.0 MiB a slot of 10, one partition takes 10.0 MiB"
        assert r.engine.propose(Change("slot_size", 4)).note == "40.0 MiB a slot of 4, one partition takes 10.0 MiB"
        assert r.engine.propose(Change("slot_size", 1)).note is None
        r.run()


def test_a_budget_that_is_cut_takes_nothing_away_and_lands_when_it_is_kept() -> None:
    with rig({"total_budget": 100, "synthesis_concurrency": 4, "synthesis_lookahead": 4}, memory=FakeMemory()) as r:
        job = r.submit(1, 20)
        r.run_for(1.5)
        before = memory(r).used
        assert before > 30
        r.set("total_budget", 12)
        assert memory(r).used == before
        assert r.knob("total_budget").lagging == (f"memory {before - 12} bytes",)
        most = before
        while r.knob("total_budget").lagging:
            r.run_for(0.05)
            assert memory(r).used <= most, "nothing begins until it is below"
            most = memory(r).used
        assert r.knob("total_budget").in_force == 12
        r.run()
        r.check_delivered(job, 1, 20)


def test_a_budget_that_grows_lets_the_waiting_begin_at_once() -> None:
    with rig({"total_budget": 10, "synthesis_concurrency": 2}, memory=FakeMemory()) as r:
        r.submit(1, 2)
        r.run_for(0.5)
        assert memory(r).waits_for is not None
        r.set("total_budget", 20)
        r.run_for(0.0)
        assert memory(r).waits_for is None and memory(r).used == 20
        r.run()


def test_a_cancelled_job_waits_for_memory_no_more() -> None:
    with rig({"total_budget": 30, "synthesis_concurrency": 2, "slot_size": 0}, memory=FakeMemory()) as r:
        first, second, third = r.submit(1, 3), r.submit(2, 3), r.submit(3, 1)
        r.run_for(0.5)
        assert str(memory(r).waits_for).startswith("job job-2, partitions 0-2 waits for 30 bytes more")
        assert r.engine.cancel(second)
        r.run_for(0.0)
        assert str(memory(r).waits_for).startswith("job job-3, partition 0 waits for 10 bytes more")
        assert r.engine.cancel(third)
        r.run_for(0.0)
        assert memory(r).waits_for is None
        r.run()
        r.check_delivered(first, 1, 3)


def test_a_pause_gives_up_what_was_kept_for_the_next_slot() -> None:
    with rig({"total_budget": 10, "synthesis_concurrency": 2}, memory=FakeMemory()) as r:
        job = r.submit(1, 3)
        r.run_for(0.5)
        assert memory(r).waits_for is not None
        r.set("paused", True)
        r.run_for(0.0)
        assert memory(r).waits_for is None
        r.run(lambda: not r.knob("paused").lagging and memory(r).used in (0, 10))
        r.set("paused", False)
        r.run()
        r.check_delivered(job, 1, 3)


def test_an_idle_key_is_evicted_when_the_budget_is_cut_and_read_again() -> None:
    with rig({"total_budget": 100}, memory=FakeMemory(residents=(KEY,))) as r:
        r.submit(1, 1)
        r.run()
        assert memory(r).used == 20
        r.set("total_budget", 15)
        r.run_for(0.0)
        r.run(lambda: memory(r).used == 0)
        assert r.workload.footprint is not None and r.workload.footprint.evicted == ["key"]
        assert r.engine.submit(JobRequest(2, 1)).exception(timeout=30) is not None, "30 do not fit into 15"
        r.set("total_budget", 40)
        job = r.submit(3, 1)
        r.run()
        r.check_delivered(job, 3, 1)
        assert dict(memory(r).by_kind)["keys"] == 20


class Pool:
    """Pinned buffers of one byte, as a device has them."""

    least = 2

    def __init__(self) -> None:
        self.held = 0
        self.idle = 0
        self.allow = lambda nbytes: True
        self.shrunk = lambda nbytes: None

    def trim(self, nbytes: int) -> int:
        freed = min(nbytes, self.idle)
        self.idle -= freed
        self.held -= freed
        return freed


def test_idle_pinned_buffers_go_before_anything_waits_for_long() -> None:
    with rig({"total_budget": 40, "pinned_pool_bytes": 20}, memory=FakeMemory()) as r:
        pool = Pool()
        r.engine._admission.add_device(False, pool)
        assert dict(memory(r).by_kind)["pinned"] == 2
        assert pool.allow(20) and not pool.allow(1), "no more than the knob says"
        pool.held = pool.idle = 20
        assert memory(r).used == 22
        job = r.submit(1, 2)
        r.run_for(0.5)
        assert dict(memory(r).by_kind) == {"keys": 0, "matrices": 0, "working": 20, "pinned": 20}
        assert (pool.held, pool.idle) == (18, 18)
        r.run()
        r.check_delivered(job, 1, 2)
        pool.shrunk(8)
        pool.held = pool.idle = 10
        assert dict(memory(r).by_kind)["pinned"] == 12
        r.set("pinned_pool_bytes", 4)
        r.run_for(0.0)
        r.run(lambda: pool.held == 4)
        assert dict(memory(r).by_kind)["pinned"] == 6 and not r.knob("pinned_pool_bytes").lagging


def test_an_urgent_job_finds_what_the_last_one_needed() -> None:
    with rig({"total_budget": 40, "synthesis_concurrency": 4, "synthesis_lookahead": 4}, memory=FakeMemory()) as r:
        r.engine.submit(JobRequest(1, 1, priority=Priority.CRITICAL))
        r.submit(2, 8)
        r.run()
        view = memory(r)
        assert view.kept == 10 and view.peak <= 40


@pytest.mark.parametrize("step", ["synthesize", "prover", "setup", "h2d", "ntt", "msm", "d2h", "finish", "verify"])
@pytest.mark.parametrize("fault", [RuntimeError("broken"), MemoryError()])
def test_whatever_fails_gives_its_memory_back(step: str, fault: BaseException) -> None:
    with rig({"total_budget": 20, "synthesis_concurrency": 2}, memory=FakeMemory()) as r:
        r.faults[step, 1, 1] = fault
        failing, other = r.submit(1, 3), r.submit(2, 3)
        r.run()
        assert r.error(failing)
        r.check_delivered(other, 2, 3)
        assert memory(r).used == 0


def test_without_limits_nothing_waits_and_nothing_is_bounded() -> None:
    with rig({"synthesis_concurrency": 3}, memory=FakeMemory(vectors=GIB, rest=GIB)) as r:
        job = r.submit(1, 6)
        r.run()
        r.check_delivered(job, 1, 6)
        assert memory(r).total is None and memory(r).peak > GIB


def test_auto_follows_the_control_group(tmp_path: Path) -> None:
    for name, text in {
        "proc/meminfo": f"MemTotal: {64 * GIB // 1024} kB\nMemAvailable: {60 * GIB // 1024} kB\n",
        "proc/self/status": f"VmRSS: {GIB // 1024} kB\n",
        "proc/self/cgroup": "0::/box\n",
        "proc/self/mountinfo": "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/box/memory.max": f"{8 * GIB}\n",
        "sys/fs/cgroup/box/memory.current": f"{3 * GIB}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    made = FakeMemory(vectors=2 * GIB, rest=GIB)
    with rig({"synthesis_concurrency": 4}, memory=made, limits=memory_limits(tmp_path)) as r:
        assert memory(r).total == 5 * GIB, "8, less 3 of which 1 is ours, less a margin of 1"
        job = r.submit(1, 4)
        r.run()
        r.check_delivered(job, 1, 4)
        assert made.most <= 5 * GIB
        r.set("total_budget", 4 * GIB)
        assert memory(r).total == 4 * GIB
        r.set("total_budget", "auto")
        assert memory(r).total == 5 * GIB


@given(
    seed=st.integers(0, 2**32),
    total=st.integers(20, 120),
    fixed=st.integers(0, 10),
    key=st.integers(0, 10),
    devices=st.integers(1, 2),
)
@settings(max_examples=40, deadline=None)
def test_never_over_never_stuck_all_delivered(seed: int, total: int, fixed: int, key: int, devices: int) -> None:
    """Random jobs, cancellations, faults, pauses and budgets, downwards too; whatever was not told to fail comes."""
    choose = random.Random(seed)
    made = FakeMemory(6, 4, {Kind.MATRICES: fixed}, (Resident("key", Kind.KEYS, key),))
    knobs = {"total_budget": total + fixed, "synthesis_concurrency": 3, "synthesis_lookahead": 2, "slot_size": 1}
    with rig(knobs, devices=devices, memory=made) as r:
        jobs: dict[str, tuple[int, int]] = {}
        doomed: set[str] = set()
        ceiling = total + fixed
        for inputs in range(12):
            partitions = choose.randint(1, 6)
            if choose.random() < 0.15:
                step = choose.choice(["synthesize", "h2d", "ntt", "d2h"])
                r.faults[step, inputs, 0] = RuntimeError("broken")
                doomed.add(f"job-{inputs}")
            jobs[r.submit(inputs, partitions)] = (inputs, partitions)
            r.run_for(choose.choice([0.0, 0.3, 1.7]))
            for _ in range(choose.randint(0, 3)):
                act = choose.random()
                if act < 0.5:
                    new = choose.randint(15, 130) + fixed
                    if r.engine.propose(Change("total_budget", new)).accepted:
                        ceiling = max(new, memory(r).used)
                elif act < 0.7:
                    r.engine.propose(Change("slot_size", choose.randint(0, 3)))
                elif act < 0.8:
                    r.engine.propose(Change("synthesis_concurrency", choose.randint(1, 4)))
                else:
                    victim = choose.choice(sorted(jobs))
                    if r.engine.cancel(victim):
                        doomed.add(victim)
            assert memory(r).used <= ceiling
            ceiling = max(memory(r).total or 0, min(ceiling, memory(r).used))
        r.run()
        for job, (inputs, partitions) in jobs.items():
            if job in doomed:
                continue
            if r.futures[job].exception() is None:
                r.check_delivered(job, inputs, partitions)
            else:
                assert "the whole memory budget is" in r.error(job)
        assert dict(memory(r).by_kind)["working"] == 0
