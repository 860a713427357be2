"""What fails, lies, dies, is cancelled or stopped: the job is told once, everything is released, the engine goes on."""

from __future__ import annotations

import threading

import pytest
from engine_rig import Rig, rig
from fake_workload import STEPS, FakeWorkload, fake_device, proof_of

from prover.errors import InputError
from prover.model import EventKind, JobState, PartitionState, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import EngineStopped, JobCancelled, JobFailed

PHASE_OF = {
    "synthesize": Phase.SYNTHESIS,
    "prover": Phase.SETUP,
    "setup": Phase.SETUP,
    "h2d": Phase.H2D,
    "ntt": Phase.NTT,
    "msm": Phase.MSM,
    "d2h": Phase.D2H,
    "release": Phase.D2H,
    "finish": Phase.FINALIZING,
    "verify": Phase.FINALIZING,
}


class Death(BaseException):
    """What no handler of a workload's failures catches."""


@pytest.mark.parametrize("lock", ["narrow", "coarse"])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_fails_its_job_once_and_only_it(step: str, lock: str) -> None:
    with rig({"synthesis_concurrency": 3, "synthesis_lookahead": 2, "gpu_lock": lock}) as r:
        r.faults[step, 1, 2] = MemoryError("no room for\n the buckets")
        jobs = [r.submit(inputs, 6) for inputs in range(3)]
        r.run()
        assert r.error(jobs[1]) == (
            f"job failed: job job-1, partition 2, {PHASE_OF[step]}: MemoryError: no room for the buckets"
        )
        assert isinstance(r.futures[jobs[1]].exception(), JobFailed)
        for inputs in (0, 2):
            r.check_delivered(jobs[inputs], inputs, 6)
        view = next(view for view in r.engine.snapshot().jobs if view.id == jobs[1])
        states = [partition.state for partition in view.partitions]
        assert view.state is JobState.FAILED and states[2] is PartitionState.FAILED
        assert set(states[:2] + states[3:]) <= {PartitionState.DONE, PartitionState.CANCELLED}
        assert view.partitions[2].error == "MemoryError: no room for the buckets"
        counters = r.engine.snapshot().counters
        assert (counters.jobs_done, counters.jobs_failed, counters.partitions_failed) == (2, 1, 1)
        failed = r.events(EventKind.PARTITION_FAILED)
        assert [(event.partitions, event.phase) for event in failed] == [((2,), PHASE_OF[step])]
        bad = [span for span in r.events(EventKind.SPAN) if span.fields.get("ok") is False and span.partitions == (2,)]
        assert [span.phase for span in bad] == [PHASE_OF[step]]


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_dies_is_replaced_and_its_job_told(step: str) -> None:
    with rig({"gpu_workers_per_device": 2}) as r:
        r.faults[step, 1, 0] = Death("at once")
        jobs = [r.submit(inputs, 2) for inputs in range(3)]
        r.run()
        assert "Death: at once" in r.error(jobs[1])
        for inputs in (0, 2):
            r.check_delivered(jobs[inputs], inputs, 2)
        r.run(lambda: len(r.events(EventKind.WORKER_STARTED)) == 6)
        stopped = r.events(EventKind.WORKER_STOPPED)[0]
        started = [event.worker for event in r.events(EventKind.WORKER_STARTED)]
        assert stopped.fields["error"] == "Death: at once"
        assert "test_engine_failures" not in str(stopped.fields["detail"])
        assert "engine_rig.py" in str(stopped.fields["detail"])
        assert r.engine.snapshot().counters.workers_replaced == 1
        assert started.count(stopped.worker) == 2
        assert [stage.workers for stage in r.engine.snapshot().stages] == [1, 2, 2]


def test_an_expected_error_is_told_in_its_own_words() -> None:
    with rig() as r:
        r.faults["synthesize", 1, 0] = InputError("witness does not satisfy the circuit", "row 7", "check the inputs")
        job = r.submit(1)
        r.run()
        assert r.error(job) == (
            "job failed: job job-1, partition 0, synthesis: "
            "witness does not satisfy the circuit: row 7: check the inputs"
        )


def test_a_proof_that_does_not_verify_is_made_again_and_never_delivered() -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        r.workload.lies[1, 1] = 1
        job = r.submit(1, 4)
        later = r.submit(2, 2)
        r.run()
        r.check_delivered(job, 1, 4)
        r.check_delivered(later, 2, 2)
        counters = r.engine.snapshot().counters
        assert (counters.proofs_withheld, counters.proofs_verified, counters.jobs_failed) == (1, 6, 0)
        withheld = r.events(EventKind.PROOF_WITHHELD)
        assert [(event.partitions, event.fields["attempt"]) for event in withheld] == [((1,), 0)]
        assert r.workload.calls["synthesize"] == 7


