"""Multi-scalar multiplication as a plan: the sum of scalars[i] * bases[i], built for a group, a size and a capability.

The device picks its own window and bucket method; the plan predicts the work so that a span can be compared with it.
Multiplications that share their scalars are begun together (``begin_shared``), so that a device can sort these once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from prover import buffers, native
from prover.curves import Curve
from prover.device.values import Capability, MsmTerms, Step
from prover.lean_dataclass import dataclass
from prover.native import GroupId, point_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Array, Device, HostArray, PendingPoint, Stream

_MIXED_ADDITION = 10
"""Field multiplications and squarings of an XYZZ mixed addition (8M + 2S)."""
_FULL_ADDITION = 14
_FP2_MULTIPLICATION = 3
_SCALAR_WORDS = 4
_SMALLEST_PART = 1 << 10
"""Terms of a multiplication whose bases are streamed."""


@dataclass(frozen=True, slots=True)
class MsmPlan:
    """One multi-scalar multiplication of ``n`` terms."""

    curve: Curve
    group: GroupId
    n: int
    multiplications: int
    """Predicted base-field multiplications for uniform scalars: buckets filled window by window, then reduced."""

    @classmethod
    def build(cls, curve: Curve, group: GroupId, n: int, capability: Capability) -> MsmPlan:
        """A plan for ``n`` terms."""
        bits = curve.fr.bits + 1
        window = max(2, min(18, math.ceil(math.log2(n + 2)) - 3))
        windows = -(-bits // window)
        work = windows * (n * _MIXED_ADDITION + (1 << window) * _FULL_ADDITION)
        return cls(curve, group, n, work * (_FP2_MULTIPLICATION if group == 2 else 1))

    @property
    def words(self) -> int:
        """64-bit words of a point."""
        return point_words(self.curve, self.group)

    def step(self, bases: Array, scalars: Array, out: Array) -> Step:
        """The sum over ``n`` affine bases and canonical scalars, into one affine point."""
        return Step(
            "msm",
            {"curve": self.curve, "group": self.group, "bases": bases, "scalars": scalars, "out": out},
            multiplications=self.multiplications,
            bytes=self.n * (8 * self.words + self.curve.fr.bytes),
        )

    def run(self, device: Device, bases: Array, scalars: Array, out: Array, stream: Stream) -> None:
        """Write the sum into ``out``, one affine point."""
        device.run(self.step(bases, scalars, out), stream)

    def sum_streamed(self, device: Device, bases: HostArray, scalars: Array, stream: Stream, copies: Stream) -> bytes:
        """The sum with bases in host memory that the device has no room for: part after part, each brought by the
        stream ``copies`` while the one before is multiplied.

        Raises:
            OutOfMemory: if not even a small part has room.
        """
        total = bytearray(8 * self.words)
        under_way: PendingPoint | None = None
        for start, stop in self.parts(device.memory().free):
            there = device.upload(buffers.rows(bases, start, stop, self.words), copies)
            stream.wait(copies.record())
            if under_way is not None:
                self._add(total, under_way)
            own = device.rows(scalars, start, stop, _SCALAR_WORDS)
            (under_way,) = begin_shared(device, self.curve, [MsmTerms(self.group, there)], own, stream)
            del there
        if under_way is not None:
            self._add(total, under_way)
        return bytes(total)

    def _add(self, total: bytearray, part: PendingPoint) -> None:
        native.group_op(self.curve, self.group, native.GroupOp.ADD, total, part.finish(), total)

    def parts(self, free: int) -> Iterator[tuple[int, int]]:
        """Ranges of terms, each with its bases in an eighth of ``free`` bytes: the rest is the next one's, and the
        multiplication's.
        """
        most = max(_SMALLEST_PART, free // 8 // (8 * self.words))
        for start in range(0, self.n, most):
            yield start, min(self.n, start + most)


def begin_shared(
    device: Device, curve: Curve, operands: Sequence[MsmTerms], scalars: Array, stream: Stream
) -> Sequence[PendingPoint]:
    """Begin the multiplication of each operand by the same canonical scalars; one pending sum each, in order.

    Raises:
        OutOfMemory: if the device has no room for the work.
    """
    arguments = {"curve": curve, "operands": operands, "scalars": scalars}
    begun: Sequence[PendingPoint] = device.run(Step("msm_many", arguments), stream)
    return begun


__all__ = ["MsmPlan", "begin_shared"]
