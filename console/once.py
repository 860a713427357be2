"""One frame without a console: waits until there is something to see, and draws it with the console's own screen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

from console.feeds.interfaces import Feed
from console.frame import Frame
from console.progress import ProgressLine
from console.settings import ConsoleSettings
from console.windows import DEFAULT_WINDOW
from prover.cancel import Cancelled, CancelToken
from prover.model import KnobValue
from prover.pipeline.interfaces import Receipt
from prover.pipeline.knobs import KnobSpec

_LOOK_S = 0.25
_SETTLE_S = 1.25
"""Figures are worked out once a second: the frame is taken after they know of the job."""


def first_frame(feed: Feed, cancel: CancelToken, window_s: float = DEFAULT_WINDOW) -> tuple[Frame, list[str]]:
    """The frame soon after the end of the first job, or of an engine that is ready and paused or has nothing to prove,
    and the log's lines.

    Raises what ended the feed, or ``Cancelled``.
    """
    lines: list[str] = []
    ended: float | None = None
    tick = threading.Event()
    with ProgressLine() as progress:
        while not cancel.cancelled:
            if feed.failure is not None:
                raise feed.failure
            frame = feed.poll(window_s)
            lines += feed.take_lines()
            counters = frame.snapshot.counters
            paused = frame.snapshot.paused and frame.snapshot.activity is None  # then nothing will end
            if ended is None and (counters.jobs_done or counters.jobs_failed or paused or feed.idle):
                ended = frame.at
            if ended is not None and frame.at - ended >= _SETTLE_S:
                return frame, lines
            done = counters.partitions_done
            progress(frame.snapshot.activity or f"the first job: {done} partitions proved")
            tick.wait(_LOOK_S)
    raise Cancelled


class _Still:
    """``Feed`` of a single frame."""

    def __init__(self, frame: Frame, lines: Sequence[str], feed: Feed) -> None:
        self._frame = frame
        self._lines = list(lines)
        self.specs: Mapping[str, KnobSpec] = feed.specs
        self.log_name = feed.log_name
        self.log_problem: str | None = None
        self.failure: BaseException | None = None
        self.ready = False
        self.idle = True

    def start(self) -> None:
        """Nothing to start."""

    def poll(self, window: float) -> Frame:
        """The frame."""
        return self._frame

    def take_lines(self) -> list[str]:
        """The lines, once."""
        lines, self._lines = self._lines, []
        return lines

    def propose(self, name: str, value: KnobValue) -> Receipt:
        """Refused."""
        return Receipt(False, 0, reason="a still picture")

    def undo(self) -> Receipt:
        """Refused."""
        return Receipt(False, 0, reason="a still picture")

    def stop(self, timeout_s: float) -> bool:
        """Nothing to stop."""
        return True

    def drain(self, timeout_s: float) -> bool:
        """Nothing to wait for."""
        return True


def plain_screen(
    frame: Frame, lines: Sequence[str], settings: ConsoleSettings, size: tuple[int, int], feed: Feed
) -> str:
    """The frame as the console would show it at ``size`` (columns, rows), as text."""
    from console.app import ConsoleApp
    from console.screens.plain import screen_text
    from console.theming import read_themes

    themes, _ = read_themes()
    app = ConsoleApp(_Still(frame, lines, feed), settings, themes)

    async def draw() -> str:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            return screen_text(app.screen)

    return asyncio.run(draw())
