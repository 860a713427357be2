"""GPU workers: one slot after another through set-up, copies, NTT and MSM on one device.

With the narrow lock only ``ntt`` and ``msm`` run under the device's lock, so that a second worker's set-up and copies
overlap the first one's kernels. The coarse lock is taken before the set-up and held until the sums are fetched.

A device that is lost, or too crowded for a slot, is no fault of the slot's: it can be made again elsewhere, or with
fewer workers on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prover.device.errors import DeviceLost, OutOfMemory
from prover.errors import ProverError
from prover.model import Phase
from prover.pipeline.abandoned import abandon
from prover.pipeline.board import DeviceRecord
from prover.pipeline.interfaces import Cancelled, SlotProver
from prover.pipeline.knobs import KnobSet
from prover.pipeline.line import Line
from prover.pipeline.records import Slot, Worker, free_frames, one_line
from prover.pipeline.workers import WorkerPool

_BEFORE_LOCK = frozenset({Phase.QUEUED, Phase.SETUP, Phase.H2D})


class GpuStage:
    """The workers of one device."""

    def __init__(
        self,
        line: Line,
        record: DeviceRecord,
        cores: int,
        on_lost: Callable[[GpuStage], None],
        finish: Callable[[Worker, Slot, Any], None],
    ) -> None:
        """``on_lost`` is told, within a transaction, when the device was lost; each of its slots has its end by then,
        or finds out by itself. ``finish`` is what a finalizer does with a slot, for workers that do it themselves.
        """
        self._line = line
        self.record = record
        self._cores = cores
        self._on_lost = on_lost
        self._finish = finish
        self.selected = True
        """Whether the knob ``gpu_devices`` names it."""
        self.limit: int | None = None
        """The most workers that the device has memory for, as far as that is known."""
        self.pool = WorkerPool("gpu", f"gpu{record.ordinal}", self, line.board, record.ordinal)
        record.count_workers = lambda: len(self.pool.members)
        record.lock.reserved = self._critical_comes

    def follow(self, wanted: int) -> None:
        """Have so many workers, or as many as the device can bear."""
        most = wanted if self.limit is None else min(wanted, self.limit)
        self.pool.target = 0 if self.record.lost is not None or not self.selected else most

    def work(self, worker: Worker) -> None:
        """Until the pool lets the worker go."""
        while (slot := self._next(worker)) is not None:
            knobs = worker.knobs
            assert knobs is not None
            self._prove(worker, slot, knobs)
            del slot  # hold nothing of it while waiting for the next

    def abandon(self, worker: Worker, cause: str) -> None:
        """Fail the slot of a worker that died."""
        abandon(self._line, worker, cause)

    def _next(self, worker: Worker) -> Slot | None:
        line = self._line
        with line.board.transaction:
            slot = line.channel.take(lambda: self.pool.leaves(worker))
            if slot is None:
                return None
            slot.device = self.record.ordinal
            line.take_over(worker, slot)
            line.taken()
            return slot

    def _prove(self, worker: Worker, slot: Slot, knobs: KnobSet) -> None:
        line, clock = self._line, self._line.board.clock
        passage = _Passage(line, self.record, worker, slot, coarse=knobs.text("gpu_lock") == "coarse")
        try:
            pending = self._steps(passage, slot, knobs.device_threads(self._cores))
        except Cancelled as stopped:
            free_frames(stopped)
            now = clock()
            with line.board.transaction:
                passage.unlock()
                line.drop(slot, now, worker)
                line.rest(worker)
        except BaseException as error:  # whatever a workload raises is its job's failure, or its device's
            free_frames(error)
            now = clock()
            with line.board.transaction:
                passage.unlock()
                line.proved(passage.locked_s, passage.section_s(now), self.pool.target)
                self._failed(worker, slot, error, now)
                line.rest(worker)
            if not isinstance(error, Exception):
                raise  # the worker dies of it and is replaced
        else:
            now = clock()
            with line.board.transaction:
                passage.unlock()
                wanted = line.finalize(slot, now, worker, passage.active_s)
                line.proved(passage.locked_s, passage.section_s(now), self.pool.target)
                split = knobs.flag("split_prove")
                if wanted and split:
                    line.pend(slot, pending)
                if not wanted or split:
                    line.rest(worker)
            if wanted and not split:
                self._finish(worker, slot, pending)

    def _failed(self, worker: Worker, slot: Slot, error: BaseException, now: float) -> None:
        """A step raised: whose fault is it, and who makes the slot now?"""
        again: ProverError | None = None
        if isinstance(error, DeviceLost):
            again = error if self._line.book.current.text("on_device_lost") == "requeue" else None
        elif isinstance(error, OutOfMemory) and self._makes_room():
            again = error
        if again is not None:
            self._line.requeue(slot, again, now, worker)
        else:
            self._line.fail(slot, error, now, worker)
        if isinstance(error, DeviceLost) and self.record.lost is None:
            self.record.lost = one_line(error)
            self._on_lost(self)

    def _critical_comes(self) -> bool:
        """Whether a critical slot is about to ask for the lock, and will get here without anybody else's having it."""
        slots = [worker.slot for worker in self.pool.members]
        if any(slot is not None and slot.urgent and slot.phase in _BEFORE_LOCK for slot in slots):
            return True
        free = any(slot is None or slot.phase is not Phase.LOCK_WAIT for slot in slots)
        return free and self._line.channel.holds(lambda slot: slot.urgent)

    def _makes_room(self) -> bool:
        """Whether fewer workers may help a slot that found no memory: it was not alone on the device."""
        if len(self.record.phases) < 2:
            return False
        self.limit = max(1, self.pool.target - 1)
        self.pool.target = min(self.pool.target, self.limit)
        self._line.channel.wake()
        return True

    def _steps(self, passage: _Passage, slot: Slot, threads: int) -> Any:
        """The slot's sums. Its prover is released once, whatever happens."""
        prover: SlotProver | None = None
        released = False
        try:
            passage.enter()
            prover = slot.workload.prover(slot.synthesis, self.record.device, threads, slot.token)
            slot.synthesis = None
            passage.prover = prover
            prover.setup()
            passage.turn(Phase.H2D)
            prover.h2d()
            passage.begin_kernels()
            prover.ntt()
            passage.turn(Phase.MSM)
            prover.msm()
            passage.end_kernels()
            pending = prover.d2h()
            passage.collect()
            released = True
            prover.release()
        except BaseException:
            if prover is not None and not released:
                prover.release()
            raise
        finally:
            passage.prover = None
        return pending


