"""Every action of the console, by its key, on the modelled pipeline."""

from typing import Any

import pytest
from fake_feed import FakeFeed
from pilot_console import drive
from textual.command import CommandList, CommandPalette
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets.option_list import Option

from console import actions
from console.app import WINDOWS, ConsoleApp
from console.screens.confirm import ConfirmScreen
from console.screens.help import HelpScreen, help_text
from console.screens.plain import screen_text
from console.settings import ConsoleSettings
from prover.model import EventKind
from widgets.glyphs import ASCII, UNICODE
from widgets.knobs import MERGE_S


async def settle(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed, seconds: float = 0.0) -> str:
    """Let a knob's presses merge, the model run and the screen follow."""
    await pilot.pause(MERGE_S + 0.1)
    if seconds:
        feed.engine.advance(seconds)
    app.tick()
    await pilot.pause()
    return screen_text(app.screen)


def told(app: ConsoleApp) -> str:
    """What stands in the last line in place of the keys."""
    notice = app.overview.keys.data.notice
    last = screen_text(app.screen).splitlines()[-1]
    assert notice in last if notice else "help" in last
    return notice


def knob_line(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.lstrip(" ▌>").startswith(name))


def test_no_two_actions_share_a_key_and_every_id_is_one():
    assert actions.clashes() == []
    assert len(actions.BY_ID) == len(actions.ACTIONS)


def test_every_bound_action_exists():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        targets = {
            actions.Scope.CONSOLE: app,
            actions.Scope.KNOBS: app.overview.knobs,
            actions.Scope.LOG: app.overview.log_view,
        }
        for action in actions.ACTIONS:
            name = action.act.partition("(")[0]
            assert callable(getattr(targets[action.scope], f"action_{name}", None)), action.id

    drive(act)


def test_help_lists_every_action_and_closes():
    for glyphs in (UNICODE, ASCII):
        text = help_text(glyphs)
        assert all(action.description in text for action in actions.ACTIONS)
    assert help_text(ASCII).isascii()

    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("down", "up", "escape")
        assert not isinstance(app.screen, HelpScreen)
        await pilot.press("f1")
        assert isinstance(app.screen, HelpScreen)

    drive(act)


def test_the_picture_goes_on_beneath_the_help():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("question_mark")
        feed.engine.advance(5)
        app.tick()
        assert app.current is not None and app.current.at == pytest.approx(feed.engine.clock.at)

    drive(act)


def test_arrows_turn_a_knob_as_one_change():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k", "down", "right", "right", "right")
        text = screen_text(app.screen)
        assert "4" in knob_line(text, "synthesis_concurrency") and "asking" in text
        await settle(pilot, app, feed)
        assert feed.calls == [("synthesis_concurrency", 4)]
        text = await settle(pilot, app, feed)
        assert "still 1" in knob_line(text, "synthesis_concurrency")
        text = await settle(pilot, app, feed, 0.5)
        assert "in force after 0." in knob_line(text, "synthesis_concurrency")
        text = await settle(pilot, app, feed, 10)
        assert knob_line(text, "synthesis_concurrency").split("▸")[1].strip().startswith("in force")

    drive(act, size=(120, 40))


def test_a_typed_number_is_set_by_enter():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k", "1", "3", "backspace", "2")
        assert "12_" in knob_line(screen_text(app.screen), "synthesis_lookahead")
        await pilot.press("enter")
        await settle(pilot, app, feed)
        assert feed.calls == [("synthesis_lookahead", 12)]

    drive(act)


def test_a_typed_number_is_dropped_by_escape_and_refused_out_of_range():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k", "1", "2", "escape", "enter")
        await settle(pilot, app, feed)
        assert feed.calls == [] and app.overview.knobs.has_focus
        await pilot.press("9", "9", "enter")
        await settle(pilot, app, feed)
        assert feed.calls == []
        assert "outside 0 to 64" in told(app)
        await pilot.press("escape")
        assert not app.overview.knobs.has_focus

    drive(act)


