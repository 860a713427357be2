"""Priorities, deadlines, batches, cancelling a part, draining: what the engine makes of them, on virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from engine_rig import Rig, rig
from fake_workload import FakeWorkload, fake_device, proof_of

from prover.errors import InputError
from prover.model import Cause, DeviceState, EventKind, JobState, KnobValue, Phase, Priority
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import Change, JobRequest
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import Draining, JobCancelled, JobFailed


def submit(made: Rig, name: Any, partitions: int = 1, **request: Any) -> str:
    job = f"job-{name}"
    made.futures[job] = made.engine.submit(JobRequest(name, partitions, id=job, **request))
    return job


def begun(made: Rig) -> list[tuple[str | None, tuple[int, ...]]]:
    """Jobs and partitions in the order of their synthesis."""
    events = made.events(EventKind.PHASE_BEGAN)
    return [(event.job, event.partitions) for event in events if event.phase is Phase.SYNTHESIS]


def ended(made: Rig) -> list[str | None]:
    return [event.job for event in made.events(EventKind.JOB_DONE)]


def view(made: Rig, job: str) -> Any:
    return next(each for each in made.engine.snapshot().jobs if each.id == job)


# -- order ------------------------------------------------------------------------------------------------------------


def test_jobs_end_by_class_then_deadline_then_age() -> None:
    with rig() as made:
        made.set("paused", True)
        submit(made, "low", priority=Priority.LOW)
        submit(made, "normal")
        submit(made, "late", deadline=900.0)
        submit(made, "soon", deadline=500.0)
        submit(made, "critical", priority=Priority.CRITICAL)
        submit(made, "high", priority=Priority.HIGH)
        made.set("paused", False)
        made.run()
        assert ended(made) == [f"job-{name}" for name in ("critical", "high", "soon", "late", "normal", "low")]
        shown = view(made, "job-soon")
        assert (shown.priority, shown.deadline) == (Priority.NORMAL, 500.0)


def test_a_deadline_that_passed_fails_nothing() -> None:
    with rig() as made:
        job = submit(made, "x", deadline=1.0)
        made.run()
        made.check_delivered(job, "x", 1)


@pytest.mark.parametrize("lock", ["narrow", "coarse"])
@pytest.mark.parametrize("synthesisers", [1, 2])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_critical_job_waits_for_at_most_one_partition_a_device(lock: str, synthesisers: int, devices: int) -> None:
    """Whenever it comes: from the end of its synthesis on, no device computes more than what is on it at that moment,
    and its synthesis begins as soon as any synthesiser has finished its slot, although the channel is full.
    """
    knobs = {"gpu_lock": lock, "synthesis_concurrency": synthesisers, "synthesis_lookahead": 2}
    for moment in range(40, 46):
        with rig(dict(knobs), devices=devices) as made:
            submit(made, "long", 60)
            made.run_for(moment * 0.23)
            came = made.time()
            job = submit(made, "critical", priority=Priority.CRITICAL)
            made.run(lambda job=job, made=made: made.futures[job].done())
            spans = {s.phase: s for s in made.spans() if s.job == job}
            synthesis = spans[Phase.SYNTHESIS]
            busy = [s for s in made.spans(Phase.SYNTHESIS) if s.job != job and s.start <= came < s.at]
            free_at = min((s.at for s in busy), default=came) if len(busy) == synthesisers else came
            assert synthesis.start == pytest.approx(free_at)
            ready, computes = synthesis.at, spans[Phase.NTT].start
            others = [s for s in made.spans(Phase.NTT, Phase.MSM) if s.job != job and ready < s.at <= computes + 1e-9]
            kernels = {(s.device, s.partitions) for s in others}
            assert len([k for k in kernels if k[0] == spans[Phase.NTT].device]) <= 1, kernels
            assert made.engine.most_slots_alive <= 2 + synthesisers + 2 * devices + 1
            bound = made.engine.snapshot().critical_wait_s
            assert bound is not None and computes - ready <= bound + 0.2 + 1e-6  # its own set-up and copy besides
            made.engine.cancel("job-long")
            made.run()


@pytest.mark.parametrize("pause_s", [0.0, 8.0])
@pytest.mark.parametrize("synthesisers", [1, 3])
def test_many_critical_jobs_leave_one_slot_more_than_the_bound(synthesisers: int, pause_s: float) -> None:
    """At once or one after another: what was laid down for one is worked off before more is begun."""
    with rig({"synthesis_concurrency": synthesisers}, {"synthesize": 0.1, "msm": 10.0}) as made:
        jobs = [submit(made, name, 4) for name in range(4)]
        made.run_for(15.0)
        for name in range(100, 112):
            jobs.append(submit(made, name, priority=Priority.CRITICAL))
            made.run_for(pause_s)
        made.run()
        knobs = made.engine.knobs
        bound = knobs.integer("synthesis_lookahead") + synthesisers + knobs.integer("gpu_workers_per_device")
        assert made.engine.most_slots_alive <= bound + 1
        assert all(made.futures[job].exception() is None for job in jobs)


def test_a_slot_is_begun_when_what_was_too_much_is_cancelled() -> None:
    with rig({"synthesis_lookahead": 2, "synthesis_concurrency": 1, "gpu_devices": "none"}) as made:
        first = submit(made, "x", 2)
        made.run(lambda: made.engine.snapshot().stages[1].queued == 2)
        made.set("synthesis_lookahead", 0)
        second = submit(made, "y")
        made.time.pass_(5.0)
        assert len(begun(made)) == 2
        assert made.engine.cancel(first)
        made.run(lambda: len(begun(made)) == 3)
        made.set("gpu_devices", "all")
        made.run()
        made.check_delivered(second, "y", 1)


def test_a_critical_job_is_not_held_up_by_a_device_that_rests_or_loses_its_worker() -> None:
    with rig({"gpu_workers_per_device": 2, "synthesis_lookahead": 4, "synthesis_concurrency": 2}) as made:
        submit(made, "long", 20)
        made.run_for(9.0)
        job = submit(made, "critical", priority=Priority.CRITICAL)
        made.set("gpu_workers_per_device", 1)
        made.run()
        made.check_delivered(job, "critical", 1)


def test_a_waiting_job_is_reprioritised_and_one_that_is_there_already_too() -> None:
    with rig({"gpu_workers_per_device": 1}) as made:
        submit(made, "first", 2)
        submit(made, "second", 2)
        submit(made, "third", 1)
        made.run_for(1.5)
        assert made.engine.reprioritise("job-third", Priority.CRITICAL)
        assert made.engine.reprioritise("job-second", Priority.HIGH)
        assert not made.engine.reprioritise("job-none", Priority.HIGH)
        assert view(made, "job-third").priority is Priority.CRITICAL
        made.run()
        order = [job for job, _ in begun(made)]
        assert order == ["job-first", "job-first", "job-third", "job-second", "job-second"]
        assert ended(made) == ["job-first", "job-third", "job-second"]
        told = [(e.job, e.fields["old"], e.fields["new"]) for e in made.events(EventKind.JOB_REPRIORITISED)]
        assert told == [("job-third", "normal", "critical"), ("job-second", "normal", "high")]


# -- batches ----------------------------------------------------------------------------------------------------------

BATCH = {"slot_size": 0, "max_batch_size": 3, "max_batch_wait_ms": 5000}


def test_a_batch_is_one_slot_and_each_job_gets_its_own_proofs() -> None:
    with rig(dict(BATCH)) as made:
        jobs = [submit(made, name, partitions) for name, partitions in (("a", 2), ("b", 1), ("c", 3))]
        made.run()
        for job, (name, partitions) in zip(jobs, (("a", 2), ("b", 1), ("c", 3)), strict=True):
            made.check_delivered(job, name, partitions)
        assert made.workload.calls["synthesize"] == made.workload.calls["verify"] == 1
        assert [e.fields["batch"] for e in made.events(EventKind.JOB_STARTED)] == [3, 3, 3]
        timeline = made.timeline()
        assert timeline.phase_statistics()[Phase.SYNTHESIS].count == 1  # one piece of work, whoever shares it
        (run,) = timeline.runs()
        assert (run.proofs, run.partitions) == (3, 6)
        assert run.devices[0].busy_s == pytest.approx(6 * 1.4)


def test_a_batch_that_is_not_full_begins_when_its_time_has_come() -> None:
    with rig(dict(BATCH)) as made:
        submit(made, "a")
        made.time.pass_(2.0)
        assert made.engine.snapshot().batch_waits
        submit(made, "b")
        made.run()
        assert not made.engine.snapshot().batch_waits
        starts = [s.start for s in made.spans(Phase.SYNTHESIS)]
        assert starts == [105.0, 105.0]  # at 100 s, and 5 s of waiting
        assert made.workload.calls["synthesize"] == 1


def test_a_shorter_wait_counts_at_once() -> None:
    with rig(dict(BATCH)) as made:
        submit(made, "a")
        made.time.pass_(1.0)
        made.set("max_batch_wait_ms", 2000)
        made.run()
        assert made.spans(Phase.SYNTHESIS)[0].start == 102.0


def test_an_urgent_job_waits_for_no_batch() -> None:
    with rig(dict(BATCH)) as made:
        submit(made, "a")
        submit(made, "b", priority=Priority.HIGH)
        made.run_for(0.5)
        assert begun(made) == [("job-b", (0,))]
        made.run()


@pytest.mark.parametrize("step", ["synthesize", "prover", "setup", "h2d", "ntt", "msm", "d2h", "finish", "verify"])
def test_in_a_batch_only_the_job_fails_that_is_to_blame(step: str) -> None:
    with rig(dict(BATCH)) as made:

        def hurt(at: str, inputs: Any, partitions: Sequence[int], cancel: Any) -> None:
            made.time.step(at, inputs, tuple(partitions), cancel)
            if at == step and (inputs == "bad" or (isinstance(inputs, tuple) and ("bad", 0) in inputs)):
                raise RuntimeError("no such thing")

        made.workload.step = hurt
        good, bad, other = submit(made, "good", 2), submit(made, "bad", 1), submit(made, "other", 1)
        made.run()
        made.check_delivered(good, "good", 2)
        made.check_delivered(other, "other", 1)
        assert isinstance(made.futures[bad].exception(), JobFailed)
        assert "RuntimeError: no such thing" in made.error(bad)
        assert [e.job for e in made.events(EventKind.JOB_FAILED)] == [bad]


def test_one_bad_proof_of_a_slot_is_withheld_and_made_again_alone() -> None:
    with rig({"slot_size": 4}) as made:
        lied = iter([True, False])
        true_finish = made.workload.finish

        def finish(pending: Any) -> list[bytes]:
            proofs = true_finish(pending)
            if pending[1] == (0, 1, 2, 3) and next(lied):
                proofs[2] = bytes(192)
            return proofs

        made.workload.finish = finish  # type: ignore[method-assign]
        job = made.submit("x", 4)
        made.run()
        made.check_delivered(job, "x", 4)
        assert begun(made) == [(job, (0, 1, 2, 3)), (job, (2,))]
        (withheld,) = made.events(EventKind.PROOF_WITHHELD)
        assert (withheld.partitions, withheld.device) == ((2,), 0)
        counters = made.engine.snapshot().counters
        assert (counters.proofs_withheld, counters.proofs_verified) == (1, 4)


def test_a_cancelled_job_of_a_batch_leaves_the_others_alone() -> None:
    with rig(dict(BATCH)) as made:
        jobs = [submit(made, name) for name in "abc"]
        made.run_for(1.0)
        assert made.engine.cancel(jobs[1])
        made.run()
        made.check_delivered(jobs[0], "a", 1)
        made.check_delivered(jobs[2], "c", 1)
        assert isinstance(made.futures[jobs[1]].exception(), JobCancelled)


def test_a_batch_stops_when_nobody_wants_it_any_more() -> None:
    with rig(dict(BATCH)) as made:
        jobs = [submit(made, name) for name in "abc"]
        made.run_for(1.0)
        for job in jobs:
            assert made.engine.cancel(job)
        made.run()
        assert made.workload.calls["msm"] == 0


def test_what_is_made_again_of_a_job_that_was_trimmed_leaves_its_batch_alone() -> None:
    knobs: dict[str, KnobValue] = {"max_batch_size": 2, "max_batch_wait_ms": 0, "synthesis_concurrency": 1}
    with rig({**knobs, "paused": True}) as made:
        first, second = submit(made, 0, 3), submit(made, 1, 3)
        made.workload.lies[0, 0] = 1
        made.set("paused", False)
        made.run(lambda: len(begun(made)) == 1)
        left = made.engine.cancel_remaining(first)
        made.run()
        made.check_delivered(second, 1, 3)
        assert made.error(first).endswith(f"{3 - left} of 3 partitions are done")
        assert made.engine.snapshot().counters.workers_replaced == 0


# -- circuits ---------------------------------------------------------------------------------------------------------


def test_jobs_of_one_circuit_go_together() -> None:
    with rig() as made:
        engine = made.engine
        other = FakeWorkload(step=made.workload.step, circuit="other")
        engine._line.workloads = {"fake": made.workload, "other": other}
        made.set("paused", True)
        for number, circuit in enumerate(["fake", "other", "fake", "other"]):
            submit(made, number, circuit=circuit)
        made.set("paused", False)
        made.run()
        assert [job for job, _ in begun(made)] == ["job-0", "job-2", "job-1", "job-3"]
        assert (made.workload.calls["msm"], other.calls["msm"]) == (2, 2)
        with pytest.raises(InputError, match="no such circuit"):
            submit(made, "none", circuit="third")


# -- cancelling, draining ---------------------------------------------------------------------------------------------


def test_what_is_not_begun_of_a_job_is_cancelled_and_the_rest_ends() -> None:
    with rig({"synthesis_lookahead": 1}) as made:
        job = submit(made, "x", 10)
        made.run_for(4.05)
        before = len(begun(made))
        assert made.engine.cancel_remaining(job) == 10 - before
        assert made.engine.cancel_remaining(job) == 0
        assert view(made, job).state is JobState.RUNNING
        made.run()
        assert len(begun(made)) == before
        states = [p.state.value for p in view(made, job).partitions]
        assert states == ["done"] * before + ["cancelled"] * (10 - before)
        assert view(made, job).state is JobState.CANCELLED
        assert made.error(job).endswith(f"what was not begun was cancelled: {before} of 10 partitions are done")


def test_cancelling_the_rest_of_a_job_that_was_not_begun_cancels_it() -> None:
    with rig({"paused": True}) as made:
        job = submit(made, "x", 3)
        assert made.engine.cancel_remaining(job) == 3
        assert isinstance(made.futures[job].exception(), JobCancelled)
        assert made.engine.cancel_remaining("job-none") == 0


def test_a_drained_engine_ends_what_it_has_and_takes_jobs_again_when_resumed() -> None:
    with rig() as made:
        job = submit(made, "x", 3)
        made.engine.drain()
        assert made.engine.snapshot().draining
        with pytest.raises(Draining, match="the engine drains"):
            submit(made, "late")
        made.run()
        made.check_delivered(job, "x", 3)
        made.engine.resume()
        made.engine.resume()
        late = submit(made, "late")
        made.run()
        made.check_delivered(late, "late", 1)
        kinds = made.events(EventKind.ENGINE_DRAINING, EventKind.ENGINE_RESUMED)
        assert [event.kind for event in kinds] == [EventKind.ENGINE_DRAINING, EventKind.ENGINE_RESUMED]


# -- devices ----------------------------------------------------------------------------------------------------------


def test_a_device_that_is_left_out_ends_its_slots_and_rests_until_it_is_wanted_again() -> None:
    with rig(devices=2) as made:
        submit(made, "x", 30)
        made.run_for(8.0)
        assert made.engine.use_device(1, False).accepted
        assert made.engine.knobs["gpu_devices"] == "0"
        before = made.time()
        made.run_for(8.0)
        lagging = made.knob("gpu_devices")
        assert (lagging.in_force, lagging.lagging) == ("0", ())
        assert {s.device for s in made.spans(Phase.SETUP) if s.start > before} == {0}
        rests = made.engine.device_views()[1]
        assert (rests.state, rests.cause, rests.workers) == (DeviceState.IDLE, Cause.PAUSED, 0)
        assert made.engine.use_device(1, True).accepted
        assert made.engine.knobs["gpu_devices"] == "all"
        after = made.time()
        made.run()
        assert {s.device for s in made.spans(Phase.SETUP) if s.start > after} == {0, 1}


def test_no_device_at_all_may_be_wanted() -> None:
    with rig() as made:
        job = submit(made, "x", 3)
        assert made.engine.use_device(0, False).accepted
        assert made.engine.knobs["gpu_devices"] == "none"
        made.time.pass_(30.0)
        assert not made.futures[job].done()
        device = made.engine.device_views()[0]
        assert (device.state, device.cause) == made.timeline().state(0) == (DeviceState.IDLE, Cause.PAUSED)
        made.set("gpu_devices", "all")
        made.run()


def test_a_device_that_is_not_there_is_refused() -> None:
    with rig() as made:
        receipt = made.engine.propose(Change("gpu_devices", "0,7"))
        assert receipt.reason == "no device of that number: gpu_devices=0,7: this engine has 0"
    with pytest.raises(InputError, match="no device of that number: gpu_devices=3: this engine has 0"):
        Engine(FakeWorkload(), [fake_device()], KnobSet({"gpu_devices": "3"}))


def test_without_split_prove_the_worker_finishes_its_slot_itself() -> None:
    """Kernels then wait for assembly and check: the second worker hides what one worker cannot."""
    durations = {"synthesize": 0.1, "ntt": 0.5, "msm": 0.5, "finish": 0.6, "verify": 0.4}
    length = {}
    for split in (True, False):
        with rig({"split_prove": split, "gpu_workers_per_device": 1}, durations) as made:
            job = submit(made, "x", 6)
            made.run()
            made.check_delivered(job, "x", 6)
            length[split] = made.time() - 100.0
            who = {s.worker for s in made.spans(Phase.FINALIZING)}
            assert all(str(name).startswith("finalizer" if split else "gpu0") for name in who)
    assert length[True] == pytest.approx(0.1 + 6 * 1.0 + 1.0)
    assert length[False] == pytest.approx(0.1 + 6 * 2.0)


def test_split_prove_changes_while_proofs_run() -> None:
    with rig() as made:
        job = submit(made, "x", 12)
        for moment in range(8):
            made.run_for(1.3)
            made.set("split_prove", bool(moment % 2))
        made.run()
        made.check_delivered(job, "x", 12)
        assert made.result(job).proofs[3] == proof_of("x", 3)
