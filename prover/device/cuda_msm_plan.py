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
_NARROWEST, _WIDEST = 3, 22
_MOST_COARSE_BINS = 4096
_MOST_LOW_BITS = 11
_ENTRIES_PER_COARSE_BIN = 2048
_LOG_NODE = 5
SHORTEST_RUN = 8
_LONG_RUN = 128
_MOST_WAVES = 8
_MOST_PARTS = 64
_MOST_ENTRIES = (1 << 32) - (1 << 20)
"""Of a pass: what the kernels add to an entry's number stays below 2^32."""
_ALIGN = 256


class WorkspaceTooSmall(ValueError):
    """The memory given holds no workspace; ``needed`` bytes would hold the smallest."""

    def __init__(self, given: int, needed: int) -> None:
        self.needed = needed
        super().__init__(f"{given} bytes hold no workspace of a multiplication, the smallest takes {needed}")


@dataclass(frozen=True, slots=True)
class Costs:
    """What the choice of windows weighs: multiprocessor-seconds of a step in G1 of BLS12-381, measured on an H200.

    Other groups and devices are slower or faster at all of them alike, which leaves the choice as it is.
    """

    addition: float = 5.2e-8
    """Adding one point to a bucket."""
    entry: float = 4.5e-9
    """Taking out and sorting one digit."""
    bucket: float = 2.0e-7
    """Adding up one bucket: two additions of sums."""
    window: float = 2.0e-4
    """One window more: latencies, its sum on the host."""


@dataclass(frozen=True, slots=True)
class Fill:
    """What fills the device with work."""

    at_once: Mapping[GroupId, int]
    """Workers that accumulate at the same time, by group."""
    chunk_blocks: int
    """Blocks of the reduction's first kernel that run at the same time."""
    chunks_per_block: int
    """Chunks of one such block."""

    @classmethod
    def of(cls, multiprocessors: int, accumulate: Mapping[GroupId, int], chunks: Mapping[GroupId, int]) -> Fill:
        """From the blocks of both kernels that a multiprocessor holds."""
        groups = max(chunks)
        at_once = {g: multiprocessors * count * ACCUMULATE_THREADS // g for g, count in accumulate.items()}
        return cls(at_once, multiprocessors * min(chunks.values()), CHUNK_THREADS // groups)


@dataclass(frozen=True, slots=True)
class Pass:
    """Windows that are sorted and added up together."""

    first: int
    last: int
    buckets: int
    low_bits: int
    """The coarse bins of the sort hold 2^low_bits buckets each."""
    chunk: int
    """The reduction adds up so many buckets one after another."""
    log_chunks: tuple[int, int]
    """Of the chunks of a narrow and of a wide window, whose number is made up to a power of two."""
    chunks: int
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
        fill: Fill,
        memory_bytes: int,
        costs: Costs | None = None,
        windows: int | None = None,
    ) -> MsmLayout:
        """The cheapest cut of ``n`` scalars whose workspace fits.

        Args:
            curve: the curve.
            groups: of the operands.
            n: scalars, at least one, below 2^31.
            fill: what fills the device.
            memory_bytes: what the workspace may take.
            costs: the model.
            windows: how many, if the model is not to choose.

        Raises:
            ValueError: if ``n`` is out of range.
            WorkspaceTooSmall: if not even the smallest workspace fits: one window after another, in as many parts as
                are worth their launches.
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
                    for widths, count, size in _fitting(curve, wanted, n, part, fill, memory_bytes)
                    if windows is None or len(widths) == windows
                ),
                default=None,
            )
            if best is not None:
                _, widths, together, size = best
                return cls(curve, n, part, widths, passes_of(widths, part, together, fill), size)
            half = -(-part // 2)
            if part == 1 or -(-n // half) > _MOST_PARTS:
                raise WorkspaceTooSmall(memory_bytes, _smallest(curve, wanted, n, part, fill, windows))
            part = half

    @property
    def positions(self) -> tuple[int, ...]:
        """The lowest bit of each window."""
        return tuple(sum(self.widths[:i]) for i in range(len(self.widths)))

    def parts(self) -> list[tuple[int, int]]:
        """The ranges of scalars that are taken one after another."""
        return [(begin, min(begin + self.part, self.n)) for begin in range(0, self.n, self.part)]

    def window_tasks(self, step: Pass) -> int:
        """Additions that the widest window's block has to do at once at most (``msm_window_sums``)."""
        log_chunks = max(step.log_chunks)
        return (step.levels + 2) << max(0, log_chunks - step.levels - 1) if log_chunks > step.levels else 1

    def cut(self, step: Pass) -> bytes:
        """``struct Cut`` of ``msm.cuh``."""
        offset = sum(1 << (p + w - 1) for p, w in zip(self.positions[:-1], self.widths[:-1], strict=True))
        windows, narrow = len(self.widths), self.widths[-1]
        wider = sum(width > narrow for width in self.widths)
        words = (windows, wider, narrow, step.first, step.last, step.chunk, *step.log_chunks)
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
        additions * costs.addition + n * len(widths) * costs.entry + buckets * costs.bucket + len(widths) * costs.window
    )


