"""One byte budget over keys, constraint matrices, working sets and the pinned pool: who may begin, and what must go.

Every method is called with the engine's lock held and returns at once; ``view`` alone is read without it. The budget
frees nothing itself: it orders (``take_orders``), somebody outside the lock frees and reports, and only then do the
bytes count as free.

**It never overcommits.** ``used`` grows in two places only: a grant, and a growth of the pinned pool. Both add what
they take in the same step in which they found ``used`` plus that at most ``total``. Bytes leave ``used`` after the
memory was freed: a working set's when its holder says so, a key's when its eviction is reported. So ``used <= total``
always, but after a cut of ``total``: then ``used`` only falls until it is below again. (What is ``fix``ed was there
before; if that alone is more than ``total``, every request is refused.)

**It never deadlocks.** (1) A request names everything that its holder will ever take (vectors, rest, and the keys and
matrices it reads, loaded or not) and is granted whole or not at all; a holder asks for nothing more, so no holder
waits for the budget, and each ends in its own time. A holder that has to load a key does that before it waits for
keys that others load; loads wait for nobody; so holders do not wait for one another in a circle either. (A loader
that fails or is cancelled leaves the load to the next reader.) (2) A request larger than ``total`` is refused, when
it is asked and whenever ``total`` falls; so every waiting one fits an empty budget. (3) Nobody overtakes the head of
the queue but a request of higher priority. While the head waits, holders end one by one and nothing takes their
place. With no holder left, each key is unreferenced and each pinned buffer idle; all that the head does not read
itself may be evicted, and what remains is part of the head's own need, which fits. (4) The share kept for urgent
requests binds only while there is a holder, so it cannot hold back the last one.

**It evicts late.** Idle pinned buffers go first, then keys and matrices that nobody reads, the longest unused first,
those that a waiting request names last; and they go only if that lets the head begin, or brings ``used`` below a
``total`` that was cut. What is read by a holder, or loading, is never evicted.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from prover.errors import InputError

URGENT = 1
"""Priorities up to here (0 critical, 1 high) may use the share that is kept for them."""


class Kind(StrEnum):
    """What memory is taken for."""

    KEYS = "keys"
    MATRICES = "matrices"
    WORKING = "working"
    PINNED = "pinned"


class State(StrEnum):
    """Where a request stands."""

    WAITING = "waiting"
    GRANTED = "granted"
    REFUSED = "refused"
    """It can never be granted: larger than the whole budget."""
    ENDED = "ended"
    """Released or withdrawn."""


class TooLarge(InputError):
    """A request that the whole budget could not hold."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A key or a circuit's matrices: loaded once, read by many slots."""

    name: str
    kind: Kind
    nbytes: int


@dataclass(frozen=True, slots=True)
class Need:
    """Everything that a slot will take, in bytes."""

    who: str
    """For messages: ``job 0007, partition 3``."""
    vectors: int
    """a, b, c: released when the device has taken them."""
    rest: int
    """Witness and all else, released at the end."""
    residents: tuple[Resident, ...] = ()
    priority: int = 2

    @property
    def nbytes(self) -> int:
        """All of it, as if nothing were loaded."""
        return self.vectors + self.rest + sum(resident.nbytes for resident in self.residents)


@dataclass(eq=False, slots=True)
class Ticket:
    """A request and, once it is granted, the hold on its memory."""

    need: Need
    seq: int
    priority: int
    state: State = State.WAITING
    reason: str | None = None
    """One line, where it was refused."""
    loads: tuple[str, ...] = ()
    """Residents that the holder has to load, before it waits for others': it says ``loaded`` or ``load_failed``."""
    vectors: int = 0
    """Bytes still held for a, b, c."""
    rest: int = 0
    urgent: bool = False
    """Whether it was granted as an urgent one."""

    @property
    def order(self) -> tuple[int, int]:
        """Lower goes first."""
        return (self.priority, self.seq)


