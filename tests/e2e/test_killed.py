"""Killed with SIGKILL at any moment and started again: whole files or none, no leftovers, nothing locked."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.cli import main

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "snark" / "bls12-381" / "pow_255"


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "console.cli", *map(str, arguments)]


def _kill_at_random_moments(command: list[str], environment: dict[str, str], rounds: int, seed: int) -> int:
    """Run and kill; returns how many were killed before they ended."""
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    whole = time.monotonic() - began
    moments = random.Random(seed)
    killed = 0
    for _ in range(rounds):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.0, whole))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    return killed


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("CACHE", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return dict(os.environ)


def test_prove(tmp_path: Path, environment: dict[str, str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    proof, public = out / "proof.json", out / "public.json"
    command = _command(
        "prove", FIXTURE / "circuit.zkey", FIXTURE / "witness.wtns", "--proof", proof, "--public", public
    )
    assert _kill_at_random_moments(command, environment, 12, seed=1) > 0
    # The pair that lies there now is whole, even if the last writer died between the two renames.
    assert main(["verify", str(FIXTURE / "verification_key.json"), str(public), str(proof)]) == 0
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert sorted(path.name for path in out.iterdir()) == ["proof.json", "public.json"]


def test_setup(tmp_path: Path, environment: dict[str, str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    zkey, vkey = out / "circuit.zkey", out / "verification_key.json"
    command = _command("setup", FIXTURE / "circuit.r1cs", "-o", zkey, "--vkey", vkey, "--force")
    assert _kill_at_random_moments(command, environment, 12, seed=2) > 0
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert sorted(path.name for path in out.iterdir()) == ["circuit.zkey", "verification_key.json"]
    proof, public = tmp_path / "proof.json", tmp_path / "public.json"
    arguments = ["prove", str(zkey), str(FIXTURE / "witness.wtns"), "--proof", str(proof), "--public", str(public)]
    assert main(arguments) == 0
    assert main(["verify", str(vkey), str(public), str(proof)]) == 0


def test_the_hosted_prover(tmp_path: Path, environment: dict[str, str]) -> None:
    """The first start is killed while it makes the key, later ones while they prove."""
    command = _command("--once", "--workload", "poseidon-merkle-10", "--partitions", "2")
    moments = random.Random(3)
    for _ in range(8):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.1, 1.5))
        process.kill()
        process.wait()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
    assert "failed 0" in done.stdout
    cache = [path for path in (tmp_path / "cache" / "cuzk-top").rglob("*") if path.is_file()]
    assert cache, "the key is cached"
    assert not list(tmp_path.rglob("*.sqlite3")), "one frame keeps no journal"
    assert [path.name for path in cache if ".tmp" in path.name] == []
