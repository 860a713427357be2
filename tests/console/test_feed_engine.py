"""From the engine's events to the frame, on the modelled pipeline."""

import json
from itertools import pairwise

import pytest
from fake_feed import FakeFeed
from fakes_console import FakeClock, FakeEngine, Pace

from console.analysis.diagnosis import Evidence, diagnose
from console.analysis.headline import headline
from console.analysis.throughput import throughput
from console.export.frame_json import frame_document
from console.frame import Frame
from prover.figures import phase_statistics
from prover.model import Cause, DeviceState, DeviceView, EventKind, Phase
from prover.timeline import Completion, Segment, Timeline


def played(seconds: float, window: float = 60.0, tick: float = 0.25, **options: object) -> tuple[FakeFeed, Frame]:
    feed = FakeFeed(FakeEngine(FakeClock(), **options))  # type: ignore[arg-type]
    feed.start()
    frame = feed.poll(window)
    for _ in range(round(seconds / tick)):
        feed.engine.advance(tick)
        frame = feed.poll(window)
    return feed, frame


def test_the_lane_is_whole_and_agrees_with_the_timeline():
    feed, frame = played(45)
    lane = frame.devices[0].lane
    assert lane[0].start <= max(feed.engine.started, frame.at - 60) + 1e-9 and lane[-1].end == pytest.approx(frame.at)
    assert all(a.end == pytest.approx(b.start) for a, b in pairwise(lane))
    anew = Timeline()
    anew.fold(feed.engine.log)
    busy = sum(s.end - s.start for s in anew.segments(0, lane[0].start, frame.at) if s.cause is None)
    assert sum(s.end - s.start for s in lane if s.cause is None) == pytest.approx(busy, abs=1e-6)


def test_a_longer_window_shows_what_was_kept():
    feed, _ = played(100, window=30.0)
    assert feed.poll(600.0).devices[0].lane[0].start <= feed.engine.started + 1e-6


def test_a_starved_device_is_told_so():
    _, frame = played(60, pace=Pace(synthesis=3.0))
    assert frame.diagnosis.bottleneck == "synthesis"
    sentences = " ".join(remark.text for remark in frame.diagnosis.remarks)
    assert "nothing was ready" in sentences and "synthesis_concurrency 1 → 2" in sentences
    clusters = frame.devices[0].clusters
    assert max(clusters, key=lambda c: c.count * c.centre_s).cause is Cause.SYNTHESIS
    assert 0 < frame.devices[0].utilisation_by["kernels"] < 0.6  # type: ignore[operator]


def test_a_busy_device_is_the_limit():
    _, frame = played(60, pace=Pace(synthesis=0.2))
    assert frame.diagnosis.bottleneck == "gpu"
    assert frame.throughput.ceiling_proofs_per_minute == pytest.approx(frame.throughput.proofs_per_minute, rel=0.2)


def test_a_change_restarts_the_figures_and_leaves_a_marker():
    feed, _ = played(60)
    feed.propose("synthesis_concurrency", 2)
    frame = feed.poll(60.0)
    for _ in range(120):
        feed.engine.advance(0.25)
        frame = feed.poll(60.0)
    assert [marker.text for marker in frame.markers] == ["synthesis_concurrency → 2"]
    assert frame.diagnosis.bottleneck == "gpu"


@pytest.mark.parametrize(("window", "seconds"), [(30.0, 30.0), (600.0, 70.0)])
def test_gaps_are_those_of_the_stretch_that_the_lane_shows(window: float, seconds: float):
    _, frame = played(70, window=window, pace=Pace(synthesis=3.0))
    (one,) = frame.devices
    assert one.clusters_over_s == pytest.approx(seconds)
    gaps = sum(cluster.count for cluster in one.clusters)
    assert gaps > 3 and abs(gaps - one.gaps_in_window) <= 2  # worked out once a second, the count each time


def test_nothing_is_said_of_a_ceiling_before_the_first_proof():
    _, frame = played(7, pace=Pace(synthesis=0.2))
    assert frame.snapshot.counters.jobs_done == 0 and frame.devices[0].utilisation_by["kernels"]
    assert frame.throughput.ceiling_proofs_per_minute is None


