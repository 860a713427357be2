"""The board: the engine's one lock, its clock and events, and the pictures of jobs and devices that anyone may read.

Threads change the board in transactions, short and without any work in them. What a reader sees are references that
are replaced whole, so a snapshot takes no lock and waits for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from prover.lean_dataclass import replace
from prover.model import (
    DEVICE_PHASES,
    Counters,
    DeviceState,
    DeviceView,
    EventKind,
    FieldValue,
    JobView,
    PartitionState,
    Phase,
    Span,
)
from prover.pipeline.clock import engine_clock
from prover.pipeline.device_lock import DeviceLock
from prover.pipeline.events import EventLog, Ring
from prover.pipeline.keeping import device_key
from prover.pipeline.records import Job, Slot, SlotPart, Worker
from prover.timeline import Occupancy, device_state

if TYPE_CHECKING:
    from prover.pipeline.interfaces import EngineDevice

Clock = Callable[[], float]
_DEVICE_PHASES = frozenset(DEVICE_PHASES)
_ALONE: Mapping[str, FieldValue] = {}


class DeviceRecord:
    """A device, its lock, and the phases of the slots that are on it."""

    def __init__(self, device: EngineDevice, board: Board) -> None:
        self.device = device
        self.ordinal = device.ordinal
        self.lock = DeviceLock(board.lock, board.wait, board.condition)
        self.phases: dict[Slot, Phase] = {}
        self.key = device_key(device.uuid, device.name)
        """What the validity ledger knows it by."""
        self.good = self.bad = 0
        """Proofs of it that verified, and that did not."""
        self.lost: str | None = None
        """Why it can be used no more, in one line. (The error itself would hold what its frames held.)"""
        self.paused = False
        """Whether the knob ``gpu_devices`` leaves it out."""
        self.count_workers: Callable[[], int] = lambda: 0
        self.view = DeviceView(
            device.ordinal,
            device.capability.kind,
            device.product,
            DeviceState.IDLE,
            None,
            board.clock(),
            workers=0,
            workers_busy=0,
            uuid=device.uuid,
        )

    def refresh(self, *, queued: bool, memory: bool, asked: bool, paused: bool, now: float) -> None:
        """Replace the view if it is no longer true."""
        lost, phases = self.lost is not None, self.phases.values()
        paused = paused or self.paused
        occupancy = Occupancy.of(phases, lost=lost, queued=queued, memory=memory, asked=asked, paused=paused)
        state, cause = device_state(occupancy)
        view, workers, busy, holder = self.view, self.count_workers(), len(self.phases), self.lock.holder
        new = (state, cause, workers, busy, holder, self.good, self.bad)
        if new == (
            view.state,
            view.cause,
            view.workers,
            view.workers_busy,
            view.lock_holder,
            view.proofs_good,
            view.proofs_bad,
        ):
            return
        self.view = replace(
            view,
            state=state,
            cause=cause,
            since=view.since if (view.state, view.cause) == (state, cause) else now,
            workers=workers,
            workers_busy=busy,
            lock_holder=holder,
            proofs_good=self.good,
            proofs_bad=self.bad,
        )


class Transaction:
    """Holds the lock; settles the board before it lets go, and delivers results after."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __enter__(self) -> None:
        self._board.lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._board.settle()
        finally:
            deliveries, self._board.deliveries = self._board.deliveries, []
            self._board.lock.release()
        _deliver(deliveries)


def _deliver(deliveries: list[Callable[[], None]]) -> None:
    """Call each, whatever another one raises; the first failure is raised at the end."""
    failure: BaseException | None = None
    for deliver in deliveries:
        try:
            deliver()
        except BaseException as error:  # noqa: BLE001 - raised below: it is a caller's callback that failed
            failure = failure or error
    if failure is not None:
        raise failure


