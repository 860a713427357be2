"""Lines of a file on disk around a place, read with bounded memory and without any index."""

from __future__ import annotations

import os
from dataclasses import dataclass

from console.feeds.logs.sources import LONGEST

_BLOCK = 64 * 1024
_MOST = 16 << 20
"""A line is taken to begin or end this far from the place, if it does not sooner."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line where it is in its file."""

    offset: int
    end: int
    """Where the next one begins."""
    data: bytes
    """Without its end; the first 64 KiB of it."""


def line_start(fd: int, offset: int) -> int:
    """Where the line begins that the byte at ``offset`` is in."""
    least = max(0, offset - _MOST)
    while offset > least:
        first = max(least, offset - _BLOCK)
        found = os.pread(fd, offset - first, first).rfind(b"\n")
        if found >= 0:
            return first + found + 1
        offset = first
    return offset


def line_end(fd: int, offset: int, size: int) -> int:
    """Where the line after the one that begins at ``offset``, or goes on there, begins; ``size`` if there is none."""
    most = min(size, offset + _MOST)
    while offset < most:
        data = os.pread(fd, min(_BLOCK, most - offset), offset)
        if not data:
            return offset
        found = data.find(b"\n")
        if found >= 0:
            return offset + found + 1
        offset += len(data)
    return offset


def lines_from(fd: int, offset: int, count: int, size: int) -> list[Line]:
    """At most ``count`` lines, the first of which begins at ``offset``."""
    lines: list[Line] = []
    data, base = b"", offset
    while len(lines) < count and offset < size:
        place = offset - base
        found = data.find(b"\n", place)
        if found < 0:
            data, base, place = os.pread(fd, min(_BLOCK, size - offset), offset), offset, 0
            found = data.find(b"\n")
            if not data:
                break
        if found >= 0:
            lines.append(Line(offset, base + found + 1, data[place:found].removesuffix(b"\r")))
        else:
            lines.append(Line(offset, line_end(fd, offset, size), data[:LONGEST].removesuffix(b"\r")))
        offset = lines[-1].end
    return lines


def lines_before(fd: int, offset: int, count: int) -> list[Line]:
    """At most ``count`` lines, the last of which ends at ``offset``, which is a line's start or the file's end."""
    lines: list[Line] = []
    end = offset
    while len(lines) < count and end > 0:
        first = max(0, end - _BLOCK)
        block = os.pread(fd, end - first, first)
        if not block:
            break
        while len(lines) < count and block:
            start = block.rfind(b"\n", 0, len(block) - 1) + 1
            if start == 0 and first > 0:
                break
            lines.append(Line(first + start, first + len(block), _content(block[start:])))
            block = block[:start]
        if first + len(block) == end:  # one line is longer than the block
            start = line_start(fd, end - 1)
            lines.append(Line(start, end, _content(os.pread(fd, min(LONGEST + 2, end - start), start))))
            end = start
        else:
            end = first + len(block)
    return lines[::-1]


def _content(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")[:LONGEST]
