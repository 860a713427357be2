"""How a multi-scalar multiplication is laid out on a GPU: windows, passes, and the shape of every launch. Pure numbers.

A scalar is folded to at most r/2 by the sign of its point and cut into signed windows (``msm_sort.cu``). Wider windows
mean fewer additions of points and more buckets to add up afterwards; ``Costs`` weighs the two. All windows are taken in
one pass where memory allows, else in several, and where not even one window fits, the points are taken in parts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prover.curves import Curve
from prover.native import GroupId, point_words

ENTRY_BYTES = 8
SORT_THREADS = 512
SCAN_THREADS = 1024
ACCUMULATE_THREADS = 128
MERGE_THREADS = 128
CHUNK_THREADS = 128
FOLD_THREADS = 64
WINDOW_THREADS = 256
"""Block sizes, within the kernels' launch bounds; twice as many for the fold in G2."""
ENTRIES_EACH = 8
SCALARS_EACH = 4
"""What a thread of the sorting kernels holds (``msm_sort.cu``)."""
MOST_WINDOWS = 128
_NARROWEST, _WIDEST = 3, 22
_MOST_COARSE_BINS = 4096
_MOST_LOW_BITS = 11
_ENTRIES_PER_COARSE_BIN = 2048
_CHUNKS = 1 << 15
SHORTEST_RUN = 8
_LONG_RUN = 128
_MOST_WAVES = 8
_ALIGN = 256


class WorkspaceTooSmall(ValueError):
    """Not even one scalar's multiplication fits into the memory given."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the choice of windows weighs: multiprocessor-seconds of a step in G1 of BLS12-381, measured on an H200.

    Other groups and devices are slower or faster at all of them alike, which leaves the choice as it is.
    """

    addition: float = 5.0e-8
    """Adding one point to a bucket."""
    entry: float = 2.5e-9
    """Taking out and sorting one digit."""
    bucket: float = 1.7e-7
    """Adding up one bucket: two additions of sums."""
    window: float = 2.0e-5
    """One window more: latencies, its sum on the host."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Windows that are sorted and added up together."""

    first: int
    last: int
    first_buckets: tuple[int, ...]
    """Of every window: its first bucket's number within the pass (0 for windows of other passes)."""
    buckets: int
    low_bits: int
    """The coarse bins of the sort hold 2^low_bits buckets each."""
    log_chunk: int
    """The reduction adds up 2^log_chunk buckets one after another."""
    levels: int
    """Levels of the reduction's tree within a block."""

    @property
    def windows(self) -> int:
        """How many."""
        return self.last - self.first

    @property
    def bins(self) -> int:
        """Coarse bins."""
        return self.buckets >> self.low_bits

    @property
    def chunks(self) -> int:
        """Chunks of the reduction."""
        return self.buckets >> self.log_chunk


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets in a pass's workspace. What comes before ``entries`` must be zero at the beginning."""

    coarse_counts: int
    fine_counts: int
    entries: int
    sorted: int
    starts: int
    cursors: int
    tile_starts: int
    size: int


@dataclass(frozen=True, slots=True)
class SumsLayout:
    """Byte offsets in one operand's workspace for a pass. The buckets must be at infinity (zero) at the beginning."""

    buckets: int
    heads: int
    head_buckets: int
    next_heads: int
    next_head_buckets: int
    plain: int
    weighted: int
    size: int


