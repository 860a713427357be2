"""A user's circuit, hosted: key, generator, engine, spool, journal and log, in the order in which they can be shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from console.feeds.hosted import Session, Starter
from console.feeds.hosting import Hosting, engine_on, host
from prover.cancel import CancelToken
from prover.errors import InputError
from prover.formats.errors import printable
from prover.pipeline.interfaces import EngineView, Progress
from prover.pipeline.knobs import KnobSet, available_cores

if TYPE_CHECKING:
    from console.storage import Storage
    from prover.groth16.workload import WitnessFiles
    from prover.pipeline.log import LogFile
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
    """``Session``: the engine with its journal and log, and its spool."""

    def __init__(self, hosting: Hosting, spool: Spool | None) -> None:
        self._hosting = hosting
        self._spool = spool

    @property
    def engine(self) -> EngineView:
        """The engine."""
        return self._hosting.engine

    @property
    def trouble(self) -> str | None:
        """Why nothing is taken, or why no journal or log is written."""
        return (self._spool.trouble if self._spool is not None else NOTHING) or self._hosting.trouble

    @property
    def idle(self) -> bool:
        """Whether nothing lies in the spool that is still to be proved."""
        return self._spool is None or self._spool.idle

    def stop(self, *, drain: bool = False) -> None:
        """Take no more, cancel what runs (or let it end), hand over what was proved, write the last lines."""
        if self._spool is not None:
            self._spool.stop_taking()
        self._hosting.stop_engine(drain=drain)
        if self._spool is not None:
            self._spool.stop()
        self._hosting.close()

    def hurry(self) -> None:
        """Cancel what a drain waits for."""
        self._hosting.engine.hurry()


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
        from prover.pipeline import spool_files
        from prover.pipeline.spool import Spool

        workload = circuit.open(progress, cancel)
        opened = open_devices(device)
        for each in opened.devices:
            each.prepare(workload.key.curve, progress=progress)
        journal = storage.open() if storage is not None and circuit.folder is not None else None
        hosting = host(engine_on(opened, workload, knobs, journal), log, journal)
        if circuit.folder is None:
            hosting.engine.tell_spool(NOTHING, trouble=True)
            return SpoolSession(hosting, None)
        kind = spool_files.WTNS if circuit.wasm is None else spool_files.JSON
        engine = hosting.engine
        spool = Spool(engine, workload, circuit.folder, kind, journal=journal, tell=engine.tell_spool)
        hosting.resume([spool])
        spool.start()
        return SpoolSession(hosting, spool)

    return start


__all__ = ["NOTHING", "SpoolSession", "UserCircuit", "starter"]
