"""What the engine keeps of a job, a slot and a worker while they live. Changed only with the engine's lock held."""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prover.errors import AnswerIsNo, InputError, ProverError
from prover.model import JobState, JobView, PartitionState, PartitionView, Phase, Priority
from prover.pipeline.budget import Ticket
from prover.pipeline.channel import Key
from prover.pipeline.events import Ring
from prover.pipeline.interfaces import CancelToken, JobRequest, JobResult, Workload
from prover.pipeline.knobs import KnobSet


class JobFailed(AnswerIsNo):
    """A job ended without its proof."""


class JobCancelled(AnswerIsNo):
    """A job was cancelled, or the engine stopped before it ended."""


class EngineStopped(ProverError):
    """The engine takes no more jobs."""


class Draining(EngineStopped):
    """The engine takes no jobs for now."""


class DuplicateJob(InputError):
    """A job of that id is alive."""


class Status(NamedTuple):
    """A job's state; one reference, replaced whole, so that it can be read without the lock."""

    state: JobState
    started: float | None = None
    ended: float | None = None
    error: str | None = None


OVER = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


@dataclass(eq=False, slots=True)
class Job:
    """A proof request on its way."""

    seq: int
    """Age: lower is older."""
    id: str
    circuit: str
    request: JobRequest
    future: Future[JobResult]
    submitted: float
    views: list[PartitionView]
    proofs: list[bytes | None]
    unsynthesised: int
    """Partitions that wait for synthesis or are in it."""
    token: CancelToken = field(default_factory=CancelToken)
    status: Status = field(default_factory=lambda: Status(JobState.WAITING))
    slot_size: int = 1
    """Partitions a slot, as the job was cut."""
    cut_under: int | None = None
    """The value of the knob ``slot_size`` under which it was cut."""
    verified: bool = True
    priority: Priority = Priority.NORMAL
    standing: Priority = Priority.NORMAL
    """Its class with its age, as it was when its last slot was begun."""
    under_way: int = 0
    """Slots with a part of it that were begun and have not ended."""
    trimmed: bool = False
    """What was not begun was cancelled: it ends when the rest has."""
    shared: list[Slot] = field(default_factory=list)
    """Living slots that hold parts of other jobs too."""

    @classmethod
    def accept(cls, seq: int, job_id: str, circuit: str, request: JobRequest, now: float) -> Job:
        """A new job with all partitions pending whose proofs are not there."""
        proofs = [request.proofs.get(index) for index in range(request.partitions)]
        states = [PartitionState.PENDING if proof is None else PartitionState.DONE for proof in proofs]
        views = [PartitionView(index, state) for index, state in enumerate(states)]
        job = cls(seq, job_id, circuit, request, Future(), now, views, proofs, proofs.count(None))
        job.priority = job.standing = request.priority
        return job

    @property
    def rank(self) -> tuple[float, float, int]:
        """Lower goes first: class, deadline, age."""
        deadline = self.request.deadline
        return (self.standing, math.inf if deadline is None else deadline, self.seq)

    @property
    def over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.status.state in OVER

    def view(self) -> JobView:
        """The job as it stands. Needs no lock: the status is read first, so partitions are never behind it."""
        status = self.status
        return JobView(
            self.id,
            self.circuit,
            status.state,
            self.submitted,
            status.started,
            status.ended,
            self.slot_size,
            tuple(self.views),
            status.error,
            self.priority,
            self.request.deadline,
        )


class SlotPart(NamedTuple):
    """Partitions of one job in a slot."""

    job: Job
    partitions: tuple[int, ...]


@dataclass(eq=False, slots=True)
class Slot:
    """Partitions that flow together: of one job, or of several of a batch."""

    parts: tuple[SlotPart, ...]
    workload: Workload
    token: CancelToken
    """Cancelled when the last of its jobs is over."""
    attempt: int = 0
    synthesis: Any = None
    """What synthesis made, until the device has taken it over."""
    phase: Phase | None = None
    began: float = 0.0
    locked: bool = False
    """Whether the phase under way runs under the device's lock."""
    device: int | None = None
    worker: str | None = None
    alive: bool = True
    """Whether it holds memory of a partition: from the start of its synthesis to its release from the device."""
    ended: bool = False
    ticket: Ticket | None = None
    """Its hold on memory, where that is budgeted."""

    @classmethod
    def link(cls, parts: tuple[SlotPart, ...], workload: Workload, attempt: int) -> Slot:
        """A slot that its jobs know of, until ``unlink``."""
        alone = len(parts) == 1
        slot = cls(parts, workload, parts[0].job.token if alone else CancelToken(), attempt)
        for part in parts:
            part.job.under_way += 1
            if not alone:
                part.job.shared.append(slot)
        return slot

    def unlink(self) -> None:
        """It has ended."""
        for job, _ in self.parts:
            job.under_way -= 1
            if len(self.parts) > 1:
                job.shared.remove(self)

    @property
    def job(self) -> Job:
        """The job that it is named by: the first."""
        return self.parts[0].job

    @property
    def partitions(self) -> tuple[int, ...]:
        """The first job's partitions in it."""
        return self.parts[0].partitions

    @property
    def size(self) -> int:
        """Partitions of all its jobs."""
        return sum(len(part.partitions) for part in self.parts)

    @property
    def over(self) -> bool:
        """Whether nobody wants it any more."""
        return all(part.job.over for part in self.parts)

    @property
    def urgent(self) -> bool:
        """Whether a critical job waits for it."""
        return any(part.job.standing is Priority.CRITICAL and not part.job.over for part in self.parts)

    def key(self) -> Key:
        """Lower goes first: as its most urgent job does, then by partition."""
        first = min(self.parts, key=lambda part: part.job.rank)
        return (*first.job.rank, first.partitions[0])

    def given(self) -> tuple[Any, Sequence[int]]:
        """What the workload is to prove: inputs, and the partitions in them."""
        if len(self.parts) == 1:
            return self.job.request.inputs, self.partitions
        inputs = self.workload.joined([(part.job.request.inputs, part.partitions) for part in self.parts])
        return inputs, range(self.size)


@dataclass(eq=False, slots=True)
class Worker:
    """A thread of a stage. Its name may pass to a successor: nothing is keyed by it alone."""

    name: str
    stage: str
    index: int
    ring: Ring
    device: int | None = None
    thread: threading.Thread | None = None
    slot: Slot | None = None
    blocked: bool = False
    """Holds a finished slot because the channel is full."""
    knobs: KnobSet | None = None
    """The set that its slot is made under; None between slots."""
    seen: int = -1
    """The latest generation that it took over."""
    leaving: bool = False


def free_frames(error: BaseException) -> None:
    """Let go of what the frames of a failed step held: its memory is given back before that is told."""
    seen: set[int] = set()
    origin: BaseException | None = error
    while origin is not None and id(origin) not in seen:
        seen.add(id(origin))
        traceback.clear_frames(origin.__traceback__)
        origin = origin.__cause__ or origin.__context__


def one_line(error: BaseException) -> str:
    """The cause of a failure, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, ProverError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
