"""What hosted sessions have in common: an engine on the machine's devices, with its log and its journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prover.pipeline.interfaces import Workload
from prover.pipeline.knobs import KnobSet

if TYPE_CHECKING:
    from prover.device import OpenedDevices
    from prover.pipeline.engine import Engine
    from prover.pipeline.journal import Journal
    from prover.pipeline.journal_watch import JournalWatch
    from prover.pipeline.log import LogFile, LogWriter
    from prover.pipeline.resume import Submitter


class Hosting:
    """A started engine, the writer of its log, and who watches its journal; each of the two may be missing."""

    def __init__(self, engine: Engine, writer: LogWriter | None, journal: Journal | None) -> None:
        self.engine = engine
        self.journal = journal
        self._writer = writer
        self._watch: JournalWatch | None = None

    def resume(self, submitters: Sequence[Submitter]) -> None:
        """Go on with what an earlier session left in the journal, now or when it can be written."""
        if self.journal is not None:
            from prover.pipeline.journal_watch import JournalWatch

            self._watch = JournalWatch(self.engine, self.journal, submitters)
            self._watch.start()

    @property
    def trouble(self) -> str | None:
        """Why no journal or log is written, in one line."""
        return (self._watch.problem if self._watch is not None else None) or (
            self._writer.trouble if self._writer is not None else None
        )

    def stop_engine(self, *, drain: bool) -> None:
        """Cancel what runs, or let it end."""
        self.engine.stop(None if drain else 0.0)

    def close(self) -> None:
        """Write the last lines, after the engine has stopped."""
        if self._watch is not None:
            self._watch.stop()
        if self._writer is not None:
            self._writer.stop()


def engine_on(opened: OpenedDevices, workload: Workload, knobs: KnobSet, journal: Journal | None) -> Engine:
    """An engine on devices that are prepared; where all of them are lost the host may take over."""
    from prover.device.host import HostDevice
    from prover.pipeline.engine import Engine

    return Engine(
        workload,
        opened.devices,
        knobs,
        spare=lambda ordinal: HostDevice(ordinal=ordinal),
        note=opened.note,
        journal=journal,
    )


def host(
    engine: Engine,
    log: LogFile | None,
    journal: Journal | None,
    wall_offset_s: float | None = None,
    *,
    simulated: bool = False,
) -> Hosting:
    """Start an engine and its log. ``wall_offset_s`` is its clock's 0 in seconds since 1970, of real time by default;
    ``simulated``: every line says so.
    """
    from prover.pipeline.log import LogWriter

    writer: LogWriter | None = None
    if log is not None:
        offset = time.time() - time.monotonic() if wall_offset_s is None else wall_offset_s
        writer = LogWriter(engine.event_log, log, lambda: engine.knobs.text("log_level"), offset, simulated)
        writer.start()
    engine.start()
    return Hosting(engine, writer, journal)


__all__ = ["Hosting", "engine_on", "host"]