class Board:
    """Jobs, partitions and devices as they stand, and every change of them as an event."""

    FINISHED = 8
    """Ended jobs that stay in the picture."""

    def __init__(self, clock: Clock, events: EventLog) -> None:
        self.lock = threading.Lock()
        self.clock = engine_clock(clock)
        """The time, and how the engine's threads wait in it."""
        self.events = events
        self.ring: Ring = events.ring()
        """For threads that are no workers; written with the lock held, hence by one at a time."""
        self.transaction = Transaction(self)
        self.deliveries: list[Callable[[], None]] = []
        """What to call once the lock is free: results go to callers, whose code must not run under it."""
        self.on_settle: Callable[[], None] = lambda: None
        self.on_span: Callable[[Slot, Span, DeviceRecord | None, bool], None] = lambda slot, span, device, ok: None
        """Told of every phase of a slot that ended, on which device, and whether it did its work."""
        self.jobs: tuple[Job, ...] = ()
        """Waiting and running, oldest first."""
        self.finished: tuple[JobView, ...] = ()
        self.devices: dict[int, DeviceRecord] = {}
        self.counters = Counters()
        self.paused = False
        self.queued = 0
        """Slots in the phase ``queued`` whose job lives."""
        self.asked = 0
        """Partitions of living jobs that are not synthesised yet."""
        self.memory_waits = False
        """The slot that is next waits for memory."""

    @property
    def proving(self) -> int:
        """Devices with workers."""
        return sum(record.view.workers > 0 for record in self.devices.values())

    @property
    def host_proves(self) -> bool:
        """Whether a device proves on the machine's own cores."""
        return any(record.view.kind == "host" for record in self.devices.values())

    def device_of(self, slot: Slot) -> DeviceRecord | None:
        """Where a slot is or was made."""
        return None if slot.device is None else self.devices[slot.device]

    def settle(self) -> None:
        """Bring the pictures of the devices and the knobs up to date; locks that were kept free pass on."""
        now = self.clock()
        for record in self.devices.values():
            record.lock.pass_on()
            record.refresh(
                queued=self.queued > 0, memory=self.memory_waits, asked=self.asked > 0, paused=self.paused, now=now
            )
        self.on_settle()

    def condition(self) -> threading.Condition:
        """A condition of the engine's lock, in the engine's time: what its threads wait for."""
        return self.clock.condition(self.lock)

    def wait(self, condition: threading.Condition, timeout: float | None = None) -> bool:
        """Wait within a transaction; what was changed before is settled first. False if the time ran out."""
        self.settle()
        return condition.wait(timeout)

    def acknowledge(self, worker: Worker, generation: int) -> None:
        """A worker took a generation of knobs over; its first is no news."""
        if worker.seen != generation:
            if worker.seen >= 0:
                fields = {"generation": generation}
                kind = EventKind.KNOB_ACKNOWLEDGED
                self.announce(kind, self.clock(), worker, device=worker.device, fields=fields)
            worker.seen = generation

    def announce(
        self,
        kind: EventKind,
        now: float,
        worker: Worker | None = None,
        *,
        job: Job | None = None,
        partitions: tuple[int, ...] = (),
        phase: Phase | None = None,
        device: int | None = None,
        fields: Mapping[str, FieldValue] | None = None,
    ) -> None:
        """An event of this moment."""
        self.events.emit(
            self.ring if worker is None else worker.ring,
            kind,
            now,
            job=None if job is None else job.id,
            partitions=partitions,
            phase=phase,
            device=device,
            worker=None if worker is None else worker.name,
            fields=fields or {},
        )

    def kernels(self, slot: Slot, spans: Sequence[tuple[float, float]], now: float, worker: Worker) -> None:
        """Kernels ran for a slot in these stretches."""
        for start, end in spans:
            self.events.emit(
                worker.ring,
                EventKind.KERNELS,
                min(end, now),  # the clocks agree to some tens of microseconds
                job=slot.job.id,
                partitions=slot.partitions,
                phase=slot.phase,
                start=min(start, now),
                device=slot.device,
                worker=worker.name,
            )

    def first_run(self, what: str, start: float, end: float) -> None:
        """A cost that is paid once (keys loaded, kernels compiled): apart, so that it enters no average."""
        self.events.emit(self.ring, EventKind.FIRST_RUN, end, start=start, fields={"what": what})

    def turn(
        self,
        slot: Slot,
        phase: Phase | None,
        now: float,
        worker: Worker | None = None,
        *,
        ok: bool = True,
        locked: bool = False,
        fields: Mapping[str, FieldValue] | None = None,
    ) -> None:
        """End the phase of a slot, if it is in one, and begin the next, if there is one, at the same instant.

        ``fields`` belong to the phase that ends; ``ok`` is False where it did not do its work.
        """
        span = self._end_phase(slot, now, worker, ok, fields or {})
        slot.phase, slot.began, slot.locked = phase, now, locked
        if phase is not None:
            slot.worker = None if worker is None else worker.name
            if slot.device is not None and phase in _DEVICE_PHASES:
                self.devices[slot.device].phases[slot] = phase
            if phase is Phase.QUEUED:
                self.queued += 1
            device = slot.device if phase in _DEVICE_PHASES else None
            for part in slot.parts:
                self.announce(
                    EventKind.PHASE_BEGAN,
                    now,
                    worker,
                    job=part.job,
                    partitions=part.partitions,
                    phase=phase,
                    device=device,
                    fields=_sharing(slot, part),
                )
        for part in slot.parts:
            self._show(slot, part, span, phase, now)

    def _end_phase(
        self, slot: Slot, now: float, worker: Worker | None, ok: bool, fields: Mapping[str, FieldValue]
    ) -> Span | None:
        phase = slot.phase
        if phase is None:
            return None
        on_device = phase in _DEVICE_PHASES
        if on_device and slot.device is not None:
            self.devices[slot.device].phases.pop(slot, None)
        if phase is Phase.QUEUED:
            self.queued -= 1
        extra: dict[str, FieldValue] = dict(fields)
        if slot.locked:
            extra["locked"] = True
        if not ok:
            extra["ok"] = False
        device = slot.device if on_device else None
        who = worker.name if worker is not None else slot.worker
        span = Span(phase, slot.began, now, slot.job.id, slot.partitions, device, who)
        for part in slot.parts:
            self.events.emit(
                self.ring if worker is None else worker.ring,
                EventKind.SPAN,
                now,
                job=part.job.id,
                partitions=part.partitions,
                phase=phase,
                start=slot.began,
                device=device,
                worker=who,
                fields=extra if len(slot.parts) == 1 else {**extra, **_sharing(slot, part)},
            )
        self.on_span(slot, span, None if device is None else self.devices[device], ok)
        return span

    def _show(self, slot: Slot, part: SlotPart, span: Span | None, phase: Phase | None, now: float) -> None:
        """Bring a part's partitions up to date, unless their job has ended: then its picture stands."""
        if part.job.over:
            return
        own = (
            span
            if span is None or part is slot.parts[0]
            else replace(span, job=part.job.id, partitions=part.partitions)
        )
        for index in part.partitions:
            view = part.job.views[index]
            part.job.views[index] = replace(
                view,
                state=view.state if phase is None else PartitionState(phase.value),
                spans=view.spans if own is None else (*view.spans, own),
                phase_began=None if phase is None else now,
                device=view.device if slot.device is None else slot.device,
            )

    def mark(self, job: Job, partitions: tuple[int, ...], state: PartitionState, error: str | None = None) -> None:
        """Set the final (or pending) state of partitions."""
        for index in partitions:
            job.views[index] = replace(job.views[index], state=state, phase_began=None, error=error)

    def count(self, **increments: int) -> None:
        """Add to the counters."""
        counters = self.counters
        self.counters = replace(counters, **{name: getattr(counters, name) + by for name, by in increments.items()})

    def add_job(self, job: Job) -> None:
        """Take a job into the picture."""
        self.jobs = (*self.jobs, job)
        self.asked += job.unsynthesised

    def retire_job(self, job: Job) -> None:
        """Move an ended job to the finished ones."""
        self.jobs = tuple(other for other in self.jobs if other is not job)
        self.finished = (*self.finished, job.view())[-self.FINISHED :]
        self.asked -= job.unsynthesised
        job.unsynthesised = 0

    def synthesised(self, job: Job, partitions: int) -> None:
        """So many partitions of a living job wait for synthesis no more (negative: they wait again)."""
        if not job.over:
            job.unsynthesised -= partitions
            self.asked -= partitions


def _sharing(slot: Slot, part: SlotPart) -> Mapping[str, FieldValue]:
    """What tells the events of a slot of several jobs apart: the slot is told once by the first, again by the rest."""
    if len(slot.parts) == 1:
        return _ALONE
    return {"shared_with": slot.job.id} if part is not slot.parts[0] else {"shared_by": len(slot.parts)}
