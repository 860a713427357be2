"""The production line: what flows from stage to stage, and what happens when a part of it fails.

Every method is called within a transaction of the board. Stages do their work outside, come here to hand over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

from prover.errors import ProverError
from prover.model import EventKind, FieldValue, JobState, PartitionState, Phase
from prover.pipeline.board import Board
from prover.pipeline.channel import Channel, Key
from prover.pipeline.interfaces import JobRequest, JobResult, Workload
from prover.pipeline.knob_book import KnobBook
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import (
    DuplicateJob,
    EngineStopped,
    Job,
    JobCancelled,
    JobFailed,
    Slot,
    Status,
    Worker,
    one_line,
)
from prover.pipeline.scheduler import Scheduler


class Line:
    """Scheduler, channel and finalizer queue, with every job that is between them."""

    def __init__(self, board: Board, knobs: KnobSet, laggards: Callable[[str, KnobSet], tuple[str, ...]]) -> None:
        self.board = board
        self.scheduler = Scheduler()
        self.channel: Channel[Slot] = Channel(
            board.lock, knobs.integer("synthesis_lookahead"), board.wait, board.condition
        )
        self.book = KnobBook(
            knobs,
            laggards,
            lambda kind, fields: board.announce(kind, board.clock(), fields=fields),
            board.clock,
        )
        self.workload: Workload | None = None
        self.closed: str | None = None
        """Why no job is taken any more."""
        self.draining = False
        """Nothing new is begun; what was begun may end."""
        self.alive = 0
        """Slots that hold memory of a partition."""
        self.most_alive = 0
        """The most that were alive at once."""
        self.under_way = 0
        """Slots that were begun and have not ended, those at the finalizers included."""
        self.wake_synthesis: Callable[[], None] = lambda: None
        self.wake_finalizers: Callable[[], None] = lambda: None
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last slot under way has ended."""
        self._next_seq = 0
        self._living: dict[str, Job] = {}
        self._pending: list[tuple[Key, Slot, Any]] = []

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> Future[JobResult]:
        """Queue a job; raises ``EngineStopped`` or ``DuplicateJob``."""
        if self.closed is not None:
            raise EngineStopped("the job was not taken", request.id or "", self.closed)
        seq = self._next_seq
        job_id = request.id if request.id is not None else f"{seq:04d}"
        if job_id in self._living:
            raise DuplicateJob("a job of that id is alive", job_id, "give each job its own id")
        self._next_seq += 1
        now = self.board.clock()
        circuit = self.workload.circuit if self.workload is not None else ""
        job = Job.accept(seq, job_id, circuit, request, now)
        job.future.set_running_or_notify_cancel()
        ahead = len(self.board.jobs)
        self._living[job_id] = job
        self.board.add_job(job)
        self.scheduler.submit(seq, request.partitions)
        self.board.count(jobs_submitted=1)
        self.board.announce(
            EventKind.JOB_SUBMITTED,
            now,
            job=job,
            partitions=tuple(range(request.partitions)),
            fields={"circuit": circuit, "partitions": request.partitions, "ahead": ahead},
        )
        self.wake_synthesis()
        return job.future

    def cancel(self, job_id: str) -> bool:
        """Cancel what is left of a job; False if no such job is alive."""
        job = self._living.get(job_id)
        if job is None:
            return False
        self._end(job, JobState.CANCELLED, self.board.clock(), None, None)
        return True

    def cancel_all(self, why: str) -> None:
        """Cancel every job."""
        for job in self.board.jobs:
            self._end(job, JobState.CANCELLED, self.board.clock(), None, why)

    def fail_all(self, why: str) -> None:
        """Fail every job."""
        for job in self.board.jobs:
            self._end(job, JobState.FAILED, self.board.clock(), None, f"job {job.id}: {why}")

    # -- hand-over points ---------------------------------------------------------------------------------------------

    def take_over(self, worker: Worker, slot: Slot) -> None:
        """A worker begins with a slot: from here to its end under one set of knobs."""
        worker.slot = slot
        worker.blocked = False
        worker.knobs = self.book.current
        if worker.seen != worker.knobs.generation:
            if worker.seen >= 0:
                self.board.announce(
                    EventKind.KNOB_ACKNOWLEDGED,
                    self.board.clock(),
                    worker,
                    device=worker.device,
                    fields={"generation": worker.knobs.generation},
                )
            worker.seen = worker.knobs.generation

    def rest(self, worker: Worker) -> None:
        """A worker is done with its slot."""
        worker.slot = None
        worker.blocked = False
        worker.knobs = None

    def begin(self, worker: Worker) -> Slot | None:
        """The slot to synthesise now, if any may be begun."""
        if self.board.paused or self.draining or self.workload is None:
            return None
        size = self.book.current.integer("slot_size")
        assignment = self.scheduler.next(size)
        if assignment is None:
            return None
        job = next(job for job in self.board.jobs if job.seq == assignment.job)
        now = self.board.clock()
        if assignment.cut_to is not None:
            job.slot_size, job.cut_under = assignment.cut_to, size
            job.circuit = self.workload.circuit
            job.status = Status(JobState.RUNNING, started=now)
            self.board.announce(
                EventKind.JOB_STARTED, now, worker, job=job, fields={"slot_size": job.slot_size, "circuit": job.circuit}
            )
        slot = Slot(job, assignment.partitions, assignment.attempt)
        self.under_way += 1
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        self.take_over(worker, slot)
        self.board.turn(slot, Phase.SYNTHESIS, now, worker)
        return slot

    def queue(self, slot: Slot, synthesis: Any, now: float, worker: Worker) -> None:
        """Hand a synthesised slot to the GPU workers; waits while the channel is full."""
        self.board.synthesised(slot.job, len(slot.partitions))
        if slot.job.over:
            self._leave(slot, now, worker, ok=False)
            return
        slot.synthesis = synthesis
        self.board.turn(slot, Phase.QUEUED, now, worker)
        worker.blocked = True  # seen by others only if the channel makes it wait
        if not self.channel.put(slot, slot.key):
            self._leave(slot, self.board.clock(), worker, ok=False)

    def finalize(self, slot: Slot, pending: Any, now: float, worker: Worker, active: float | None) -> None:
        """Hand a slot from its device to the finalizers."""
        fields = {} if active is None else {"gpu_active_s": active}
        if slot.job.over:
            self._leave(slot, now, worker, ok=False)
            return
        self.board.turn(slot, Phase.FINALIZING, now, worker, fields=fields)
        self.let_go(slot)
        heappush(self._pending, (slot.key, slot, pending))  # keys differ, so slots are never compared
        self.wake_finalizers()

    def next_pending(self) -> tuple[Slot, Any] | None:
        """The oldest slot that waits for a finalizer."""
        if not self._pending:
            return None
        _, slot, pending = heappop(self._pending)
        return slot, pending

    @property
    def pending(self) -> int:
        """Slots that wait for a finalizer."""
        return len(self._pending)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def deliver(self, slot: Slot, proofs: list[bytes], verified: bool, now: float, worker: Worker) -> None:
        """A slot's proofs are good; the last slot of a job delivers it."""
        job = slot.job
        self._leave(slot, now, worker, ok=not job.over, fields={"verified": verified})
        if job.over:
            return
        for index, proof in zip(slot.partitions, proofs, strict=True):
            job.proofs[index] = proof
        job.verified = job.verified and verified
        count = len(slot.partitions)
        self.board.count(partitions_done=count, proofs_verified=count if verified else 0)
        self.board.mark(job, slot.partitions, PartitionState.DONE)
        fields = {"bytes": sum(map(len, proofs))}
        self.board.announce(EventKind.PARTITION_DONE, now, worker, job=job, partitions=slot.partitions, fields=fields)
        done = [proof for proof in job.proofs if proof is not None]
        if len(done) == len(job.proofs):
            result = JobResult(job.id, tuple(done), job.submitted, now, job.verified)
            self._end(job, JobState.DONE, now, worker, None, result)

    def withhold(self, slot: Slot, now: float, worker: Worker) -> None:
        """A slot's proofs do not verify: they go nowhere, the slot is made again once, then its job fails."""
        job, count = slot.job, len(slot.partitions)
        self._leave(slot, now, worker, ok=False)
        self.board.count(proofs_withheld=count)
        fields = {"attempt": slot.attempt}
        self.board.announce(EventKind.PROOF_WITHHELD, now, worker, job=job, partitions=slot.partitions, fields=fields)
        if job.over:
            return
        if slot.attempt == 0:
            self._again(slot, attempt=1)
        else:
            cause = "proof does not verify: the witness or the key is wrong"
            self._fail(slot, now, worker, Phase.FINALIZING, cause)

    def fail(self, slot: Slot, error: BaseException | str, now: float, worker: Worker) -> None:
        """A step of a slot raised: its job fails at once, everything that the job holds is given up."""
        phase = slot.phase
        if phase is Phase.SYNTHESIS:
            self.board.synthesised(slot.job, len(slot.partitions))
        self._leave(slot, now, worker, ok=False)
        cause = error if isinstance(error, str) else one_line(error)
        self._fail(slot, now, worker, phase, cause)

    def requeue(self, slot: Slot, error: ProverError, now: float, worker: Worker) -> None:
        """A device failed a slot that another, or less crowded one can make: it is made again from synthesis on."""
        job = slot.job
        self._leave(slot, now, worker, ok=False)
        if job.over:
            return
        self.board.announce(
            EventKind.SLOT_REQUEUED,
            now,
            worker,
            job=job,
            partitions=slot.partitions,
            device=slot.device,
            fields={"error": one_line(error)},
        )
        self._again(slot, slot.attempt)

    def _again(self, slot: Slot, attempt: int) -> None:
        self.board.mark(slot.job, slot.partitions, PartitionState.PENDING)
        self.board.synthesised(slot.job, -len(slot.partitions))
        self.scheduler.again(slot.job.seq, slot.partitions, attempt)
        self.wake_synthesis()

    def drop(self, slot: Slot, now: float, worker: Worker) -> None:
        """A step of a slot stopped because its job is over."""
        if slot.phase is Phase.SYNTHESIS:
            self.board.synthesised(slot.job, len(slot.partitions))
        self._leave(slot, now, worker, ok=False)

    def let_go(self, slot: Slot) -> None:
        """The slot holds no memory of a partition any more."""
        slot.synthesis = None
        if slot.alive:
            slot.alive = False
            self.alive -= 1

    def _leave(
        self,
        slot: Slot,
        now: float,
        worker: Worker | None,
        *,
        ok: bool,
        fields: Mapping[str, FieldValue] | None = None,
    ) -> None:
        """The slot ends here. Its last phase ends with it."""
        self.board.turn(slot, None, now, worker, ok=ok, fields=fields)
        self.let_go(slot)
        if not slot.ended:
            slot.ended = True
            self.under_way -= 1
            if not self.under_way:
                self.on_idle()

    def _fail(self, slot: Slot, now: float, worker: Worker, phase: Phase | None, cause: str) -> None:
        job = slot.job
        if job.over:
            return
        numbers = ", ".join(map(str, slot.partitions))
        where = f"job {job.id}, partition {numbers}" + (f", {phase}" if phase is not None else "")
        self.board.mark(job, slot.partitions, PartitionState.FAILED, cause)
        self.board.count(partitions_failed=len(slot.partitions))
        self.board.announce(
            EventKind.PARTITION_FAILED,
            now,
            worker,
            job=job,
            partitions=slot.partitions,
            phase=phase,
            fields={"error": cause},
        )
        self._end(job, JobState.FAILED, now, worker, f"{where}: {cause}")

    def _end(
        self,
        job: Job,
        state: JobState,
        now: float,
        worker: Worker | None,
        error: str | None,
        result: JobResult | None = None,
    ) -> None:
        """End a job, once: give up what it holds, tell, and set its future when the lock is free."""
        if job.over:
            return
        if result is None:
            left = tuple(view.index for view in job.views if view.state not in _FINAL)
            self.board.mark(job, left, PartitionState.CANCELLED)
            if left:
                self.board.announce(EventKind.PARTITION_CANCELLED, now, worker, job=job, partitions=left)
        job.status = Status(state, job.status.started, now, error)
        del self._living[job.id]
        self.board.retire_job(job)
        kind, counter = _ENDINGS[state]
        self.board.announce(kind, now, worker, job=job, fields={"error": error} if error else {})
        if counter is not None:
            self.board.count(**{counter: 1})
        if result is not None:
            self.board.deliveries.append(partial(job.future.set_result, result))
            return
        self._release(job)
        self.board.deliveries.append(partial(job.future.set_exception, _failure(job, state, error)))

    def _release(self, job: Job) -> None:
        """Stop what runs for a job and drop what waits."""
        job.token.cancel()
        self.scheduler.drop(job.seq)
        now = self.board.clock()
        for slot in self.channel.withdraw(lambda slot: slot.job is job):
            self._leave(slot, now, None, ok=False)
        for record in self.board.devices.values():
            record.lock.wake()
        dropped = [entry for entry in self._pending if entry[1].job is job]
        if dropped:
            self._pending = [entry for entry in self._pending if entry[1].job is not job]
            heapify(self._pending)
            for _, slot, _ in dropped:
                self._leave(slot, now, None, ok=False)


_FINAL = frozenset({PartitionState.DONE, PartitionState.FAILED, PartitionState.CANCELLED})
_ENDINGS: dict[JobState, tuple[EventKind, str | None]] = {
    JobState.DONE: (EventKind.JOB_DONE, "jobs_done"),
    JobState.FAILED: (EventKind.JOB_FAILED, "jobs_failed"),
    JobState.CANCELLED: (EventKind.JOB_CANCELLED, None),
}


def _failure(job: Job, state: JobState, error: str | None) -> ProverError:
    if state is JobState.FAILED:
        return JobFailed("job failed", error or "")
    return JobCancelled("job cancelled", f"job {job.id}", error or "")
