"""Proofs of a worker outside of the daemon: bellperson tells how long synthesis and prove took, and names no job.

A job is made up for each synthesis (``bellperson-1`` and so on). A prove belongs to the synthesis that ended when it
began; if that does not tell, to the only one that is open; otherwise it stays unjoined.
"""

from __future__ import annotations

import re

from console.feeds.logs.book import JobBook, LiveJob
from console.feeds.logs.record import LogRecord
from prover.model import EventKind, Phase

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,12})?)(s|ms|µs|us|ns)")
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "µs": 1.0, "us": 1.0, "ns": 1e-3}
_SAME_US = 100_000
_MOST_OPEN = 64


class WorkerProofs:
    """Makes jobs of bellperson's lines."""

    def __init__(self, book: JobBook) -> None:
        self.book = book
        self.unjoined = 0
        """Proves whose synthesis could not be told."""
        self._count = 0
        self._open: list[tuple[LiveJob, int]] = []

    def line(self, record: LogRecord, at_us: int) -> None:
        """A worker's line."""
        name, _, told = record.message.partition(": ")
        if not told or "bellperson" not in record.target:
            return
        spent = _DURATION.fullmatch(told)
        if spent is None:
            return
        spent_us = round(float(spent[1]) * _MICROSECONDS[spent[2]])
        if name == "synthesis time":
            self._synthesised(at_us, spent_us)
        elif name == "prover time":
            self._proved(at_us, spent_us)

    def _synthesised(self, at_us: int, spent_us: int) -> None:
        self._count += 1
        job = self.book.submit(f"bellperson-{self._count}", at_us - spent_us)
        slot = job.slot(None)
        self.book.tell(EventKind.SPAN, at_us, job, slot, Phase.SYNTHESIS, at_us - spent_us)
        slot.synthesised, slot.queued_us = True, at_us
        self._open.append((job, at_us))
        if len(self._open) > _MOST_OPEN:
            lost, _ = self._open.pop(0)
            self.book.end(lost, EventKind.JOB_CANCELLED, at_us, error="its prove was never told")

    def _proved(self, at_us: int, spent_us: int) -> None:
        began = at_us - spent_us
        near = [entry for entry in self._open if abs(entry[1] - began) <= _SAME_US]
        if len(near) != 1 and len(self._open) != 1:
            self.unjoined += 1
            return
        entry = near[0] if len(near) == 1 else self._open[0]
        self._open.remove(entry)
        job, slot = entry[0], entry[0].slot(None)
        slot.device, slot.picked_us, slot.left_us, slot.done = 0, began, at_us, True
        self.book.tell(EventKind.SPAN, began, job, slot, Phase.QUEUED, min(entry[1], began))
        self.book.tell(EventKind.SPAN, at_us, job, slot, Phase.GPU, began)
        self.book.tell(EventKind.PARTITION_DONE, at_us, job, slot)
        self.book.end(job, EventKind.JOB_DONE, at_us, derived=True)
