"""The memory budget: what it grants, in which order, what it evicts; by cases and by a state machine."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from prover.pipeline.budget import Kind, MemoryBudget, Need, Resident, State, Ticket, TooLarge

KEY = Resident("porep key", Kind.KEYS, 40)
MATRICES = Resident("porep matrices", Kind.MATRICES, 20)
OTHER = Resident("snap key", Kind.KEYS, 30)


def need(who: str = "slot", vectors: int = 6, rest: int = 4, *residents: Resident, priority: int = 2) -> Need:
    return Need(who, vectors, rest, residents, priority)


def load_all(budget: MemoryBudget, ticket: Ticket) -> None:
    for name in ticket.loads:
        budget.loaded(name)


def carry_out(budget: MemoryBudget) -> list[str | None]:
    done = []
    for order in budget.take_orders():
        if order.name is None:
            budget.trimmed(order.nbytes, order.nbytes)
        else:
            budget.evicted(order.name)
        done.append(order.name)
    return done


def test_a_slot_takes_all_at_once_and_gives_back_in_two_phases():
    budget = MemoryBudget(100)
    ticket = budget.ask(need("slot", 6, 4, KEY, MATRICES))
    assert ticket.state is State.GRANTED and ticket.loads == (KEY.name, MATRICES.name)
    assert dict(budget.view.by_kind) == {Kind.KEYS: 40, Kind.MATRICES: 20, Kind.WORKING: 10, Kind.PINNED: 0}
    budget.release_vectors(ticket)
    budget.release_vectors(ticket)
    assert budget.view.used == 64
    budget.release(ticket)
    budget.release(ticket)
    assert budget.view.used == 0, "a key that nobody loaded takes nothing once its holder has gone"
    assert budget.view.peak == 70


def test_a_loaded_key_stays_for_the_next_slot():
    budget = MemoryBudget(100)
    first = budget.ask(need("first", 6, 4, KEY))
    load_all(budget, first)
    budget.release(first)
    assert budget.view.used == 40
    second = budget.ask(need("second", 6, 4, KEY))
    assert second.loads == () and budget.ready(second, KEY.name) is True
    assert budget.take_orders() == []


def test_larger_than_the_whole_budget_is_refused_in_one_line():
    budget = MemoryBudget(3 << 30)
    with pytest.raises(TooLarge) as caught:
        budget.ask(Need("job 0007, partition 3", 2 << 30, 2 << 30))
    assert str(caught.value) == (
        "job 0007, partition 3: needs 4.0 GiB, the whole memory budget is 3.0 GiB: "
        "raise total_budget, or make slots smaller"
    )
    assert budget.view.used == 0 and budget.view.waiting == 0


def test_nobody_overtakes_the_head_and_priority_goes_first():
    budget = MemoryBudget(100)
    holder = budget.ask(need("holder", 50, 20))
    large = budget.ask(need("large", 55, 0))
    small = budget.ask(need("small", 5, 0))
    assert small.state is State.WAITING, "it would fit, but the large one came first"
    assert budget.view.waits_for == "large waits for 25 bytes more"
    critical = budget.ask(need("critical", 40, 0, priority=0))
    assert critical.state is State.WAITING
    budget.release_vectors(holder)
    assert (critical.state, large.state, small.state) == (State.GRANTED, State.WAITING, State.WAITING)
    budget.release(critical)
    assert (large.state, small.state) == (State.GRANTED, State.WAITING)  # 20 + 55 + the 25 kept for critical ones
    budget.release(holder)
    assert small.state is State.GRANTED


def test_what_an_urgent_slot_needed_is_kept_for_the_next():
    budget = MemoryBudget(100)
    budget.release(budget.ask(need("proof of spacetime", 10, 5, priority=0)))
    assert budget.view.kept == 15
    running = [budget.ask(need(f"slot {i}", 20, 0)) for i in range(5)]
    assert [ticket.state for ticket in running].count(State.GRANTED) == 4
    assert budget.ask(need("proof of spacetime", 10, 5, priority=1)).state is State.GRANTED


def test_what_is_kept_does_not_stop_a_slot_that_needs_it_all():
    budget = MemoryBudget(100)
    budget.release(budget.ask(need("urgent", 20, 0, priority=0)))
    assert budget.ask(need("whole", 100, 0)).state is State.GRANTED


def test_reprioritised_keeps_its_age():
    budget = MemoryBudget(100)
    holder = budget.ask(need("holder", 100, 0))
    first, second, third = (budget.ask(need(name, 100, 0)) for name in ("first", "second", "third"))
    budget.reprioritise(third, 1)
    budget.reprioritise(second, 3)
    budget.reprioritise(second, 2)
    budget.release(holder)
    assert third.state is State.GRANTED
    budget.release(third)
    assert first.state is State.GRANTED
    budget.release(first)
    assert second.state is State.GRANTED


def test_the_longest_unused_key_is_evicted_and_counts_until_it_is_freed():
    budget = MemoryBudget(100)
    for resident in (KEY, OTHER):
        ticket = budget.ask(need("load", 0, 0, resident))
        load_all(budget, ticket)
        budget.release(ticket)
    waiting = budget.ask(need("slot", 35, 0))
    assert waiting.state is State.WAITING and budget.view.used == 70
    assert carry_out(budget) == [KEY.name]
    assert waiting.state is State.GRANTED and budget.view.used == 65


def test_a_key_that_a_waiting_slot_names_goes_last():
    budget = MemoryBudget(100)
    for resident in (KEY, OTHER):
        ticket = budget.ask(need("load", 0, 0, resident))
        load_all(budget, ticket)
        budget.release(ticket)
    holder = budget.ask(need("holder", 20, 0))
    waiting = budget.ask(need("reads the older key", 30, 0, KEY))
    assert waiting.state is State.WAITING
    assert carry_out(budget) == [OTHER.name]
    assert waiting.state is State.GRANTED and holder.state is State.GRANTED


def test_nothing_is_evicted_in_vain():
    budget = MemoryBudget(100)
    ticket = budget.ask(need("load", 0, 0, KEY))
    load_all(budget, ticket)
    budget.release(ticket)
    holder = budget.ask(need("holder", 50, 5))
    waiting = budget.ask(need("slot", 50, 0))
    assert budget.take_orders() == [], "45 bytes would be there, 50 are needed: the holder has to end first"
    budget.release(holder)
    assert waiting.state is State.GRANTED and budget.take_orders() == []


def test_what_is_on_its_way_out_is_not_ordered_twice_over():
    budget = MemoryBudget(100)
    for resident in (KEY, OTHER):
        ticket = budget.ask(need("load", 0, 0, resident))
        load_all(budget, ticket)
        budget.release(ticket)
    budget.ask(need("head", 35, 0))
    budget.ask(need("another", 1, 0))
    assert [order.name for order in budget.take_orders()] == [KEY.name]


def test_a_key_in_use_or_loading_is_never_evicted():
    budget = MemoryBudget(100)
    reader = budget.ask(need("reader", 10, 0, KEY))
    waiting = budget.ask(need("slot", 60, 0))
    assert budget.take_orders() == []
    load_all(budget, reader)
    assert budget.take_orders() == [] and waiting.state is State.WAITING
    with pytest.raises(ValueError, match="was not ordered"):
        budget.evicted(KEY.name)


def test_a_failed_load_is_left_to_the_next_reader():
    budget = MemoryBudget(200)
    first, second = (budget.ask(need(name, 1, 0, KEY)) for name in ("first", "second"))
    assert first.loads == (KEY.name,) and second.loads == ()
    assert budget.ready(second, KEY.name) is None
    budget.load_failed(KEY.name)
    assert budget.ready(second, KEY.name) is False and budget.ready(first, KEY.name) is None
    budget.release(second)  # cancelled while it loads
    assert budget.ready(first, KEY.name) is False
    budget.loaded(KEY.name)
    assert budget.ready(first, KEY.name) is True


def test_a_cut_takes_nothing_in_use_and_stops_admission_until_below():
    budget = MemoryBudget(200)
    key = budget.ask(need("load", 0, 0, KEY))
    load_all(budget, key)
    budget.release(key)
    running = [budget.ask(need(f"slot {i}", 50, 0)) for i in range(3)]
    waiting = budget.ask(need("next", 50, 0))
    assert waiting.state is State.WAITING and budget.view.used == 190
    budget.set_total(60)
    assert carry_out(budget) == [KEY.name]
    assert [ticket.state for ticket in running] == [State.GRANTED] * 3 and budget.view.over == 90
    budget.release(running[0])
    budget.release(running[1])
    assert waiting.state is State.WAITING and budget.view.used == 50
    budget.release(running[2])
    assert waiting.state is State.GRANTED


def test_a_cut_below_what_waits_is_told_before_and_refused_when_forced():
    budget = MemoryBudget(200)
    holder = budget.ask(need("holder", 200, 0))
    waiting = budget.ask(need("slot", 150, 0))
    assert budget.refusal(100) == "slot: needs 150 bytes, the whole memory budget is 100 bytes"
    assert budget.refusal(150) is None
    budget.set_total(100)
    assert waiting.state is State.REFUSED and waiting.reason is not None and "\n" not in waiting.reason
    assert holder.state is State.GRANTED
    budget.release(waiting)
    assert waiting.state is State.REFUSED


def test_the_pinned_pool_grows_only_into_what_nobody_waits_for():
    budget = MemoryBudget(100, pinned=30)
    assert budget.grow_pinned(20) and not budget.grow_pinned(11)
    budget.pinned_idle(20)
    waiting = budget.ask(need("slot", 90, 0))
    assert waiting.state is State.WAITING and not budget.grow_pinned(1)
    assert carry_out(budget) == [None]
    assert waiting.state is State.GRANTED and dict(budget.view.by_kind)[Kind.PINNED] == 10


def test_a_pool_that_could_not_trim_is_not_asked_again_until_it_tells_anew():
    budget = MemoryBudget(100, pinned=30)
    budget.grow_pinned(30)
    budget.pinned_idle(30)
    waiting = budget.ask(need("slot", 90, 0))
    (order,) = budget.take_orders()
    budget.trimmed(order.nbytes, 0)
    assert budget.take_orders() == [] and waiting.state is State.WAITING
    budget.pinned_idle(30)
    assert carry_out(budget) == [None] and waiting.state is State.GRANTED


def test_sizes_are_checked():
    budget = MemoryBudget(100)
    with pytest.raises(ValueError, match="below zero"):
        budget.ask(need("slot", -1, 0))
    with pytest.raises(ValueError, match="named twice"):
        budget.ask(need("slot", 1, 0, KEY, KEY))
    budget.ask(need("slot", 1, 0, KEY))
    with pytest.raises(ValueError, match="was 40"):
        budget.ask(need("slot", 1, 0, Resident(KEY.name, Kind.KEYS, 41)))


RESIDENTS = [
    Resident(f"r{i}", Kind.KEYS if i % 2 else Kind.MATRICES, size) for i, size in enumerate((0, 7, 25, 40, 60))
]


class Admission(RuleBasedStateMachine):
    """Holders, an evictor and a pool that act at any time in any order, against a count of bytes made by hand."""

    tickets = Bundle("tickets")

    @initialize(total=st.integers(1, 120))
    def begin(self, total: int) -> None:
        self.budget = MemoryBudget(total, pinned=total // 4, urgent_share=0.5)
        self.total = total
        self.alive: list[Ticket] = []
        self.present: dict[str, int] = {}
        self.orders: list = []
        self.pool = self.idle = 0
        self.used_before = 0

    @rule(
        target=tickets,
        vectors=st.integers(0, 60),
        rest=st.integers(0, 30),
        residents=st.lists(st.sampled_from(RESIDENTS), unique=True, max_size=3),
        priority=st.integers(0, 3),
    )
    def ask(self, vectors: int, rest: int, residents: list[Resident], priority: int) -> Ticket | None:
        asked = Need(f"slot {len(self.alive)}", vectors, rest, tuple(residents), priority)
        before = [ticket for ticket in self.alive if ticket.state is State.WAITING]
        if asked.nbytes > self.total:
            with pytest.raises(TooLarge):
                self.budget.ask(asked)
            return None
        ticket = self.budget.ask(asked)
        self.alive.append(ticket)
        if ticket.state is State.GRANTED:
            assert all(other.state is State.GRANTED or other.order > ticket.order for other in before)
        return ticket

    @rule(ticket=tickets)
    def vectors_freed(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            self.budget.release_vectors(ticket)

    @rule(ticket=consumes(tickets))
    def ended(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            self.budget.release(ticket)
            self.budget.release(ticket)

    @rule(ticket=tickets, priority=st.integers(0, 3))
    def reprioritise(self, ticket: Ticket | None, priority: int) -> None:
        if ticket is not None:
            self.budget.reprioritise(ticket, priority)

    @rule(ticket=tickets, fails=st.booleans())
    def load(self, ticket: Ticket | None, fails: bool) -> None:
        if ticket is None or ticket.state is not State.GRANTED:
            return
        for resident in ticket.need.residents:
            if self.budget.ready(ticket, resident.name) is False:
                (self.budget.load_failed if fails else self.budget.loaded)(resident.name)

    @rule()
    def fetch_orders(self) -> None:
        new = self.budget.take_orders()
        for order in new:
            if order.name is not None:
                readers = [t for t in self.alive if t.state is State.GRANTED and self._reads(t, order.name)]
                assert readers == [], "evicted while it is read"
        self.orders += new

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def carry_out(self, data: st.DataObject) -> None:
        order = self.orders.pop(data.draw(st.integers(0, len(self.orders) - 1)))
        if order.name is not None:
            self.budget.evicted(order.name)
            return
        freed = data.draw(st.integers(0, min(order.nbytes, self.idle)))
        self.pool -= freed
        self.idle -= freed
        self.budget.trimmed(order.nbytes, freed)

    @rule(nbytes=st.integers(1, 20))
    def grow(self, nbytes: int) -> None:
        if self.budget.grow_pinned(nbytes):
            self.pool += nbytes

    @rule(share=st.floats(0, 1))
    def pool_idle(self, share: float) -> None:
        self.idle = int(self.pool * share)
        self.budget.pinned_idle(self.idle)

    @rule(total=st.integers(1, 120))
    def change_total(self, total: int) -> None:
        waiting = [ticket for ticket in self.alive if ticket.state is State.WAITING]
        told = self.budget.refusal(total)
        self.total = total
        self.budget.set_total(total, total // 4)
        refused = [ticket for ticket in waiting if ticket.state is State.REFUSED]
        assert (told is not None) == bool(refused)
        assert all(ticket.need.nbytes > total and ticket.reason for ticket in refused)

    @staticmethod
    def _reads(ticket: Ticket, name: str) -> bool:
        return any(resident.name == name for resident in ticket.need.residents)

    @invariant()
    def bytes_add_up_and_are_never_too_many(self) -> None:
        view = self.budget.view
        by_kind = dict(view.by_kind)
        held = [ticket for ticket in self.alive if ticket.state is State.GRANTED]
        assert by_kind[Kind.WORKING] == sum(ticket.vectors + ticket.rest for ticket in held)
        read = {resident for ticket in held for resident in ticket.need.residents}
        assert by_kind[Kind.KEYS] + by_kind[Kind.MATRICES] >= sum(resident.nbytes for resident in read)
        assert by_kind[Kind.PINNED] == self.pool
        assert view.used == sum(by_kind.values()) and min(by_kind.values()) >= 0
        assert view.used <= max(view.total, self.used_before), "it grew beyond the budget"
        self.used_before = view.used
        self.alive = [ticket for ticket in self.alive if ticket.state in (State.WAITING, State.GRANTED)]

    @invariant()
    def the_head_waits_for_a_reason(self) -> None:
        waiting = [ticket for ticket in self.alive if ticket.state is State.WAITING]
        view = self.budget.view
        assert view.waiting == len(waiting) and (view.waits_for is not None) == bool(waiting)
        if waiting and not view.holders and not self.pool:
            assert self.orders or self.budget._orders, "nobody holds anything, nothing is on its way, and it waits"

    def teardown(self) -> None:
        """From any state: when holders end and orders are carried out, everything that waits gets its turn."""
        if not hasattr(self, "budget"):
            return
        while True:
            self.budget.pinned_idle(self.pool)
            for order in self.orders + self.budget.take_orders():
                if order.name is not None:
                    self.budget.evicted(order.name)
                else:
                    freed = min(order.nbytes, self.pool)
                    self.pool -= freed
                    self.budget.trimmed(order.nbytes, freed)
            self.orders = []
            alive = [ticket for ticket in self.alive if ticket.state in (State.WAITING, State.GRANTED)]
            if not alive:
                break
            held = [ticket for ticket in alive if ticket.state is State.GRANTED]
            if not held:
                assert self.budget._orders, "deadlock"
            for ticket in held:
                self.budget.release(ticket)
        assert dict(self.budget.view.by_kind)[Kind.WORKING] == 0
        assert self.budget.view.holders == self.budget.view.waiting == 0


TestAdmission = Admission.TestCase
TestAdmission.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