@dataclass(frozen=True, slots=True)
class MsmLayout:
    """A multi-scalar multiplication over ``n`` scalars of a curve, for one or more operands that share the scalars."""

    curve: Curve
    n: int
    part: int
    """Scalars that are taken at once; ``n`` where memory suffices."""
    widths: tuple[int, ...]
    """Of the windows, from the lowest on, in bits."""
    passes: tuple[Pass, ...]
    workspace_bytes: int

    @classmethod
    def build(
        cls,
        curve: Curve,
        groups: Iterable[GroupId],
        n: int,
        at_once: Mapping[GroupId, int],
        memory_bytes: int,
        costs: Costs | None = None,
        windows: int | None = None,
    ) -> MsmLayout:
        """The cheapest cut of ``n`` scalars whose workspace fits.

        Args:
            curve: the curve.
            groups: of the operands.
            n: scalars, at least one, below 2^31.
            at_once: workers that fill the device, by group.
            memory_bytes: what the workspace may take.
            costs: the model.
            windows: how many, if the model is not to choose.

        Raises:
            ValueError: if ``n`` is out of range.
            WorkspaceTooSmall: if not even the smallest workspace fits.
        """
        if not 0 < n < 1 << 31:
            raise ValueError(f"{n} scalars: a multiplication takes 1 to 2^31 - 1")
        wanted = tuple(groups)
        weigh = costs or Costs()
        part = n
        while True:
            best = min(
                (
                    (_cost(part, widths, weigh), widths, count, size)
                    for widths, count, size in _fitting(curve, wanted, part, at_once, memory_bytes)
                    if windows is None or len(widths) == windows
                ),
                default=None,
            )
            if best is not None:
                _, widths, together, size = best
                return cls(curve, n, part, widths, passes_of(widths, part, together), size)
            if part == 1:
                raise WorkspaceTooSmall(f"{memory_bytes} bytes hold no workspace of a multiplication on {curve.name}")
            part = -(-part // 2)

    @property
    def positions(self) -> tuple[int, ...]:
        """The lowest bit of each window."""
        return tuple(sum(self.widths[:i]) for i in range(len(self.widths)))

    def parts(self) -> list[tuple[int, int]]:
        """The ranges of scalars that are taken one after another."""
        return [(begin, min(begin + self.part, self.n)) for begin in range(0, self.n, self.part)]

    def window_tasks(self, step: Pass) -> int:
        """Additions that the widest window's block has to do at once at most (``msm_window_sums``)."""
        log_chunks = max(self.widths[step.first : step.last]) - 1 - step.log_chunk
        return (step.levels + 2) << max(0, log_chunks - step.levels - 1) if log_chunks > step.levels else 1

    def cut(self, step: Pass) -> bytes:
        """``struct Cut`` of ``msm.cuh``."""
        offset = sum(1 << (p + w - 1) for p, w in zip(self.positions[:-1], self.widths[:-1], strict=True))
        padding = (0,) * (MOST_WINDOWS - len(self.widths))
        words = (len(self.widths), step.first, step.last, *self.widths, *padding, *step.first_buckets, *padding)
        return (
            self.curve.fr.modulus.to_bytes(32, "little")
            + offset.to_bytes(32, "little")
            + struct.pack(f"<{len(words)}I", *words)
        )

    def sort_layout(self, step: Pass) -> Layout:
        """Where the sort of a pass keeps its arrays."""
        return _sort_layout(step, self.part)

    def sums_layout(self, step: Pass, group: GroupId, at_once: int) -> SumsLayout:
        """Where an operand keeps the sums of a pass."""
        return _sums_layout(step, self.curve, group, self.part, at_once)


def cut_windows(bits: int, count: int) -> tuple[int, ...]:
    """Cut ``bits`` bits into ``count`` windows whose widths differ by at most one, the wider ones lowest."""
    width, wider = divmod(bits, count)
    return (width + 1,) * wider + (width,) * (count - wider)


def signed_bits(curve: Curve) -> int:
    """Bits that the windows cover: of r/2, and the carry of signed digits."""
    return (curve.fr.modulus // 2).bit_length() + 1


def workers(entries: int, at_once: int, group: GroupId) -> int:
    """Workers that share ``entries`` additions, whole blocks of them.

    Args:
        entries: what there may be.
        at_once: workers that fill the device. More where runs are long, so that other work finds gaps.
        group: two threads are a worker in G2.
    """
    waves = max(1, min(_MOST_WAVES, entries // (at_once * _LONG_RUN)))
    per_block = ACCUMULATE_THREADS // group
    wanted = min(at_once * waves, -(-entries // SHORTEST_RUN))
    return -(-wanted // per_block) * per_block


def threads_for(items: int, most: int) -> int:
    """Threads of a block over so few items: whole warps, a power of two."""
    return min(most, max(32, 1 << (items - 1).bit_length()))


def _cost(n: int, widths: tuple[int, ...], costs: Costs) -> float:
    additions = sum(n * (1 - 0.5**width) for width in widths)
    buckets = sum(1 << (width - 1) for width in widths)
    return (
        additions * costs.addition
        + n * len(widths) * costs.entry
        + buckets * costs.bucket
        + len(widths) * costs.window * 132
    )


def _fitting(
    curve: Curve, groups: tuple[GroupId, ...], n: int, at_once: Mapping[GroupId, int], memory_bytes: int
) -> list[tuple[tuple[int, ...], int, int]]:
    """Cuts with the most windows that one pass of each may take, and the bytes of its workspace."""
    bits = signed_bits(curve)
    out = []
    for count in range(-(-bits // _WIDEST), bits // _NARROWEST + 1):
        widths = cut_windows(bits, count)
        for passes in range(1, count + 1):
            together = -(-count // passes)
            if passes > 1 and together == -(-count // (passes - 1)):
                continue
            widest = passes_of(widths, n, together)[0]
            sums = [_sums_layout(widest, curve, group, n, at_once[group]).size for group in groups]
            size = _sort_layout(widest, n).size + sum(sums)
            if size <= memory_bytes and together * n < 1 << 32:
                out.append((widths, together, size))
                break
    return out


def passes_of(widths: tuple[int, ...], n: int, together: int) -> tuple[Pass, ...]:
    """The passes over ``n`` scalars that take at most ``together`` windows each."""
    out = []
    for first in range(0, len(widths), together):
        last = min(first + together, len(widths))
        firsts, buckets = [0] * len(widths), 0
        for window in range(first, last):
            firsts[window] = buckets
            buckets += 1 << (widths[window] - 1)
        narrowest = min(widths[first:last]) - 1
        bins = max(64, min(_MOST_COARSE_BINS, n * (last - first) // _ENTRIES_PER_COARSE_BIN))
        low_bits = min(narrowest, _MOST_LOW_BITS, max(0, (buckets // bins).bit_length()))
        log_chunk = min(narrowest, max(1, (buckets // (2 * _CHUNKS)).bit_length()))
        levels = min(5, narrowest - log_chunk)
        out.append(Pass(first, last, tuple(firsts), buckets, low_bits, log_chunk, levels))
    return tuple(out)


def _offsets(*sizes: int) -> list[int]:
    """Where arrays of these sizes begin one after another, and where the last one ends."""
    out, at = [], 0
    for size in sizes:
        out.append(at)
        at += -(-size // _ALIGN) * _ALIGN
    return [*out, at]


def _sort_layout(step: Pass, n: int) -> Layout:
    entries, index = ENTRY_BYTES * n * step.windows, 4 * (step.bins + 1)
    return Layout(*_offsets(4 * step.bins, 4 * step.buckets, entries, entries, index, index, index))


def _sums_layout(step: Pass, curve: Curve, group: GroupId, n: int, at_once: int) -> SumsLayout:
    xyzz = 16 * point_words(curve, group)
    heads = workers(n * step.windows, at_once, group)
    blocks = -(-heads // MERGE_THREADS)
    chunks = step.chunks * xyzz
    return SumsLayout(
        *_offsets(step.buckets * xyzz, heads * xyzz, 4 * heads, blocks * xyzz, 4 * blocks, chunks, chunks)
    )


__all__ = [
    "Costs",
    "Layout",
    "MsmLayout",
    "Pass",
    "SumsLayout",
    "WorkspaceTooSmall",
    "cut_windows",
    "passes_of",
    "signed_bits",
    "threads_for",
    "workers",
]
