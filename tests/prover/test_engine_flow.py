"""Work flows: modes, order, delivery, the lookahead's exact meaning, what the lock covers, the device's words."""

from __future__ import annotations

import itertools
import threading

import pytest
from engine_rig import COARSE, NARROW, Rig, rig
from fake_workload import FakeWorkload, fake_device, proof_of

from prover.cancel import CancelToken
from prover.errors import InputError
from prover.model import Cause, DeviceState, EventKind, JobState, PartitionState, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest, Progress, Workload
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import DuplicateJob, EngineStopped


@pytest.mark.parametrize("slot_size", [0, 1, 2, 3, 8])
def test_proofs_arrive_once_and_in_order_in_every_mode(slot_size: int) -> None:
    with rig({"slot_size": slot_size}) as r:
        jobs = {r.submit(inputs, partitions): (inputs, partitions) for inputs, partitions in [(1, 5), (2, 1), (3, 8)]}
        r.run()
        for job, (inputs, partitions) in jobs.items():
            r.check_delivered(job, inputs, partitions)
            assert r.result(job).verified
        counters = r.engine.snapshot().counters
        assert (counters.jobs_submitted, counters.jobs_done, counters.jobs_failed) == (3, 3, 0)
        assert (counters.partitions_done, counters.proofs_verified, counters.proofs_withheld) == (14, 14, 0)


def test_the_oldest_job_goes_first() -> None:
    with rig({"synthesis_concurrency": 2, "gpu_workers_per_device": 2}) as r:
        for inputs in range(3):
            r.submit(inputs, 4)
        r.run()
        begun = [event.job for event in r.events(EventKind.PHASE_BEGAN) if event.phase is Phase.NTT]
        assert begun == sorted(begun, key=str)
        assert [event.job for event in r.events(EventKind.JOB_DONE)] == ["job-0", "job-1", "job-2"]


@pytest.mark.parametrize(("lock", "order"), [("narrow", NARROW), ("coarse", COARSE)])
def test_phases_come_in_order_and_tile_the_life_of_a_partition(lock: str, order: tuple[Phase, ...]) -> None:
    with rig({"gpu_lock": lock}) as r:
        job = r.submit(1, 2)
        r.run()
        view = next(view for view in r.engine.snapshot().jobs if view.id == job)
        for partition in view.partitions:
            assert partition.state is PartitionState.DONE and partition.phase_began is None
            assert tuple(span.phase for span in partition.spans) == (*order, Phase.FINALIZING)
            assert all(one.end == two.start for one, two in itertools.pairwise(partition.spans))
            seconds = {span.phase: round(span.seconds, 9) for span in partition.spans}
            assert {phase: seconds[phase] for phase in (Phase.SYNTHESIS, Phase.NTT, Phase.MSM)} == {
                Phase.SYNTHESIS: 1.0,
                Phase.NTT: 0.4,
                Phase.MSM: 1.0,
            }


def overlap(r: Rig, one: tuple[Phase, ...], other: tuple[Phase, ...]) -> bool:
    """Whether a phase of ``one`` and a phase of ``other`` of different slots ever ran at the same time."""
    pairs = itertools.product(r.spans(*one), r.spans(*other))
    return any(a.partitions != b.partitions and max(a.start or 0, b.start or 0) < min(a.at, b.at) for a, b in pairs)


KERNELS, COPIES = (Phase.NTT, Phase.MSM), (Phase.SETUP, Phase.H2D, Phase.D2H)


def test_with_the_narrow_lock_copies_overlap_kernels_and_kernels_never_overlap() -> None:
    with rig({"synthesis_concurrency": 4, "synthesis_lookahead": 4, "gpu_workers_per_device": 3}) as r:
        r.submit(1, 8)
        r.run()
        assert not overlap(r, KERNELS, KERNELS)
        assert overlap(r, COPIES, KERNELS)
        assert {bool(span.fields.get("locked")) for span in r.spans(*KERNELS)} == {True}
        assert {bool(span.fields.get("locked")) for span in r.spans(*COPIES, Phase.LOCK_WAIT)} == {False}


def test_with_the_coarse_lock_nothing_on_the_device_overlaps() -> None:
    knobs = {"synthesis_concurrency": 4, "synthesis_lookahead": 4, "gpu_workers_per_device": 3, "gpu_lock": "coarse"}
    with rig(knobs) as r:
        r.submit(1, 8)
        r.run()
        assert not overlap(r, KERNELS + COPIES, KERNELS + COPIES)
        assert {bool(span.fields.get("locked")) for span in r.spans(*KERNELS, *COPIES)} == {True}
        busy = r.timeline().runs()[0].devices[0]
        assert busy.clusters[0].cause in (Cause.TRANSFER, Cause.LOCK)


