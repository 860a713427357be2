"""The built-in workload, hosted: circuit, key, engine, clients and log, in the order in which they can be shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.feeds.hosted import Session, Starter
from prover.cancel import CancelToken
from prover.pipeline.interfaces import EngineView, Progress
from prover.pipeline.knobs import KnobSet, available_cores

if TYPE_CHECKING:
    from console.storage import Storage
    from prover.pipeline.engine import Engine
    from prover.pipeline.feeder import Feeder
    from prover.pipeline.journal_watch import JournalWatch
    from prover.pipeline.log import LogFile, LogWriter

CLIENTS = 2
PARTITIONS = 8


@dataclass(frozen=True, slots=True)
class BuiltinWorkload:
    """Which circuit, how many partitions a job, how many jobs in flight."""

    circuit: str | None = None
    """None = the device's default."""
    partitions: int = PARTITIONS
    clients: int = CLIENTS

    @property
    def subject(self) -> str:
        """In words."""
        return f"built-in {self.circuit or 'circuit'}, {self.partitions} partitions"


class HostedSession:
    """``Session``: the engine, its feeder, its journal, its log."""

    def __init__(
        self, engine: Engine, feeder: Feeder, writer: LogWriter | None, watch: JournalWatch | None = None
    ) -> None:
        self._engine = engine
        self._feeder = feeder
        self._writer = writer
        self._watch = watch

    @property
    def engine(self) -> EngineView:
        """The engine."""
        return self._engine

    @property
    def trouble(self) -> str | None:
        """What the feeder gave up on, or why no journal or log is written."""
        return (
            self._feeder.trouble
            or (self._watch.problem if self._watch is not None else None)
            or (self._writer.trouble if self._writer is not None else None)
        )

    @property
    def idle(self) -> bool:
        """Clients go on by themselves."""
        return False

    def stop(self, *, drain: bool = False) -> None:
        """Submit no more, cancel what runs (or let it end), write the last lines. A journal's next session goes on with
        what was cancelled.
        """
        self._feeder.stop()
        self._engine.stop(None if drain else 0.0)
        if self._watch is not None:
            self._watch.stop()
        if self._writer is not None:
            self._writer.stop()

    def hurry(self) -> None:
        """Cancel what a drain waits for."""
        self._engine.hurry()


def starter(
    workload: BuiltinWorkload,
    knobs: KnobSet,
    log: LogFile | None,
    device: str = "auto",
    storage: Storage | None = None,
) -> Starter:
    """What starts the built-in workload on the devices that ``device`` names, with the journal of ``storage``. NumPy,
    CuPy, SQLite and the native library are loaded by it, not before.
    """

    def start(progress: Progress, cancel: CancelToken) -> Session:
        progress("loading the prover", None)
        from prover.circuits.builtin import builtin, default_for
        from prover.device import open_devices
        from prover.device.host import HostDevice
        from prover.groth16.workload import CircuitWorkload
        from prover.pipeline.engine import Engine
        from prover.pipeline.feeder import Feeder
        from prover.pipeline.journal_watch import JournalWatch
        from prover.pipeline.log import LogWriter
        from prover.pipeline.submitters import SampleJobs, sample_origin

        named = None if workload.circuit is None else builtin(workload.circuit)
        opened = open_devices(device)
        definition = named or builtin(default_for(opened.devices[0].capability))
        for each in opened.devices:
            each.prepare(definition.curve, progress=progress)
        circuit = CircuitWorkload.open(
            definition, threads=available_cores(), progress=progress, cancel=cancel, device=opened.devices[0]
        )
        circuit.name = replace(workload, circuit=definition.name).subject
        journal = storage.open() if storage is not None else None
        engine = Engine(
            circuit,
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
        watch = JournalWatch(engine, journal, [SampleJobs(circuit)]) if journal is not None else None
        if watch is not None:
            watch.start()
        feeder = Feeder(
            engine,
            lambda job: circuit.sample_inputs(job, workload.partitions),
            workload.partitions,
            clients=workload.clients,
            origin=lambda job: sample_origin(circuit.circuit, job),
        )
        feeder.start()
        return HostedSession(engine, feeder, writer, watch)

    return start
