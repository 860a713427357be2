"""``cuzk-top simulate`` and ``bench --preset``: everything that they show or export says SIMULATED."""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.cli import build_parser, main
from console.commands import simulate
from console.screens.plain import screen_text
from console.settings import ConsoleSettings
from console.theming import read_themes
from prover.model import Counters
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import JobEntry, OpenJob

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(tmp_path / variable.lower()))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")


def command(*arguments: str) -> argparse.Namespace:
    return build_parser("simulate").parse_args(list(arguments))


def drive(
    act: Callable[[Pilot[Any], ConsoleApp], Awaitable[None]],
    *arguments: str,
    size: tuple[int, int] = (80, 24),
    settings: ConsoleSettings | None = None,
    speed: int = 1,
) -> None:
    """The console over a modelled box that runs, at once and for real. (A pilot's key waits for an idle processor.)"""
    settings = settings or ConsoleSettings()
    feed = simulate._feed(command("--speed", str(speed), *arguments), settings)
    app = ConsoleApp(feed, settings, read_themes()[0], window_s=600.0)

    async def body() -> None:
        async with app.run_test(size=size) as pilot:
            await act(pilot, app)

    try:
        asyncio.run(body())
    finally:
        assert feed.stop(30.0)


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        await pilot.pause(0.02)


@pytest.mark.parametrize(
    ("size", "plain", "preset"),
    [
        ((80, 24), False, "porep-partitions"),
        ((80, 24), True, "porep-standard"),
        ((120, 40), False, "porep-standard"),
        ((200, 60), True, "snap-coarse"),
    ],
)
def test_the_first_line_says_simulated_at_every_size(size: tuple[int, int], plain: bool, preset: str) -> None:
    seen: list[str] = []

    async def act(pilot: Pilot[Any], app: ConsoleApp) -> None:
        seen.append(screen_text(app.screen))  # before the engine runs
        await until(pilot, lambda: app.current is not None and app.current.snapshot.counters.jobs_done > 0)
        seen.append(screen_text(app.screen))
        await pilot.press("space")  # frozen
        seen.append(screen_text(app.screen))
        await pilot.press("space", "p")  # paused
        await until(pilot, lambda: app.current is not None and app.current.snapshot.paused)
        seen.append(screen_text(app.screen))

    drive(act, "--preset", preset, size=size, settings=ConsoleSettings(ascii=plain, colour=not plain), speed=200)
    for text in seen:
        first = text.splitlines()[0]
        assert " SIMULATED " in first, first
        assert cell_len(first) <= size[0]
        assert not plain or text.isascii()
    assert "frozen" in seen[2]
    assert preset in seen[1].splitlines()[0] or size[0] == 80


def test_knobs_are_turned_from_the_console_those_of_the_model_too() -> None:
    async def act(pilot: Pilot[Any], app: ConsoleApp) -> None:
        await until(pilot, lambda: app.feed.ready)
        before = app.feed.poll(60.0).snapshot
        assert next(knob for knob in before.knobs if knob.name == "pinned_pool_bytes").wanted == 0
        await pilot.press("k")
        panel = app.overview.knobs
        panel.cursor = [row.name for row in panel.data.rows].index("pinned_pool_bytes")
        await pilot.press("1", "enter")  # sizes are typed in GiB

        def wanted() -> object:
            return next(k for k in app.feed.poll(60.0).snapshot.knobs if k.name == "pinned_pool_bytes").wanted

        await until(pilot, lambda: wanted() == 2**30)
        await pilot.pause(0.3)
        assert "1G" in screen_text(app.screen)
        await pilot.press("u")
        await until(pilot, lambda: wanted() != 2**30)

    drive(act, "--preset", "snap-coarse", size=(200, 60))


