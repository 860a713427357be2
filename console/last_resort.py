"""The end of a console whose terminal does not read: a write to it waits for ever, and with it whoever wrote."""

from __future__ import annotations

import contextlib
import os
import termios
import threading
from types import FrameType
from typing import Any

GRACE_S = 1.5
"""Longer than an orderly end takes."""


class LastResort:
    """A signal handler: should the orderly end, which asyncio begins at the same signal, not come, the process ends
    without it, with the terminal's modes (``termios``) as they were but whatever it would have had to read untold."""

    def __init__(self, terminal: int, modes: list[Any] | None) -> None:
        self._terminal = terminal
        self._modes = modes

    def __call__(self, number: int, frame: FrameType | None) -> None:
        timer = threading.Timer(GRACE_S, self._end, (128 + number,))
        timer.daemon = True
        timer.start()

    def _end(self, code: int) -> None:
        if self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._modes)
        os._exit(code)
