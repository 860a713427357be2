"""Logical lines to records: tracing's text and JSON, ``TIMELINE``, the C++ library's timing lines, Lotus workers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from console.feeds.logs.catalogue import ALL_KEYS
from console.feeds.logs.physical import Line
from console.feeds.logs.record import Form, LogRecord
from prover.model import FieldValue

_TRACING = re.compile(
    r"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{1,9})Z {1,2}(ERROR|WARN|INFO|DEBUG|TRACE) "
    r"(?:SIMULATED: )?(?:((?:\w++(?:\{[^{}]*+\})?+:)++) )?+([A-Za-z_][\w:.]*+): (.*)",
    re.DOTALL,
)
_TRACING_LOOSE = re.compile(
    r"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{1,9})Z {1,2}(ERROR|WARN|INFO|DEBUG|TRACE) (.*)", re.DOTALL
)
_TARGET_AFTER_SPANS = re.compile(r"\}: (\w+(?:::\w+)*): ")
_BARE_TARGET = re.compile(r"(\w+(?:::\w+)*): ")
_FIRST_KEY = re.compile(r" [a-z][a-z0-9_]*+=")
_TIMELINE = re.compile(r"TIMELINE,(\d{1,15}),([A-Z_]{1,32}),(.*)", re.DOTALL)
_DETAIL = re.compile(r",((?:(?:partition|worker|synth_ms|gpu_ms|kind)=[\w-]+|monolithic)(?:,|$))++$")
_PLAIN_DETAIL = re.compile(
    r"(?:(?:partition|worker|synth_ms|gpu_ms|kind)=[\w-]++|monolithic)"
    r"(?:,(?:partition|worker|synth_ms|gpu_ms)=\d++)*+"
)
_EVENT_DETAILS = {
    "SYNTH_START": ["partition"],
    "SYNTH_END": ["partition", "synth_ms"],
    "GPU_QUEUE": ["partition"],
    "CHAN_SEND": ["partition"],
    "GPU_PICKUP": ["worker", "partition"],
    "GPU_START": ["worker", "partition"],
    "GPU_END": ["worker", "partition", "gpu_ms"],
}
"""The keys of partitions' events, by far the most."""
_FIL_LOGGER = re.compile(
    r"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?\s+(ERROR|WARN|INFO|DEBUG|TRACE|FATAL)\s+"
    r"(?:([\w:.-]+) > |([\w.:-]+)\s+([\w./-]+\.go:\d+)\s+)?(.*)",
    re.DOTALL,
)
_DAEMON_TARGETS = ("cuzk", "bellperson::", "supraseal")
_DECODE = json.JSONDecoder().decode
_LEVELS = {f"Z {level:>5} ": level for level in ("ERROR", "WARN", "INFO", "DEBUG", "TRACE")}
_ENGINE_STARTS = "starting cuzk engine"


