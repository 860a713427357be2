"""The engine: jobs in, verified proofs out, knobs turned while it runs.

It owns no algorithm of its own: ``Line`` says what flows where, the stages do the work, ``WorkerPool`` and ``Steward``
keep the threads, ``KnobBook`` the knobs. This module wires them, and answers the console.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from prover.errors import InputError
from prover.memory_limits import MemoryLimits, memory_limits
from prover.model import DeviceView, Event, EventKind, FieldValue, KnobValue, Priority, Snapshot, StageView
from prover.pipeline.admission import Admission
from prover.pipeline.board import Board, Clock, DeviceRecord
from prover.pipeline.clock import EngineClock
from prover.pipeline.events import EventLog
from prover.pipeline.finalizer import FinalizerStage
from prover.pipeline.followers import Followers
from prover.pipeline.gpu_worker import GpuStage
from prover.pipeline.intake import Intake
from prover.pipeline.interfaces import (
    Cancelled,
    CancelToken,
    Change,
    EngineDevice,
    JobRequest,
    JobResult,
    Progress,
    Receipt,
    Workload,
)
from prover.pipeline.keeping import Keeper
from prover.pipeline.knobs import KnobSet, available_cores
from prover.pipeline.line import DRAINS, Line
from prover.pipeline.records import EngineStopped, SlotPart, one_line
from prover.pipeline.synthesis import SynthesisStage
from prover.pipeline.workers import Steward
from prover.resources import give_back_what_is_freed
from prover.rests import names_device

if TYPE_CHECKING:
    from prover.device.protocol import Device
    from prover.pipeline.journal import Journal

Loader = Callable[[Progress, CancelToken], Workload]
"""Makes the workload ready (circuit, keys), telling how far it is. Runs on a thread of its own."""

Spare = Callable[[int], "Device"]
"""Makes the device of this ordinal that takes over when all others are lost: the host."""

FINALIZERS = 2


class Engine:
    """A proving pipeline (``EngineControl``). Thread-safe; ``snapshot`` and ``events`` take no lock.

    ``workload`` may be a ready one, or a loader that ``start`` runs while jobs already queue.
    """

    def __init__(
        self,
        workload: Workload | Mapping[str, Workload] | Loader,
        devices: Sequence[EngineDevice],
        knobs: KnobSet | None = None,
        *,
        clock: Clock = time.monotonic,
        cores: int | None = None,
        ring_capacity: int = 8192,
        spare: Spare | None = None,
        note: str | None = None,
        journal: Journal | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        """``workload``: of one circuit, of several by circuit, or what loads one. ``spare`` makes what takes over when
        every device is lost; ``note``: what is to be said of the devices. ``journal``: where jobs, proofs and knob
        changes are kept; its owner opens and closes it, around the engine. ``limits``: what the process may take of the
        machine's memory, as it is found by default.
        """
        start = knobs if knobs is not None else KnobSet()
        self._board = Board(clock, EventLog(ring_capacity))
        self._admission = Admission(self._board, start, limits or memory_limits())
        self._gpu: list[GpuStage] = []
        self._followers = Followers(self._gpu)
        self._line = Line(
            self._board, start, self._followers.laggards, Keeper(journal, self._board.clock), self._admission
        )
        self._intake = Intake(self._board, self._line)
        self._board.on_settle = self._line.book.settle
        self._synthesis = SynthesisStage(self._line, cores or available_cores())
        self._finalizer = FinalizerStage(self._line)
        self._cores = cores or available_cores()
        self._spare = spare
        self._note = note
        self._followers.attach(self._line, self._synthesis.pool, self._finalizer.pool)
        self._pools = [self._synthesis.pool, self._finalizer.pool]
        for device in devices:
            self._add_device(device)
        unknown = self._refuse_devices(start["gpu_devices"])
        if unknown is not None:
            raise InputError(*unknown.split(": ", 2))
        self._line.book.refusals["gpu_devices"] = self._refuse_devices
        self._line.book.remarks["slot_size"] = self._remark_slots
        for name in ("total_budget", "slot_size"):
            self._line.book.refusals[name] = partial(self._refuse_memory, name)
        self._steward = Steward(self._pools, self._board)
        self._line.wake_synthesis = self._admission.wake = self._synthesis.pool.bell.notify_all
        self._line.wake_finalizers = self._finalizer.pool.bell.notify
        self._drained = self._board.condition()
        self._line.on_idle = self._drained.notify_all
        self._loader: Loader | None = None
        self._loading: threading.Thread | None = None
        self._load_token = CancelToken()
        self._activity: str | None = None
        if isinstance(workload, Mapping):
            self._line.take_workloads(workload)
        elif callable(workload):
            self._loader = workload
            self._activity = "loading"
        else:
            self._line.take_workloads({workload.circuit: workload})
        self._started: float = clock()
        self._state = "new"
        self._drain_until = float("inf")
        self._stopped = threading.Event()
        self.accepting = self._board.clock.event()
        """Set but while the engine drains."""
        self.accepting.set()

    # -- control ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers. Idempotent; an engine that was stopped cannot start again (``EngineStopped``)."""
        with self._board.transaction:
            if self._state == "running":
                return
            if self._state != "new":
                raise EngineStopped("the engine was stopped", "", "make a new one")
            self._state = "running"
            self._followers.running = True
            self._started = self._board.clock()
            knobs = self._line.book.current
            fields: dict[str, FieldValue] = {
                "devices": len(self._gpu),
                "gpu_workers_per_device": knobs.integer("gpu_workers_per_device"),
                "gpu_devices": knobs.text("gpu_devices"),
                "paused": knobs.flag("paused"),
                "generation": knobs.generation,
                "note": self._note,
            }
            self._board.announce(EventKind.ENGINE_STARTED, self._started, fields=fields)
            self._finalizer.pool.target = FINALIZERS
            self._admission.evictor.start()
            self._follow_knobs()
            if self._loader is not None:
                self._loading = self._board.clock.thread(self._load, "loader")
                self._loading.start()
            self._steward.start()  # within the transaction: whoever stops from here on has threads to wait for
        give_back_what_is_freed()

    def submit(self, request: JobRequest) -> Future[JobResult]:
        """Queue a job. The future fails with the job's one-line cause, and cannot be cancelled: use ``cancel``.

        With a journal it waits until the job is on the disk: whoever has the future has a job that survives a kill.
        (Where the journal cannot be written, it waits for nothing.) Jobs queue in the order in which they get there.

        Raises ``EngineStopped`` where no job is taken any more, ``InputError`` for an unusable request.
        """
        return self._intake.take(request)

    def resubmit(self, request: JobRequest) -> Future[JobResult]:
        """Queue an open job of the journal again, under its id: what ``resume`` does. Raises like ``submit``."""
        return self._intake.take(request, again=True)

    def cancel(self, job: str) -> bool:
        """Cancel a job; False if it is unknown or ended."""
        with self._board.transaction:
            return self._line.cancel(job)

    def cancel_remaining(self, job: str) -> int:
        """Cancel the partitions of a job that were not begun; how many. What was begun ends, then the job does."""
        with self._board.transaction:
            return self._line.cancel_remaining(job)

    def reprioritise(self, job: str, priority: Priority) -> bool:
        """Give a job another priority; False if it is unknown or ended."""
        with self._board.transaction:
            return self._line.reprioritise(job, priority)

    def drain(self) -> None:
        """Take no more jobs (``Draining``); those that are here go on to their end. ``resume`` takes jobs again."""
        with self._board.transaction:
            if self._line.closed is None:
                self._line.closed = DRAINS
                self.accepting.clear()
                self._board.announce(EventKind.ENGINE_DRAINING, self._board.clock())

    def resume(self) -> None:
        """Take jobs again after ``drain``."""
        with self._board.transaction:
            if self._line.closed == DRAINS:
                self._line.closed = None
                self.accepting.set()
                self._board.announce(EventKind.ENGINE_RESUMED, self._board.clock())

    def propose(self, change: Change) -> Receipt:
        """Change a knob, or say in one line why not. Never waits for a worker."""
        with self._board.transaction:
            receipt = self._line.book.propose(change)
            self._accept(receipt)
            return receipt

    def use_device(self, ordinal: int, use: bool, who: str = "operator") -> Receipt:
        """Let a device prove, or let it end what it has and rest: a proposal for ``gpu_devices``."""
        with self._board.transaction:
            named = self._line.book.current.text("gpu_devices")
            wanted = {each for each in self._board.devices if (use if each == ordinal else names_device(named, each))}
            every = wanted == set(self._board.devices)
            text = "all" if every else ",".join(map(str, sorted(wanted)))
            receipt = self._line.book.propose(Change("gpu_devices", text or "none", who=who))
            self._accept(receipt)
            return receipt

    def undo(self, who: str = "operator") -> Receipt:
        """Propose back the latest accepted change that is neither an undo nor undone."""
        with self._board.transaction:
            receipt = self._line.book.undo(who)
            self._accept(receipt)
            return receipt

    def stop(self, drain_timeout_s: float | None = 0.0) -> None:
        """Stop: slots that were begun may end for at most this long (None: the knob ``drain_timeout_s``), then all
        jobs are cancelled. Returns when every thread is over. A second caller waits for the first, and cuts its drain
        short if it gives it less time. Raises ``RuntimeError`` in a callback of a future: it would wait for itself.
        """
        if self._steward.tends(threading.current_thread()):
            raise RuntimeError("a callback cannot stop the engine: it runs on a thread that stop waits for")
        with self._board.transaction:
            if drain_timeout_s is None:
                drain_timeout_s = self._line.book.current.integer("drain_timeout_s")
            self._drain_until = min(self._drain_until, self._board.clock() + drain_timeout_s)
            self._drained.notify_all()
            if self._state == "new":
                self._state = "stopped"
                self._line.closed = "the engine is stopped"
                self._line.cancel_all("the engine stops")
                self._stopped.set()
                return
            first = self._state == "running"
            if first:
                self._state = "stopping"
                self._followers.running = False
                self._line.closed = "the engine stops"
                self._line.draining = True
                self._line.channel.set_open(True)  # slots that were begun may end even while paused
                self._drain()
        self.accepting.set()  # who waits to submit finds out
        if not first:
            with self._board.clock.outside():
                self._stopped.wait()
            return
        self._close()

    def hurry(self) -> None:
        """Cut the wait of a ``stop`` short. Returns at once."""
        with self._board.transaction:
            self._drain_until = min(self._drain_until, self._board.clock())
            self._drained.notify_all()

    # -- views --------------------------------------------------------------------------------------------------------

    @property
    def knobs(self) -> KnobSet:
        """The wanted values now."""
        return self._line.book.current

    def on_the_clock(self, unix: float) -> float:
        """A Unix time on the engine's clock, for deadlines."""
        return self._line.keeper.on_the_clock(unix)

    def tell_spool(self, line: str, trouble: bool) -> None:
        """Put a line about the spool among the events."""
        with self._board.transaction:
            fields: dict[str, FieldValue] = {"line": line, "trouble": trouble}
            self._board.announce(EventKind.SPOOL, self._board.clock(), fields=fields)

    def tell_journal(self, line: str, *, trouble: bool) -> None:
        """Put a line about the journal among the events."""
        with self._board.transaction:
            fields: dict[str, FieldValue] = {"line": line, "trouble": trouble}
            self._board.announce(EventKind.JOURNAL, self._board.clock(), fields=fields)

    @property
    def workloads(self) -> Mapping[str, Workload]:
        """What it proves, by circuit; empty until that is ready."""
        return self._line.workloads

    @property
    def journal(self) -> Journal | None:
        """Where its jobs are kept."""
        return self._line.keeper.journal

    @property
    def event_log(self) -> EventLog:
        """The event log, for readers that want to be woken."""
        return self._board.events

    @property
    def clock(self) -> EngineClock:
        """Its time."""
        return self._board.clock

    @property
    def most_slots_alive(self) -> int:
        """The most slots that ever held memory at once."""
        return self._line.most_alive

    def events(self, since: int) -> Sequence[Event]:
        """Events with ``seq > since``, oldest first, as far back as the rings hold. Takes no lock."""
        return self._board.events.since(since)

    def snapshot(self) -> Snapshot:
        """The picture now. Takes no lock and waits for nobody."""
        board, workload, book = self._board, self._line.workload, self._line.book
        last_seq = board.events.last_seq
        knobs = book.current
        finished = board.finished
        living = tuple(job.view() for job in board.jobs)
        ids = {job.id for job in living}
        return Snapshot(
            at=board.clock(),
            started=self._started,
            last_seq=last_seq,
            circuit=workload.circuit if workload is not None else "",
            workload=workload.name if workload is not None else "",
            paused=board.paused,
            jobs=(*living, *(job for job in finished if job.id not in ids)),
            stages=self._stages(knobs),
            devices=tuple(record.view for record in board.devices.values()),
            knobs=book.views,
            knob_generation=knobs.generation,
            counters=board.counters,
            activity=self._activity,
            pacer=self._line.pacer.view,
            critical_wait_s=max(tuple(self._line.sections), default=None),
            draining=self._line.closed == DRAINS,
            memory=self._admission.view,
            batch_waits=self._line.batch_waits,
        )

    def device_views(self) -> tuple[DeviceView, ...]:
        """The devices as they stand."""
        return tuple(record.view for record in self._board.devices.values())

    def _stages(self, knobs: KnobSet) -> tuple[StageView, ...]:
        line = self._line
        synthesis, finalizing = self._synthesis.pool, self._finalizer.pool
        gpu_members = [worker for stage in self._gpu for worker in stage.pool.members]
        return (
            StageView(
                "synthesis",
                len(synthesis.members),
                len(synthesis.busy()),
                line.scheduler.waiting_slots(knobs.integer("slot_size")),
                None,
                blocked=line.channel.held,
            ),
            StageView(
                "gpu",
                len(gpu_members),
                sum(worker.slot is not None for worker in gpu_members),
                line.channel.queued,
                line.channel.capacity,
            ),
            StageView("finalizing", len(finalizing.members), len(finalizing.busy()), len(line.finishing), None),
        )

    # -- knobs --------------------------------------------------------------------------------------------------------

    def _accept(self, receipt: Receipt) -> None:
        """Act on a change, if it was accepted."""
        name = receipt.change.name if receipt.accepted and receipt.change is not None else None
        if name == "gpu_workers_per_device":
            for stage in self._gpu:
                stage.limit = None  # the operator knows what became of the memory
        if name == "on_device_lost" and self._state == "running" and self._all_lost and self._take_over():
            self._line.closed = None
        self._follow_knobs()

    def _follow_knobs(self) -> None:
        """Bring channel, pools and gates to the wanted values. Workers read theirs at their next hand-over."""
        knobs, line, board = self._line.book.current, self._line, self._board
        board.paused = knobs.flag("paused")
        if not line.draining:
            line.channel.set_open(not board.paused)
        line.channel.resize(knobs.integer("synthesis_lookahead"))
        self._admission.follow(knobs)
        if self._state != "running":
            return
        self._synthesis.pool.target = knobs.synthesisers
        for stage in self._gpu:
            stage.selected = names_device(knobs.text("gpu_devices"), stage.record.ordinal)
            stage.record.paused = not stage.selected
            stage.follow(knobs.integer("gpu_workers_per_device"))
        self._wake()

    def _wake(self) -> None:
        for pool in self._pools:
            pool.bell.notify_all()
        self._line.channel.wake()
        self._steward.prod()

    def _refuse_devices(self, value: KnobValue) -> str | None:
        """Why these devices cannot be had."""
        known = {str(ordinal) for ordinal in self._board.devices}
        unknown = [] if value in ("all", "none") else [each for each in str(value).split(",") if each not in known]
        if not unknown:
            return None
        here = ", ".join(sorted(known)) or "no device"
        return f"no device of that number: gpu_devices={value}: this engine has {here}"

    def _remark_slots(self, value: KnobValue) -> str | None:
        """What slots of this size cost in memory, for the largest job that is here."""
        job = max(self._board.jobs, key=lambda job: job.request.partitions, default=None)
        if job is None or not isinstance(value, int):
            return None
        return self._admission.cost(value, job.request.partitions, self._line.circuit_of(job))

    def _refuse_memory(self, name: str, value: KnobValue) -> str | None:
        """Why this value of a knob would leave a job that waits for ever without memory."""
        knobs = self._line.book.current.replace(name, value)
        size, line = knobs.integer("slot_size"), self._line
        largest = [(job, range(line.scheduler.largest(job.seq, size))) for job in self._board.jobs]
        ahead = ((SlotPart(job, tuple(partitions)), line.circuit_of(job)) for job, partitions in largest)
        return self._admission.refusal(knobs, ahead)

    # -- devices ------------------------------------------------------------------------------------------------------

    def _add_device(self, device: EngineDevice) -> None:
        record = DeviceRecord(device, self._board)
        record.good, record.bad = self._line.keeper.tally(record.key)
        if record.ordinal in self._board.devices:
            raise ValueError(f"two devices of ordinal {record.ordinal}")
        stage = GpuStage(self._line, record, self._cores, self._device_lost, self._finalizer.finish)
        self._board.devices = {**self._board.devices, record.ordinal: record}  # replaced whole: pictures read it
        self._gpu.append(stage)
        self._admission.add_device(record.view.kind == "host", getattr(device, "pinned", None))
        self._pools.insert(-1, stage.pool)

    @property
    def _all_lost(self) -> bool:
        return all(stage.record.lost is not None for stage in self._gpu)

    def _device_lost(self, stage: GpuStage) -> None:
        """A device answers no more: its workers leave, its slots find out, and somebody takes over if there is one."""
        board, record = self._board, stage.record
        board.announce(EventKind.DEVICE_LOST, board.clock(), device=record.ordinal, fields={"error": record.lost})
        stage.pool.target = 0
        record.lock.wake()
        self._line.channel.wake()
        if self._all_lost and not self._take_over():
            self._line.closed = f"no device is left: {record.lost}"
            self.accepting.set()  # who waits for the end of a drain finds out
            self._line.fail_all(self._line.closed)
        self._follow_knobs()

    def _take_over(self) -> bool:
        """Bring the spare device in, if there is one and the operator wants lost slots made again."""
        if self._spare is None or self._line.book.current.text("on_device_lost") != "requeue":
            return False
        spare, self._spare = self._spare, None
        ordinal = 1 + max(self._board.devices, default=-1)
        self._add_device(spare(ordinal))
        named = self._line.book.current.text("gpu_devices")
        if named not in ("all", "none"):  # those it names are lost
            why = "takes over from the lost ones"
            self._line.book.propose(Change("gpu_devices", f"{named},{ordinal}", who="engine", why=why))
        return True

    # -- start and stop -----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Make the workload ready; jobs that came meanwhile begin."""
        assert self._loader is not None
        began = self._board.clock()

        def progress(what: str, share: float | None) -> None:
            self._activity = what if share is None else f"{what} {share:.0%}"

        try:
            workload = self._loader(progress, self._load_token)
        except Cancelled:
            return
        except BaseException as error:  # noqa: BLE001 - whatever a loader raises is told to every job
            cause = one_line(error)
            self._activity = f"cannot prove: {cause}"
            with self._board.transaction:
                self._line.closed = cause
                self.accepting.set()  # who waits for the end of a drain finds out
                self._line.cancel_all(cause)
            return
        self._activity = None
        now = self._board.clock()
        with self._board.transaction:
            self._line.take_workloads({workload.circuit: workload})
            self._board.first_run("load", began, now)
            self._line.wake_synthesis()

    def _drain(self) -> None:
        """Wait, within a transaction, until nothing that was begun is under way, or the time for it is over."""
        clock = self._board.clock
        while self._line.under_way:
            left = self._drain_until - clock()
            if left <= 0:
                return
            self._board.wait(self._drained, left)

    def _close(self) -> None:
        """Cancel what is left, let every thread end, and wait for them."""
        self._load_token.cancel()
        with self._board.transaction:
            self._line.cancel_all("the engine stops")
            self._admission.withdraw()
            for pool in self._pools:
                pool.target = 0
            self._wake()
            self._steward.close()
        self._steward.join()
        self._admission.evictor.stop()
        if self._loading is not None and self._loading is not threading.current_thread():
            with self._board.clock.outside():
                self._loading.join()
        with self._board.transaction:
            self._state = "stopped"
            self._board.announce(EventKind.ENGINE_STOPPED, self._board.clock())
        self._stopped.set()
