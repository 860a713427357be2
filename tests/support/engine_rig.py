"""An engine over the fake workload on virtual time, and what must hold of any engine once it is stopped."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from fake_workload import FakeMemory, FakeWorkload, fake_device, proof_of
from virtual_time import VirtualTime

from prover.cancel import CancelToken
from prover.memory_limits import MemoryLimits
from prover.model import Event, EventKind, JobState, KnobValue, Phase
from prover.pipeline.budget import Kind
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import Change, JobRequest, JobResult
from prover.pipeline.knobs import KnobSet
from prover.timeline import Timeline

DURATIONS = {
    "synthesize": 1.0,
    "setup": 0.1,
    "h2d": 0.1,
    "ntt": 0.4,
    "msm": 1.0,
    "d2h": 0.1,
    "finish": 0.05,
    "verify": 0.05,
}
BOUNDLESS = MemoryLimits(None, None, None, 0)
END_EVENTS = {
    EventKind.JOB_DONE: JobState.DONE,
    EventKind.JOB_FAILED: JobState.FAILED,
    EventKind.JOB_CANCELLED: JobState.CANCELLED,
}
NARROW = (Phase.SYNTHESIS, Phase.QUEUED, Phase.SETUP, Phase.H2D, Phase.LOCK_WAIT, Phase.NTT, Phase.MSM, Phase.D2H)
COARSE = (Phase.SYNTHESIS, Phase.QUEUED, Phase.LOCK_WAIT, Phase.SETUP, Phase.H2D, Phase.NTT, Phase.MSM, Phase.D2H)


class Rig:
    """The engine and everything around it."""

    def __init__(
        self,
        knobs: dict[str, KnobValue],
        durations: dict[str, float] | None,
        devices: int,
        spare: bool,
        memory: FakeMemory | None = None,
        limits: MemoryLimits = BOUNDLESS,
    ) -> None:
        self.time = VirtualTime(DURATIONS if durations is None else durations)
        self.workload = FakeWorkload(step=self._step, footprint=memory)
        self.faults: dict[tuple[str, Any, int], BaseException] = {}
        """What to raise, once, by (step, inputs, first partition of the slot)."""
        self.engine = Engine(
            self.workload,
            [fake_device(ordinal) for ordinal in range(devices)],
            KnobSet(knobs),
            clock=self.time,
            cores=4,
            spare=fake_device if spare else None,
            limits=limits,
        )
        if memory is not None:
            memory.counted = lambda: self.engine.snapshot().memory.used
        self.futures: dict[str, Future[JobResult]] = {}
        self.most_queued = 0

    def _step(self, step: str, inputs: Any, partitions: tuple[int, ...], cancel: CancelToken | None) -> None:
        self.time.step(step, inputs, partitions, cancel)
        fault = self.faults.pop((step, inputs, partitions[0]), None)
        if fault is not None:
            raise fault

    def submit(self, inputs: Any, partitions: int = 1) -> str:
        future = self.engine.submit(JobRequest(inputs, partitions, id=f"job-{inputs}"))
        self.futures[f"job-{inputs}"] = future
        return f"job-{inputs}"

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Let time pass, until all jobs have ended unless told otherwise."""
        self.time.run(until or (lambda: all(future.done() for future in self.futures.values())))

    def run_for(self, seconds: float) -> None:
        """Let this much time pass, or all there is to do."""
        end = self.time() + seconds
        self.run(lambda: self.time() >= end or all(future.done() for future in self.futures.values()))

    def set(self, name: str, value: KnobValue) -> None:
        assert self.engine.propose(Change(name, value)).accepted

    def result(self, job: str) -> JobResult:
        return self.futures[job].result(timeout=30)

    def error(self, job: str) -> str:
        error = self.futures[job].exception(timeout=30)
        assert error is not None
        return str(error)

    def events(self, *kinds: EventKind) -> list[Event]:
        return [event for event in self.engine.events(0) if not kinds or event.kind in kinds]

    def spans(self, *phases: Phase, good: bool = True) -> list[Event]:
        spans = self.events(EventKind.SPAN)
        return [s for s in spans if (not phases or s.phase in phases) and (s.fields.get("ok") is not False) >= good]

    def timeline(self) -> Timeline:
        timeline = Timeline(window_s=None)
        timeline.fold(self.engine.events(0))
        return timeline

    def knob(self, name: str) -> Any:
        return next(view for view in self.engine.snapshot().knobs if view.name == name)

    def check_delivered(self, job: str, inputs: Any, partitions: int) -> None:
        """The right proofs, in order."""
        assert self.result(job).proofs == tuple(proof_of(inputs, index) for index in range(partitions))

    def check_stopped(self) -> None:
        """Nothing is left of a stopped engine, and its events tell a whole story."""
        engine = self.engine
        assert all(future.done() for future in self.futures.values())
        line = engine._line
        assert (line.alive, line.under_way, len(line.finishing), line.channel.queued, line.channel.held) == (
            0,
            0,
            0,
            0,
            0,
        )
        assert (engine._board.jobs, engine._board.asked, engine._board.queued) == ((), 0, 0)
        assert all(record.lock.holder is None and not record.phases for record in engine._board.devices.values())
        budget, memory = line.admission._budget, self.workload.footprint
        assert (budget.view.holders, budget.view.waiting, dict(budget.view.by_kind)[Kind.WORKING]) == (0, 0, 0)
        assert not engine._board.memory_waits
        assert not self.workload.kernel_clash
        self.workload.assert_all_released()
        assert memory is None or (memory.held, memory.uncovered) == (0, 0)
        self.check_events()

    def check_events(self) -> None:
        """Numbers without holes; every phase that began ended, once; every job that was submitted ended, once."""
        events = self.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        open_phases: dict[tuple[str | None, tuple[int, ...]], tuple[Phase | None, float]] = {}
        for event in events:
            key = (event.job, event.partitions)
            if event.kind is EventKind.PHASE_BEGAN:
                assert key not in open_phases, event
                open_phases[key] = (event.phase, event.at)
            elif event.kind is EventKind.SPAN:
                assert open_phases.pop(key) == (event.phase, event.start), event
                assert event.start is not None and event.at >= event.start
        assert not open_phases
        submitted = Counter(event.job for event in events if event.kind is EventKind.JOB_SUBMITTED)
        ended = Counter(event.job for event in events if event.kind in END_EVENTS)
        assert submitted == ended and set(submitted.values()) <= {1}


@contextmanager
def rig(
    knobs: dict[str, KnobValue] | None = None,
    durations: dict[str, float] | None = None,
    devices: int = 1,
    start: bool = True,
    spare: bool = False,
    memory: FakeMemory | None = None,
    limits: MemoryLimits = BOUNDLESS,
) -> Iterator[Rig]:
    """A started engine that is stopped and checked at the end."""
    before = set(threading.enumerate())
    made = Rig(knobs or {}, durations, devices, spare, memory, limits)
    if start:
        made.engine.start()
    try:
        yield made
    except BaseException:
        _stop(made)
        raise
    _stop(made)
    made.check_stopped()
    assert set(threading.enumerate()) <= before


def _stop(made: Rig) -> None:
    """Stop; finalizers that sleep end in their time."""
    stopper = threading.Thread(target=made.engine.stop)
    stopper.start()
    made.time.join(stopper)
