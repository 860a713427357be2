"""How a job comes in: it gets its id, is on the journal's disk where there is a journal, then it queues.

No lock is held while the disk is waited for. Until then the job is in no picture and nothing of it begins;
only its id is taken.
"""

from __future__ import annotations

from concurrent.futures import Future

from prover.errors import InputError, ProverError
from prover.pipeline.board import Board
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.line import Line
from prover.pipeline.records import DuplicateJob


class Intake:
    """The line's entrance. Called with no lock held, from any thread."""

    def __init__(self, board: Board, line: Line) -> None:
        self._board = board
        self._line = line

    def take(self, request: JobRequest, *, again: bool = False) -> Future[JobResult]:
        """Queue a job. ``again``: the journal holds it already.

        Raises:
            EngineStopped: if no job is taken any more.
            InputError: if the request cannot be used, or its id was.
        """
        if request.partitions < 1:
            raise InputError("a job has at least one partition", request.id or "", f"not {request.partitions}")
        line, transaction = self._line, self._board.transaction
        with transaction:
            job = line.reserve(request, again=again)
            if again or line.keeper.journal is None:
                try:
                    return line.submit(request, job)
                finally:
                    line.keeper.release(job)
            circuit = request.circuit or next(iter(line.workloads), "")
        try:
            line.keeper.submitted(job, request, circuit)
            return self._admit(request, job)
        except DuplicateJob:
            if request.id is not None:
                raise
        finally:
            with transaction:
                line.keeper.release(job)
        return self.take(request)  # an earlier session's job was named by this number

    def _admit(self, request: JobRequest, job: str) -> Future[JobResult]:
        """Queue a job that is kept. One that is refused after all was never acknowledged."""
        try:
            with self._board.transaction:
                return self._line.submit(request, job)
        except ProverError as error:
            self._line.keeper.withdrawn(job, str(error))
            raise


__all__ = ["Intake"]
