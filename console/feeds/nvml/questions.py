"""Asking NVML: what is unsupported is asked once, what hangs is seen from outside, what is lost is raised."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from console.feeds.nvml import words


class CardGoneError(Exception):
    """The driver says that the GPU, or the driver itself, is gone; the message is for the operator."""


class Questions:
    """The questions of one thread. ``asking`` may be read by any other thread."""

    def __init__(self, nvml: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.nvml = nvml
        self._clock = clock
        self._never: set[str] = set()
        self._refused: list[str] = []
        self.asking: tuple[str, float] | None = None
        """The function that is being called, and since when."""
        # Raised by newer bindings over an older driver's library; it is no NVMLError.
        self._mismatch: Any = getattr(nvml, "NVMLLibraryMismatchError", ())

    @property
    def refused(self) -> tuple[str, ...]:
        """What this user may not ask, in words."""
        return tuple(self._refused)

    def ask(self, name: str, *arguments: Any, variant: str = "") -> Any:
        """The answer, or ``None`` where there is none (now, or ever).

        ``variant`` tells apart the forms of one function of which a driver may know some only.

        Raises:
            CardGoneError: the GPU or its driver is gone.
        """
        key = name + variant
        if key in self._never:
            return None
        function = getattr(self.nvml, name, None)
        if function is None:
            self._never.add(key)
            return None
        self.asking = name, self._clock()
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            self._note(name, key, int(error.value))
            return None
        except self._mismatch:
            self._never.add(key)
            return None
        finally:
            self.asking = None

    def first(self, *names: str, of: tuple[Any, ...]) -> Any:
        """The answer of the first function that gives one: newer and older names of the same question."""
        for name in names:
            answer = self.ask(name, *of)
            if answer is not None:
                return answer
        return None

    def _note(self, name: str, key: str, code: int) -> None:
        line = words.gone(code)
        if line is not None:
            raise CardGoneError(line)
        if code in words.NEVER:
            self._never.add(key)
        word = words.question(name)
        if code == words.NO_PERMISSION and word is not None and word not in self._refused:
            self._refused.append(word)
