"""Encodings of bellman and bellperson: the 192-byte compressed proof and the uncompressed verifying key.

The Zcash form: big-endian canonical coordinates, in Fp2 c1 before c0; the top three bits of the first byte say
compressed, infinity, and that y is the greater of the two square roots. Source: the pairing crate's BLS12-381 notes,
draft-irtf-cfrg-pairing-friendly-curves, appendix C.
"""

from __future__ import annotations

from prover.curves import BLS12_381, Curve, Fp2Element, G1Point, G2Point
from prover.formats.atomic import write_files
from prover.formats.errors import FormatError, StrPath
from prover.formats.points import fp2_mul, g1_on_curve, g2_on_curve
from prover.formats.proof import Proof, VerifyingKey
from prover.formats.small_file import read_small_file

COMPRESSED = 0x80
INFINITY = 0x40
GREATER = 0x20
_FLAGS = COMPRESSED | INFINITY | GREATER

G1_COMPRESSED = 48
G2_COMPRESSED = 96
PROOF_BYTES = 2 * G1_COMPRESSED + G2_COMPRESSED
MAX_PUBLIC = 1 << 20


def encode_proof(proof: Proof) -> bytes:
    """A (48) | B (96) | C (48) of a BLS12-381 proof.

    Raises:
        ValueError: for another curve, which leaves no room for the flags.
    """
    if proof.curve is not BLS12_381:
        raise ValueError(f"the compressed proof is defined for {BLS12_381.spelling}, not {proof.curve.spelling}")
    return compress_g1(proof.a) + compress_g2(proof.b) + compress_g1(proof.c)


def decode_proof(data: bytes, name: StrPath = "proof") -> Proof:
    """The inverse of :func:`encode_proof`. Like bellman, it takes no points at infinity. Subgroups are not checked.

    Raises:
        FormatError: length, flags, coordinate not below the modulus, no point with this x; ``name`` is its path.
    """
    if len(data) != PROOF_BYTES:
        raise FormatError(name, f"{len(data)} bytes, a proof has {PROOF_BYTES}")
    a = decompress_g1(data[:48], name, "A", 0)
    b = decompress_g2(data[48:144], name, "B", 48)
    c = decompress_g1(data[144:], name, "C", 144)
    for label, offset, point in (("A", 0, a), ("B", 48, b), ("C", 144, c)):
        if point is None:
            raise FormatError(name, "point at infinity", section=label, offset=offset)
    return Proof(BLS12_381, a, b, c)


def encode_verifying_key(key: VerifyingKey) -> bytes:
    """alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, u32 count, ic; uncompressed.

    Raises:
        ValueError: if the key holds no beta_g1 and delta_g1 (a ``verification_key.json`` has none).
    """
    if key.beta_g1 is None or key.delta_g1 is None:
        raise ValueError("bellman's verifying key holds beta_g1 and delta_g1, this one does not")
    curve = key.curve
    return b"".join(
        [
            uncompressed_g1(curve, key.alpha_g1),
            uncompressed_g1(curve, key.beta_g1),
            uncompressed_g2(curve, key.beta_g2),
            uncompressed_g2(curve, key.gamma_g2),
            uncompressed_g1(curve, key.delta_g1),
            uncompressed_g2(curve, key.delta_g2),
            len(key.ic).to_bytes(4, "big"),
            *(uncompressed_g1(curve, point) for point in key.ic),
        ]
    )


def decode_verifying_key(data: bytes, name: StrPath = "verifying key", curve: Curve = BLS12_381) -> VerifyingKey:
    """The inverse of :func:`encode_verifying_key`; points are checked to be on the curve, not their subgroup.

    Raises:
        FormatError: length, flags, coordinates, points off the curve, infinity outside of ic.
    """
    reader = _Reader(curve, data, name)
    alpha_g1, beta_g1 = reader.g1("alpha_g1"), reader.g1("beta_g1")
    beta_g2, gamma_g2 = reader.g2("beta_g2"), reader.g2("gamma_g2")
    delta_g1, delta_g2 = reader.g1("delta_g1"), reader.g2("delta_g2")
    count = int.from_bytes(reader.take(4, "ic"), "big")
    if not 1 <= count <= MAX_PUBLIC + 1:
        raise FormatError(name, f"{count} points are not plausible", section="ic", offset=reader.at - 4)
    ic = tuple(reader.g1(f"ic[{i}]", infinity=True) for i in range(count))
    if reader.at != len(data):
        raise FormatError(name, f"{len(data) - reader.at} bytes after the last point", offset=reader.at)
    return VerifyingKey(curve, alpha_g1, beta_g2, gamma_g2, delta_g2, ic, beta_g1, delta_g1)


