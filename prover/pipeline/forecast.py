"""How much memory a circuit will take under given knobs: a pure function of its shape; the measured peak beside it.

At most ``lookahead`` + synthesisers + device workers slots are alive (the engine's own bound); the forecast is what
they hold when each is at its largest. It is the process's memory on the host; a GPU's own memory is another matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from prover.curves import Curve
from prover.pipeline.footprint import Footprint

FR_BYTES = 32
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
    workspace: int = 0
    """Bytes that kernels and allocator take besides, in all. They follow from no count of the circuit's: measure them
    with one proof, as what it took beyond its forecast."""


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
    """The peak of one circuit's work.

    A device worker's slot holds a, b, c until its copies to the device have ended, and the worst instant is before
    that. On the host the device's vectors lie beside them.
    """
    slots = load.lookahead + load.synthesisers + load.workers
    return Forecast(
        keys=shape.key_bytes,
        matrices=shape.matrix_bytes,
        witnesses=slots * load.slot * shape.witness_bytes,
        vectors=slots * load.slot * shape.vector_bytes,
        device=load.workers * load.slot * shape.device_bytes if load.device_is_host else 0,
        pinned=load.pinned,
        workspace=load.workspace,
        slots=slots,
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


__all__ = ["CircuitShape", "Forecast", "Load", "PeakCheck", "check_peak", "forecast"]
