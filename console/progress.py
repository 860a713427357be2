"""Progress of long work, on one line of stderr, where that is a terminal."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_INTERVAL_S = 0.1


class ProgressLine:
    """A line that is rewritten as work goes on and is gone when the work is done. Silent without a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = 0
        self._next = time.monotonic() + _INTERVAL_S

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, what: str, share: float | None = None) -> None:
        """Show what is being done, and the share done (0..1) if it is known."""
        if not self._terminal or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _INTERVAL_S
        text = what if share is None else f"{what} {100 * min(max(share, 0.0), 1.0):3.0f} %"
        self._write(f"\r{text:<{self._shown}}")
        self._shown = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


__all__ = ["ProgressLine"]
