"""Asking long calls to stop."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CancelToken:
    """Asks long calls to stop. Native calls read ``address`` (an int32) without the GIL."""

    def __init__(self) -> None:
        self._flag = ctypes.c_int32(0)
        self._event = threading.Event()
        self._calls: list[Callable[[], None]] = []
        self.address = ctypes.addressof(self._flag)

    def cancel(self) -> None:
        """Ask once and for all."""
        self._flag.value = 1
        self._event.set()
        for call in list(self._calls):
            call()

    @property
    def cancelled(self) -> bool:
        """Whether it was asked."""
        return self._event.is_set()

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Within, ``call`` is called when it is asked, by the thread that asks, which may hold the engine's lock."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is asked, or for ``timeout_s`` seconds; returns whether it was."""
        return self._event.wait(timeout_s)


class Cancelled(Exception):
    """A long call stopped because its token asked it to."""