def test_keys_that_come_in_one_piece_belong_to_the_panel_that_the_first_of_them_opens():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        for key in ("k", "1", "2", "enter"):  # all of them in the queue before the first is looked at
            app.post_message(Key(key, key if len(key) == 1 else None))
        await settle(pilot, app, feed)
        assert feed.calls == [("synthesis_lookahead", 12)]

    drive(act)


def test_a_notice_stands_in_the_last_line_and_goes_by_itself_or_by_a_click():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k", "9", "9", "enter")
        assert "99 is outside 0 to 64" in told(app) and screen_text(app.screen).endswith(" q quit")
        await pilot.click(app.overview.keys, offset=(3, 0))
        assert told(app) == ""
        await pilot.press("9", "9", "enter")
        assert told(app)
        app.unsay()
        assert told(app) == ""

    drive(act)


def test_what_the_engine_has_to_tell_is_told_once():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        fields = {"line": "2 jobs resumed, 3 of 8 proofs were there", "trouble": False}
        feed.engine._emit(EventKind.JOURNAL, fields=fields)
        await settle(pilot, app, feed)
        assert told(app) == "2 jobs resumed, 3 of 8 proofs were there"
        app.unsay()
        await settle(pilot, app, feed, seconds=1)
        assert told(app) == ""

    drive(act)


def test_trouble_of_the_session_is_the_engine_feeds_problem():
    feed = FakeFeed()
    feed.engine.trouble = "the journal cannot be written"
    assert feed.poll(60.0).feeds[0].problem == "the journal cannot be written"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_a_long_notice_covers_neither_the_knobs_nor_the_keys(size: tuple[int, int]):
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k")
        app.say("a theme's mistake, told at length " * 8, "warning")
        await pilot.pause(0.3)
        assert told(app) == ""
        toasts = list(app.screen.query("Toast"))
        assert len(toasts) == 1 and toasts[0].region.area
        for panel in (app.overview.knobs, app.overview.keys, app.overview.why, app.overview.header):
            assert not toasts[0].region.overlaps(panel.region)

    drive(act, size=size, notices=True)


def test_choices_turn_with_arrows_and_enter_but_not_with_digits():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k", "down", "down", "down", "3")
        assert "takes a choice" in told(app)
        await pilot.press("enter", "enter")
        await settle(pilot, app, feed, 1)
        assert feed.calls == [], "what was refused is not answered with something else"
        await pilot.press("up", "down", "enter")
        await settle(pilot, app, feed, 1)
        assert feed.calls == [("gpu_lock", "coarse")]
        await pilot.press("left")
        await settle(pilot, app, feed)
        assert feed.calls[-1] == ("gpu_lock", "narrow")

    drive(act)


def test_a_size_is_typed_in_gib_and_enter_alone_leaves_it():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        panel = app.overview.knobs
        place = [row.name for row in panel.data.rows].index("total_budget")
        await pilot.press("k", *["down"] * place)
        await pilot.press("enter")
        text = await settle(pilot, app, feed, 1)
        assert "auto, or GiB" in text
        assert feed.calls == []
        await pilot.press("8", "enter")
        await settle(pilot, app, feed, 1)
        assert feed.calls == [("total_budget", 8 << 30)]

    drive(act)


def test_the_end_of_a_range_says_so():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("k", "down", "left")
        await settle(pilot, app, feed)
        assert feed.calls == []
        assert "end of its range" in told(app)

    drive(act)


def test_the_mouse_turns_and_chooses():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        panel = app.overview.knobs
        zones = {(zone.target, zone.action): zone for zone in panel.zones}
        up = zones["gpu_workers_per_device", "turn-up"]
        await pilot.click(panel, offset=(up.left + 1, up.y))
        await settle(pilot, app, feed)
        assert feed.calls == [("gpu_workers_per_device", 3)]
        down = zones["gpu_workers_per_device", "turn-down"]
        await pilot.click(panel, offset=(down.left + 1, down.y))
        await settle(pilot, app, feed)
        assert feed.calls[-1] == ("gpu_workers_per_device", 2)
        assert panel.has_focus and panel.row is not None and panel.row.name == "gpu_workers_per_device"
        name = zones["slot_size", "choose"]
        await pilot.click(panel, offset=(3, name.y))
        assert panel.row.name == "slot_size"
        await pilot._post_mouse_events([_scroll_up()], widget=panel, offset=(3, name.y))
        await settle(pilot, app, feed)
        assert feed.calls[-1] == ("slot_size", 2)

    drive(act)


