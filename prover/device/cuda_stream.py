"""Streams and events of a GPU. A stream keeps account of the time that kernels ran in it, by device events."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from prover.device.errors import WrongDevice
from prover.intervals import IntervalSet, length

if TYPE_CHECKING:
    from prover.cancel import CancelToken
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_clock import Anchor
    from prover.device.cuda_driver import Driver
    from prover.device.protocol import DeviceEvent


_STREAMS = frozenset({"stream", "urgent"})
_OVERLAPS_S = 60.0
"""Spans of a stream's lanes are told in an order that is no further off than this."""


class HandlePool:
    """Streams and events that are used again: making one takes longer than most launches."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._lock = threading.Lock()
        self._closed = False
        self._free: dict[str, list[int]] = {kind: [] for kind in ("stream", "urgent", "timing", "plain")}

    def take(self, kind: str) -> int:
        """A handle of a kind: ``stream``, ``urgent`` (a stream whose blocks go first), ``timing`` (an event with a
        clock) or ``plain`` (one without).
        """
        with self._lock:
            if self._free[kind]:
                return self._free[kind].pop()
        if kind in _STREAMS:
            return self.driver.create_stream(kind == "urgent")
        return self.driver.create_event(kind == "timing")

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
                (self.driver.destroy_stream if kind in _STREAMS else self.driver.destroy_event)(handle)


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
    the event after the last: ``active_s`` is the length of their union, ``take_spans`` lays them on the host's clock.
    Its lanes (``lane``) are queues of their own for parts of its work; it is synchronised with them, and their spans
    are its own.
    """

    def __init__(
        self,
        device: CudaDevice,
        name: str,
        cancel: CancelToken | None = None,
        *,
        urgent: bool = False,
        group: object | None = None,
    ) -> None:
        """``urgent``: its blocks begin first. ``group``: of the stream whose lane it is."""
        pool = device.handles
        self.device = device
        self._pool = pool
        self._kind = "urgent" if urgent else "stream"
        self.name = name
        self.cancel = cancel
        self.handle = pool.take(self._kind)
        self.group = group if group is not None else object()
        """What a stream and its lanes have in common."""
        self.submitted = 0
        """Operations given to it."""
        self.completed = 0
        """Of these, known to be done: all that were given before the last synchronisation."""
        self._open: tuple[Anchor, CudaEvent] | None = None
        self._closed: deque[tuple[Anchor, CudaEvent, CudaEvent]] = deque()
        self._lanes: dict[str, CudaStream] = {}
        self._busy = IntervalSet()
        self._held: deque[object] = deque()
        self._spans: deque[tuple[float, float]] = deque(maxlen=4096)
        self.active_s = 0.0

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._pool.give_back(self._kind, self.handle)

    def lane(self, name: str, *, urgent: bool = False) -> CudaStream:
        """Its lane of this name, made when first asked for. Lanes and stream wait for each other only where told to."""
        found = self._lanes.get(name)
        if found is None:
            found = CudaStream(self.device, f"{self.name}/{name}", self.cancel, urgent=urgent, group=self.group)
            self._lanes[name] = found
        return found

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
        """Wait until all that was submitted is done, to its lanes too.

        Raises:
            DeviceLost: if a kernel broke the device.
        """
        for lane in self._lanes.values():
            lane.synchronize()
        self.end_kernels()
        upto = self.submitted
        self.driver.synchronize_stream(self.handle)
        self.completed = upto
        self._held.clear()
        self.collect()

    def collect(self, before: DeviceEvent | None = None) -> None:
        """Account for the spans that are over, or only for the stream's own that ended before an event of its own."""
        if before is not None:
            while self._closed and self._closed[0][2].done and self._closed[0][2].elapsed_s(before) >= 0:
                self._close_first()
            return
        for lane in self._lanes.values():
            lane.collect()
            for began, ended in lane.take_spans():
                self._account(began, ended)
        while self._closed and self._closed[0][2].done:
            self._close_first()

    def _close_first(self) -> None:
        anchor, first, last = self._closed.popleft()
        began = anchor.time_of(first)
        self._account(began, began + first.elapsed_s(last))

    def _account(self, began: float, ended: float) -> None:
        fresh = self._busy.grow(began, ended)
        self.active_s += length(fresh)
        self._spans.extend(fresh)
        self._busy.prune(began - _OVERLAPS_S)

    def take_spans(self) -> list[tuple[float, float]]:
        """When kernels ran, on the monotonic clock: what was accounted for since the last call."""
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
