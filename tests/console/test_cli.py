"""The command line's own promises: help, version, one-line errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from console import cli, crash_report


def test_version_loads_neither_textual_nor_numpy_nor_cupy() -> None:
    code = (
        "import sys; from console.cli import main; main(['--version']);"
        "print([m for m in ('textual', 'numpy', 'cupy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("cuzk-top ")
    assert second == "[]"


def test_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["frobnicate"]) == 2
    err = capsys.readouterr().err
    assert err == "cuzk-top: unknown command: frobnicate: see cuzk-top --help\n"


def test_unknown_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--frobnicate"])
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_doctor_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "cuzk-top/doctor/1"
    assert {"python", "host library", "driver", "cupy", "nvrtc", "terminal"} <= {c["name"] for c in document["checks"]}
    assert all(set(c) == {"name", "ok", "found", "fix"} for c in document["checks"])
    assert all((c["fix"] is not None) for c in document["checks"] if not c["ok"])
    assert code in (0, 3)


def test_a_defect_leaves_a_report_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def broken() -> None:
        raise RuntimeError("a defect\nwith two lines")

    monkeypatch.setattr("console.doctor.examine", broken)
    assert cli.main(["doctor"]) == crash_report.EXIT_CODE
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "RuntimeError: a defect" in err
    path = err.rsplit("the report is ", 1)[1].strip()
    assert "Traceback" in Path(path).read_text()
