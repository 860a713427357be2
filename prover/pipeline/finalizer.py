"""Finalizers: assemble a slot's proofs, verify them, deliver. Off the GPU's critical path.

A proof that does not verify is never delivered: the slot is made again once, then its job fails. The time in phase
``finalizing`` begins when the slot leaves its device, so it holds the wait for a finalizer too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prover.group_testing import faulty
from prover.pipeline.abandoned import abandon
from prover.pipeline.interfaces import is_simulated
from prover.pipeline.line import Line
from prover.pipeline.records import Slot, Worker
from prover.pipeline.workers import WorkerPool


class FinalizerStage:
    """What a finalizer does."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.pool = WorkerPool("finalizing", "finalizer", self, line.board)

    def work(self, worker: Worker) -> None:
        """Until the pool lets the worker go."""
        while (item := self._next(worker)) is not None:
            slot, pending = item
            self.finish(worker, slot, pending)
            del slot, pending, item  # hold no proof's memory while waiting for the next

    def abandon(self, worker: Worker, cause: str) -> None:
        """Fail the slot of a worker that died."""
        abandon(self._line, worker, cause)

    def _next(self, worker: Worker) -> tuple[Slot, Any] | None:
        board = self._line.board
        with board.transaction:
            while not self.pool.leaves(worker):
                item = self._line.finishing.take()
                if item is not None:
                    self._line.take_over(worker, item[0])
                    return item
                board.wait(self.pool.bell)
        return None

    def finish(self, worker: Worker, slot: Slot, pending: Any) -> None:
        """Assemble, verify, deliver a slot that the worker has taken over."""
        line, clock = self._line, self._line.board.clock
        knobs = worker.knobs
        assert knobs is not None
        check = knobs.flag("self_check")
        try:
            proofs = _assemble(slot, pending)
            good = _check(slot, proofs) if check else [True] * len(proofs)
        except Exception as error:  # noqa: BLE001 - whatever a workload raises is its job's failure, not the engine's
            now = clock()
            with line.board.transaction:
                line.fail(slot, error, now, worker)
                line.rest(worker)
            return
        now = clock()
        with line.board.transaction:
            line.deliver(slot, proofs, good, check and not is_simulated(slot.workload), now, worker)
            line.rest(worker)


def _assemble(slot: Slot, pending: Any) -> list[bytes]:
    proofs = slot.workload.finish(pending)
    if len(proofs) != slot.size:
        raise RuntimeError(f"{len(proofs)} proofs for {slot.size} partitions")
    return proofs


def _check(slot: Slot, proofs: list[bytes]) -> list[bool]:
    """Which of a slot's proofs verify: all are checked at once, and halves of what fails."""
    inputs, partitions = slot.given()

    def sound(some: Sequence[int]) -> bool:
        return slot.workload.verify(inputs, [partitions[i] for i in some], [proofs[i] for i in some])

    bad = set(faulty(len(proofs), sound))
    return [index not in bad for index in range(len(proofs))]