def test_coarse_costs_what_narrow_hides() -> None:
    spent = {}
    for lock in ("narrow", "coarse"):
        with rig({"synthesis_concurrency": 4, "synthesis_lookahead": 4, "gpu_lock": lock}) as r:
            r.submit(1, 8)
            r.run()
            spent[lock] = r.timeline().runs()[0].devices[0]
    narrow, coarse = spent["narrow"], spent["coarse"]
    assert narrow.idle_s_per_proof is not None and coarse.idle_s_per_proof is not None
    assert coarse.idle_s_per_proof - narrow.idle_s_per_proof == pytest.approx(7 * 0.3)
    assert coarse.busy_s == pytest.approx(narrow.busy_s)


@pytest.mark.parametrize("lookahead", [0, 1, 3])
def test_the_queue_holds_the_lookahead_and_a_synthesiser_keeps_what_does_not_fit(lookahead: int) -> None:
    knobs = {"synthesis_lookahead": lookahead, "synthesis_concurrency": 2, "gpu_workers_per_device": 1}
    with rig(knobs, {"synthesize": 1.0, "msm": 1000.0}) as r:
        r.submit(1, 12)
        r.run(lambda: r.engine.snapshot().stages[0].blocked == 2)
        stages = {stage.name: stage for stage in r.engine.snapshot().stages}
        assert (stages["gpu"].queued, stages["gpu"].capacity, stages["gpu"].busy) == (lookahead, lookahead, 1)
        assert (stages["synthesis"].workers, stages["synthesis"].busy, stages["synthesis"].blocked) == (2, 0, 2)
        assert stages["synthesis"].queued == 12 - 1 - lookahead - 2
        assert r.engine.most_slots_alive == lookahead + 2 + 1
        # a held slot's synthesis is over: its wait counts as queued, not as synthesis
        assert {round(span.at - (span.start or 0), 9) for span in r.spans(Phase.SYNTHESIS)} == {1.0}


def test_with_no_lookahead_a_slot_passes_only_to_a_worker_that_waits() -> None:
    with rig({"synthesis_lookahead": 0}, {"synthesize": 1.0, "msm": 10.0}) as r:
        r.submit(1, 6)
        queued = []
        for _ in range(20):
            r.run_for(1.0)
            queued.append(r.engine.snapshot().stages[1].queued)
        r.run()
        assert set(queued) == {0}


def test_the_device_tells_what_it_does_and_since_when() -> None:
    with rig({"gpu_workers_per_device": 1}) as r:
        assert r.engine.snapshot().devices[0].cause is Cause.REQUESTS
        r.submit(1, 1)
        seen = []
        ends = [1.0, 1.1, 1.2, 1.6, 2.6, 2.7, 2.8]
        for end in ends:
            device = r.engine.snapshot().devices[0]
            seen.append((device.state, device.cause, round(device.since - 100, 9)))
            r.run(lambda end=end: r.time() >= 100 + end - 1e-9)  # type: ignore[misc]
        assert seen == [
            (DeviceState.STARVED, Cause.SYNTHESIS, 0.0),
            (DeviceState.LOCK_WAIT, Cause.LOCK, 1.0),  # set-up
            (DeviceState.COPYING, Cause.TRANSFER, 1.1),
            (DeviceState.COMPUTING, None, 1.2),
            (DeviceState.COMPUTING, None, 1.2),
            (DeviceState.COPYING, Cause.TRANSFER, 2.6),
            (DeviceState.IDLE, Cause.REQUESTS, 2.7),
        ]
        r.run()


def test_the_timeline_and_the_snapshot_agree_at_every_moment() -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        for inputs in range(3):
            r.submit(inputs, 3)
        while not all(future.done() for future in r.futures.values()):
            r.run_for(0.05)
            device = r.engine.snapshot().devices[0]
            assert r.timeline().state(0) == (device.state, device.cause)


def test_a_partition_that_grows_shows_its_phase_and_when_it_began() -> None:
    with rig() as r:
        job = r.submit(1, 2)
        r.run(lambda: r.time() >= 101.15)
        view = next(view for view in r.engine.snapshot().jobs if view.id == job)
        assert view.state is JobState.RUNNING and view.started == 100.0 and view.slot_size == 1
        first, second = view.partitions
        assert (first.state, first.device) == (PartitionState.NTT, 0)
        assert first.phase_began == pytest.approx(101.2)
        assert (second.state, second.phase_began) == (PartitionState.SYNTHESIS, 101.0)
        r.run()


