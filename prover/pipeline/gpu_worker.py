"""GPU workers: one slot after another through set-up, copies, NTT and MSM on one device.

With the narrow lock only ``ntt`` and ``msm`` run under the device's lock, so that a second worker's set-up and copies
overlap the first one's kernels. The coarse lock is taken before the set-up and held until the sums are fetched.
"""

from __future__ import annotations

from typing import Any

from prover.model import Phase
from prover.pipeline.board import DeviceRecord
from prover.pipeline.interfaces import Cancelled, SlotProver, Workload
from prover.pipeline.knobs import KnobSet
from prover.pipeline.line import Line
from prover.pipeline.records import Slot, Worker
from prover.pipeline.workers import WorkerPool


class GpuStage:
    """The workers of one device."""

    def __init__(self, line: Line, record: DeviceRecord, cores: int) -> None:
        self._line = line
        self._record = record
        self._cores = cores
        self.pool = WorkerPool("gpu", f"gpu{record.ordinal}", self, line.board, record.ordinal)
        record.count_workers = lambda: len(self.pool.members)

    def work(self, worker: Worker) -> None:
        """Until the pool lets the worker go."""
        while (slot := self._next(worker)) is not None:
            knobs, workload = worker.knobs, self._line.workload
            assert knobs is not None and workload is not None
            self._prove(worker, slot, knobs, workload)

    def abandon(self, worker: Worker, cause: str) -> None:
        """Fail the slot of a worker that died."""
        if worker.slot is not None and not worker.slot.ended:
            self._line.fail(worker.slot, f"the worker died: {cause}", self._line.board.clock(), worker)

    def _next(self, worker: Worker) -> Slot | None:
        line = self._line
        with line.board.transaction:
            slot = line.channel.take(lambda: self.pool.leaves(worker))
            if slot is None:
                return None
            slot.device = self._record.ordinal
            line.take_over(worker, slot)
            return slot

    def _prove(self, worker: Worker, slot: Slot, knobs: KnobSet, workload: Workload) -> None:
        line, clock = self._line, self._line.board.clock
        passage = _Passage(line, self._record, worker, slot, coarse=knobs.text("gpu_lock") == "coarse")
        try:
            pending, active = self._steps(passage, slot, knobs.device_threads(self._cores), workload)
        except Cancelled:
            now = clock()
            with line.board.transaction:
                passage.unlock()
                line.drop(slot, now, worker)
                line.rest(worker)
        except BaseException as error:  # whatever a workload raises is its job's failure
            now = clock()
            with line.board.transaction:
                passage.unlock()
                line.fail(slot, error, now, worker)
                line.rest(worker)
            if not isinstance(error, Exception):
                raise  # the worker dies of it and is replaced
        else:
            now = clock()
            with line.board.transaction:
                passage.unlock()
                line.finalize(slot, pending, now, worker, active)
                line.rest(worker)

    def _steps(self, passage: _Passage, slot: Slot, threads: int, workload: Workload) -> tuple[Any, float | None]:
        """The slot's sums, and its kernel time by device events. The prover is released once, whatever happens."""
        prover: SlotProver | None = None
        released = False
        try:
            passage.enter()
            prover = workload.prover(slot.synthesis, self._record.device, threads, slot.job.token)
            slot.synthesis = None
            prover.setup()
            passage.turn(Phase.H2D)
            prover.h2d()
            passage.begin_kernels()
            prover.ntt()
            passage.turn(Phase.MSM)
            prover.msm()
            passage.end_kernels()
            pending = prover.d2h()
            active = prover.gpu_active_s
            released = True
            prover.release()
        except BaseException:
            if prover is not None and not released:
                prover.release()
            raise
        return pending, active


class _Passage:
    """A slot's way over a device: its phases in order, and the lock."""

    def __init__(self, line: Line, record: DeviceRecord, worker: Worker, slot: Slot, *, coarse: bool) -> None:
        self._line = line
        self._board = line.board
        self._record = record
        self._worker = worker
        self._slot = slot
        self._coarse = coarse
        self._holds = False

    def enter(self) -> None:
        """From the queue into the set-up."""
        now = self._board.clock()
        with self._board.transaction:
            if self._coarse:
                self._lock(now)
                now = self._board.clock()
            self._turn(Phase.SETUP, now)

    def turn(self, phase: Phase) -> None:
        """Into the next phase. Raises ``Cancelled`` if the job is over."""
        now = self._board.clock()
        with self._board.transaction:
            self._turn(phase, now)

    def begin_kernels(self) -> None:
        """Into the kernels, with the lock held from here at the latest."""
        now = self._board.clock()
        with self._board.transaction:
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

    def unlock(self) -> None:
        """Let go of the lock if it is held. Called within a transaction."""
        if self._holds:
            self._holds = False
            self._record.lock.release(self._worker.name)

    def _lock(self, now: float) -> None:
        self._turn(Phase.LOCK_WAIT, now)
        job = self._slot.job
        if not self._record.lock.acquire(self._worker.name, self._slot.key, lambda: job.over):
            raise Cancelled
        self._holds = True

    def _turn(self, phase: Phase, now: float) -> None:
        if self._slot.job.over:
            raise Cancelled
        self._board.turn(self._slot, phase, now, self._worker, locked=self._holds)
