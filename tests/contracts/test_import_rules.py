"""Who may import whom: the static graph, and what a fresh interpreter really loads."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def loaded_by(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def test_the_import_contracts_are_kept():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", ["prover", "prover.model", "prover.pipeline.engine", "prover.timeline"])
def test_the_prover_loads_no_interface_and_no_gpu_library(module: str):
    assert not loaded_by(f"import {module}") & {"textual", "rich", "cupy", "console", "widgets"}


@pytest.mark.parametrize("module", ["prover", "prover.model", "prover.curves", "prover.pipeline.interfaces"])
def test_the_vocabulary_loads_no_numpy(module: str):
    assert "numpy" not in loaded_by(f"import {module}")


def test_version_loads_next_to_nothing():
    loaded = loaded_by("from console.cli import main\nmain(['--version'])")
    assert not loaded & {"textual", "rich", "cupy", "numpy", "asyncio"}


@pytest.mark.parametrize(
    "module",
    [
        "console.feeds.engine",
        "console.feeds.builtin",
        "console.feeds.circuit",
        "console.feeds.replay",
        "console.recording.begin",
        "console.feeds.hosted",
        "console.feeds.host",
        "console.feeds.logs.follow",
        "console.feeds.logs.follow_lines",
        "console.feeds.logs.index",
        "console.feeds.logs.search",
        "console.feeds.modelled",
        "console.feeds.nvml.sampler",
        "console.analysis.diagnosis",
        "console.analysis.headline",
        "console.analysis.throughput",
        "console.export.frame_json",
        "console.frame",
        "console.actions",
    ],
)
def test_feeds_analysis_and_export_know_no_screen(module: str):
    assert not loaded_by(f"import {module}") & {"textual", "rich"}


def test_the_first_frame_waits_for_no_prover():
    """Everything the console imports before it paints: neither NumPy nor the native library's wrapper."""
    loaded = loaded_by(
        "import console.app, console.feeds.builtin, console.feeds.circuit, console.feeds.engine, console.feeds.host, "
        "console.feeds.hosted, console.feeds.nvml.sampler"
    )
    assert not loaded & {"numpy", "prover.native", "watchfiles", "wasmtime", "cupy"}