def _sums_of_parts(curve: Curve, groups: tuple[GroupId, ...], widths: tuple[int, ...], parts: int) -> int:
    """Bytes of the windows' sums, which every part keeps until the end."""
    return parts * sum(-(-16 * point_words(curve, group) * len(widths) // _ALIGN) * _ALIGN for group in groups)


def _smallest(curve: Curve, groups: tuple[GroupId, ...], n: int, part: int, fill: Fill, windows: int | None) -> int:
    """Bytes of the smallest workspace for parts of this length."""
    bits = signed_bits(curve)
    cuts = [cut_windows(bits, count) for count in range(-(-bits // _WIDEST), bits // _NARROWEST + 1)]
    return min(
        _workspace(curve, groups, part, widths, 1, fill) + _sums_of_parts(curve, groups, widths, -(-n // part))
        for widths in cuts
        if windows is None or len(widths) == windows
    )


def _fitting(
    curve: Curve, groups: tuple[GroupId, ...], n: int, part: int, fill: Fill, memory_bytes: int
) -> list[tuple[tuple[int, ...], int, int]]:
    """Cuts of ``part`` scalars of ``n``: each with the most windows of a pass, and its bytes."""
    bits = signed_bits(curve)
    out = []
    for count in range(-(-bits // _WIDEST), bits // _NARROWEST + 1):
        widths = cut_windows(bits, count)
        sums = _sums_of_parts(curve, groups, widths, -(-n // part))
        room = memory_bytes - sums
        size = _workspace(curve, groups, part, widths, count, fill)
        if size <= room and count * part <= _MOST_ENTRIES:
            out.append((widths, count, size + sums))
            continue
        size = _workspace(curve, groups, part, widths, 1, fill)
        if size > room:
            continue
        fewest, most = 2, count
        while fewest < most:
            passes = (fewest + most) // 2
            needed = _workspace(curve, groups, part, widths, -(-count // passes), fill)
            if needed <= room and -(-count // passes) * part <= _MOST_ENTRIES:
                most, size = passes, needed
            else:
                fewest = passes + 1
        out.append((widths, -(-count // most), size + sums))
    return out


def _workspace(
    curve: Curve, groups: tuple[GroupId, ...], n: int, widths: tuple[int, ...], together: int, fill: Fill
) -> int:
    """Bytes of the largest pass."""
    return max(
        _sort_layout(step, n).size
        + sum(_sums_layout(step, curve, group, n, fill.at_once[group]).size for group in groups)
        for step in passes_of(widths, n, together, fill)
    )


def passes_of(widths: tuple[int, ...], n: int, together: int, fill: Fill) -> tuple[Pass, ...]:
    """The passes over ``n`` scalars that take at most ``together`` windows each."""
    out = []
    narrow = widths[-1]
    for first in range(0, len(widths), together):
        last = min(first + together, len(widths))
        sizes = [1 << (width - 1) for width in widths[first:last]]
        buckets = sum(sizes)
        bins = max(64, min(_MOST_COARSE_BINS, n * len(sizes) // _ENTRIES_PER_COARSE_BIN))
        chunk = _chunk_length(sizes, fill)
        log_chunks = [(-(-size // chunk) - 1).bit_length() for size in (1 << (narrow - 1), 1 << narrow)]
        out.append(
            Pass(
                first=first,
                last=last,
                buckets=buckets,
                low_bits=min(narrow - 1, _MOST_LOW_BITS, max(0, (buckets // bins).bit_length())),
                chunk=chunk,
                log_chunks=(log_chunks[0], log_chunks[1]),
                chunks=sum(1 << log_chunks[size > 1 << (narrow - 1)] for size in sizes),
                levels=min(_LOG_NODE, log_chunks[0]),
            )
        )
    return tuple(out)


def _chunk_length(sizes: list[int], fill: Fill) -> int:
    """The shortest chunks of windows of these sizes whose blocks all run at the same time: blocks that begin later take
    as long as the first ones. More windows than that take their turns."""
    allowed = fill.chunk_blocks * -(-len(sizes) // fill.chunk_blocks)
    low, high = 2, max(2, *sizes)  # a block for each window always fits
    while low < high:
        length = (low + high) // 2
        chunks = [-(-size // length) for size in sizes]
        if sum(-(-count // fill.chunks_per_block) for count in chunks) <= allowed:
            high = length
        else:
            low = length + 1
    return low


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
    "Fill",
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
