"""The sample logs against their ground truth, to the digit where the log has the digit."""

import json
from pathlib import Path

import pytest

from console.feeds.logs.record import Form
from console.feeds.logs.stream import LogStream
from prover.model import EventKind, Phase
from prover.timeline import Timeline

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
TRUTH = json.loads((LOGS / "ground_truth.json").read_text())


def read(name):
    stream = LogStream()
    first, last = stream.feed((LOGS / name).read_bytes()), stream.finish()
    return stream, first.records + last.records, first.events + last.events


def fold(events):
    timeline = Timeline(window_s=None)
    timeline.fold(events)
    return timeline


def seconds(events, phase):
    return [event.at - event.start for event in events if event.kind is EventKind.SPAN and event.phase is phase]


def agrees(samples, truth, digits):
    assert len(samples) == truth["n"]
    assert round(min(samples), digits) == truth["min"]
    assert round(max(samples), digits) == truth["max"]
    assert round(sum(samples), 3) == truth["sum"]


class TestSweep:
    def test_picks_and_gaps(self):
        _, _, events = read("standard-j-sweep.ansi.log")
        timeline = fold(events)
        picks = [event for event in events if event.kind is EventKind.PHASE_BEGAN and event.phase is Phase.GPU]
        assert len(picks) == TRUTH["sweep"]["picks"] == 21
        gaps = timeline.gaps(0, events[0].at - 100, timeline.now + 1)
        assert [round(gap.seconds, 6) for gap in gaps] == [gap["gap"] for gap in TRUTH["sweep"]["gaps_s"]]
        assert [gap.between_runs for gap in gaps] == [gap["kind"] == "between runs" for gap in TRUTH["sweep"]["gaps_s"]]
        assert round(sum(gap.seconds for gap in gaps), 3) == TRUTH["sweep"]["idle_total_s"]
        for name, inside in (("short", lambda s: s < 20), ("long", lambda s: s >= 20)):
            agrees([gap.seconds for gap in gaps if inside(gap.seconds)], TRUTH["sweep"]["clusters_s"][name], 6)
        agrees(seconds(events, Phase.GPU), TRUTH["sweep"]["gpu_s_all"], 6)

    def test_every_run(self):
        _, _, events = read("standard-j-sweep.ansi.log")
        runs = fold(events).runs()
        assert len(runs) == len(TRUTH["sweep"]["runs"])
        for run, truth in zip(runs, TRUTH["sweep"]["runs"], strict=True):
            device = run.devices[0]
            assert run.proofs == truth["proofs"]
            assert run.partitions == 10 * truth["proofs"]
            assert round(device.busy_s, 3) == truth["gpu_s"]["sum"]
            if "util_with_ramp" not in truth:
                continue
            assert device.utilisation == pytest.approx(truth["util_with_ramp"], abs=5.1e-5)
            assert device.steady_utilisation == pytest.approx(truth["util_pick_to_pick"], abs=5.1e-5)
            assert device.utilisation_by["timeline"] == pytest.approx(truth["util_first_pick_to_last_done"], abs=5.1e-5)
            (cluster,) = device.clusters
            inside = truth["gaps_inside_s"]
            assert (cluster.count, round(cluster.low_s, 6), round(cluster.high_s, 6)) == (
                inside["n"],
                inside["min"],
                inside["max"],
            )
            assert cluster.cause == "synthesis"

    def test_synthesis_and_jobs(self):
        _, _, events = read("standard-j-sweep.ansi.log")
        spans = {e.job: e for e in events if e.kind is EventKind.SPAN and e.phase is Phase.SYNTHESIS}
        for truth in TRUTH["sweep"]["runs"]:
            milliseconds = [round((spans[job].at - spans[job].start) * 1000) for job in truth["job_ids"]]
            assert (min(milliseconds), max(milliseconds), sum(milliseconds)) == tuple(
                truth["synth_ms"][key] for key in ("min", "max", "sum")
            )


