import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.model import Cause, DeviceState
from widgets.timegrid import LaneSegment, Settled, TimeGrid

COMPUTING = (DeviceState.COMPUTING, None)
STARVED = (DeviceState.STARVED, Cause.SYNTHESIS)


def segments(lengths: list[float], start: float) -> list[LaneSegment]:
    made, at = [], start
    for index, length in enumerate(lengths):
        made.append(LaneSegment(at, at + length, *(STARVED if index % 2 else COMPUTING)))
        at += length
    return made


@given(
    st.lists(st.floats(min_value=0.001, max_value=9), min_size=1, max_size=40),
    st.integers(min_value=10, max_value=200),
    st.floats(min_value=5, max_value=600),
    st.floats(min_value=0, max_value=1e6),
)
def test_no_time_is_lost_or_invented(lengths: list[float], columns: int, window: float, start: float):
    lane = segments(lengths, start)
    grid = TimeGrid(lane[-1].end, window, columns)
    cells = grid.lane(lane)
    begin = grid.first * grid.cell
    for wanted, got in (
        (None, sum(cell.busy for cell in cells)),
        (Cause.SYNTHESIS, sum(sum(cell.lost.values()) for cell in cells)),
    ):
        true = sum(max(0.0, s.end - max(s.start, begin)) for s in lane if s.cause is wanted)
        assert got == pytest.approx(true, rel=1e-6, abs=1e-6)
    assert all(cell.known <= grid.cell * (1 + 1e-6) + 1e-7 for cell in cells)


@given(st.floats(min_value=0, max_value=0.99))
def test_a_finished_column_never_changes(later: float):
    lane = segments([0.31, 0.17] * 60, 100.0)
    early, late = TimeGrid(120.0, 10.0, 40), TimeGrid(120.0 + later, 10.0, 40)
    shift = late.first - early.first
    before, after = early.lane(lane), late.lane(lane)
    for column in range(shift, 39):
        assert after[column - shift].busy == pytest.approx(before[column].busy, abs=1e-9)


def test_a_short_gap_shows_and_names_its_cause():
    lane = [LaneSegment(0, 5.1, *COMPUTING), LaneSegment(5.1, 5.12, *STARVED), LaneSegment(5.12, 10, *COMPUTING)]
    grid = TimeGrid(9.99, 10.0, 10)
    cell = grid.lane(lane)[5]
    assert cell.share is not None and 0.97 < cell.share < 0.999
    assert cell.gap == STARVED


def test_the_longest_cause_of_a_cell_wins():
    lane = [
        LaneSegment(0.0, 0.3, DeviceState.LOCK_WAIT, Cause.LOCK),
        LaneSegment(0.3, 0.9, DeviceState.COPYING, Cause.TRANSFER),
        LaneSegment(0.9, 1.0, *COMPUTING),
    ]
    assert TimeGrid(0.9999, 1.0, 1).lane(lane)[0].gap == (DeviceState.COPYING, Cause.TRANSFER)


def test_columns_of_instants():
    grid = TimeGrid(100.0, 10.0, 10)
    assert grid.column(99.99) == 8 and grid.column(100.0) == 9
    assert grid.column(90.5) is None and grid.column(101.5) is None


def test_unknown_time_stays_unknown():
    cells = TimeGrid(100.0, 10.0, 10).lane([LaneSegment(97.0, 100.0, *COMPUTING)])
    assert [cell.share for cell in cells[:6]] == [None] * 6


def test_samples_are_weighted_by_the_time_they_stand_for():
    grid = TimeGrid(1.9999, 2.0, 2)
    assert grid.mean([(0.0, 50.0), (0.25, 0.0), (1.0, 100.0), (2.0, 10.0)])[0] == pytest.approx(75.0)


def test_a_hole_in_the_samples_stays_a_hole():
    means = TimeGrid(19.99, 20.0, 20).mean([(0.0, 1.0), (1.0, 1.0), (15.0, 9.0)])
    assert means[5] is None and means[8] is None and means[13] == pytest.approx(9.0)


