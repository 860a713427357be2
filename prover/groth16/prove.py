"""Proving: the work on a device (``start``), and the assembly of the proof from its sums (``finish``).

A slot of one or several partitions goes through five steps that an engine calls and times: setup, h2d, ntt, msm, d2h.
``start`` is the same for one proof. A step waits for the device once, at its end: ``ntt`` until the scalars of H are
there, ``msm`` until the buckets of every sum are full. Adding the last buckets up, which leaves most of a GPU free, is
``d2h``'s: another slot's transforms fit beside it. The quotient follows snarkjs:
a*b - c vanishes on the domain, so its values on the odd coset determine it, and the key's H query holds the matching
basis: six transforms, no division by the vanishing polynomial.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from prover import buffers, native
from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.curves import Curve
from prover.device.errors import DeviceError, OutOfMemory
from prover.device.values import Capability, MsmTerms
from prover.errors import InputError
from prover.formats.points import g1_bytes, g1_from_bytes, g2_bytes, g2_from_bytes
from prover.formats.proof import Proof
from prover.groth16.keys import ProvingKey
from prover.groth16.quotient import QuotientPlan
from prover.intervals import Interval, IntervalSet, length
from prover.lean_dataclass import dataclass
from prover.msm import MsmPlan, begin_shared
from prover.native import GroupId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Array, Device, PendingPoint, Stream

FR_WORDS = 4
OF_WITNESS = ("a", "b_g1", "b_g2", "l")
"""The queries whose scalars are the witness: all of it, or (``l``) its private part."""


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
        self.witness: Array | None = None
        self.quotient: Array | None = None
        self.begun: dict[str, PendingPoint] | None = None
        """None until the device has something to do for them."""

    def wait_accumulated(self) -> None:
        """Wait until the buckets of all sums are full."""
        for begun in (self.begun or {}).values():
            begun.wait_accumulated()


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
        self._beside: Stream | None = None
        """For sums of the witness, which wait for the transforms alone."""
        self._busy = IntervalSet()
        self._fresh: list[Interval] = []
        self._has_clock = device.capability.has_timing_events
        self._partitions: list[_Partition] = []

    def setup(self) -> None:
        """Allocate the vectors of every partition and draw the blinding."""
        self._device.prepare(self._key.curve)
        self._stream = self._device.stream("proof", self._threads, self._cancel)
        self._beside = self._device.stream("witness", self._threads, self._cancel)
        blindings = self._blindings or [Blinding.random(self._key.curve) for _ in self._assignments]
        for blinding in blindings:
            self._partitions.append(_Partition(self._plan, self._device, self._stream, blinding))

    def h2d(self) -> None:
        """Bring witness and a, b, c onto the device, and the key's queries if they are not there; each assignment is
        dropped as soon as it has arrived.
        """
        (stream, _), key = self._ready(), self._key
        with suppress(OutOfMemory):  # what has no room is streamed
            for name in self._plan.queries:
                self._device.resident(getattr(key, name), stream)
        waiting, self._assignments = deque(self._assignments), []
        for partition in self._partitions:
            assignment = waiting.popleft()
            partition.c_given = assignment.c is not None
            given = (assignment.a, assignment.b, b"" if assignment.c is None else assignment.c)
            for array, host in zip(partition.vectors, given, strict=True):
                self._device.write(array, host, stream)
            partition.witness = self._device.upload(assignment.witness, stream)
            del given, assignment
        stream.synchronize()

    def ntt(self) -> None:
        """The scalars of H. A GPU has the first partition's sums to do when it has done with these."""
        stream, beside = self._ready()
        for partition in self._partitions:
            a, b, c = partition.vectors
            self._plan.quotient.run(self._device, a, b, c, partition.c_given, stream)
            partition.quotient = a
            partition.vectors = []
        there = stream.record()
        beside.wait(there)
        if self._has_clock:  # the host would do the work here and now
            for partition in self._partitions[:1]:
                self._begin(partition)
        there.synchronize()
        stream.collect(there)
        self._account()

    def msm(self) -> None:
        """The five sums of each partition, but for the last additions of each: these are ``d2h``'s."""
        streams = self._ready()
        before: _Partition | None = None
        for partition in self._partitions:
            self._begin(partition)
            self._begin_streamed(partition)
            if before is not None:  # a GPU has the next partition's work by now, and no more than that
                before.wait_accumulated()
            before = partition
        if before is not None:
            before.wait_accumulated()
        for stream in streams:
            stream.collect()
        self._account()

    def d2h(self) -> list[Pending]:
        """Fetch the sums; one pending proof for each partition."""
        streams = self._ready()
        pending = []
        for partition in self._partitions:
            begun = partition.begun or {}
            points = {name: memoryview(sum_.finish()).cast("B") for name, sum_ in begun.items()}
            sums = Sums(**{name: bytes(point) for name, point in points.items()})
            pending.append(Pending(self._key, sums, partition.blinding))
        for stream in streams:
            stream.synchronize()
        self._account()
        return pending

    def release(self) -> None:
        """Drop every array, when the device has done with them."""
        for stream in (self._stream, self._beside):
            if stream is not None:
                with suppress(DeviceError):  # a slot that failed tells its own error
                    stream.synchronize()
        self._account()
        self._stream = self._beside = None
        self._partitions = []
        self._assignments = []

    def kernel_spans(self) -> list[tuple[float, float]] | None:
        """When kernels ran for this slot, as far as it was not told yet, on the monotonic clock; None on the host."""
        fresh, self._fresh = self._fresh, []
        return sorted(fresh) if self._has_clock else None

    @property
    def gpu_active_s(self) -> float | None:
        """Seconds that kernels ran for this slot, by the device's events; None on the host, which has none."""
        return length(self._busy) if self._has_clock and self._busy else None

    def _account(self) -> None:
        """Note when kernels ran since the last call."""
        for stream in (self._stream, self._beside):
            if stream is not None:
                for began, ended in stream.take_spans() or ():
                    self._fresh += self._busy.grow(began, ended)

    def _begin(self, partition: _Partition) -> None:
        """Begin the sums whose bases are on the device or have room there, unless that was done."""
        if partition.begun is not None:
            return
        partition.begun = {}
        for names, scalars, stream in self._shares(partition):
            partition.begun |= self._begin_resident(names, scalars, stream)

    def _begin_streamed(self, partition: _Partition) -> None:
        """The sums whose bases have no room, part by part. Then nothing needs the scalars any more."""
        assert partition.begun is not None
        for names, scalars, stream in self._shares(partition):
            left = [name for name in names if name not in partition.begun]
            copies = self._device.stream("copies", self._threads, self._cancel) if left else stream
            for name in left:
                plan, first = self._plan.queries[name], self._absent(name)
                own = self._device.rows(scalars, first, first + plan.n, FR_WORDS)
                point = plan.sum_streamed(self._device, getattr(self._key, name), own, stream, copies)
                partition.begun[name] = _Fetched(point)
        partition.quotient = partition.witness = None

    def _shares(self, partition: _Partition) -> list[tuple[Sequence[str], Array, Stream]]:
        """Queries that share their scalars, these scalars, and the stream of the work."""
        stream, beside = self._ready()
        assert partition.quotient is not None and partition.witness is not None
        return [(("h",), partition.quotient, stream), (OF_WITNESS, partition.witness, beside)]

    def _begin_resident(self, names: Sequence[str], scalars: Array, stream: Stream) -> dict[str, PendingPoint]:
        """Those that share their scalars; none if the work itself has no room."""
        operands: dict[str, MsmTerms] = {}
        for name in names:
            with suppress(OutOfMemory):
                bases = self._device.resident(getattr(self._key, name), stream)
                operands[name] = MsmTerms(self._plan.queries[name].group, bases, self._absent(name))
        with suppress(OutOfMemory):
            begun = begin_shared(self._device, self._key.curve, list(operands.values()), scalars, stream)
            return dict(zip(operands, begun, strict=True))
        return {}

    def _absent(self, name: str) -> int:
        """Wires at the beginning that have no base in a query."""
        return self._key.n_public + 1 if name == "l" else 0

    def _ready(self) -> tuple[Stream, Stream]:
        if self._stream is None or self._beside is None:
            raise RuntimeError("the slot is not set up, or was released")
        return self._stream, self._beside


