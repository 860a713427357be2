"""Lines of a file by number and by place, against the file split in memory."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.logs import index_lines
from console.feeds.logs.index import BLOCK, LineCounts, LogIndex
from console.feeds.logs.index_lines import lines_before, lines_from


def split(content: bytes) -> list[tuple[int, bytes]]:
    found, place = [], 0
    for line in content.split(b"\n"):
        found.append((place, line.removesuffix(b"\r")))
        place += len(line) + 1
    return found[:-1] if not found[-1][1] and place == len(content) + 1 and content[-1:] in (b"", b"\n") else found


lengths = st.lists(st.sampled_from([0, 1, 7, 90, 91, 4000, BLOCK - 1, BLOCK, BLOCK + 1]), max_size=40)


def content_of(parts: list[int], ended: bool) -> bytes:
    text = b"\n".join(b"%d" % number + b"x" * length for number, length in enumerate(parts))
    return text + b"\n" if ended and parts else text


@settings(deadline=None, max_examples=60)
@given(lengths, st.booleans(), st.integers(0, 45))
def test_every_line_is_found_by_its_number_and_its_place(
    tmp_path_factory: pytest.TempPathFactory, parts: list[int], ended: bool, count: int
):
    path = tmp_path_factory.mktemp("log") / "a.log"
    content = content_of(parts, ended)
    path.write_bytes(content)
    expected = split(content)
    index = LogIndex(path)
    try:
        assert index.wait(10) and index.lines == len(expected)
        for number, (offset, data) in enumerate(expected):
            assert index.start_of(number) == offset
            assert index.number_at(offset) == index.number_at(offset + len(data)) == number
        assert index.start_of(len(expected) + 1) is None
        assert [(line.offset, line.data) for line in index.last(count)] == [
            (offset, data[:BLOCK]) for offset, data in expected[len(expected) - min(count, len(expected)) :]
        ]
        middle = len(expected) // 2
        assert [(line.offset, line.data) for line in index.read(middle, count)] == [
            (offset, data[:BLOCK]) for offset, data in expected[middle : middle + count]
        ]
        if expected:
            before, after = index.around(expected[middle][0] + len(expected[middle][1]) // 2, 3, 3)
            assert [line.offset for line in before + after] == [
                offset for offset, _ in expected[max(0, middle - 3) : middle + 3]
            ]
    finally:
        index.close()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(lengths, st.booleans()), min_size=1, max_size=6))
def test_growth_in_any_pieces_counts_the_same(tmp_path_factory: pytest.TempPathFactory, pieces: list):
    path = tmp_path_factory.mktemp("log") / "a.log"
    path.touch()
    counts, fd = LineCounts(), os.open(path, os.O_RDONLY)
    try:
        for parts, ended in pieces:
            with path.open("ab") as file:
                file.write(content_of(parts, ended))
            for _ in counts.extend(fd, path.stat().st_size):
                pass
        content = path.read_bytes()
        assert counts.ended == content.count(b"\n") and counts.size == len(content)
        for number, (offset, _) in enumerate(split(content)):
            assert counts.start_of(fd, number) == offset
    finally:
        os.close(fd)


def test_growth_truncation_and_rotation(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\nthr")
    index = LogIndex(path)
    assert index.lines == 3 and not index.refresh()
    with path.open("ab") as file:
        file.write(b"ee\nfour\n")
    assert index.refresh() and index.lines == 4 and index.generation == 0
    assert [line.data for line in index.read(2, 9)] == [b"three", b"four"]
    path.write_bytes(b"another text\n")
    assert index.refresh() and index.generation == 1 and index.lines == 1
    path.write_bytes(b"longer than what was there before\nand before that\n")
    assert index.refresh() and index.generation == 2 and index.lines == 2
    path.rename(tmp_path / "a.log.1")
    assert not index.refresh()
    path.write_bytes(b"new\n")
    assert index.refresh() and index.generation == 3
    assert [line.data for line in index.last(9)] == [b"new"]
    index.close()


def test_a_hole_is_passed_over_and_counted_right(tmp_path: Path):
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"one\ntwo\n")
        file.seek(40 << 30)
        file.write(b"\nlast but one\nlast\n")
    index = LogIndex(path)
    assert [line.data for line in index.last(2)] == [b"last but one", b"last"]
    assert index.wait(30) and index.lines == 5
    assert [line.data for line in index.read(3, 5)] == [b"last but one", b"last"]
    assert len(index.read(2, 1)[0].data) == BLOCK
    index.close()


def test_both_ways_of_counting_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(b"x" * (number % 300) + b"\n" for number in range(20_000)))
    plain = LogIndex(path)
    monkeypatch.setattr("console.feeds.logs.index._WORTH_NUMPY", 0)
    quick = LogIndex(path)
    assert plain.wait(10) and quick.wait(10) and plain.lines == quick.lines == 20_000
    assert [plain.start_of(number) for number in range(0, 20_000, 77)] == [
        quick.start_of(number) for number in range(0, 20_000, 77)
    ]
    plain.close()
    quick.close()


def test_a_line_without_end_costs_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_lines, "_MOST", 4 * BLOCK)
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n" + b"x" * (20 * BLOCK))
    fd = os.open(path, os.O_RDONLY)
    try:
        size = path.stat().st_size
        back = lines_before(fd, size, 1)
        assert back[0].end - back[0].offset == pytest.approx(4 * BLOCK, abs=1) and len(back[0].data) == BLOCK
        forth = lines_from(fd, 6, 2, size)
        assert forth[0].offset == 6 and forth[1].offset == 6 + 4 * BLOCK
    finally:
        os.close(fd)


def test_no_file_is_no_index(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        LogIndex(tmp_path / "none.log")
    with pytest.raises(OSError, match="not a regular file"):
        LogIndex(tmp_path)
