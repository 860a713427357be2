"""The verifying equation by other people's code: arkworks on BLS12-381, py_ecc on BN254."""

from __future__ import annotations

import py_arkworks_bls12381 as arkworks
from py_ecc import optimized_bn128 as bn128

from prover.curves import BLS12_381
from prover.formats import bellman
from prover.formats.proof import Proof, VerifyingKey


def accepts(vk: VerifyingKey, public: list[int], proof: Proof) -> bool:
    """e(A, B) = e(alpha, beta) e(IC(public), gamma) e(C, delta)."""
    return _arkworks(vk, public, proof) if vk.curve is BLS12_381 else _py_ecc(vk, public, proof)


def _arkworks(vk: VerifyingKey, public: list[int], proof: Proof) -> bool:
    def g1(point):
        return arkworks.G1Point.from_compressed_bytes(bellman.compress_g1(point))

    def g2(point):
        return arkworks.G2Point.from_compressed_bytes(bellman.compress_g2(point))

    statement = g1(vk.ic[0])
    for value, point in zip(public, vk.ic[1:], strict=True):
        statement = statement + g1(point) * arkworks.Scalar.from_le_bytes(value.to_bytes(32, "little"))
    left = [g1(proof.a), -g1(vk.alpha_g1), -statement, -g1(proof.c)]
    right = [g2(proof.b), g2(vk.beta_g2), g2(vk.gamma_g2), g2(vk.delta_g2)]
    return arkworks.GT.multi_pairing(left, right) == arkworks.GT.one()


def _py_ecc(vk: VerifyingKey, public: list[int], proof: Proof) -> bool:
    def g1(point):
        return bn128.Z1 if point is None else (bn128.FQ(point[0]), bn128.FQ(point[1]), bn128.FQ(1))

    def g2(point):
        return (*(bn128.FQ2(list(c)) for c in point), bn128.FQ2.one())

    statement = g1(vk.ic[0])
    for value, point in zip(public, vk.ic[1:], strict=True):
        statement = bn128.add(statement, bn128.multiply(g1(point), value))
    pairs = [
        (g1(proof.a), proof.b),
        (bn128.neg(g1(vk.alpha_g1)), vk.beta_g2),
        (bn128.neg(statement), vk.gamma_g2),
        (bn128.neg(g1(proof.c)), vk.delta_g2),
    ]
    product = bn128.FQ12.one()
    for left, right in pairs:
        product = product * bn128.pairing(g2(right), left, final_exponentiate=False)
    return bn128.final_exponentiate(product) == bn128.FQ12.one()
