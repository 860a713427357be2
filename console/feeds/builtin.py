"""The built-in workload, hosted: circuit, key, engine, clients and log, in the order in which they can be shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.feeds.hosted import Session, Starter
from console.feeds.hosting import Hosting, engine_on, host
from prover.cancel import CancelToken
from prover.pipeline.interfaces import EngineView, Progress
from prover.pipeline.knobs import KnobSet, available_cores

if TYPE_CHECKING:
    from console.storage import Storage
    from prover.pipeline.feeder import Feeder
    from prover.pipeline.log import LogFile

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
    """``Session``: the engine with its journal and log, and its feeder."""

    def __init__(self, hosting: Hosting, feeder: Feeder) -> None:
        self._hosting = hosting
        self._feeder = feeder

    @property
    def engine(self) -> EngineView:
        """The engine."""
        return self._hosting.engine

    @property
    def trouble(self) -> str | None:
        """What the feeder gave up on, or why no journal or log is written."""
        return self._feeder.trouble or self._hosting.trouble

    @property
    def idle(self) -> bool:
        """Clients go on by themselves."""
        return False

    def stop(self, *, drain: bool = False) -> None:
        """Submit no more, cancel what runs (or let it end), write the last lines. A journal's next session goes on with
        what was cancelled.
        """
        self._feeder.stop()
        self._hosting.stop_engine(drain=drain)
        self._hosting.close()

    def hurry(self) -> None:
        """Cancel what a drain waits for."""
        self._hosting.engine.hurry()


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
        from prover.groth16.workload import CircuitWorkload
        from prover.pipeline.feeder import Feeder
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
        hosting = host(engine_on(opened, circuit, knobs, journal), log, journal)
        hosting.resume([SampleJobs(circuit)])
        feeder = Feeder(
            hosting.engine,
            lambda job: circuit.sample_inputs(job, workload.partitions),
            workload.partitions,
            clients=workload.clients,
            origin=lambda job: sample_origin(circuit.circuit, job),
        )
        feeder.start()
        return HostedSession(hosting, feeder)

    return start
