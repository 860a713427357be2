"""Every Python example of the API's page runs as it stands, in a process and a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(code: str, tmp_path: Path) -> None:
    snark = FIXTURES / "snark" / "bn128" / "mix_8"
    for source, name in (
        (snark / "circuit.zkey", "circuit.zkey"),
        (snark / "witness.wtns", "a.wtns"),
        (snark / "witness.wtns", "b.wtns"),
        (snark / "input.json", "input.json"),
        (FIXTURES / "circom" / "mix_8.bn128.wasm", "circuit.wasm"),
    ):
        shutil.copy(source, tmp_path / name)
    homes = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CACHE", "STATE")}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **homes}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if "documents" in code:
        assert (tmp_path / "a.public.json").read_bytes() == (snark / "public.json").read_bytes()
        verify = [sys.executable, "-m", "console.cli", "verify", str(snark / "verification_key.json")]
        subprocess.run([*verify, "b.public.json", "b.proof.json"], cwd=tmp_path, env=environment, check=True)
