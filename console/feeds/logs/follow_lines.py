"""The newest lines of one log as text, for a pane that shows no others.

What follows is loaded in the thread that does it: the first frame waits for none of it.
"""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.feeds.logs.follow import FollowedLogs
    from console.feeds.logs.sources import Item

_MOST_BEHIND = 16 << 20
"""Further behind than this, all but the tail is passed over: nobody could read it."""


class LogFollower:
    """Follows one path in a thread; ``take`` hands over what came since the last call."""

    def __init__(self, path: Path, limit: int = 20_000) -> None:
        self.path = path
        self._lines: deque[str] = deque(maxlen=limit)
        self._stream: FollowedLogs | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why nothing is shown, if nothing is."""
        return self._stream.problem if self._stream is not None else None

    @property
    def running(self) -> bool:
        """Whether more may come."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Bytes that wait to be taken."""
        return self._stream.waiting if self._stream is not None else 0

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self, timeout_s: float = 0.2) -> None:
        """Ask the thread to end, and wait a moment for it."""
        self._stop.set()
        if self._stream is not None:
            self._stream.stop(0.0)
        if timeout_s > 0 and self._thread.is_alive():
            self._thread.join(timeout_s)

    def take(self) -> list[str]:
        """Lines that came since the last call, oldest first; the newest of them if they are too many."""
        for item in self._stream.take() if self._stream is not None else ():
            self._lines.extend(text_lines(item))
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def _run(self) -> None:
        from console.feeds.logs.follow import FollowedLogs

        self._stream = FollowedLogs([str(self.path)], pass_over=_MOST_BEHIND)
        if not self._stop.is_set():
            self._stream.run()


def text_lines(item: Item) -> list[str]:
    """An item as lines of text; what happened to a log in angle brackets."""
    from console.feeds.logs.sources import Notice

    if isinstance(item, Notice):
        return [f"<{item.text}>"]
    *lines, last = item.data.split(b"\n")
    return [line.rstrip(b"\r").decode("utf-8", "replace") for line in ([*lines, last] if last else lines)]
