"""Time for an engine under test: it passes when the test says so, once every thread rests. Hours in milliseconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from prover.cancel import CancelToken
from prover.pipeline.clock import VirtualClock

PATIENCE_S = 60.0


class VirtualTime(VirtualClock):
    """The clock of an engine, and a ``step`` for its fake workload that sleeps on it. ``durations`` are by step."""

    def __init__(self, durations: dict[str, float], autopilot: bool = False) -> None:
        super().__init__(100.0, autopilot)
        self.durations = durations

    def step(self, step: str, inputs: Any, partitions: tuple[int, ...], cancel: CancelToken | None) -> None:
        """Sleep as long as this step takes, times the partitions of the slot."""
        seconds = self.durations.get(step, 0.0) * len(partitions)
        if seconds > 0:
            self.sleep(seconds, cancel)

    def run(self, until: Callable[[], bool]) -> None:
        """Let time pass until everything rests and ``until()`` holds."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, "the engine neither works nor waits"
            self.settle(PATIENCE_S)
            if until():
                return
            if not self.advance():
                time.sleep(0.0001)  # another thread of the test has yet to do its part

    def pass_(self, seconds: float) -> None:
        """Move the clock while nothing sleeps."""
        self.settle(PATIENCE_S)
        end = self() + seconds
        while self() < end:
            self.advance(end)

    def stand_still(self, until: Callable[[], bool]) -> None:
        """Let no time pass until this holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < deadline, "it does not happen"
            time.sleep(0.0001)

    def join(self, thread: threading.Thread) -> None:
        """Let time pass until a thread of the test's is over."""
        self.run(lambda: not thread.is_alive())
