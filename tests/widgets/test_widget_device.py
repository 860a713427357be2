"""The device panel's axis: every change of a knob has its sign, whatever is written beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from widgets.device import DeviceData, DevicePanel
from widgets.glyphs import UNICODE
from widgets.timegrid import Marker, TimeGrid

NOW, WINDOW = 1000.0, 60.0


def drawn(data: DeviceData, width: int = 80, height: int = 6) -> list[str]:
    """The panel's lines."""
    panel = DevicePanel(data, UNICODE)

    class Stage(App[None]):
        def compose(self):
            panel.styles.height = height
            yield panel

    async def run() -> list[str]:
        async with Stage().run_test(size=(width, height)):
            return ["".join(s.text for s in line.segments) for line in panel.draw(width, height)]

    return asyncio.run(run())


def axis(*markers: Marker, width: int = 80) -> str:
    return drawn(DeviceData("Device", NOW, WINDOW, markers=markers), width)[4]


def columns(*ages: float, width: int = 80) -> set[int]:
    grid = TimeGrid(NOW, WINDOW, width - 17)
    return {column for age in ages if (column := grid.column(NOW - age)) is not None}


@given(
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=59), st.sampled_from(["a → 1", "synthesis_lookahead → 12"])),
        max_size=12,
    )
)
def test_no_label_hides_a_sign(changes: list[tuple[float, str]]):
    line = axis(*(Marker(NOW - age, text) for age, text in changes))
    assert {at - 6 for at, sign in enumerate(line) if sign == "▲"} == columns(*(age for age, _ in changes))
    assert len(line) == 6 + 63


def test_a_neighbour_close_by_gives_up_its_label_and_keeps_its_sign():
    line = axis(Marker(NOW - 3, "gpu_lock → coarse"), Marker(NOW - 6, "synthesis_lookahead → 3"))
    assert line.count("▲") == 2
    assert "gpu_lock → coarse" not in line and "synthesis_lookahead → 3 ▲" in line
    line = axis(Marker(NOW - 3, "gpu_lock → coarse"), Marker(NOW - 40, "slot_size → 2"))
    assert "gpu_lock → coarse ▲" in line and "▲ slot_size → 2 ─" in line


def test_what_is_said_aside_makes_room_for_the_labels_of_changes():
    asides = ("driver 0, CUDA 0, usable 0: no NVIDIA driver", "no NVIDIA driver")
    quiet = DeviceData("Device", NOW, WINDOW, asides=asides)
    assert asides[0] in drawn(quiet)[4]
    changed = replace(quiet, markers=(Marker(NOW - 3, "slot_size → 2"),))
    assert "slot_size → 2 ▲" in drawn(changed)[4] and f" {asides[1]} " in drawn(changed)[4]


def test_a_label_touches_no_other_sign():
    line = axis(Marker(NOW - 50, "slot_size → 2"), Marker(NOW - 50 + 17 * WINDOW / 63, "x"))
    assert "slot_size → 2 ▲" not in line


@pytest.mark.parametrize(("count", "named"), [(0, "0 gaps"), (1, "1 gap "), (9999, "9999 gaps"), (123456, "123k gaps")])
def test_the_count_of_gaps_has_its_name(count: int, named: str):
    lines = drawn(DeviceData("Device", NOW, WINDOW, gaps_in_window=count))
    assert lines[2].startswith(" lane") and lines[2].endswith(f"{named.strip()} ")
    assert len(lines[2]) <= 80
