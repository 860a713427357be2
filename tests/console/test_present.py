"""Words of the panels: what an operator reads of a change that is not in force yet."""

from __future__ import annotations

import pytest

from console.screens import present
from prover.model import KnobValue, KnobView, MemoryView, PacerView
from prover.pipeline.knobs import REGISTRY
from widgets.knobs import KnobRow, turned

NAME_AND_VALUE = 36
TITLE_ROOM_AT_80 = 34


@pytest.mark.parametrize(
    ("name", "wanted", "in_force", "lagging", "words"),
    [
        ("synthesis_concurrency", 1, 4, ("synthesis 4 of 1",), "still 4 until 3 synthesisers end"),
        ("synthesis_concurrency", 1, 2, ("synthesis 2 of 1",), "still 2 until 1 synthesiser ends"),
        ("synthesis_concurrency", 3, 1, ("synthesis 1 of 3",), "still 1 until 2 synthesisers start"),
        ("gpu_workers_per_device", 1, 3, ("gpu 3 of 1",), "still 3 until 2 workers end"),
        ("gpu_workers_per_device", 1, 2, ("gpu0 2 of 1", "gpu1 2 of 1"), "still 2 until 2 workers end"),
        ("gpu_lock", "coarse", "narrow", ("gpu0-0", "gpu0-1"), "still narrow until 2 workers end"),
        ("gpu_lock", "coarse", "narrow", ("gpu0-1",), "still narrow until gpu0-1 ends"),
        ("slot_size", 2, 1, ("job 0012",), "still 1 until job 0012 ends"),
        ("slot_size", 2, 1, ("job 0012", "job 0013"), "still 1 until 2 jobs end"),
        ("slot_size", 2, 1, (), "still 1 until the next job"),
        ("synthesis_lookahead", 1, 9, ("queue 6",), "still 9 until the queue is at 1"),
        ("synthesis_lookahead", 0, 9, ("queue 6",), "still 9 until the queue is empty"),
        ("synthesis_lookahead", 2, 1, (), "still 1 for a moment"),
        ("threads", 2, 0, ("synthesis-0",), "still auto until synthesis-0 ends"),
        ("total_budget", 4 << 30, 8 << 30, ("memory 1.5 GiB",), "still 8G until 1.5 GiB are freed"),
        ("paused", True, False, ("gpu0-0", "gpu0-1", "synthesis-0"), "still no until 3 workers end"),
    ],
)
def test_a_change_that_waits_says_what_is_in_force_and_until_when(
    name: str, wanted: KnobValue, in_force: KnobValue, lagging: tuple[str, ...], words: str
):
    view = KnobView(name, wanted, in_force, lagging, changed=1.0)
    (row,) = present.knobs((view,), 2.0, REGISTRY, read_only=False).rows
    assert (row.value, row.status, row.status_role) == (wanted, words, "pending")
    assert len(words) <= TITLE_ROOM_AT_80 and words.startswith(row.short_status)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_knob_can_be_turned_and_only_to_what_it_takes(name: str):
    spec = REGISTRY[name]
    view = KnobView(name, spec.default, spec.default)
    (row,) = present.knobs((view,), 2.0, REGISTRY, read_only=False).rows
    for by in (1, -1):
        value = spec.default
        for _ in range(12):
            value = turned(row, value, by)
            assert spec.check(value) == value


@pytest.mark.parametrize(
    ("lookahead", "words"), [(1, "1 wait, lookahead 1 holds 1"), (4, "1 wait, 2 of 5 on the way"), (9, None)]
)
def test_the_pacers_row_says_when_the_lookahead_holds_fewer_than_it_aims_at(lookahead: int, words: str | None):
    views = (
        KnobView("synthesis_lookahead", lookahead, lookahead),
        KnobView("max_gpu_queue_depth", 4, 4),
    )
    pacer = PacerView(4, 1, 1, None if words is None else 5, None, None, False)
    rows = present.knobs(views, 2.0, REGISTRY, read_only=False, pacer=pacer).rows
    (row,) = (row for row in rows if row.name == "max_gpu_queue_depth")
    assert row.status == (words or "in force") and len(row.status) <= TITLE_ROOM_AT_80


GIB = 1 << 30


def sized(name: str, wanted: KnobValue, memory: MemoryView | None) -> KnobRow:
    view = KnobView(name, wanted, wanted)
    (row,) = present.knobs((view,), 2.0, REGISTRY, read_only=False, memory=memory).rows
    return row


def test_a_budget_is_turned_within_the_machine_from_where_it_stands():
    machine = 25 * GIB // 4
    row = sized("total_budget", "auto", MemoryView(machine, 0, automatic=machine))
    assert row.choices == (GIB, 3 * GIB // 2, 2 * GIB, 3 * GIB, 4 * GIB, 6 * GIB, "auto")
    assert turned(row, "auto", -1) == 6 * GIB
    assert turned(row, "auto", 1) == "auto" and turned(row, GIB, -1) == GIB
    cut = sized("total_budget", 5 * GIB, MemoryView(5 * GIB, 0, automatic=machine))
    assert [turned(cut, 5 * GIB, by) for by in (-1, 1, 2)] == [4 * GIB, 6 * GIB, "auto"], "back up as well"
    beyond = sized("total_budget", 9 * GIB, MemoryView(9 * GIB, 0, automatic=machine))
    assert turned(beyond, 9 * GIB, -1) == 8 * GIB and "auto" in beyond.choices


def test_the_pool_is_turned_within_the_budget_and_may_be_none():
    row = sized("pinned_pool_bytes", "auto", MemoryView(16 * GIB, 0, automatic=16 * GIB))
    assert [turned(row, "auto", by) for by in (-1, 1)] == [3 * GIB // 2, 2 * GIB]
    assert row.choices[0] == 0 and row.choices[-1] == 12 * GIB


@pytest.mark.parametrize("name", ["total_budget", "pinned_pool_bytes"])
def test_an_unknown_machine_offers_no_size_that_it_may_not_have(name: str):
    for memory in (None, MemoryView(None, 0)):
        assert not [size for size in sized(name, "auto", memory).choices if isinstance(size, int) and size]


def test_a_change_in_force_says_how_long_that_took():
    view = KnobView("slot_size", 2, 2, (), changed=1.0, landed=1.27)
    (row,) = present.knobs((view,), 2.0, REGISTRY, read_only=False).rows
    assert row.status == "in force after 0.27 s"
    (row,) = present.knobs((view,), 60.0, REGISTRY, read_only=False).rows
    assert row.status == "in force"
