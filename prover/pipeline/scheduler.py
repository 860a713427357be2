"""Which slot is begun next. Pure decisions: no threads, no workload, and time only as it is told.

Jobs wait in four classes (``Priority``). The first class with something to begin goes first, in it the job with the
earliest deadline, then the oldest; in a job what is made again, then the lowest partition. Finishing old jobs first
keeps every job's latency near its own work.

**Ageing.** A job that waits moves up a class every ``ageing_s``, as far as ``HIGH``: low ones are not starved by a
stream of others, and none of them ever stands before a critical one.

**Grouping.** With ``sort_by_type`` jobs of normal and low class whose circuit is the one that was begun last go before
older ones of another circuit, so that keys are not changed for every job; ageing bounds how long others wait for that.

**Batches.** Up to ``max_batch_size`` jobs of one circuit and class that have not begun are cut together: their
partitions lie in one row, and a slot may hold those of several jobs. A batch that is not full begins when its first job
has waited ``max_batch_wait_s``. Critical and high jobs wait for no batch and join none.

A job is cut when its first slot is begun.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count as numbers
from itertools import islice
from typing import NamedTuple

from prover.model import Priority

Partitions = tuple[int, ...]
AGEING_S = 300.0
_BATCHED = frozenset({Priority.NORMAL, Priority.LOW})


class Part(NamedTuple):
    """Partitions of one job in a slot."""

    job: int
    """Its sequence number."""
    partitions: Partitions


Parts = tuple[Part, ...]


def cut(partitions: int, slot_size: int) -> tuple[Partitions, ...]:
    """A job's partitions in slots of ``slot_size``, the last one shorter; 0 makes one slot of all (standard mode)."""
    return tuple(part.partitions for (part,) in _cut([Part(0, tuple(range(partitions)))], slot_size))


def _cut(row: Iterable[Part], slot_size: int) -> Iterator[Parts]:
    """A row of jobs' partitions in slots, across the borders of jobs."""
    flat = [(job, index) for job, partitions in row for index in partitions]
    size = slot_size or len(flat)
    for first in range(0, len(flat), size):
        slot: dict[int, list[int]] = {}
        for job, index in flat[first : first + size]:
            slot.setdefault(job, []).append(index)
        yield tuple(Part(job, tuple(indices)) for job, indices in slot.items())


@dataclass(frozen=True, slots=True)
class Cut:
    """How what is begun now is cut: the knobs of these names."""

    slot_size: int = 1
    max_batch_size: int = 1
    max_batch_wait_s: float = 0.0
    sort_by_type: bool = True


@dataclass(frozen=True, slots=True)
class Assignment:
    """A slot to begin: whose partitions, and the how manieth attempt it is.

    ``cut_to`` is set on the slot that starts its jobs: the size of the largest slot that they were cut to. ``members``
    are then all the jobs that were cut together. ``standing`` is their class, with its age.
    """

    parts: Parts
    attempt: int = 0
    cut_to: int | None = None
    members: tuple[int, ...] = ()
    standing: Priority = Priority.NORMAL


class _Rank(NamedTuple):
    """Lower goes first, within a class."""

    deadline: float
    seq: int
    row: int
    """Names the row: a job that left one that goes on without it may get another of its own."""


@dataclass(eq=False, slots=True)
class _Row:
    """Jobs that are cut together, mostly one. ``slots`` is None until then."""

    rank: _Rank
    circuit: str
    priority: Priority
    submitted: float
    since: float
    """Since when it waits in this class."""
    members: dict[int, Partitions]
    standing: Priority
    """Its class, with its age."""
    slots: deque[Parts] | None = None
    again: deque[tuple[Part, int]] = field(default_factory=deque)

    @property
    def spent(self) -> bool:
        return self.slots is not None and not self.slots and not self.again


