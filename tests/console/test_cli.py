"""The command line's own promises: help, version, one-line errors, exit codes."""

from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize(
    ("arguments", "command", "rest"),
    [
        (["--device", "host", "bench", "-c", "1"], "bench", ["--device", "host", "-c", "1"]),
        (
            ["--device=host", "--set", "a=1", "-v", "prove", "k", "w"],
            "prove",
            ["--device=host", "--set", "a=1", "-v", "k", "w"],
        ),
        (["--json", "knobs"], "knobs", ["--json"]),
        (["knobs", "--json"], "knobs", ["--json"]),
        (["--config", "bench"], None, ["--config", "bench"]),
        (["--log", "bench"], None, ["--log", "bench"]),
        (["--once", "--json"], None, ["--once", "--json"]),
        ([], None, []),
    ],
)
def test_options_of_all_commands_may_stand_before_the_command(
    arguments: list[str], command: str | None, rest: list[str]
) -> None:
    assert cli.find_command(arguments) == (command, rest)


def test_a_common_option_before_the_command_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--json", "knobs"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "cuzk-top/knobs/1"


@pytest.mark.parametrize("arguments", [["--workload", "x", "bench", "-c", "1"], ["--once", "bench"]])
def test_another_option_before_the_command_is_one_line_that_says_where_it_belongs(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "cuzk-top: command is not first: bench: write cuzk-top bench OPTIONS\n"


def test_doctor_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "cuzk-top/doctor/1"
    assert {"python", "host library", "driver", "gpus", "cupy", "nvrtc", "terminal"} <= {
        c["name"] for c in document["checks"]
    }
    assert all(set(c) == {"name", "ok", "found", "fix"} for c in document["checks"])
    assert all((c["fix"] is not None) for c in document["checks"] if not c["ok"])
    assert code in (0, 3)


FOLDER = Path(__file__).parent.parent / "fixtures" / "snark" / "bn128" / "mix_8"


def verify(public: str, output: int, buffered: bool) -> tuple[int, str]:
    """``cuzk-top verify``, its answer sent to a descriptor: exit code and stderr."""
    files = [str(FOLDER / "verification_key.json"), public, str(FOLDER / "proof.json")]
    command = [sys.executable, *([] if buffered else ["-u"]), "-m", "console.cli", "verify", *files]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("buffered", [False, True])
def test_an_answer_that_finds_no_room_is_one_line(buffered: bool) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        answer = verify(str(FOLDER / "public.json"), full, buffered)
    finally:
        os.close(full)
    assert answer == (3, "cuzk-top: cannot write: standard output: No space left on device: free some space\n")


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("valid", [True, False])
def test_an_answer_that_nobody_can_read_is_not_yes(tmp_path: Path, valid: bool, buffered: bool) -> None:
    public = json.loads((FOLDER / "public.json").read_text())
    public[0] = str(int(public[0]) ^ (not valid))
    (tmp_path / "public.json").write_text(json.dumps(public))
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert verify(str(tmp_path / "public.json"), writer, buffered) == (cli.READER_GONE, "")
    finally:
        os.close(writer)


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
