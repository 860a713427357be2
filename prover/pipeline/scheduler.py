"""Which slot is begun next. Pure decisions: no clock, no threads, no workload.

The oldest job with something left to begin comes first, and in it the lowest partition; a slot that is made again
comes before what its job has not begun. Finishing old jobs first keeps every job's latency near its own work.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass

Partitions = tuple[int, ...]


def cut(partitions: int, slot_size: int) -> tuple[Partitions, ...]:
    """A job's partitions in slots of ``slot_size``, the last one shorter; 0 makes one slot of all (standard mode)."""
    size = slot_size or partitions
    return tuple(tuple(range(first, min(first + size, partitions))) for first in range(0, partitions, size))


@dataclass(frozen=True, slots=True)
class Assignment:
    """A slot to begin: of which job (its sequence number), which partitions, and the how manieth attempt it is.

    ``cut_to`` is set on the slot that starts its job: the slot size that the job was cut to.
    """

    job: int
    partitions: Partitions
    attempt: int = 0
    cut_to: int | None = None


@dataclass(slots=True)
class _Waiting:
    partitions: int
    again: deque[tuple[Partitions, int]]
    slots: deque[Partitions] | None = None
    """None until the job is cut, which happens when its first slot is begun."""


class Scheduler:
    """The jobs that have something left to begin."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Waiting] = {}
        self._order: list[int] = []

    def submit(self, job: int, partitions: int) -> None:
        """A new job; sequence numbers grow with age's end: lower is older."""
        if partitions < 1:
            raise ValueError("a job has at least one partition")
        self._insert(job, _Waiting(partitions, deque()))

    def next(self, slot_size: int) -> Assignment | None:
        """Take the slot to begin now, or None if nothing waits. ``slot_size`` cuts a job that is not cut yet."""
        if not self._order:
            return None
        job = self._order[0]
        waiting = self._jobs[job]
        cut_to = None
        if waiting.slots is None:
            waiting.slots = deque(cut(waiting.partitions, slot_size))
            cut_to = len(waiting.slots[0])
        partitions, attempt = waiting.again.popleft() if waiting.again else (waiting.slots.popleft(), 0)
        if not waiting.slots and not waiting.again:
            self._remove(job)
        return Assignment(job, partitions, attempt, cut_to)

    def again(self, job: int, partitions: Partitions, attempt: int) -> None:
        """Begin these partitions once more."""
        if job not in self._jobs:
            self._insert(job, _Waiting(0, deque(), deque()))
        self._jobs[job].again.append((partitions, attempt))

    def drop(self, job: int) -> None:
        """Forget what is left of a job. Unknown jobs are ignored: all of theirs was begun."""
        if job in self._jobs:
            self._remove(job)

    def waiting_slots(self, slot_size: int) -> int:
        """Slots that are not begun, jobs that are not cut counted as ``slot_size`` would cut them."""
        total = 0
        for waiting in list(self._jobs.values()):
            if waiting.slots is None:
                total += -(-waiting.partitions // (slot_size or waiting.partitions))
            else:
                total += len(waiting.slots) + len(waiting.again)
        return total

    @property
    def empty(self) -> bool:
        """Whether nothing is left to begin."""
        return not self._order

    def _insert(self, job: int, waiting: _Waiting) -> None:
        if job in self._jobs:
            raise ValueError(f"job {job} is known")
        self._jobs[job] = waiting
        insort(self._order, job)

    def _remove(self, job: int) -> None:
        del self._jobs[job]
        self._order.remove(job)