def _scroll_up() -> Any:
    from textual.events import MouseScrollUp

    return MouseScrollUp


def test_pause_and_undo():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("p")
        await settle(pilot, app, feed, 12)
        assert feed.calls == [("paused", True)]
        text = await settle(pilot, app, feed, 4)
        assert "idle for" in text and "paused" in text.splitlines()[0]
        await pilot.press("u")
        await settle(pilot, app, feed, 1)
        assert feed.calls[-1] == ("undo", None) and not feed.engine.in_force["paused"]
        assert "undone: paused is no again" in told(app)
        await pilot.press("u")
        assert "nothing to undo" in told(app)

    drive(act)


def test_a_risky_knob_asks_back_and_no_is_the_default():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        app.propose("self_check", False)
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("enter")
        assert feed.calls == []
        app.propose("self_check", False)
        await pilot.pause()
        await pilot.press("y")
        assert feed.calls == [("self_check", False)]

    drive(act)


def test_freeze_holds_the_picture_but_not_the_knobs_nor_the_feed():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("space")
        before = screen_text(app.screen).splitlines()
        assert "frozen" in before[0]
        feed.lines = ["a line that waits"]
        feed.engine.advance(20)
        app.tick()
        await pilot.pause()
        after = screen_text(app.screen).splitlines()
        assert after[1:15] == before[1:15] and "a line that waits" not in "\n".join(after)
        await pilot.press("k", "right")
        text = await settle(pilot, app, feed, 1)
        assert "2" in knob_line(text, "synthesis_lookahead")
        await pilot.press("escape", "space")
        text = await settle(pilot, app, feed)
        assert "frozen" not in text.splitlines()[0] and "a line that waits" in text

    drive(act)


def test_the_stretch_of_time_can_be_changed():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        for _ in range(8):
            await pilot.press("right_square_bracket")
        assert app.window_s == WINDOWS[-1] and "10 min ago" in screen_text(app.screen)
        for _ in range(8):
            await pilot.press("left_square_bracket")
        assert app.window_s == WINDOWS[0] and "10 s ago" in screen_text(app.screen)

    drive(act)


def test_themes_change_by_key():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        seen = {app.theme}
        for _ in range(4):
            await pilot.press("t")
            seen.add(app.theme)
        assert {"dark", "light", "contrast", "colourblind"} <= seen

    drive(act)


def test_the_palette_offers_every_action_of_the_registry_and_every_theme():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        offered = list(app.get_system_commands(app.screen))
        titles = [command.title for command in offered]
        assert len(set(titles)) == len(titles) == len(actions.ACTIONS) + 4
        assert {"Zoom in", "Zoom out", "Knobs", "Next panel", "Theme", "Theme Light", "Log: page up"} <= set(titles)
        for action, command in zip(actions.ACTIONS, offered, strict=False):
            assert command.title.lower().endswith(action.label.lower())
            assert command.help.startswith(action.description) and action.shown in command.help

    drive(act)


async def from_the_palette(pilot: Pilot[Any], query: str) -> None:
    await pilot.press("ctrl+p")
    await pilot.pause(0.2)
    await pilot.press(*("space" if sign == " " else sign for sign in query))
    await pilot.pause(0.5)
    await pilot.press("enter")
    await pilot.pause(0.5)
    await pilot.press("enter")
    await pilot.pause(0.3)


def test_the_palette_runs_what_it_offers():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await from_the_palette(pilot, "pause")
        assert feed.calls == [("paused", True)]
        await from_the_palette(pilot, "zoom out")
        assert app.window_s == 120.0
        await from_the_palette(pilot, "next panel")
        assert app.overview.knobs.has_focus
        feed.lines = [f"line {number}" for number in range(100)]
        app.tick()
        await from_the_palette(pilot, "page up")
        assert app.overview.log_view.has_focus and not app.overview.log_view.following

    drive(act)


