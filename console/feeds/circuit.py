"""A user's circuit, hosted: key, generator, engine, spool, journal and log, in the order in which they can be shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from console.feeds.hosted import Session, Starter
from prover.cancel import CancelToken
from prover.errors import InputError
from prover.formats.errors import printable
from prover.pipeline.interfaces import EngineView, Progress
from prover.pipeline.knobs import KnobSet, available_cores

if TYPE_CHECKING:
    from console.storage import Storage
    from prover.groth16.workload import WitnessFiles
    from prover.pipeline.engine import Engine
    from prover.pipeline.journal_watch import JournalWatch
    from prover.pipeline.log import LogFile, LogWriter
    from prover.pipeline.spool import Spool

NOTHING = "nothing to prove: give --inputs DIR"


@dataclass(frozen=True, slots=True)
class UserCircuit:
    """A key, where its inputs come from, and what makes witnesses of them."""

    zkey: Path
    folder: Path | None = None
    """The spool; None: nothing is proved."""
    wasm: Path | None = None
    """circom's generator; None: the inputs are witnesses."""

    @property
    def subject(self) -> str:
        """In words."""
        source = NOTHING if self.folder is None else f"inputs from {printable(str(self.folder), 60)}"
        return f"{printable(self.zkey.name, 40)}, {source}"

    def check(self) -> None:
        """Refuse what is not there. Raises ``InputError``."""
        for option, path in (("--circuit", self.zkey), ("--wasm", self.wasm)):
            if path is not None and not path.is_file():
                raise InputError("no such file", f"{option} {printable(str(path))}", "check the path")
        if self.folder is not None and not self.folder.is_dir():
            raise InputError("no such folder", f"--inputs {printable(str(self.folder))}", "make it, or check the path")

    def open(self, progress: Progress, cancel: CancelToken) -> WitnessFiles:
        """The workload. Raises as ``WitnessFiles.open`` and ``WasmInputs.open_with``."""
        threads = available_cores()
        if self.wasm is None:
            from prover.groth16.workload import WitnessFiles

            workload = WitnessFiles.open(self.zkey, threads=threads, progress=progress, cancel=cancel)
        else:
            from prover.groth16.wasm_inputs import WasmInputs

            workload = WasmInputs.open_with(self.zkey, self.wasm, threads=threads, progress=progress, cancel=cancel)
        workload.name = self.subject
        return workload


class SpoolSession:
    """``Session``: the engine, its spool, its journal, its log."""

    def __init__(
        self, engine: Engine, spool: Spool | None, writer: LogWriter | None, watch: JournalWatch | None
    ) -> None:
        self._engine = engine
        self._spool = spool
        self._writer = writer
        self._watch = watch

    @property
    def engine(self) -> EngineView:
        """The engine."""
        return self._engine

    @property
    def trouble(self) -> str | None:
        """Why nothing is taken, or why no journal or log is written."""
        return (
            (self._spool.trouble if self._spool is not None else NOTHING)
            or (self._watch.problem if self._watch is not None else None)
            or (self._writer.trouble if self._writer is not None else None)
        )

    @property
    def idle(self) -> bool:
        """Whether nothing lies in the spool that is still to be proved."""
        return self._spool is None or self._spool.idle

    def stop(self, *, drain: bool = False) -> None:
        """Take no more, cancel what runs (or let it end), hand over what was proved, write the last lines."""
        if self._spool is not None:
            self._spool.stop_taking()
        self._engine.stop(None if drain else 0.0)
        if self._spool is not None:
            self._spool.stop()
        if self._watch is not None:
            self._watch.stop()
        if self._writer is not None:
            self._writer.stop()

    def hurry(self) -> None:
        """Cancel what a drain waits for."""
        self._engine.hurry()


def starter(
    circuit: UserCircuit,
    knobs: KnobSet,
    log: LogFile | None,
    device: str = "auto",
    storage: Storage | None = None,
) -> Starter:
    """What starts a user's circuit on the devices that ``device`` names, with the journal of ``storage``. NumPy, CuPy,
    SQLite, wasmtime and the native library are loaded by it, not before.
    """

    def start(progress: Progress, cancel: CancelToken) -> Session:
        progress("loading the prover", None)
        from prover.device import open_devices
        from prover.device.host import HostDevice
        from prover.pipeline import spool_files
        from prover.pipeline.engine import Engine
        from prover.pipeline.journal_watch import JournalWatch
        from prover.pipeline.log import LogWriter
        from prover.pipeline.spool import Spool

        workload = circuit.open(progress, cancel)
        opened = open_devices(device)
        for each in opened.devices:
            each.prepare(workload.key.curve, progress=progress)
        journal = storage.open() if storage is not None and circuit.folder is not None else None
        engine = Engine(
            workload,
            opened.devices,
            knobs,
            spare=lambda ordinal: HostDevice(ordinal=ordinal),
            note=opened.note,
            journal=journal,
        )
        writer: LogWriter | None = None
        if log is not None:
            level: Callable[[], str] = lambda: engine.knobs.text("log_level")  # noqa: E731 - a reading, not a function
            writer = LogWriter(engine.event_log, log, level, time.time() - time.monotonic())
            writer.start()
        engine.start()
        spool: Spool | None = None
        watch: JournalWatch | None = None
        if circuit.folder is not None:
            kind = spool_files.WTNS if circuit.wasm is None else spool_files.JSON
            spool = Spool(engine, workload, circuit.folder, kind, journal=journal, tell=engine.tell_spool)
            if journal is not None:
                watch = JournalWatch(engine, journal, [spool])
                watch.start()
            spool.start()
        else:
            engine.tell_spool(NOTHING, trouble=True)
        return SpoolSession(engine, spool, writer, watch)

    return start


__all__ = ["NOTHING", "SpoolSession", "UserCircuit", "starter"]
