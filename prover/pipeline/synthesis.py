"""Synthesis: workers that make witness and a, b, c of one slot after another."""

from __future__ import annotations

from prover.pipeline.abandoned import abandon
from prover.pipeline.interfaces import Cancelled
from prover.pipeline.line import Line
from prover.pipeline.records import Slot, Worker, free_frames
from prover.pipeline.workers import WorkerPool


class SynthesisStage:
    """What a synthesiser does: take the next slot, make it, hand it over (or keep it while the channel is full)."""

    def __init__(self, line: Line, cores: int) -> None:
        self._line = line
        self._cores = cores
        self.pool = WorkerPool("synthesis", "synthesis", self, line.board)

    def work(self, worker: Worker) -> None:
        """Until the pool lets the worker go."""
        while (slot := self._next(worker)) is not None:
            self._synthesise(worker, slot)

    def abandon(self, worker: Worker, cause: str) -> None:
        """Fail the slot of a worker that died."""
        abandon(self._line, worker, cause)

    def _next(self, worker: Worker) -> Slot | None:
        board = self._line.board
        while True:
            with board.transaction:  # left to tell of jobs that failed because no memory can ever hold them
                while not board.deliveries:
                    if self.pool.leaves(worker):
                        return None
                    slot = self._line.begin(worker)
                    if slot is not None:
                        return slot
                    if not board.deliveries:
                        at = self._line.begin_at
                        board.wait(self.pool.bell, None if at is None else max(0.0, at - board.clock()))

    def _synthesise(self, worker: Worker, slot: Slot) -> None:
        line, clock = self._line, self._line.board.clock
        knobs = worker.knobs
        assert knobs is not None  # it took the slot over
        threads = knobs.synthesis_threads(self._cores, line.board.host_proves)
        try:
            inputs, partitions = slot.given()
            slot.synthesis = slot.workload.synthesize(inputs, partitions, threads, slot.token)
        except Cancelled as stopped:
            free_frames(stopped)
            now = clock()
            with line.board.transaction:
                line.drop(slot, now, worker)
                line.rest(worker)
        except Exception as error:  # noqa: BLE001 - whatever a workload raises is its job's failure, not the engine's
            free_frames(error)
            now = clock()
            with line.board.transaction:
                line.fail(slot, error, now, worker)
                line.rest(worker)
        else:
            now = clock()
            with line.board.transaction:
                line.queue(slot, now, worker)
                line.rest(worker)
