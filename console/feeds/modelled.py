"""A modelled box, hosted: the engine over a model on a paced clock, its clients, and a log that says SIMULATED."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from console.feeds.builtin import HostedSession
from console.feeds.hosted import Session, Starter
from console.feeds.hosting import Hosting, host
from prover.cancel import CancelToken
from prover.errors import InputError
from prover.model import DeviceSample
from prover.pipeline.clock import PacedClock
from prover.pipeline.interfaces import Progress
from prover.pipeline.knobs import REGISTRY, KnobSet
from prover.simulation.box import ModelledEngine
from prover.simulation.model import Model
from prover.simulation.presets import DEFAULT, preset

if TYPE_CHECKING:
    from console.storage import Storage
    from prover.pipeline.feeder import Feeder
    from prover.pipeline.log import LogFile


def choose_model(name: str | None, path: str | None, device: str = "auto", partitions: int | None = None) -> Model:
    """The model that ``--preset`` or ``--model`` names. Raises ``InputError``."""
    if device != "auto":
        raise InputError("a model has its own device", f"--device {device}", "leave it out")
    if name is not None and path is not None:
        raise InputError("one model at a time", "--preset and --model", "leave one of them out")
    if path is not None:
        from prover.simulation.model_file import read_model

        model = read_model(Path(path), REGISTRY)
    else:
        model = preset(name or DEFAULT, REGISTRY)
    return model if partitions is None else replace(model, partitions=partitions)


class ModelledSession(HostedSession):
    """``Session``, whose time ends with it."""

    def __init__(self, hosting: Hosting, feeder: Feeder, clock: PacedClock) -> None:
        super().__init__(hosting, feeder)
        self._clock = clock

    def stop(self, *, drain: bool = False) -> None:
        """Submit no more, cancel what runs (nothing of a model is worth waiting for), write the last lines, stop the
        clock.
        """
        super().stop(drain=False)
        self._clock.close()


class ModelledMachine:
    """``Sampler`` of the modelled machine: its memory, looked at whenever the console asks."""

    problem: str | None = None
    _KEPT = 4096

    def __init__(self, clock: PacedClock, memory: Callable[[], tuple[int, int] | None]) -> None:
        """``memory`` tells bytes in use and in all, or None before there is a machine."""
        self._clock = clock
        self._memory = memory
        self._samples: deque[DeviceSample] = deque(maxlen=self._KEPT)

    def start(self) -> None:
        """Nothing to start."""

    def stop(self, timeout_s: float) -> None:
        """Nothing to stop."""

    def samples(self, since: float) -> tuple[DeviceSample, ...]:
        """Samples after ``since``, oldest first, one of now among them."""
        memory, now = self._memory(), self._clock()
        if memory is not None and (not self._samples or now > self._samples[-1].at):
            used, total = memory
            self._samples.append(DeviceSample(now, 0, "model", memory_used=used, memory_total=total or None))
        return tuple(
            sample for sample in tuple(self._samples) if sample.at > since
        )  # a recorder asks beside the screen


def starter(
    model: Model,
    knobs: KnobSet,
    clients: int,
    clock: PacedClock,
    log: LogFile | None,
    wall_offset_s: float,
    storage: Storage | None = None,
) -> Starter:
    """What starts a modelled box with so many clients and the journal of ``storage``.

    ``wall_offset_s`` is the clock's 0 in seconds since 1970.
    """

    def start(progress: Progress, cancel: CancelToken) -> Session:
        from prover.pipeline.feeder import Feeder
        from prover.simulation.jobs import ModelledJobs, modelled_origin

        journal = storage.open() if storage is not None else None
        engine = ModelledEngine(model, knobs, clock, journal)
        hosting = host(engine, log, journal, wall_offset_s, simulated=True)
        hosting.resume([ModelledJobs(model)])
        feeder = Feeder(
            engine,
            lambda job: job,
            model.partitions,
            clients,
            clock=clock,
            origin=lambda job: modelled_origin(model, job),
        )
        feeder.start()
        return ModelledSession(hosting, feeder, clock)

    return start
