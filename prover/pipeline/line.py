"""The production line: what flows from stage to stage, and what happens when a part of it fails.

Every method is called within a transaction of the board. Stages do their work outside, come here to hand over.

A slot may hold parts of several jobs (a batch). It is one piece of work until it is finished; then each part is its own
job's. Where such a slot fails, its parts are made again each in a slot of their own, so that only the job fails that is
to blame.

It is longer than other modules: each hand-over and each end changes the same few counts, and they are read together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from prover.errors import InputError, ProverError
from prover.model import EventKind, FieldValue, JobState, PartitionState, Phase, Priority
from prover.pipeline.admission import Admission
from prover.pipeline.board import Board
from prover.pipeline.budget import TooLarge
from prover.pipeline.channel import Channel
from prover.pipeline.failure import one_line_detail
from prover.pipeline.interfaces import ChecksInputs, JobRequest, JobResult, Workload
from prover.pipeline.keeping import Keeper
from prover.pipeline.knob_book import KnobBook
from prover.pipeline.knobs import KnobSet
from prover.pipeline.pacer import Pacer
from prover.pipeline.pending import FinalizerQueue
from prover.pipeline.records import (
    Draining,
    EngineStopped,
    Job,
    Slot,
    SlotPart,
    Status,
    Worker,
    one_line,
)
from prover.pipeline.scheduler import Assignment, Cut, Part, Scheduler

DRAINS = "the engine drains"
WRONG_PROOF = "proof does not verify: the witness or the key is wrong"


class Line:
    """Scheduler, channel and finalizer queue, with every job that is between them."""

    def __init__(
        self,
        board: Board,
        knobs: KnobSet,
        laggards: Callable[[str, KnobSet], tuple[str, ...]],
        keeper: Keeper,
        admission: Admission,
    ) -> None:
        self.board = board
        self.keeper = keeper
        board.on_span = keeper.timed
        self.scheduler = Scheduler()
        self.admission = admission
        self.channel: Channel[Slot] = Channel(
            board.lock, knobs.integer("synthesis_lookahead"), board.wait, board.condition
        )
        self.book = KnobBook(knobs, laggards, self._knob, board.clock)
        self.finishing = FinalizerQueue()
        self.pacer = Pacer()
        self.sections: deque[float] = deque(maxlen=32)
        """Seconds that the latest slots spent on their devices."""
        self.workloads: Mapping[str, Workload] = {}
        """By circuit; none while they are loaded. The first is what a job means that names none."""
        self.closed: str | None = None
        """Why no job is taken any more."""
        self.draining = False
        """Nothing new is begun; what was begun may end."""
        self.alive = 0
        """Slots that hold memory of a partition."""
        self.most_alive = 0
        """The most that were alive at once."""
        self.synthesising: set[Slot] = set()
        """Slots in synthesis."""
        self.begin_at: float | None = None
        """When ``begin`` is to be asked again although nothing happens: a batch waits to be filled until then."""
        self.batch_waits = False
        """Nothing begins because a batch still fills."""
        self.under_way = 0
        """Slots that were begun and have not ended, those at the finalizers included."""
        self.wake_synthesis: Callable[[], None] = lambda: None
        self.wake_finalizers: Callable[[], None] = lambda: None
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last slot under way has ended."""
        self._surplus_first = False
        """Something was not begun because the channel holds more than it should."""
        self._next_seq = 0
        self._living: dict[str, Job] = {}
        self._by_seq: dict[int, Job] = {}

    @property
    def workload(self) -> Workload | None:
        """The first workload; None while it is loaded."""
        return next(iter(self.workloads.values()), None)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def reserve(self, request: JobRequest, *, again: bool) -> str:
        """A job's id, until ``keeper.release``; raises ``EngineStopped`` or ``InputError``."""
        self._refuse(request, request.id or "")
        return self.keeper.reserve(request.id, self._living, again=again)

    def _refuse(self, request: JobRequest, job_id: str) -> None:
        if self.closed is not None:
            kind = Draining if self.closed == DRAINS else EngineStopped
            raise kind("the job was not taken", job_id, self.closed)
        if self.workloads and request.circuit and request.circuit not in self.workloads:
            raise InputError("no such circuit", request.circuit, f"this engine has {', '.join(self.workloads)}")
        workload = self.workloads.get(request.circuit) or self.workload
        wrong = workload.refusal(request.inputs, request.partitions) if isinstance(workload, ChecksInputs) else None
        if wrong is not None:
            raise InputError("inputs do not match", job_id, wrong)

    def submit(self, request: JobRequest, job_id: str) -> Future[JobResult]:
        """Queue a job under an id that was reserved; raises ``EngineStopped`` or ``InputError``."""
        self._refuse(request, job_id)
        seq = self._next_seq
        self._next_seq += 1
        now = self.board.clock()
        circuit = request.circuit or next(iter(self.workloads), "")
        job = Job.accept(seq, job_id, circuit, request, now)
        job.future.set_running_or_notify_cancel()
        ahead = len(self.board.jobs)
        self._living[job_id] = self._by_seq[seq] = job
        self.board.add_job(job)
        missing = tuple(index for index, proof in enumerate(job.proofs) if proof is None)
        there = request.partitions - len(missing)
        self.board.count(jobs_submitted=1)
        self.board.announce(
            EventKind.JOB_SUBMITTED,
            now,
            job=job,
            partitions=tuple(range(request.partitions)),
            fields={
                "circuit": circuit,
                "partitions": request.partitions,
                "ahead": ahead,
                "priority": request.priority.name.lower(),
                "deadline": request.deadline,
                **({"resumed": there} if there else {}),
            },
        )
        if not missing:
            self._conclude(job, now, None)
            return job.future
        self.scheduler.submit(
            seq,
            missing,
            circuit=self._sort(request),
            priority=request.priority,
            deadline=request.deadline,
            now=now,
        )
        self._make_way()
        self.wake_synthesis()
        return job.future

    def take_workloads(self, workloads: Mapping[str, Workload]) -> None:
        """Prove these from now on. Jobs that came meanwhile for a circuit that is not among them fail."""
        self.workloads = dict(workloads)
        self.admission.attach(workloads)
        for job in self.board.jobs:
            if job.request.circuit and job.request.circuit not in workloads:
                why = f"job {job.id}: no such circuit: {job.request.circuit}: this engine has {', '.join(workloads)}"
                self._end(job, JobState.FAILED, self.board.clock(), None, why)

    def cancel(self, job_id: str) -> bool:
        """Cancel what is left of a job; False if no such job is alive."""
        job = self._living.get(job_id)
        if job is None:
            return False
        self._end(job, JobState.CANCELLED, self.board.clock(), None, None)
        return True

    def cancel_remaining(self, job_id: str) -> int:
        """Cancel the partitions of a job that were not begun; how many these are. The rest ends, then the job does."""
        job = self._living.get(job_id)
        left = () if job is None else self.scheduler.remaining(job.seq)
        if job is None or not left:
            return 0
        if not job.under_way and not any(job.proofs):
            self.cancel(job_id)
            return len(left)
        now = self.board.clock()
        self.scheduler.drop(job.seq)
        job.trimmed = True
        self.keeper.withdrawn(job.id, "what was not begun was cancelled")  # what is under way will not be delivered
        self.board.synthesised(job, len(left))
        self.board.mark(job, left, PartitionState.CANCELLED)
        self.board.announce(EventKind.PARTITION_CANCELLED, now, job=job, partitions=left)
        self._conclude(job, now, None)
        return len(left)

    def reprioritise(self, job_id: str, priority: Priority) -> bool:
        """Give a living job another priority; False if there is no such job. What was begun of it moves up (or down)
        at its next choice.
        """
        job = self._living.get(job_id)
        if job is None:
            return False
        if priority is not job.priority:
            now = self.board.clock()
            old, job.priority, job.standing = job.priority, priority, priority
            self.scheduler.reprioritise(job.seq, priority, now)
            self.keeper.reprioritised(job)
            fields = {"old": old.name.lower(), "new": priority.name.lower()}
            self.board.announce(EventKind.JOB_REPRIORITISED, now, job=job, fields=fields)
            self._make_way()
            self.wake_synthesis()
        return True

    def cancel_all(self, why: str) -> None:
        """Cancel every job. The journal keeps them open: the next session resumes them."""
        for job in self.board.jobs:
            self._end(job, JobState.CANCELLED, self.board.clock(), None, why, resumes=True)

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
        self.board.acknowledge(worker, worker.knobs.generation)

    def rest(self, worker: Worker) -> None:
        """A worker is done with its slot."""
        worker.slot = None
        worker.blocked = False
        worker.knobs = None

    def begin(self, worker: Worker) -> Slot | None:
        """The slot to synthesise now, if any may be begun."""
        self.begin_at, self.batch_waits = None, False
        knobs, now = self.book.current, self.board.clock()
        size = knobs.integer("slot_size")
        how = Cut(
            size, knobs.integer("max_batch_size"), knobs.integer("max_batch_wait_ms") / 1000, knobs.flag("sort_by_type")
        )
        may = self._may_begin(how, now, worker)
        assignment = None if may is None else self.scheduler.next(may, now)
        if assignment is None:
            return None
        self.pacer.begun(now)
        self._start(assignment, size, now, worker)
        slot = self._slot(assignment)
        self.admission.claim(slot)
        self.take_over(worker, slot)
        self.board.turn(slot, Phase.SYNTHESIS, now, worker)
        return slot

    def _may_begin(self, how: Cut, now: float, worker: Worker) -> Cut | None:
        """How the slot is cut that may be begun, if there is one and memory for it. A batch that never fits is made
        smaller; jobs for which there never can be memory fail.
        """
        if self.board.paused or self.draining or not self.workloads:
            pass
        elif self.channel.surplus and not self.scheduler.critical:
            self._surplus_first = True  # laid down for a critical job, or left by a channel that shrank
        elif not self._paced(self.book.current, now):
            self.begin_at = self.pacer.ready_at
        else:
            fits = how
            while (parts := self.scheduler.peek(fits, now)) is not None:
                slot = [SlotPart(self._by_seq[part.job], part.partitions) for part in parts]
                try:
                    return fits if self.admission.admits(slot, self.circuit_of(slot[0].job)) else None
                except TooLarge as error:
                    if len(slot) > 1 and fits.max_batch_size > 1:
                        fits = replace(fits, max_batch_size=min(len(slot), fits.max_batch_size) - 1)
                    else:
                        self._end(slot[0].job, JobState.FAILED, now, worker, one_line(error))
                        fits = how
            self.begin_at = self.scheduler.ready_at
            self.batch_waits = self.begin_at is not None
        self.admission.withdraw()
        return None

    def circuit_of(self, job: Job) -> str:
        """Which circuit it is of."""
        return job.request.circuit or next(iter(self.workloads), "")

    def _paced(self, knobs: KnobSet, now: float) -> bool:
        """Whether ``max_gpu_queue_depth`` lets another synthesis begin."""
        if self.scheduler.critical:
            return True
        target, channel = knobs.integer("max_gpu_queue_depth"), self.channel
        waiting = channel.queued + channel.held
        wanted = not self.scheduler.empty
        return self.pacer.may_begin(target, waiting, len(self.synthesising), channel.waiting, now, wanted)

    def _start(self, assignment: Assignment, size: int, now: float, worker: Worker) -> None:
        """The first slot of a job, or of the jobs of a batch, is begun."""
        for seq in {*assignment.members, *(part.job for part in assignment.parts)}:
            self._by_seq[seq].standing = assignment.standing
        for seq in assignment.members:
            job = self._by_seq[seq]
            assert assignment.cut_to is not None
            job.slot_size, job.cut_under = assignment.cut_to, size
            job.circuit = self.circuit_of(job)
            job.status = Status(JobState.RUNNING, started=now)
            batch = len(assignment.members)
            fields: dict[str, FieldValue] = {"slot_size": job.slot_size, "circuit": job.circuit, "batch": batch}
            self.board.announce(EventKind.JOB_STARTED, now, worker, job=job, fields=fields)

    def _slot(self, assignment: Assignment) -> Slot:
        parts = tuple(SlotPart(self._by_seq[part.job], part.partitions) for part in assignment.parts)
        slot = Slot.link(parts, self.workloads[parts[0].job.circuit], assignment.attempt)
        self.under_way += 1
        self.synthesising.add(slot)
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        return slot

    def _sort(self, request: JobRequest) -> str:
        """What jobs are told apart by when they are grouped: the circuit, where there are several."""
        return request.circuit if len(self.workloads) > 1 else ""

    def _make_way(self) -> None:
        """A critical job came: of those who hold a finished slot in hand, one lays it down beyond the bound for it."""
        if self._critical_waits and not self.channel.laid_down:
            self.channel.overflow(lambda slot: not slot.urgent)

    @property
    def _critical_waits(self) -> bool:
        """Whether something critical is to be begun and nobody is at it."""
        return self.scheduler.critical and not any(slot.urgent for slot in self.synthesising)

    def queue(self, slot: Slot, now: float, worker: Worker) -> None:
        """Hand a synthesised slot to the GPU workers; waits while the channel is full."""
        self.pacer.synthesised(now - slot.began)
        self._synthesised(slot)
        if slot.over:
            self._leave(slot, now, worker, ok=False)
            return
        self.board.turn(slot, Phase.QUEUED, now, worker)
        worker.blocked = True  # seen by others only if the channel makes it wait
        beyond = self._critical_waits and not slot.urgent and not self.channel.laid_down
        if not self.channel.put(slot, slot.key, beyond=beyond):
            self._leave(slot, self.board.clock(), worker, ok=False)

    def proved(self, locked_s: float, section_s: float, workers: int) -> None:
        """A slot has left its device: seconds under its lock, and on the device without the wait for that."""
        self.sections.append(section_s)
        self.pacer.proved(locked_s, section_s, workers, self.board.proving)

    def taken(self) -> None:
        """A worker took a slot: another synthesis may begin."""
        if self.book.current.integer("max_gpu_queue_depth"):
            self.wake_synthesis()
        self._worked_off()

    def _worked_off(self) -> None:
        """Slots left the channel: if one was not begun because of too many in it, it may be now."""
        if self._surplus_first and not self.channel.surplus:
            self._surplus_first = False
            self.wake_synthesis()

    def finalize(self, slot: Slot, now: float, worker: Worker, active: float | None) -> bool:
        """A slot has left its device; False if nobody wants it any more."""
        fields = {} if active is None else {"gpu_active_s": active}
        if slot.over:
            self._leave(slot, now, worker, ok=False)
            return False
        self.board.turn(slot, Phase.FINALIZING, now, worker, fields=fields)
        self.let_go(slot)
        return True

    def pend(self, slot: Slot, pending: Any) -> None:
        """A slot waits for a finalizer."""
        self.finishing.put(slot, pending)
        self.wake_finalizers()

    # -- ends ---------------------------------------------------------------------------------------------------------

    def deliver(
        self, slot: Slot, proofs: Sequence[bytes], good: Sequence[bool], checked: bool, now: float, worker: Worker
    ) -> None:
        """A slot's proofs are there; ``good`` tells for each whether it may be delivered, ``checked`` whether it was
        verified. A bad one goes nowhere: its partition is made again once, then its job fails.
        """
        self._leave(slot, now, worker, ok=all(good) and not slot.over, fields={"verified": checked})
        first = 0
        for part in slot.parts:
            end = first + len(part.partitions)
            fate = list(zip(part.partitions, proofs[first:end], good[first:end], strict=True))
            first = end
            bad = tuple(index for index, _, well in fate if not well)
            if bad:
                self._withhold(slot, part.job, bad, now, worker)
            fine = {index: proof for index, proof, well in fate if well}
            if fine and not part.job.over:
                self._accept(slot, part.job, fine, checked, now, worker)
            self._conclude(part.job, now, worker)

    def _accept(
        self, slot: Slot, job: Job, proofs: Mapping[int, bytes], checked: bool, now: float, worker: Worker
    ) -> None:
        self.keeper.proved(job, proofs, checked, self.board.device_of(slot))
        for index, proof in proofs.items():
            job.proofs[index] = proof
        job.verified = job.verified and checked
        self.board.count(partitions_done=len(proofs), proofs_verified=len(proofs) if checked else 0)
        self.board.mark(job, tuple(proofs), PartitionState.DONE)
        fields = {"bytes": sum(map(len, proofs.values()))}
        self.board.announce(EventKind.PARTITION_DONE, now, worker, job=job, partitions=tuple(proofs), fields=fields)

    def _withhold(self, slot: Slot, job: Job, bad: tuple[int, ...], now: float, worker: Worker) -> None:
        self.keeper.rejected(job, bad, self.board.device_of(slot))
        self.board.count(proofs_withheld=len(bad))
        self.board.announce(
            EventKind.PROOF_WITHHELD,
            now,
            worker,
            job=job,
            partitions=bad,
            device=slot.device,
            fields={"attempt": slot.attempt},
        )
        if job.over:
            return
        if slot.attempt == 0:
            self._again(job, bad, 1, now)
        else:
            self.fail_partitions(job, bad, now, worker, Phase.FINALIZING, WRONG_PROOF)

    def _conclude(self, job: Job, now: float, worker: Worker | None) -> None:
        """End a job that has all its proofs, or all that it will get."""
        if job.over:
            return
        done = [proof for proof in job.proofs if proof is not None]
        if len(done) == len(job.proofs):
            result = JobResult(job.id, tuple(done), job.submitted, now, job.verified)
            self._end(job, JobState.DONE, now, worker, None, result)
        elif job.trimmed and not job.under_way and not self.scheduler.remaining(job.seq):
            why = f"what was not begun was cancelled: {len(done)} of {len(job.proofs)} partitions are done"
            self._end(job, JobState.CANCELLED, now, worker, why)

    def fail(self, slot: Slot, error: BaseException | str, now: float, worker: Worker) -> None:
        """A step of a slot raised: its job fails at once, everything that the job holds is given up. Where several jobs
        share the slot nobody knows yet whose fault it is.
        """
        phase = slot.phase
        if phase is Phase.SYNTHESIS:
            self.pacer.failed()
            self._synthesised(slot)
        self._leave(slot, now, worker, ok=False)
        cause, detail = (error, None) if isinstance(error, str) else (one_line(error), one_line_detail(error))
        if len(slot.parts) == 1:
            self.fail_partitions(slot.job, slot.partitions, now, worker, phase, cause, detail)
        else:
            self._make_again(slot, f"made again apart: {cause}", now, worker, detail)

    def requeue(self, slot: Slot, error: ProverError, now: float, worker: Worker) -> None:
        """A device failed a slot that another, or less crowded one can make: it is made again from synthesis on."""
        self._leave(slot, now, worker, ok=False)
        self._make_again(slot, one_line(error), now, worker)

    def _make_again(self, slot: Slot, why: str, now: float, worker: Worker, detail: str | None = None) -> None:
        for job, partitions in slot.parts:
            if job.over:
                continue
            self.board.announce(
                EventKind.SLOT_REQUEUED,
                now,
                worker,
                job=job,
                partitions=partitions,
                device=slot.device,
                fields={"error": why} if detail is None else {"error": why, "detail": detail},
            )
            self._again(job, partitions, slot.attempt, now)

    def _again(self, job: Job, partitions: tuple[int, ...], attempt: int, now: float) -> None:
        self.board.mark(job, partitions, PartitionState.PENDING)
        self.board.synthesised(job, -len(partitions))
        self.scheduler.again(
            Part(job.seq, partitions),
            attempt,
            circuit=self._sort(job.request),
            priority=job.priority,
            deadline=job.request.deadline,
            submitted=job.submitted,
            now=now,
        )
        self.wake_synthesis()

    def drop(self, slot: Slot, now: float, worker: Worker) -> None:
        """A step of a slot stopped because nobody wants it any more."""
        if slot.phase is Phase.SYNTHESIS:
            self._synthesised(slot)
        self._leave(slot, now, worker, ok=False)

    def _synthesised(self, slot: Slot) -> None:
        """A slot's partitions wait for synthesis no more."""
        self.synthesising.discard(slot)
        for job, partitions in slot.parts:
            self.board.synthesised(job, len(partitions))

    def let_go(self, slot: Slot) -> None:
        """The slot holds no memory of a partition any more."""
        slot.synthesis = None
        self.admission.freed(slot)
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
        if slot.ended:
            return
        slot.ended = True
        self.under_way -= 1
        slot.unlink()
        if self.book.current.integer("max_gpu_queue_depth"):
            self.wake_synthesis()
        if not self.under_way:
            self.on_idle()

    def fail_partitions(
        self,
        job: Job,
        partitions: tuple[int, ...],
        now: float,
        worker: Worker,
        phase: Phase | None,
        cause: str,
        detail: str | None = None,
    ) -> None:
        """Partitions of a job failed, and the job with them."""
        if job.over:
            return
        numbers = ", ".join(map(str, partitions))
        where = f"job {job.id}, partition {numbers}" + (f", {phase}" if phase is not None else "")
        self.board.mark(job, partitions, PartitionState.FAILED, cause)
        self.board.count(partitions_failed=len(partitions))
        self.board.announce(
            EventKind.PARTITION_FAILED,
            now,
            worker,
            job=job,
            partitions=partitions,
            phase=phase,
            fields={"error": cause} if detail is None else {"error": cause, "detail": detail},
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
        *,
        resumes: bool = False,
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
        del self._living[job.id], self._by_seq[job.seq]
        self.board.retire_job(job)
        kind, counter = _ENDINGS[state]
        self.board.announce(kind, now, worker, job=job, fields={"error": error} if error else {})
        if counter is not None:
            self.board.count(**{counter: 1})
        if result is not None:
            self.board.deliveries.append(self.keeper.done(job, result))
            return
        self._release(job)
        self.board.deliveries.append(self.keeper.ended(job, state, error, resumes=resumes))

    def _knob(self, kind: EventKind, fields: dict[str, FieldValue]) -> None:
        self.board.announce(kind, self.board.clock(), fields=fields)
        self.keeper.knob(kind, fields, self.book.current.generation)

    def _release(self, job: Job) -> None:
        """Stop what runs for a job and drop what waits."""
        job.token.cancel()
        for slot in job.shared:
            if slot.over:
                slot.token.cancel()
        self.scheduler.drop(job.seq)
        if self.admission.waits:
            self.wake_synthesis()  # another slot is next
        now = self.board.clock()
        for slot in self.channel.withdraw(lambda slot: slot.over):
            self._leave(slot, now, None, ok=False)
        self._worked_off()
        for record in self.board.devices.values():
            record.lock.wake()
        for slot in self.finishing.withdraw():
            self._leave(slot, now, None, ok=False)


_FINAL = frozenset({PartitionState.DONE, PartitionState.FAILED, PartitionState.CANCELLED})
_ENDINGS: dict[JobState, tuple[EventKind, str | None]] = {
    JobState.DONE: (EventKind.JOB_DONE, "jobs_done"),
    JobState.FAILED: (EventKind.JOB_FAILED, "jobs_failed"),
    JobState.CANCELLED: (EventKind.JOB_CANCELLED, None),
}
