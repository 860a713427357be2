"""Asking long calls to stop."""

from __future__ import annotations

import ctypes
import threading


class CancelToken:
    """Asks long calls to stop. Native calls read ``address`` (an int32) without the GIL."""

    def __init__(self) -> None:
        self._flag = ctypes.c_int32(0)
        self._event = threading.Event()
        self.address = ctypes.addressof(self._flag)

    def cancel(self) -> None:
        """Ask once and for all."""
        self._flag.value = 1
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was asked."""
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is asked, or for ``timeout_s`` seconds; returns whether it was."""
        return self._event.wait(timeout_s)


class Cancelled(Exception):
    """A long call stopped because its token asked it to."""
