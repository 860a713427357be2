"""``cuzk-top analyze`` over the sample logs: the contract's JSON against the ground truth, and its one-line errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli import main

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
TRUTH = json.loads((LOGS / "ground_truth.json").read_text())
SWEEP, SNAP = LOGS / "standard-j-sweep.ansi.log", LOGS / "snap-two-workers.mixed.log"
PLAIN, JSON = LOGS / "porep-partitions.plain.log", LOGS / "porep-partitions.json.log"


@pytest.fixture
def analyse(capsys):
    def call(*arguments):
        assert main(["analyze", "--json", *map(str, arguments)]) == 0
        return json.loads(capsys.readouterr().out)

    return call


def test_the_sweep(analyse):
    report = analyse(SWEEP)
    assert (report["lines"], report["lines_understood"], report["proofs"], report["failed"]) == (558, 558, 21, 0)
    (device,) = report["devices"]
    inside = [gap["gap"] for gap in TRUTH["sweep"]["gaps_s"] if gap["kind"] == "inside run"]
    between = [gap["gap"] for gap in TRUTH["sweep"]["gaps_s"] if gap["kind"] == "between runs"]
    assert (device["gaps"]["count"], device["gaps"]["total_s"]) == (len(inside), pytest.approx(sum(inside)))
    assert device["gaps"]["between_runs"] == {"count": 4, "total_s": pytest.approx(sum(between))}
    long_inside = [gap for gap in inside if gap > 20]
    assert [(c["count"], c["low_s"], c["high_s"], c["cause"]) for c in device["gaps"]["clusters"]] == [
        (12, TRUTH["sweep"]["clusters_s"]["short"]["min"], TRUTH["sweep"]["clusters_s"]["short"]["max"], "synthesis"),
        (4, min(long_inside), max(long_inside), "synthesis"),
    ]
    assert device["utilisation_by"]["lock"] is None and device["utilisation_by"]["kernels"] is None
    assert report["bottleneck"] == "synthesis"
    assert report["ceiling_proofs_per_minute"] == pytest.approx(60 * 21 / TRUTH["sweep"]["gpu_s_all"]["sum"], abs=1e-5)


def test_runs_of_the_sweep(analyse):
    runs = analyse(SWEEP)["runs"]
    assert [run["warmup"] for run in runs] == [True, False, False, False, False]
    for run, truth in zip(runs, TRUTH["sweep"]["runs"], strict=True):
        assert (run["concurrency"], run["proofs"]) == (truth["concurrency"], truth["proofs"])
        assert run["seconds_per_proof"] * run["proofs"] == pytest.approx(truth["run_s_log"], abs=1e-3)
        if "util_with_ramp" in truth:
            assert run["utilisation"] == pytest.approx(truth["util_with_ramp"], abs=1e-3)
            assert run["steady_utilisation"] == pytest.approx(truth["util_pick_to_pick"], abs=1e-3)
    assert runs[0]["steady_utilisation"] is None


def test_a_longer_pause_joins_runs(analyse):
    assert len(analyse("--pause", "3600", SWEEP)["runs"]) == 1


def test_a_stretch_of_the_log(analyse):
    truth = TRUTH["sweep"]["runs"][2]
    report = analyse("--since", "2026-02-18T16:25:33Z", "--until", "2026-02-18T16:29:26", SWEEP)
    assert report["proofs"] == truth["proofs"]
    assert report["devices"][0]["busy_s"] == pytest.approx(truth["gpu_s"]["sum"], abs=1e-3)


def test_two_workers(analyse):
    report = analyse(SNAP)
    by = report["devices"][0]["utilisation_by"]
    assert by["lock"] == pytest.approx(TRUTH["snap"]["util_mutex_held"], abs=1e-3)
    assert by["timeline"] == pytest.approx(TRUTH["snap"]["util_timeline_union"], abs=1e-3)
    assert by["kernels"] is None
    assert report["bottleneck"] == "lock"
    assert any("not GPU time" in line for line in report["evidence"])
    ruled_out = {entry["what"]: entry["figure"] for entry in report["ruled_out"]}
    assert ruled_out["thread pool"].startswith("0 ms")
    assert ruled_out["malloc_trim"].startswith(f"{TRUTH['snap']['malloc_trim_ms']['sum']} ms")
    assert report["warnings"] == ["torn lines joined: 4"]
    waited = report["phases"]["lock_wait"]
    assert (waited["count"], waited["max_s"]) == (16, TRUTH["snap"]["mutex_wait_ms"]["max"] / 1000)


def test_streams_in_files_of_their_own_give_the_same(analyse, tmp_path):
    """Standard output and error apart, as a service manager keeps them."""
    out, err = tmp_path / "out.log", tmp_path / "err.log"
    from console.feeds.logs.logical import LogicalLines
    from console.feeds.logs.physical import PhysicalLines

    logical = LogicalLines()
    lines = [text for _, text in logical.feed(PhysicalLines().feed(SNAP.read_bytes())) + logical.finish()]
    out.write_text("".join(f"{text}\n" for text in lines if text.startswith("20")))
    err.write_text("".join(f"{text}\n" for text in lines if not text.startswith("20")))
    one, two = analyse(SNAP), analyse(out, err)
    for key in ("proofs", "partitions", "runs", "phases", "bottleneck", "lines"):
        assert two[key] == one[key]
    assert two["devices"][0]["utilisation_by"] == one["devices"][0]["utilisation_by"]
    assert analyse(err, out)["devices"] == two["devices"]


def test_formats_give_the_same_report_and_failures_are_named(analyse):
    report = analyse(PLAIN)
    assert report == analyse(JSON)
    assert (report["proofs"], report["failed"], report["partitions"]) == (2, 1, 21)
    (failure,) = [line for line in report["evidence"] if line.startswith("job ")]
    assert "ps-porep-1000-1-90217" in failure and "partition 4" in failure and "out of memory" in failure


def test_one_proof_alone_does_not_make_the_gpu_the_limit(analyse, tmp_path):
    stamp, log = "2021-01-12T15:43:33.114 INFO bellperson::groth16::prover > ", tmp_path / "worker.log"
    log.write_text(f"{stamp}synthesis time: 31.4s\n{stamp.replace('33.114', '53.114')}prover time: 20s\n")
    report = analyse(log)
    assert (report["proofs"], report["bottleneck"]) == (1, "synthesis")
    assert report["runs"][0]["steady_utilisation"] is None


def test_a_log_cut_at_its_beginning_says_what_it_cannot_know(analyse, tmp_path):
    log = tmp_path / "tail.log"
    log.write_bytes(b"".join(SNAP.read_bytes().splitlines(True)[-200:]))
    report = analyse(log)
    assert any("lower bound" in line for line in report["evidence"])
    assert any("could not be told apart" in warning for warning in report["warnings"])
    assert any("under way when the log began" in warning for warning in report["warnings"])


def test_text_says_the_same(capsys):
    assert main(["analyze", str(SNAP)]) == 0
    text = capsys.readouterr().out
    assert "limited by: lock" in text and "not GPU time" in text and "lock 99.8%" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.log"], "nowhere.log: No such file or directory"),
        ([str(LOGS)], "Is a directory"),
        ([str(SNAP), "--pause", "-1"], "not a number of seconds"),
        ([str(SNAP), "--since", "soon"], "not a time"),
        ([__file__], "no line of a proving daemon"),
    ],
)
def test_unusable_input_is_one_line(arguments, said):
    done = subprocess.run(
        [sys.executable, "-m", "console.cli", "analyze", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
