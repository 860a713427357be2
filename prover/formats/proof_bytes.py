"""A proof as the bytes that travel: bellman's 192 on BLS12-381, the 256 of EIP-197 (Ethereum) on BN254."""

from __future__ import annotations

from prover.curves import BLS12_381, BN254, Curve
from prover.formats import bellman
from prover.formats.errors import FormatError, StrPath
from prover.formats.points import g1_on_curve, g2_on_curve
from prover.formats.proof import Proof

EIP197_BYTES = 256
_COORDINATE = 32


def encode_proof(proof: Proof) -> bytes:
    """The proof's bytes: bellman's compressed form, or A, B, C uncompressed, big-endian, in Fp2 c1 before c0.

    Raises:
        ValueError: for a BN254 point at infinity, which a Groth16 proof holds with no more than negligible chance.
    """
    if proof.curve is BLS12_381:
        return bellman.encode_proof(proof)
    if proof.a is None or proof.b is None or proof.c is None:
        raise ValueError("a proof with a point at infinity")
    (b_x, b_y) = proof.b
    numbers = (*proof.a, b_x[1], b_x[0], b_y[1], b_y[0], *proof.c)
    return b"".join(number.to_bytes(_COORDINATE, "big") for number in numbers)


def decode_proof(curve: Curve, data: bytes, name: StrPath = "proof") -> Proof:
    """The inverse of :func:`encode_proof`. Points are checked to be on the curve, not their subgroup.

    Raises:
        FormatError: length, coordinate not below the modulus, point off the curve; ``name`` is its path.
    """
    if curve is BLS12_381:
        return bellman.decode_proof(data, name)
    if len(data) != EIP197_BYTES:
        raise FormatError(name, f"{len(data)} bytes, a proof has {EIP197_BYTES}")
    parts = [data[i : i + _COORDINATE] for i in range(0, EIP197_BYTES, _COORDINATE)]
    a_x, a_y, b_x1, b_x0, b_y1, b_y0, c_x, c_y = (int.from_bytes(part, "big") for part in parts)
    for index, part in enumerate(parts):
        if int.from_bytes(part, "big") >= BN254.fp.modulus:
            raise FormatError(name, "coordinate not below the field modulus", offset=index * _COORDINATE)
    a, b, c = (a_x, a_y), ((b_x0, b_x1), (b_y0, b_y1)), (c_x, c_y)
    for label, offset, good in (
        ("A", 0, g1_on_curve(BN254, a)),
        ("B", 64, g2_on_curve(BN254, b)),
        ("C", 192, g1_on_curve(BN254, c)),
    ):
        if not good:
            raise FormatError(name, "point not on the curve", section=label, offset=offset)
    return Proof(BN254, a, b, c)


__all__ = ["EIP197_BYTES", "decode_proof", "encode_proof"]
