"""A throughput sweep: for each number of clients so many jobs, in a closed loop, measured by the timeline.

Every client submits its next job when its last one ended. Warm-up jobs come before, are waited for, and are in no
figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from prover.cancel import Cancelled, CancelToken
from prover.errors import AnswerIsNo
from prover.figures import PhaseStatistics
from prover.model import Phase
from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder, Inputs
from prover.pipeline.interfaces import JobResult
from prover.resources import peak_rss_bytes, reset_peak_rss
from prover.timeline import RunFigures, Timeline

Tell = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Level:
    """One number of clients, measured."""

    concurrency: int
    run: RunFigures
    phases: dict[Phase, PhaseStatistics]
    gpu_phases: dict[Phase, PhaseStatistics]
    """Seconds of kernels in each phase, by the device's events; empty without those."""
    verified: int
    """Proofs (jobs) whose partitions were all verified."""
    failure: str | None
    """Why the last proof that failed did."""
    peak_rss_bytes: int | None
    """The most memory that the process had during this level (since it started, where that cannot be reset)."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to measure."""

    inputs: Inputs
    partitions: int
    count: int
    clients: Sequence[int]
    warmup: int = 1
    fold_s: float = 0.2
    """How often events are taken in, on the engine's clock: before a ring of theirs is full."""
    forget_peak: Callable[[], object] = reset_peak_rss
    peak_bytes: Callable[[], int | None] = peak_rss_bytes
    """The most memory since ``forget_peak`` was called: the process's, or the modelled machine's."""

    def measure(self, engine: Engine, tell: Tell, cancel: CancelToken) -> Iterator[Level]:
        """Run the levels one after the other on a started engine.

        Raises:
            AnswerIsNo: if jobs fail one after another.
            Cancelled: if asked.
        """
        first = 0
        for clients in self.clients:
            words = f"{clients} client" + ("s" if clients > 1 else "")
            if self.warmup:
                tell(f"{words}: warming up", None)
                self._feed(engine, clients, self.warmup, first, None, None, cancel)
                first += self.warmup
            self.forget_peak()
            timeline = Timeline(window_s=None, pause_s=math.inf)
            timeline.last_seq = engine.event_log.last_seq
            verified, failure = self._feed(engine, clients, self.count, first, timeline, partial(tell, words), cancel)
            first += self.count
            timeline.fold(engine.events(timeline.last_seq))
            if timeline.missed:
                raise RuntimeError(f"{timeline.missed} events were lost: the figures would be wrong")
            runs = timeline.runs()
            if not runs:
                raise AnswerIsNo("no job came to its synthesis", failure or "")
            (run,) = runs
            phases, active = timeline.phase_statistics(), timeline.active_statistics()
            yield Level(clients, run, phases, active, verified, failure, self.peak_bytes())

    def _feed(
        self,
        engine: Engine,
        clients: int,
        count: int,
        first: int,
        timeline: Timeline | None,
        told: Callable[[float], None] | None,
        cancel: CancelToken,
    ) -> tuple[int, str | None]:
        """Run ``count`` jobs; how many were verified, and why one failed."""
        verified: list[bool] = []

        def ended(number: int, result: JobResult | None) -> None:
            if result is not None:
                verified.append(result.verified)

        feeder = Feeder(engine, self.inputs, self.partitions, clients, count, first, ended, engine.clock)
        feeder.start()
        try:
            while not feeder.wait(self.fold_s):
                if cancel.cancelled:
                    raise Cancelled
                if timeline is not None:
                    timeline.fold(engine.events(timeline.last_seq))
                if told is not None:
                    told((feeder.done + feeder.failed) / count)
        finally:
            feeder.stop()
        if feeder.trouble is not None:
            raise AnswerIsNo("the sweep was given up", feeder.trouble)
        return sum(verified), feeder.failure
