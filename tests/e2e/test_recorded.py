"""A session is recorded by one process and replayed by another, in a real terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from terminal_rig import Terminal

from console.recording.reader import Recording
from prover.model import EventKind

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "console.cli"]
TINY = ["--workload", "poseidon-merkle-10", "--partitions", "2"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX", "LINES", "COLUMNS")}
    env |= {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
    return env | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


def run(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def recording(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "session.rec"
    terminal = Terminal([*COMMAND, *TINY, "--record", str(path)], environment, (120, 40))
    try:
        terminal.wait_for(r"done [3-9]")
        terminal.press("k\x1b[C")
        terminal.wait_for(r"synthesis_lookahead +◂ +2 +▸ +(landed|in force after)")
        terminal.send(signal.SIGTERM)
        assert terminal.end() == 143
    finally:
        terminal.close()
    return path


def test_the_recording_ends_with_the_session(recording: Path):
    told = list(Recording(recording).events())
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert told[0].kind is EventKind.ENGINE_STARTED and told[-1].kind is EventKind.ENGINE_STOPPED
    assert any(event.kind is EventKind.KNOB_APPLIED for event in told)


def test_it_is_replayed_in_a_terminal(environment: dict[str, str], recording: Path):
    terminal = Terminal([*COMMAND, "replay", str(recording), "--speed", "0.5"], environment, (120, 40))
    try:
        terminal.wait_for(r"REPLAY ×0.5 \d+ %")
        terminal.wait_for(r"REPLAY 100 % end")
        terminal.press(" ")
        terminal.wait_for(r"REPLAY ×0.5 \d+ %")
        terminal.press(" ")
        terminal.wait_for(r"REPLAY \d+ % paused")
        terminal.press("\x1b[H")
        terminal.wait_for(r"replay: 0 s of \d+ s")
        terminal.press("p")
        terminal.wait_for("what happened stays as it was")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.left_on() == [] and termios.tcgetattr(terminal.fd) == terminal.before
    finally:
        terminal.close()


def test_one_frame_of_it(environment: dict[str, str], recording: Path):
    done = run(environment, "replay", str(recording), "--once", "--json")
    assert done.returncode == 0 and done.stderr == ""
    document = json.loads(done.stdout)
    assert document["replay"] and document["throughput"]["proofs"] >= 3
    assert document["knobs"]["synthesis_lookahead"]["in_force"] == 2
    assert document["circuit"] == "poseidon-merkle-10"


def test_a_modelled_box_is_recorded_and_says_so(environment: dict[str, str], tmp_path: Path):
    path = tmp_path / "model.rec"
    done = run(environment, "simulate", "--speed", "2000", "--once", "--record", str(path))
    assert done.returncode == 0, done.stderr
    again = run(environment, "replay", str(path), "--once")
    assert again.returncode == 0 and "REPLAY" in again.stdout and "SIMULATED" in again.stdout
    lines = [line for line in again.stdout.splitlines() if "cuzk_top::" in line]
    assert lines and all("SIMULATED: " in line for line in lines)


def test_the_state_folder_gets_a_recording_if_asked(environment: dict[str, str], tmp_path: Path):
    config = tmp_path / "config.toml"
    config.write_text("[storage]\nrecord = true\n")
    env = environment | {"XDG_STATE_HOME": str(tmp_path)}
    terminal = Terminal([*COMMAND, *TINY, "--config", str(config)], env, (120, 40))
    try:
        terminal.wait_for(r"done [1-9]")
        terminal.press("q")
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert list(Recording(tmp_path / "cuzk-top" / "recordings" / "session.rec").events())
