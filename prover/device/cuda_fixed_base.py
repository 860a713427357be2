"""Multiples of one point on the GPU, as a setup needs them by the million."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from ctypes import c_uint32
from typing import TYPE_CHECKING

from prover import native
from prover.curves import Curve
from prover.device.cuda_kernels import KernelModule
from prover.device.cuda_memory import CudaArray
from prover.native import GroupId

if TYPE_CHECKING:
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_stream import CudaStream

_SCALAR_BYTES = 32
_WINDOW_BITS = 8
_CHUNK = 1 << 18
"""Multiples that are worked on at a time: it bounds the scratch memory."""
_BLOCK = 128
_POINTS_PER_INVERSION = 32
_BLOCKS_PER_MULTIPROCESSOR = 8


class FixedBases:
    """Multiples on one device. Keeps the window tables of the bases that were used last."""

    _KEPT = 8

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[int, int, bytes], CudaArray] = OrderedDict()

    def run(
        self, curve: Curve, group: GroupId, base: bytes, scalars: CudaArray, out: CudaArray, stream: CudaStream
    ) -> None:
        """``out[i] = scalars[i] * base``; the arguments are those of the operation ``fixed_base``.

        Raises:
            ValueError: if the lengths do not go together.
            OutOfMemory: if the scratch memory has no room.
        """
        n, point = scalars.nbytes // _SCALAR_BYTES, 8 * native.point_words(curve, group)
        if scalars.nbytes % _SCALAR_BYTES or out.nbytes != n * point or len(base) != point:
            raise ValueError(f"{scalars.nbytes} bytes of scalars, {len(base)} of a base, {out.nbytes} of multiples")
        table = self._table(curve, group, base, stream)
        module = self._device.kernels.get(KernelModule("fixed_base.cu", curve, group))
        most = min(n, _CHUNK)
        sums = self._device.arena.take(2 * point * most, stream)
        prefixes = self._device.arena.take(point // 2 * most, stream)
        widest = self._device.capability.multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
        for start in range(0, n, _CHUNK):
            stop = min(n, start + _CHUNK)
            count = c_uint32(stop - start)
            there = scalars.part(start * _SCALAR_BYTES, stop * _SCALAR_BYTES)
            target = out.part(start * point, stop * point)
            blocks = -(-(stop - start) // _BLOCK)
            module.launch("fixed_base_sums", min(blocks, widest), _BLOCK, [table, there, sums, count], stream)
            inverting = -(-blocks // _POINTS_PER_INVERSION)
            module.launch("to_affine", inverting, _BLOCK, [sums, prefixes, target, count], stream)

    def clear(self) -> None:
        """Drop every table."""
        with self._lock:
            self._tables.clear()

    def _table(self, curve: Curve, group: GroupId, base: bytes, stream: CudaStream) -> CudaArray:
        key = (curve.index, group, base)
        with self._lock:
            found = self._tables.get(key)
            if found is None:
                found = self._device.upload(window_table(curve, group, base), stream)
                stream.synchronize()  # other streams use it without waiting for this one
                self._tables[key] = found
                if len(self._tables) > self._KEPT:
                    self._device.driver.synchronize_device()  # other streams may be using what goes
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
            return found


def window_table(curve: Curve, group: GroupId, base: bytes) -> bytes:
    """``d * 2^(8j) * base`` for every window j and digit d, affine, window by window; made on the host."""
    modulus, digits = curve.fr.modulus, 1 << _WINDOW_BITS
    scalars = b"".join(
        ((digit << place) % modulus).to_bytes(_SCALAR_BYTES, "little")
        for place in range(0, 8 * _SCALAR_BYTES, _WINDOW_BITS)
        for digit in range(digits)
    )
    out = bytearray(len(scalars) // _SCALAR_BYTES * 8 * native.point_words(curve, group))
    native.fixed_base_mul(curve, group, base, scalars, out, len(os.sched_getaffinity(0)))
    return bytes(out)


__all__ = ["FixedBases", "window_table"]
