"""The end of a console whose terminal does not read: a write to it waits for ever, and with it whoever wrote."""

from __future__ import annotations

import contextlib
import os
import termios
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

GRACE_S = 1.5
"""Longer than it takes to leave the screen."""


class LastResort:
    """A signal handler: should the console not leave the screen, which asyncio begins at the same signal, the process
    drains and ends without that, with the terminal's modes (``termios``) as they were but whatever it would have had to
    read untold."""

    def __init__(
        self, terminal: int, modes: list[Any] | None, drain: Callable[[int, threading.Event], object] | None = None
    ) -> None:
        """``drain`` lets what was begun end: given the signal, and what a second one sets."""
        self._terminal = terminal
        self._modes = modes
        self._drain = drain
        self._timer: threading.Timer | None = None
        self.again = threading.Event()
        """A second signal came."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._timer is not None:
            self.again.set()
            return
        self._timer = threading.Timer(GRACE_S, self._end, (number,))
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """The screen was left in order."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self, number: int) -> None:
        if self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._modes)
        try:
            if self._drain is not None:
                self._drain(number, self.again)
        finally:
            os._exit(128 + number)
