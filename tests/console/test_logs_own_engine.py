"""Our own engine's log, read back: the same picture as from the events that it was written from."""

import pytest
from engine_rig import rig

from console.feeds.logs.stream import LogStream
from prover.model import EventKind, Phase
from prover.pipeline.log import LineFormat
from prover.timeline import Timeline


def read_back(events, level):
    lines = LineFormat(1.8e9)
    text = "".join(f"{line}\n" for event in events for line in lines.lines(event, level))
    stream = LogStream()
    batch = stream.feed(text.encode())
    return stream, batch.events + stream.finish().events


def figures(events):
    timeline = Timeline(window_s=None)
    timeline.fold(events)
    return timeline, timeline.runs()


@pytest.mark.parametrize("slot_size", [1, 2, 0])
@pytest.mark.parametrize("level", ["info", "debug"])
def test_the_same_runs_jobs_and_gaps(slot_size, level):
    with rig({"gpu_workers_per_device": 2, "slot_size": slot_size}) as r:
        for job in range(3):
            r.submit(job, 4)
        r.run()
        told = r.events()
    stream, events = read_back(told, level)
    assert stream.warnings() == []
    (timeline, runs), (_, truth) = figures(events), figures(told)
    assert [(run.proofs, run.failed, run.partitions) for run in runs] == [
        (run.proofs, run.failed, run.partitions) for run in truth
    ]
    for run, true in zip(runs, truth, strict=True):
        assert run.end - run.start == pytest.approx(true.end - true.start, abs=2e-3)
        assert run.steady_seconds_per_proof == pytest.approx(true.steady_seconds_per_proof, abs=2e-3)
        if level == "debug":
            assert run.devices[0].busy_s == pytest.approx(true.devices[0].busy_s, rel=0.02)
    mine, true = timeline.phase_statistics(), figures(told)[0].phase_statistics()
    phases = [Phase.SYNTHESIS, Phase.QUEUED] + ([Phase.NTT, Phase.MSM] if level == "debug" else [])
    for phase in phases:
        assert mine[phase].count == true[phase].count
        assert mine[phase].mean_s == pytest.approx(true[phase].mean_s, abs=2e-3)


def test_a_failed_job_with_its_cause():
    with rig({"slot_size": 1}) as r:
        job = r.submit("inputs", 2)
        r.faults["msm", "inputs", 1] = ValueError("no such witness")
        r.run()
        told = r.events()
    _, events = read_back(told, "info")
    (failed,) = [event for event in events if event.kind is EventKind.PARTITION_FAILED]
    assert (failed.job, failed.partitions) == (job, (1,))
    (end,) = [event for event in events if event.kind is EventKind.JOB_FAILED]
    assert "no such witness" in end.fields["error"]
    assert not any(event.kind is EventKind.JOB_DONE for event in events)
