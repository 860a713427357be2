"""Following a file through everything that happens to log files."""

import gzip
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import log_writer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.logs.follow import FollowedLogs
from console.feeds.logs.follow_file import AT_END, PathFollower, Start
from console.feeds.logs.follow_lines import LogFollower, text_lines
from console.feeds.logs.sources import Chunk, Notice


class Reader:
    """A follower whose news are read to their end, as text."""

    def __init__(self, path: Path, start: Start = AT_END) -> None:
        self.follower = PathFollower(path, start)

    def read(self) -> list[str]:
        lines: list[str] = []
        while True:
            self.follower.look()
            items = self.follower.read()
            lines += [line for item in items for line in text_lines(item)]
            if not items and not self.follower.behind:
                return lines


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_and_whole(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nthr")
    reader = Reader(path)
    assert reader.read() == ["one", "two"]
    append(path, "ee\nfour\r\n")
    assert reader.read() == ["three", "four"]
    assert reader.read() == []


def test_a_file_that_comes_later(tmp_path: Path):
    path = tmp_path / "a.log"
    reader = Reader(path)
    assert reader.read() == [] and reader.follower.problem == f"waits for the file to appear: {path}"
    path.write_text("here\n")
    assert reader.read() == ["here"] and reader.follower.problem is None


def test_only_the_tail_of_a_long_file(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("".join(f"line {number}\n" for number in range(10_000)))
    lines = Reader(path, Start(tail=100)).read()
    assert lines[-1] == "line 9999" and 5 < len(lines) < 15
    assert lines[0].startswith("line 99")


def test_rotation_loses_nothing(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = Reader(path)
    reader.read()
    append(path, "two\nhalf")
    path.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", " line\nlate\n")
    path.write_text("new\n")
    assert reader.read() == ["two", "half line", "late", "<log rotated>", "new"]


def test_between_rename_and_new_file_the_old_one_is_followed(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = Reader(path)
    reader.read()
    path.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", "late\n")
    assert reader.read() == ["late"]
    path.write_text("new\n")
    assert reader.read() == ["<log rotated>", "new"]


def test_truncation(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\npart")
    reader = Reader(path)
    reader.read()
    path.write_text("")
    assert reader.read() == ["part", "<log truncated>"]
    append(path, "three\n")
    assert reader.read() == ["three"]


def test_truncation_that_grew_past_the_old_end(tmp_path: Path):
    """Size alone would miss this: the bytes before our place are no longer those that we read."""
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    reader = Reader(path)
    reader.read()
    path.write_text("a new beginning\nthat is longer than the old file\n")
    assert reader.read() == ["<log truncated>", "a new beginning", "that is longer than the old file"]


def test_bytes_that_are_no_text(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"\xff\xfe broken\nfine\n")
    assert Reader(path).read() == ["�� broken", "fine"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_said_and_waited_out(tmp_path: Path, make: Callable[[Path], None]):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = Reader(path)
    assert reader.read() == ["one"]
    path.unlink()
    make(path)
    assert reader.read() == [] and reader.follower.problem == "a.log: not a regular file"
    path.rmdir() if path.is_dir() else path.unlink()
    path.write_text("two\n")
    assert reader.read() == ["two"] and reader.follower.problem is None


def test_far_behind_only_the_tail_is_read(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    reader = Reader(path)
    assert reader.read() == ["one"]
    with path.open("r+b") as file:
        file.seek(1 << 32)  # a hole: neither disk nor memory holds it
        file.write(b"\nlast but one\nlast\n")
    reader.follower.pass_over(16 << 20)
    lines = reader.read()
    assert lines[:1] == ["tw"] and lines[-2:] == ["last but one", "last"]
    assert lines[1].startswith("<42949") and lines[1].endswith(" bytes passed over>")
    assert sum(map(len, lines)) < 1 << 20
    append(path, "more\n")
    assert reader.read() == ["more"]


def test_a_line_without_end_is_cut(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("x" * 200_000)
    assert [len(line) for line in Reader(path).read()] == [200_000]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["append", "rotate", "read"]), st.text("ab\n", max_size=30)), max_size=25))
def test_any_mix_of_writes_and_rotations_keeps_every_line(tmp_path_factory: pytest.TempPathFactory, acts: list):
    folder = tmp_path_factory.mktemp("log")
    path = folder / "a.log"
    path.touch()
    reader = Reader(path)
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
    assert not follower.running


def test_a_follower_nobody_reads_keeps_the_newest(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("".join(f"{number}\n" for number in range(500)))
    follower = LogFollower(path, limit=10)
    follower.start()
    wait_for(lambda: follower.waiting > 0)
    follower.stop(5.0)
    assert follower.take() == [str(number) for number in range(490, 500)]


def items_of(follower: PathFollower) -> list[Chunk | Notice]:
    items: list[Chunk | Notice] = []
    while True:
        follower.look()
        news = follower.read()
        items += news
        if not news and not follower.behind:
            return items


def test_bytes_come_with_the_place_that_they_are_at(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nthr")
    follower = PathFollower(path)
    items = items_of(follower)
    append(path, "ee\nfour\n" + "x" * 200_000 + "\n")
    items += items_of(follower)
    content = path.read_bytes()
    place = 0
    for item in items:
        assert isinstance(item, Chunk) and item.offset == place and item.file == items[0].file
        assert item.data == content[place : place + len(item.data)] and len(item.data) < 400_000
        place += len(item.data)
    assert place == len(content) and items[0].file.inode == path.stat().st_ino


def test_the_rest_of_a_copied_and_truncated_file_is_read_from_the_copy(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\nhal")
    reader = Reader(path)
    assert reader.read() == ["one"]
    append(path, "f\ntwo\n")
    shutil.copy2(path, tmp_path / "a.log.1")
    os.truncate(path, 0)
    append(path, "three\n")
    assert reader.read() == ["half", "two", "<log truncated>", "three"]
    assert reader.read() == []


def test_a_copy_that_holds_nothing_more_is_not_read(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    reader = Reader(path)
    reader.read()
    shutil.copy2(path, tmp_path / "a.log.1")
    assert reader.read() == []
    os.truncate(path, 0)
    assert reader.read() == ["<log truncated>"]
    append(path, "three\n")
    assert reader.read() == ["three"]


def test_several_rotations_between_two_looks(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = Reader(path)
    reader.read()
    (tmp_path / "a.log.err").write_text("another log\n")
    append(path, "two\n")
    for number in range(3):
        for older in (2, 1):
            if (tmp_path / f"a.log.{older}").exists():
                (tmp_path / f"a.log.{older}").rename(tmp_path / f"a.log.{older + 1}")
        path.rename(tmp_path / "a.log.1")
        path.write_text(f"file {number}\n")
        os.utime(path, ns=(0, time.time_ns() + number))
    lines = [line for line in reader.read() if line != "<log rotated>"]
    assert lines == ["two", "file 0", "file 1", "file 2"]


def test_a_rotated_file_that_was_compressed_before_it_was_seen(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = Reader(path)
    reader.read()
    append(path, "two\n")
    path.rename(tmp_path / "a.log.2")
    with gzip.open(tmp_path / "a.log.2.gz", "wb") as packed:
        packed.write((tmp_path / "a.log.2").read_bytes())
    (tmp_path / "a.log.2").unlink()
    with gzip.open(tmp_path / "a.log.1.gz", "wb") as packed:
        packed.write(b"never seen plain\n")
    path.write_text("three\n")
    assert [line for line in reader.read() if line != "<log rotated>"] == ["two", "never seen plain", "three"]


def test_late_writes_to_a_renamed_file_are_met(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = Reader(path)
    reader.read()
    path.rename(tmp_path / "a.log.1")
    path.touch()
    assert reader.read() == ["<log rotated>"]
    append(tmp_path / "a.log.1", "not told to reopen yet\n")
    append(path, "new\n")
    assert sorted(reader.read()) == ["new", "not told to reopen yet"]


def test_a_writer_that_keeps_its_place_leaves_a_hole(tmp_path: Path):
    path = tmp_path / "a.log"
    with path.open("wb", buffering=0) as writer:
        writer.write(b"x" * 4095 + b"\n")
        writer.write(b"y" * 4095 + b"\n")
        reader = Reader(path)
        assert len(reader.read()) == 2
        os.truncate(path, 0)
        writer.write(b"after the hole\n")
        assert reader.read() == ["<log truncated>", "after the hole"]


def test_a_switched_link(tmp_path: Path):
    for number in (1, 2, 3):
        (tmp_path / f"run-{number}.txt").write_text(f"{number}\n")
    path = tmp_path / "current"
    path.symlink_to("run-1.txt")
    reader = Reader(path)
    assert reader.read() == ["1"]
    link = tmp_path / "next"
    link.symlink_to("run-3.txt")
    append(tmp_path / "run-1.txt", "more\n")
    link.rename(path)
    assert reader.read() == ["more", "<log rotated>", "3"]


def test_compressed_history_is_a_log_too(tmp_path: Path):
    path = tmp_path / "a.log.gz"
    with gzip.open(path, "wb") as packed:
        packed.write(b"".join(b"2026-03-13T18:00:%02dZ line %d\n" % (second, second) for second in range(60)))
    assert len(Reader(path).read()) == 60
    assert Reader(path, Start(since=1773424850.0)).read()[0] == "2026-03-13T18:00:50Z line 50"
    path.write_bytes(path.read_bytes()[:-20])
    assert Reader(path).read()[-1].startswith("<a.log.gz: cut off or damaged")


def test_zstandard_too(tmp_path: Path):
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "a.log.zst"
    content = b"".join(b"line %d\n" % number for number in range(100_000))
    # Two frames: what appends to a compressed file leaves that.
    path.write_bytes(zstandard.compress(content[:300_000]) + zstandard.compress(content[300_000:]))
    assert Reader(path).read() == content.decode().splitlines()
    path.write_bytes(path.read_bytes()[:-100])
    cut = [line for line in Reader(path).read() if not line.startswith("<")]
    assert 0 < len(cut) < 100_000 and cut[:-1] == content.decode().splitlines()[: len(cut) - 1]


def test_since_reads_history_and_then_follows(tmp_path: Path):
    path = tmp_path / "a.log"
    hours = [b"".join(b"2026-03-13T%02d:%02d:00Z hour\n" % (hour, minute) for minute in range(60)) for hour in range(4)]
    with gzip.open(tmp_path / "a.log.2.gz", "wb") as packed:
        packed.write(hours[1])
    (tmp_path / "a.log.1").write_bytes(hours[2])
    path.write_bytes(hours[3])
    begin = 1773360000.0
    for name, hour in (("a.log.2.gz", 2), ("a.log.1", 3), ("a.log", 4)):
        os.utime(tmp_path / name, (begin + hour * 3600, begin + hour * 3600))
    reader = Reader(path, Start(since=begin + 3600 + 50 * 60))
    lines = reader.read()
    assert lines[0] == "2026-03-13T01:50:00Z hour" and len(lines) == 10 + 60 + 60
    append(path, "more\n")
    assert reader.read() == ["more"]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["rename", "dated", "copy", "switch"]),
    st.lists(st.sampled_from(["write", "write part", "rotate", "read"]), max_size=30),
)
def test_numbered_lines_come_once_and_in_order(tmp_path_factory: pytest.TempPathFactory, way: str, acts: list[str]):
    """Without a single lookup between rotations: what the file system kept is found, whatever it is named by now."""
    folder = tmp_path_factory.mktemp("log")
    reader = Reader(folder / "a.log")
    reader.read()
    writer = log_writer.Writer(folder, way, keep=40)
    got: list[str] = []
    written, tick, open_line = 0, time.time_ns(), False
    for act in acts:
        if act == "read":
            got += reader.read()
            continue
        if act == "rotate" and not open_line:
            writer.rotate()
        elif act.startswith("write"):
            text = log_writer.line(written)
            writer.file.write(text[30:] if open_line else text if act == "write" else text[:30])
            open_line = act == "write part" and not open_line
            written += not open_line
        tick += 10_000_000  # the clock of the file system is coarse, and this test is fast
        os.utime(writer.file.fileno(), ns=(tick, tick))
    got += reader.read()
    reader.follower.close()
    writer.file.close()
    lines = [line for line in got if not line.startswith("<")]
    assert lines == [log_writer.line(number).decode().rstrip() for number in range(written)]


@pytest.mark.parametrize("way", ["rename", "dated", "switch"])
def test_a_storm_of_rotations(tmp_path: Path, way: str):
    rotations, count = 100, 20_000
    stream = FollowedLogs([str(tmp_path / "a.log")])
    stream.start()
    wait_for(lambda: stream.problem is not None)
    arguments = [str(tmp_path), way, str(rotations), str(count), "60", "50000"]
    data = bytearray()

    def all_came() -> bool:
        for item in stream.take():
            data.extend(item.data if isinstance(item, Chunk) else b"")
        return data.count(b"\n") >= count

    try:
        subprocess.run([sys.executable, log_writer.__file__, *arguments], check=True, stdout=subprocess.PIPE)
        wait_for(all_came, 20.0)
    finally:
        stream.stop(5.0)
    all_came()
    assert bytes(data) == b"".join(map(log_writer.line, range(count)))
