"""The command line's own promises: help, version, one-line errors, exit codes."""

from __future__ import annotations

import json
import os
import shlex
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


@pytest.mark.parametrize(
    "command",
    [
        ["prove", "a.zkey", "a.wtns"],
        ["verify", "v.json", "p.json", "q.json"],
        ["setup", "c.r1cs", "-o", "c.zkey"],
        ["vkey", "a.zkey", "-o", "v.json"],
        ["bench", "-j", "1", "-c", "1"],
        ["knobs"],
        ["doctor"],
        ["--once"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("content", [None, "[knobs"], ids=["missing", "no TOML"])
def test_a_wrong_configuration_is_one_line_of_every_command(
    command: list[str], content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_text(content)
    assert cli.main([*command, "--config", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    what = "configuration file not found" if content is None else "configuration cannot be read"
    assert said.err.startswith(f"cuzk-top: {what}: {path}: ")
    assert said.err.count("\n") == 1


def test_a_cache_that_cannot_be_used_costs_one_line(tmp_path: Path) -> None:
    """A file lies where the folder should: the key is this process's alone."""
    (tmp_path / "cuzk-top").write_text("in the way")
    command = [sys.executable, "-m", "console.cli", "--once", "--json", "--workload", "poseidon-merkle-10"]
    command += ["--partitions", "1", "-j", "1", "--device", "host"]
    home = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("STATE", "CONFIG")}
    done = subprocess.run(
        command,
        env={**os.environ, **home, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith("cuzk-top/")
    assert done.stderr == (
        f"cuzk-top: proving keys are not kept: {tmp_path}/cuzk-top/keys: Not a directory: set XDG_CACHE_HOME\n"
    )


def run_in_shell(line: str) -> subprocess.CompletedProcess[str]:
    command = shlex.join([sys.executable, "-m", "console.cli"])
    return subprocess.run(
        ["/bin/sh", "-c", f"{command} {line}"], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("line", ["knobs", "doctor --json", "--version", "bench --help"])
def test_a_closed_output_is_one_that_nobody_reads(line: str) -> None:
    ended = run_in_shell(f"{line} >&-")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("line", ["doctor", "knobs", "bench -j 1 -c 1"])
def test_every_command_refuses_a_device_that_is_none(line: str) -> None:
    ended = run_in_shell(f"{line} --device nonsense")
    assert ended.returncode == 2
    assert ended.stderr == "cuzk-top: unknown device: nonsense: use auto, host, cuda or cuda:N\n"


@pytest.mark.parametrize("line", ["--device $'a\\nb' knobs", "$'a\\nb'"])
def test_what_was_typed_adds_no_line(line: str) -> None:
    command = shlex.join([sys.executable, "-m", "console.cli"])
    ended = subprocess.run(
        ["/bin/bash", "-c", f"{command} {line}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1 and "a\\nb" in ended.stderr
