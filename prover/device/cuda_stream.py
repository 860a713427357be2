"""Streams and events of a GPU. A stream keeps account of the time that kernels ran in it, by device events."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from prover.device.errors import WrongDevice

if TYPE_CHECKING:
    from prover.cancel import CancelToken
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_clock import Anchor
    from prover.device.cuda_driver import Driver
    from prover.device.protocol import DeviceEvent


class HandlePool:
    """Streams and events that are used again: making one takes longer than most launches."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._lock = threading.Lock()
        self._closed = False
        self._free: dict[str, list[int]] = {"stream": [], "timing": [], "plain": []}

    def take(self, kind: str) -> int:
        """A handle of a kind: ``stream``, ``timing`` (an event with a clock) or ``plain`` (one without)."""
        with self._lock:
            if self._free[kind]:
                return self._free[kind].pop()
        return self.driver.create_stream() if kind == "stream" else self.driver.create_event(kind == "timing")

    def give_back(self, kind: str, handle: int) -> None:
        """Callable from finalizers: it calls no driver."""
        with self._lock:
            if not self._closed:
                self._free[kind].append(handle)

    def close(self) -> None:
        """Destroy what is not in use."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, {kind: [] for kind in self._free}
        for kind, handles in free.items():
            for handle in handles:
                (self.driver.destroy_stream if kind == "stream" else self.driver.destroy_event)(handle)


class CudaEvent:
    """A point in a stream, with the GPU's clock."""

    __slots__ = ("_pool", "handle")

    def __init__(self, pool: HandlePool, stream: int) -> None:
        self._pool = pool
        self.handle = pool.take("timing")
        pool.driver.record(self.handle, stream)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._pool.give_back("timing", self.handle)

    @property
    def done(self) -> bool:
        """Whether the stream has passed it."""
        return self._pool.driver.event_done(self.handle)

    def synchronize(self) -> None:
        """Wait until the stream has passed it."""
        self._pool.driver.synchronize_event(self.handle)

    def elapsed_s(self, later: DeviceEvent) -> float:
        """Seconds to a later event; both must be done.

        Raises:
            WrongDevice: if the other event is of another device.
        """
        if not isinstance(later, CudaEvent) or later._pool is not self._pool:
            raise WrongDevice(later, f"cuda:{self._pool.driver.ordinal}")
        return self._pool.driver.elapsed_s(self.handle, later.handle)


class CudaStream:
    """An ordered queue of work on the GPU, used by one thread at a time.

    Kernels that follow each other without a copy or a wait in between make one span, from the first launch's event to
    the event after the last: ``active_s`` is the sum of the spans, ``take_spans`` lays them on the host's clock.
    """

    def __init__(self, device: CudaDevice, name: str, cancel: CancelToken | None = None) -> None:
        pool = device.handles
        self.device = device
        self._pool = pool
        self.name = name
        self.cancel = cancel
        self.handle = pool.take("stream")
        self.submitted = 0
        """Operations given to it."""
        self.completed = 0
        """Of these, known to be done: all that were given before the last synchronisation."""
        self._open: tuple[Anchor, CudaEvent] | None = None
        self._closed: list[tuple[Anchor, CudaEvent, CudaEvent]] = []
        self._held: deque[object] = deque()
        self._spans: deque[tuple[float, float]] = deque(maxlen=4096)
        self.active_s = 0.0

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._pool.give_back("stream", self.handle)

    @property
    def driver(self) -> Driver:
        """The GPU's driver."""
        return self._pool.driver

    def record(self) -> CudaEvent:
        """An event at this point."""
        self.end_kernels()
        return CudaEvent(self._pool, self.handle)

    def wait(self, event: DeviceEvent) -> None:
        """Let what follows wait for an event of this device.

        Raises:
            WrongDevice: if it is another's.
        """
        if not isinstance(event, CudaEvent):
            raise WrongDevice(event, f"cuda:{self.driver.ordinal}")
        self.end_kernels()
        self.submitted += 1
        self.driver.wait(self.handle, event.handle)
        self.hold(event)

    def synchronize(self) -> None:
        """Wait until all that was submitted is done.

        Raises:
            DeviceLost: if a kernel broke the device.
        """
        self.end_kernels()
        upto = self.submitted
        self.driver.synchronize_stream(self.handle)
        self.completed = upto
        self._held.clear()
        for anchor, first, last in self._closed:
            seconds = first.elapsed_s(last)
            began = anchor.time_of(first)
            self.active_s += seconds
            self._spans.append((began, began + seconds))
        self._closed.clear()

    def take_spans(self) -> list[tuple[float, float]]:
        """When kernels ran, on the monotonic clock: what was synchronised since the last call."""
        taken = list(self._spans)
        self._spans.clear()
        return taken

    def begin_kernels(self) -> None:
        """Called before a launch."""
        self.submitted += 1
        if self._open is None:
            self._open = self.device.clock.anchor(), CudaEvent(self._pool, self.handle)

    def end_kernels(self) -> None:
        """Called before anything that is no kernel."""
        if self._open is not None:
            self._closed.append((*self._open, CudaEvent(self._pool, self.handle)))
            self._open = None

    def hold(self, thing: object) -> None:
        """Keep an object until the stream is next synchronised: a buffer that a copy still reads."""
        self._held.append(thing)


__all__ = ["CudaEvent", "CudaStream", "HandlePool"]
