"""The console in a real terminal, proving for real on a tiny circuit."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from terminal_rig import Terminal, console_environment

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "console.cli"]
TINY = ["--workload", "poseidon-merkle-10", "--partitions", "2"]
FIRST_PROOF = r"done [1-9]"

Start = Callable[[Sequence[str]], Terminal]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home of its own, shared by the module so that the key is made once."""
    return console_environment(tmp_path_factory.mktemp("home"))


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    started: list[Terminal] = []

    def begin(options: Sequence[str]) -> Terminal:
        terminal = Terminal([*COMMAND, *TINY, *options], environment)
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()


def plain(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_session_from_first_frame_to_quit(start: Start):
    terminal = start([])
    terminal.wait_for(r"cuzk-top(.|\n)*Why is the(.|\n)*q quit")
    terminal.wait_for(FIRST_PROOF)
    terminal.wait_for(r"partition GPU prove complete")
    terminal.press("k\x1b[C")
    terminal.wait_for(r"synthesis_lookahead +◂ +2")
    terminal.wait_for(r"synthesis_lookahead +◂ +2 +▸ +landed")
    terminal.press("u")
    terminal.wait_for(r"synthesis_lookahead +◂ +1")
    terminal.press("\x1b")
    terminal.press("?")
    terminal.wait_for("How to read it|Everywhere")
    terminal.press("q")
    terminal.wait_for(r"q quit")
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.left_on() == []
    assert termios.tcgetattr(terminal.fd) == terminal.before


def test_errors_that_go_to_a_file_leave_the_picture_on_the_terminal(environment: dict[str, str], tmp_path: Path):
    errors = tmp_path / "errors"
    line = f"exec {shlex.join([*COMMAND, *TINY])} 2>{shlex.quote(str(errors))}"
    terminal = Terminal(["/bin/sh", "-c", line], environment)
    try:
        terminal.wait_for(r"cuzk-top(.|\n)*Why is the(.|\n)*q quit")
        terminal.press("q")
        assert terminal.end() == 0
        assert errors.read_bytes() == b""
    finally:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, None])
def test_a_signal_leaves_the_terminal_clean(start: Start, number: signal.Signals | None):
    terminal = start([])
    terminal.wait_for(FIRST_PROOF)
    if number is None:
        terminal.press("\x03")  # on the screen this is a key like q
    else:
        terminal.send(number)
    assert terminal.end() == (0 if number is None else 128 + number)
    assert terminal.left_on() == []
    assert termios.tcgetattr(terminal.fd) == terminal.before


def test_a_signal_ends_the_console_of_a_terminal_that_does_not_read(start: Start):
    """Nothing reads for as long as it takes: the rig's ``end`` would, and the console with it come unstuck."""
    terminal = start([])
    terminal.wait_for(FIRST_PROOF)
    for _ in range(40):
        terminal.press("?\x1b")  # each draws the whole screen
        time.sleep(0.05)
    time.sleep(1)
    terminal.send(signal.SIGTERM)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pid, status = os.waitpid(terminal.pid, os.WNOHANG)
        if pid:
            terminal.code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.05)
    assert terminal.code == 143
    assert termios.tcgetattr(terminal.fd) == terminal.before