def test_pausing_is_told_while_it_lasts():
    feed, _ = played(40)
    feed.propose("paused", True)
    frame = feed.poll(60.0)
    for _ in range(60):
        feed.engine.advance(0.25)
        frame = feed.poll(60.0)
    assert frame.diagnosis.bottleneck == "paused"
    assert frame.devices[0].headline.sentence.startswith("idle for")
    feed.propose("paused", False)
    for _ in range(80):
        feed.engine.advance(0.25)
        frame = feed.poll(60.0)
    assert not any("p goes on" in remark.text for remark in frame.diagnosis.remarks)


def test_without_a_device_the_screen_says_which_knob_to_turn():
    feed, _ = played(40)
    feed.propose("gpu_devices", "none")
    for _ in range(60):
        feed.engine.advance(0.25)
        frame = feed.poll(60.0)
    assert frame.diagnosis.bottleneck == "paused"
    assert [remark.text for remark in frame.diagnosis.remarks] == [
        "No device is selected: gpu_devices is none.",
        "Try gpu_devices none → all.",
    ]


def test_the_document_is_json_and_undefined_is_null():
    _, frame = played(0.05)
    document = json.loads(json.dumps(frame_document(frame)))
    assert document["schema"] == "cuzk-top/frame/1"
    assert set(document) >= {"feeds", "devices", "stages", "jobs", "knobs", "throughput", "diagnosis"}
    assert document["throughput"]["proofs_per_minute"] is None
    assert document["devices"][0]["utilisation_by"] == dict.fromkeys(("kernels", "sm", "driver", "lock", "timeline"))
    _, frame = played(60)
    document = json.loads(json.dumps(frame_document(frame)))
    assert document["throughput"]["proofs"] == frame.snapshot.counters.jobs_done > 0
    assert document["jobs"][0]["partitions"][0]["phases"]["synthesis"] > 1
    assert document["knobs"]["synthesis_lookahead"] == {"wanted": 1, "in_force": 1, "lagging": []}


def view(state: DeviceState, cause: Cause | None, since: float) -> DeviceView:
    return DeviceView(0, "host", "host", state, cause, since, 1, 0)


def test_headlines():
    long = headline(view(DeviceState.STARVED, Cause.SYNTHESIS, 100.0), (), 103.2)
    assert (long.sentence, long.short) == ("starved for 3 s: nothing synthesised", "starved for 3 s")
    assert headline(view(DeviceState.COMPUTING, None, 100.0), (), 105.0).sentence == "computing"
    assert headline(view(DeviceState.IDLE, Cause.REQUESTS, 100.0), (), 100.1).sentence == "idle"
    computed = (Segment(90.0, 100.0, DeviceState.COMPUTING, None),)
    paused = headline(view(DeviceState.IDLE, Cause.PAUSED, 100.0), computed, 100.1)
    assert (paused.state, paused.sentence) == (DeviceState.IDLE, "idle: paused"), "at once, whatever was before"
    for cause in Cause:
        assert headline(view(DeviceState.LOST, cause, 0.0), (), 9.0).sentence.count(":") == 1


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_finding(cause: Cause):
    found = diagnose(Evidence(60.0, 20.0, {cause: 40.0}, gaps=9, knobs={"gpu_lock": "coarse"}))
    assert found.bottleneck == cause.value and "67 %" in found.remarks[0].text


@pytest.mark.parametrize("cause", [Cause.LOCK, Cause.TRANSFER])
def test_copies_without_page_locked_memory_are_given_some(cause: Cause):
    advice = "Try pinned_pool_bytes 0 → auto: copies are then page-locked."
    for lock in ("coarse", "narrow"):
        for pool, host in ((0, False), (0, True), ("auto", False)):
            knobs = {"gpu_lock": lock, "pinned_pool_bytes": pool}
            found = diagnose(Evidence(60.0, 20.0, {cause: 40.0}, 9, knobs=knobs, host=host))
            assert (advice in [remark.text for remark in found.remarks]) == (pool == 0 and not host)


def test_no_advice_where_all_cores_are_busy():
    evidence = Evidence(60.0, 20.0, {Cause.SYNTHESIS: 40.0}, 9, knobs={"synthesis_concurrency": 1}, cpu_percent=99.0)
    assert "All cores are busy" in diagnose(evidence).remarks[-1].text