def read_compressed_proof(path: StrPath) -> Proof:
    """Read a file of 192 bytes.

    Raises:
        FormatError: as :func:`decode_proof`, or if the file cannot be read.
    """
    return decode_proof(read_small_file(path, PROOF_BYTES), path)


def write_compressed_proof(path: StrPath, proof: Proof) -> None:
    """Write 192 bytes atomically.

    Raises:
        WriteError: if they cannot be written.
    """
    write_files({path: encode_proof(proof)})


def read_verifying_key(path: StrPath, curve: Curve = BLS12_381) -> VerifyingKey:
    """Read a verifying key.

    Raises:
        FormatError: as :func:`decode_verifying_key`, or if the file cannot be read.
    """
    limit = (3 + MAX_PUBLIC + 1) * 2 * curve.fp.bytes + 3 * 4 * curve.fp.bytes + 4
    return decode_verifying_key(read_small_file(path, limit), path, curve)


def write_verifying_key(path: StrPath, key: VerifyingKey) -> None:
    """Write a verifying key atomically.

    Raises:
        WriteError: if it cannot be written.
    """
    write_files({path: encode_verifying_key(key)})


def compress_g1(point: G1Point) -> bytes:
    """48 bytes of a BLS12-381 point."""
    if point is None:
        return bytes([COMPRESSED | INFINITY]) + bytes(G1_COMPRESSED - 1)
    x, y = point
    return _flagged(x.to_bytes(48, "big"), COMPRESSED | (GREATER if _greater(y) else 0))


def compress_g2(point: G2Point) -> bytes:
    """96 bytes of a BLS12-381 point."""
    if point is None:
        return bytes([COMPRESSED | INFINITY]) + bytes(G2_COMPRESSED - 1)
    x, y = point
    return _flagged(x[1].to_bytes(48, "big") + x[0].to_bytes(48, "big"), COMPRESSED | (GREATER if _greater2(y) else 0))


def decompress_g1(data: bytes, name: StrPath = "point", label: str = "", offset: int = 0) -> G1Point:
    """The point of 48 bytes, on the curve, maybe outside the subgroup.

    Raises:
        FormatError: flags, coordinate not below the modulus, no point with this x.
    """
    greater, (x,) = _compressed_coordinates(data, 1, name, label, offset)
    if x is None:
        return None
    p = BLS12_381.fp.modulus
    y = sqrt(p, (x * x * x + BLS12_381.b) % p)
    if y is None:
        raise FormatError(name, "no point of the curve has this x", section=label, offset=offset)
    return x, y if _greater(y) == greater else -y % p


def decompress_g2(data: bytes, name: StrPath = "point", label: str = "", offset: int = 0) -> G2Point:
    """The point of 96 bytes, on the curve, maybe outside the subgroup.

    Raises:
        FormatError: flags, coordinate not below the modulus, no point with this x.
    """
    greater, (x1, x0) = _compressed_coordinates(data, 2, name, label, offset)
    if x0 is None or x1 is None:
        return None
    p, b = BLS12_381.fp.modulus, BLS12_381.b2
    x = (x0, x1)
    cube = fp2_mul(p, fp2_mul(p, x, x), x)
    y = fp2_sqrt(p, ((cube[0] + b[0]) % p, (cube[1] + b[1]) % p))
    if y is None:
        raise FormatError(name, "no point of the curve has this x", section=label, offset=offset)
    return x, y if _greater2(y) == greater else (-y[0] % p, -y[1] % p)


def uncompressed_g1(curve: Curve, point: G1Point) -> bytes:
    """x | y, big-endian."""
    if point is None:
        return bytes([INFINITY]) + bytes(2 * curve.fp.bytes - 1)
    return b"".join(c.to_bytes(curve.fp.bytes, "big") for c in point)


def uncompressed_g2(curve: Curve, point: G2Point) -> bytes:
    """x.c1 | x.c0 | y.c1 | y.c0, big-endian."""
    if point is None:
        return bytes([INFINITY]) + bytes(4 * curve.fp.bytes - 1)
    return b"".join(c.to_bytes(curve.fp.bytes, "big") for coordinate in point for c in reversed(coordinate))


