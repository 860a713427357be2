"""Points between the two forms that files hold: canonical integers (JSON) and Montgomery bytes (zkey, native arrays).

Meant for the few points of proofs and verifying keys; long arrays stay as they are mapped and are checked natively.
"""

from __future__ import annotations

from prover.curves import Curve, Fp2Element, G1Point, G2Point


def g1_bytes(curve: Curve, point: G1Point) -> bytes:
    """x, y little-endian in Montgomery form, ``2 * fp.bytes`` long; infinity is all zero."""
    if point is None:
        return bytes(2 * curve.fp.bytes)
    return b"".join(_to_bytes(curve, c) for c in point)


def g2_bytes(curve: Curve, point: G2Point) -> bytes:
    """x.c0, x.c1, y.c0, y.c1 little-endian in Montgomery form, ``4 * fp.bytes`` long; infinity is all zero."""
    if point is None:
        return bytes(4 * curve.fp.bytes)
    return b"".join(_to_bytes(curve, c) for coordinate in point for c in coordinate)


def g1_from_bytes(curve: Curve, data: bytes | memoryview) -> G1Point:
    """The inverse of :func:`g1_bytes`.

    Raises:
        ValueError: if a coordinate is not below the modulus.
    """
    x, y = _coordinates(curve, data, 2)
    return None if x == y == 0 else (x, y)


def g2_from_bytes(curve: Curve, data: bytes | memoryview) -> G2Point:
    """The inverse of :func:`g2_bytes`.

    Raises:
        ValueError: if a coordinate is not below the modulus.
    """
    x0, x1, y0, y1 = _coordinates(curve, data, 4)
    return None if x0 == x1 == y0 == y1 == 0 else ((x0, x1), (y0, y1))


def g1_on_curve(curve: Curve, point: G1Point) -> bool:
    """Whether y^2 = x^3 + b (infinity is on the curve). Says nothing of the subgroup."""
    if point is None:
        return True
    x, y = point
    return (y * y - x * x * x - curve.b) % curve.fp.modulus == 0


def g2_on_curve(curve: Curve, point: G2Point) -> bool:
    """Whether y^2 = x^3 + b2 over Fp2 (infinity is on the curve). Says nothing of the subgroup."""
    if point is None:
        return True
    p = curve.fp.modulus
    x, y = point
    left = fp2_mul(p, y, y)
    right = fp2_mul(p, fp2_mul(p, x, x), x)
    return left == ((right[0] + curve.b2[0]) % p, (right[1] + curve.b2[1]) % p)


def fp2_mul(p: int, a: Fp2Element, b: Fp2Element) -> Fp2Element:
    """Product in Fp2 = Fp[u]/(u^2 + 1)."""
    return (a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p


def _to_bytes(curve: Curve, value: int) -> bytes:
    return curve.fp.to_montgomery(value).to_bytes(curve.fp.bytes, "little")


def _coordinates(curve: Curve, data: bytes | memoryview, count: int) -> list[int]:
    size = curve.fp.bytes
    if len(data) != count * size:
        raise ValueError(f"a point of {count * size} bytes was expected, not {len(data)}")
    values = [int.from_bytes(data[i * size : (i + 1) * size], "little") for i in range(count)]
    if any(value >= curve.fp.modulus for value in values):
        raise ValueError("coordinate not below the field modulus")
    return [curve.fp.from_montgomery(value) for value in values]
