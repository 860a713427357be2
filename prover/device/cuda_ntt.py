"""Transforms on the GPU: how a size is cut into passes, the tables of powers, the launches.

A transform of 2^log_n elements is one pass where a block's shared memory holds it all, two up to 2^20, three to 2^30. A
pass reads and writes every element once. What lies between passes is one multiplication by a power of the root; a
coset's shift and the inverse's 1/n are further powers, folded into tables where a pass multiplies anyway.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from ctypes import c_uint32, c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.curves import Curve
from prover.device.cuda_kernels import KernelModule
from prover.device.cuda_memory import CudaArray
from prover.device.values import Capability

if TYPE_CHECKING:
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_stream import CudaStream

WORDS = 4
"""64-bit words of an element of Fr."""
_BYTES = 8 * WORDS
_LARGEST_TILE = 10
"""Logarithm of the elements that a block works on: 32 KiB of shared memory, 128 threads, four blocks at a time on a
multiprocessor with registers for no more. Twice the tile with half the blocks is as fast up to 2^20, slower beyond.
"""
_ELEMENTS_PER_THREAD = 8
_TABLE_LIMIT = 16
"""A table of powers has at most 2^16 elements; more exponents are split into two."""
_NOTHING, _TWIDDLE, _POSITION, _CONSTANT = range(4)
"""``Exponent`` in ``ntt.cu``."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One launch: ``levels`` levels on tiles of ``2**log_columns`` transforms."""

    levels: int
    log_columns: int
    log_first: int
    log_middle: int
    log_after: int
    """Levels of the passes to come."""

    @property
    def blocks(self) -> int:
        """Tiles."""
        return 1 << (self.log_first + self.log_middle + self.log_after - self.log_columns)

    @property
    def log_tile(self) -> int:
        """Elements of a tile."""
        return self.levels + self.log_columns

    @property
    def threads(self) -> int:
        """Of a block."""
        return max(1, (1 << self.log_tile) // _ELEMENTS_PER_THREAD)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: the tile, in groups of eight."""
        return _BYTES << max(3, self.log_tile)


def largest_tile(capability: Capability) -> int:
    """Logarithm of the elements of a tile."""
    return min(_LARGEST_TILE, (capability.shared_bytes // _BYTES).bit_length() - 1)


def passes(log_n: int, capability: Capability) -> list[Pass]:
    """The passes of a transform of 2^log_n elements, as equal as they can be."""
    most = largest_tile(capability)
    if log_n == 0:
        return []
    if log_n <= most:
        return [Pass(log_n, 0, 0, 0, 0)]
    count = -(-log_n // most)
    if count > 3:
        raise ValueError(f"a transform of 2^{log_n} elements takes more than three passes")
    levels = [log_n // count + (i < log_n % count) for i in range(count)]
    busy = (2 * capability.multiprocessors - 1).bit_length()
    tile = max(*levels, min(most, log_n - busy))
    out = []
    for index, own in enumerate(levels):
        after = sum(levels[index + 1 :])
        neighbours = after or levels[0]
        columns = min(tile - own, neighbours)
        if after:
            out.append(Pass(own, columns, sum(levels[:index]), 0, after))
        else:
            out.append(Pass(own, columns, levels[0], sum(levels[1:index]), 0))
    return out


@dataclass(frozen=True, slots=True)
class Factor:
    """Powers of a base on the device, in one table or two, and what exponent they are taken to."""

    exponent: int
    low: CudaArray | None = None
    high: CudaArray | None = None
    split: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transform's passes with their tables."""

    steps: tuple[tuple[Pass, tuple[object, ...]], ...]
    """Each pass with the kernel's arguments after source and target."""


class Transforms:
    """The transforms of one device. Keeps the tables of the kinds that were used last."""

    _KEPT = 32

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._prepared: OrderedDict[tuple[object, ...], Prepared] = OrderedDict()

    def run(
        self, curve: Curve, data: CudaArray, root: bytes, inverse: bool, shift: bytes | None, stream: CudaStream
    ) -> None:
        """Transform ``data`` in place; the arguments are those of the operation ``ntt``.

        Raises:
            ValueError: if the size is no power of two, or takes more than three passes.
            OutOfMemory: if there is no room for the scratch array, as large as the data.
        """
        n = data.nbytes // _BYTES
        if n == 0 or n & (n - 1) or data.nbytes % _BYTES:
            raise ValueError(f"data has {data.nbytes} bytes, not a power of two of elements")
        log_n = n.bit_length() - 1
        if log_n == 0:
            return
        prepared = self._obtain(curve, log_n, root, inverse, shift, stream)
        module = self._device.kernels.get(KernelModule("ntt.cu", curve))
        count = len(prepared.steps)
        scratch = self._device.arena.take(data.nbytes, stream) if count > 1 else data
        for index, (step, arguments) in enumerate(prepared.steps):
            source = data if index == 0 else scratch
            target = data if index == count - 1 else scratch
            module.launch(
                "ntt_pass", step.blocks, step.threads, [source, target, *arguments], stream, step.shared_bytes
            )

    def clear(self) -> None:
        """Drop every table."""
        with self._lock:
            self._prepared.clear()

    def _obtain(
        self, curve: Curve, log_n: int, root: bytes, inverse: bool, shift: bytes | None, stream: CudaStream
    ) -> Prepared:
        key = (curve.index, log_n, root, inverse, shift)
        with self._lock:
            found = self._prepared.get(key)
            if found is None:
                found = _Tables(self._device, curve, log_n, root, inverse, shift, stream).prepared()
                self._prepared[key] = found
                if len(self._prepared) > self._KEPT:
                    self._device.driver.synchronize_device()  # other streams may be using what goes
                    self._prepared.popitem(last=False)
            self._prepared.move_to_end(key)
            return found


def _arguments(step: Pass, roots: CudaArray, before: Factor, after: Factor) -> tuple[object, ...]:
    numbers = (step.levels, step.log_columns, step.log_first, step.log_middle, step.log_after)
    return (
        roots,
        *_pointers(before),
        c_uint32(before.split),
        c_uint32(before.exponent),
        *_pointers(after),
        c_uint32(after.split),
        c_uint32(after.exponent),
        c_uint32(after.shift),
        *map(c_uint32, numbers),
    )


def _pointers(factor: Factor) -> Iterator[object]:
    for table in (factor.low, factor.high):
        yield c_uint64(0) if table is None else table


class _Tables:
    """Makes the tables of one kind of transform. Powers are computed in Python: some thousands, once."""

    def __init__(
        self,
        device: CudaDevice,
        curve: Curve,
        log_n: int,
        root: bytes,
        inverse: bool,
        shift: bytes | None,
        stream: CudaStream,
    ) -> None:
        field = curve.fr
        self._device = device
        self._stream = stream
        self._field = field
        self._log_n = log_n
        self._inverse = inverse
        self._root = field.from_montgomery(int.from_bytes(root, "little"))
        self._shift = None if shift is None else field.from_montgomery(int.from_bytes(shift, "little"))
        if inverse:
            self._root = pow(self._root, -1, field.modulus)
            if self._shift is not None:
                self._shift = pow(self._shift, -1, field.modulus)
        self._steps = passes(log_n, device.capability)

    def prepared(self) -> Prepared:
        """All passes with their tables, on the device when this returns."""
        steps = []
        roots: dict[int, CudaArray] = {}
        for index, step in enumerate(self._steps):
            if step.levels not in roots:
                base = pow(self._root, 1 << (self._log_n - step.levels), self._field.modulus)
                roots[step.levels] = self._powers(base, 1 << (step.levels - 1), 1)
            before = self._before() if index == 0 else Factor(_NOTHING)
            steps.append((step, _arguments(step, roots[step.levels], before, self._after(index))))
        self._stream.synchronize()  # other streams use the tables without waiting for this one
        return Prepared(tuple(steps))

    def _before(self) -> Factor:
        if self._shift is None or self._inverse:
            return Factor(_NOTHING)
        return self._split(_POSITION, self._shift, self._log_n, 1)

    def _after(self, index: int) -> Factor:
        step = self._steps[index]
        scaling = pow(1 << self._log_n, -1, self._field.modulus) if self._inverse else 1
        if step.log_after:  # between passes; the first of them takes 1/n along, unless the coset's powers will
            first = scaling if index == 0 and self._shift is None else 1
            order = step.levels + step.log_after
            base = pow(self._root, 1 << (self._log_n - order), self._field.modulus)
            return self._split(_TWIDDLE, base, order, first)
        if not self._inverse:
            return Factor(_NOTHING)
        if self._shift is not None:
            return self._split(_POSITION, self._shift, self._log_n, scaling)
        return Factor(_CONSTANT, self._powers(1, 1, scaling)) if len(self._steps) == 1 else Factor(_NOTHING)

    def _split(self, exponent: int, base: int, order: int, first: int) -> Factor:
        """``first`` times the powers of ``base`` to every exponent below 2^order."""
        if order <= _TABLE_LIMIT:
            return Factor(exponent, self._powers(base, 1 << order, first))
        split = (order + 1) // 2
        high = self._powers(pow(base, 1 << split, self._field.modulus), 1 << (order - split), 1)
        return Factor(exponent, self._powers(base, 1 << split, first), high, split)

    def _powers(self, base: int, count: int, first: int) -> CudaArray:
        """``first * base**i`` for i below count, Montgomery form."""
        modulus = self._field.modulus
        value = self._field.to_montgomery(first)
        chunks = []
        for _ in range(count):
            chunks.append(value.to_bytes(_BYTES, "little"))
            value = value * base % modulus
        return self._device.upload(b"".join(chunks), self._stream)


__all__ = ["Factor", "Pass", "Prepared", "Transforms", "largest_tile", "passes"]
