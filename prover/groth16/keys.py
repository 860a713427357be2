"""Proving keys in memory: the five queries as they lie in the file, the verifying key in integers, the shape.

Source of the scheme: Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016, section 3.2.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

from prover import native
from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.curves import Curve
from prover.errors import InputError
from prover.formats.points import g1_bytes, g2_bytes
from prover.formats.proof import VerifyingKey
from prover.lean_dataclass import dataclass, replace
from prover.native import GroupId, PointFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.csr import CsrMatrix
    from prover.formats.zkey import Zkey

FAULTS = {
    PointFault.NOT_REDUCED: "coordinate not below the field modulus",
    PointFault.NOT_ON_CURVE: "not on the curve",
    PointFault.NOT_IN_SUBGROUP: "not in the subgroup",
}


@dataclass(frozen=True, eq=False)
class ProvingKey:
    """What proves one circuit. Points are affine, Montgomery, infinity all zero; buffers may be views of a mapped file.

    The H query is in the coset-Lagrange basis of snarkjs: its scalars are a*b - c on the odd coset of the domain.
    """

    curve: Curve
    n_wires: int
    """With the constant one."""
    n_public: int
    """Public inputs, without the constant one."""
    n_constraints: int
    log_n: int
    """The domain has ``2**log_n`` points."""
    verifying: VerifyingKey
    """With ``beta_g1`` and ``delta_g1``."""
    a: BufferLike
    """``n_wires`` G1 points."""
    b_g1: BufferLike
    """``n_wires`` G1 points."""
    b_g2: BufferLike
    """``n_wires`` G2 points."""
    l: BufferLike  # noqa: E741 - the query's name
    """``n_wires - n_public - 1`` G1 points."""
    h: BufferLike
    """``2**log_n`` G1 points."""
    source: Zkey
    """The file's content, for its matrices."""

    @classmethod
    def from_zkey(cls, zkey: Zkey) -> ProvingKey:
        """The key that a zkey holds. Its queries' points are not looked at; see :meth:`check`."""
        return cls(
            curve=zkey.curve,
            n_wires=zkey.n_vars,
            n_public=zkey.n_public,
            n_constraints=zkey.n_constraints,
            log_n=zkey.log_n,
            verifying=zkey.verifying_key(),
            a=zkey.a_query,
            b_g1=zkey.b_g1_query,
            b_g2=zkey.b_g2_query,
            l=zkey.l_query,
            h=zkey.h_query,
            source=zkey,
        )

    @property
    def domain_size(self) -> int:
        """Points of the evaluation domain."""
        return 1 << self.log_n

    @property
    def matrices(self) -> tuple[CsrMatrix, CsrMatrix]:
        """A and B, one row for each point of the domain."""
        return self.source.matrices()

    def queries(self) -> Iterator[tuple[str, GroupId, BufferLike]]:
        """Name, group and points of each query."""
        yield "A query", 1, self.a
        yield "B_G1 query", 1, self.b_g1
        yield "B_G2 query", 2, self.b_g2
        yield "L query", 1, self.l
        yield "H query", 1, self.h

    @functools.cached_property
    def verifying_points(self) -> tuple[bytes, bytes]:
        """The verifying key's points in G1 (the IC points, alpha, beta, delta) and in G2 (beta, gamma, delta)."""
        return verifying_points(self.verifying)

    def check_curve(self, threads: int = 1, cancel: CancelToken | None = None) -> None:
        """Every point is reduced and on its curve.

        Raises:
            InputError: naming the first that is not.
            Cancelled: if asked.
        """
        self._check_each(False, threads, cancel)

    def check_each(self, threads: int = 1, cancel: CancelToken | None = None) -> None:
        """Every point is reduced, on its curve and in the subgroup, one by one.

        Raises:
            InputError: naming the first that is not.
            Cancelled: if asked.
        """
        self._check_each(True, threads, cancel)

    def check_combined(self, threads: int = 1, cancel: CancelToken | None = None) -> None:
        """Random combinations of the points are in the subgroup. The points must be on the curve already.

        Raises:
            InputError: naming the query with a stray point.
            Cancelled: if asked.
        """
        for name, group, points in self.queries():
            if not native.points_in_subgroup(self.curve, group, points, os.urandom(32), threads, cancel):
                raise InputError(f"{name}: a point is not in the subgroup", self.where, "make or copy the key again")

    @property
    def where(self) -> str:
        """The key's file, for messages."""
        return self.source.path or "proving key"

    def _check_each(self, subgroup: bool, threads: int, cancel: CancelToken | None) -> None:
        check_verifying_key(self.verifying, self.where)
        for name, group, points in self.queries():
            found = native.points_check(self.curve, group, points, subgroup, threads, cancel)
            if found is not None:
                index, why = found
                raise InputError(f"{name}: point {index} is {FAULTS[why]}", self.where, "make or copy the key again")


def verifying_points(vk: VerifyingKey) -> tuple[bytes, bytes]:
    """A verifying key's points natively encoded: G1 (IC..., alpha, beta, delta), G2 (beta, gamma, delta).

    A missing ``beta_g1`` or ``delta_g1`` is infinity.
    """
    g1 = b"".join(g1_bytes(vk.curve, point) for point in (*vk.ic, vk.alpha_g1, vk.beta_g1, vk.delta_g1))
    g2 = b"".join(g2_bytes(vk.curve, point) for point in (vk.beta_g2, vk.gamma_g2, vk.delta_g2))
    return g1, g2


def check_verifying_key(vk: VerifyingKey, where: str = "verifying key") -> None:
    """Every point of a verifying key is on its curve and in the subgroup.

    Raises:
        InputError: naming the first that is not.
    """
    g1, g2 = verifying_points(vk)
    groups: tuple[tuple[GroupId, bytes, tuple[str, ...]], ...] = (
        (1, g1, (*(f"IC {i}" for i in range(len(vk.ic))), "alpha_g1", "beta_g1", "delta_g1")),
        (2, g2, ("beta_g2", "gamma_g2", "delta_g2")),
    )
    for group, points, names in groups:
        found = native.points_check(vk.curve, group, points)
        if found is not None:
            index, why = found
            raise InputError(f"{names[index]} is {FAULTS[why]}", where, "make or copy the key again")


def with_alphabeta(vk: VerifyingKey) -> VerifyingKey:
    """The key with e(alpha, beta) filled in, which snarkjs's JSON shows and nobody reads.

    Its 12 coordinates are those of Fp12 = Fp6[w]/(w^2 - v), Fp6 = Fp2[v]/(v^3 - xi), lowest first.
    """
    curve = vk.curve
    value = native.pairing(curve, g1_bytes(curve, vk.alpha_g1), g2_bytes(curve, vk.beta_g2))
    raw, size = bytes(memoryview(value).cast("B")), curve.fp.bytes
    limbs = (int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size))
    return replace(vk, alphabeta=tuple(curve.fp.from_montgomery(limb) for limb in limbs))


__all__ = ["FAULTS", "ProvingKey", "check_verifying_key", "verifying_points", "with_alphabeta"]
