"""The console on a user's circuit: a folder of real inputs, real proofs beside them, kills in between."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from terminal_rig import Terminal, console_environment

from console.cli import main
from prover.formats.errors import printable

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
COMMAND = [sys.executable, "-m", "console.cli"]
MIX = FIXTURES / "snark" / "bn128" / "mix_8"
POW = FIXTURES / "snark" / "bls12-381" / "pow_255"
WASM = FIXTURES / "circom" / "mix_8.bn128.wasm"
PATIENCE_S = 60.0

Start = Callable[[Sequence[object]], Terminal]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return console_environment(tmp_path_factory.mktemp("home"))


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    started: list[Terminal] = []

    def begin(options: Sequence[object]) -> Terminal:
        journal = str(tmp_path / "journal.sqlite3")
        terminal = Terminal([*COMMAND, *map(str, options), "--journal", journal], environment)
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()


def plain(environment: dict[str, str], *options: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, options)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def wait(terminal: Terminal, condition: Callable[[], object]) -> None:
    """Until it holds; the console is read meanwhile, so that it can go on."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, terminal.text()
        terminal.pump(0.05)


def valid(folder: Path, stem: str, key: Path) -> bool:
    return main(["verify", str(key), str(folder / f"{stem}.public.json"), str(folder / f"{stem}.proof.json")]) == 0


def test_inputs_dropped_in_are_proved_while_the_console_shows_it(start: Start, tmp_path: Path):
    folder = tmp_path / "spool"
    folder.mkdir()
    shutil.copy(MIX / "input.json", folder / "first.json")
    terminal = start(["--circuit", MIX / "circuit.zkey", "--inputs", folder, "--wasm", WASM])
    wait(terminal, (folder / "first.proof.json").exists)
    (folder / "second one.json").write_text('{"w": [1, 2, 3, 4, 5, 6, 7, "0x8"]}')
    (folder / "bad.json").write_text('{"w": ["18446744073709551616", 2, 3, 4, 5, 6, 7, 8]}')
    wait(terminal, (folder / "second one.proof.json").exists)
    wait(terminal, (folder / "rejected" / "bad.json").exists)
    terminal.wait_for(r"bad\.json: rejected: an assertion")
    terminal.press("q")
    assert terminal.end() == 0
    key = MIX / "verification_key.json"
    assert valid(folder, "first", key) and valid(folder, "second one", key)
    assert (folder / "first.public.json").read_bytes() == (MIX / "public.json").read_bytes()
    assert json.loads((folder / "second one.public.json").read_text())[1:] == [str(n) for n in range(1, 9)]
    reason = (folder / "rejected" / "bad.reason.txt").read_text()
    assert (
        reason.startswith("an assertion of the circuit does not hold: Error in template Bits_0") and reason[-1] == "\n"
    )
    left = {path.name for path in folder.iterdir() if path.name.startswith(".")}
    assert not left


class Reader:
    """Takes every proof away as soon as it is there, with its public inputs, and counts."""

    def __init__(self, folder: Path, sink: Path) -> None:
        self.taken: Counter[str] = Counter()
        self._folder, self._sink = folder, sink
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.002):
            for proof in self._folder.glob("*.proof.json"):
                stem = proof.name.removesuffix(".proof.json")
                self.taken[stem] += 1
                for path in (self._folder / f"{stem}.public.json", proof):
                    path.rename(self._sink / path.name)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def test_killed_at_any_moment_every_input_gives_one_proof(start: Start, tmp_path: Path):
    folder, sink = tmp_path / "spool", tmp_path / "sink"
    folder.mkdir()
    sink.mkdir()
    names = [f"job {number}" for number in range(30)]
    for name in names:
        shutil.copy(POW / "witness.wtns", folder / f"{name}.wtns")
    options = ["--circuit", POW / "circuit.zkey", "--inputs", folder, "--set", "synthesis_concurrency=2"]
    reader = Reader(folder, sink)
    moments = random.Random(5)
    killed_between = 0
    try:
        for _ in range(4):
            before = len(reader.taken)
            terminal = start(options)
            wait(terminal, lambda before=before: len(reader.taken) > before or len(reader.taken) == len(names))
            terminal.pump(moments.uniform(0.0, 0.15))
            terminal.send(signal.SIGKILL)
            killed_between += 0 < len(reader.taken) < len(names)
        terminal = start(options)
        wait(terminal, lambda: len(reader.taken) == len(names))
        terminal.pump(1.0)
        terminal.press("q")
        assert terminal.end() == 0
    finally:
        reader.stop()
    assert killed_between > 1
    assert reader.taken == Counter(names), "each once"
    assert all(valid(sink, name, POW / "verification_key.json") for name in names[::8])
    assert {path.name for path in folder.iterdir()} == {f"{name}.wtns" for name in names}


def test_one_frame_of_a_spool(environment: dict[str, str], tmp_path: Path):
    options = ["--circuit", POW / "circuit.zkey", "--inputs", tmp_path, "--once", "--json"]
    document = json.loads(plain(environment, *options).stdout)
    assert document["throughput"]["proofs"] == 0, "an empty one is no wait"
    shutil.copy(POW / "witness.wtns", tmp_path / "a.wtns")
    document = json.loads(plain(environment, *options).stdout)
    assert document["throughput"]["proofs"] == 1 and document["workload"].endswith(
        f", inputs from {printable(str(tmp_path), 60)}"
    )
    assert valid(tmp_path, "a", POW / "verification_key.json")


def test_a_circuit_without_inputs_says_so(environment: dict[str, str]):
    done = plain(environment, "--circuit", POW / "circuit.zkey", "--once")
    assert done.returncode == 0
    assert "nothing to prove: give --inputs DIR" in done.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--inputs", "."], "give --circuit"),
        (["--wasm", WASM], "give --circuit"),
        (["--circuit", "/nowhere/a.zkey"], "/nowhere/a.zkey"),
        (["--circuit", POW / "circuit.zkey", "--inputs", "/nowhere"], "--inputs /nowhere"),
        (["--circuit", POW / "circuit.zkey", "--wasm", "/nowhere"], "--wasm /nowhere"),
        (["--circuit", POW / "circuit.zkey", "--partitions", "2"], "--partitions"),
        (["--circuit", POW / "verification_key.json"], "not a zkey file"),
        (["--circuit", POW / "circuit.zkey", "--wasm", POW / "input.json"], "not a WebAssembly module"),
        (["--circuit", POW / "circuit.zkey", "--wasm", WASM], "generator over bn128"),
    ],
)
def test_what_cannot_be_used_is_one_line(environment: dict[str, str], options: list[object], told: str):
    done = plain(environment, "--once", *options)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("cuzk-top: ") and told in done.stderr


def test_without_wasmtime_it_says_how_to_get_it(environment: dict[str, str], tmp_path: Path):
    (tmp_path / "wasmtime.py").write_text("raise ImportError('not here')\n")
    path = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    options = ("--circuit", MIX / "circuit.zkey", "--wasm", WASM, "--once")
    done = plain({**environment, "PYTHONPATH": path}, *options)
    assert done.returncode == 3
    assert "pip install wasmtime" in done.stderr and done.stderr.count("\n") == 1
