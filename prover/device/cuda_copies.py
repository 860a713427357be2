"""Copies between host and GPU, through page-locked buffers: the GPU's copy engine reads and writes only such memory.

A large copy is cut into chunks. Threads move chunks into pinned buffers while those before them are on their way, for
one thread moves memory at a tenth of the speed of the bus.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover import buffers
from prover.device.errors import CudaFailure, DeviceLost, OutOfMemory

if TYPE_CHECKING:
    from prover.device.cuda_memory import CudaArray
    from prover.device.cuda_stream import CudaStream, HandlePool
    from prover.device.protocol import HostArray

_CHUNK = 4 << 20
_CAP = 256 << 20
_LEAST = 2
"""Pinned buffers that a pool may always have."""
_RING = 8
"""Pinned buffers of one copy at most."""
_MOVERS = 4
"""Threads that move memory, for all copies of a device."""


class PinnedPool:
    """Page-locked host buffers of one size for copies that run beside everything else."""

    def __init__(self, pool: HandlePool, chunk: int = _CHUNK, cap: int = _CAP) -> None:
        self._pool = pool
        self._driver = pool.driver
        self.chunk = chunk
        self._limit = max(2, cap // chunk)
        self._condition = threading.Condition()
        self._free: list[int] = []
        self._made = 0
        self.allow: Callable[[int], bool] = lambda nbytes: True
        """Asked before the pool grows by so many bytes beyond ``least``."""
        self.shrunk: Callable[[int], None] = lambda nbytes: None
        """Told when it did not grow after all."""

    @property
    def nbytes(self) -> int:
        """Bytes of page-locked memory held."""
        return self._made * self.chunk

    @property
    def least(self) -> int:
        """Bytes that it may hold without asking: copies have to get through."""
        return _LEAST * self.chunk

    @property
    def idle(self) -> int:
        """Bytes beyond ``least`` that no copy uses now. Needs no lock."""
        return max(0, min(len(self._free), self._made - _LEAST)) * self.chunk

    def trim(self, nbytes: int) -> int:
        """Free up to ``nbytes`` that no copy uses, beyond ``least``, in whole buffers; how many bytes it were."""
        with self._condition:
            count = min(nbytes // self.chunk + (nbytes % self.chunk > 0), self.idle // self.chunk)
            free = [self._free.pop() for _ in range(count)]
            self._made -= count
        for address in free:
            with contextlib.suppress(DeviceLost, CudaFailure):  # no copy will use it again
                self._driver.free_pinned(address)
        return count * self.chunk

    def take(self) -> int:
        """The address of a buffer; waits where all are in use. A caller that has one must not wait for a second.

        Raises:
            OutOfMemory: if the system gives none at all.
        """
        with self._condition:
            while True:
                found = self._next()
                if found is not None:
                    return found
                if not self._made:
                    raise OutOfMemory(self.chunk, 0, "pinned host memory")
                self._condition.wait()

    def take_more(self) -> int | None:
        """The address of another buffer if one is to be had at once."""
        with self._condition:
            return self._next()

    def _next(self) -> int | None:
        if self._free:
            return self._free.pop()
        beyond = self._made >= _LEAST
        if self._made == self._limit or (beyond and not self.allow(self.chunk)):
            return None
        try:
            address = self._driver.allocate_pinned(self.chunk)
        except BaseException:
            if beyond:
                self.shrunk(self.chunk)
            raise
        if address is None:
            self._limit = self._made
            if beyond:
                self.shrunk(self.chunk)
        else:
            self._made += 1
        return address

    def give_back(self, address: int) -> None:
        """The buffer's copy is done."""
        with self._condition:
            self._free.append(address)
            self._condition.notify()

    def close(self) -> None:
        """Free what is not in use."""
        with self._condition:
            free, self._free = self._free, []
            self._made -= len(free)
        for address in free:
            self._driver.free_pinned(address)


@dataclass(slots=True)
class _Slot:
    """A pinned buffer of a copy under way."""

    pinned: int
    event: int
    """Recorded after the copy out of it."""
    moving: Future[None] | None = None


class Copies:
    """The copies of one device."""

    def __init__(self, handles: HandlePool) -> None:
        self._handles = handles
        self._driver = handles.driver
        self.pinned = PinnedPool(handles)
        self._movers = ThreadPoolExecutor(min(_MOVERS, len(os.sched_getaffinity(0))), thread_name_prefix="copies")

    def to_device(self, target: CudaArray, host: HostArray, stream: CudaStream) -> None:
        """The host's bytes to the beginning of an array that has room for them; returns when they have arrived.

        Raises:
            OutOfMemory: if there is no pinned memory.
        """
        nbytes = memoryview(host).nbytes
        if nbytes == 0:
            return
        stream.end_kernels()
        source, chunk = buffers.address(host), self.pinned.chunk
        starts = range(0, nbytes, chunk)
        ring = self._ring(len(starts))
        try:
            for index in range(len(starts) + len(ring)):
                slot = ring[index % len(ring)]
                if index >= len(ring):
                    at = starts[index - len(ring)]
                    self._send(slot, target.address + at, min(chunk, nbytes - at), stream)
                if index < len(starts):
                    at = starts[index]
                    self._fill(slot, source + at, min(chunk, nbytes - at), alone=len(starts) == 1)
        finally:
            self._release(ring)

    def to_host(self, out: bytearray, source: CudaArray, stream: CudaStream) -> None:
        """An array's bytes, when everything submitted to the stream before is done.

        Raises:
            OutOfMemory: if there is no pinned memory.
        """
        if not out:
            stream.synchronize()
            return
        stream.end_kernels()
        address, pinned = buffers.address(out), self.pinned.take()
        try:
            for at in range(0, len(out), self.pinned.chunk):
                size = min(self.pinned.chunk, len(out) - at)
                stream.submitted += 1
                self._driver.copy_out(pinned, source.address + at, size, stream.handle)
                stream.synchronize()
                buffers.move(address + at, pinned, size)
        finally:
            self.pinned.give_back(pinned)

    def close(self) -> None:
        """Free what is not in use."""
        self._movers.shutdown()
        self.pinned.close()

    def _ring(self, wanted: int) -> list[_Slot]:
        ring = [_Slot(self.pinned.take(), self._handles.take("plain"))]
        while len(ring) < min(wanted, _RING):
            more = self.pinned.take_more()
            if more is None:
                break
            ring.append(_Slot(more, self._handles.take("plain")))
        return ring

    def _fill(self, slot: _Slot, source: int, nbytes: int, *, alone: bool) -> None:
        if alone:
            buffers.move(slot.pinned, source, nbytes)
        else:
            slot.moving = self._movers.submit(buffers.move, slot.pinned, source, nbytes)

    def _send(self, slot: _Slot, target: int, nbytes: int, stream: CudaStream) -> None:
        """When the buffer is filled; returns when it can be filled again."""
        if slot.moving is not None:
            slot.moving.result()
            slot.moving = None
        stream.submitted += 1
        self._driver.copy_in(target, slot.pinned, nbytes, stream.handle)
        self._driver.record(slot.event, stream.handle)
        self._driver.synchronize_event(slot.event)

    def _release(self, ring: list[_Slot]) -> None:
        for slot in ring:
            if slot.moving is not None:
                slot.moving.result()
            self.pinned.give_back(slot.pinned)
            self._handles.give_back("plain", slot.event)


__all__ = ["Copies", "PinnedPool"]
