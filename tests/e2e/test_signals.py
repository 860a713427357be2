"""Signals end the console: the terminal at once, what was begun in its time; a second signal ends all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from terminal_rig import Terminal, console_environment

ROOT = Path(__file__).parents[2]
FAULTY = [sys.executable, str(ROOT / "tests" / "support" / "faulty_console.py")]
TINY = ["--workload", "poseidon-merkle-10", "--partitions", "2"]
STEPS = ("synthesize", "prover", "setup", "h2d", "ntt", "msm", "d2h", "release", "finish", "verify")
BUSY = r"done [1-9]"
STUCK = r"0001 +0/2(.|\n)* s  MSM"
"""The faults below hold this job in its MSM."""

Start = Callable[..., Terminal]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home of its own, shared by the module so that the key is made once."""
    return console_environment(tmp_path_factory.mktemp("home"))


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    started: list[Terminal] = []

    def begin(faults: str = "", *options: str) -> Terminal:
        env = environment | {"CUZK_TEST_FAULTS": faults, "XDG_STATE_HOME": str(tmp_path)}
        terminal = Terminal([*FAULTY, *TINY, *options], env, (140, 40))
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()


def is_clean(terminal: Terminal) -> bool:
    return terminal.left_on() == [] and termios.tcgetattr(terminal.fd) == terminal.before


def is_running(terminal: Terminal) -> bool:
    return os.waitpid(terminal.pid, os.WNOHANG) == (0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_comes_back_at_once_and_a_second_signal_ends_the_drain(start: Start, number: signal.Signals):
    terminal = start("msm@1=120 msm@2=120")
    terminal.wait_for(BUSY)
    terminal.wait_for(STUCK)
    terminal.send(number)
    terminal.wait_for(rf"cuzk-top: {number.name}: \d partitions? of \d jobs? may end, for 60 s at most: ")
    assert is_clean(terminal) and is_running(terminal)
    terminal.send(signal.SIGINT)
    assert terminal.end() == 128 + number
    assert "Traceback" not in terminal.text()


def test_what_was_begun_is_ended_and_told_in_the_log(start: Start, tmp_path: Path):
    terminal = start("msm@2=1.5")
    terminal.wait_for(BUSY)
    log = tmp_path / "cuzk-top" / "logs" / "engine.log"
    while "job_id=0002" not in log.read_text():
        terminal.pump(0.05)
    time.sleep(0.3)
    terminal.send(signal.SIGTERM)
    assert terminal.end() == 143
    assert is_clean(terminal)
    lines = log.read_text().splitlines()
    assert lines[-1].endswith("cuzk engine stopped")
    assert any("partition GPU prove complete job_id=0002" in line for line in lines)


def test_the_knob_bounds_the_drain(start: Start):
    terminal = start("msm@1=120", "--set", "drain_timeout_s=1")
    terminal.wait_for(STUCK)
    terminal.send(signal.SIGTERM)
    terminal.wait_for("for 1 s at most")
    assert terminal.end() == 143


def test_ctrl_c_typed_at_the_drain_ends_it(start: Start):
    """Out of the screen, the terminal makes signals of keys again."""
    terminal = start("msm@1=120")
    terminal.wait_for(STUCK)
    terminal.send(signal.SIGTERM)
    terminal.wait_for("may end")
    terminal.press("\x03")
    assert terminal.end() == 143


def test_a_key_ends_the_built_in_workload_without_a_drain(start: Start):
    terminal = start("msm@1=120")
    terminal.wait_for(BUSY)
    terminal.press("q")
    assert terminal.end() == 0
    assert is_clean(terminal) and "may end" not in terminal.text()


def test_a_drain_of_a_terminal_that_does_not_read_ends_by_a_second_signal(start: Start):
    terminal = start("msm@1=120")
    terminal.wait_for(BUSY)
    for _ in range(40):
        terminal.press("?\x1b")  # each draws the whole screen
        time.sleep(0.05)
    terminal.send(signal.SIGTERM)
    time.sleep(3)
    assert is_running(terminal), "it drains, longer than the time after which the screen is given up"
    assert termios.tcgetattr(terminal.fd) == terminal.before
    terminal.send(signal.SIGTERM)
    end = time.monotonic() + 20
    while time.monotonic() < end and terminal.code is None:
        pid, status = os.waitpid(terminal.pid, os.WNOHANG)
        terminal.code = os.waitstatus_to_exitcode(status) if pid else None
        time.sleep(0.05)
    assert terminal.code == 143


@pytest.mark.parametrize("what", ["error", "death"])
def test_faults_at_every_step_of_a_real_proof_fail_the_right_jobs(environment: dict[str, str], what: str):
    """Every second job has a fault, each in another step; all others are delivered, and the process goes on."""
    faults = " ".join(f"{step}@{2 * place + 1}={what}" for place, step in enumerate(STEPS))
    count = 2 * len(STEPS) + 1
    command = ["bench", "--json", "--circuit", "poseidon-merkle-10", "-j", "2", "-c", str(count), "--warmup", "0"]
    done = subprocess.run(
        [*FAULTY, *command],
        env=environment | {"CUZK_TEST_FAULTS": faults},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["proofs"], run["failed"]) == (len(STEPS) + 1, len(STEPS))
    assert "Traceback" not in done.stderr


def test_what_a_second_signal_cut_off_goes_on_in_the_next_session(start: Start, tmp_path: Path):
    terminal = start("msm@1=120")
    terminal.wait_for(STUCK)
    terminal.send(signal.SIGTERM)
    terminal.wait_for("may end")
    terminal.send(signal.SIGTERM)
    assert terminal.end() == 143
    log = tmp_path / "cuzk-top" / "logs" / "engine.log"
    before = log.read_text()
    assert not any("Phase 7" in line and "job_id=0001 " in line for line in before.splitlines())
    again = start("")
    again.wait_for(r"done [3-9]")
    again.send(signal.SIGTERM)
    assert again.end() == 143
    lines = log.read_text()[len(before) :].splitlines()
    assert sum("Phase 7" in line and "job_id=0001 " in line for line in lines) == 1
    assert any("cuzk_top::engine: journal note=" in line for line in lines)
