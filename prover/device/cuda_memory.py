"""Memory of a GPU: capped, accounted, used again.

Blocks that are given back stay allocated and serve the next request of about their size, whatever stream it comes from.
One whose last work may still run in another stream (but a lane of its own) is taken only where the GPU has no room for
another: the new work then waits for the old on the GPU, and a worker's copies would no longer lie beneath the other's
kernels. The host never waits, and ``cudaMalloc`` and ``cudaFree``, which stop the whole device, are left to the first
partitions.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.device.errors import OutOfMemory, WrongDevice
from prover.device.values import Usage

if TYPE_CHECKING:
    from prover.device.cuda_driver import Driver
    from prover.device.cuda_stream import CudaStream, HandlePool

_SMALL = 512
_LARGE = 2 << 20
_WASTE = 8
"""A cached block serves requests that leave less than 1/8 of it unused."""


@dataclass(slots=True)
class _Free:
    """A block that nothing uses, and the work that may still do so."""

    address: int
    nbytes: int
    stream: CudaStream | None
    after: int
    """``stream.submitted`` when it was given back."""


class Block:
    """Memory that goes back to its arena when the last array on it is gone."""

    __slots__ = ("_arena", "address", "nbytes", "stream")

    def __init__(self, arena: Arena, address: int, nbytes: int, stream: CudaStream) -> None:
        self._arena = arena
        self.address = address
        self.nbytes = nbytes
        self.stream = stream
        """The stream whose work used it last."""

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self._arena.give_back(self)


class CudaArray:
    """Bytes on a GPU: a whole block, or a part of one."""

    __slots__ = ("__weakref__", "address", "block", "nbytes")

    def __init__(self, block: Block | None, address: int, nbytes: int) -> None:
        self.block = block
        self.address = address
        self.nbytes = nbytes

    def part(self, start: int, stop: int) -> CudaArray:
        """The bytes ``start <= i < stop``, a view."""
        return CudaArray(self.block, self.address + start, stop - start)

    def used_by(self, stream: CudaStream) -> None:
        """Say that work in this stream uses it, so that nobody gets the memory before that work is done."""
        if self.block is not None:
            self.block.stream = stream


class Arena:
    """The device memory of one GPU."""

    def __init__(self, pool: HandlePool, name: str, cap: int | None = None) -> None:
        """``cap``: bytes that may be allocated in all; None = what the GPU has."""
        self._pool = pool
        self._driver: Driver = pool.driver
        self._name = name
        self._cap = cap
        self._lock = threading.RLock()
        self._cached: list[_Free] = []
        self._returned: list[_Free] = []
        self._evict: Callable[[int], bool] | None = None
        self.used = 0
        self.cached = 0
        self.peak = 0

    def on_shortage(self, evict: Callable[[int], bool]) -> None:
        """``evict(nbytes)`` is asked to let go of arrays that can be had again; it says whether it did."""
        self._evict = evict

    def take(self, nbytes: int, stream: CudaStream) -> CudaArray:
        """An array; what is in it is undefined.

        Raises:
            OutOfMemory: with what was asked and what is free.
        """
        if nbytes == 0:
            return CudaArray(None, 0, 0)
        size = _rounded(nbytes)
        while True:
            with self._lock:
                found = self._reuse(size, stream) or self._reuse(size, stream, lanes=True) or self._allocate(size)
                found = found or self._reuse(size) or self._allocate_trimmed(size)
                if found is not None:
                    self.used += found.nbytes
                    self.peak = max(self.peak, self.used)
                    self._order(found, stream)
                    return CudaArray(Block(self, found.address, found.nbytes, stream), found.address, nbytes)
            if self._evict is None or not self._evict(size):
                raise OutOfMemory(nbytes, self.usage().free, self._name)

    def give_back(self, block: Block) -> None:
        """Callable from finalizers: it calls no driver and takes no lock that could be held."""
        self._returned.append(_Free(block.address, block.nbytes, block.stream, block.stream.submitted))

    def trim(self) -> int:
        """Return every cached block to the driver; how many bytes that was. Stops the device for a moment."""
        with self._lock:
            self._collect()
            for free in self._cached:
                self._driver.free(free.address)
            released, self.cached = self.cached, 0
            self._cached.clear()
            return released

    def usage(self) -> Usage:
        """Bytes in arrays, bytes that could still be had, the most that arrays ever took."""
        with self._lock:
            self._collect()
            free, _ = self._driver.memory_info()
            free += self.cached
            if self._cap is not None:
                free = min(free, self._cap - self.used)
            return Usage(used=self.used, free=max(0, free), peak=self.peak)

    def _collect(self) -> None:
        while self._returned:
            free = self._returned.pop()
            self.used -= free.nbytes
            self.cached += free.nbytes
            bisect.insort(self._cached, free, key=lambda f: f.nbytes)

    def _reuse(self, size: int, stream: CudaStream | None = None, *, lanes: bool = False) -> _Free | None:
        """The smallest cached block that fits; with a ``stream``, one that this need not wait for, or one of its lanes'
        (``lanes``): a stream's work takes turns in the same memory.
        """
        self._collect()
        for index in range(bisect.bisect_left(self._cached, size, key=lambda f: f.nbytes), len(self._cached)):
            found = self._cached[index]
            if found.nbytes - size > size // _WASTE:
                break
            if stream is None or _settled(found) or _shared(found, stream, lanes):
                del self._cached[index]
                self.cached -= found.nbytes
                return found
        return None

    def _allocate(self, size: int) -> _Free | None:
        over_cap = self._cap is not None and self.used + self.cached + size > self._cap
        address = None if over_cap else self._driver.allocate(size)
        return None if address is None else _Free(address, size, None, 0)

    def _allocate_trimmed(self, size: int) -> _Free | None:
        return self._allocate(size) if self.trim() else None

    def _order(self, free: _Free, stream: CudaStream) -> None:
        """Let the new user wait for the old one's work."""
        if free.stream is None or free.stream.handle == stream.handle or _settled(free):
            return
        event = self._pool.take("plain")
        self._driver.record(event, free.stream.handle)
        self._driver.wait(stream.handle, event)
        stream.submitted += 1  # the wait is work too: who takes the block next must not overtake it
        self._pool.give_back("plain", event)  # a wait that is enqueued keeps its meaning


def _settled(free: _Free) -> bool:
    return free.stream is None or free.stream.completed >= free.after


def _shared(free: _Free, stream: CudaStream, lanes: bool) -> bool:
    of = free.stream
    return of is not None and (of.handle == stream.handle or (lanes and of.group is stream.group))


def _rounded(nbytes: int) -> int:
    step = _SMALL if nbytes < _LARGE else _LARGE
    return -(-nbytes // step) * step


def owned(array: object, device: str) -> CudaArray:
    """The array, if it is a GPU's.

    Raises:
        WrongDevice: if not.
    """
    if not isinstance(array, CudaArray):
        raise WrongDevice(array, device)
    return array


__all__ = ["Arena", "Block", "CudaArray", "owned"]
