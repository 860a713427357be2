"""The log view: reading position, bounds, foreign bytes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from widgets.glyphs import ASCII, UNICODE, Glyphs
from widgets.logview import LogView, printable


def use(act: Callable[[Pilot[Any], LogView], Awaitable[None]], glyphs: Glyphs = UNICODE, limit: int = 50) -> None:
    view = LogView(glyphs, limit=limit)

    class Page(App[None]):
        def compose(self) -> ComposeResult:
            yield view

    async def run() -> None:
        async with Page().run_test(size=(40, 10)) as pilot:
            await pilot.pause()
            await act(pilot, view)

    asyncio.run(run())


def rows(view: LogView) -> list[str]:
    return [view.render_line(y).text.strip() for y in range(view.size.height)]


def lines(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


def test_it_follows_the_end():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(lines(0, 5))
        assert rows(view)[:5] == lines(0, 5)
        view.write(lines(5, 30))
        await pilot.pause()
        assert rows(view) == lines(20, 30) and view.following

    use(act)


def test_a_reader_keeps_the_line_while_lines_come_and_go():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(lines(0, 50))
        await pilot.pause()
        view.action_scroll_by(-15)
        assert rows(view)[0] == "line 25" and not view.following and view.below == 15
        view.write(lines(50, 60))  # ten old ones are dropped
        await pilot.pause()
        assert rows(view)[0] == "line 25" and view.dropped == 10
        view.write(lines(60, 95))  # the line itself is gone: the oldest there is
        await pilot.pause()
        assert rows(view)[0] == "line 45" and len(view.lines) == 50
        view.action_follow()
        await pilot.pause()
        assert rows(view)[-1] == "line 94"

    use(act)


def test_scrolling_to_the_end_follows_again():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(lines(0, 40))
        view.action_begin()
        assert rows(view)[0] == "line 0" and not view.following
        view.action_page_by(1)
        assert rows(view)[0] == "line 9"
        view.action_scroll_by(100)
        assert view.following

    use(act)


def test_a_resize_keeps_the_end_in_sight():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(lines(0, 40))
        await pilot.resize_terminal(40, 6)
        await pilot.pause()
        assert rows(view) == lines(34, 40)

    use(act)


def test_sideways():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(["x" * 30 + "y" * 30])
        await pilot.pause()
        view.action_sideways(99)
        assert rows(view)[0] == "x" * 10 + "y" * 30
        view.action_sideways(-99)
        assert rows(view)[0] == "x" * 30 + "y" * 9

    use(act)


def test_wide_and_foreign_characters_keep_the_width():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(["\x1b[31mred\x1b[0m \x07bell", "日本語" * 20, "tab\tstop", "a\u200bb"])
        await pilot.pause()
        assert rows(view)[0] == "red ?bell"
        assert all(view.render_line(y).cell_length == 40 for y in range(10))

    use(act)


def test_ascii_shows_ascii():
    async def act(pilot: Pilot[Any], view: LogView) -> None:
        view.write(["naïve → ±1"])
        await pilot.pause()
        assert rows(view)[0] == "na?ve > ~1"

    use(act, ASCII)


@given(st.text())
def test_nothing_unprintable_gets_through(text: str):
    assert printable(text).isprintable()


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_untouched(text: str):
    assert printable(text) == text