@pytest.mark.parametrize("slot_size", [0, 1])
def test_a_proof_that_never_verifies_fails_its_job_after_two_attempts(slot_size: int) -> None:
    with rig({"slot_size": slot_size}) as r:
        r.workload.lies[1, 0] = 99
        job = r.submit(1, 3)
        other = r.submit(2, 1)
        r.run()
        numbers = "0, 1, 2" if slot_size == 0 else "0"
        assert r.error(job) == (
            f"job failed: job job-1, partition {numbers}, finalizing: "
            "proof does not verify: the witness or the key is wrong"
        )
        assert r.workload.calls["d2h"] - r.workload.calls["finish"] >= 0
        assert r.workload.lies[1, 0] == 97
        r.check_delivered(other, 2, 1)


def test_without_the_self_check_proofs_are_marked_unverified() -> None:
    with rig({"self_check": False}) as r:
        r.workload.lies[1, 0] = 1
        job = r.submit(1, 2)
        r.run()
        result = r.result(job)
        assert not result.verified
        assert result.proofs == (bytes(192), proof_of(1, 1))
        counters = r.engine.snapshot().counters
        assert (counters.proofs_verified, counters.partitions_done) == (0, 2)
        assert r.workload.calls["verify"] == 0


def test_one_unverified_partition_makes_the_job_unverified() -> None:
    with rig({"self_check": False}) as r:
        job = r.submit(1, 2)
        r.run(lambda: r.engine.snapshot().counters.partitions_done == 1)
        r.set("self_check", True)
        r.run()
        assert r.engine.snapshot().counters.proofs_verified == 1
        assert not r.result(job).verified


def test_the_wrong_number_of_proofs_fails_the_job() -> None:
    with rig({"slot_size": 0}) as r:
        finish = r.workload.finish
        r.workload.finish = lambda pending: finish(pending)[:-1]  # type: ignore[method-assign]
        job = r.submit(1, 2)
        r.run()
        assert "RuntimeError: 1 proofs for 2 partitions" in r.error(job)


def cancel_at(r: Rig, seconds: float, job: str) -> None:
    r.run(lambda: r.time() >= 100 + seconds)
    assert r.engine.cancel(job)
    assert not r.engine.cancel(job)
    r.time.stand_still(r.futures[job].done)


@pytest.mark.parametrize("lock", ["narrow", "coarse"])
@pytest.mark.parametrize("seconds", [0.0, 1.0, 1.1, 1.2, 1.6, 2.6, 2.7, 3.0, 4.0])
def test_a_job_cancelled_at_any_moment_leaves_nothing_and_the_rest_goes_on(seconds: float, lock: str) -> None:
    """Durations are such that these moments find it in each phase, waiting in the queue, in hand and at the lock."""
    with rig({"synthesis_concurrency": 3, "synthesis_lookahead": 1, "gpu_lock": lock}) as r:
        jobs = [r.submit(inputs, 5) for inputs in range(3)]
        cancel_at(r, seconds, jobs[0])
        assert isinstance(r.futures[jobs[0]].exception(), JobCancelled)
        r.run()
        for inputs in (1, 2):
            r.check_delivered(jobs[inputs], inputs, 5)
        view = next(view for view in r.engine.snapshot().jobs if view.id == jobs[0])
        assert view.state is JobState.CANCELLED
        assert {partition.state for partition in view.partitions} <= {PartitionState.DONE, PartitionState.CANCELLED}


def test_a_cancelled_job_leaves_the_queue_for_the_device_at_once() -> None:
    """It waits for the lock that another job's kernel holds for long."""
    with rig({"synthesis_concurrency": 2}, {"synthesize": 1.0, "msm": 50.0}) as r:
        jobs = [r.submit(inputs) for inputs in range(2)]
        r.run(lambda: r.engine.snapshot().devices[0].workers_busy == 2)
        views = {view.id: view.partitions[0].state for view in r.engine.snapshot().jobs}
        (waiting,) = [job for job, state in views.items() if state is PartitionState.LOCK_WAIT]
        assert r.engine.cancel(waiting)
        r.time.stand_still(lambda: r.engine.snapshot().devices[0].workers_busy == 1)
        (wait,) = [span for span in r.spans(Phase.LOCK_WAIT, good=False) if span.job == waiting]
        assert (wait.at, wait.fields.get("ok")) == (101.0, False)
        r.run()
        other = 1 - jobs.index(waiting)
        r.check_delivered(jobs[other], other, 1)


def test_a_waiting_job_is_cancelled_without_being_begun() -> None:
    with rig() as r:
        first, second = r.submit(1, 2), r.submit(2, 2)
        assert r.engine.cancel(second)
        assert not r.engine.cancel("unknown")
        r.run()
        r.check_delivered(first, 1, 2)
        assert r.workload.calls["synthesize"] == 2


