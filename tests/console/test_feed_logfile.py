"""Following a file through everything that happens to log files."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.logfile import LogFollower, LogReader


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_and_whole(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nthr")
    reader = LogReader(path)
    assert reader.read() == ["one", "two"]
    append(path, "ee\nfour\r\n")
    assert reader.read() == ["three", "four"]
    assert reader.read() == []


def test_a_file_that_comes_later(tmp_path: Path):
    path = tmp_path / "a.log"
    reader = LogReader(path)
    assert reader.read() == [] and reader.problem == f"waits for the file to appear: {path}"
    path.write_text("here\n")
    assert reader.read() == ["here"] and reader.problem is None


def test_only_the_tail_of_a_long_file(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("".join(f"line {number}\n" for number in range(10_000)))
    lines = LogReader(path, tail=100).read()
    assert lines[-1] == "line 9999" and 5 < len(lines) < 15
    assert lines[0].startswith("line 99")


def test_rotation_loses_nothing(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = LogReader(path)
    reader.read()
    append(path, "two\nhalf")
    path.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", " line\nlate\n")
    path.write_text("new\n")
    assert reader.read() == ["two", "half line", "late", "<log rotated>", "new"]


def test_between_rename_and_new_file_the_old_one_is_followed(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = LogReader(path)
    reader.read()
    path.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", "late\n")
    assert reader.read() == ["late"]
    path.write_text("new\n")
    assert reader.read() == ["<log rotated>", "new"]


def test_truncation(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\npart")
    reader = LogReader(path)
    reader.read()
    path.write_text("")
    assert reader.read() == ["part", "<log truncated>"]
    append(path, "three\n")
    assert reader.read() == ["three"]


def test_truncation_that_grew_past_the_old_end(tmp_path: Path):
    """Size alone would miss this: the bytes before our place are no longer those that we read."""
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    reader = LogReader(path)
    reader.read()
    path.write_text("a new beginning\nthat is longer than the old file\n")
    assert reader.read() == ["<log truncated>", "a new beginning", "that is longer than the old file"]


def test_bytes_that_are_no_text(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"\xff\xfe broken\nfine\n")
    assert LogReader(path).read() == ["�� broken", "fine"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_said_and_waited_out(tmp_path: Path, make: Callable[[Path], None]):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = LogReader(path)
    assert reader.read() == ["one"]
    path.unlink()
    make(path)
    assert reader.read() == [] and reader.problem == "a.log: not a regular file"
    path.rmdir() if path.is_dir() else path.unlink()
    path.write_text("two\n")
    assert reader.read() == ["two"] and reader.problem is None


def test_far_behind_only_the_tail_is_read(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    reader = LogReader(path)
    assert reader.read() == ["one"]
    with path.open("r+b") as file:
        file.seek(1 << 32)  # a hole: neither disk nor memory holds it
        file.write(b"\nlast but one\nlast\n")
    lines = reader.read()
    assert lines[:1] == ["tw"] and lines[-2:] == ["last but one", "last"]
    assert lines[1].startswith("<42949") and lines[1].endswith(" bytes passed over>")
    assert sum(map(len, lines)) < 1 << 20
    append(path, "more\n")
    assert reader.read() == ["more"]


def test_a_line_without_end_is_cut(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("x" * 200_000)
    assert [len(line) for line in LogReader(path).read()] == [200_000]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["append", "rotate", "read"]), st.text("ab\n", max_size=30)), max_size=25))
def test_any_mix_of_writes_and_rotations_keeps_every_line(tmp_path_factory: pytest.TempPathFactory, acts: list):
    folder = tmp_path_factory.mktemp("log")
    path = folder / "a.log"
    path.touch()
    reader = LogReader(path)
    got: list[str] = []
    written = [""]
    for act, text in acts:
        if act == "append":
            append(path, text)
            written[-1] += text
        elif act == "rotate":
            got += reader.read()
            path.rename(folder / "old")
            path.touch()
            written.append("")
        else:
            got += reader.read()
    append(path, "\n")
    written[-1] += "\n"
    got += reader.read()
    expected: list[str] = []
    for part in written:
        whole = part if part.endswith("\n") or not part else part + "\n"
        expected += whole.split("\n")[:-1]
    assert [line for line in got if line != "<log rotated>"] == expected


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    event, end = threading.Event(), time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        event.wait(0.02)
    assert condition()


def test_a_follower_sees_what_really_happens(tmp_path: Path):
    path = tmp_path / "deep" / "a.log"
    follower = LogFollower(path)
    got: list[str] = []

    def has(line: str) -> Callable[[], bool]:
        def look() -> bool:
            got.extend(follower.take())
            return line in got

        return look

    follower.start()
    try:
        wait_for(lambda: follower.problem is not None)
        path.parent.mkdir()
        path.write_text("one\n")
        wait_for(has("one"))
        append(path, "two\n")
        wait_for(has("two"))
        path.rename(path.with_name("a.log.1"))
        path.write_text("three\n")
        wait_for(has("three"))
        os.truncate(path, 0)
        wait_for(has("<log truncated>"))
        append(path, "four\n")
        wait_for(has("four"))
    finally:
        follower.stop(2.0)
    assert [line for line in got if not line.startswith("<")] == ["one", "two", "three", "four"]
    assert not follower._thread.is_alive()


def test_a_follower_nobody_reads_keeps_the_newest(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("".join(f"{number}\n" for number in range(500)))
    follower = LogFollower(path, limit=10)
    follower._look()
    assert follower.take() == [str(number) for number in range(490, 500)]