def test_no_key_on_any_kind_of_knob_ends_the_console() -> None:
    async def act(pilot: Pilot[Any], app: ConsoleApp) -> None:
        await until(pilot, lambda: app.feed.ready)
        await pilot.pause(0.3)
        await pilot.press("k")
        panel = app.overview.knobs
        names = [row.name for row in panel.data.rows]
        for name in ("gpu_devices", "pinned_pool_bytes", "gpu_lock", "slot_size"):  # one of each kind
            panel.cursor = names.index(name)
            await pilot.press("left", "right", "enter")
        await pilot.pause(0.3)
        assert app.crash is None and app.feed.failure is None

    drive(act, size=(200, 60))


def test_one_frame_as_text_and_its_log_say_simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["simulate", "--once", "--speed", "500"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "SIMULATED" in out[0] and "porep-standard" in out[0]
    assert "a model, no proofs are made" in out[1]
    lines = (tmp_path / "state" / "cuzk-top" / "logs" / "simulated.log").read_text().splitlines()
    assert len(lines) > 5
    assert all(line[28:].lstrip(" ").split(" ", 1)[1].startswith("SIMULATED: ") for line in lines)
    assert not (tmp_path / "state" / "cuzk-top" / "logs" / "engine.log").exists()


def test_one_frame_as_json_says_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--once", "--json", "--speed", "500", "--preset", "porep-slotted", "-j", "1"]) == 0
    frame = json.loads(capsys.readouterr().out)
    assert frame["simulated"] is True
    assert frame["throughput"]["proofs"] >= 1 and frame["throughput"]["verified"] == 0
    assert [one["kind"] for one in frame["devices"]] == ["model"]
    assert {feed["name"] for feed in frame["feeds"]} == {"engine", "model", "log"}


def test_the_real_console_says_that_it_is_not() -> None:
    from console.export.frame_json import frame_document
    from console.feeds.hosted import HostedEngine

    engine = HostedEngine(lambda progress, cancel: pytest.fail("never started"), "a circuit")
    assert engine.snapshot().simulated is False
    from console.frame import Frame

    assert frame_document(Frame(0.0, 0.0, 60.0, engine.snapshot()))["simulated"] is False
    assert engine.snapshot().counters == Counters()


def test_bench_over_a_preset_is_the_contracts_report_and_says_simulated() -> None:
    """A process of its own, as an operator runs it."""
    arguments = ["bench", "--preset", "porep-standard", "-j", "1,2,3,5", "-c", "5", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "console.cli", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert (report["schema"], report["simulated"], report["model"]) == ("cuzk-top/bench/1", True, "porep-standard")
    assert (report["circuit"], report["constraints"], report["partitions"]) == ("porep-32g", 130_278_869, 10)
    runs = report["runs"]
    assert [run["concurrency"] for run in runs] == [1, 2, 3, 5]
    assert [run["seconds_per_proof"] for run in runs] == [pytest.approx(s, rel=0.03) for s in (67, 46, 46, 45)]
    assert [run["gap_centre_s"] for run in runs] == [pytest.approx(42, abs=1.3), *[pytest.approx(12, abs=0.6)] * 3]
    assert {(run["proofs"], run["verified"], run["failed"]) for run in runs} == {(5, 0, 0)}
    assert max(run["peak_rss_bytes"] for run in runs) == pytest.approx(228.5 * 2**30, rel=0.01)


def test_bench_heeds_knobs_and_partitions_and_its_table_says_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["bench", "--preset", "porep-standard", "-j", "3", "-c", "6"]
    assert main([*options, "--set", "synthesis_concurrency=2", "--partitions", "5", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["partitions"], report["knobs"]["synthesis_concurrency"]) == (5, 2)
    assert report["knobs"]["slot_size"] == 0 and report["runs"][0]["seconds_per_proof"] < 30
    assert main(options) == 0
    assert capsys.readouterr().out.startswith("SIMULATED porep-standard, no proofs were made: porep-32g, 130,278,869")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["simulate", "--preset", "nope"], "no such preset: nope: presets: porep-partitions"),
        (["simulate", "--model", "nope.toml"], "model file not found: nope.toml: check --model"),
        (["simulate", "--preset", "snap-coarse", "--model", "x"], "one model at a time: --preset and --model"),
        (["simulate", "--speed", "0"], "speed is out of range: --speed 0: give more than 0, up to 10000"),
        (["simulate", "--speed", "nan"], "speed is out of range: --speed nan"),
        (["simulate", "--speed", "1e9"], "speed is out of range: --speed 1e+09"),
        (["simulate", "-j", "0"], "number is out of range: -j 0"),
        (["simulate", "--device", "host"], "a model has its own device: --device host"),
        (["simulate", "--set", "slot_sise=1"], "no such knob: slot_sise"),
        (["bench", "-c", "1", "-j", "1", "--preset", "nope"], "no such preset: nope"),
        (["bench", "-c", "1", "-j", "1", "--model", "nope.toml"], "model file not found: nope.toml"),
        (["bench", "-c", "1", "-j", "1", "--preset", "snap-coarse", "--circuit", "x"], "a model has its own circuit"),
        (["bench", "-c", "1", "-j", "1", "--preset", "snap-coarse", "--set", "paused=true"], "a paused engine"),
    ],
)
def test_what_cannot_be_used_costs_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *(["--once"] if arguments[0] == "simulate" else [])]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"cuzk-top: {line}") and captured.err.count("\n") == 1


