"""Admission: a slot's synthesis begins when the memory budget has everything that the slot will take.

The scheduler alone says who is next; the budget says when. So one request waits at a time, that of the slot that would
be begun next: when another takes its place (a more urgent job came, the job was cancelled) the request is withdrawn and
the other's is made. A request that is granted while every synthesiser is busy waits for the first that is free.

Every method is called with the engine's lock held. Memory is freed by the evictor's thread, outside the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from prover.memory_limits import MemoryLimits
from prover.model import EventKind, MemoryView
from prover.pipeline.board import Board
from prover.pipeline.budget import Kind, MemoryBudget, Need, Order, State, Ticket, TooLarge, size
from prover.pipeline.footprint import FootprintModel, footprint_of
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import Slot, SlotPart

UNKNOWN = 1 << 62
"""The budget of a system that does not tell its memory: nothing waits for it."""


class PinnedMemory(Protocol):
    """A device's pool of page-locked buffers."""

    allow: Callable[[int], bool]
    """Asked, outside the engine's lock, before the pool grows by so many bytes beyond ``least``."""
    shrunk: Callable[[int], None]
    """Told, outside the engine's lock, when it did not grow after all."""

    @property
    def least(self) -> int:
        """Bytes that the pool may hold without asking: a copy has to get through."""

    @property
    def idle(self) -> int:
        """Bytes beyond ``least`` that no copy uses now."""

    def trim(self, nbytes: int) -> int:
        """Free up to so many bytes, in whole buffers, that no copy uses, beyond ``least``; how many it were."""


