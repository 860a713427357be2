"""The screen at its three sizes and in its dress codes, as text that a person can read and compare."""

from typing import Any

import pytest
from fake_feed import FakeFeed
from fakes_console import FakeClock, FakeEngine, Pace
from hypothesis import given
from hypothesis import strategies as st
from pilot_console import drive, same_as_snapshot, style_map
from rich.cells import cell_len
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.screens import present
from console.screens.arrangement import arrange
from console.screens.plain import screen_text
from console.settings import ConsoleSettings
from prover.pipeline.knobs import build_registry

SIZES = [(80, 24), (120, 40), (200, 60)]
LOG = [
    "2026-11-30T16:19:52.983112Z  INFO cuzk_top::engine: synthesis complete job_id=0142 partition=9 synth_ms=6211",
    "2026-11-30T16:19:53.159004Z  WARN cuzk_top::knobs: knob refused knob=slot_size",
]


@pytest.fixture(autouse=True)
def the_same_machine_everywhere(monkeypatch: pytest.MonkeyPatch):
    """Core counts and the time zone are not the screen's business."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("console.feeds.engine.REGISTRY", build_registry(4))
    monkeypatch.setattr("fakes_console.REGISTRY", build_registry(4))
    monkeypatch.setattr(present, "available_cores", lambda: 4)
    monkeypatch.setattr("console.feeds.engine.available_cores", lambda: 4)


def shown(settings: ConsoleSettings, size: tuple[int, int]) -> tuple[str, str, list[str]]:
    """Text, styles and legend after a minute with one change of a knob."""
    found: list[Any] = []

    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.propose("synthesis_concurrency", 2)
        feed.engine.advance(20)
        feed.lines = list(LOG)
        app.tick()
        await pilot.press("k", "down")
        await pilot.pause()
        found.extend([screen_text(app.screen), *style_map(app.screen)])

    drive(act, size=size, settings=settings)
    text, styles, legend = found
    return text, styles, legend


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_screen_at_each_size(size: tuple[int, int]):
    text, _, _ = shown(ConsoleSettings(), size)
    assert all(cell_len(line) <= size[0] for line in text.splitlines())
    same_as_snapshot(f"overview-{size[0]}x{size[1]}", text)


def test_the_screen_in_ascii():
    text, _, _ = shown(ConsoleSettings(ascii=True), (80, 24))
    assert text.isascii()
    same_as_snapshot("overview-80x24-ascii", text)


def test_dialogs_notices_and_the_palette_are_ascii_too():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        def drawn() -> str:
            """What is composed, containers' borders included."""
            return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

        for text in ("a → notice …", "a → long notice …" * 6):
            app.say(text)
            await pilot.pause(0.3)
            assert "notice ~" in drawn() and drawn().isascii(), drawn()
        for open_it, close_it in (("question_mark", "escape"), ("ctrl+p", "escape")):
            await pilot.press(open_it)
            await pilot.pause(0.5)
            assert drawn().isascii(), drawn()
            await pilot.press(close_it)
            await pilot.pause(0.1)
        app.propose("self_check", False)
        await pilot.pause(0.1)
        assert "self_check" in drawn() and drawn().isascii(), drawn()

    drive(act, settings=ConsoleSettings(ascii=True), notices=True)


def test_the_colours_of_the_dark_theme():
    _, styles, legend = shown(ConsoleSettings(), (80, 24))
    same_as_snapshot("overview-80x24-dark-styles", "\n".join([styles, "", *legend]))


def test_without_colour_there_is_none():
    _, styles, legend = shown(ConsoleSettings(colour=False), (80, 24))
    assert not any("#" in entry for entry in legend), legend
    assert any("reverse" in entry for entry in legend) and any("bold" in entry for entry in legend)
    same_as_snapshot("overview-80x24-mono-styles", "\n".join([styles, "", *legend]))


def test_ascii_and_mono_say_what_colour_says():
    """The same picture in text: cause letters, hatches, words are there in every dress."""
    plain, _, _ = shown(ConsoleSettings(colour=False), (80, 24))
    coloured, _, _ = shown(ConsoleSettings(), (80, 24))
    assert plain == coloured


def test_nothing_known_yet():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        text = screen_text(app.screen)
        assert "– %" in text and "Too little seen yet" in text
        assert "0 %" not in text.splitlines()[1]

    drive(act, run_for=0.02)


def test_a_smaller_terminal_still_draws():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        for size in ((40, 10), (20, 5), (300, 90), (80, 24)):
            await pilot.resize_terminal(*size)
            app.tick()
            await pilot.pause()
        assert "Knobs" in screen_text(app.screen)

    drive(act)


def test_many_jobs_fold_to_a_line_each():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.engine.advance(30)
        app.tick()
        await pilot.pause()
        text = screen_text(app.screen)
        assert "in line" in text or "more" in text

    pace = Pace(synthesis=0.5)
    drive(act, engine=FakeEngine(FakeClock(), clients=12, partitions=16, pace=pace, knobs={"synthesis_concurrency": 4}))


@given(
    st.integers(min_value=20, max_value=300),
    st.integers(min_value=10, max_value=120),
    st.integers(min_value=1, max_value=21),
    st.integers(min_value=0, max_value=18),
    st.booleans(),
)
def test_the_arrangement_fills_the_screen_exactly(width: int, height: int, knobs: int, lines: int, tall: bool):
    made = arrange(width, height, knobs, lines, tall)
    assert made.total == max(24, height)
    assert made.device >= 6 and made.pipeline == 3 and made.log >= 2
    assert min(made.partitions, made.knobs) >= 0


@given(st.integers(min_value=24, max_value=119), st.integers(min_value=6, max_value=21), st.integers(0, 18))
def test_more_room_takes_nothing_away(height: int, knobs: int, lines: int):
    small, large = arrange(120, height, knobs, lines), arrange(120, height + 1, knobs, lines)
    for panel in ("device", "pipeline", "partitions", "knobs", "log"):
        assert getattr(large, panel) >= getattr(small, panel)