class TestTwoWorkers:
    def test_all_timeline_lines_come_out_of_the_torn_file(self):
        stream, records, _ = read("snap-two-workers.mixed.log")
        told = [record.message for record in records if record.form is Form.TIMELINE]
        assert {name: told.count(name) for name in set(told)} == TRUTH["snap"]["timeline_lines"]
        assert len(told) == 96
        assert stream.reader.logical.joined == TRUTH["snap"]["torn_timeline_lines"]
        assert stream.warnings() == ["torn lines joined: 4"]

    def test_torn_lines_have_what_was_cut(self):
        _, records, _ = read("snap-two-workers.mixed.log")
        told = {(r.message, r.get("partition")): r for r in records if r.form is Form.TIMELINE}
        for event, partition in (("SYNTH_END", 8), ("GPU_END", 1), ("GPU_START", 4), ("GPU_PICKUP", 10)):
            assert told[event, partition].get("job_id") == TRUTH["snap"]["job"]
        assert told["SYNTH_END", 8].fields["synth_ms"] == 32717
        assert told["GPU_END", 1].fields["gpu_ms"] == 6224

    def test_the_lock_is_joined_to_partitions(self):
        stream, _, events = read("snap-two-workers.mixed.log")
        held = {e.partitions[0]: e for e in events if e.kind is EventKind.SPAN and e.phase is Phase.GPU}
        waited = {e.partitions[0]: e for e in events if e.kind is EventKind.SPAN and e.phase is Phase.LOCK_WAIT}
        assert len(held) == len(waited) == 16
        for truth in TRUTH["snap"]["per_partition"]:
            span, wait = held[truth["partition"]], waited[truth["partition"]]
            assert round((span.at - span.start) * 1000) == truth["mutex_held_ms"]
            assert round((wait.at - wait.start) * 1000) == truth["mutex_wait_ms"]
            assert span.worker == f"gpu0-{truth['worker']}"
            assert span.fields["prove_start_ms"] == truth["prove_start_ms"]
        assert stream.translator.sections.owners.unknown == 0

    def test_three_ways_of_asking_how_busy(self):
        _, _, events = read("snap-two-workers.mixed.log")
        (run,) = fold(events).runs()
        assert run.devices[0].utilisation_by["lock"] == pytest.approx(TRUTH["snap"]["util_mutex_held"], abs=1e-3)
        assert run.devices[0].utilisation_by["timeline"] == pytest.approx(1.0, abs=1e-4)

    def test_only_stderr_still_gives_every_partition(self):
        lines = (LOGS / "snap-two-workers.mixed.log").read_bytes().split(b"\n")
        stream = LogStream()
        batch = stream.feed(b"\n".join(line for line in lines if b"INFO" not in line) + b"\n")
        events = batch.events + stream.finish().events
        done = [event for event in events if event.kind is EventKind.PARTITION_DONE]
        assert len(done) == 15  # one end was torn, and its first half is on a line of stdout
        gpu = seconds(events, Phase.GPU)
        assert round(sum(gpu) * 1000) == pytest.approx(TRUTH["snap"]["gpu_ms"]["sum"] - 6224, abs=40)
        # so the end of that partition, and of the job, is not known
        assert f"jobs that never ended: {TRUTH['snap']['job']}" in stream.warnings()


class TestPorep:
    def test_plain_and_json_tell_the_same_events(self):
        plain, json_ = read("porep-partitions.plain.log"), read("porep-partitions.json.log")
        assert len(plain[1]) == len(json_[1]) == TRUTH["porep"]["events"] == 425
        for one, other in zip(plain[1], json_[1], strict=True):
            assert one.same_event() == other.same_event()
        assert plain[2] == json_[2]
        assert plain[0].warnings() == json_[0].warnings()
        levels = [record.level for record in plain[1]]
        assert {level: levels.count(level) for level in set(levels)} == TRUTH["porep"]["levels"]

    def test_the_continued_line_is_one_record(self):
        _, records, _ = read("porep-partitions.plain.log")
        (record,) = [record for record in records if "PCE extraction failed" in record.message]
        assert record.fields["error"].endswith("io error\ncaused by: unexpected end of file")

    def test_jobs(self):
        _, _, events = read("porep-partitions.plain.log")
        ends = {event.job: event for event in events if event.kind in (EventKind.JOB_DONE, EventKind.JOB_FAILED)}
        began = {event.job: event.at for event in events if event.kind is EventKind.JOB_SUBMITTED}
        assert set(ends) == set(TRUTH["porep"]["jobs"])
        for job, truth in TRUTH["porep"]["jobs"].items():
            assert (ends[job].kind is EventKind.JOB_DONE) == (truth["outcome"] == "completed")
            if "total_ms" in truth:
                assert int((ends[job].at - began[job]) * 1000) == truth["total_ms"]
        assert any("[194 216 79 106 96 242 69 102]" in job for job in ends)

    def test_the_failed_one_is_found_with_partition_and_cause(self):
        _, _, events = read("porep-partitions.plain.log")
        (failed,) = [event for event in events if event.kind is EventKind.PARTITION_FAILED]
        truth = TRUTH["porep"]["jobs"][failed.job]
        assert failed.partitions == (truth["failed_partition"],)
        assert failed.fields["error"].startswith("task 4711 panicked") and "out of memory" in failed.fields["error"]
        done = [e for e in events if e.kind is EventKind.PARTITION_DONE and e.job == failed.job]
        assert len(done) == truth["partitions_proved"]

    def test_figures(self):
        _, _, events = read("porep-partitions.plain.log")
        porep = [event for event in events if event.job and event.job.startswith(("porep", "ps-porep"))]
        synthesis = [round(value * 1000) for value in seconds(porep, Phase.SYNTHESIS)]
        assert (min(synthesis), max(synthesis), sum(synthesis)) == tuple(
            TRUTH["porep"]["synth_ms"][key] for key in ("min", "max", "sum")
        )
        waited = [int(value * 1000 + 1e-3) for value in seconds(porep, Phase.QUEUED)]
        assert (len(waited), max(waited), sum(waited)) == tuple(
            TRUTH["porep"]["queue_wait_ms"][key] for key in ("n", "max", "sum")
        )
        assert fold(events).figures(events[0].at, events[-1].at + 1).partitions == 21
