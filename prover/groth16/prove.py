"""Proving: the work on a device (``start``), and the assembly of the proof from its sums (``finish``).

A slot of one or several partitions goes through five steps that an engine calls and times: setup, h2d, ntt, msm, d2h.
``start`` is the same for one proof. The quotient follows snarkjs: a*b - c vanishes on the domain, so its values on the
odd coset determine it, and the key's H query holds the matching basis: six transforms, no division by the vanishing
polynomial.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from prover import buffers, native
from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.curves import Curve
from prover.device.errors import OutOfMemory
from prover.device.values import Capability
from prover.errors import InputError
from prover.formats.points import g1_bytes, g1_from_bytes, g2_bytes, g2_from_bytes
from prover.formats.proof import Proof
from prover.groth16.keys import ProvingKey
from prover.groth16.quotient import QuotientPlan
from prover.lean_dataclass import dataclass
from prover.msm import MsmPlan
from prover.native import GroupId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Array, Device, Stream

FR_WORDS = 4


@dataclass(frozen=True, slots=True)
class Assignment:
    """A witness, and the matrices times it: what synthesis hands to the device."""

    witness: BufferLike
    """``n_wires`` canonical elements: the constant one, public, private."""
    a: BufferLike
    """At most ``2**log_n`` Montgomery elements, as ``b`` and ``c``; missing rows are zero."""
    b: BufferLike
    c: BufferLike | None = None
    """None: a*b, which it is where the witness satisfies the circuit."""


@dataclass(frozen=True, slots=True)
class Blinding:
    """The two random elements of Fr that make a proof reveal nothing of its witness."""

    r: int
    s: int

    @classmethod
    def random(cls, curve: Curve) -> Blinding:
        """From the system's generator; 512 bits reduced, so the bias is below 2^-256."""
        return cls(random_scalar(curve), random_scalar(curve))


def random_scalar(curve: Curve) -> int:
    """A uniform element of Fr from the system's generator (secret)."""
    return int.from_bytes(os.urandom(64), "little") % curve.fr.modulus


@dataclass(frozen=True, slots=True)
class Sums:
    """The five sums of a partition, one affine point each."""

    a: bytes
    b_g1: bytes
    b_g2: bytes
    l: bytes  # noqa: E741 - the query's name
    h: bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """What a device delivered for one proof; :func:`finish` makes the proof of it."""

    key: ProvingKey
    sums: Sums
    blinding: Blinding


@dataclass(frozen=True, slots=True)
class ProvePlan:
    """Every transform and multiplication of a proof under one key, for a device's capability."""

    quotient: QuotientPlan
    queries: Mapping[str, MsmPlan]
    """By the names of ``Sums``."""

    @classmethod
    def build(cls, key: ProvingKey, capability: Capability) -> ProvePlan:
        """A plan for this key's shape."""
        curve, wires = key.curve, key.n_wires
        return cls(
            quotient=QuotientPlan.build(curve, key.log_n, capability),
            queries={
                "h": MsmPlan.build(curve, 1, key.domain_size, capability),
                "l": MsmPlan.build(curve, 1, wires - key.n_public - 1, capability),
                "a": MsmPlan.build(curve, 1, wires, capability),
                "b_g1": MsmPlan.build(curve, 1, wires, capability),
                "b_g2": MsmPlan.build(curve, 2, wires, capability),
            },
        )

    @property
    def multiplications(self) -> int:
        """Predicted work of a proof, in field multiplications."""
        return self.quotient.multiplications + sum(plan.multiplications for plan in self.queries.values())


class _Partition:
    """The arrays of one partition on the device, each dropped as soon as nothing reads it any more."""

    def __init__(self, plan: ProvePlan, device: Device, stream: Stream, blinding: Blinding) -> None:
        n = 1 << plan.quotient.log_n
        self.blinding = blinding
        self.vectors = [device.empty(n, FR_WORDS, stream) for _ in range(3)]
        self.c_given = False
        self.scalars: dict[str, Array] = {}
        self.sums = {name: device.empty(1, msm.words, stream) for name, msm in plan.queries.items()}


