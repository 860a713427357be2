"""What is sent to the terminal: the cells that changed, no fewer and not many more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from widgets.canvas import changed_span, fit
from widgets.partitions import nice_step
from widgets.timegrid import TimeGrid

STYLES = [Style(), Style(bold=True), Style(color="red")]
pieces = st.lists(st.tuples(st.text("ab│", min_size=1, max_size=4), st.sampled_from(STYLES)), max_size=6)


def strip(parts: list[tuple[str, Style]], width: int = 24) -> Strip:
    return Strip([Segment(text, style) for text, style in parts]).adjust_cell_length(width, STYLES[0])


def cells(one: Strip) -> list[tuple[str, Style | None]]:
    return [(sign, segment.style) for segment in one for sign in segment.text]


@given(pieces, pieces)
def test_every_changed_cell_is_in_the_span(before: list, after: list):
    old, new = strip(before), strip(after)
    span = changed_span(old, new)
    differing = [i for i, (a, b) in enumerate(zip(cells(old), cells(new), strict=True)) if a != b]
    if span is None:
        assert differing == []
    else:
        assert 0 <= span[0] < span[1] <= 24
        assert all(span[0] <= place < span[1] for place in differing)


def test_a_ticking_clock_is_a_small_change():
    old = strip([("name and more", STYLES[1]), ("12:00:01", STYLES[2])])
    new = strip([("name and more", STYLES[1]), ("12:00:02", STYLES[2])])
    assert changed_span(old, new) == (13, 21)
    assert changed_span(old, old) is None


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x4E10)), st.integers(0, 30))
def test_fit_is_exact(text: str, width: int):
    from rich.cells import cell_len

    assert cell_len(fit(text, width)) == width


def test_scales_are_round():
    scales = {0.011: 0.02, 0.02: 0.02, 0.3: 0.5, 1.0: 1.0, 1.1: 2.0, 7.0: 10.0, 40.0: 50.0}
    for value, scale in scales.items():
        assert nice_step(value) == pytest.approx(scale)


def test_a_grid_without_room_has_one_column():
    assert TimeGrid(10.0, 60.0, 0).columns == 1