def test_a_bad_model_file_is_told_with_file_and_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[synthesis]\npartition_s = -1\n")
    assert main(["bench", "-c", "1", "-j", "1", "--model", str(path)]) == 2
    assert f"cuzk-top: number of the model is out of range: {path}: synthesis.partition_s: write" in (
        capsys.readouterr().err
    )
    path.write_text("[synthesis]\npartition_s = 2\n[device.msm]\npartition_s = 1\n")
    assert main(["bench", "-c", "3", "-j", "1", "--model", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["model"], report["simulated"]) == ("mine", True)
    assert report["runs"][0]["seconds_per_proof"] == pytest.approx(3.0)


def test_the_window_grows_with_the_speed() -> None:
    assert [simulate._window(speed) for speed in (1, 4, 5, 20, 100, 5000)] == [60.0, 60.0, 120.0, 300.0, 600.0, 600.0]


def test_a_journal_is_kept_where_it_is_asked_for_and_an_interrupted_session_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "model.sqlite3"
    real = JobEntry("real", "porep-32g", 1, 0.0, 2, None, {"circuit": "poseidon-merkle-13", "number": 0}, ())

    def session() -> tuple[int, list[OpenJob]]:
        feed = simulate._feed(command("--speed", "500", "-j", "2", "--journal", str(path)), ConsoleSettings())
        feed.start()
        end = time.monotonic() + 30
        while (done := feed.poll(60.0).snapshot.counters.jobs_done) < 2:
            assert time.monotonic() < end and feed.failure is None
            time.sleep(0.02)
        assert feed.stop(30.0)
        journal = Journal.open(path)
        left = journal.open_jobs()
        assert left is not None and journal.close()
        return done, left

    journal = Journal.open(path)
    assert journal.submit(real).result(10).durable and journal.close()
    done, left = session()
    assert done >= 2
    cut_short = {job.entry.id for job in left} - {"real"}
    assert 1 <= len(cut_short) <= 2  # two clients: what they had in flight
    assert all(job.entry.request["simulated"] == "porep-standard" for job in left if job.entry.id in cut_short)
    _, left = session()
    later = {job.entry.id for job in left}
    assert "real" in later and not later & cut_short  # they went on and ended; what is no model's is left alone
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM proofs WHERE verified").fetchone() == (0,)
    connection.close()


def test_no_journal_is_kept_unasked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["simulate", "--once", "--speed", "500"]) == 0
    assert not list(tmp_path.rglob("*.sqlite3"))
