"""A modelled pipeline on a clock that only moves when told: what the console's tests and pictures look at.

It keeps the engine's rules (lookahead channel, device lock, hand-over points) with fixed lengths of work, and speaks
the engine's vocabulary: the same snapshots and events, the same receipts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from prover.model import (
    DEVICE_PHASES,
    Cause,
    Counters,
    DeviceState,
    DeviceView,
    Event,
    EventKind,
    JobState,
    JobView,
    KnobValue,
    KnobView,
    PartitionState,
    PartitionView,
    Phase,
    Snapshot,
    Span,
    StageView,
)
from prover.pipeline.interfaces import Change, Receipt
from prover.pipeline.knobs import REGISTRY, KnobError, KnobSet

STEP_S = 0.01
START_S = 1000.0


class FakeClock:
    """Seconds that move when ``advance`` is called."""

    def __init__(self, at: float = START_S) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


@dataclass
class Part:
    """A partition on its way."""

    job: FakeJob
    index: int
    state: PartitionState = PartitionState.PENDING
    spans: list[Span] = field(default_factory=list)
    began: float | None = None
    device: int | None = None
    view_cache: PartitionView | None = None

    def view(self) -> PartitionView:
        return PartitionView(self.index, self.state, tuple(self.spans), self.began, device=self.device)


@dataclass
class FakeJob:
    """A job on its way."""

    id: str
    submitted: float
    parts: list[Part] = field(default_factory=list)
    state: JobState = JobState.WAITING
    started: float | None = None
    ended: float | None = None

    def view(self) -> JobView:
        views = tuple(part.view() for part in self.parts)
        return JobView(self.id, "poseidon-merkle", self.state, self.submitted, self.started, self.ended, 1, views)


@dataclass(frozen=True)
class Pace:
    """Seconds of each piece of work."""

    synthesis: float = 1.9
    setup: float = 0.06
    h2d: float = 0.05
    ntt: float = 0.32
    msm: float = 0.9
    d2h: float = 0.03
    finalizing: float = 0.12


class FakeEngine:
    """``EngineView`` over the model."""

    def __init__(
        self,
        clock: FakeClock,
        *,
        clients: int = 2,
        partitions: int = 8,
        pace: Pace = Pace(),
        knobs: dict[str, KnobValue] | None = None,
    ) -> None:
        self.clock = clock
        self.clients = clients
        self.partitions = partitions
        self.pace = pace
        self.started = clock.at
        self.running = False
        self.failure: BaseException | None = None
        self.trouble: str | None = None
        self.knobs = KnobSet(knobs or {})
        self.in_force: dict[str, KnobValue] = dict(self.knobs)
        self.changed: dict[str, tuple[float, float | None]] = {}
        self.history: list[tuple[str, KnobValue]] = []
        self.jobs: deque[FakeJob] = deque()
        self.ended: deque[FakeJob] = deque(maxlen=3)
        self.todo: deque[Part] = deque()
        self.queue: deque[Part] = deque()
        self.log: list[Event] = []
        self.lock: str | None = None
        self.kernel: str | None = None
        self.moving: set[str] = set()
        self.busy: dict[str, set[str]] = {"synthesis": set(), "gpu": set(), "finalizing": set()}
        self.blocked: set[str] = set()
        self.counters = Counters()
        self.state: tuple[DeviceState, Cause | None] = (DeviceState.IDLE, Cause.REQUESTS)
        self.since = clock.at
        self._number = 140
        self._workers: list[Iterator[None]] = []
        self._extra: list[Iterator[None]] = []
        self._emit(EventKind.ENGINE_STARTED, fields={"paused": False})
        for index in range(8):
            self._workers.append(self._synthesizer(index))
            self._workers.append(self._gpu_worker(index))

    # -- the model --

    def advance(self, seconds: float) -> None:
        """Let the model run."""
        for _ in range(round(seconds / STEP_S)):
            self.clock.at += STEP_S
            self._feed()
            for worker in self._workers:
                next(worker)
            self._extra = [worker for worker in self._extra if next(worker, 0) is None]
            self._land()
            self._watch_device()

    def _emit(self, kind: EventKind, **more: object) -> None:
        self.log.append(Event(len(self.log) + 1, self.clock.at, kind, **more))  # type: ignore[arg-type]

    def _knob(self, name: str) -> int:
        return int(self.in_force[name])

    def _feed(self) -> None:
        live = [job for job in self.jobs if job.state in (JobState.WAITING, JobState.RUNNING)]
        while len(live) < self.clients:
            self._number += 1
            job = FakeJob(f"{self._number:04d}", self.clock.at)
            job.parts = [Part(job, index) for index in range(self.partitions)]
            self.jobs.append(job)
            self.todo.extend(job.parts)
            live.append(job)
            self._emit(EventKind.JOB_SUBMITTED, job=job.id, fields={"partitions": self.partitions})

    def _device_of(self, part: Part, phase: Phase) -> int | None:
        return part.device if phase in DEVICE_PHASES else None

    def _begin(self, part: Part, phase: Phase, worker: str) -> None:
        part.state, part.began = PartitionState(phase.value), self.clock.at
        self._emit(
            EventKind.PHASE_BEGAN,
            job=part.job.id,
            partitions=(part.index,),
            phase=phase,
            worker=worker,
            device=self._device_of(part, phase),
        )

    def _end(self, part: Part, phase: Phase, worker: str) -> None:
        assert part.began is not None
        device = self._device_of(part, phase)
        span = Span(phase, part.began, self.clock.at, part.job.id, (part.index,), device, worker)
        part.spans.append(span)
        self._emit(
            EventKind.SPAN,
            job=part.job.id,
            partitions=(part.index,),
            phase=phase,
            start=part.began,
            worker=worker,
            device=device,
            fields={"locked": True} if self.lock == worker and phase is not Phase.LOCK_WAIT else {},
        )
        part.began = None

    def _work(self, part: Part, phase: Phase, worker: str, length: float) -> Iterator[None]:
        self._begin(part, phase, worker)
        # A little unevenness that is the same on every run.
        stretch = 1 + 0.12 * (((part.index * 7 + int(part.job.id) * 3) % 5) - 2) / 2
        end = self.clock.at + length * stretch
        while self.clock.at < end:
            yield
        self._end(part, phase, worker)

    def _synthesizer(self, index: int) -> Iterator[None]:
        name = f"synthesis-{index}"
        while True:
            if index >= self._knob("synthesis_concurrency") or self.in_force["paused"] or not self.todo:
                yield
                continue
            part = self.todo.popleft()
            if part.job.state is JobState.WAITING:
                part.job.state, part.job.started = JobState.RUNNING, self.clock.at
                self._emit(EventKind.JOB_STARTED, job=part.job.id)
            self.busy["synthesis"].add(name)
            yield from self._work(part, Phase.SYNTHESIS, name, self.pace.synthesis)
            self._begin(part, Phase.QUEUED, name)
            while len(self.queue) >= max(1, self._knob("synthesis_lookahead")):
                self.blocked.add(name)
                yield
            self.blocked.discard(name)
            self.busy["synthesis"].discard(name)
            self.queue.append(part)
            yield

    def _gpu_worker(self, index: int) -> Iterator[None]:
        name = f"gpu-0/{index}"
        while True:
            if index >= self._knob("gpu_workers_per_device") or not self.queue:
                yield
                continue
            part = self.queue.popleft()
            self._end(part, Phase.QUEUED, name)
            part.device = 0
            self.busy["gpu"].add(name)
            yield from self._prove(part, name)
            self.busy["gpu"].discard(name)
            self._extra.append(self._finalizer(part))
            yield

    def _prove(self, part: Part, name: str) -> Iterator[None]:
        pace, coarse = self.pace, self.in_force["gpu_lock"] == "coarse"
        if coarse:
            yield from self._take_lock(part, name)
        self.moving.add(name)
        yield from self._work(part, Phase.SETUP, name, pace.setup)
        yield from self._work(part, Phase.H2D, name, pace.h2d)
        self.moving.discard(name)
        if not coarse:
            yield from self._take_lock(part, name)
        self.kernel = name
        yield from self._work(part, Phase.NTT, name, pace.ntt)
        yield from self._work(part, Phase.MSM, name, pace.msm)
        self.kernel = None
        if not coarse:
            self.lock = None
        self.moving.add(name)
        yield from self._work(part, Phase.D2H, name, pace.d2h)
        self.moving.discard(name)
        if coarse:
            self.lock = None

    def _take_lock(self, part: Part, name: str) -> Iterator[None]:
        self._begin(part, Phase.LOCK_WAIT, name)
        while self.lock is not None:
            yield
        self.lock = name
        self._end(part, Phase.LOCK_WAIT, name)

    def _finalizer(self, part: Part) -> Iterator[None]:
        name = f"finalizer-{part.job.id}-{part.index}"
        self.busy["finalizing"].add(name)
        yield from self._work(part, Phase.FINALIZING, name, self.pace.finalizing)
        self.busy["finalizing"].discard(name)
        part.state = PartitionState.DONE
        self._count(partitions_done=1, proofs_verified=1)
        self._emit(EventKind.PARTITION_DONE, job=part.job.id, partitions=(part.index,))
        job = part.job
        if all(other.state is PartitionState.DONE for other in job.parts):
            job.state, job.ended = JobState.DONE, self.clock.at
            self.jobs.remove(job)
            self.ended.append(job)
            self._count(jobs_done=1)
            self._emit(EventKind.JOB_DONE, job=job.id, start=job.submitted)

    def _count(self, **more: int) -> None:
        values = {name: getattr(self.counters, name) for name in Counters.__slots__}
        self.counters = Counters(**{name: value + more.get(name, 0) for name, value in values.items()})

    def _land(self) -> None:
        for name, (changed, landed) in list(self.changed.items()):
            if landed is None and self.clock.at - changed >= 0.4:
                self.in_force[name] = self.knobs[name]
                self.changed[name] = (changed, self.clock.at)
                fields = {"name": name, "value": self.knobs[name], "generation": self.knobs.generation}
                self._emit(EventKind.KNOB_APPLIED, fields=fields)

    def _watch_device(self) -> None:
        state: tuple[DeviceState, Cause | None]
        if self.kernel is not None:
            state = DeviceState.COMPUTING, None
        elif self.lock is not None:
            state = DeviceState.LOCK_WAIT, Cause.LOCK
        elif self.moving:
            state = DeviceState.COPYING, Cause.TRANSFER
        elif self.queue:
            state = DeviceState.NO_WORKER, Cause.WORKERS
        elif self.in_force["paused"]:
            state = DeviceState.IDLE, Cause.PAUSED
        elif self.jobs:
            state = DeviceState.STARVED, Cause.SYNTHESIS
        else:
            state = DeviceState.IDLE, Cause.REQUESTS
        if state != self.state:
            self.state, self.since = state, self.clock.at

    # -- what the console asks --

    @property
    def ready(self) -> bool:
        return self.running

    def start(self) -> None:
        self.running = True

    def stop(self, timeout_s: float) -> bool:
        self.running = False
        return True

    def snapshot(self) -> Snapshot:
        running = [job.view() for job in (*self.jobs, *self.ended)]
        workers = self._knob("gpu_workers_per_device")
        stages = (
            StageView(
                "synthesis",
                self._knob("synthesis_concurrency"),
                len(self.busy["synthesis"]),
                len(self.todo),
                None,
                len(self.blocked),
            ),
            StageView("gpu", workers, len(self.busy["gpu"]), len(self.queue), self._knob("synthesis_lookahead")),
            StageView("finalizing", 1, len(self.busy["finalizing"]), 0, None),
        )
        device = DeviceView(
            0, "host", "host CPU, 2 cores", *self.state, self.since, workers, len(self.busy["gpu"]), self.lock
        )
        return Snapshot(
            at=self.clock.at,
            started=self.started,
            last_seq=len(self.log),
            circuit="poseidon-merkle",
            workload=f"built-in poseidon-merkle-12, {self.partitions} partitions",
            paused=bool(self.in_force["paused"]),
            jobs=tuple(running),
            stages=stages,
            devices=(device,),
            knobs=tuple(self._knob_view(name) for name in self.knobs),
            knob_generation=self.knobs.generation,
            counters=self.counters,
        )

    def _knob_view(self, name: str) -> KnobView:
        changed, landed = self.changed.get(name, (None, None))
        lagging = ("synthesis-0",) if self.in_force[name] != self.knobs[name] else ()
        return KnobView(name, self.knobs[name], self.in_force[name], lagging, changed, landed)

    def events(self, since: int) -> Sequence[Event]:
        return self.log[since:]

    def propose(self, change: Change) -> Receipt:
        try:
            value = REGISTRY[change.name].check(change.new)
        except (KeyError, KnobError) as error:
            return Receipt(False, self.knobs.generation, reason=str(error), change=change)
        if change.why != "undo":
            self.history.append((change.name, self.knobs[change.name]))
        self.knobs = self.knobs.replace(change.name, value)
        self.changed[change.name] = (self.clock.at, None)
        fields = {"name": change.name, "new": value, "old": self.in_force[change.name]}
        self._emit(EventKind.KNOB_PROPOSED, fields=fields)
        return Receipt(True, self.knobs.generation, change=change)

    def undo(self, who: str = "operator") -> Receipt:
        if not self.history:
            return Receipt(False, self.knobs.generation, reason="nothing to undo: no change was made")
        name, old = self.history.pop()
        return self.propose(Change(name, old, who=who, why="undo"))
