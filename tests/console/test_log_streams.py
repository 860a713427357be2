"""Times at the heads of lines, finding one in a file, and several logs as one stream."""

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.logs.follow import FollowedLogs
from console.feeds.logs.follow_file import AT_BEGINNING
from console.feeds.logs.follow_merge import Merge
from console.feeds.logs.follow_stamps import parse_since, seek_stamp, stamp_at
from console.feeds.logs.sources import Chunk, FileId, Item

BASE = 1773424800.0
"""2026-03-13T18:00:00Z"""


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    event, end = threading.Event(), time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        event.wait(0.02)
    assert condition()


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"2026-03-13T18:00:00.250000Z  INFO x: y", 0.25),
        (b"\x1b[2m2026-03-13T18:00:01.500000Z\x1b[0m \x1b[32m INFO\x1b[0m", 1.5),
        (b'{"timestamp":"2026-03-13T18:00:02.000000Z","level":"INFO"}', 2.0),
        (b'{"level":"INFO","ts":"2026-03-13T19:00:03+01:00"}', 3.0),
        (b"2026-03-13 18:00:04,125 words", 4.125),
        (b"[2026-03-13T17:00:05.5-0100] words", 5.5),
        (b"2026-03-13T18:00:06.123456789Z", 6.123456789),
        (b"Mar 13 00:00:00 box cuzk-daemon[12]: 2026-03-13T18:00:07Z  INFO x", 7.0),
        (b"TIMELINE,1234,GPU_PICKUP,job,worker=0", None),
        (b"words", None),
        (b"", None),
        (b"2026-13-45T18:00:00Z", None),
        (b"Foo 13 00:00:00 box", None),
        (b"\xff\x00\x1b[", None),
    ],
)
def test_the_time_at_the_head_of_a_line(line: bytes, seconds: float | None):
    found = stamp_at(line)
    assert found == (None if seconds is None else pytest.approx(BASE + seconds, abs=1e-6))


def test_a_time_without_a_year_is_the_last_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert stamp_at(b"Mar 13 18:00:00 box u[1]: words", now=BASE + 60) == BASE
    assert stamp_at(b"Dec 31 23:59:59 box u[1]: words", now=1767225660.0) == 1767225599.0
    monkeypatch.undo()
    time.tzset()


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_have_a_time_or_none(line: bytes):
    assert stamp_at(line, now=BASE) is None or isinstance(stamp_at(line, now=BASE), float)


def test_since_as_an_operator_writes_it():
    assert parse_since("10m", BASE) == BASE - 600
    assert parse_since("1.5h", BASE) == BASE - 5400
    assert parse_since("2026-03-13T18:00:00Z", 0) == parse_since("2026-03-13 18:00", 0) == BASE
    assert parse_since("2026-03-13", 0) == BASE - 18 * 3600
    assert 0 <= BASE - parse_since("17:30", BASE) < 86_400
    for text in ("", "yesterday", "25:00", "10x", "2026-99-99"):
        with pytest.raises(ValueError, match="since: "):
            parse_since(text, BASE)


def stamped(second: float) -> bytes:
    whole, part = divmod(round(second * 1000), 1000)
    return b"2026-03-13T18:%02d:%02d.%03dZ " % (whole // 60 % 60, whole % 60, part)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2000), st.booleans()), min_size=1, max_size=400),
    st.integers(-5, 900),
)
def test_halving_finds_the_first_line_at_or_after_a_time(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, int, bool]], at: int
):
    path = tmp_path_factory.mktemp("log") / "a.log"
    content, second, expected = b"", 0.0, None
    for step, length, has_time in lines:
        second += step / 10
        if has_time and expected is None and BASE + second >= BASE + at / 2:
            expected = len(content)
        content += (stamped(second) if has_time else b"  goes on ") + b"x" * length + b"\n"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert seek_stamp(fd, len(content), BASE + at / 2) == (len(content) if expected is None else expected)
    finally:
        os.close(fd)


class Listed:
    """A source that brings what it is told to."""

    def __init__(self, name: str, chunks: list[bytes]) -> None:
        self._id = FileId(0, 0, 0, name)
        self._chunks = deque(chunks)
        self._offset = 0
        self.reads = 0

    def add(self, data: bytes) -> None:
        self._chunks.append(data)

    @property
    def behind(self) -> bool:
        return bool(self._chunks)

    def read(self, limit: int) -> list[Item]:
        self.reads += 1
        if not self._chunks:
            return []
        data = self._chunks.popleft()
        self._offset += len(data)
        return [Chunk(self._id, self._offset - len(data), data)]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(1, 4)), max_size=120), st.integers(1, 5000)
)
def test_history_of_several_files_is_in_time_order(lines: list[tuple[int, int, int]], limit: int):
    chunks: list[list[bytes]] = [[] for _ in range(4)]
    expected: list[tuple[float, bytes]] = []
    second = 0.0
    for number, (source, step, group) in enumerate(lines):
        second += step / 10 + 0.001
        text = stamped(second) + b"%d\n" % number + b"  goes on\n" * (group - 1)
        expected.append((second, text))
        if chunks[source] and number % 3:
            chunks[source][-1] += text
        else:
            chunks[source].append(text)
    sources = [Listed(str(index), part) for index, part in enumerate(chunks)]
    clock = iter(range(1 << 30))
    merge = Merge(hold_s=0.5, clock=lambda: float(next(clock)))
    out = b""
    for _ in range(2000):
        items = merge.pull(sources, limit)
        out += b"".join(item.data for item in items if isinstance(item, Chunk))
        if not items and not merge.holding and not any(source.behind for source in sources):
            break
    assert out == b"".join(text for _, text in expected)


