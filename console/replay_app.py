"""The console over a recording: the same screen, with keys that move about in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from textual.binding import BindingType

from console.actions import Action, Scope, bindings, offered
from console.app import ConsoleApp
from console.feeds.replay import ReplayFeed
from console.settings import ConsoleSettings
from console.theming import ThemeFile
from console.windows import DEFAULT_WINDOW
from widgets.figures import span


class ReplayApp(ConsoleApp):
    """``ConsoleApp`` over a ``ReplayFeed``. Nothing can be changed."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.REPLAY)]
    OFFERED: ClassVar[tuple[Action, ...]] = offered(replay=True)
    UNCHANGEABLE: ClassVar[str] = "a replay: what happened stays as it was"

    def __init__(
        self,
        feed: ReplayFeed,
        settings: ConsoleSettings,
        themes: Mapping[str, ThemeFile],
        notices: Iterable[str] = (),
        window_s: float = DEFAULT_WINDOW,
    ) -> None:
        super().__init__(feed, replace(settings, read_only=True), themes, notices, window_s)
        self.replay = feed

    def action_play(self) -> None:
        """Hold the replay, or let it go on; at its end, begin again."""
        playhead = self.replay.playhead
        if playhead.playing:
            playhead.pause()
        else:
            playhead.play()
        self.tick()

    def action_seek(self, seconds: int) -> None:
        """Back or on by so many seconds."""
        playhead = self.replay.playhead
        playhead.seek(playhead.at + seconds)
        self._moved()

    def action_seek_to(self, share: int) -> None:
        """To the beginning (0) or to the end (1)."""
        playhead = self.replay.playhead
        playhead.seek(playhead.end if share else playhead.begin)
        self._moved()

    def action_step(self, by: int) -> None:
        """To the next happening, or to the one before."""
        self.replay.step(by)
        self._moved()

    def action_speed(self, by: int) -> None:
        """Play faster or slower."""
        playhead = self.replay.playhead
        playhead.faster(by)
        self.say(f"replay at {playhead.speed:g} times the speed")
        self.tick()

    def _moved(self) -> None:
        playhead = self.replay.playhead
        self.tick()
        self.say(f"replay: {span(playhead.at - playhead.begin)} of {span(playhead.end - playhead.begin)}")