class SlotProof:
    """One slot on one device (a ``prover.pipeline.interfaces.SlotProver``)."""

    def __init__(
        self,
        key: ProvingKey,
        assignments: Sequence[Assignment],
        device: Device,
        threads: int = 0,
        cancel: CancelToken | None = None,
        blindings: Sequence[Blinding] | None = None,
    ) -> None:
        """Check the shapes; nothing runs yet.

        Args:
            key: the proving key.
            assignments: one for each partition of the slot.
            device: where it runs.
            threads: processor threads on the host device; 0 = the device's own choice.
            cancel: stops any of the steps with ``Cancelled``; ``release`` then frees everything.
            blindings: fixed ones make the proof reproducible (tests); random by default.

        Raises:
            InputError: if an assignment does not fit the key.
        """
        for assignment in assignments:
            check_assignment(key, assignment)
        self._key = key
        self._assignments = list(assignments)
        self._device = device
        self._threads = threads
        self._cancel = cancel
        self._blindings = blindings
        self._plan = ProvePlan.build(key, device.capability)
        self._stream: Stream | None = None
        self._active_s: float | None = None
        self._partitions: list[_Partition] = []

    def setup(self) -> None:
        """Allocate the vectors of every partition and draw the blinding."""
        self._device.prepare(self._key.curve)
        self._stream = self._device.stream("proof", self._threads, self._cancel)
        blindings = self._blindings or [Blinding.random(self._key.curve) for _ in self._assignments]
        for blinding in blindings:
            self._partitions.append(_Partition(self._plan, self._device, self._stream, blinding))

    def h2d(self) -> None:
        """Bring witness and a, b, c onto the device, and the key's queries if they are not there; the assignments are
        dropped here.
        """
        stream, key = self._ready(), self._key
        with suppress(OutOfMemory):  # what has no room is streamed
            for name in self._plan.queries:
                self._device.resident(getattr(key, name), stream)
        for partition, assignment in zip(self._partitions, self._assignments, strict=True):
            partition.c_given = assignment.c is not None
            given = (assignment.a, assignment.b, b"" if assignment.c is None else assignment.c)
            for array, host in zip(partition.vectors, given, strict=True):
                self._device.write(array, host, stream)
            witness = self._device.upload(assignment.witness, stream)
            private = self._device.rows(witness, key.n_public + 1, key.n_wires, FR_WORDS)
            partition.scalars = {"a": witness, "b_g1": witness, "b_g2": witness, "l": private}
        self._assignments = []
        stream.synchronize()

    def ntt(self) -> None:
        """The scalars of H."""
        stream = self._ready()
        for partition in self._partitions:
            a, b, c = partition.vectors
            self._plan.quotient.run(self._device, a, b, c, partition.c_given, stream)
            partition.scalars["h"] = a
            partition.vectors = []
        stream.synchronize()

    def msm(self) -> None:
        """The five sums of each partition."""
        stream = self._ready()
        for partition in self._partitions:
            for name in self._plan.queries:
                self._multiply(name, partition.scalars.pop(name), partition.sums[name], stream)
        stream.synchronize()

    def d2h(self) -> list[Pending]:
        """Fetch the sums; one pending proof for each partition."""
        stream = self._ready()
        pending = []
        for partition in self._partitions:
            fetched = {name: self._device.download(array, stream) for name, array in partition.sums.items()}
            stream.synchronize()
            sums = Sums(**{name: bytes(memoryview(array).cast("B")) for name, array in fetched.items()})
            pending.append(Pending(self._key, sums, partition.blinding))
        return pending

    def release(self) -> None:
        """Drop every array."""
        self._partitions = []
        self._assignments = []
        if self._stream is not None:
            self._active_s = self._stream.active_s
        self._stream = None

    @property
    def gpu_active_s(self) -> float | None:
        """Seconds that kernels ran for this slot, by the device's events; None on the host, which has none."""
        return self._active_s if self._stream is None else self._stream.active_s

    def _multiply(self, name: str, scalars: Array, out: Array, stream: Stream) -> None:
        """One query's sum; its bases stay on the device if they have room there."""
        plan, host = self._plan.queries[name], getattr(self._key, name)
        with suppress(OutOfMemory):
            plan.run(self._device, self._device.resident(host, stream), scalars, out, stream)
            return
        # Not while the error is handled: its traceback would hold the array that has to make room.
        plan.run_streamed(self._device, host, scalars, out, stream)

    def _ready(self) -> Stream:
        if self._stream is None:
            raise RuntimeError("the slot is not set up, or was released")
        return self._stream