@pytest.mark.parametrize(
    ("threads", "cores", "cpu", "host", "advice"),
    [
        (0, 2, 54.0, True, "Try gpu_threads auto → 2: the processor is used to 54 %."),
        (1, 4, 30.0, True, "Try gpu_threads 1 → 4: the processor is used to 30 %."),
        (0, 2, 97.0, True, None),  # synthesis has the other core
        (2, 2, 54.0, True, None),
        (0, 1, 54.0, True, None),
        (0, 16, 20.0, False, None),  # a GPU has no such knob
        (0, 2, None, True, None),
    ],
)
def test_a_host_that_is_the_limit_may_have_the_idle_cores(
    threads: int, cores: int, cpu: float | None, host: bool, advice: str | None
):
    evidence = Evidence(
        60.0, 58.0, {Cause.LOCK: 2.0}, 9, knobs={"gpu_threads": threads}, host=host, cpu_percent=cpu, cores=cores
    )
    remarks = [remark.text for remark in diagnose(evidence).remarks]
    assert remarks[1:] == ([] if advice is None else [advice])


def test_jobs_that_wait_for_their_batch_are_no_slow_synthesis():
    knobs = {"max_batch_wait_ms": 4000, "max_batch_size": 8, "synthesis_concurrency": 1}
    filling = Evidence(60.0, 20.0, {Cause.SYNTHESIS: 40.0}, 9, knobs=knobs, cpu_percent=99.0, batch_s=30.0)
    found = diagnose(filling)
    assert found.bottleneck == "requests"
    assert [remark.text for remark in found.remarks] == [
        "Jobs wait for a batch: for 50 % of the time it was not full.",
        "Try max_batch_wait_ms 4000 → 2000 or max_batch_size 8 → 4.",
    ]
    seldom = Evidence(60.0, 20.0, {Cause.SYNTHESIS: 40.0}, 9, knobs=knobs, batch_s=10.0)
    assert diagnose(seldom).bottleneck == "synthesis" and "50 %" in diagnose(seldom).remarks[0].text


def test_means_are_those_of_the_phases():
    statistics = {phase: phase_statistics([1.5, 2.5]) for phase in (Phase.SYNTHESIS, Phase.NTT, Phase.MSM)}
    evidence = Evidence(60.0, 20.0, {Cause.SYNTHESIS: 40.0}, 9, {p: s for p, s in statistics.items() if s is not None})
    assert "2.00 s to synthesise and 4.00 s on the device" in diagnose(evidence).remarks[1].text


def completions(*ends: float) -> list[Completion]:
    return [Completion(str(at), 0.0, at - 1, at, EventKind.JOB_DONE) for at in ends]


def half_busy(start: float, end: float) -> float:
    return (end - start) / 2


def test_ceiling_is_of_the_proofs_that_the_rate_is_of():
    run = Timeline().figures(0.0, 100.0)
    figures = throughput(run, completions(10, 20, 30, 40), 0.0, 41.0, half_busy)
    assert figures.ceiling_proofs_per_minute == pytest.approx(12.0)
    assert throughput(run, completions(10, 20), 0.0, 21.0, lambda start, end: 0.0).ceiling_proofs_per_minute is None


def test_throughput_is_from_proof_to_proof():
    run = Timeline().figures(0.0, 100.0)
    assert throughput(run, completions(10, 20, 30, 40), 0.0, 41.0, half_busy).proofs_per_minute == pytest.approx(6.0)
    assert throughput(run, completions(10), 0.0, 41.0, half_busy).proofs_per_minute is None
    stalled = throughput(run, completions(10, 20, 30, 40), 0.0, 100.0, half_busy).proofs_per_minute
    assert stalled is not None and stalled < 3.0
    assert throughput(run, completions(0, 20, 40, 60, 65, 70, 75), 0.0, 76.0, half_busy).trend == 1
    assert throughput(run, completions(0, 5, 10, 15, 35, 55, 75), 0.0, 76.0, half_busy).trend == -1
    assert throughput(run, completions(0, 5, 10, 15, 20, 25), 0.0, 26.0, half_busy).trend == 0
