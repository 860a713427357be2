"""How much memory a circuit will take under given knobs: a pure function of its shape; the measured peak beside it.

At most ``lookahead`` + synthesisers + device workers slots are alive (the engine's own bound); the forecast is what
they hold when each is at its largest. It is the process's memory on the host; a GPU's own memory is another matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.curves import Curve
from prover.pipeline.footprint import Footprint

if TYPE_CHECKING:
    from prover.pipeline.knobs import KnobSet

FR_BYTES = 32
PROGRAM = 10 << 20
"""What proving takes of any process, whatever it proves."""
_RECYCLED = 32 << 20
"""Up to here the memory of the multiplications in G1 stays with the library while those in G2 run (by measurement: it
keeps 24 MiB, in blocks that are larger than what is asked); beyond, it goes back first."""
_ENTRY = 8
"""A stored entry of a compressed matrix: column and coefficient index."""
_KEY_ENTRY = 44
"""The same entry in a key file."""


@dataclass(frozen=True, slots=True)
class CircuitShape:
    """What the memory of a circuit follows from."""

    curve: Curve
    wires: int
    """With the constant one."""
    public: int
    """Public inputs, without the constant one."""
    rows: int
    """Constraints and the prover's input rows."""
    log_domain: int
    entries: tuple[int, ...]
    """Stored entries of each matrix that is held."""
    key_entries: int = 0
    """Entries of A and B in the key file, which is mapped with them; 0 where the key holds none."""
    rows_held: int = 0
    """Rows that each matrix is held with; 0: ``rows``."""
    c_given: bool = False
    """Whether synthesis hands c over; mostly it is a*b, and made on the device."""
    c_made: bool = False
    """Whether synthesis makes c at all: to check every row, and lets it go then."""

    @property
    def domain(self) -> int:
        """Points of the evaluation domain."""
        return 1 << self.log_domain

    @property
    def key_bytes(self) -> int:
        """The five queries, the verifying key's points, and the coefficients that the file holds."""
        g1 = 2 * self.curve.fp.bytes
        points = 3 * self.wires - self.public - 1 + self.domain + self.public + 1
        return points * g1 + self.wires * 2 * g1 + self.key_entries * _KEY_ENTRY

    @property
    def matrix_bytes(self) -> int:
        """Compressed rows: pointers, columns and coefficient indices (the shared table is small)."""
        rows = self.rows_held or self.rows
        return sum(8 * (rows + 1) + _ENTRY * entries for entries in self.entries)

    @property
    def witness_bytes(self) -> int:
        """One partition's witness."""
        return self.wires * FR_BYTES

    @property
    def vector_bytes(self) -> int:
        """One partition's a, b and, where it is made, c: ``domain`` elements each."""
        return (3 if self.c_given else 2) * self.domain * FR_BYTES

    def workspace_bytes(self, device_is_host: bool) -> int:
        """What the process takes besides: modules, libraries and stacks of whatever proves, and on the host device the
        multiplications' own memory: copies of scalars and points, sorted entries, buckets. They run one after another,
        and what the first ones took stays for the next where it is little enough.

        Fitted to the host library on 64-bit machines (BLS12-381 2^10 to 2^17, BN254 2^13 and 2^16, witnesses of random
        elements; one of bits takes less).
        """
        if not device_is_host:
            return PROGRAM
        point = self.curve.fp.bytes
        in_g1, in_g2 = self.domain * (116 + 31 * point // 4), self.wires * (116 + 64 * point // 5)
        return PROGRAM + in_g2 + (in_g1 if in_g1 <= _RECYCLED else 0)

    def slot(self, partitions: int, device_is_host: bool) -> Footprint:
        """What a slot takes from the start of its synthesis to its release from the device. Assignments arrive on the
        device one by one, each freed as it has; the host keeps the witness, which its device reads where it lies.
        """
        one = self.vector_bytes
        if device_is_host:
            return Footprint(vectors=one, rest=partitions * (self.witness_bytes + self.device_bytes))
        spare = self.domain * FR_BYTES if self.c_made and not self.c_given else 0
        return Footprint(vectors=partitions * (self.witness_bytes + one) + spare, rest=0)

    @property
    def device_bytes(self) -> int:
        """One partition's vectors on its device."""
        return 3 * self.domain * FR_BYTES


@dataclass(frozen=True, slots=True)
class Load:
    """The knobs that decide how many slots are alive. ``slot`` is in partitions."""

    slot: int
    synthesisers: int
    lookahead: int
    workers: int
    """On all devices together."""
    pinned: int = 0
    """Bytes of the pinned pool."""
    device_is_host: bool = False
    """Whether a device's memory is this process's."""
    most: int | None = None
    """Slots that are there at all, if they are fewer: of so many jobs in flight."""

    @classmethod
    def of(
        cls, knobs: KnobSet, devices: int, partitions: int, *, device_is_host: bool, jobs: int | None = None
    ) -> Load:
        """What these knobs make of jobs of ``partitions``, at most ``jobs`` at once."""
        slot = min(knobs.integer("slot_size") or partitions, partitions)
        workers = devices * knobs.integer("gpu_workers_per_device")
        most = None if jobs is None else jobs * -(-partitions // slot)
        lookahead = knobs.integer("synthesis_lookahead")
        return cls(slot, knobs.synthesisers, lookahead, workers, device_is_host=device_is_host, most=most)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bytes, by what takes them."""

    keys: int
    matrices: int
    witnesses: int
    vectors: int
    device: int
    pinned: int
    workspace: int
    slots: int
    """Slots alive at most."""

    @property
    def working(self) -> int:
        """All but keys and matrices."""
        return self.witnesses + self.vectors + self.device + self.pinned + self.workspace

    @property
    def total(self) -> int:
        """The peak."""
        return self.keys + self.matrices + self.working


def forecast(shape: CircuitShape, load: Load) -> Forecast:
    """The peak of one circuit's work: an upper bound, for every slot is taken at its largest at the same instant.

    A slot that waits or is synthesised holds witness and vectors (and c while it is made). One that is proved on the
    host holds the device's vectors instead, and those of the assignment that is copied; on a GPU soon nothing any more.
    """
    workers = load.workers if load.most is None else min(load.workers, load.most)
    waiting = load.lookahead + load.synthesisers
    if load.most is not None:
        waiting = min(waiting, load.most - workers)
    making = min(load.synthesisers, waiting)
    c = shape.domain * FR_BYTES if shape.c_made and not shape.c_given else 0
    host = load.device_is_host
    return Forecast(
        keys=shape.key_bytes,
        matrices=shape.matrix_bytes,
        witnesses=(waiting + workers) * load.slot * shape.witness_bytes,
        vectors=(waiting + (0 if host else workers)) * load.slot * shape.vector_bytes + making * c,
        device=workers * (load.slot * shape.device_bytes + shape.vector_bytes) if host else 0,
        pinned=load.pinned,
        workspace=shape.workspace_bytes(host),
        slots=waiting + workers,
    )


@dataclass(frozen=True, slots=True)
class PeakCheck:
    """A forecast beside what was measured."""

    forecast: int
    measured: int
    """The most that was resident, less what was before the circuit was loaded."""

    @property
    def off(self) -> float | None:
        """(measured - forecast) / forecast; None where nothing was forecast."""
        return (self.measured - self.forecast) / self.forecast if self.forecast else None


def check_peak(expected: Forecast, peak_rss: int | None, before_rss: int | None) -> PeakCheck | None:
    """Compare; None where the system does not tell the resident memory (``prover.resources``)."""
    if peak_rss is None or before_rss is None:
        return None
    return PeakCheck(expected.total, max(peak_rss - before_rss, 0))


__all__ = ["PROGRAM", "CircuitShape", "Forecast", "Load", "PeakCheck", "check_peak", "forecast"]
