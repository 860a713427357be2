"""What a worker that died had in hand: its jobs are told, be it that it was at work or just handing something over."""

from __future__ import annotations

from prover.model import PartitionState
from prover.pipeline.line import Line
from prover.pipeline.records import Worker

_SETTLED = frozenset({PartitionState.PENDING, PartitionState.DONE, PartitionState.FAILED, PartitionState.CANCELLED})


def abandon(line: Line, worker: Worker, cause: str) -> None:
    """Fail it. Called within a transaction."""
    slot = worker.slot
    if slot is None:
        return
    why, now = f"the worker died: {cause}", line.board.clock()
    if not slot.ended:
        line.fail(slot, why, now, worker)
        return
    for job, partitions in slot.parts:  # it had left the line: what of it came to no end is nobody's any more
        lost = tuple(index for index in partitions if job.views[index].state not in _SETTLED)
        if lost:
            line.fail_partitions(job, lost, now, worker, None, why)
