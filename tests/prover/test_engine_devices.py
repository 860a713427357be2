"""Devices that are lost or lack memory: what they had in hand is made elsewhere or fails, once, and nothing hangs."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from engine_rig import Rig, rig
from fake_workload import STEPS

from prover.device.errors import DeviceLost, OutOfMemory
from prover.model import Cause, DeviceState, EventKind, JobState, Phase
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.records import EngineStopped

ON_DEVICE = STEPS[STEPS.index("prover") : STEPS.index("release") + 1]
REQUEUE = {"on_device_lost": "requeue", "synthesis_concurrency": 3, "synthesis_lookahead": 2}


def lost() -> DeviceLost:
    return DeviceLost("illegal access", "fake")


def states(r: Rig) -> list[DeviceState]:
    return [view.state for view in r.engine.device_views()]


def check_delivered_once(r: Rig, jobs: list[str], partitions: int) -> None:
    """Every partition of every job, and each told once."""
    for inputs, job in enumerate(jobs):
        r.check_delivered(job, inputs, partitions)
    told = Counter((e.job, p) for e in r.events(EventKind.PARTITION_DONE) for p in e.partitions)
    assert told == Counter({(job, p): 1 for job in jobs for p in range(partitions)})


@pytest.mark.parametrize("lock", ["narrow", "coarse"])
@pytest.mark.parametrize("step", ON_DEVICE)
def test_what_a_lost_device_had_in_hand_is_made_on_another(step: str, lock: str) -> None:
    with rig({**REQUEUE, "gpu_lock": lock}, devices=2) as r:
        r.faults[step, 1, 2] = lost()
        jobs = [r.submit(inputs, 5) for inputs in range(3)]
        r.run()
        check_delivered_once(r, jobs, 5)
        (event,) = r.events(EventKind.DEVICE_LOST)
        assert event.fields["error"] == str(lost())
        again = r.events(EventKind.SLOT_REQUEUED)
        assert ("job-1", (2,)) in {(e.job, e.partitions) for e in again} and len(again) <= 2
        assert {e.device for e in again} == {event.device}
        assert r.workload.calls["synthesize"] == 15 + len(again)
        assert states(r).count(DeviceState.LOST) == 1
        later = [span for span in r.spans() if span.device == event.device and (span.start or 0) > event.at]
        assert not later, "a step ended well on a device that was lost"
        r.run(lambda: r.engine.device_views()[event.device or 0].workers == 0)
        view = r.engine.device_views()[event.device or 0]
        assert (view.cause, view.since, view.lock_holder) == (Cause.LOST, event.at, None)
        timeline = r.timeline()
        assert timeline.state(event.device or 0) == (DeviceState.LOST, Cause.LOST)
        last = timeline.segments(event.device or 0, event.at, r.time())
        assert [segment.state for segment in last] == [DeviceState.LOST]


def test_without_requeue_the_jobs_on_it_fail_and_the_others_go_on() -> None:
    with rig({"synthesis_concurrency": 3}, devices=2) as r:
        r.faults["msm", 1, 0] = lost()
        jobs = [r.submit(inputs, 4) for inputs in range(4)]
        r.run()
        failed = [job for job in jobs if r.futures[job].exception() is not None]
        assert jobs[1] in failed and 1 <= len(failed) <= 2  # the other worker's slot fails with it
        assert r.error(jobs[1]) == f"job failed: job job-1, partition 0, msm: {lost()}"
        for inputs, job in enumerate(jobs):
            if job not in failed:
                r.check_delivered(job, inputs, 4)
        assert not r.events(EventKind.SLOT_REQUEUED)


@pytest.mark.parametrize("devices", [1, 2])
def test_the_host_takes_over_when_no_device_is_left(devices: int) -> None:
    with rig(REQUEUE, devices=devices, spare=True) as r:
        for device in range(devices):
            r.faults["ntt", device + 1, 1] = lost()
        jobs = [r.submit(inputs, 4) for inputs in range(4)]
        r.run()
        check_delivered_once(r, jobs, 4)
        views = r.engine.device_views()
        assert [view.ordinal for view in views] == list(range(devices + 1))
        assert states(r)[:-1] == [DeviceState.LOST] * devices and states(r)[-1] is DeviceState.IDLE
        assert len(r.events(EventKind.DEVICE_LOST)) == devices
        done = {span.device for span in r.spans(Phase.D2H)}
        assert devices in done


@pytest.mark.parametrize("spare", [False, True])
def test_when_nothing_is_left_every_job_fails_in_one_line_and_none_is_taken(spare: bool) -> None:
    """A later change of mind brings the host in, if there is one."""
    with rig({"synthesis_concurrency": 2}, spare=spare) as r:
        r.faults["h2d", 0, 1] = lost()
        jobs = [r.submit(inputs, 3) for inputs in range(3)]
        r.run()
        why = f"no device is left: {lost()}"
        assert r.error(jobs[0]) == f"job failed: job job-0, partition 1, h2d: {lost()}"
        assert r.error(jobs[2]) == f"job failed: job job-2: {why}"
        assert [view.state for view in r.engine.snapshot().jobs] == [JobState.FAILED] * 3
        with pytest.raises(EngineStopped, match="no device is left"):
            r.engine.submit(JobRequest(9, 1))
        r.set("on_device_lost", "requeue")
        if spare:
            job = r.submit(9, 2)
            r.run()
            r.check_delivered(job, 9, 2)
        else:
            with pytest.raises(EngineStopped):
                r.engine.submit(JobRequest(9, 1))


@pytest.mark.parametrize("devices", [1, 2])
def test_the_host_takes_over_from_devices_that_were_named_one_by_one(devices: int) -> None:
    with rig({**REQUEUE, "gpu_devices": ",".join(map(str, range(devices)))}, devices=devices, spare=True) as r:
        for partition in range(devices):
            r.faults["msm", 0, partition] = lost()
        job = r.submit(0, 4)
        r.run()
        r.check_delivered(job, 0, 4)
        assert r.knob("gpu_devices").wanted == ",".join(map(str, range(devices + 1)))


def test_none_named_includes_the_host_that_takes_over() -> None:
    with rig({**REQUEUE, "synthesis_concurrency": 1}, spare=True) as r:
        r.faults["msm", 0, 0] = lost()
        job = r.submit(0, 2)
        r.run(lambda: r.workload.running["msm"] == 1)
        r.set("gpu_devices", "none")
        r.run(lambda: len(states(r)) == 2)
        r.time.pass_(30.0)
        assert states(r) == [DeviceState.LOST, DeviceState.IDLE]
        r.set("gpu_devices", "all")
        r.run()
        r.check_delivered(job, 0, 2)


def test_the_loss_of_the_last_device_ends_a_drain() -> None:
    """Who waits until jobs are taken again is told that none will be."""
    with rig(spare=True) as r:
        r.faults["h2d", 0, 0] = lost()
        r.submit(0)
        r.engine.drain()
        r.run()
        assert r.engine.accepting.is_set()
        with pytest.raises(EngineStopped, match="no device is left"):
            r.engine.submit(JobRequest(9, 1))
        r.set("on_device_lost", "requeue")
        job = r.submit(9, 2)
        r.run()
        r.check_delivered(job, 9, 2)


def test_the_knob_counts_at_the_moment_of_the_loss() -> None:
    with rig({"synthesis_concurrency": 2}, devices=2) as r:
        r.faults["d2h", 0, 3] = lost()
        job = r.submit(0, 6)
        r.set("on_device_lost", "requeue")
        r.run()
        r.check_delivered(job, 0, 6)


def test_a_job_that_is_cancelled_as_its_device_is_lost_is_not_made_again() -> None:
    with rig(REQUEUE, devices=2) as r:
        r.faults["msm", 0, 0] = lost()
        job = r.submit(0, 2)
        r.run(lambda: any(view.state is DeviceState.COMPUTING for view in r.engine.device_views()))
        assert r.engine.cancel(job)
        r.run()
        assert "job cancelled" in r.error(job)
        assert not r.events(EventKind.SLOT_REQUEUED)


@pytest.mark.parametrize("step", ON_DEVICE[:-1])
def test_a_slot_that_finds_no_memory_beside_another_is_made_again_with_fewer_workers(step: str) -> None:
    with rig({"gpu_workers_per_device": 3, "synthesis_concurrency": 6, "synthesis_lookahead": 3}) as r:
        r.faults[step, 1, 1] = OutOfMemory(5 << 20, 1 << 20, "fake 0")
        jobs = [r.submit(inputs, 6) for inputs in range(3)]
        r.run()
        check_delivered_once(r, jobs, 6)
        (event,) = r.events(EventKind.SLOT_REQUEUED)
        assert "5242880 bytes asked, 1048576 free" in str(event.fields["error"])
        r.run(lambda: r.engine.device_views()[0].workers == 2)
        r.set("gpu_workers_per_device", 2)
        r.set("gpu_workers_per_device", 3)
        r.run(lambda: r.engine.device_views()[0].workers == 3)
        assert r.knob("gpu_workers_per_device").lagging == ()


@pytest.mark.parametrize("step", ON_DEVICE[:-1])
def test_a_slot_that_finds_no_memory_alone_fails_with_what_was_wanted_and_free(step: str) -> None:
    with rig({"gpu_workers_per_device": 1}) as r:
        r.faults[step, 0, 1] = OutOfMemory(5 << 20, 1 << 20, "fake 0")
        jobs = [r.submit(inputs, 3) for inputs in range(2)]
        r.run()
        assert "out of memory: 5242880 bytes asked, 1048576 free: fake 0" in r.error(jobs[0])
        r.check_delivered(jobs[1], 1, 3)


def test_memory_that_never_suffices_ends_in_a_failure() -> None:
    """Fewer and fewer workers, and then the partition fails: nothing is tried for ever."""
    with rig({"gpu_workers_per_device": 4, "synthesis_concurrency": 4, "synthesis_lookahead": 4}) as r:
        step = r._step

        def refuse(name: str, inputs: object, *rest: object) -> None:
            step(name, inputs, *rest)  # type: ignore[arg-type]
            if name == "ntt" and inputs == 0:
                raise OutOfMemory(1 << 40, 0, "fake 0")

        r.workload.step = refuse  # type: ignore[assignment]
        jobs = [r.submit(inputs, 8) for inputs in range(2)]
        r.run()
        assert "out of memory" in r.error(jobs[0])
        r.check_delivered(jobs[1], 1, 8)


@pytest.mark.parametrize("seed", range(8))
def test_losses_at_random_lose_nothing_and_deliver_nothing_twice(seed: int) -> None:
    rng = random.Random(seed)
    with rig({**REQUEUE, "gpu_workers_per_device": rng.choice([1, 2, 3])}, devices=4, spare=True) as r:
        for _ in range(rng.randrange(1, 5)):  # the spare device is the host: it is never lost
            r.faults[rng.choice(ON_DEVICE), rng.randrange(5), rng.randrange(4)] = lost()
        for _ in range(2):
            r.faults[rng.choice(ON_DEVICE[:-1]), rng.randrange(5), rng.randrange(4)] = OutOfMemory(2, 1, "fake")
        jobs = [r.submit(inputs, 4) for inputs in range(5)]
        while not all(future.done() for future in r.futures.values()):
            r.set("gpu_lock", rng.choice(["narrow", "coarse"]))
            r.set("gpu_workers_per_device", rng.randrange(2, 5))
            r.run_for(rng.random() * 3)
        told = Counter((e.job, p) for e in r.events(EventKind.PARTITION_DONE) for p in e.partitions)
        assert set(told.values()) == {1}
        for inputs, job in enumerate(jobs):
            if r.futures[job].exception() is None:
                r.check_delivered(job, inputs, 4)
            else:
                assert "out of memory" in r.error(job)  # it was alone on its device
