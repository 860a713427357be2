"""Multi-scalar multiplication on a GPU: sort the digits, add up the buckets, reduce the windows, combine on the host.

The kernels are ``msm_sort.cu``, ``msm_accumulate.cu`` and ``msm_reduce.cu``; what they do is said there, and the shape
of their launches is decided by ``cuda_msm_plan``. Several operands may share their scalars: these are sorted once.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Sequence
from ctypes import c_uint32
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover import native
from prover.curves import Curve
from prover.device import cuda_msm_plan as plan
from prover.device.cuda_kernels import KernelModule, LoadedModule
from prover.device.errors import OutOfMemory
from prover.native import GroupId, point_words

if TYPE_CHECKING:
    from prover.buffers import BufferLike
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_memory import CudaArray
    from prover.device.cuda_stream import CudaEvent, CudaStream

_SCALAR_BYTES = 32
_REGISTERS = 65536
"""Of a multiprocessor."""
_MOST_THREADS = 1024
"""Resident on a multiprocessor of every architecture."""
_BLOCK = 128
_KEPT = 64
_CUT_BYTES = 128
_ZERO_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Operand:
    """Bases that are multiplied by the scalars: affine Montgomery points in device memory, infinity all zero."""

    group: GroupId
    bases: CudaArray
    absent: int = 0
    """So many scalars at the beginning have no base here; base 0 belongs to the scalar after them."""


class Pending:
    """A multiplication under way. Its streams must not be used by another thread before ``finish``."""

    def __init__(
        self,
        curve: Curve,
        group: GroupId,
        layout: plan.MsmLayout | None,
        sums: Sequence[CudaArray],
        stream: CudaStream,
        accumulated: CudaEvent | None = None,
    ) -> None:
        """``stream``: where the sums are made. ``accumulated``: when all buckets are full."""
        self._curve = curve
        self._group = group
        self._layout = layout
        self._sums = sums
        self._stream = stream
        self._accumulated = accumulated

    def wait_accumulated(self) -> None:
        """Wait until its buckets are full.

        Raises:
            DeviceLost: if a kernel broke the device.
        """
        if self._accumulated is not None:
            self._accumulated.synchronize()

    def finish(self) -> BufferLike:
        """Wait, and return the affine point, Montgomery form, shape ``(1, words)``.

        Raises:
            DeviceLost: if a kernel broke the device.
        """
        size = 16 * point_words(self._curve, self._group)
        if self._layout is None:
            return native.msm_combine(self._curve, self._group, b"", b"")
        device = self._stream.device
        parts = [bytes(device.download(array, self._stream)) for array in self._sums]
        positions = self._layout.positions
        # The sums of one window from all parts side by side, for the positions may not fall.
        points = b"".join(part[size * w : size * (w + 1)] for w in range(len(positions)) for part in parts)
        words = struct.pack(f"<{len(positions) * len(parts)}I", *(p for p in positions for _ in parts))
        return native.msm_combine(self._curve, self._group, points, words)


class Multiplications:
    """The multi-scalar multiplications of one device. Keeps the layouts that were used last."""

    def __init__(self, device: CudaDevice, costs: plan.Costs | None = None, windows: int | None = None) -> None:
        """``costs`` and ``windows`` (how many) steer the choice of windows; both are for tests and measurements."""
        self._device = device
        self._costs = costs
        self._windows = windows
        self._lock = threading.Lock()
        self._fills: dict[tuple[int, tuple[GroupId, ...]], plan.Fill] = {}
        self._kept: OrderedDict[tuple[object, ...], tuple[plan.MsmLayout, tuple[CudaArray, ...]]] = OrderedDict()

    def run(self, curve: Curve, group: GroupId, bases: CudaArray, scalars: CudaArray, stream: CudaStream) -> BufferLike:
        """``sum scalars[i] * bases[i]``, one affine point; returns when it is there."""
        return self.start(curve, [Operand(group, bases)], scalars, stream)[0].finish()

    def start(self, curve: Curve, operands: Sequence[Operand], scalars: CudaArray, stream: CudaStream) -> list[Pending]:
        """Enqueue the multiplication of each operand by the same canonical scalars.

        Raises:
            ValueError: if an operand has not one base for each scalar but the absent ones.
            OutOfMemory: if the workspace has no room.
        """
        n = scalars.nbytes // _SCALAR_BYTES
        for operand in operands:
            expected = (n - operand.absent) * 8 * point_words(curve, operand.group)
            if operand.bases.nbytes != expected or operand.absent < 0:
                raise ValueError(f"{operand.bases.nbytes} bytes of bases, {n} scalars take {expected}")
        if n == 0 or not operands:
            return [Pending(curve, operand.group, None, (), stream) for operand in operands]
        groups = tuple(operand.group for operand in operands)
        limit: int | None = None
        while True:
            layout, cuts = self._layout(curve, groups, n, limit, stream)
            try:
                return self._enqueue(layout, cuts, operands, scalars, stream)
            except OutOfMemory:  # others took the memory since: a smaller workspace, in more passes, from now on
                limit = layout.workspace_bytes // 2

    def clear(self) -> None:
        """Drop every layout."""
        with self._lock:
            self._kept.clear()

    def _enqueue(
        self,
        layout: plan.MsmLayout,
        cuts: Sequence[CudaArray],
        operands: Sequence[Operand],
        scalars: CudaArray,
        stream: CudaStream,
    ) -> list[Pending]:
        curve = layout.curve
        fill = self._fill(curve, tuple(operand.group for operand in operands))
        sums: list[list[CudaArray]] = [[] for _ in operands]
        reducing = stream.lane("reduce", urgent=True)
        accumulated: list[CudaEvent] = []
        for begin, end in layout.parts():
            there = scalars.part(begin * _SCALAR_BYTES, end * _SCALAR_BYTES)
            for out, operand in zip(sums, operands, strict=True):
                size = 16 * point_words(curve, operand.group) * len(layout.widths)
                out.append(self._device.arena.take(size, reducing))
            for step, cut in zip(layout.passes, cuts, strict=True):
                digits = None  # its memory serves the next sort
                digits = self._sort(layout, step, cut, there, stream)
                work = _Pass(layout, fill, step, cut, digits, begin)
                accumulated = self._add_up(work, operands, [out[-1] for out in sums], stream, reducing)
        return [
            Pending(curve, operand.group, layout, arrays, reducing, event)
            for operand, arrays, event in zip(operands, sums, accumulated, strict=True)
        ]

    def _add_up(
        self,
        work: _Pass,
        operands: Sequence[Operand],
        sums: Sequence[CudaArray],
        stream: CudaStream,
        reducing: CudaStream,
    ) -> list[CudaEvent]:
        """Fill each operand's buckets and reduce them; when each operand's are full.

        Buckets are filled in two lanes in turn and reduced in a third: an operand's last blocks leave room on the GPU
        for the next one's first, and a reduction, most of whose kernels are small, runs beneath either.
        """
        lanes = [stream, stream.lane("accumulate")][: len(operands)]
        for lane in lanes[1:]:
            lane.wait(stream.record())
        kept, full = [], []
        try:
            for index, (operand, out) in enumerate(zip(operands, sums, strict=True)):
                lane = lanes[index % len(lanes)]
                buckets = self._accumulate(work, operand, lane)
                full.append(lane.record())
                reducing.wait(full[-1])
                buckets.array.used_by(reducing)
                self._reduce(work, operand, buckets, out, reducing)
                kept.append(buckets)  # the next operand's have memory of their own, and need not wait for these
        finally:
            for lane in lanes[1:]:
                stream.wait(lane.record())  # what the lanes read is this stream's to hand on
        return full

    def _layout(
        self, curve: Curve, groups: tuple[GroupId, ...], n: int, limit: int | None, stream: CudaStream
    ) -> tuple[plan.MsmLayout, tuple[CudaArray, ...]]:
        """A layout and its passes' cuts on the device. ``limit``: bytes that it may take, in a shortage."""
        key = (curve.index, groups, n)
        with self._lock:
            found = self._kept.get(key) if limit is None else None
            if found is None:
                layout = self._build(curve, groups, n, limit)
                cuts = b"".join(layout.cut(step).ljust(_CUT_BYTES, b"\0") for step in layout.passes)
                there = self._device.upload(cuts, stream)
                stream.synchronize()  # other streams use them without waiting for this one
                found = layout, tuple(there.part(at, at + _CUT_BYTES) for at in range(0, len(cuts), _CUT_BYTES))
                self._kept[key] = found
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._device.driver.synchronize_device()  # a stream may still be using the cuts
                self._kept.popitem(last=False)
            return found

    def _build(self, curve: Curve, groups: tuple[GroupId, ...], n: int, limit: int | None) -> plan.MsmLayout:
        """Half of the free memory is left to others, if the other half suffices, and always something for the rest."""
        fill = self._fill(curve, groups)
        free, needed = self._device.memory().free, 0
        for bound in (free // 2, free * 7 // 8) if limit is None else (limit,):
            try:
                return plan.MsmLayout.build(curve, groups, n, fill, bound, self._costs, self._windows)
            except plan.WorkspaceTooSmall as error:
                needed = error.needed
        raise OutOfMemory(needed, free, self._device.name)

    def _module(self, file: str, curve: Curve, group: GroupId) -> LoadedModule:
        return self._device.kernels.get(KernelModule(file, curve, group))

    def _fill(self, curve: Curve, groups: tuple[GroupId, ...]) -> plan.Fill:
        found = self._fills.get((curve.index, groups))
        if found is None:
            counts = [
                {group: self._blocks(self._module(f"{kernel}.cu", curve, group), kernel) for group in set(groups)}
                for kernel in ("msm_accumulate", "msm_chunks")
            ]
            found = plan.Fill.of(self._device.capability.multiprocessors, *counts)
            self._fills[curve.index, groups] = found
        return found

    @staticmethod
    def _blocks(module: LoadedModule, kernel: str) -> int:
        """Blocks of 128 threads that a multiprocessor has registers for."""
        registers = max(32, -(-module.facts(kernel).registers // 8) * 8)
        return max(1, min(_REGISTERS // (_BLOCK * registers), _MOST_THREADS // _BLOCK))

    def _zero(self, array: CudaArray, stream: CudaStream) -> None:
        """By a kernel: a memset would end the span of kernels."""
        fours = array.nbytes // 16
        grid = min(-(-fours // _ZERO_BLOCK), 8 * self._device.capability.multiprocessors)
        module = self._device.kernels.get(KernelModule("msm_sort.cu"))
        module.launch("msm_zero", grid, _ZERO_BLOCK, [array, c_uint32(fours)], stream)

    def _sort(
        self, layout: plan.MsmLayout, step: plan.Pass, cut: CudaArray, scalars: CudaArray, stream: CudaStream
    ) -> _Digits:
        n = scalars.nbytes // _SCALAR_BYTES
        multiprocessors = self._device.capability.multiprocessors
        at = layout.sort_layout(step)
        work = self._device.arena.take(at.size, stream)
        arrays = {
            name: work.part(getattr(at, name), at.size)
            for name in ("coarse_counts", "fine_counts", "entries", "sorted", "starts", "cursors", "tile_starts")
        }
        self._zero(work.part(0, at.entries), stream)
        module = self._device.kernels.get(KernelModule("msm_sort.cu"))
        low_bits, bins, threads = c_uint32(step.low_bits), c_uint32(step.bins), plan.SORT_THREADS
        many = n >= 2 * multiprocessors * threads * plan.SCALARS_EACH
        few = plan.threads_for(n * step.windows // step.bins, threads)
        tile = few * plan.ENTRIES_EACH
        tiles = n * step.windows // tile + step.bins
        window_bins = 1 << (max(layout.widths[step.first : step.last]) - 1 - step.low_bits)
        fine = 4 << step.low_bits
        starts, tile_starts = arrays["starts"], arrays["tile_starts"]
        module.launch(
            "msm_count_coarse",
            min(-(-n // threads), 2 * multiprocessors),
            threads,
            [cut, scalars, c_uint32(n), low_bits, bins, arrays["coarse_counts"]],
            stream,
            4 * step.bins,
        )
        module.launch(
            "msm_scan_coarse",
            1,
            plan.threads_for(step.bins, plan.SCAN_THREADS),
            [arrays["coarse_counts"], bins, c_uint32(tile), starts, arrays["cursors"], tile_starts],
            stream,
        )
        module.launch(
            f"msm_scatter_coarse_{'many' if many else 'one'}",
            -(-n // (threads * plan.SCALARS_EACH if many else threads)),
            threads,
            [cut, scalars, c_uint32(n), low_bits, arrays["cursors"], arrays["entries"]],
            stream,
            4 * window_bins,
        )
        tiled = [arrays["entries"], starts, tile_starts, bins, low_bits, arrays["fine_counts"]]
        module.launch("msm_count_fine", tiles, few, tiled, stream, fine)
        module.launch(
            "msm_scan_fine",
            step.bins,
            plan.threads_for(1 << step.low_bits, threads),
            [starts, low_bits, arrays["fine_counts"]],
            stream,
        )
        module.launch("msm_scatter_fine", tiles, few, [*tiled, arrays["sorted"]], stream, fine)
        total = starts.part(4 * step.bins, 4 * step.bins + 4)
        return _Digits(n * step.windows, arrays["sorted"], total)

    def _accumulate(self, work: _Pass, operand: Operand, stream: CudaStream) -> _Buckets:
        layout, group, digits = work.layout, operand.group, work.digits
        at_once = work.fill.at_once[group]
        workers = plan.workers(digits.most, at_once, group)
        at = layout.sums_layout(work.step, group, at_once)
        array = self._device.arena.take(at.size, stream)
        self._zero(array.part(0, at.heads), stream)
        # Scalars of this part before the operand's first base, and that base's place.
        absent = max(0, operand.absent - work.begin)
        skipped = max(0, work.begin - operand.absent) * 8 * point_words(layout.curve, group)
        self._module("msm_accumulate.cu", layout.curve, group).launch(
            "msm_accumulate",
            workers * group // plan.ACCUMULATE_THREADS,
            plan.ACCUMULATE_THREADS,
            [
                operand.bases.part(skipped, operand.bases.nbytes),
                c_uint32(absent),
                digits.entries,
                digits.total,
                c_uint32(plan.SHORTEST_RUN),
                array.part(at.buckets, at.size),
                array.part(at.heads, at.size),
                array.part(at.head_buckets, at.size),
            ],
            stream,
        )
        return _Buckets(array, at, workers)

    def _reduce(
        self, work: _Pass, operand: Operand, filled: _Buckets, window_sums: CudaArray, stream: CudaStream
    ) -> None:
        step, cut = work.step, work.cut
        curve, group, at = work.layout.curve, operand.group, filled.at
        xyzz = 16 * point_words(curve, group)
        buckets, heads, head_buckets, next_heads, next_head_buckets, plain, weighted = (
            filled.array.part(offset, at.size)
            for offset in (
                at.buckets,
                at.heads,
                at.head_buckets,
                at.next_heads,
                at.next_head_buckets,
                at.plain,
                at.weighted,
            )
        )
        module = self._module("msm_reduce.cu", curve, group)
        count = filled.workers
        while True:
            blocks = -(-count // plan.MERGE_THREADS)
            module.launch(
                "msm_merge",
                blocks,
                plan.MERGE_THREADS,
                [heads, head_buckets, c_uint32(count), buckets, next_heads, next_head_buckets],
                stream,
            )
            if blocks == 1:
                break
            count = blocks
            heads, next_heads = next_heads, heads
            head_buckets, next_head_buckets = next_head_buckets, head_buckets
        levels = c_uint32(step.levels)
        self._module("msm_chunks.cu", curve, group).launch(
            "msm_chunks",
            -(-step.chunks * group // plan.CHUNK_THREADS),
            plan.CHUNK_THREADS,
            [cut, buckets, c_uint32(step.chunks), plain, weighted],
            stream,
        )
        module.launch(
            "msm_fold",
            step.chunks >> step.levels,
            plan.FOLD_THREADS * group,
            [levels, plain, weighted],
            stream,
        )
        module.launch(
            "msm_window_sums",
            step.windows,
            plan.threads_for(work.layout.window_tasks(step) * 4 * group, plan.WINDOW_THREADS),
            [cut, levels, plain, weighted, window_sums.part(step.first * xyzz, step.last * xyzz)],
            stream,
        )


@dataclass(frozen=True, slots=True)
class _Digits:
    """Sorted entries on the device."""

    most: int
    """What there can be of them."""
    entries: CudaArray
    total: CudaArray
    """How many there are."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the operands of a pass over a part of the scalars have in common."""

    layout: plan.MsmLayout
    fill: plan.Fill
    step: plan.Pass
    cut: CudaArray
    digits: _Digits
    begin: int
    """The part's first scalar."""


@dataclass(frozen=True, slots=True)
class _Buckets:
    """An operand's workspace for a pass, its buckets full."""

    array: CudaArray
    at: plan.SumsLayout
    workers: int
    """Who filled them: each left the sum of its first bucket apart."""


__all__ = ["Multiplications", "Operand", "Pending"]
