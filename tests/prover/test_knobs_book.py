"""Proposals: what is accepted, refused and why; wanted and in force; who lags; the way back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prover.model import EventKind, FieldValue, KnobView
from prover.pipeline.interfaces import Change
from prover.pipeline.knob_book import KnobBook
from prover.pipeline.knobs import REGISTRY, KnobSet


class Desk:
    """A book whose laggards are set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lagging: dict[str, tuple[str, ...]] = {}
        self.told: list[tuple[EventKind, dict[str, FieldValue]]] = []
        self.book = KnobBook(
            KnobSet(),
            lambda name, knobs: self.lagging.get(name, ()),
            lambda kind, fields: self.told.append((kind, fields)),
            lambda: self.now,
        )

    def view(self, name: str) -> KnobView:
        return next(view for view in self.book.views if view.name == name)

    def kinds(self) -> list[EventKind]:
        return [kind for kind, _ in self.told]


def test_a_change_is_wanted_at_once_and_in_force_when_nobody_lags() -> None:
    desk = Desk()
    desk.lagging["gpu_lock"] = ("gpu0-0", "gpu0-1")
    desk.now = 5.0
    receipt = desk.book.propose(Change("gpu_lock", "coarse", who="tester"))
    assert receipt.accepted and receipt.generation == 1 and receipt.effect == "next partition"
    assert desk.book.current["gpu_lock"] == "coarse"
    desk.book.settle()
    assert desk.view("gpu_lock") == KnobView("gpu_lock", "coarse", "narrow", ("gpu0-0", "gpu0-1"), 5.0, None)
    desk.lagging["gpu_lock"] = ("gpu0-1",)
    desk.book.settle()
    assert desk.view("gpu_lock").lagging == ("gpu0-1",)
    desk.lagging.clear()
    desk.now = 7.0
    desk.book.settle()
    assert desk.view("gpu_lock") == KnobView("gpu_lock", "coarse", "coarse", (), 5.0, 7.0)
    assert desk.kinds() == [EventKind.KNOB_PROPOSED, EventKind.KNOB_APPLIED]
    assert desk.told[1][1] == {"name": "gpu_lock", "value": "coarse", "generation": 1, "seconds": 2.0}


def test_out_of_range_and_unknown_are_refused_in_one_line() -> None:
    desk = Desk()
    for change, word in [
        (Change("slot_size", 4096), "give a whole number from 0 to 1024"),
        (Change("slot_size", "2"), "slot_size=2"),
        (Change("warp", 9), "no such knob"),
        (Change("total_budget", -1), "give auto, or a size such as 8GiB"),
    ]:
        receipt = desk.book.propose(change)
        assert not receipt.accepted and receipt.reason and word in receipt.reason and "\n" not in receipt.reason
    assert desk.book.current.generation == 0
    assert set(desk.kinds()) == {EventKind.KNOB_REFUSED}


def test_a_stale_proposal_is_refused_only_if_that_knob_changed() -> None:
    desk = Desk()
    assert desk.book.propose(Change("slot_size", 2)).generation == 1
    assert desk.book.propose(Change("gpu_lock", "coarse", based_on=0)).accepted
    refused = desk.book.propose(Change("slot_size", 3, based_on=0))
    assert not refused.accepted and refused.reason == "changed meanwhile: slot_size: it is 2 now: look again"
    assert desk.book.propose(Change("slot_size", 3, based_on=2)).accepted
    assert not desk.book.propose(Change("slot_size", 4, old=2)).accepted
    assert desk.book.propose(Change("slot_size", 4, old=3)).accepted


def test_the_same_value_changes_nothing_and_says_so() -> None:
    desk = Desk()
    receipt = desk.book.propose(Change("slot_size", 1))
    assert receipt.accepted and receipt.generation == 0 and receipt.note == "slot_size is 1 already"
    assert not desk.told
    assert not desk.book.undo("tester").accepted


def test_a_value_that_another_knob_limits_is_remarked() -> None:
    desk = Desk()
    receipt = desk.book.propose(Change("synthesis_concurrency", 20))
    assert receipt.accepted and receipt.note == "synthesis_concurrency 20 is limited to 18 by max_parallel_synthesis"
    assert desk.book.propose(Change("max_parallel_synthesis", 32)).note is None
    assert desk.book.current.synthesisers == 20


def test_undo_goes_back_one_change_at_a_time() -> None:
    desk = Desk()
    for name, value in [("slot_size", 2), ("gpu_lock", "coarse"), ("slot_size", 3)]:
        desk.book.propose(Change(name, value))
    seen = []
    while desk.book.undo("tester").accepted:
        seen.append((desk.book.current["slot_size"], desk.book.current["gpu_lock"]))
    assert seen == [(2, "coarse"), (2, "narrow"), (1, "narrow")]
    refused = desk.book.undo("tester")
    assert not refused.accepted and refused.reason == "nothing to undo: no change was made"
    desk.book.propose(Change("slot_size", 9))
    assert desk.book.undo("tester").accepted and desk.book.current["slot_size"] == 1


VALUES = st.one_of(
    st.tuples(st.just("slot_size"), st.integers(0, 4)),
    st.tuples(st.just("gpu_lock"), st.sampled_from(["narrow", "coarse"])),
    st.tuples(st.just("paused"), st.booleans()),
)


@given(st.lists(VALUES, max_size=30))
def test_undoing_everything_restores_the_start_and_generations_only_grow(changes: list[tuple[str, int | str]]) -> None:
    desk = Desk()
    last = 0
    for name, value in changes:
        receipt = desk.book.propose(Change(name, value))
        assert receipt.accepted and receipt.generation >= last
        last = receipt.generation
    while desk.book.undo("tester").accepted:
        pass
    assert dict(desk.book.current) == {name: spec.default for name, spec in REGISTRY.items()}
    desk.book.settle()
    assert all(view.wanted == view.in_force and not view.lagging for view in desk.book.views)