class _Passage:
    """A slot's way over a device: its phases in order, the lock, and the time of its kernels."""

    def __init__(self, line: Line, record: DeviceRecord, worker: Worker, slot: Slot, *, coarse: bool) -> None:
        self._line = line
        self._board = line.board
        self._record = record
        self._worker = worker
        self._slot = slot
        self._coarse = coarse
        self._holds = False
        self._entered: float | None = None
        self._waited_s = 0.0
        self.locked_s = 0.0
        """Seconds under the device's lock so far."""
        self.prover: SlotProver | None = None
        self.active_s: float | None = None
        """Seconds that kernels ran for the slot so far, by the device's events; None where it has none."""

    def enter(self) -> None:
        """From the queue into the set-up."""
        self._entered = now = self._board.clock()
        with self._board.transaction:
            if self._coarse:
                self._lock(now)
                now = self._board.clock()
            self._turn(Phase.SETUP, now)

    def section_s(self, now: float) -> float:
        """Seconds on the device until now, without the wait for its lock."""
        return 0.0 if self._entered is None else now - self._entered - self._waited_s

    def turn(self, phase: Phase) -> None:
        """Into the next phase. Raises ``Cancelled`` if the job is over."""
        now = self._board.clock()
        with self._board.transaction:
            self._turn(phase, now)

    def begin_kernels(self) -> None:
        """Into the kernels, with the lock held from here at the latest."""
        now = self._board.clock()
        with self._board.transaction:
            self._line.admission.vectors_freed(self._slot)
            if not self._coarse:
                self._lock(now)
                now = self._board.clock()
            self._turn(Phase.NTT, now)

    def end_kernels(self) -> None:
        """Out of the kernels: the narrow lock passes on."""
        now = self._board.clock()
        with self._board.transaction:
            if not self._coarse:
                self.unlock()
            self._turn(Phase.D2H, now)

    def collect(self) -> float | None:
        """Tell when kernels ran since the last call; their seconds, or None where the device has no events."""
        spans = self.prover.kernel_spans() if self.prover is not None else None
        if spans is None:
            return None
        seconds = sum(end - start for start, end in spans)
        self.active_s = (self.active_s or 0.0) + seconds
        if spans:
            self._board.kernels(self._slot, spans, self._board.clock(), self._worker)
        return seconds

    def unlock(self) -> None:
        """Let go of the lock if it is held. Called within a transaction."""
        if self._holds:
            self._holds = False
            self._record.lock.release(self._worker.name)

    def _lock(self, now: float) -> None:
        self._turn(Phase.LOCK_WAIT, now)
        slot, record = self._slot, self._record
        given = record.lock.acquire(
            self._worker.name, slot.key, lambda: slot.over or record.lost is not None, lambda: slot.urgent
        )
        if not given and not slot.over and record.lost is not None:
            raise DeviceLost("it failed before", record.device.name)
        if not given:
            raise Cancelled
        self._holds = True

    def _turn(self, phase: Phase, now: float) -> None:
        active = self.collect()
        if self._slot.over:
            raise Cancelled
        if self._slot.phase is Phase.LOCK_WAIT:
            self._waited_s += now - self._slot.began
        if self._slot.locked:
            self.locked_s += now - self._slot.began
        fields = {} if active is None else {"gpu_active_s": active}
        self._board.turn(self._slot, phase, now, self._worker, locked=self._holds, fields=fields)
