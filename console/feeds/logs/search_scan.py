"""Looks through a file for lines, a window at a time. Run as a program it does so for another process.

A regular expression can take forever and can't be interrupted, and while it runs nothing else in its process does: that
is why it gets a process of its own, which can be ended. This file is started alone and needs nothing but Python.

Told by its arguments (the file's descriptor, a JSON object) it writes to its output: ``M`` and a line's offset for each
line that matches, ``P`` and how many bytes are done now and then.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import AnyStr

WINDOW = 256 * 1024
"""Small enough that what was just read is still in the processor's cache when it is looked through."""
_CARRIED = 4096
"""Bytes of a line longer than a window that are looked at again with its next piece."""
_MOST_CPU_S = 1800
_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LINE_BY_LINE = re.compile(r"\(\?(?:[=!]|<[=!]|>|\()|\\[AZ]|[*+?}]\+")
"""What may tell a line in the middle of others from the same line alone: looking around, ends of all, no way back."""

Finder = Callable[[bytes], Iterator[int]]
"""The offsets in a window of whole lines of those that match, in order."""


def compile_pattern(text: str, regex: bool, ignore_case: bool) -> tuple[Finder, bool]:
    """What finds a text, and whether that takes a time that is known. Raises ``re.error``."""
    literal = text.encode()
    if not regex and (not ignore_case or literal.isascii()):
        lowered = literal.lower() if ignore_case else None
        return (lambda window: _literal(window, literal, lowered)), True
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    source = text if regex else re.escape(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_bytes = re.compile(source.encode(), flags) if literal.isascii() else None
        in_text = re.compile(source, flags)
    alone = _LINE_BY_LINE.search(source) is not None
    return (lambda window: _expression(window, in_bytes, in_text, alone)), False


def _starts(window: bytes, clean: AnyStr, newline: AnyStr, places: Iterator[int]) -> Iterator[int]:
    """Line starts in ``window`` of places in ``clean``, which has the same lines without escapes."""
    number, seen, start, line = 0, 0, 0, 0
    for place in places:
        number += clean.count(newline, seen, place)
        seen = place
        while line < number:
            start = window.find(b"\n", start) + 1
            line += 1
        yield start


def _clean(window: bytes) -> bytes:
    return _ESCAPE.sub(b"", window) if b"\x1b" in window else window


def _literal(window: bytes, literal: bytes, lowered: bytes | None) -> Iterator[int]:
    clean = _clean(window)
    text, wanted = (clean.lower(), lowered) if lowered is not None else (clean, literal)

    def places() -> Iterator[int]:
        place = text.find(wanted)
        while place >= 0:
            yield text.rfind(b"\n", 0, place) + 1
            following = text.find(b"\n", place)
            place = text.find(wanted, following) if following >= 0 else -1

    return places() if clean is window else _starts(window, clean, b"\n", places())


def _expression(
    window: bytes, in_bytes: re.Pattern[bytes] | None, in_text: re.Pattern[str], alone: bool
) -> Iterator[int]:
    clean = _clean(window)
    if clean is not window and not window.endswith(b"\n"):
        clean += b"\n"  # a last line of nothing but colours is a line
    if in_bytes is not None and clean.isascii():
        places = _matching(clean, in_bytes, b"\n", b"\r", alone)
        return places if clean is window else _starts(window, clean, b"\n", places)
    # What a character is, and which of them are letters, only text tells.
    text = clean.decode("utf-8", "replace")
    return _starts(window, text, "\n", _matching(text, in_text, "\n", "\r", alone))


def _matching(
    clean: AnyStr, pattern: re.Pattern[AnyStr], newline: AnyStr, before: AnyStr, alone: bool
) -> Iterator[int]:
    place = 0
    while place < len(clean):
        start = place
        if not alone:
            # Elsewhere than on one line a match only says that there may be one on the line that it begins on.
            found = pattern.search(clean, place)
            if found is None:
                return
            start = clean.rfind(newline, 0, found.start()) + 1
        if start == len(clean):
            return  # behind the last line's end there is no other line
        end = clean.find(newline, start)
        end = len(clean) if end < 0 else end
        if pattern.search(clean[start:end].removesuffix(before)):
            yield start
        place = end + 1


def scan(fd: int, begin: int, end: int, finder: Finder, window: int = WINDOW) -> Iterator[tuple[int, list[int]]]:
    """Look through ``[begin, end)``, which begins with a line: bytes done, and the lines found since, each window."""
    place = line = begin
    # ``line`` is where the line begins that ``place`` is in: one that is longer than a window is met in pieces.
    carried = min(_CARRIED, window // 2)
    last = -1
    while place < end:
        if place == line:
            place = line = _past_hole(fd, place, end)
        wanted = min(window, end - place)
        data = os.pread(fd, wanted, place)
        final = len(data) < wanted or place + wanted >= end
        # The line that the window cuts is met whole with the next one: reading it again costs less than copying.
        cut = len(data) if final else data.rfind(b"\n") + 1 or len(data)
        hits = []
        for start in finder(data):
            if start >= cut:
                break
            hits.append(line if start == 0 else place + start)
        if hits and hits[0] == last:
            hits = hits[1:]  # found in an earlier piece of the same line
        last = hits[-1] if hits else last
        if final:
            place = end
        elif data[cut - 1 : cut] == b"\n":
            place = line = place + cut
        else:
            place += cut - carried
        yield place - begin, hits


def _past_hole(fd: int, place: int, end: int) -> int:
    """Where there are bytes again, if none were ever written here."""
    try:
        data = os.lseek(fd, place, os.SEEK_DATA)
    except OSError:
        return place
    return data if place + WINDOW < data < end else place


def main() -> None:
    """The program: see above."""
    # Should the console die while an expression runs wild, nobody else ends it.
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))
    fd, told = int(sys.argv[1]), json.loads(sys.argv[2])
    finder, _ = compile_pattern(told["text"], True, told["ignore_case"])
    write = sys.stdout.buffer
    for begin, end in told["ranges"]:
        for done, hits in scan(fd, begin, end, finder):
            write.write(b"".join(b"M%d\n" % hit for hit in hits) + b"P%d\n" % done)
            write.flush()
        write.write(b"E\n")
    write.flush()


if __name__ == "__main__":
    main()