@given(
    st.lists(st.floats(min_value=0.02, max_value=3), min_size=5, max_size=60),
    st.lists(st.floats(min_value=0.05, max_value=9), min_size=1, max_size=8),
)
def test_settled_columns_are_those_worked_out_anew(lengths: list[float], steps: list[float]):
    lane = segments(lengths, 50.0)
    settled: Settled[float] = Settled()
    now = 60.0
    for step in steps:
        now += step
        known = [LaneSegment(s.start, min(s.end, now), s.state, s.cause) for s in lane if s.start < now]
        grid = TimeGrid(now, 20.0, 40)
        cached = settled.columns(grid, lambda since, g=grid, k=known: [c.busy for c in g.lane(k, since)])
        assert cached == pytest.approx([cell.busy for cell in grid.lane(known)], abs=1e-9)


def test_another_cell_length_starts_anew():
    lane = segments([1.0] * 40, 0.0)
    settled: Settled[float] = Settled()
    for window in (20.0, 10.0, 30.0):
        grid = TimeGrid(40.0, window, 20)
        got = settled.columns(grid, lambda since, g=grid: [cell.busy for cell in g.lane(lane, since)])
        assert len(got) == 20 and sum(got) == pytest.approx(sum(cell.busy for cell in grid.lane(lane)))


@given(st.floats(1.0, 8.0), st.floats(0.0, 0.0999), st.integers(50, 190))
def test_a_pause_of_200_ms_is_seen_in_a_window_of_10_s(pause: float, phase: float, columns: int):
    """Counters read every 100 ms tell the share of their 100 ms that was busy: one of them lies within the pause."""
    samples = []
    for number in range(99):
        at = phase + 0.1 * (number + 1)
        idle = max(0.0, min(at, pause + 0.2) - max(at - 0.1, pause))
        samples.append((at, 100 * (1 - idle / 0.1)))
    lowest = [value for value in TimeGrid(10.0, 10.0, columns).lowest(samples) if value is not None]
    assert min(lowest) < 1e-6 and max(lowest) > 99.0


def test_the_lowest_sample_of_a_column_is_seen():
    samples = [(tick / 10, 0.0 if tick in (53, 54) else 100.0) for tick in range(101)]
    grid = TimeGrid(9.999, 10.0, 10)
    assert grid.lowest(samples) == [100.0] * 5 + [0.0] + [100.0] * 4
    assert (grid.mean(samples)[5] or 0) == pytest.approx(80.0)


def test_a_sample_that_only_touches_a_column_does_not_empty_it():
    samples = [(0.95, 100.0), (1.05, 0.0), (1.15, 100.0), (2.5, 100.0)]
    grid = TimeGrid(1.999, 2.0, 2)
    assert grid.lowest(samples)[1] == 0.0
    samples = [(0.5, 100.0), (1.02, 0.0), (1.5, 100.0), (2.5, 100.0)]
    assert TimeGrid(1.999, 2.0, 2).lowest(samples)[1] == 100.0


@given(
    st.lists(
        st.tuples(st.floats(min_value=0.01, max_value=2), st.floats(min_value=0, max_value=100)),
        min_size=2,
        max_size=60,
    ),
    st.integers(min_value=1, max_value=120),
)
def test_the_lowest_is_known_where_the_mean_is_and_no_more_than_the_highest(
    steps: list[tuple[float, float]], columns: int
):
    at, samples = 0.0, []
    for step, value in steps:
        at += step
        samples.append((at, value))
    grid = TimeGrid(at, 10.0, columns)
    means, lows = grid.mean(samples), grid.lowest(samples)
    assert [mean is None for mean in means] == [low is None for low in lows]
    least, most = min(value for _, value in samples), max(value for _, value in samples)
    assert all(least - 1e-6 <= low <= most + 1e-6 for low in lows if low is not None)
