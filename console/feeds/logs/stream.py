"""A log as a stream: bytes in, records and events out, and what was wrong with it in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from console.feeds.logs.logical import LogicalLines
from console.feeds.logs.parse import Parser
from console.feeds.logs.physical import Line, PhysicalLines
from console.feeds.logs.record import Form, LogRecord
from console.feeds.logs.translate import Translator
from prover.model import Event

_UNANCHORED = 100_000
"""``TIMELINE`` records that wait for a first stamp, which tells when their engine started."""
_NAMED = 5


class Batch(NamedTuple):
    """What a stretch of a log gave."""

    records: list[LogRecord]
    events: list[Event]


class RecordReader:
    """Bytes of one source to its records."""

    def __init__(self, offset: int = 0) -> None:
        """``offset``: where in its source the stream begins."""
        self.physical = PhysicalLines(offset)
        self.logical = LogicalLines()
        self.parser = Parser()
        self.physical_lines = 0
        self._unanchored: list[LogRecord] | None = []

    def feed(self, chunk: bytes) -> list[LogRecord]:
        """The records that a chunk completes; the last line is held back, as it may go on."""
        return self._parse(self.physical.feed(chunk))

    def flush(self) -> list[LogRecord]:
        """The records that were held back for lines that may have gone on: nothing more came for a while."""
        return self._anchored(self.parser.parse(self.logical.finish()))

    def finish(self) -> list[LogRecord]:
        """The last records: the source ended."""
        records = self._parse(self.physical.finish()) + self.flush()
        waiting, self._unanchored = self._unanchored, None
        return _anchor(waiting, 0) + records if waiting else records

    def _parse(self, lines: list[Line]) -> list[LogRecord]:
        self.physical_lines += len(lines)
        return self._anchored(self.parser.parse(self.logical.feed(lines)))

    def _anchored(self, records: list[LogRecord]) -> list[LogRecord]:
        """Give ``TIMELINE`` records before the first stamp their times, once that is there."""
        waiting = self._unanchored
        if waiting is None or not records:
            return records
        found = next((nth for nth, record in enumerate(records) if record.at_us is not None), None)
        if found is None and len(waiting) < _UNANCHORED:
            waiting += records
            return []
        self._unanchored = None
        waiting += records[: found or 0]
        offsets = [record.get("offset_ms") for record in waiting if record.form is Form.TIMELINE]
        latest = offsets[-1] if offsets else 0
        at_us = records[found].at_us if found is not None else None
        engine_us = 0 if at_us is None else at_us - (latest if isinstance(latest, int) else 0) * 1000
        if offsets and at_us is not None and self.parser.engine_us is None:
            self.parser.engine_us, self.parser.anchored_loosely = engine_us, True
        return _anchor(waiting, engine_us) + records[found or 0 :]


def _anchor(records: Iterable[LogRecord], engine_us: int) -> list[LogRecord]:
    anchored = list(records)
    for record in anchored:
        offset = record.get("offset_ms") if record.form is Form.TIMELINE else None
        if isinstance(offset, int):
            record.at_us = engine_us + offset * 1000
    return anchored


class LogStream:
    """One daemon's log."""

    def __init__(self, epoch_us: int = 0, offset: int = 0) -> None:
        """``epoch_us``: the instant (since 1970) that events count their seconds from; 0 gives Unix times."""
        self.reader = RecordReader(offset)
        self.translator = Translator(epoch_us)

    def feed(self, chunk: bytes) -> Batch:
        """What a chunk completes."""
        records = self.reader.feed(chunk)
        return Batch(records, self.translator.feed(records))

    def flush(self) -> Batch:
        """What was held back for lines that may have gone on; for when nothing more comes for a while."""
        records = self.reader.flush()
        return Batch(records, self.translator.feed(records))

    def finish(self) -> Batch:
        """What is left when the source has ended."""
        records = self.reader.finish()
        return Batch(records, self.translator.feed(records) + self.translator.finish())

    def warnings(self) -> list[str]:
        """What was wrong with the input, one line each."""
        return [*reader_warnings([self.reader]), *translator_warnings(self.translator)]


def reader_warnings(readers: list[RecordReader]) -> list[str]:
    """What was wrong with the lines of sources."""
    said = []
    joined = sum(reader.logical.joined for reader in readers)
    if joined:
        said.append(f"torn lines joined: {joined}")
    lost = sum(reader.logical.lost for reader in readers)
    if lost:
        said.append(f"torn lines whose rest never came: {lost}")
    cut = sum(reader.physical.cut for reader in readers)
    if cut:
        said.append(f"lines longer than 64 KiB, cut there: {cut}")
    texts = sum(reader.parser.texts for reader in readers)
    if texts:
        said.append(f"lines not understood: {texts}")
    steps = [step for reader in readers for step in reader.parser.offset_steps]
    if steps:
        said.append(
            f"clock steps between timeline lines and stamps: {len(steps)}, the largest {_largest(steps):+.3f} s"
        )
    if any(reader.parser.anchored_loosely for reader in readers):
        said.append("the engine's start is not in the log: times of timeline lines are estimates")
    return said


def translator_warnings(translator: Translator) -> list[str]:
    """What events could not be made of."""
    said, book, sections = [], translator.book, translator.sections
    if translator.clock_steps:
        steps = [step for _, step in translator.clock_steps]
        said.append(f"clock steps: {len(steps)}, the largest {_largest(steps):+.3f} s")
    if book.duplicates:
        said.append(f"ids of two jobs alive at once, their figures are mixed: {_some(book.duplicates)}")
    if book.adopted:
        said.append(f"jobs that were under way when the log began, their first line counts as arrival: {book.adopted}")
    if book.live:
        said.append(f"jobs that never ended: {_some(book.live)}")
    if translator.withheld:
        said.append(f"proofs that failed their self-check: {translator.withheld}")
    if translator.unjoined:
        what = _some(f"{message} ({count})" for message, count in translator.unjoined.items())
        said.append(f"lines that name no job and could not be joined to one: {what}")
    if translator.workers.unjoined:
        said.append(f"proves of a worker that could not be joined to a synthesis: {translator.workers.unjoined}")
    if sections.unplaced:
        said.append(f"ends of GPU work that could not be joined to a slot: {sections.unplaced}")
    owners = sections.owners
    if owners.unknown:
        said.append(f"lock ownerships that could not be told apart: {owners.unknown} of {owners.closed}")
    return said


def _largest(steps: list[float]) -> float:
    return max(steps, key=abs)


def _some(words: Iterable[str]) -> str:
    listed = list(words)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