def sqrt(p: int, a: int) -> int | None:
    """A square root modulo a prime p = 3 mod 4, or ``None``."""
    root = pow(a, (p + 1) // 4, p)
    return root if root * root % p == a else None


def fp2_sqrt(p: int, a: Fp2Element) -> Fp2Element | None:
    """A square root in Fp[u]/(u^2 + 1), p = 3 mod 4, or ``None``: x0^2 = (a0 +- |a|) / 2, x1 = a1 / (2 x0)."""
    a0, a1 = a
    if a1 == 0:
        root = sqrt(p, a0)
        if root is not None:
            return root, 0
        root = sqrt(p, -a0 % p)
        return None if root is None else (0, root)
    norm = sqrt(p, (a0 * a0 + a1 * a1) % p)
    if norm is None:
        return None
    half = (p + 1) // 2
    x0 = sqrt(p, (a0 + norm) * half % p)
    if x0 is None:
        x0 = sqrt(p, (a0 - norm) * half % p)
    if x0 is None:
        return None
    return x0, a1 * pow(2 * x0, -1, p) % p


class _Reader:
    """Uncompressed points one after another."""

    def __init__(self, curve: Curve, data: bytes, name: StrPath) -> None:
        self.curve, self.data, self.name, self.at = curve, data, name, 0

    def take(self, size: int, label: str) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) < size:
            raise FormatError(self.name, "file truncated", section=label, offset=len(self.data))
        self.at += size
        return piece

    def g1(self, label: str, *, infinity: bool = False) -> G1Point:
        coordinates = self._coordinates(2, label, infinity)
        if coordinates is None:
            return None
        point = (coordinates[0], coordinates[1])
        if not g1_on_curve(self.curve, point):
            raise self._error("point not on the curve", label, 2)
        return point

    def g2(self, label: str) -> G2Point:
        coordinates = self._coordinates(4, label, False)
        if coordinates is None:
            return None
        x1, x0, y1, y0 = coordinates
        if not g2_on_curve(self.curve, ((x0, x1), (y0, y1))):
            raise self._error("point not on the curve", label, 4)
        return (x0, x1), (y0, y1)

    def _coordinates(self, count: int, label: str, infinity: bool) -> list[int] | None:
        size = self.curve.fp.bytes
        data = self.take(count * size, label)
        if data[0] & INFINITY:
            if data[0] != INFINITY or any(data[1:]):
                raise self._error("wrong flags", label, count)
            if not infinity:
                raise self._error("point at infinity", label, count)
            return None
        values = [int.from_bytes(data[i * size : (i + 1) * size], "big") for i in range(count)]
        if max(values) >= self.curve.fp.modulus:
            raise self._error("coordinate not below the field modulus", label, count)
        return values

    def _error(self, what: str, label: str, count: int) -> FormatError:
        return FormatError(self.name, what, section=label, offset=self.at - count * self.curve.fp.bytes)


def _compressed_coordinates(
    data: bytes, count: int, name: StrPath, label: str, offset: int
) -> tuple[bool, list[int] | list[None]]:
    """Whether y is the greater root, and the coordinates of x as they come (``None`` each for infinity)."""

    def error(what: str) -> FormatError:
        return FormatError(name, what, section=label, offset=offset)

    flags = data[0] & _FLAGS
    if not flags & COMPRESSED:
        raise error("point is not compressed")
    if flags & INFINITY:
        if data[0] != COMPRESSED | INFINITY or any(data[1:]):
            raise error("wrong flags of a point at infinity")
        return False, [None] * count
    plain = bytes([data[0] & ~_FLAGS]) + data[1:]
    values = [int.from_bytes(plain[48 * i : 48 * (i + 1)], "big") for i in range(count)]
    if max(values) >= BLS12_381.fp.modulus:
        raise error("coordinate not below the field modulus")
    return bool(flags & GREATER), values


def _flagged(data: bytes, flags: int) -> bytes:
    return bytes([data[0] | flags]) + data[1:]


def _greater(y: int) -> bool:
    return 2 * y > BLS12_381.fp.modulus


def _greater2(y: Fp2Element) -> bool:
    return _greater(y[1]) if y[1] else _greater(y[0])