class Scheduler:
    """The jobs that have something left to begin."""

    def __init__(self, ageing_s: float = AGEING_S) -> None:
        self._ageing_s = ageing_s
        self._of_job: dict[int, _Row] = {}
        self._rows: dict[int, _Row] = {}
        self._waiting: dict[Priority, dict[str, list[_Rank]]] = {each: {} for each in Priority}
        """Ranks by class and circuit, sorted."""
        self._row_numbers = numbers()
        self._promotions: list[tuple[float, int]] = []
        self._last_circuit = ""
        self.ready_at: float | None = None
        """After ``next`` gave nothing: when a batch that fills will be begun as it is; None if none waits for that."""

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def submit(
        self,
        job: int,
        partitions: int | Partitions,
        *,
        circuit: str = "",
        priority: Priority = Priority.NORMAL,
        deadline: float | None = None,
        now: float = 0.0,
    ) -> None:
        """A new job, of so many partitions, or of these; sequence numbers tell age: lower is older."""
        numbers = tuple(range(partitions)) if isinstance(partitions, int) else partitions
        if not numbers:
            raise ValueError("a job has at least one partition")
        if job in self._of_job:
            raise ValueError(f"job {job} is known")
        rank = self._rank(job, deadline)
        self._insert(_Row(rank, circuit, priority, now, now, {job: numbers}, priority), now)

    def again(
        self,
        part: Part,
        attempt: int,
        *,
        circuit: str = "",
        priority: Priority = Priority.NORMAL,
        deadline: float | None = None,
        submitted: float = 0.0,
        now: float = 0.0,
    ) -> None:
        """Begin these partitions once more, apart. The rest matters if nothing else of the job waits."""
        row = self._of_job.get(part.job)
        if row is None:
            rank = self._rank(part.job, deadline)
            row = _Row(rank, circuit, priority, submitted, submitted, {part.job: ()}, priority, deque())
            row.again.append((part, attempt))
            self._insert(row, now)
        else:
            row.again.append((part, attempt))

    def drop(self, job: int) -> None:
        """Forget what is left of a job. Unknown jobs are ignored: all of theirs was begun."""
        row = self._of_job.get(job)
        if row is None:
            return
        if len(row.members) == 1:
            self._remove(row)
            return
        del self._of_job[job]
        row.members = {other: partitions for other, partitions in row.members.items() if other != job}
        kept = (tuple(part for part in slot if part.job != job) for slot in row.slots or ())
        row.slots = deque(slot for slot in kept if slot)
        row.again = deque(entry for entry in row.again if entry[0].job != job)
        if row.spent:
            self._remove(row)

    def remaining(self, job: int) -> Partitions:
        """The partitions of a job that are not begun, in order."""
        row = self._of_job.get(job)
        if row is None:
            return ()
        if row.slots is None:
            return row.members[job]
        parts = [*(part for slot in row.slots for part in slot), *(part for part, _ in row.again)]
        return tuple(sorted(index for part in parts if part.job == job for index in part.partitions))

    def largest(self, job: int, slot_size: int) -> int:
        """Partitions in the largest slot that is left of a job, if it is not cut as ``slot_size`` would cut it."""
        row = self._of_job.get(job)
        if row is None:
            return 0
        if row.slots is None:
            count = len(row.members[job])
            return min(slot_size or count, count)
        slots = [*row.slots, *((part,) for part, _ in row.again)]
        sizes = [sum(len(p.partitions) for p in slot) for slot in slots if any(p.job == job for p in slot)]
        return max(sizes, default=0)

    def reprioritise(self, job: int, priority: Priority, now: float) -> None:
        """Give a job another class, in which it has its place by its age; it moves up from there as if it came now. A
        batch goes as its most urgent member. Nothing happens if all of the job was begun.
        """
        row = self._of_job.get(job)
        if row is None:
            return
        self._withdraw(row)
        row.priority = row.standing = priority if len(row.members) == 1 else min(priority, row.priority)
        row.since = now
        self._enter(row)
        self._promise(row)

    # -- choosing -----------------------------------------------------------------------------------------------------

    def next(self, how: Cut, now: float = 0.0) -> Assignment | None:
        """Take the slot to begin now, or None if nothing waits or what waits is a batch that still fills
        (``ready_at``).
        """
        found = self._choose(how, now)
        if found is None:
            return None
        self._join(*found)
        return self._take(found[0], how)

    def peek(self, how: Cut, now: float = 0.0) -> Parts | None:
        """What would be in the slot that ``next`` would give; it is left where it is."""
        found = self._choose(how, now)
        if found is None:
            return None
        row, others = found
        if row.again:
            return (row.again[0][0],)
        if row.slots is not None:
            return row.slots[0]
        waiting = [Part(*member) for each in (row, *others) for member in each.members.items()]
        return next(_cut(waiting, how.slot_size))

    @property
    def critical(self) -> bool:
        """Whether something of a critical job is left to begin."""
        return bool(self._waiting[Priority.CRITICAL])

    def waiting_slots(self, slot_size: int) -> int:
        """Slots that are not begun; jobs that are not cut count as ``slot_size`` would cut each. Needs no lock."""
        total = 0
        for row in list(self._rows.values()):
            if row.slots is None:
                count = sum(map(len, row.members.values()))
                total += -(-count // (slot_size or count))
            else:
                total += len(row.slots) + len(row.again)
        return total

    @property
    def empty(self) -> bool:
        """Whether nothing is left to begin."""
        return not self._rows

    # -- inside -------------------------------------------------------------------------------------------------------

    def _rank(self, job: int, deadline: float | None) -> _Rank:
        return _Rank(math.inf if deadline is None else deadline, job, next(self._row_numbers))

    def _heads(self, standing: Priority, how: Cut) -> list[_Row]:
        """The first row of each circuit in a class, best first."""
        heads = [self._rows[ranks[0].row] for ranks in self._waiting[standing].values()]
        grouped = how.sort_by_type and standing in _BATCHED

        def order(row: _Row) -> tuple[float, bool, int]:
            return (row.rank.deadline, grouped and row.circuit != self._last_circuit, row.rank.seq)

        return sorted(heads, key=order)

    def _choose(self, how: Cut, now: float) -> tuple[_Row, list[_Row]] | None:
        """The row that is next, and those that are cut together with it."""
        self._promote(now)
        self.ready_at = None
        for standing in Priority:
            for row in self._heads(standing, how):
                others = [] if row.slots is not None else self._batch(row, how, now)
                if others is not None:
                    return row, others
        return None

    def _batch(self, first: _Row, how: Cut, now: float) -> list[_Row] | None:
        """The other rows that are cut together with one that is not cut; None if it should wait for more."""
        if how.max_batch_size < 2 or first.standing not in _BATCHED:
            return []
        rows = (self._rows[rank.row] for rank in self._waiting[first.standing][first.circuit])
        members = list(islice((row for row in rows if row.slots is None), how.max_batch_size))
        due = min(each.submitted for each in members) + how.max_batch_wait_s
        if len(members) < how.max_batch_size and now < due:
            self.ready_at = due if self.ready_at is None else min(self.ready_at, due)
            return None
        return members[1:]

    def _join(self, first: _Row, others: list[_Row]) -> None:
        for other in others:
            self._remove(other)
            first.members = {**first.members, **other.members}
            self._of_job.update(dict.fromkeys(other.members, first))

    def _take(self, row: _Row, how: Cut) -> Assignment:
        cut_to: int | None = None
        members: tuple[int, ...] = ()
        if row.slots is None:
            row.slots = deque(_cut(map(Part._make, row.members.items()), how.slot_size))
            cut_to, members = sum(len(part.partitions) for part in row.slots[0]), tuple(row.members)
        parts, attempt = ((row.again[0][0],), row.again.popleft()[1]) if row.again else (row.slots.popleft(), 0)
        self._last_circuit = row.circuit
        if row.spent:
            self._remove(row)
        return Assignment(parts, attempt, cut_to, members, row.standing)

    def _promote(self, now: float) -> None:
        """Bring up a class what has waited long enough."""
        while self._promotions and self._promotions[0][0] <= now:
            _, name = heappop(self._promotions)
            row = self._rows.get(name)
            if row is None:
                continue
            standing = self._standing(row, now)
            if standing is not row.standing:
                self._withdraw(row)
                row.standing = standing
                self._enter(row)
                self._promise(row)

    def _standing(self, row: _Row, now: float) -> Priority:
        standing = row.priority
        while standing > Priority.HIGH and self._due(row, standing) <= now:
            standing = Priority(standing - 1)
        return standing

    def _due(self, row: _Row, standing: Priority) -> float:
        """When a row that stands here moves up."""
        return row.since + (row.priority - standing + 1) * self._ageing_s

    def _promise(self, row: _Row) -> None:
        """Look again when the row's next promotion is due."""
        if row.standing > Priority.HIGH:
            heappush(self._promotions, (self._due(row, row.standing), row.rank.row))

    def _insert(self, row: _Row, now: float) -> None:
        self._rows[row.rank.row] = row
        self._of_job.update(dict.fromkeys(row.members, row))
        row.standing = self._standing(row, now)
        self._enter(row)
        self._promise(row)

    def _remove(self, row: _Row) -> None:
        self._withdraw(row)
        del self._rows[row.rank.row]
        for job in row.members:
            del self._of_job[job]

    def _enter(self, row: _Row) -> None:
        insort(self._waiting[row.standing].setdefault(row.circuit, []), row.rank)

    def _withdraw(self, row: _Row) -> None:
        of_class = self._waiting[row.standing]
        ranks = of_class[row.circuit]
        del ranks[bisect_left(ranks, row.rank)]
        if not ranks:
            del of_class[row.circuit]
