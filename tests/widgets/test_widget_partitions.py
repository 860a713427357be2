import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from prover.model import JobState, JobView, PartitionState, PartitionView, Phase, Span
from widgets.partitions import PartitionsData, PartitionsPanel, arrange, bar_cells, nice_step, phases_of


def job(name: str, partitions: int, done: int = 0, state: JobState = JobState.RUNNING) -> JobView:
    parts = tuple(
        PartitionView(index, PartitionState.DONE if index < done else PartitionState.PENDING)
        for index in range(partitions)
    )
    return JobView(name, "c", state, 0.0, 0.0, slot_size=1, partitions=parts)


@given(
    st.lists(st.integers(min_value=1, max_value=20), max_size=6),
    st.integers(min_value=0, max_value=4),
    st.integers(min_value=1, max_value=40),
)
def test_rows_never_exceed_the_room_and_every_job_is_counted(sizes: list[int], waiting: int, rows: int):
    jobs = [job(f"r{i}", size) for i, size in enumerate(sizes)]
    jobs += [job(f"w{i}", 8, state=JobState.WAITING) for i in range(waiting)]
    lines = arrange(jobs, rows)
    assert len(lines) <= rows
    named = {line.job.id for line in lines if not line.text}
    hidden = [line.text for line in lines if line.text]
    assert len(hidden) <= 1
    if not hidden:
        assert named == {one.id for one in jobs}


def test_all_partitions_when_they_fit():
    lines = arrange([job("a", 8), job("b", 8)], 16)
    assert [line.partition.index for line in lines if line.partition] == [*range(8), *range(8)]


def test_a_window_around_the_work_when_they_do_not():
    lines = arrange([job("a", 8, done=5), job("b", 8)], 8)
    assert [line.partition.index for line in lines if line.partition] == [4, 5, 6, 7, 0, 1, 2, 3]


def test_one_line_a_job_when_short_of_room():
    lines = arrange([job("a", 8), job("b", 8), job("c", 8)], 4)
    assert [(line.job.id, line.partition) for line in lines] == [("a", None), ("b", None), ("c", None)]


def test_rows_do_not_depend_on_the_phase_of_the_work():
    counts = {len(arrange([job("a", 8, done=done), job("b", 8)], 9)) for done in range(9)}
    assert len(counts) == 1


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_nice_steps(value: float):
    step = nice_step(value)
    assert step >= value * (1 - 1e-9) and (step <= value * 2.5 or step == pytest.approx(0.001) or value < 1e-3)


@given(
    st.lists(st.tuples(st.sampled_from(list(Phase)), st.floats(min_value=0.01, max_value=5)), min_size=1, max_size=9),
    st.integers(min_value=8, max_value=150),
)
def test_bars_are_as_long_as_their_time(phases: list[tuple[Phase, float]], width: int):
    total = sum(length for _, length in phases)
    scale = nice_step(total / width)
    cells = bar_cells(phases, scale, width)
    assert len(cells) <= width
    assert abs(len(cells) * scale - total) <= scale
    order = [phase for phase, _ in phases]
    position = 0
    for cell in cells:  # phases never come out of order
        while order[position] is not cell:
            position += 1


def test_a_cell_shows_what_fills_the_most_of_it():
    cells = bar_cells([(Phase.SYNTHESIS, 1.0), (Phase.QUEUED, 0.1), (Phase.NTT, 0.9)], 1.0, 10)
    assert cells == [Phase.SYNTHESIS, Phase.NTT]


def test_the_phase_under_way_grows():
    part = PartitionView(0, PartitionState.MSM, (Span(Phase.NTT, 1.0, 1.5),), phase_began=1.5)
    assert phases_of(part, 4.0) == [(Phase.NTT, 0.5), (Phase.MSM, 2.5)]
    assert phases_of(PartitionView(0, PartitionState.PENDING), 4.0) == []


@pytest.mark.parametrize("now", [5.0, 4.0, 5.5])
def test_the_first_picture_may_be_of_the_very_moment_in_which_work_begins(now: float):
    """Even of the one before: the picture's time is read first."""
    parts = (PartitionView(0, PartitionState.SYNTHESIS, phase_began=5.0),)
    data = PartitionsData(now, (JobView("a", "c", JobState.RUNNING, 5.0, 5.0, partitions=parts),))
    panel = PartitionsPanel(data)

    class Stage(App[None]):
        def compose(self) -> ComposeResult:
            yield panel

    async def drawn() -> str:
        async with Stage().run_test(size=(80, 3)):
            return "\n".join("".join(segment.text for segment in line.segments) for line in panel.draw(80, 3))

    text = asyncio.run(drawn())
    assert "P00" in text and "synthesis" in text