@dataclass(frozen=True, slots=True)
class Order:
    """Memory to free, outside the lock. ``name`` None: idle buffers of the pinned pool."""

    name: str | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The budget as it stands, in bytes."""

    total: int
    used: int
    by_kind: tuple[tuple[Kind, int], ...]
    peak: int
    """The most that was ever in use."""
    kept: int
    """Kept for urgent requests."""
    holders: int
    waiting: int
    waits_for: str | None = None
    """Who is next and what is missing, in one line."""

    @property
    def over(self) -> int:
        """How far above a total that was cut."""
        return max(self.used - self.total, 0)


class _Life(StrEnum):
    LOADING = "loading"
    LOADED = "loaded"
    ABSENT = "absent"
    """Its loader failed or went; its bytes stay taken while it has readers, the first of which loads it."""
    LEAVING = "leaving"
    """Its eviction is ordered."""


@dataclass(eq=False, slots=True)
class _Entry:
    resident: Resident
    life: _Life
    loader: Ticket | None = None
    readers: int = 0
    last_used: int = 0


@dataclass(eq=False, slots=True)
class _Pool:
    """The pinned pool as the budget sees it."""

    limit: int
    held: int = 0
    idle: int = 0
    leaving: int = 0


@dataclass(eq=False, slots=True)
class _Book:
    """What is in use, by kind."""

    by_kind: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    used: int = 0
    peak: int = 0

    def take(self, kind: Kind, nbytes: int) -> None:
        self.by_kind[kind] += nbytes
        self.used += nbytes
        self.peak = max(self.peak, self.used)

    def give(self, kind: Kind, nbytes: int) -> None:
        self.by_kind[kind] -= nbytes
        self.used -= nbytes
        assert self.by_kind[kind] >= 0, f"more {kind} memory was given back than taken"


class MemoryBudget:
    """Admission to memory. See the module for what it promises and why."""

    def __init__(
        self,
        total: int,
        *,
        pinned: int | None = None,
        urgent_share: float = 0.25,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is in use.

        Args:
            total: bytes.
            pinned: the most that the pinned pool may hold; None: an eighth of ``total``.
            urgent_share: the largest share of ``total`` that is kept for urgent requests. What is kept is the largest
                working set that one of them asked for so far, so a machine that never sees one keeps nothing.
            wake: called when a request was granted or refused, and when there are orders.
        """
        self._total = total
        self._pinned_fixed = pinned
        self._pool = _Pool(total // 8 if pinned is None else pinned)
        self._urgent_share = urgent_share
        self._urgent_need = 0
        self._urgent_held = 0
        self._wake = wake
        self._book = _Book()
        self._entries: dict[str, _Entry] = {}
        self._waiting: list[Ticket] = []
        self._holders = 0
        self._orders: list[Order] = []
        self._tick = 0
        self._seq = 0
        self._fixed = 0
        self.view = self._picture()

    def fix(self, kind: Kind, nbytes: int) -> None:
        """Bytes that are taken already and stay: whatever is asked for has to fit beside them."""
        self._fixed += nbytes
        self._book.take(kind, nbytes)
        self._pump()

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, need: Need) -> Ticket:
        """Queue a request; it may be granted at once.

        Raises:
            TooLarge: if the whole budget could not hold it.
            ValueError: for a negative size, or two sizes of one resident.
        """
        self._check(need)
        line = self._too_large(need, self._total)
        if line is not None:
            raise TooLarge(*line)
        self._seq += 1
        ticket = Ticket(need, self._seq, need.priority)
        if need.priority <= URGENT:
            self._urgent_need = max(self._urgent_need, need.vectors + need.rest)
        insort(self._waiting, ticket, key=lambda each: each.order)
        self._pump()
        return ticket

    def reprioritise(self, ticket: Ticket, priority: int) -> None:
        """Change a waiting request's priority; its age stays."""
        if ticket.state is State.WAITING and ticket.priority != priority:
            self._waiting.remove(ticket)
            ticket.priority = priority
            insort(self._waiting, ticket, key=lambda each: each.order)
            self._pump()

    def release_vectors(self, ticket: Ticket) -> None:
        """The holder has freed a, b, c. Idempotent."""
        if ticket.state is State.GRANTED:
            self._give_working(ticket, ticket.vectors)
            ticket.vectors = 0
            self._pump()

    def release(self, ticket: Ticket) -> None:
        """The holder has freed everything, or a waiting request is withdrawn. Idempotent."""
        if ticket.state is State.WAITING:
            self._waiting.remove(ticket)
        elif ticket.state is State.GRANTED:
            self._give_working(ticket, ticket.vectors + ticket.rest)
            ticket.vectors = ticket.rest = 0
            self._holders -= 1
            for resident in ticket.need.residents:
                self._leave(self._entries[resident.name], ticket)
        if ticket.state is not State.REFUSED:
            ticket.state = State.ENDED
        self._pump()

    # -- residents ----------------------------------------------------------------------------------------------------

    def loaded(self, name: str) -> None:
        """A resident is there for every holder that reads it."""
        self._end_load(self._entries[name], _Life.LOADED)

    def load_failed(self, name: str) -> None:
        """A resident could not be loaded: the holder that tried fails, the next reader may try again."""
        self._end_load(self._entries[name], _Life.ABSENT)

    def ready(self, ticket: Ticket, name: str) -> bool | None:
        """Whether a holder may read a resident; None while another holder loads it. False: it is this holder's to load
        (as if it were in ``loads``), because its loader failed or was cancelled.
        """
        entry = self._entries[name]
        if entry.life is _Life.ABSENT:
            entry.life, entry.loader = _Life.LOADING, ticket
        if entry.life is _Life.LOADING:
            return False if entry.loader is ticket else None
        return True

    def take_orders(self) -> list[Order]:
        """What is to be freed now; report each with ``evicted`` or ``trimmed``."""
        orders, self._orders = self._orders, []
        return orders

    def evicted(self, name: str) -> None:
        """A resident whose eviction was ordered is freed."""
        entry = self._entries[name]
        if entry.life is not _Life.LEAVING:
            raise ValueError(f"the eviction of {name} was not ordered")
        self._forget(entry)
        self._pump()

    # -- pinned pool --------------------------------------------------------------------------------------------------

    def grow_pinned(self, nbytes: int) -> bool:
        """Whether the pool may hold ``nbytes`` more. It never waits: a copy without pinned memory is slow, not stuck.
        Refused while anybody waits, so the pool takes nothing from the head of the queue.
        """
        pool = self._pool
        if self._waiting or pool.held + nbytes > pool.limit or self._book.used + nbytes > self._total:
            return False
        pool.held += nbytes
        self._book.take(Kind.PINNED, nbytes)
        self._paint()
        return True

    def pinned_idle(self, nbytes: int) -> None:
        """The pool tells how much of it nobody uses, what is ordered to be freed included."""
        self._pool.idle = min(nbytes, self._pool.held)
        self._pump()

    def trimmed(self, ordered: int, freed: int) -> None:
        """The pool has carried out an order: of ``ordered`` bytes it freed ``freed`` (the rest was in use again)."""
        pool = self._pool
        freed = min(freed, pool.held)
        pool.leaving -= ordered
        pool.held -= freed
        # What it could not free is in use, whatever was told before: do not order it again until it is told anew.
        pool.idle = max(pool.idle - ordered, 0) if freed == ordered else 0
        self._book.give(Kind.PINNED, freed)
        self._pump()

    # -- changes ------------------------------------------------------------------------------------------------------

    def refusal(self, total: int, *needs: Need) -> str | None:
        """Why a change to ``total`` should be refused, in one line: a waiting request, or one of these needs that will
        be asked for, would not fit any more.
        """
        for need in (*(ticket.need for ticket in self._waiting), *needs):
            line = self._too_large(need, total)
            if line is not None:
                return ": ".join(line[:2])
        return None

    def set_total(self, total: int, pinned: int | None = None) -> None:
        """Change the budget, and what of it the pinned pool may take (None: an eighth). Nothing in use is taken away:
        when ``total`` falls below what is in use nothing is granted until it is above. Waiting requests that could
        never be granted any more are refused.
        """
        self._total, self._pinned_fixed = total, pinned
        self._pool.limit = total // 8 if pinned is None else pinned
        for ticket in list(self._waiting):
            line = self._too_large(ticket.need, total)
            if line is not None:
                self._waiting.remove(ticket)
                ticket.state, ticket.reason = State.REFUSED, str(TooLarge(*line))
                self._wake()
        self._pump()

    @property
    def surplus(self) -> int:
        """Bytes in use beyond a total, or beyond a limit of the pinned pool, that was cut."""
        return max(self._book.used - self._total, self._pool.held - self._pool.limit, 0)

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> int:
        """What is kept free for urgent requests: of their share, what none of them holds now."""
        return max(min(self._urgent_need, int(self._total * self._urgent_share)) - self._urgent_held, 0)

    def _check(self, need: Need) -> None:
        sizes = [need.vectors, need.rest, *(resident.nbytes for resident in need.residents)]
        names = {resident.name for resident in need.residents}
        if min(sizes) < 0 or len(names) != len(need.residents):
            raise ValueError(f"{need.who}: a size below zero, or a resident named twice")
        for resident in need.residents:
            known = self._entries.get(resident.name)
            if known is not None and known.resident != resident:
                raise ValueError(f"{resident.name}: {resident.nbytes} bytes, was {known.resident.nbytes}")

    def _too_large(self, need: Need, total: int) -> tuple[str, str, str] | None:
        if need.nbytes + self._fixed <= total:
            return None
        beside = f" beside {size(self._fixed)} that stay" if self._fixed else ""
        what = f"needs {size(need.nbytes)}{beside}, the whole memory budget is {size(total)}"
        return (need.who, what, "raise total_budget, or make slots smaller")

    def _missing(self, ticket: Ticket) -> int | None:
        """Bytes that a request would add to ``used``; None while one of its residents leaves."""
        extra = ticket.need.vectors + ticket.need.rest
        for resident in ticket.need.residents:
            entry = self._entries.get(resident.name)
            if entry is None:
                extra += resident.nbytes
            elif entry.life is _Life.LEAVING:
                return None
        return extra

    def _bound(self, ticket: Ticket) -> int:
        """Up to where ``used`` may grow for a request."""
        if ticket.priority <= URGENT or not self._holders:
            return self._total
        return self._total - self._kept

    def _pump(self) -> None:
        """Grant from the head while it fits; order what must go for it."""
        self._cut()
        while self._waiting:
            head = self._waiting[0]
            extra = self._missing(head)
            if extra is None:
                break
            short = self._book.used + extra - self._bound(head)
            if short > 0:
                self._make_room(short, head)
                break
            del self._waiting[0]
            self._grant(head)
        self._paint()
        if self._orders:
            self._wake()

    def _grant(self, ticket: Ticket) -> None:
        need = ticket.need
        self._book.take(Kind.WORKING, need.vectors + need.rest)
        ticket.vectors, ticket.rest = need.vectors, need.rest
        ticket.urgent = ticket.priority <= URGENT
        self._urgent_held += need.vectors + need.rest if ticket.urgent else 0
        loads = []
        for resident in need.residents:
            entry = self._entries.get(resident.name)
            if entry is None:
                entry = self._entries[resident.name] = _Entry(resident, _Life.LOADING)
                self._book.take(resident.kind, resident.nbytes)
            if entry.loader is None and entry.life is not _Life.LOADED:
                entry.life, entry.loader = _Life.LOADING, ticket
                loads.append(resident.name)
            entry.readers += 1
        ticket.loads = tuple(loads)
        ticket.state = State.GRANTED
        self._holders += 1
        self._wake()

    def _give_working(self, ticket: Ticket, nbytes: int) -> None:
        self._book.give(Kind.WORKING, nbytes)
        if ticket.urgent:
            self._urgent_held -= nbytes

    def _end_load(self, entry: _Entry, life: _Life) -> None:
        if entry.life is _Life.LOADING:
            entry.life, entry.loader = life, None
            self._wake()

    def _leave(self, entry: _Entry, ticket: Ticket) -> None:
        if entry.loader is ticket:  # it ended before it loaded
            self._end_load(entry, _Life.ABSENT)
        entry.readers -= 1
        self._tick += 1
        entry.last_used = self._tick
        if entry.life is _Life.ABSENT and not entry.readers:
            self._forget(entry)

    def _forget(self, entry: _Entry) -> None:
        del self._entries[entry.resident.name]
        self._book.give(entry.resident.kind, entry.resident.nbytes)

    def _cut(self) -> None:
        """Bring the pool below its limit, and all below a total that was cut, as far as nothing in use is touched."""
        pool = self._pool
        surplus = pool.held - pool.leaving - pool.limit
        if surplus > 0:
            self._trim(surplus)
        over = self._book.used - self._leaving() - self._total
        if over > 0:
            over -= self._trim(over)
            for entry in self._evictable(None):
                if over <= 0:
                    break
                over -= self._evict(entry)

    def _make_room(self, short: int, head: Ticket) -> None:
        """Order evictions if they, with those under way, let the head begin."""
        short -= self._leaving()
        if short <= 0:
            return
        evictable = list(self._evictable(head))
        idle = self._pool.idle - self._pool.leaving
        if short > idle + sum(entry.resident.nbytes for entry in evictable):
            return  # holders have to end first, and may free enough
        short -= self._trim(short)
        for entry in evictable:
            if short <= 0:
                break
            short -= self._evict(entry)

    def _evictable(self, head: Ticket | None) -> Iterable[_Entry]:
        own = {resident.name for resident in head.need.residents} if head is not None else set()
        wanted = {resident.name for ticket in self._waiting for resident in ticket.need.residents}
        idle = [
            entry
            for name, entry in self._entries.items()
            if entry.life is _Life.LOADED and not entry.readers and name not in own
        ]
        return sorted(idle, key=lambda entry: (entry.resident.name in wanted, entry.last_used))

    def _evict(self, entry: _Entry) -> int:
        entry.life = _Life.LEAVING
        self._orders.append(Order(entry.resident.name, entry.resident.nbytes))
        return entry.resident.nbytes

    def _trim(self, nbytes: int) -> int:
        """Order up to ``nbytes`` of idle buffers freed; returns how many."""
        pool = self._pool
        nbytes = min(nbytes, pool.idle - pool.leaving)
        if nbytes <= 0:
            return 0
        pool.leaving += nbytes
        self._orders.append(Order(None, nbytes))
        return nbytes

    def _leaving(self) -> int:
        going = (e.resident.nbytes for e in self._entries.values() if e.life is _Life.LEAVING)
        return self._pool.leaving + sum(going)

    def _paint(self) -> None:
        self.view = self._picture()

    def _picture(self) -> BudgetView:
        book, waits_for = self._book, None
        if self._waiting:
            head = self._waiting[0]
            extra = self._missing(head)
            if extra is None:
                waits_for = f"{head.need.who} waits for an eviction"
            else:
                short = book.used + extra - self._bound(head)
                waits_for = f"{head.need.who} waits for {size(max(short, 0))} more"
        by_kind = tuple(book.by_kind.items())
        kept, waiting = self._kept, len(self._waiting)
        return BudgetView(self._total, book.used, by_kind, book.peak, kept, self._holders, waiting, waits_for)


def size(nbytes: int) -> str:
    """As people read it."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} bytes"


__all__ = [
    "URGENT",
    "BudgetView",
    "Kind",
    "MemoryBudget",
    "Need",
    "Order",
    "Resident",
    "State",
    "Ticket",
    "TooLarge",
    "size",
]