class _Fetched:
    """A sum that is there."""

    def __init__(self, point: bytes) -> None:
        self._point = point

    def wait_accumulated(self) -> None:
        """It was waited for."""

    def finish(self) -> bytes:
        return self._point


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
    """Assemble the proof: A = alpha + a + r delta, B = beta + b + s delta, C = l + h + s A + r B - r s delta.

    With A and B put in, C = l + h + s (alpha + a) + r (beta + b) + r s delta: four multiples in G1, one in G2.
    Sums of a broken device, whatever their bytes are, make a proof that does not verify.
    """
    key = pending.key
    curve, vk = key.curve, key.verifying
    sums = Sums(*(_reduced(curve, getattr(pending.sums, name)) for name in Sums.__match_args__))
    modulus = curve.fr.modulus
    r, s = pending.blinding.r % modulus, pending.blinding.s % modulus
    alpha, beta, delta = (g1_bytes(curve, p) for p in (vk.alpha_g1, vk.beta_g1, vk.delta_g1))
    beta_g2, delta_g2 = g2_bytes(curve, vk.beta_g2), g2_bytes(curve, vk.delta_g2)
    alpha_a, beta_b = _sum(curve, 1, alpha, sums.a), _sum(curve, 1, beta, sums.b_g1)
    multiples = _multiples(curve, 1, [(r, delta), (s, alpha_a), (r, beta_b), (r * s % modulus, delta)])
    a = _sum(curve, 1, alpha_a, multiples[0])
    b = _sum(curve, 2, beta_g2, sums.b_g2, *_multiples(curve, 2, [(s, delta_g2)]))
    c = _sum(curve, 1, sums.l, sums.h, *multiples[1:])
    return Proof(curve, g1_from_bytes(curve, a), g2_from_bytes(curve, b), g1_from_bytes(curve, c))


def _reduced(curve: Curve, point: bytes) -> bytes:
    """The same point; coordinates that are none, being p or more, become some."""
    size, p = curve.fp.bytes, curve.fp.modulus
    numbers = [int.from_bytes(point[at : at + size], "little") for at in range(0, len(point), size)]
    if max(numbers) < p:
        return point
    return b"".join((number % p).to_bytes(size, "little") for number in numbers)


def _sum(curve: Curve, group: GroupId, first: bytes, *others: bytes) -> bytes:
    total = bytearray(first)
    for point in others:
        native.group_op(curve, group, native.GroupOp.ADD, total, point, total)
    return bytes(total)


def _multiples(curve: Curve, group: GroupId, terms: Sequence[tuple[int, bytes]]) -> list[bytes]:
    scalars = b"".join(k.to_bytes(curve.fr.bytes, "little") for k, _ in terms)
    out = bytearray().join(point for _, point in terms)
    native.group_mul(curve, group, bytes(out), scalars, out)
    size = len(out) // len(terms)
    return [bytes(out[at : at + size]) for at in range(0, len(out), size)]


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
