"""Log files read from their beginning to their end, several as one stream in the order of time, in bounded memory."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from console.feeds.logs.record import LogRecord
from console.feeds.logs.stream import RecordReader, reader_warnings, translator_warnings
from console.feeds.logs.tally import Tally
from console.feeds.logs.translate import Translator
from prover.model import Event

_CHUNK = 128 * 1024
_STARTS = b"starting cuzk engine"
_LOOK = 1 << 20
"""Bytes of a file that are searched for the engine's start on behalf of the others."""


@dataclass(slots=True)
class Reading:
    """What files gave."""

    events: list[Event]
    tally: Tally
    translator: Translator
    readers: list[RecordReader] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Logical lines."""
        return sum(reader.parser.lines for reader in self.readers)

    @property
    def lines_understood(self) -> int:
        """Those of a known form."""
        return self.lines - sum(reader.parser.texts for reader in self.readers)

    def warnings(self) -> list[str]:
        """What was wrong with the input."""
        return [*reader_warnings(self.readers), *translator_warnings(self.translator)]


def read_logs(paths: Sequence[Path], since_us: int | None = None, until_us: int | None = None) -> Reading:
    """Read files. Of ``since_us`` <= time < ``until_us`` only, where given (microseconds since 1970).

    Raises OSError for a file that cannot be read.
    """
    reading = Reading([], Tally(), Translator())
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        started = _engine_start(files) if len(files) > 1 else None
        sources = []
        for file in files:
            reader = RecordReader()
            if started is not None and not _stamped(file):
                reader.parser.engine_us = started
                reader.parser.bare = True
            reading.readers.append(reader)
            sources.append(_records(file, reader))
        merged: Iterable[LogRecord] = sources[0] if len(sources) == 1 else _in_order(sources)
        wanted = (
            record
            for record in merged
            if (since_us is None or (record.at_us is not None and record.at_us >= since_us))
            and (until_us is None or record.at_us is None or record.at_us < until_us)
        )
        while batch := list(islice(wanted, 2048)):
            reading.tally.add(batch)
            reading.events += reading.translator.feed(batch)
    reading.events += reading.translator.finish()
    return reading


def _records(file: BinaryIO, reader: RecordReader) -> Iterator[LogRecord]:
    while chunk := file.read(_CHUNK):
        yield from reader.feed(chunk)
    yield from reader.finish()


def _in_order(sources: Sequence[Iterator[LogRecord]]) -> Iterator[LogRecord]:
    """Records of several sources by time; within a source their order stays."""
    return (record for _, record in heapq.merge(*map(_timed, sources), key=lambda pair: pair[0]))


def _timed(records: Iterator[LogRecord]) -> Iterator[tuple[int, LogRecord]]:
    latest = 0
    for record in records:
        latest = max(latest, record.at_us or 0)
        yield latest, record


def _engine_start(files: Sequence[BinaryIO]) -> int | None:
    """When the engine started, by the file that tells: another may have only lines that count from there."""
    for file in files:
        head = file.read(_LOOK)
        file.seek(0)
        if _STARTS in head:
            reader = RecordReader()
            reader.feed(head)
            if reader.parser.engine_us is not None:
                return reader.parser.engine_us
    return None


def _stamped(file: BinaryIO) -> bool:
    """Whether any of a file's first lines has a time of its own."""
    reader = RecordReader()
    head = reader.feed(file.read(_CHUNK))
    file.seek(0)
    return any(record.at_us is not None for record in head)
