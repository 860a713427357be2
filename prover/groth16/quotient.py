"""The scalars of the H query in snarkjs's basis: a*b - c on the odd coset of the domain.

a*b - c vanishes on the domain, so its values on the coset determine it; the query holds the matching Lagrange basis
(times the vanishing polynomial, divided by delta). Three inverse and three coset transforms, no division.
"""

from __future__ import annotations

from prover.curves import Curve
from prover.device.values import Capability, Step
from prover.lean_dataclass import dataclass
from prover.ntt import NttPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Array, Device, Stream


@dataclass(frozen=True, slots=True)
class QuotientPlan:
    """The quotient over a domain of 2^log_n points."""

    curve: Curve
    log_n: int
    inverse: NttPlan
    coset: NttPlan

    @classmethod
    def build(cls, curve: Curve, log_n: int, capability: Capability) -> QuotientPlan:
        """A plan for 2^log_n rows."""
        return cls(
            curve=curve,
            log_n=log_n,
            inverse=NttPlan.build(curve, log_n, capability, inverse=True),
            coset=NttPlan.build(curve, log_n, capability, shift=curve.coset_shift(log_n)),
        )

    @property
    def multiplications(self) -> int:
        """Predicted field multiplications."""
        return 3 * (self.inverse.multiplications + self.coset.multiplications) + (2 << self.log_n)

    def run(self, device: Device, a: Array, b: Array, c: Array, c_given: bool, stream: Stream) -> None:
        """Leave the scalars (canonical) in ``a``. All three are spoilt.

        ``c_given`` False: ``c`` holds zeros and becomes a*b, which it is for a satisfied circuit.
        """
        if not c_given:
            device.run(self._mul_sub(a, b, c, out=c, canonical_out=False), stream)
        for vector in (a, b, c):
            self.inverse.run(device, vector, stream)
            self.coset.run(device, vector, stream)
        device.run(self._mul_sub(a, b, c, out=a, canonical_out=True), stream)

    def _mul_sub(self, a: Array, b: Array, c: Array, *, out: Array, canonical_out: bool) -> Step:
        n = 1 << self.log_n
        return Step(
            "mul_sub",
            {"curve": self.curve, "a": a, "b": b, "c": c, "out": out, "canonical_out": canonical_out},
            multiplications=n,
            bytes=4 * n * self.curve.fr.bytes,
        )


__all__ = ["QuotientPlan"]
