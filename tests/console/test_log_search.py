"""Searching a file, against looking at each of its lines."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.feeds.logs.search import PatternError, Search
from console.feeds.logs.search_scan import compile_pattern, scan

COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "a.log"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    yield path, fd
    os.close(fd)


def expected(content: bytes, text: str, regex: bool, ignore_case: bool) -> list[int]:
    pattern = re.compile(text if regex else re.escape(text), re.IGNORECASE if ignore_case else 0)
    found, place = [], 0
    for line in content.split(b"\n"):
        if place < len(content) and pattern.search(COLOURS.sub(b"", line).decode("utf-8", "replace").rstrip("\r")):
            found.append(place)
        place += len(line) + 1
    return found


pieces = st.lists(
    st.sampled_from(
        [b"a", b"b", b"ab", b"A", b"\n", b"\n\n", b" ", b"\x1b[2m", b"\x1b[0m", b"=", b"\xff", "é".encode()]
    ),
    max_size=80,
)
texts = ["ab", "a=b", "é", "a.b"]
expressions = [
    "a+b",
    "^a",
    "b$",
    "^$",
    "a[^x]*b",
    r"a\s*b",
    "a(?!b)",
    "(?<=a)b",
    r"b\Z",
    r"\Aa",
    "é+",
    "a|^b",
    r"\bab\b",
]
patterns = [(text, False) for text in texts] + [(text, True) for text in expressions]


@settings(deadline=None, max_examples=400)
@given(pieces, st.sampled_from(patterns), st.booleans(), st.integers(60, 400))
def test_the_lines_found_are_those_that_match(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], what: tuple[str, bool], ignore_case: bool, window: int
):
    # Lines are shorter than the windows; longer ones are tried below.
    content = b"".join(part + (b"\n" if number % 20 == 19 else b"") for number, part in enumerate(parts))
    path = tmp_path_factory.mktemp("log") / "a.log"
    path.write_bytes(content)
    finder, _ = compile_pattern(*what, ignore_case)
    fd = os.open(path, os.O_RDONLY)
    try:
        found = [hit for _, hits in scan(fd, 0, len(content), finder, window) for hit in hits]
    finally:
        os.close(fd)
    assert found == expected(content, *what, ignore_case)


@pytest.mark.parametrize("at", [0, 1_000_000, 1_048_570, 1_048_576, 2_500_000])
def test_a_word_in_a_line_of_megabytes_is_found_once(opened: tuple[Path, int], at: int):
    path, fd = opened
    path.write_bytes(b"first\n" + b"x" * at + b"needle" + b"y" * (3_000_000 - at) + b"\nlast needle\n")
    size = path.stat().st_size
    for regex in (False, True):
        search = Search(fd, "needle", size=size, regex=regex)
        search.start()
        assert search.wait(30) and search.places() == [6, size - 12]


@pytest.mark.parametrize(("text", "regex"), [("number 500", False), (r"number [57]00\b", True)])
def test_from_the_middle_and_round(opened: tuple[Path, int], text: str, regex: bool):
    path, fd = opened
    content = b"".join(b"\x1b[3mnumber\x1b[0m %d\n" % (number % 1000) for number in range(3000))
    path.write_bytes(content)
    search = Search(fd, text, size=len(content), begin=len(content) // 2, regex=regex)
    search.start()
    assert search.wait(30) and search.progress == 1.0 and search.problem is None
    places = expected(content, text, regex, False)
    assert search.places() == places and search.found == len(places)
    assert search.next(places[0]) == places[1] and search.next(places[-1]) is None
    assert search.previous(places[-1]) == places[-2] and search.previous(places[0]) is None
    assert search.next(-1) == places[0] and search.previous(len(content)) == places[-1]


def test_an_expression_that_never_ends_is_ended(opened: tuple[Path, int]):
    path, fd = opened
    path.write_bytes(b"a" * 200 + b"\n")
    search = Search(fd, r"(a+)+b", size=201, regex=True)
    search.start()
    assert not search.wait(0.3)
    search.cancel()
    assert search.wait(10) and search.cancelled and search.problem is None and search.found == 0


def test_what_is_no_pattern_is_said(opened: tuple[Path, int]):
    for text, regex in (("(", True), ("[b-a]", True), ("", False), ("a\nb", False)):
        with pytest.raises(PatternError, match=r"^search: "):
            Search(opened[1], text, size=0, regex=regex)


def test_a_file_truncated_under_the_search_ends_it(opened: tuple[Path, int]):
    path, fd = opened
    path.write_bytes(b"needle\n" * 10)
    search = Search(fd, "needle", size=1 << 30)
    search.start()
    assert search.wait(30) and search.found == 10 and search.problem is None