def test_two_devices_share_the_queue_and_each_has_its_lock() -> None:
    knobs = {"synthesis_concurrency": 8, "synthesis_lookahead": 8, "gpu_workers_per_device": 1}
    with rig(knobs, devices=2) as r:
        r.submit(1, 8)
        r.run()
        assert {span.device for span in r.spans(Phase.MSM)} == {0, 1}
        figures = r.timeline().runs()[0].devices
        assert [round(device.busy_s, 6) for device in figures] == [4 * 1.4, 4 * 1.4]


def test_threads_are_given_as_the_knobs_say() -> None:
    with rig() as r:
        r.submit(1)
        r.run()
        assert r.workload.threads_given == {"synthesize": {1}, "prover": {3}}
    with rig({"threads": 1, "gpu_threads": 1}) as r:
        r.submit(1)
        r.run()
        assert r.workload.threads_given == {"synthesize": {1}, "prover": {1}}


def test_ids_are_given_and_kept_apart() -> None:
    with rig() as r:
        r.submit(1)
        with pytest.raises(DuplicateJob, match="a job of that id is alive: job-1"):
            r.engine.submit(JobRequest(1, 1, id="job-1"))
        r.run()
        again = r.engine.submit(JobRequest(1, 1, id="job-1"))
        numbered = r.engine.submit(JobRequest(2, 1))
        r.run(lambda: again.done() and numbered.done())
        assert numbered.result().id == "0002"
        assert again.result().proofs == (proof_of(1, 0),)
        r.futures.clear()
        submitted = r.events(EventKind.JOB_SUBMITTED)
        assert [event.job for event in submitted] == ["job-1", "job-1", "0002"]
        r.check_events = lambda: None  # type: ignore[method-assign]  # the same id twice is two stories


def test_a_job_has_at_least_one_partition() -> None:
    with rig() as r, pytest.raises(InputError, match="at least one partition"):
        r.engine.submit(JobRequest(1, 0))


def test_jobs_queue_before_the_start_and_while_the_workload_loads() -> None:
    workload = FakeWorkload()
    go_on, told = threading.Event(), threading.Event()

    def load(progress: Progress, cancel: CancelToken) -> Workload:
        progress("making the proving key", 0.42)
        told.set()
        assert go_on.wait(10)
        return workload

    engine = Engine(load, [fake_device()], KnobSet())
    future = engine.submit(JobRequest(7, 2))
    assert engine.snapshot().activity == "loading"
    engine.start()
    engine.start()
    assert told.wait(10)
    assert engine.snapshot().activity == "making the proving key 42%"
    assert engine.snapshot().jobs[0].state is JobState.WAITING
    go_on.set()
    assert future.result(10).proofs == (proof_of(7, 0), proof_of(7, 1))
    snapshot = engine.snapshot()
    assert (snapshot.activity, snapshot.circuit, snapshot.workload) == (None, "fake", "fake workload")
    first_run = [event for event in engine.events(0) if event.kind is EventKind.FIRST_RUN]
    assert len(first_run) == 1 and first_run[0].start is not None
    engine.stop()


def test_a_workload_that_cannot_load_fails_every_job_with_its_line() -> None:
    def load(progress: Progress, cancel: CancelToken) -> Workload:
        raise InputError("not a key", "x.zkey", "give a zkey")

    engine = Engine(load, [fake_device()])
    early = engine.submit(JobRequest(1, 1))
    engine.start()
    with pytest.raises(Exception, match=r"job cancelled: job 0000: not a key: x\.zkey: give a zkey"):
        early.result(10)
    with pytest.raises(EngineStopped, match=r"not a key: x\.zkey"):
        engine.submit(JobRequest(1, 1))
    assert engine.snapshot().activity == "cannot prove: not a key: x.zkey: give a zkey"
    engine.stop()


def test_a_snapshot_takes_no_lock() -> None:
    with rig() as r:
        r.submit(1, 4)
        with r.engine._board.lock:
            snapshot = r.engine.snapshot()
            assert r.engine.events(0)
        assert snapshot.jobs[0].id == "job-1"
        r.run()


def test_ended_jobs_stay_in_the_picture_for_a_while() -> None:
    with rig() as r:
        for inputs in range(12):
            r.submit(inputs)
        r.run()
        jobs = r.engine.snapshot().jobs
        assert [job.id for job in jobs] == [f"job-{inputs}" for inputs in range(4, 12)]
        assert all(job.state is JobState.DONE and job.ended is not None and job.done == 1 for job in jobs)