class Admission:
    """The engine's memory budget, and the request of the slot that is next."""

    def __init__(self, board: Board, knobs: KnobSet, limits: MemoryLimits) -> None:
        self.wake: Callable[[], None] = lambda: None
        """Called when the slot that waits may begin, or never can."""
        self._board = board
        self._limits = limits
        self._models: dict[str, FootprintModel] = {}
        self._host = False
        self._pools: list[PinnedMemory] = []
        self._next: Ticket | None = None
        self._followed = total, pinned = self._bounds(knobs)
        self._budget = MemoryBudget(total, pinned=pinned, wake=self._woken)
        self.evictor = Evictor(self, board)

    # -- what there is ------------------------------------------------------------------------------------------------

    def attach(self, workloads: Mapping[str, object]) -> None:
        """The workloads are loaded, by circuit."""
        for circuit, workload in workloads.items():
            model = footprint_of(workload)
            if model is None:
                continue
            self._models[circuit] = model
            for kind, nbytes in model.fixed(self._host).items():
                self._budget.fix(kind, nbytes)

    def add_device(self, is_host: bool, pool: PinnedMemory | None) -> None:
        """A device that proves, with its pinned buffers if it has any."""
        self._host = self._host or is_host
        if pool is None:
            return
        pool.trim(UNKNOWN)
        self._budget.fix(Kind.PINNED, pool.least)
        self._pools.append(pool)
        pool.allow, pool.shrunk = self._grow, self._shrunk

    # -- a slot's way -------------------------------------------------------------------------------------------------

    def admits(self, parts: Sequence[SlotPart], circuit: str) -> bool:
        """Whether the slot that is next may begin now; if not, its request waits and ``wake`` tells when to ask again.

        Raises:
            TooLarge: if it never can.
        """
        need = self._need(parts, circuit)
        if need is None:
            self.withdraw()
            return True
        if self._next is not None and not self._serves(self._next, need):
            self._drop()
        if self._next is None:
            self._tell_idle()
            self._next = self._budget.ask(need)
        if self._next.state is State.REFUSED:
            reason = self._next.reason or ""
            self._drop()
            raise TooLarge(reason)
        self._tell(self.waits)
        return not self.waits

    def claim(self, slot: Slot) -> None:
        """The slot that was admitted begins: what was granted is its own."""
        slot.ticket, self._next = self._next, None
        for name in slot.ticket.loads if slot.ticket is not None else ():
            self._budget.loaded(name)  # it comes back by itself when it is read

    def withdraw(self) -> None:
        """Nothing is to be begun now."""
        if self._next is not None:
            self._drop()
        self._tell(False)

    def vectors_freed(self, slot: Slot) -> None:
        """The device has taken what synthesis made, and it is freed here."""
        if slot.ticket is not None:
            self._tell_idle()
            self._budget.release_vectors(slot.ticket)

    def freed(self, slot: Slot) -> None:
        """The slot holds nothing any more. Idempotent."""
        if slot.ticket is not None:
            self._tell_idle()
            self._budget.release(slot.ticket)
            slot.ticket = None

    # -- knobs --------------------------------------------------------------------------------------------------------

    def follow(self, knobs: KnobSet) -> None:
        """Take over the knobs ``total_budget`` and ``pinned_pool_bytes``."""
        bounds = self._bounds(knobs)
        if bounds != self._followed:
            self._followed = bounds
            self._tell_idle()
            self._budget.set_total(*bounds)

    def refusal(self, knobs: KnobSet, ahead: Iterable[tuple[SlotPart, str]]) -> str | None:
        """Why these knobs should be refused: one of the slots that wait to begin (and its circuit) would never fit."""
        needs = (self._need([part], circuit) for part, circuit in ahead if part.partitions)
        return self._budget.refusal(self._bounds(knobs)[0], *(need for need in needs if need is not None))

    def cost(self, slot_size: int, partitions: int, circuit: str) -> str | None:
        """What a slot of a job of ``partitions`` takes under a ``slot_size``, and beside it one partition."""
        model = self._models.get(circuit)
        count = min(slot_size or partitions, partitions)
        if model is None or count < 2:
            return None
        many, one = model.slot(count, self._host), model.slot(1, self._host)
        mode = "standard mode: " if count == partitions else ""
        taken = size(many.vectors + many.rest)
        return f"{mode}{taken} a slot of {count}, one partition takes {size(one.vectors + one.rest)}"

    def lagging(self) -> tuple[str, ...]:
        """What is in use beyond a budget that was cut."""
        over = self._budget.surplus
        return (f"memory {size(over)}",) if over else ()

    # -- views --------------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether the slot that is next waits for memory."""
        return self._next is not None and self._next.state is State.WAITING

    @property
    def view(self) -> MemoryView | None:
        """The budget as it stands, None while no workload tells what it takes. Needs no lock."""
        if not self._models:
            return None
        found = self._budget.view
        return MemoryView(
            None if found.total >= UNKNOWN else found.total,
            found.used,
            tuple((kind.value, nbytes) for kind, nbytes in found.by_kind),
            found.peak,
            found.kept,
            found.waits_for,
            self._limits.automatic(),
        )

    # -- for the evictor ----------------------------------------------------------------------------------------------

    def take_orders(self) -> list[Order]:
        """What is to be freed now."""
        return self._budget.take_orders()

    def carry_out(self, order: Order) -> int:
        """Free what was ordered; the bytes freed. Called without the lock."""
        if order.name is not None:
            for model in list(self._models.values()):
                if any(resident.name == order.name for resident in model.residents):
                    model.evict(order.name)
            return order.nbytes
        freed = 0
        for pool in self._pools:
            freed += pool.trim(order.nbytes - freed)
        return freed

    def carried_out(self, order: Order, freed: int) -> None:
        """An order is done."""
        if order.name is None:
            self._budget.trimmed(order.nbytes, freed)
        else:
            self._budget.evicted(order.name)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _bounds(self, knobs: KnobSet) -> tuple[int, int | None]:
        total, pinned = knobs["total_budget"], knobs["pinned_pool_bytes"]
        automatic = self._limits.automatic()
        most = total if isinstance(total, int) else UNKNOWN if automatic is None else automatic
        return most, pinned if isinstance(pinned, int) else None

    def _need(self, parts: Sequence[SlotPart], circuit: str) -> Need | None:
        model = self._models.get(circuit)
        if model is None:
            return None
        takes = model.slot(sum(len(part.partitions) for part in parts), self._host)
        who = "; ".join(f"job {job.id}, {_numbered(partitions)}" for job, partitions in parts)
        priority = min(part.job.priority for part in parts)
        return Need(who, takes.vectors, takes.rest, tuple(model.residents), priority)

    @staticmethod
    def _serves(ticket: Ticket, need: Need) -> bool:
        """Whether a request made for one slot does for another: who waits has its name on it."""
        had = ticket.need
        if ticket.state is State.WAITING:
            return had == need
        return (had.vectors, had.rest, had.residents, had.priority) == (
            need.vectors,
            need.rest,
            need.residents,
            need.priority,
        )

    def _drop(self) -> None:
        assert self._next is not None
        ticket, self._next = self._next, None
        self._budget.release(ticket)

    def _grow(self, nbytes: int) -> bool:
        with self._board.transaction:
            return self._budget.grow_pinned(nbytes)

    def _shrunk(self, nbytes: int) -> None:
        with self._board.transaction:
            self._budget.trimmed(0, nbytes)

    def _tell_idle(self) -> None:
        if self._pools:
            self._budget.pinned_idle(sum(pool.idle for pool in self._pools))

    def _woken(self) -> None:
        if self._next is not None and self._next.state is State.GRANTED:
            self._tell(False)
        self.evictor.ring()
        self.wake()

    def _tell(self, waits: bool) -> None:
        """Say that the next slot waits for memory, or does no more."""
        if waits == self._board.memory_waits:
            return
        self._board.memory_waits = waits
        view = self._budget.view
        fields = {"waits": waits, "what": view.waits_for, "used": view.used, "total": view.total}
        self._board.announce(EventKind.MEMORY, self._board.clock(), fields=fields)


def _numbered(partitions: Sequence[int]) -> str:
    first, last = partitions[0], partitions[-1]
    return f"partition {first}" if len(partitions) == 1 else f"partitions {first}-{last}"


class Evictor:
    """The thread that frees what the budget orders."""

    def __init__(self, admission: Admission, board: Board) -> None:
        self._admission = admission
        self._board = board
        self._bell = board.condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._rung = False

    def ring(self) -> None:
        """There may be orders. Called with the lock held."""
        self._rung = True
        self._bell.notify()

    def start(self) -> None:
        """Begin to free. Called with the lock held."""
        self._thread = self._board.clock.thread(self._run, "memory")
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until the thread is over."""
        with self._board.transaction:
            self._closing = True
            self._bell.notify()
        if self._thread is not None:
            with self._board.clock.outside():
                self._thread.join()

    def _run(self) -> None:
        while True:
            with self._board.transaction:
                while not (self._rung or self._closing):
                    self._board.wait(self._bell)
                if self._closing:
                    return
                self._rung = False
                orders = self._admission.take_orders()
            done = [(order, self._admission.carry_out(order)) for order in orders]
            if done:
                with self._board.transaction:
                    for order, freed in done:
                        self._admission.carried_out(order, freed)


__all__ = ["UNKNOWN", "Admission", "Evictor", "PinnedMemory"]
