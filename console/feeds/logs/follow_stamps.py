"""The time at the head of a line, only as far as putting lines in order needs it, and finding a time in a file.

Stamps are seconds since 1970, UTC. Known forms: ISO 8601 (with or without colour codes or a bracket before it; no zone
means UTC), the same within a JSON object, and the service manager's ``Mar 13 18:43:37 host unit[1]: `` prefix, which
is local time without a year and gives way to a full stamp behind it.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from functools import lru_cache

_ISO = rb"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\d*(Z|[+-]\d\d:?\d\d)?"
_AT_HEAD = re.compile(rb"(?:\x1b\[[0-9;]*m|[\s\[])*" + _ISO)
_JSON = re.compile(rb'\s*\{[^\n]{0,512}?"(?:timestamp|time|ts|@timestamp)"\s*:\s*"' + _ISO)
_UNIT = re.compile(rb"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)\b")
_BEHIND_UNIT = re.compile(rb"[^\n]{0,200}?\]?: (?:\x1b\[[0-9;]*m)*" + _ISO)
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_HALF_YEAR_S = 183 * 86_400
_BLOCK = 64 * 1024
_WITHOUT = 1 << 20
"""Bytes in a row without a stamp after which a search for one gives up."""


@lru_cache(maxsize=64)
def _day(text: bytes) -> int | None:
    year, month, day = (int(part) for part in text.split(b"-"))
    return calendar.timegm((year, month, day, 0, 0, 0)) if 1 <= month <= 12 and 1 <= day <= 31 and year else None


def _seconds(found: re.Match[bytes]) -> float | None:
    date, hour, minute, second, fraction, zone = found.groups()
    day = _day(date)
    if day is None:
        return None
    at: float = day + int(hour) * 3600 + int(minute) * 60 + int(second)
    if fraction:
        at += int(fraction) / 10 ** len(fraction)
    if zone and zone != b"Z":
        ahead = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        at += -ahead if zone[:1] == b"+" else ahead
    return at


def _unit_seconds(found: re.Match[bytes], now: float) -> float | None:
    month, day, hour, minute, second = found.groups()
    if month not in _MONTHS:
        return None
    year = time.localtime(now).tm_year
    clock = (_MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), 0, 1, -1)
    try:
        near = (time.mktime((y, *clock)) for y in (year - 1, year, year + 1))
        return min(near, key=lambda at: abs(at - now) + (_HALF_YEAR_S if at > now + 86_400 else 0))
    except (OverflowError, ValueError):
        return None


def stamp_at(line: bytes, now: float | None = None) -> float | None:
    """The time at the head of ``line``, which may have more lines behind it; None without one."""
    first = line[:1]
    if first.isdigit() or first in (b"\x1b", b"[", b" "):
        found = _AT_HEAD.match(line)
        return _seconds(found) if found else None
    if first == b"{":
        found = _JSON.match(line)
        return _seconds(found) if found else None
    if (unit := _UNIT.match(line)) is None:
        return None
    if behind := _BEHIND_UNIT.match(line, unit.end()):
        return _seconds(behind)
    return _unit_seconds(unit, time.time() if now is None else now)


def first_stamp(fd: int, begin: int, end: int, at_line: bool) -> tuple[int, float] | None:
    """The first line in ``[begin, end)`` with a stamp: where it starts and its time. Reads at most a MiB.

    ``at_line`` says that ``begin`` is a line's start; otherwise the line that it is in is passed over.
    """
    place, kept, limit = begin, b"", min(end, begin + _WITHOUT)
    while place < limit:
        data = os.pread(fd, min(_BLOCK, end - place), place)
        if not data:
            return None
        start = place - len(kept)
        block, place = kept + data, place + len(data)
        line = 0 if at_line else block.find(b"\n") + 1
        if not line and not at_line:
            continue  # still in the line before
        at_line = True
        while line < len(block):
            stamp = stamp_at(block[line : line + 1024])
            # A stamp that the block's end cuts is met again, whole, with the next block.
            if stamp is not None and (len(block) - line >= 64 or place >= end):
                return start + line, stamp
            following = block.find(b"\n", line) + 1
            if not following:
                break
            line = following
        kept = block[line:] if len(block) - line < _BLOCK else b""
        if not kept and line < len(block):
            at_line = False
    return None


def seek_stamp(fd: int, size: int, stamp: float) -> int:
    """Where the first line at or after ``stamp`` starts, by halving: a few reads whatever the size.

    Lines are taken to be in time order, as one writer leaves them; a hole or a stretch without stamps counts as early.
    """
    low, high = 0, size
    while high - low > _BLOCK:
        middle = (low + high) // 2
        found = first_stamp(fd, middle, high, at_line=False)
        if found is None:
            high_found = first_stamp(fd, high, size, at_line=False) if high < size else None
            if high_found is not None and high_found[1] < stamp:
                low = middle
            else:
                high = middle
        elif found[1] < stamp:
            low = found[0]
        else:
            high = middle
    return _scan(fd, low, size, stamp)


def _scan(fd: int, begin: int, size: int, stamp: float) -> int:
    place, at_line = begin, begin == 0
    if begin:
        at_line = os.pread(fd, 1, begin - 1) == b"\n"
    while (found := first_stamp(fd, place, size, at_line)) is not None:
        if found[1] >= stamp:
            return found[0]
        place, at_line = found[0] + 1, False
    return size


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_since(text: str, now: float) -> float:
    """A time as an operator writes it: ``10m``, ``2h``, ``17:30`` (today or yesterday, local) or ISO 8601 (UTC).

    Raises ``ValueError`` with one line of what is understood.
    """
    text = text.strip()
    if (short := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text)) is not None:
        return now - float(short[1]) * _UNITS[short[2]]
    if (clock := re.fullmatch(r"(\d\d?):(\d\d)(?::(\d\d))?", text)) is not None and int(clock[1]) < 24:
        today = time.localtime(now)
        at = time.mktime((*today[:3], int(clock[1]), int(clock[2]), int(clock[3] or 0), 0, 0, -1))
        return at if at <= now else at - 86_400
    full = text if len(text) > 10 else f"{text}T00:00:00"
    full = full if re.search(r"\d\d:\d\d:\d\d", full) else re.sub(r"([T ]\d\d:\d\d)", r"\1:00", full)
    found = re.fullmatch(_ISO, full.encode())
    at_full = _seconds(found) if found else None
    if at_full is None:
        raise ValueError(f"since: {text!r}: write 10m, 2h, 17:30 or 2026-03-13T18:43:37Z")
    return at_full
