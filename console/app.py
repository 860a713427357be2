"""The application: wires a feed to the screen, at a calm pace, and never lets a thread touch a widget."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.screen import Screen
from textual.timer import Timer

from console.actions import Action, Scope, bindings, offered
from console.drain import SIGNALS, drain
from console.feeds.interfaces import Feed
from console.frame import Frame
from console.last_resort import LastResort
from console.screens.confirm import ConfirmScreen
from console.screens.help import HelpScreen
from console.screens.overview import OverviewScreen
from console.settings import ConsoleSettings, state_folder
from console.theming import DEFAULT_THEME, ThemeFile, stylesheet
from console.windows import DEFAULT_WINDOW, WINDOWS
from prover.errors import ProverError
from prover.model import KnobValue
from prover.pipeline.interfaces import Receipt
from prover.pipeline.knobs import Risk
from widgets.glyphs import ASCII, UNICODE, to_ascii
from widgets.keybar import KeyBar
from widgets.knobs import KnobPanel, show
from widgets.logview import LogView

_AWAY_S = 1.0
"""Pace while the terminal is out of focus or the picture is frozen."""
_NOTICE_S = 6.0
"""How long a notice stands."""
_NOTICE_ROLE = {"information": "value", "warning": "warn", "error": "bad"}
_PALETTE_PREFIX = {Scope.CONSOLE: "", Scope.KNOBS: "knobs: ", Scope.LOG: "log: ", Scope.REPLAY: "replay: "}


class Palette(CommandPalette):
    """Textual's, but for a fault of it: pages of results that are not laid out yet end the program."""

    def _action_command_list(self, action: str) -> None:
        with contextlib.suppress(KeyError):
            super()._action_command_list(action)


