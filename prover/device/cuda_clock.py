"""The GPU's events on the host's monotonic clock.

An event's time is that of an anchor plus what lies between the two by the GPU's own clock. An anchor is an event that
is recorded in an idle stream, with the host's time when it was: known to some tens of microseconds. It is taken anew
now and then, because the two clocks drift apart and the driver tells time between events in single precision.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.device.cuda_stream import CudaEvent

if TYPE_CHECKING:
    from prover.device.cuda_stream import HandlePool

_KEPT_S = 60.0
_SHARP_S = 2e-4
"""An anchor whose host time is known that well is not tried again."""
_BLURRED_S = 2e-3
"""One that is not known so well is no better than an old one."""
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Anchor:
    """An event, and the host's time when it was recorded."""

    event: CudaEvent
    at: float

    def time_of(self, event: CudaEvent) -> float:
        """The host's time of a later event; both must be done."""
        return self.at + self.event.elapsed_s(event)


class DeviceClock:
    """One GPU's clock."""

    def __init__(self, handles: HandlePool, clock: Callable[[], float] = time.monotonic) -> None:
        self._handles = handles
        self._clock = clock
        self._lock = threading.Lock()
        self._stream: int | None = None
        self._anchor: Anchor | None = None
        self._fresh_until = 0.0

    def anchor(self) -> Anchor:
        """The anchor for events that are recorded from now on.

        Raises:
            DeviceLost: if the device no longer answers.
        """
        with self._lock:
            if self._anchor is None or self._clock() >= self._fresh_until:
                self._anchor = self._take()
            return self._anchor

    def close(self) -> None:
        """Give its stream and event back."""
        with self._lock:
            if self._stream is not None:
                self._handles.give_back("stream", self._stream)
            self._stream = self._anchor = None

    def _take(self) -> Anchor:
        if self._stream is None:
            self._stream = self._handles.take("stream")
        best: Anchor | None = None
        width = float("inf")
        for _ in range(_TRIES):
            before = self._clock()
            event = CudaEvent(self._handles, self._stream)
            event.synchronize()
            after = self._clock()
            if best is None or after - before < width:
                best, width = Anchor(event, before), after - before
            if width <= _SHARP_S:
                break
        assert best is not None
        if width > _BLURRED_S and self._anchor is not None:
            best = self._anchor
            self._fresh_until = self._clock() + 1.0
        else:
            self._fresh_until = self._clock() + _KEPT_S
        return best


__all__ = ["Anchor", "DeviceClock"]
