"""What the engine tells the journal, and what it waits for: the seam between the line and ``Journal``.

Without a journal every method does nothing. With one, what is told within a transaction is appended to the journal's
queue and costs some microseconds; what has to be on the disk is waited for outside the engine's lock: a job's
submission before its future is given out, its hand-over before the future is set. A clock that is not real time stands
still meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Mapping
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING

from prover.errors import InputError, ProverError
from prover.model import EventKind, FieldValue, JobState, KnobValue, Span
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.journal_records import ENDED, JobEntry, KnobEntry, Stage, TimingEntry
from prover.pipeline.records import DuplicateJob, Job, JobCancelled, JobFailed, Slot, one_line

if TYPE_CHECKING:
    from prover.pipeline.board import DeviceRecord
    from prover.pipeline.clock import EngineClock
    from prover.pipeline.journal import Answer, Journal

HandOver = Callable[[], None]
"""Sets a job's future. Called with no lock held, once; may wait for the disk."""


def device_key(uuid: str, name: str) -> str:
    """What the validity ledger knows a device by: a GPU by its UUID, another by its name."""
    return uuid or name


class Keeper:
    """What is kept of jobs, knobs and devices. Made before the engine's threads; reads the journal then, not later."""

    def __init__(self, journal: Journal | None, clock: EngineClock, wall: Callable[[], float] = time.time) -> None:
        self.journal = journal
        self._wall = wall
        self._offset = wall() - clock()
        self._prefix = ""
        self._number = 0
        self._reserved: set[str] = set()
        """Ids of jobs that are on their way in."""
        self._tallies: dict[str, tuple[int, int]] = {}
        self._rejected: dict[str, set[tuple[int, str]]] = {}
        """Of living jobs: which partition did not verify, made where."""
        if journal is not None:
            number = journal.next_number()
            self._number = number or 0
            self._prefix = "" if number is not None else f"{token_hex(2)}-"  # ids must not meet those that it holds
            self._tallies = {tally.device: (tally.good, tally.bad) for tally in journal.devices()}

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def reserve(self, given: str | None, living: Container[str], *, again: bool) -> str:
        """An id that no living job has and no other gets until ``release``, ``given`` or made. Called within a
        transaction. ``again``: it was given in an earlier session.

        Raises:
            DuplicateJob: the id that was given is taken.
        """
        job = given if given is not None else self._made()
        while given is None and (job in living or job in self._reserved):
            self._number += 1  # somebody gave this number to a job as its name
            job = self._made()
        if job in living or job in self._reserved:
            raise DuplicateJob("a job of that id is alive", job, "give each job its own id")
        self._reserved.add(job)
        if not again:
            self._number += 1  # for jobs with names of their own too
        return job

    def release(self, job: str) -> None:
        """A job is in, or is not to come in any more."""
        self._reserved.discard(job)

    def _made(self) -> str:
        """A number that no job had in this session or in one that the journal remembers, unless as a given name."""
        return f"{self._prefix}{self._number:04d}"

    def submitted(self, job: str, request: JobRequest, circuit: str) -> None:
        """Keep a job before it is acknowledged. Waits for the disk: never within a transaction.

        A journal that cannot be written answers at once, and the job goes on without it.

        Raises:
            DuplicateJob: another job had this id.
            InputError: if the request cannot be kept.
        """
        if self.journal is None:
            return
        try:
            json.dumps(dict(request.origin))
        except (TypeError, ValueError) as error:
            raise InputError("a job's origin is not JSON", job, str(error)) from error
        deadline = None if request.deadline is None else request.deadline + self._offset  # equal ones stay equal
        entry = JobEntry(
            job,
            circuit,
            request.partitions,
            self._wall(),
            int(request.priority),
            deadline,
            request.origin,
            request.files,
        )
        answer = self.journal.submit(entry).result()
        if answer.refused:
            raise DuplicateJob("a job of that id was submitted before", job, "give each job its own id")

    def reprioritised(self, job: Job) -> None:
        """A living job has another priority."""
        if self.journal is not None:
            self.journal.prioritised(job.id, int(job.priority))

    def withdrawn(self, job: str, why: str) -> None:
        """A job that was kept is not taken after all, or will not be delivered: no session is to resume it."""
        if self.journal is not None:
            self.journal.ended(job, Stage.CANCELLED, why)

    def done(self, job: Job, result: JobResult) -> HandOver:
        """A job has all its proofs. Returns what gives them to the caller once the claim is on the disk."""
        self._rejected.pop(job.id, None)
        if self.journal is None or job.request.hands_over:
            return partial(job.future.set_result, result)
        try:
            claim = self.journal.claim(job.id)
        except BaseException as error:  # noqa: BLE001 - its caller is told; another session hands the proofs over
            return partial(job.future.set_exception, _unclaimed(job, one_line(error)))
        return partial(self._hand_over, self.journal, claim, job, result)

    def ended(self, job: Job, state: JobState, error: str | None, *, resumes: bool) -> HandOver:
        """A job ended without its proofs; one that ``resumes`` stays open for the next session. Returns what tells the
        caller: a failure is told once it is on the disk, a cancellation waits for nobody.
        """
        self._rejected.pop(job.id, None)
        failure = _failure(job, state, error)
        if self.journal is None or resumes:
            return partial(job.future.set_exception, failure)
        try:
            answer = self.journal.ended(job.id, _STAGES[state], error)
        except BaseException:  # noqa: BLE001 - its caller is told all the same
            return partial(job.future.set_exception, failure)
        if state is JobState.CANCELLED:
            return partial(job.future.set_exception, failure)
        return partial(self._tell, answer, job, failure)

    # -- proofs, devices ----------------------------------------------------------------------------------------------

    def tally(self, device: str) -> tuple[int, int]:
        """Good and bad proofs of a device, by its key, in the sessions before this one."""
        return self._tallies.get(device, (0, 0))

    def proved(self, job: Job, proofs: Mapping[int, bytes], verified: bool, device: DeviceRecord | None) -> None:
        """Proofs of partitions are accepted."""
        if device is not None and verified:
            device.good += len(proofs)
        if self.journal is None:
            return
        key = "" if device is None else device.key
        for partition, proof in proofs.items():
            self.journal.proved(job.id, partition, proof, verified=verified, device=key)

    def rejected(self, job: Job, partitions: tuple[int, ...], device: DeviceRecord | None) -> None:
        """Proofs of partitions do not verify. One that fails again on the same device counts once: then the witness or
        the key is at fault.
        """
        if device is None:
            return
        seen = self._rejected.setdefault(job.id, set()) if not job.over else set()
        fresh = {(partition, device.key) for partition in partitions} - seen
        seen |= fresh
        device.bad += len(fresh)
        if self.journal is not None:
            for _ in fresh:
                self.journal.rejected(device.key)

    # -- knobs, times -------------------------------------------------------------------------------------------------

    def knob(self, kind: EventKind, fields: dict[str, FieldValue], generation: int) -> None:
        """A change of a knob was accepted or refused."""
        if self.journal is None or kind not in (EventKind.KNOB_PROPOSED, EventKind.KNOB_REFUSED):
            return
        reason, new = fields.get("reason"), _knob_value(fields["new"])
        self.journal.knob(
            KnobEntry(
                self._wall(),
                str(fields["name"]),
                _knob_value(fields.get("old")),
                "" if new is None else new,
                str(fields.get("who") or ""),
                str(fields.get("why") or ""),
                generation,
                bool(fields.get("undo")),
                None if reason is None else str(reason),
            )
        )

    def timed(self, slot: Slot, span: Span, device: DeviceRecord | None, ok: bool) -> None:
        """A phase of a slot ended."""
        if self.journal is None:
            return
        key = None if device is None else device.key
        for job, partitions in slot.parts:
            self.journal.timing(
                TimingEntry(
                    job.id,
                    partitions,
                    span.phase.value,
                    span.start + self._offset,
                    span.end - span.start,
                    key,
                    span.worker,
                    slot.attempt,
                    ok,
                )
            )

    # -- resuming -----------------------------------------------------------------------------------------------------

    def on_the_clock(self, unix: float) -> float:
        """A Unix time on the engine's clock."""
        return unix - self._offset

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _hand_over(self, journal: Journal, claim: Answer, job: Job, result: JobResult) -> None:
        """Give the proofs out if the claim is ours. A journal that does not know the job's proofs (it was full for a
        time, and lost some) is no reason to withhold them; one that knows of another hand-over is.
        """
        try:
            answer = claim.result()
            stage, _ = (journal.stage(job.id) if answer.refused else None) or (None, None)
        except BaseException as error:
            job.future.set_exception(_unclaimed(job, one_line(error)))
            raise
        if answer.refused:
            if stage is Stage.DELIVERING or stage in ENDED:
                job.future.set_exception(JobFailed("job failed", f"job {job.id}: {answer.reason}"))
                return
            journal.ended(job.id, Stage.DELIVERED)
        job.future.set_result(result)

    def _tell(self, answer: Answer, job: Job, failure: ProverError) -> None:
        try:
            answer.result()
        finally:
            job.future.set_exception(failure)


_STAGES = {JobState.FAILED: Stage.FAILED, JobState.CANCELLED: Stage.CANCELLED}


def _failure(job: Job, state: JobState, error: str | None) -> ProverError:
    if state is JobState.FAILED:
        return JobFailed("job failed", error or "")
    return JobCancelled("job cancelled", f"job {job.id}", error or "")


def _unclaimed(job: Job, cause: str) -> ProverError:
    """Proofs that are there, and that the journal could not be asked about."""
    return JobFailed("job failed", f"job {job.id}: its proofs stay in the journal: {cause}")


def _knob_value(value: FieldValue) -> KnobValue | None:
    return str(value) if isinstance(value, float) else value