# No UTF-8: a byte, a torn character, a surrogate. No key: a code point beyond the last, a number without end, a click
# nowhere. Text that ends inside a sequence.
NOISE = [
    b"\xff",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\x1b[1114112u",
    b"\x1b[" + b"9" * 5000 + b"u",
    b"\x1b[<0;-5;-7M",
    b"\x1b[M\xff\xff\xff",
]


def test_noise_on_the_line_is_not_the_end(start: Start):
    terminal = start([])
    terminal.wait_for(FIRST_PROOF)
    for noise in NOISE:
        os.write(terminal.fd, noise)
        terminal.pump(0.2)
    os.write(terminal.fd, b"\x1b[200~na\xefve text with q in it\x1b[201~")
    terminal.press("?")
    terminal.wait_for("How to read it|Everywhere")
    terminal.press("q")
    terminal.wait_for(r"q quit")
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.left_on() == []
    assert "Traceback" not in terminal.text()


def test_another_log_is_followed(start: Start, tmp_path: Path):
    log = tmp_path / "daemon.log"
    log.write_text("2026-11-30T16:19:52.983822Z  INFO cuzk_core::engine: first word\n")
    terminal = start(["--log", str(log), "--ascii", "--no-color"])
    terminal.wait_for("daemon.log")
    terminal.wait_for("first word")
    with log.open("a") as file:
        file.write("second word\n")
    text = terminal.wait_for("second word")
    assert text.isascii()
    terminal.press("q")
    assert terminal.end() == 0


def test_a_resize_is_followed(start: Start):
    import fcntl
    import struct

    terminal = start([])
    terminal.wait_for(FIRST_PROOF)
    terminal.screen.resize(24, 80)
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    terminal.send(signal.SIGWINCH)
    terminal.wait_for(r"\n ─?.*q quit$")
    terminal.press("q")
    assert terminal.end() == 0


def test_what_a_killed_console_left_goes_on_in_the_next(start: Start):
    first = start([])
    first.wait_for(FIRST_PROOF)
    first.send(signal.SIGKILL)
    second = start([])
    second.wait_for(r"\d+ jobs? resumed, \d+ of \d+ proofs were there")
    second.wait_for(FIRST_PROOF)
    third = start([])
    third.wait_for(rf"another cuzk-top \(process {second.pid}\) writes the journal")
    third.wait_for(FIRST_PROOF)
    second.press("q")
    assert second.end() == 0


def test_one_frame_keeps_a_journal_where_that_is_asked(environment: dict[str, str], tmp_path: Path):
    path = tmp_path / "new" / "kept.sqlite3"
    document = json.loads(plain(environment, "--once", "--json", *TINY, "--journal", str(path)).stdout)
    with closing(sqlite3.connect(path)) as journal:
        ((good,),) = journal.execute("SELECT good FROM devices").fetchall()
        delivered = journal.execute("SELECT count(*) FROM jobs WHERE stage = 'delivered'").fetchone()[0]
    assert good >= document["devices"][0]["proofs_good"] >= 2 and delivered >= document["throughput"]["proofs"] >= 1
    again = json.loads(plain(environment, "--once", "--json", *TINY, "--journal", str(path)).stdout)
    assert again["devices"][0]["proofs_good"] > good >= 2 and again["devices"][0]["proofs_bad"] == 0


def test_one_frame_as_text(environment: dict[str, str]):
    done = plain(environment, "--once", *TINY)
    assert done.returncode == 0 and done.stderr == ""
    assert "\x1b" not in done.stdout
    for title in ("Device 0", "Pipeline", "Partitions", "Knobs", "Why is the device not busy?", "Log"):
        assert title in done.stdout


def test_one_frame_as_json(environment: dict[str, str]):
    done = plain(environment, "--once", "--json", *TINY, "--set", "synthesis_lookahead=3")
    document = json.loads(done.stdout)
    assert document["schema"] == "cuzk-top/frame/1"
    assert document["throughput"]["verified"] >= 2
    assert document["knobs"]["synthesis_lookahead"]["in_force"] == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "--once"),
        (["--attach", "http://localhost:1"], "--attach"),
        (["--circuit", "a.zkey"], "--circuit"),
        (["--once", "--record", "."], "--record"),
        (["--device", "nope"], "unknown device: nope"),
        (["--json"], "--once"),
        (["-j", "0"], "-j 0"),
        (["--once", "--theme", "nope"], "nope"),
        (["--workload", "poseidon-merkel-10"], "poseidon-merkle-10"),
        (["--once", "--set", "synthesis_lookahead=900"], "synthesis_lookahead"),
        (["--once", "--config", "/nowhere/x.toml"], "/nowhere/x.toml"),
        (["--once", "--journal", "/"], "--journal /"),
    ],
)
def test_what_cannot_be_used_is_one_line(environment: dict[str, str], options: list[str], told: str):
    done = plain(environment, *options)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("cuzk-top: ") and told in done.stderr


def test_a_device_that_is_not_there_is_one_line(environment: dict[str, str]):
    done = plain(environment, "--once", "--device", "cuda:99")
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("cuzk-top: "), done.stderr


def test_a_configuration_with_a_mistake_names_it(environment: dict[str, str], tmp_path: Path):
    path = tmp_path / "config.toml"
    for text, told in (
        ("[console]\ntheem = 'dark'\n", "console.theem"),
        ("[console]\nrefresh = 100\n", "console.refresh"),
        ("[console\n", "config.toml"),
        ("[knobs]\nsynthesis_lookahead = 'x'\n", "synthesis_lookahead"),
        ("[storage]\ndays = 0\n", "storage.days"),
    ):
        path.write_text(text)
        done = plain(environment, "--once", "--config", str(path))
        assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1, done.stderr
