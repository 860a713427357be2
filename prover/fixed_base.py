"""Multiples of one point as a plan: ``out[i] = scalars[i] * base``, what a setup's queries are made of."""

from __future__ import annotations

from prover.curves import Curve
from prover.device.values import Capability, Step
from prover.lean_dataclass import dataclass
from prover.native import GroupId, point_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Array, Device, Stream

_WINDOWS = 32
_MIXED_ADDITION = 10
"""Field multiplications and squarings (8M + 2S)."""
_TO_AFFINE = 7
_FP2_MULTIPLICATION = 3


@dataclass(frozen=True, slots=True)
class FixedBasePlan:
    """``n`` multiples of one point."""

    curve: Curve
    group: GroupId
    n: int
    multiplications: int
    """Predicted base-field multiplications, with windows of eight bits."""

    @classmethod
    def build(cls, curve: Curve, group: GroupId, n: int, capability: Capability) -> FixedBasePlan:
        """A plan for ``n`` multiples."""
        each = _WINDOWS * _MIXED_ADDITION + _TO_AFFINE
        return cls(curve, group, n, n * each * (_FP2_MULTIPLICATION if group == 2 else 1))

    @property
    def words(self) -> int:
        """64-bit words of a point."""
        return point_words(self.curve, self.group)

    def step(self, base: bytes, scalars: Array, out: Array) -> Step:
        """The multiples of ``base`` (affine, Montgomery, host bytes) by canonical scalars, into affine points."""
        return Step(
            "fixed_base",
            {"curve": self.curve, "group": self.group, "base": base, "scalars": scalars, "out": out},
            multiplications=self.multiplications,
            bytes=self.n * (8 * self.words + self.curve.fr.bytes),
        )

    def run(self, device: Device, base: bytes, scalars: Array, out: Array, stream: Stream) -> None:
        """Write the multiples into ``out``."""
        device.run(self.step(base, scalars, out), stream)


__all__ = ["FixedBasePlan"]
