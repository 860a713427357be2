"""Verifying proofs, one or many: e(A, B) = e(alpha, beta) e(IC(public), gamma) e(C, delta)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from prover import native
from prover.cancel import CancelToken
from prover.curves import Curve, G1Point, G2Point
from prover.errors import InputError
from prover.formats.points import g1_bytes, g2_bytes
from prover.formats.proof import Proof, VerifyingKey
from prover.groth16.keys import FAULTS, check_verifying_key
from prover.group_testing import faulty
from prover.native import GroupId

_BATCH_BYTES = 16
"""Coefficients of a batch are 128-bit: a batch with a bad proof passes with probability 2^-128."""


class Verifier:
    """A verifying key that was checked, ready for any number of proofs. Safe to use from several threads."""

    def __init__(self, vk: VerifyingKey, where: str = "verifying key") -> None:
        """Check the key.

        Raises:
            InputError: if a point is not on its curve or not in the subgroup.
        """
        check_verifying_key(vk, where)
        self.vk = vk
        self._ic = b"".join(g1_bytes(vk.curve, point) for point in vk.ic)
        self._alpha = g1_bytes(vk.curve, vk.alpha_g1)
        p = vk.curve.fp.modulus
        self._fixed_g2 = b"".join(
            g2_bytes(vk.curve, _negative(point, p)) for point in (vk.beta_g2, vk.gamma_g2, vk.delta_g2)
        )

    def verify(self, public: Sequence[int], proof: Proof, threads: int = 1, where: str = "proof") -> bool:
        """Whether the proof is valid for these public inputs. ``where`` names the proof in messages.

        Raises:
            InputError: wrong curve, wrong number of inputs, an input not in [0, r), a point outside its group.
        """
        self.check(public, proof, where)
        r = self.vk.curve.fr.modulus
        return self._equation([(public, proof)], [1], r, threads)

    def verify_batch(
        self,
        statements: Sequence[tuple[Sequence[int], Proof]],
        threads: int = 1,
        cancel: CancelToken | None = None,
        *,
        checked: bool = False,
    ) -> bool:
        """Whether all are valid: one equation over a random linear combination, with one Miller product.

        ``checked``: every statement has passed ``check``.

        Raises:
            InputError: as ``verify``.
            Cancelled: if asked.
        """
        for public, proof in statements if not checked else ():
            self.check(public, proof)
        if not statements:
            return True
        if len(statements) == 1:
            return self._equation(statements, [1], self.vk.curve.fr.modulus, threads, cancel)
        coefficients = [int.from_bytes(os.urandom(_BATCH_BYTES), "little") + 1 for _ in statements]
        return self._equation(statements, coefficients, self.vk.curve.fr.modulus, threads, cancel)

    def faulty(
        self,
        statements: Sequence[tuple[Sequence[int], Proof]],
        threads: int = 1,
        cancel: CancelToken | None = None,
    ) -> list[int]:
        """Which are not valid, in order. All are checked at once; a batch that fails is divided.

        Raises:
            InputError: as ``verify``.
            Cancelled: if asked.
        """
        return faulty(len(statements), lambda some: self.verify_batch([statements[i] for i in some], threads, cancel))

    def check(self, public: Sequence[int], proof: Proof, where: str = "proof") -> None:
        """What must hold before the equation means anything.

        Raises:
            InputError: as ``verify``.
        """
        curve = self.vk.curve
        if proof.curve is not curve:
            raise InputError(
                f"proof is over {proof.curve.spelling}, the key over {curve.spelling}", where, "use its own key"
            )
        check_public(self.vk, public)
        for name, group, point in (("A", 1, proof.a), ("B", 2, proof.b), ("C", 1, proof.c)):
            _check_point(curve, name, 2 if group == 2 else 1, point, where)

    def _equation(
        self,
        statements: Sequence[tuple[Sequence[int], Proof]],
        z: Sequence[int],
        r: int,
        threads: int,
        cancel: CancelToken | None = None,
    ) -> bool:
        """prod e(z_i A_i, B_i) e(sum(z) alpha, -beta) e(sum z_i IC_i, -gamma) e(sum z_i C_i, -delta) = 1."""
        curve = self.vk.curve
        a, c = (b"".join(g1_bytes(curve, point) for point in points) for points in _a_and_c(statements))
        alpha, total = self._alpha, sum(z) % r
        if z != [1]:
            scaled = bytearray(len(a))
            native.group_mul(curve, 1, a, _scalars(z), scaled, threads, cancel)
            a = bytes(scaled)
            alpha = _sum(curve, alpha, [total], threads, cancel)
            c = _sum(curve, c, z, threads, cancel)
        inputs = [
            sum(k * public[i] for k, (public, _) in zip(z, statements, strict=True)) % r
            for i in range(self.vk.n_public)
        ]
        g1 = a + alpha + _sum(curve, self._ic, [total, *inputs], threads, cancel) + c
        g2 = b"".join(g2_bytes(curve, proof.b) for _, proof in statements) + self._fixed_g2
        return native.pairing_check(curve, g1, g2, threads)


def check_public(vk: VerifyingKey, public: Sequence[int]) -> None:
    """Public inputs are as many as the key wants, each in [0, r).

    Raises:
        InputError: if not.
    """
    if len(public) != vk.n_public:
        raise InputError(f"{len(public)} values, the key wants {vk.n_public}", "public inputs", "use its own key")
    for index, value in enumerate(public):
        if not 0 <= value < vk.curve.fr.modulus:
            raise InputError("not in [0, r)", f"public input {index}", "reduce it or correct it")


def verify(vk: VerifyingKey, public: Sequence[int], proof: Proof) -> bool:
    """Whether a proof is valid. For more than one proof under a key keep a :class:`Verifier`.

    Raises:
        InputError: as ``Verifier`` and ``Verifier.verify``.
    """
    return Verifier(vk).verify(public, proof)


def _a_and_c(statements: Sequence[tuple[Sequence[int], Proof]]) -> tuple[list[G1Point], list[G1Point]]:
    return [proof.a for _, proof in statements], [proof.c for _, proof in statements]


def _negative(point: G2Point, p: int) -> G2Point:
    if point is None:
        return None
    x, (y0, y1) = point
    return x, (-y0 % p, -y1 % p)


def _check_point(curve: Curve, name: str, group: GroupId, point: G1Point | G2Point, where: str) -> None:
    encoded = g1_bytes(curve, point) if group == 1 else g2_bytes(curve, point)  # type: ignore[arg-type]
    found = native.points_check(curve, group, encoded)
    if found is not None:
        raise InputError(f"point {name} is {FAULTS[found[1]]}", where, "make or copy the proof again")


def _scalars(values: Sequence[int]) -> bytes:
    return b"".join(value.to_bytes(32, "little") for value in values)


def _sum(curve: Curve, bases: bytes, scalars: Sequence[int], threads: int, cancel: CancelToken | None) -> bytes:
    out = bytearray(2 * curve.fp.bytes)
    native.msm(curve, 1, bases, _scalars(scalars), out, threads, cancel)
    return bytes(out)


__all__ = ["Verifier", "check_public", "verify"]
