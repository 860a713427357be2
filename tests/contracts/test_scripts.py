"""Scripts that no other test runs: what they import is still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*(ROOT / "bench").glob("*.py"), *(ROOT / "docs").glob("*.py")])


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_loads(script: Path) -> None:
    """As if it were run, but for its ``__main__`` part. None of them needs a GPU or CuPy for that."""
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='loaded')"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(script.parent)!r}); {code}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
