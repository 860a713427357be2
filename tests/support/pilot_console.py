"""Driving the console in tests: an app over the modelled pipeline, and screens as text that can be compared."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_feed import FakeFeed
from fakes_console import FakeClock, FakeEngine
from rich.cells import cell_len
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from console.app import ConsoleApp
from console.settings import ConsoleSettings
from console.theming import read_themes

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"
UPDATE = "CUZK_TOP_UPDATE_SNAPSHOTS"

Act = Callable[[Pilot[Any], ConsoleApp, FakeFeed], Awaitable[None]]


@contextmanager
def environment(**values: str | None) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    try:
        for name, value in values.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def drive(
    act: Act,
    size: tuple[int, int] = (80, 24),
    settings: ConsoleSettings | None = None,
    engine: FakeEngine | None = None,
    run_for: float = 40.0,
    notices: bool = False,
    feed: FakeFeed | None = None,
) -> ConsoleApp:
    """Run ``act`` on a console whose pipeline has already run for a while, then close it."""
    settings = settings or ConsoleSettings()
    if feed is None:
        feed = FakeFeed(engine or FakeEngine(FakeClock()))
        feed.engine.advance(run_for)
    with environment(NO_COLOR=None if settings.colour else "1", TEXTUAL_ANIMATIONS="none"):
        themes, problems = read_themes()
        assert problems == []
        app = ConsoleApp(feed, settings, themes)

        async def run() -> None:
            async with app.run_test(size=size, notifications=notices) as pilot:
                await pilot.pause()
                assert app._pacer is not None
                app._pacer.pause()  # frames come when the test says so
                app.tick()
                await pilot.pause()
                await act(pilot, app, feed)  # type: ignore[arg-type] - never None here

        asyncio.run(run())
    if app.crash is not None:
        raise app.crash
    return app


def style_map(screen: Screen[Any]) -> tuple[str, list[str]]:
    """Every cell as a letter for its style, and the legend: what a picture's colours and weights are, as text."""
    width, height = screen.size
    rows = [["."] * width for _ in range(height)]
    letters: dict[str, str] = {}
    alphabet = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    for widget in screen.walk_children(Widget, with_self=False):
        if not widget.display or widget.children or not widget.region.area:
            continue
        region = widget.region
        for offset, strip in enumerate(widget.render_lines(Region(0, 0, region.width, region.height))):
            x = region.x
            for segment in strip:
                cells = cell_len(segment.text)
                blank = not segment.text.strip() and "on #" not in str(segment.style)
                name = str(segment.style)
                letter = " " if blank else letters.get(name) or letters.setdefault(name, next(alphabet))
                for place in range(x, min(width, x + cells)):
                    if region.y + offset < height:
                        rows[region.y + offset][place] = letter
                x += cells
    legend = [f"{letter}  {name}" for name, letter in letters.items()]
    return "\n".join("".join(row).rstrip() for row in rows), legend


def same_as_snapshot(name: str, text: str) -> None:
    """Compare with ``tests/snapshots/NAME.txt``; with CUZK_TOP_UPDATE_SNAPSHOTS=1 write it instead."""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
        return
    expected = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    got = text.rstrip("\n").split("\n")
    differing = [
        f"line {number}:\n  expected {a!r}\n  got      {b!r}"
        for number, (a, b) in enumerate(zip(expected, got, strict=False), start=1)
        if a != b
    ]
    assert len(expected) == len(got) and not differing, f"{name} ({UPDATE}=1 rewrites it)\n" + "\n".join(differing)