class ConsoleApp(App[None]):
    """The console over one feed."""

    TITLE = "cuzk-top"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CONSOLE)]
    OFFERED: ClassVar[tuple[Action, ...]] = offered(replay=False)
    """The actions that help, footer and palette list."""
    UNCHANGEABLE: ClassVar[str] = "read-only: this console changes nothing"
    """Why nothing is changed where nothing is."""

    def __init__(
        self,
        feed: Feed,
        settings: ConsoleSettings,
        themes: Mapping[str, ThemeFile],
        notices: Iterable[str] = (),
        window_s: float = DEFAULT_WINDOW,
    ) -> None:
        # Without colour the whole screen keeps the terminal's own two; weight and reversal carry the rest.
        super().__init__(css_path=stylesheet(), ansi_color=None if settings.colour else True)
        self.feed = feed
        self.settings = settings
        self.window_s = window_s
        self.frozen_at: float | None = None
        self.current: Frame | None = None
        self.crash: Exception | None = None
        self.ended_by: int | None = None
        """The signal that ended it."""
        self.last_resort: LastResort | None = None
        self._themes = themes
        self._notices = tuple(notices)
        self._pacer: Timer | None = None
        self._notice_timer: Timer | None = None
        self._told = 0
        """The number of the latest notice of a frame that was told."""
        self._settled = False
        self._glyphs = ASCII if settings.ascii else UNICODE
        for file in themes.values():
            self.register_theme(file.theme)
        self.theme = settings.theme if settings.theme in themes else DEFAULT_THEME
        self.overview = OverviewScreen(self._glyphs, feed.specs, read_only=settings.read_only, actions=self.OFFERED)

    def get_default_screen(self) -> Screen[None]:
        """The one screen."""
        return self.overview

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, with our reader where that is a terminal."""
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        from console.terminal_input import TerminalInput

        return TerminalInput

    # -- life --

    def on_mount(self) -> None:
        """Handle the signals that Textual leaves alone, draw once, then start the engine."""
        self.set_class(self.settings.ascii, "-ascii")
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            terminal, modes = getattr(self._driver, "fileno", 0), getattr(self._driver, "attrs_before", None)
            self.last_resort = LastResort(terminal, modes, partial(drain, self.feed))
            for number in SIGNALS:
                if signal.getsignal(number) is signal.SIG_IGN:
                    continue  # as under nohup
                loop.add_signal_handler(number, self._ended_by, number)
                # heard even while a write to the terminal waits; asyncio hears too
                signal.signal(number, self.last_resort)
        self.tick()
        self._pace(self.settings.refresh_s)
        self.call_after_refresh(self.feed.start)
        self._say_all([(line, "warning") for line in self._notices])

    def _ended_by(self, number: int) -> None:
        """Begin nothing new, and leave the screen: what was begun ends without it."""
        if self.ended_by is None:
            self.ended_by = number
            self.feed.drain(0.0)
            self.exit(return_code=128 + number)

    def _handle_exception(self, error: Exception) -> None:
        """What no handler of ours caught: a report and a clean terminal, as after a defect while drawing."""
        if self.is_headless:  # a test wants the exception itself
            super()._handle_exception(error)
        elif self.crash is None:
            self.crash = error
            self.leave(1)

    def leave(self, code: int) -> None:
        """Ask everything to stop, then end: the engine stops while the terminal is being restored."""
        self.feed.stop(0.0)
        self.exit(return_code=code)

    def on_app_blur(self, event: events.AppBlur) -> None:
        """Nobody looks: slow down."""
        self._pace(_AWAY_S)

    def on_app_focus(self, event: events.AppFocus) -> None:
        """Somebody looks again."""
        self._pace(_AWAY_S if self.frozen_at is not None else self.settings.refresh_s)

    def _pace(self, period: float) -> None:
        if self._pacer is not None:
            self._pacer.stop()
        self._pacer = self.set_interval(period, self.tick)

    # -- the feed loop --

    def tick(self) -> None:
        """Fold what is new and show it. A defect of ours ends the console cleanly, with a report."""
        try:
            self._show()
        except Exception as error:  # noqa: BLE001 - raised again once the terminal is restored
            self.crash = error
            self.leave(1)

    def _show(self) -> None:
        failure = self.feed.failure
        if failure is not None:
            self.leave(failure.exit_code if isinstance(failure, ProverError) else 1)
            return
        frame = self.feed.poll(self.window_s)
        now = time.monotonic()
        screen = self.overview
        with self.batch_update():
            if self.frozen_at is None or self.current is None:
                self.current = frame
                screen.show(frame, now)
                screen.show_log(self.feed.take_lines(), self.feed.log_name, self.feed.log_problem)
            else:
                screen.show_frozen(self.current, now, self.frozen_at)
            screen.show_knobs(frame.snapshot, frame.at)
        told = [notice for notice in frame.notices if notice.number > self._told]
        if told:
            self._told = told[-1].number
            self._say_all([(notice.text, "warning" if notice.trouble else "information") for notice in told])
        if self.feed.ready and not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()  # full collections no longer walk the modules

    def say(self, text: str, severity: str = "information") -> None:
        """A notice that goes away by itself; foreign text is never read as markup.

        It stands in the last line. What is too long for it, or said while another screen is on top, is a box at the
        upper right, away from the knobs.
        """
        if self._notice_timer is not None:
            self._notice_timer.stop()
        if self.screen is self.overview and self.overview.keys.has_room_for(text):
            self.overview.tell(text, _NOTICE_ROLE.get(severity, "value"))
            self._notice_timer = self.set_timer(_NOTICE_S, self.unsay)
            return
        self.unsay()
        if self.settings.ascii:
            text = to_ascii(text)
        level = severity if severity in _NOTICE_ROLE else "information"
        self.notify(text, severity=level, timeout=_NOTICE_S, markup=False)  # type: ignore[arg-type]

    def _say_all(self, lines: Sequence[tuple[str, str]]) -> None:
        """One after the other: each has its time in the last line."""
        for place, (line, severity) in enumerate(lines):
            self.set_timer(0.01 + place * _NOTICE_S, partial(self.say, line, severity))

    def unsay(self) -> None:
        """Give the last line back to the keys."""
        self.overview.tell("")

    # -- what the operator asks --

    def action_help(self) -> None:
        """Show the help."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self._glyphs, self.OFFERED))

    def action_command_palette(self) -> None:
        """Find a command by name."""
        if not isinstance(self.screen, CommandPalette):
            self.clear_notifications()  # they would lie over the line that is typed into
            self.push_screen(Palette(placeholder="Find a command", id="--command-palette"))

    def action_focus_knobs(self) -> None:
        """Go to the knobs, which a tall log may have hidden."""
        self.overview.reach(self.overview.knobs)

    def action_focus_log(self) -> None:
        """Go to the log, which a small screen may have hidden."""
        self.overview.reach(self.overview.log_view)

    def action_next_panel(self) -> None:
        """From the knobs to the log, from the log to the knobs."""
        if self.screen is not self.overview:
            self.screen.focus_next()
        elif self.overview.knobs.has_focus:
            self.action_focus_log()
        else:
            self.action_focus_knobs()

    def action_focus_next(self) -> None:
        """Textual's own name for the tab key."""
        self.action_next_panel()

    def action_focus_previous(self) -> None:
        """With two panels, back is on."""
        self.action_next_panel()

    def action_leave_panel(self) -> None:
        """Leave the panel."""
        self.screen.set_focus(None)

    def action_freeze(self) -> None:
        """Hold the picture, or let it go on."""
        self.frozen_at = time.monotonic() if self.frozen_at is None else None
        self._pace(self.settings.refresh_s if self.frozen_at is None else _AWAY_S)
        self.tick()

    def action_pause_engine(self) -> None:
        """Turn the knob ``paused``."""
        if self.current is not None:
            self.propose("paused", not self.current.snapshot.paused)

    def action_undo(self) -> None:
        """Take back the last change."""
        if self.settings.read_only:
            self.say(self.UNCHANGEABLE, "warning")
            return
        self._tell(self.feed.undo())
        self.tick()

    def action_window(self, by: int) -> None:
        """Show a shorter or a longer stretch of time."""
        place = WINDOWS.index(self.window_s) + by
        self.window_s = WINDOWS[max(0, min(len(WINDOWS) - 1, place))]
        if self.frozen_at is None:
            self.tick()
        else:
            self.say("frozen: space lets go, then the stretch of time changes")

    def action_next_theme(self) -> None:
        """The next theme by name."""
        names = sorted(self._themes)
        place = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(place + 1) % len(names)]
        self.say(f"theme: {self._themes[self.theme].title}")

    def action_save_picture(self) -> None:
        """Save the screen as SVG."""
        folder = state_folder() / "pictures"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = self.save_screenshot(f"cuzk-top-{time.strftime('%Y%m%d-%H%M%S')}.svg", str(folder))
        except OSError as error:
            self.say(f"picture not saved: {folder}: {error.strerror}", "error")
        else:
            self.say(f"picture saved: {path}")

    def action_leave(self) -> None:
        """Stop proving and end the console."""
        self.leave(0)

    def on_knob_panel_proposed(self, event: KnobPanel.Proposed) -> None:
        """The operator turned a knob."""
        self.propose(event.name, event.value)

    def on_knob_panel_refused(self, event: KnobPanel.Refused) -> None:
        """A key in the knobs did nothing."""
        self.say(event.reason, "warning")

    async def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """A key in the last line was clicked."""
        await self.run_action(event.action)

    def on_key_bar_dismissed(self, event: KeyBar.Dismissed) -> None:
        """The notice was clicked."""
        self.unsay()

    def propose(self, name: str, value: KnobValue) -> None:
        """Ask the engine for a value, after asking back where the knob's risk says so."""
        if self.settings.read_only:
            self.say(self.UNCHANGEABLE, "warning")
            return
        spec = self.feed.specs[name]

        def go(yes: bool | None) -> None:
            if yes:
                self._tell(self.feed.propose(name, value))
            self.tick()

        if spec.risk is Risk.CONFIRM:
            self.push_screen(
                ConfirmScreen(
                    f"{name} {self._glyphs.change} {show(value, spec.zero or '')}?", f"This knob: {spec.help}."
                ),
                go,
            )
        else:
            go(True)

    def _tell(self, receipt: Receipt) -> None:
        change = receipt.change
        if not receipt.accepted:
            self.say(receipt.reason or "refused", "warning")
        elif receipt.note:
            self.say(receipt.note)
        elif change is not None and change.why == "undo":
            self.say(f"undone: {change.name} is {show(change.new)} again")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action of the registry, and each theme by name."""
        for action in self.OFFERED:
            label = f"{_PALETTE_PREFIX[action.scope]}{action.label}"
            keys = f"{action.description}  ({action.shown})" if action.shown else action.description
            if self.settings.ascii:
                keys = to_ascii(keys)
            yield SystemCommand(f"{label[0].upper()}{label[1:]}", keys, partial(self._run, action))
        for name, file in sorted(self._themes.items()):

            def choose(name: str = name) -> None:
                self.theme = name

            yield SystemCommand(f"Theme {file.title}", f"Use the theme {name}", choose)

    async def _run(self, action: Action) -> None:
        """Run an action from the palette; one of a panel goes to its panel first."""
        panel: KnobPanel | LogView | None = None
        if action.scope in (Scope.KNOBS, Scope.LOG):
            panel = self.overview.knobs if action.scope is Scope.KNOBS else self.overview.log_view
            self.overview.reach(panel)
        await self.run_action(action.act, panel)