class Parser:
    """Turns logical lines into records, and gives those without a stamp their time."""

    def __init__(self) -> None:
        self.lines = 0
        self.texts = 0
        """Lines of no known form."""
        self.engine_us: int | None = None
        """When the engine started: ``TIMELINE`` offsets count from there."""
        self.anchored_loosely = False
        """Whether that is only an estimate, from the stamp next to a ``TIMELINE`` line."""
        self.bare = False
        """Whether the source has no stamps at all: ``TIMELINE`` offsets are the only clock."""
        self.offset_steps: list[float] = []
        """Seconds by which a ``TIMELINE`` line and the stamps around it differed suddenly."""
        self._second = ""
        self._second_us: int | None = None
        self._latest: int | None = None

    def parse(self, lines: Iterable[Line]) -> list[LogRecord]:
        """The records of lines, one each."""
        records = []
        for offset, text in lines:
            level = _LEVELS.get(text[26:34])
            if level is None or text[:19] != self._second or text[19:20] != "." or self._second_us is None:
                records.append(self._record(offset, text))
                continue
            # as a tracing line nearly always is; whatever is different goes the careful way
            begin, end, spans = 34, text.find(": ", 34), ""
            brace = text.find("{", 34, end)
            if brace > 0:
                begin = text.find("}: ", brace) + 3
                end, spans = text.find(": ", begin), text[34 : begin - 1]
            target = text[begin:end]
            if not target.startswith(_DAEMON_TARGETS) or " " in target or not text[20:26].isdigit():
                records.append(self._record(offset, text))
                continue
            self._latest = at_us = self._second_us + int(text[20:26])
            message, rest = _message(text, end + 2)
            records.append(LogRecord(Form.TRACING, offset, at_us, level, target, message, rest, spans))
            if message == _ENGINE_STARTS:
                self.engine_us, self.anchored_loosely = at_us, False
        self.lines += len(records)
        return records

    def _record(self, offset: int, text: str) -> LogRecord:
        found = _TRACING.match(text)
        if found is not None:
            second, fraction, level, spans, target, told = found.groups("")
            if spans and "{" not in spans and "::" not in target and not target.startswith(_DAEMON_TARGETS):
                spans, target, told = "", spans[:-1], f"{target}: {told}"  # a message that begins like a target
            return self._tracing(offset, (second, fraction), level, (spans, target, told))
        first = text[:1]
        if first == "T" and text.startswith("TIMELINE,"):
            record = self._timeline(offset, text)
        elif first == "C" and text.startswith(("CUZK_TIMING: ", "CUZK_NTT_H: ")):
            record = self._timing(offset, text)
        elif first == "{":
            record = self._json(offset, text)
        elif first == "2":
            record = self._loose(offset, text) or self._worker(offset, text)
        else:
            record = None
        if record is None:
            self.texts += 1
            record = LogRecord(Form.TEXT, offset, self._latest, "", "", text)
        return record

    def _time(self, second: str, fraction: str) -> int | None:
        if second != self._second:
            self._second = second
            try:
                whole = datetime.fromisoformat(second).replace(tzinfo=UTC)
                self._second_us = int(whole.timestamp()) * 1_000_000
            except ValueError:
                self._second_us = None
        if self._second_us is None:
            return self._latest
        self._latest = self._second_us + int(fraction[:6].ljust(6, "0"))
        return self._latest

    # -- tracing ------------------------------------------------------------------------------------------------------

    def _tracing(
        self, offset: int, stamp: tuple[str, str], level: str, parts: tuple[str, str, str], form: Form = Form.TRACING
    ) -> LogRecord:
        at_us = self._time(*stamp)
        spans, target, told = parts
        message, rest = _message(told, 0)
        if message == _ENGINE_STARTS:
            self.engine_us, self.anchored_loosely = at_us, False
        return LogRecord(form, offset, at_us, level, target, message, rest, spans)

    def _loose(self, offset: int, text: str) -> LogRecord | None:
        """A tracing line whose spans hold braces in their values."""
        found = _TRACING_LOOSE.match(text)
        if found is None:
            return None
        told = found[4].removeprefix("SIMULATED: ")
        target = _TARGET_AFTER_SPANS.search(told)
        spans = ""
        if target is not None:
            spans = told[: target.start() + 2]
        else:
            target = _BARE_TARGET.match(told)
        if target is None:
            return None
        return self._tracing(offset, (found[1], found[2]), found[3], (spans, target[1], told[target.end() :]))

    def _json(self, offset: int, text: str) -> LogRecord | None:
        try:
            told: Any = _DECODE(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(told, dict):
            return None
        stamp, given = told.get("timestamp", told.get("ts")), told.get("fields")
        if not isinstance(stamp, str) or not stamp[:4].isdigit():
            return None
        values = given if isinstance(given, dict) else told
        message = values.pop("message", None) or values.pop("msg", "")
        listed = told.get("spans")
        fraction = stamp[20:26]
        if not (fraction.isdecimal() and fraction.isascii() and stamp[19:20] == "."):
            digits = re.match(r"\.([0-9]+)", stamp[19:])
            fraction = digits[1] if digits else ""
        at_us = self._time(stamp[:19], fraction)
        if message == _ENGINE_STARTS:
            self.engine_us, self.anchored_loosely = at_us, False
        level, target = str(told.get("level", "")).upper(), str(told.get("target", told.get("logger", "")))
        return LogRecord(
            Form.JSON, offset, at_us, level, target, str(message), values, listed if isinstance(listed, list) else ""
        )

    # -- lines without a stamp ----------------------------------------------------------------------------------------

    def _timeline(self, offset: int, text: str) -> LogRecord | None:
        parts = text.split(",")
        if len(parts) > 4 and parts[1].isdecimal() and _EVENT_DETAILS.get(parts[2]) == [*map(_key, parts[4:])]:
            offset_ms = int(parts[1][:15])
            fields: dict[str, FieldValue] = {"job_id": parts[3], "offset_ms": offset_ms}
            for word in parts[4:]:
                key, _, value = word.partition("=")
                fields[key] = int(value) if value.isdecimal() and len(value) <= 18 else value
            at_us = self._offset_time(offset_ms)
            return LogRecord(Form.TIMELINE, offset, at_us, "", "TIMELINE", parts[2], printed=fields)
        return self._timeline_of_another_shape(offset, text)

    def _timeline_of_another_shape(self, offset: int, text: str) -> LogRecord | None:
        found = _TIMELINE.match(text)
        if found is None:
            return None
        told = found[3]
        job, _, detail = told.partition(",")
        if not _PLAIN_DETAIL.fullmatch(detail):  # the job's id holds commas: the detail is what looks like one
            end = _DETAIL.search(told)
            if end is None:
                return None
            job, detail = told[: end.start()], end[0].strip(",")
        fields: dict[str, FieldValue] = {"job_id": job, "offset_ms": int(found[1])}
        for word in detail.split(","):
            key, equals, value = word.partition("=")
            if equals:
                fields[key] = int(value) if value.isdecimal() and len(value) <= 18 else value
        at_us = self._offset_time(int(found[1]))
        return LogRecord(Form.TIMELINE, offset, at_us, "", "TIMELINE", found[2], printed=fields)

    def _offset_time(self, milliseconds: int) -> int | None:
        """The wall time of a ``TIMELINE`` offset. Stamps that differ much mean a clock that was set."""
        if self.bare and self.engine_us is not None:
            self._latest = self.engine_us + milliseconds * 1000
            return self._latest
        if self._latest is None:
            return None
        if self.engine_us is None:
            self.engine_us, self.anchored_loosely = self._latest - milliseconds * 1000, True
        at_us = self.engine_us + milliseconds * 1000
        apart = self._latest - at_us
        if abs(apart) > 2_000_000 and self.anchored_loosely:
            self.engine_us += apart
            at_us = self._latest
        elif apart > 60_000_000 or apart < -3_600_000_000:
            self.offset_steps.append(apart / 1e6)
            del self.offset_steps[64:]
            self.engine_us += apart
            at_us = self._latest
        return at_us

    def _timing(self, offset: int, text: str) -> LogRecord:
        return LogRecord(Form.TIMING, offset, self._latest, "", text[: text.index(":")], text)

    def _worker(self, offset: int, text: str) -> LogRecord | None:
        """``<time> <LEVEL> <target> > <message>`` of fil_logger; ``<time> <LEVEL> <logger> <file> <message>`` of Go."""
        found = _FIL_LOGGER.match(text)
        if found is None or not (found[5] or found[6]):
            return None
        at_us = self._time(found[1], found[2] or "")
        if at_us is not None and found[3] and found[3] != "Z":
            sign = -1 if found[3][0] == "+" else 1
            at_us += sign * (int(found[3][1:3]) * 60 + int(found[3][-2:])) * 60_000_000
            self._latest = at_us
        return LogRecord(Form.WORKER, offset, at_us, found[4], found[5] or found[6], found[8].strip())


def _key(word: str) -> str:
    return word[: word.find("=")]


def _message(text: str, begin: int) -> tuple[str, str]:
    """A message and what follows it, from the blank before its first key on."""
    equals = text.find("=", begin)
    if equals < 0:
        return text[begin:], ""
    blank = text.rfind(" ", begin, equals)
    key = text[blank + 1 : equals]
    if blank < 0 or (key not in ALL_KEYS and not (key.islower() and key.isidentifier())):
        found = _FIRST_KEY.search(text, begin)
        if found is None:
            return text[begin:], ""
        blank = found.start()
    return text[begin:blank], text[blank:]