def test_a_line_waits_a_moment_for_earlier_ones_and_no_longer():
    now = [0.0]
    one, two = Listed("1", []), Listed("2", [])
    merge = Merge(hold_s=0.5, clock=lambda: now[0])
    one.add(stamped(2) + b"late\n")
    assert merge.pull([one, two], 1 << 20) == [] and merge.holding
    now[0] = 0.4
    two.add(stamped(1) + b"early\n")
    items = merge.pull([one, two], 1 << 20)
    assert [item.data for item in items if isinstance(item, Chunk)] == [stamped(1) + b"early\n"]
    now[0] = 0.6
    items = merge.pull([one, two], 1 << 20)
    assert [item.data for item in items if isinstance(item, Chunk)] == [stamped(2) + b"late\n"]


def test_a_busy_source_is_not_read_ahead_of_the_others():
    one = Listed("1", [stamped(second) + b"x" * 1000 + b"\n" for second in range(500)])
    two = Listed("2", [stamped(0) + b"y\n"])
    Merge(hold_s=0.5).pull([one, two], 3000)
    assert one.reads < 8


def lines_of(stream: FollowedLogs, got: list[bytes]) -> Callable[[int], Callable[[], bool]]:
    def at_least(count: int) -> Callable[[], bool]:
        def look() -> bool:
            for item in stream.take():
                got.extend(item.data.splitlines() if isinstance(item, Chunk) else [])
            return len(got) >= count

        return look

    return at_least


def test_a_folder_and_what_joins_it(tmp_path: Path):
    (tmp_path / "a.log").write_bytes(stamped(1) + b"a\n" + stamped(4) + b"a\n")
    (tmp_path / "b.log").write_bytes(stamped(2) + b"b\n" + stamped(3) + b"b\n")
    (tmp_path / "b.log.1").write_bytes(stamped(0) + b"rotated: history\n")
    (tmp_path / "c.txt").write_bytes(b"no log\n")
    stream = FollowedLogs([str(tmp_path)], AT_BEGINNING, hold_s=0.05)
    got: list[bytes] = []
    came = lines_of(stream, got)
    stream.start()
    try:
        wait_for(came(4))
        assert [line[-1:] for line in got] == [b"a", b"b", b"b", b"a"]
        (tmp_path / "c.log").write_bytes(b"joined\n")
        wait_for(came(5))
        assert got[4] == b"joined"
        (tmp_path / "b.log").rename(tmp_path / "b.log.2")
        (tmp_path / "b.log").write_bytes(b"next\n")
        wait_for(came(6))
    finally:
        stream.stop(5.0)
    assert got[5:] == [b"next"] and not stream.running


def test_polling_sees_the_same(tmp_path: Path):
    path = tmp_path / "a.log"
    stream = FollowedLogs([str(path)], watch=False)
    got: list[bytes] = []
    came = lines_of(stream, got)
    stream.start()
    try:
        wait_for(lambda: stream.problem is not None)
        path.write_bytes(b"one\n")
        wait_for(came(1))
    finally:
        stream.stop(5.0)
    assert got == [b"one"]


def test_a_full_queue_stops_the_reading_and_nothing_is_lost(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(b"line %06d\n" % number for number in range(100_000)))
    stream = FollowedLogs([str(path)], AT_BEGINNING, room=100_000)
    stream.start()
    got: list[bytes] = []
    try:
        wait_for(lambda: stream.waiting > 0)
        wait_for(lines_of(stream, got)(100_000))
    finally:
        stream.stop(5.0)
    assert got == path.read_bytes().splitlines()


READER = """
import sys
from console.feeds.logs.follow import FollowedLogs
from console.feeds.logs.sources import Chunk, Notice
stream = FollowedLogs(["-"])
stream.start()
while stream.running or stream.waiting:
    for item in stream.take():
        sys.stdout.write(repr(item.data if isinstance(item, Chunk) else item.kind) + "\\n")
    sys.stdout.flush()
"""


def test_standard_input_to_its_end():
    done = subprocess.run(
        [sys.executable, "-c", READER], input=b"one\ntwo\nno end", capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode().splitlines() == ["b'one\\ntwo\\n'", "b'no end'", "'ended'"]
