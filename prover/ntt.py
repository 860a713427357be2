"""Number-theoretic transforms over Fr as plans: built for a size and a device's capability, run on any array there.

Natural order in and out, Montgomery form, in place. The shift of a coset transform is that of snarkjs's odd coset.
"""

from __future__ import annotations

from prover.curves import Curve, RootConvention
from prover.device.values import Capability, Step
from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Array, Device, Stream


@dataclass(frozen=True, slots=True)
class NttPlan:
    """One transform of 2^log_n elements."""

    curve: Curve
    log_n: int
    inverse: bool
    root: bytes
    """Primitive 2^log_n-th root of unity, Montgomery, little-endian."""
    shift: bytes | None
    """The coset's shift in the same form, or None for the domain itself."""
    multiplications: int
    """Predicted field multiplications: butterflies, and the scaling of a coset or by 1/n."""

    @classmethod
    def build(
        cls,
        curve: Curve,
        log_n: int,
        capability: Capability,
        *,
        inverse: bool = False,
        shift: int | None = None,
        convention: RootConvention = "snarkjs",
    ) -> NttPlan:
        """A plan for 2^log_n elements; ``shift`` is canonical.

        Raises:
            ValueError: if the domain exceeds the field's two-adicity.
        """
        n = 1 << log_n
        scaling = n if inverse or shift is not None else 0
        return cls(
            curve=curve,
            log_n=log_n,
            inverse=inverse,
            root=montgomery_bytes(curve, curve.root_of_unity(log_n, convention)),
            shift=None if shift is None else montgomery_bytes(curve, shift),
            multiplications=n // 2 * log_n + scaling,
        )

    def step(self, data: Array) -> Step:
        """The transform of one array."""
        return Step(
            "ntt",
            {"curve": self.curve, "data": data, "root": self.root, "inverse": self.inverse, "shift": self.shift},
            multiplications=self.multiplications,
            bytes=2 * self.curve.fr.bytes << self.log_n,
        )

    def run(self, device: Device, data: Array, stream: Stream) -> None:
        """Transform ``data`` (2^log_n elements) in place."""
        device.run(self.step(data), stream)


def montgomery_bytes(curve: Curve, value: int) -> bytes:
    """An element of Fr as the native library takes it: Montgomery form, little-endian."""
    return curve.fr.to_montgomery(value).to_bytes(curve.fr.bytes, "little")


__all__ = ["NttPlan", "montgomery_bytes"]