@pytest.mark.parametrize("seconds", [0.0, 1.0, 1.6, 2.65, 5.0])
def test_a_stop_while_busy_cancels_what_is_left_and_joins_every_thread(seconds: float) -> None:
    with rig({"synthesis_concurrency": 3, "synthesis_lookahead": 2}) as r:
        jobs = [r.submit(inputs, 6) for inputs in range(3)]
        r.run(lambda: r.time() >= 100 + seconds)
    errors = [r.futures[job].exception() for job in jobs]
    assert all(error is None or isinstance(error, JobCancelled) for error in errors)
    assert str(errors[-1]) == "job cancelled: job job-2: the engine stops"
    kinds = [event.kind for event in r.events()]
    assert kinds[-1] is EventKind.ENGINE_STOPPED
    assert kinds.count(EventKind.WORKER_STARTED) == kinds.count(EventKind.WORKER_STOPPED)
    with pytest.raises(EngineStopped):
        r.engine.submit(JobRequest(9, 1))
    with pytest.raises(EngineStopped):
        r.engine.start()
    r.engine.stop()


def test_a_drain_lets_what_was_begun_end_and_begins_nothing() -> None:
    workload = FakeWorkload()
    began, go_on = threading.Event(), threading.Event()

    def step(name: str, inputs: object, partitions: tuple[int, ...], cancel: object) -> None:
        if name == "msm":
            began.set()
            assert go_on.wait(10)

    workload.step = step
    engine = Engine(workload, [fake_device()], KnobSet({"slot_size": 0}))
    engine.start()
    running, waiting = engine.submit(JobRequest(1, 2)), engine.submit(JobRequest(2, 50))
    assert began.wait(10)
    engine.cancel("0001")
    fresh = engine.submit(JobRequest(3, 2))
    stopper = threading.Thread(target=engine.stop, args=(30.0,))
    stopper.start()
    while engine._state != "stopping":
        began.wait(0.001)
    synthesised = workload.calls["synthesize"]
    go_on.set()
    stopper.join(30)
    assert running.result(0).proofs == (proof_of(1, 0), proof_of(1, 1))
    assert isinstance(waiting.exception(0), JobCancelled)
    assert fresh.done()
    assert workload.calls["synthesize"] == synthesised
    workload.assert_all_released()


def test_a_drain_of_a_paused_engine_lets_queued_slots_end() -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        job = r.submit(1, 2)
        r.run(lambda: r.workload.running["synthesize"] == 2)
        r.set("paused", True)
        r.run(lambda: r.engine.snapshot().stages[1].queued == 1)
        assert r.workload.calls["ntt"] == 0
        stopper = threading.Thread(target=r.engine.stop, args=(60.0,))
        stopper.start()
        r.time.run(r.futures[job].done)
        r.time.join(stopper)
        r.check_delivered(job, 1, 2)


def test_a_drain_that_takes_too_long_is_cut_short() -> None:
    workload = FakeWorkload()
    began = threading.Event()

    def step(name: str, inputs: object, partitions: tuple[int, ...], cancel: object) -> None:
        if name == "msm":
            began.set()
            while not cancel.cancelled:  # type: ignore[attr-defined]
                threading.Event().wait(0.001)

    workload.step = step
    engine = Engine(workload, [fake_device()], KnobSet({"drain_timeout_s": 0}))
    engine.start()
    future = engine.submit(JobRequest(1, 1))
    assert began.wait(10)
    engine.stop(None)
    assert isinstance(future.exception(0), JobCancelled)
    workload.assert_all_released()


def test_an_engine_that_never_started_stops_too() -> None:
    engine = Engine(FakeWorkload(), [fake_device()])
    future = engine.submit(JobRequest(1, 1))
    engine.stop()
    engine.stop()
    assert isinstance(future.exception(0), JobCancelled)


def test_two_stops_at_once_both_return_when_it_is_stopped() -> None:
    engine = Engine(FakeWorkload(), [fake_device()])
    engine.start()
    stoppers = [threading.Thread(target=engine.stop) for _ in range(3)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(30)
        assert not stopper.is_alive()
    assert [event.kind for event in engine.events(0)].count(EventKind.ENGINE_STOPPED) == 1


def test_a_caller_that_submits_from_a_result_is_not_under_the_lock() -> None:
    engine = Engine(FakeWorkload(), [fake_device()])
    engine.start()
    chained: list[int] = []
    done = threading.Event()

    def go_on(_: object) -> None:
        chained.append(len(chained))
        if len(chained) == 20:
            done.set()
            return
        engine.snapshot()
        engine.submit(JobRequest(len(chained), 1)).add_done_callback(go_on)

    engine.submit(JobRequest(0, 1)).add_done_callback(go_on)
    assert done.wait(30)
    engine.stop()
    assert chained == list(range(20))


def test_a_thread_that_the_system_refuses_is_told_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "gpu0-1" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with rig() as r:
        while not refused:
            threading.Event().wait(0.001)
        job = r.engine.submit(JobRequest(1, 2))
        while not r.events(EventKind.WORKER_STOPPED):
            threading.Event().wait(0.001)
        (stopped,) = r.events(EventKind.WORKER_STOPPED)
        assert (stopped.worker, stopped.fields["error"]) == ("gpu0-1", "RuntimeError: can't start new thread")
        r.set("synthesis_lookahead", 2)  # any change looks after the pools again
        r.run(job.done)
        assert job.result().proofs == (proof_of(1, 0), proof_of(1, 1))
        assert r.engine.snapshot().devices[0].workers == 2