def check_assignment(key: ProvingKey, assignment: Assignment) -> None:
    """An assignment has the key's number of wires, and no more rows than the domain.

    Raises:
        InputError: if not.
    """
    wires = buffers.row_count(assignment.witness, FR_WORDS)
    if wires != key.n_wires:
        raise InputError(f"witness of {wires} values, the key wants {key.n_wires}", key.where, "use the circuit's own")
    for name in ("a", "b", "c"):
        vector = getattr(assignment, name)
        if vector is not None and buffers.row_count(vector, FR_WORDS) > key.domain_size:
            found = buffers.row_count(vector, FR_WORDS)
            raise InputError(f"{name} has {found} rows, the domain {key.domain_size}", key.where, "use its own circuit")


def start(
    key: ProvingKey,
    assignment: Assignment,
    device: Device,
    threads: int = 0,
    cancel: CancelToken | None = None,
    blinding: Blinding | None = None,
) -> Pending:
    """All device work of one proof.

    Raises:
        InputError: if the assignment does not fit the key.
        Cancelled: if asked.
    """
    slot = SlotProof(key, [assignment], device, threads, cancel, None if blinding is None else [blinding])
    try:
        slot.setup()
        slot.h2d()
        slot.ntt()
        slot.msm()
        return slot.d2h()[0]
    finally:
        slot.release()


def finish(pending: Pending) -> Proof:
    """Assemble the proof: A = alpha + a + r delta, B = beta + b + s delta, C = l + h + s A + r B - r s delta."""
    key, sums = pending.key, pending.sums
    curve, vk = key.curve, key.verifying
    modulus = curve.fr.modulus
    r, s = pending.blinding.r % modulus, pending.blinding.s % modulus
    alpha, beta, delta = (g1_bytes(curve, p) for p in (vk.alpha_g1, vk.beta_g1, vk.delta_g1))
    beta_g2, delta_g2 = g2_bytes(curve, vk.beta_g2), g2_bytes(curve, vk.delta_g2)
    a = _combine(curve, 1, [(1, alpha), (1, sums.a), (r, delta)])
    b = _combine(curve, 2, [(1, beta_g2), (1, sums.b_g2), (s, delta_g2)])
    c = _combine(
        curve,
        1,
        [
            (1, sums.l),
            (1, sums.h),
            (s, alpha),
            (s, sums.a),
            (r, beta),
            (r, sums.b_g1),
            (r * s % modulus, delta),  # s (r delta) + r (s delta) - r s delta
        ],
    )
    return Proof(curve, g1_from_bytes(curve, a), g2_from_bytes(curve, b), g1_from_bytes(curve, c))


def _combine(curve: Curve, group: GroupId, terms: Sequence[tuple[int, bytes]]) -> bytes:
    out = bytearray(len(terms[0][1]))
    scalars = b"".join(k.to_bytes(curve.fr.bytes, "little") for k, _ in terms)
    native.msm(curve, group, b"".join(point for _, point in terms), scalars, out)
    return bytes(out)


__all__ = [
    "Assignment",
    "Blinding",
    "Pending",
    "ProvePlan",
    "SlotProof",
    "Sums",
    "check_assignment",
    "finish",
    "random_scalar",
    "start",
]
