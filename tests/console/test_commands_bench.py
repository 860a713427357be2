"""``cuzk-top bench`` and ``cuzk-top knobs``: the contract's JSON, the tables, the refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.cli import main
from console.commands.bench import _COLUMNS, MEANINGS
from prover.device.errors import OutOfMemory
from prover.groth16.prove import SlotProof
from prover.pipeline.knobs import REGISTRY

CIRCUIT = "range-check-10"
FIXTURES = Path(__file__).parent.parent / "fixtures" / "snark"
STATISTICS = {"count", "mean_s", "stdev_s", "p50_s", "p95_s", "min_s", "max_s"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def home(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["bench", "--circuit", CIRCUIT, "--json", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    document: dict[str, Any] = json.loads(captured.out)
    return document


def test_why_proofs_failed_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(self: SlotProof) -> None:
        raise OutOfMemory(1000, 10, "gpu")

    monkeypatch.setattr(SlotProof, "h2d", no_room)
    command = ["bench", "--circuit", CIRCUIT, "-c", "2", "-j", "1", "--warmup", "0"]
    assert main(command) == 1
    *_, row, told = capsys.readouterr().out.splitlines()
    assert "0 (2 failed)" in row
    assert told.startswith("failed with 1 client: ") and "1000 bytes asked, 10 free" in told
    assert main([*command, "--json"]) == 1
    assert "1000 bytes asked" in json.loads(capsys.readouterr().out)["runs"][0]["failure"]


def test_the_report_is_the_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    report = bench(capsys, "-c", "3", "-j", "1,2")
    assert list(report) == [
        "schema", "simulated", "device", "device_note", "circuit", "constraints", "partitions", "knobs", "runs",
    ]  # fmt: skip
    assert (report["schema"], report["simulated"], report["partitions"]) == ("cuzk-top/bench/1", False, 1)
    assert report["circuit"] == CIRCUIT and report["constraints"] > 900
    assert set(report["knobs"]) == set(REGISTRY) and report["knobs"]["slot_size"] == 0
    assert [run["concurrency"] for run in report["runs"]] == [1, 2]
    for run in report["runs"]:
        assert list(run) == [
            "concurrency",
            "proofs",
            "seconds_per_proof",
            "stdev_s",
            "ci95_s",
            "steady_seconds_per_proof",
            "proofs_per_minute",
            "utilisation",
            "steady_utilisation",
            "idle_s_per_proof",
            "gap_centre_s",
            "gpu_active_ms",
            "peak_rss_bytes",
            "forecast_rss_bytes",
            "peak_device_bytes",
            "phases",
            "gpu_phases",
            "devices",
            "verified",
            "failed",
            "failure",
        ]
        assert run["failure"] is None
        assert (run["proofs"], run["verified"], run["failed"], run["peak_device_bytes"]) == (3, 3, 0, None)
        assert (run["gpu_active_ms"], run["gpu_phases"]) == (None, {})  # the host has no events
        (device,) = run["devices"]
        assert (device["ordinal"], device["utilisation"]) == (0, run["utilisation"])
        assert run["proofs_per_minute"] == pytest.approx(60 / run["seconds_per_proof"])
        assert run["idle_s_per_proof"] == pytest.approx(run["seconds_per_proof"] * (1 - run["utilisation"]))
        assert 0 < run["utilisation"] < 1 and run["peak_rss_bytes"] > 2**20
        assert run["forecast_rss_bytes"] > 2**20
        assert set(run["phases"]) == {
            "synthesis", "queued", "lock_wait", "setup", "h2d", "ntt", "msm", "d2h", "finalizing",
        }  # fmt: skip
        for statistics in run["phases"].values():
            assert set(statistics) == STATISTICS and statistics["count"] == 3


def test_one_proof_has_undefined_figures_as_null(capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = bench(capsys, "-c", "1", "-j", "1", "--warmup", "0")["runs"]
    for undefined in ("stdev_s", "ci95_s", "steady_seconds_per_proof", "steady_utilisation", "gap_centre_s"):
        assert run[undefined] is None
    assert run["phases"]["msm"]["stdev_s"] is None


def test_knobs_come_from_options_environment_and_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[knobs]\nsynthesis_lookahead = 3\nslot_size = 2\n")
    monkeypatch.setenv("CUZK_TOP_SLOT_SIZE", "1")
    arguments = ("-c", "1", "-j", "1", "--partitions", "2", "--config", str(config), "--set", "gpu_lock=coarse")
    report = bench(capsys, *arguments)
    knobs = report["knobs"]
    assert (knobs["synthesis_lookahead"], knobs["slot_size"], knobs["gpu_lock"]) == (3, 1, "coarse")
    (run,) = report["runs"]
    assert (report["partitions"], run["proofs"], run["phases"]["msm"]["count"]) == (2, 1, 2)


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--circuit", CIRCUIT, "-c", "2", "-j", "1,2", "--partitions", "2"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith(f"{CIRCUIT}, ") and "2 partitions a proof, standard mode, on host" in lines[0]
    assert lines[1].split()[:3] == ["clients", "proofs", "s/proof"]
    assert [line.split()[0] for line in lines[2:]] == ["1", "2"]
    assert len({len(line) for line in lines[1:]}) == 1


def test_a_zkey_is_proved_with_the_witness_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    zkeys = sorted(FIXTURES.rglob("*.zkey"))
    zkey = next(path for path in zkeys if path.with_name("witness.wtns").is_file())
    assert main(["bench", "--circuit", str(zkey), "-c", "2", "-j", "1", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["proofs"], run["verified"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "0", "-j", "1"], "number is out of range: -c 0: give 1 to 1000000"),
        (["-c", "1", "-j", "0"], "not numbers of clients: -j 0: give 1 to 1024, several with commas: -j 1,2,3"),
        (["-c", "1", "-j", "1,"], "not numbers of clients: -j 1,:"),
        (["-c", "1", "-j", "1", "--partitions", "0"], "number is out of range: --partitions 0"),
        (["-c", "1", "-j", "1", "--warmup", "-1"], "number is out of range: --warmup -1"),
        (["-c", "1", "-j", "1", "--set", "warp=9"], "no such knob: warp: see cuzk-top knobs"),
        (["-c", "1", "-j", "1", "--set", "paused=true"], "a paused engine proves nothing"),
        (["-c", "1", "-j", "1", "--device", "gpu"], "unknown device: gpu: use auto, host, cuda or cuda:N"),
        (["-c", "1", "-j", "1", "--circuit", "nonsense"], "unknown circuit: nonsense"),
        (["-c", "1", "-j", "1", "--circuit", "gone.zkey"], "cannot read: No such file or directory: gone.zkey"),
        (["-c", "1", "-j", "1", "--witness", "w.wtns"], "a witness belongs to a zkey: w.wtns"),
        (["-c", "1", "-j", "1", "--config", "gone.toml"], "configuration file not found: gone.toml"),
    ],
)
def test_refusals_are_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cuzk-top: ") and captured.err.count("\n") == 1
    assert message in captured.err


def test_the_knob_registry_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "cuzk-top/knobs/1"
    by_name = {knob["name"]: knob for knob in document["knobs"]}
    assert list(by_name) == list(REGISTRY)
    contract = {"name", "type", "default", "min", "max", "unit", "effect", "risk", "daemon_key", "help"}
    assert all(contract <= set(knob) for knob in by_name.values())
    assert by_name["synthesis_lookahead"] | {} == {
        "name": "synthesis_lookahead",
        "type": "int",
        "default": 1,
        "min": 0,
        "max": 64,
        "choices": None,
        "step": 1,
        "unit": "slots",
        "effect": "now",
        "risk": "free",
        "daemon_key": "[pipeline] synthesis_lookahead",
        "help": REGISTRY["synthesis_lookahead"].help,
        "memory": "one more synthesised slot a step",
    }
    assert by_name["gpu_lock"]["choices"] == ["narrow", "coarse"] and by_name["gpu_lock"]["min"] is None


def test_every_column_is_explained_in_the_help_and_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(MEANINGS) == list(_COLUMNS)
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    page = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    for column, meaning in MEANINGS.items():
        assert f"{column} {meaning}" in text
        assert f"| {column} | {meaning} |" in page


def test_the_knob_registry_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knobs"]) == 0
    page, specs = capsys.readouterr().out, list(REGISTRY.values())
    lines = page.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("knob "))
    assert [line.split()[0] for line in lines[head + 1 : head + 1 + len(specs)]] == [spec.name for spec in specs]
    assert [line for line in lines if ": " in line][-len(specs) :] == [f"{s.name}: {s.help}" for s in specs]
    assert "--set KNOB=VALUE" in page
