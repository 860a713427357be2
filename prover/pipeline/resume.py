"""After a restart: deliveries that were cut short are finished, and the journal's open jobs are submitted again.

Who submitted a job knows how its inputs are made (``Submitter``). What the journal holds is not taken on trust: files
must be the same as they were, and proofs must verify, else they are made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from prover.errors import ProverError
from prover.model import Priority
from prover.pipeline.delivery import finish_deliveries
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest, JobResult, Workload, is_simulated
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import OpenJob, Stage
from prover.pipeline.records import DuplicateJob, one_line


@dataclass(frozen=True, slots=True)
class Remade:
    """What a submitter makes of an open job."""

    inputs: Any
    """None will do for a job all of whose proofs are there: they are then not verified again."""
    hands_over: bool = False
    """``JobRequest.hands_over``."""


class Submitter(Protocol):
    """Who submitted jobs in an earlier session, and gets what becomes of them in this one.

    Called on the thread that resumes, with no lock held.
    """

    def remake(self, job: OpenJob) -> Remade | None:
        """Make a job's inputs again, from ``job.entry.request`` (its origin), ``files`` and ``partitions``. None: it is
        not this one's. (Of jobs whose circuit the engine has not, nobody is asked.) Raises ``ProverError`` if they
        cannot be made any more.
        That the files are the same is looked at afterwards.
        """

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        """The job was submitted again."""

    def given_up(self, job: OpenJob, reason: str) -> None:
        """The job cannot be made any more, and has failed, for this reason in one line."""


@dataclass(slots=True)
class Resumption:
    """What was done at the start."""

    futures: dict[str, Future[JobResult]] = field(default_factory=dict)
    """Of the jobs that go on, oldest first."""
    proofs: int = 0
    """Their proofs that were there."""
    partitions: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Jobs that cannot be made any more, and why."""
    left: Counter[str] = field(default_factory=Counter)
    """Open jobs that no submitter of this session knows, by circuit: they wait for one that does."""
    undelivered: list[str] = field(default_factory=list)
    """Deliveries that cannot be finished yet: a line each."""

    @property
    def line(self) -> str | None:
        """All of it in one line; None if there was nothing."""
        parts = []
        if self.futures:
            parts.append(f"{_jobs(len(self.futures))} resumed, {self.proofs} of {self.partitions} proofs were there")
        if self.failed:
            job, reason = next(iter(self.failed.items()))
            more = f" (and {len(self.failed) - 1} more)" if len(self.failed) > 1 else ""
            parts.append(f"job {job} cannot be resumed: {reason}{more}")
        parts += [f"{_jobs(count)} of {circuit or 'an unknown circuit'} left" for circuit, count in self.left.items()]
        parts += self.undelivered[:1]
        return "; ".join(parts) or None


def resume(engine: Engine, journal: Journal, submitters: Sequence[Submitter]) -> Resumption | None:
    """Finish what earlier sessions left. To be called once, when the workload is ready and before other jobs come.

    Returns None, having done nothing, while the journal cannot be written or read: another process may be at these
    jobs, and a hand-over could not be promised to be the only one. Ask again when its ``state`` is ``ok``.
    """
    if journal.state != "ok":
        return None
    undelivered = finish_deliveries(journal)
    jobs = journal.open_jobs()
    if jobs is None or journal.state != "ok":
        return None
    done = Resumption(undelivered=undelivered)
    for job in jobs:
        if job.stage is not Stage.DELIVERING:
            _resume_one(engine, journal, submitters, job, done)
    return done


def _resume_one(
    engine: Engine, journal: Journal, submitters: Sequence[Submitter], job: OpenJob, done: Resumption
) -> None:
    entry = job.entry
    known = not entry.circuit or not engine.workloads or entry.circuit in engine.workloads
    for submitter in submitters if known else ():
        try:
            remade = submitter.remake(job)
            reason = _changed(job) if remade is not None else None
        except ProverError as error:
            remade, reason = None, one_line(error)
        if reason is not None:
            journal.ended(entry.id, Stage.FAILED, reason)
            done.failed[entry.id] = reason
            submitter.given_up(job, reason)
            return
        if remade is not None:
            break
    else:
        done.left[entry.circuit] += 1
        return
    proofs = _good_proofs(_workload(engine, entry.circuit), journal, job, remade.inputs)
    request = JobRequest(
        remade.inputs,
        entry.partitions,
        id=entry.id,
        circuit=entry.circuit,
        priority=Priority(entry.priority),
        deadline=None if entry.deadline is None else engine.on_the_clock(entry.deadline),
        origin=entry.request,
        files=entry.files,
        proofs=proofs,
        hands_over=remade.hands_over,
    )
    try:
        future = engine.resubmit(request)
    except DuplicateJob:
        return  # it goes on already
    except ProverError:
        done.left[entry.circuit] += 1  # the engine stops, or takes no such job: it waits for another session
        return
    done.futures[entry.id] = future
    done.proofs += len(proofs)
    done.partitions += entry.partitions
    submitter.resumed(job, future)


def _workload(engine: Engine, circuit: str) -> Workload | None:
    return engine.workloads.get(circuit) or next(iter(engine.workloads.values()), None)


def _changed(job: OpenJob) -> str | None:
    """Why a job cannot be made from its files any more. One that is proved needs them no more."""
    if job.stage is Stage.PROVED and job.verified:
        return None
    return next((reason for file in job.entry.files if (reason := file.identity.changed()) is not None), None)


def _good_proofs(workload: Workload | None, journal: Journal, job: OpenJob, inputs: Any) -> Mapping[int, bytes]:
    """The proofs that need not be made again; the journal forgets the others."""
    proofs = job.proofs
    whole = job.stage is Stage.PROVED and job.verified
    if not proofs or (whole and (inputs is None or any(file.identity.changed() for file in job.entry.files))):
        return proofs
    if workload is not None and _verify(workload, inputs, proofs):
        return proofs
    good = {
        partition: proof
        for partition, proof in proofs.items()
        if workload is not None and len(proofs) > 1 and _verify(workload, inputs, {partition: proof})
    }
    journal.withdrawn(job.entry.id, tuple(partition for partition in proofs if partition not in good))
    return good


def _verify(workload: Workload, inputs: Any, proofs: Mapping[int, bytes]) -> bool:
    if is_simulated(workload):  # there is no proof: it is modelled again
        return False
    try:
        return workload.verify(inputs, tuple(proofs), tuple(proofs.values()))
    except Exception:  # noqa: BLE001 - bytes that are no proof: made again, as any that does not verify
        return False


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


__all__ = ["Remade", "Resumption", "Submitter", "resume"]