def test_a_click_on_the_last_line_is_the_key():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        zone = next(zone for zone in app.overview.keys.zones if zone.action == "freeze")
        await pilot.click(app.overview.keys, offset=(zone.left + 2, 0))
        await pilot.pause()
        assert app.frozen_at is not None

    drive(act)


def test_read_only_changes_nothing():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        await pilot.press("p", "u", "k", "right", "5", "enter")
        text = await settle(pilot, app, feed)
        assert feed.calls == [] and "read-only" in text

    drive(act, settings=ConsoleSettings(read_only=True))


def test_the_log_grows_where_room_is_short_and_tab_walks_the_panels():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.lines = [f"line {number}" for number in range(100)]
        app.tick()
        await pilot.press("l")
        await pilot.pause()
        view = app.overview.log_view
        assert view.has_focus and view.size.height > 8
        await pilot.press("pageup", "up", "down", "right", "left")
        assert not view.following and "lines below" in screen_text(app.screen)
        await pilot.press("home")
        assert "line 0" in screen_text(app.screen)
        await pilot.press("end")
        assert view.following and "line 99" in screen_text(app.screen)
        await pilot.press("tab")
        assert not view.has_focus
        await pilot.press("k")
        await pilot.pause()
        assert app.overview.knobs.has_focus

    drive(act)


@pytest.mark.parametrize("key", ["0", "home", "left"])
def test_a_log_that_was_shifted_says_so_and_has_a_way_back(key: str):
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.lines = [f"begin {number} " + "x" * 200 for number in range(100)]
        app.tick()
        await pilot.press("l", "right", "right")
        await pilot.pause()
        text = screen_text(app.screen)
        assert "shifted by 16, 0 shifts back · following" in text and "begin 99" not in text
        await pilot.press(key, key)
        await pilot.pause()
        text = screen_text(app.screen)
        assert "shifted" not in text and ("begin 0 " if key == "home" else "begin 99 ") in text
        assert app.overview.log_view.following == (key != "home")

    drive(act)


def test_a_log_that_is_not_there_says_that_it_waits():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.problem = "waits for the file to appear: /var/log/" + "a" * 90 + "/cuzk.log"
        app.tick()
        await pilot.pause()
        line = next(line for line in screen_text(app.screen).splitlines() if "Log" in line)
        assert "waits for the file to appear: /var/log/" in line and line.endswith("… ─") and len(line) == 80

    drive(act)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_quit(key: str):
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        app.feed.start()
        await pilot.press(key)

    app = drive(act)
    assert app.return_code == 0
    assert isinstance(app.feed, FakeFeed) and not app.feed.engine.running


def test_a_failed_start_ends_the_console_with_its_code():
    from prover.errors import MachineLacks

    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.engine.failure = MachineLacks("no host library", "here", "build it")
        app.tick()
        await pilot.pause()

    assert drive(act).return_code == 3


def test_a_picture_can_be_saved(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        app.action_save_picture()

    drive(act)
    pictures = list((tmp_path / "cuzk-top" / "pictures").glob("*.svg"))
    assert len(pictures) == 1 and "cuzk-top" in pictures[0].read_text()


def test_a_defect_while_drawing_ends_the_console_with_the_error_kept():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        feed.engine.snapshot = lambda: 1 / 0  # type: ignore[assignment, return-value]
        app.tick()
        await pilot.pause()
        assert app.return_code == 1

    with pytest.raises(ZeroDivisionError):
        drive(act)


def test_a_page_of_results_that_are_not_there_yet_is_no_page():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        app.action_command_palette()
        await pilot.pause()
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        results = palette.query_one(CommandList)
        results.styles.width = results.styles.height = 0  # as before the first layout
        await pilot.pause()
        results.clear_options()
        results.add_option(Option("one"))
        for action in ("page_up", "page_down"):
            palette._action_command_list(action)

    drive(act)
