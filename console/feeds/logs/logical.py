"""Physical lines to logical ones: prefixes of service managers off, torn lines put together, continuations joined.

A ``TIMELINE`` line is written piece by piece, so lines of other writers get into it: its head, another line without a
break, and the rest as a line of its own. A value may hold line breaks: a line without a stamp and without a known
beginning goes on with the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from console.feeds.logs.physical import LONGEST, Line

_LONGEST_WAIT = 256
"""Physical lines after which the rest of a torn line is not awaited any more."""
_STAMP = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d"
_MARK = re.compile(
    rf"{_STAMP}\.\d{{6}}Z {{1,2}}(?:ERROR|WARN|INFO|DEBUG|TRACE) |CUZK_TIMING: |CUZK_NTT_H: |TIMELINE,\d"
)
"""Where a line of another writer begins inside a line."""
_PREFIX = re.compile(
    r"(?:<\d{1,3}>(?:1 )?)?"
    rf"(?:(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{_STAMP}(?:\.\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d))"
    r" (?!ERROR|DEBUG|TRACE)"
    r"(?:std(?:out|err) [FP] |[\w.-]++ [\w./@-]++(?:\[\d+\])?: |[\w.-]++ [\w./@-]++ [\d-]++ \S++ (?:-|\[.*?\]) )"
    r"|[\w.-]{1,64} +\| )"
)
"""journald's ``short`` and ``short-iso``, syslog of both kinds, container runtimes, ``docker compose``."""
_OTHER_STAMP = re.compile(rf"{_STAMP}(?:\.\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?\s+(?:ERROR|WARN|INFO|DEBUG|TRACE|FATAL)\s")
_STDERR = ("TIMELINE,", "CUZK_TIMING: ", "CUZK_NTT_H: ")
_NOISE = ("thread '", "note: run with", "terminate called", "CUDA error", "free():", "malloc", "double free", "munmap_")
_TORN_HEAD = ("TIMELINE", "CUZK_")
_WHOLE_TIMELINE = re.compile(
    r"TIMELINE,\d{1,18},[A-Z_]{1,32},.*,"
    r"(?:(?:partition|worker|synth_ms|gpu_ms)=\d+|kind=[\w-]+|monolithic)"
    r"|TIMELINE,\d{1,18},[A-Z_]{1,32},[^,]+,monolithic"
)
_WHOLE_TIMING = re.compile(r"CUZK_(?:TIMING|NTT_H): .*(?:=-?\d+(?:ms)?|gpu \d+)")


def _stamped(text: str) -> bool:
    """Whether a line begins with a stamp as the daemon writes it."""
    return text[26:28] == "Z " and text[10:11] == "T" and text[4:5] == "-"


def _may_be_torn(text: str) -> bool:
    """Whether another line may begin inside a line; much cheaper than to look for it."""
    return "Z " in text or text.find("CUZK_", 1) > 0 or text.find("TIMELINE,", 1) > 0


def _whole(text: str) -> bool:
    """Whether a line that may be torn is complete as it is."""
    return (_WHOLE_TIMELINE if text.startswith("TIMELINE") else _WHOLE_TIMING).fullmatch(text) is not None


class LogicalLines:
    """Puts logical lines together. The last one is held until the next begins, as it may go on."""

    def __init__(self) -> None:
        self.joined = 0
        """Torn lines that were put together."""
        self.lost = 0
        """Torn lines whose rest never came."""
        self._held: Line | None = None
        self._goes_on: list[str] = []
        self._length = 0
        self._torn: Line | None = None
        self._waited = 0
        self._out: list[Line] = []

    def feed(self, lines: Iterable[Line]) -> list[Line]:
        """The logical lines that are complete."""
        out = self._out
        for line in lines:
            text = line[1]
            if self._torn is None and (text[26:28] == "Z " or text[:1] == "{") and text.find("Z ", 34) < 0:
                if self._goes_on:
                    self._let_go()
                elif self._held is not None:
                    out.append(self._held)
                self._held = line
            elif self._torn is None and text.startswith(_STDERR) and not _may_be_torn(text):
                if self._held is not None:
                    self._let_go()
                out.append(line)
            else:
                self._take(line[0], text)
        self._out = []
        return out

    def finish(self) -> list[Line]:
        """What was held back."""
        self._let_go()
        self._give_up()
        out, self._out = self._out, []
        return out

    # -- one line -----------------------------------------------------------------------------------------------------

    def _take(self, offset: int, text: str) -> None:
        if not _stamped(text):
            prefix = _PREFIX.match(text)
            if prefix is not None:
                text = text[prefix.end() :]
        if self._torn is not None:
            self._waited += 1
            if self._waited > _LONGEST_WAIT:
                self._give_up()
        found = _MARK.search(text, 1)
        while found is not None:
            self._fragment(offset, text[: found.start()])
            text = text[found.start() :]
            found = _MARK.search(text, 1)
        self._whole_line(offset, text)

    def _whole_line(self, offset: int, text: str) -> None:
        """A line, or what of it is left behind the last mark in it."""
        if _stamped(text) or text.startswith("{") or _OTHER_STAMP.match(text):
            self._begin(offset, text)
        elif text.startswith(_STDERR):
            if text.startswith("TIMELINE"):
                self._give_up()
            self._let_go()
            self._out.append((offset, text))
        elif self._completes(text):
            pass
        elif text.startswith(_NOISE):
            self._begin(offset, text)
        elif text:
            self._continue(offset, text)

    def _fragment(self, offset: int, text: str) -> None:
        """What stood before another writer's line."""
        if self._completes(text):
            return
        if text.startswith(_TORN_HEAD):
            self._give_up()
            self._let_go()
            self._torn, self._waited = (offset, text), 0
        elif self._torn is not None and not _stamped(text):  # the middle of a line that is torn twice
            self._torn = (self._torn[0], (self._torn[1] + text)[:LONGEST])
        elif text.strip():
            self._begin(offset, text)

    def _completes(self, text: str) -> bool:
        """Whether a text is the rest of the torn line, which then is whole."""
        if self._torn is None:
            return False
        offset, head = self._torn
        if not _whole(head + text):
            return False
        self._let_go()
        self._out.append((offset, head + text))
        self._torn = None
        self.joined += 1
        return True

    def _give_up(self) -> None:
        """The rest of the torn line does not come."""
        if self._torn is None:
            return
        whole = _whole(self._torn[1])
        self.joined += whole
        self.lost += not whole
        self._out.append(self._torn)
        self._torn = None

    def _begin(self, offset: int, text: str) -> None:
        self._let_go()
        self._held = (offset, text)

    def _continue(self, offset: int, text: str) -> None:
        if self._held is None:
            self._begin(offset, text)
        elif self._length + len(text) < LONGEST and len(self._goes_on) < _LONGEST_WAIT:
            self._goes_on.append(text)
            self._length += len(text)

    def _let_go(self) -> None:
        if self._held is not None:
            offset, text = self._held
            self._out.append((offset, "\n".join([text, *self._goes_on])) if self._goes_on else self._held)
            self._held = None
        self._goes_on, self._length = [], 0
