"""A proof and a verifying key as integers: what every encoding of them decodes to."""

from __future__ import annotations

from prover.curves import Curve, G1Point, G2Point
from prover.lean_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Proof:
    """A Groth16 proof; coordinates are canonical. Readers check that points are on the curve, not their subgroup."""

    curve: Curve
    a: G1Point
    b: G2Point
    c: G1Point


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A Groth16 verifying key; coordinates are canonical. Readers check the curve equation, not the subgroup."""

    curve: Curve
    alpha_g1: G1Point
    beta_g2: G2Point
    gamma_g2: G2Point
    delta_g2: G2Point
    ic: tuple[G1Point, ...]
    """One point for the constant, then one for each public input."""
    beta_g1: G1Point = None
    """Only bellman's files and zkeys hold it; not needed to verify."""
    delta_g1: G1Point = None
    """Only bellman's files and zkeys hold it; not needed to verify."""
    alphabeta: tuple[int, ...] | None = field(default=None, compare=False)
    """e(alpha, beta) as snarkjs prints it (12 Fp elements in reading order), or ``None``; no verifier reads it."""

    @property
    def n_public(self) -> int:
        """Public inputs, without the constant one."""
        return len(self.ic) - 1
