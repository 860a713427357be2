"""Proving keys of snarkjs (``.zkey``, version 1, Groth16): mapped, checked, and written so that snarkjs takes them.

Sections: 1 protocol; 2 header with both primes, counts and the verifying key's points; 3 IC; 4 coefficients; 5 A,
6 B_G1, 7 B_G2, 8 L, 9 H queries; 10 circuit hash and contributions. Points are affine, little-endian, Montgomery;
infinity is all zero. H is in the coset-Lagrange basis (element i belongs to index 2i + 1 of the doubled domain).
"""

from __future__ import annotations

from collections.abc import Mapping

from prover import buffers, native
from prover.buffers import BufferLike
from prover.csr import CsrMatrix
from prover.curves import CURVES, Curve
from prover.formats.atomic import atomic_file
from prover.formats.coefficients import entries, read_matrices
from prover.formats.container import Container, ContainerWriter, Cursor, Section, open_container, read_prime
from prover.formats.errors import StrPath
from prover.formats.points import g1_from_bytes, g1_on_curve, g2_from_bytes, g2_on_curve
from prover.formats.proof import VerifyingKey
from prover.lean_dataclass import dataclass
from prover.native import ZKEY_ENTRY_BYTES, GroupId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"zkey"
VERSION = 1
GROTH16 = 1
PROTOCOLS = {1: "groth16", 2: "plonk", 10: "fflonk"}
SECTIONS = {
    1: "protocol",
    2: "header",
    3: "IC",
    4: "coefficients",
    5: "A query",
    6: "B_G1 query",
    7: "B_G2 query",
    8: "L query",
    9: "H query",
    10: "contributions",
}
HASH_BYTES = 64
HEADER_POINTS = ("alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2")


@dataclass(frozen=True, slots=True, eq=False)
class Zkey:
    """A Groth16 proving key. Points are rows of ``2 * limbs`` (G1) or ``4 * limbs`` (G2) 64-bit words, Montgomery.

    Of a key that was read, points are read-only views of the mapped file, maybe unaligned. Those of the header were
    checked to be on the curve, those of IC to be reduced, those of the queries were not looked at.
    """

    curve: Curve
    n_vars: int
    """Wires, the constant one included."""
    n_public: int
    """Public inputs, without the constant one."""
    n_constraints: int
    log_n: int
    """The domain has ``2 ** log_n`` points."""
    alpha_g1: BufferLike
    """This and the next five: one point each."""
    beta_g1: BufferLike
    beta_g2: BufferLike
    gamma_g2: BufferLike
    delta_g1: BufferLike
    delta_g2: BufferLike
    ic: BufferLike
    """``n_public + 1`` G1 points."""
    a_query: BufferLike
    """``n_vars`` G1 points."""
    b_g1_query: BufferLike
    """``n_vars`` G1 points."""
    b_g2_query: BufferLike
    """``n_vars`` G2 points."""
    l_query: BufferLike
    """``n_vars - n_public - 1`` G1 points."""
    h_query: BufferLike
    """``2 ** log_n`` G1 points, coset-Lagrange basis."""
    a: CsrMatrix
    """Constraints, then the input rows, then empty rows up to the domain (or none: a writer needs no padding)."""
    b: CsrMatrix
    """As many rows, the same table."""
    circuit_hash: bytes = bytes(HASH_BYTES)
    contributions: bytes = bytes(4)
    """u32 count and the records, as they are in the file."""
    path: str = ""
    data: BufferLike = b""
    """All bytes of the file that was read."""

    @property
    def domain_size(self) -> int:
        """Points of the evaluation domain."""
        return 1 << self.log_n

    @property
    def rows(self) -> int:
        """Constraints and input rows."""
        return self.n_constraints + self.n_public + 1

    def matrices(self) -> tuple[CsrMatrix, CsrMatrix]:
        """A and B. C is absent: c = a * b on a satisfied circuit."""
        return self.a, self.b

    def queries(self) -> tuple[tuple[str, GroupId, BufferLike], ...]:
        """Name, group (1 or 2) and points of the five queries, for checks of every point."""
        return (
            (SECTIONS[5], 1, self.a_query),
            (SECTIONS[6], 1, self.b_g1_query),
            (SECTIONS[7], 2, self.b_g2_query),
            (SECTIONS[8], 1, self.l_query),
            (SECTIONS[9], 1, self.h_query),
        )

    def verifying_key(self) -> VerifyingKey:
        """The verifying key in integers."""
        points = {name: getattr(self, name) for name in HEADER_POINTS}
        return _verifying_key(self.curve, points, self.ic)


def read_zkey(path: StrPath) -> Zkey:
    """Map a proving key and check all but the queries' points (the caller does that natively, see ``Zkey.queries``).

    Raises:
        FormatError: what is wrong, in which section, at which byte.
    """
    container = open_container(path, MAGIC, VERSION, SECTIONS)
    curve, (n_vars, n_public, log_n), points = _read_header(container)
    sizes = {5: n_vars, 6: n_vars, 7: n_vars, 8: n_vars - n_public - 1, 9: 1 << log_n}
    queries = {
        number: _points(container.section(number), curve, 2 if number == 7 else 1, n) for number, n in sizes.items()
    }
    a, b, n_constraints = read_matrices(container.section(4), curve, n_vars, n_public, 1 << log_n)
    circuit_hash, contributions = _read_contributions(container)
    return Zkey(
        curve=curve,
        n_vars=n_vars,
        n_public=n_public,
        n_constraints=n_constraints,
        log_n=log_n,
        **points,
        ic=_read_ic(container.section(3), curve, n_public),
        a_query=queries[5],
        b_g1_query=queries[6],
        b_g2_query=queries[7],
        l_query=queries[8],
        h_query=queries[9],
        a=a,
        b=b,
        circuit_hash=circuit_hash,
        contributions=contributions,
        path=container.path,
        data=container.data,
    )


def read_verifying_key(path: StrPath) -> VerifyingKey:
    """The verifying key of a proving key's file, of which nothing else is read.

    Raises:
        FormatError: what is wrong, in which section, at which byte.
    """
    container = open_container(path, MAGIC, VERSION, SECTIONS)
    curve, (_, n_public, _), points = _read_header(container)
    return _verifying_key(curve, points, _read_ic(container.section(3), curve, n_public))


def write_zkey(path: StrPath, key: Zkey) -> None:
    """Write a proving key atomically, sections in snarkjs's order.

    Raises:
        WriteError: if the file cannot be written.
        ValueError: if a buffer's size does not follow from the counts, or the matrices lack the input rows.
    """
    with atomic_file(path) as stream:
        write_zkey_to(stream, key)


def write_zkey_to(stream: Any, key: Zkey) -> None:
    """Write a proving key's bytes to a stream (anything with ``write``).

    Raises:
        ValueError: if a buffer's size does not follow from the counts, or the matrices lack the input rows.
    """
    _check_sizes(key)
    coefficients = entries(key.curve, key.a, key.b, key.n_constraints, key.n_public)
    fp, fr = key.curve.fp, key.curve.fr
    counts = (key.n_vars, key.n_public, key.domain_size)
    out = ContainerWriter(stream, MAGIC, VERSION, len(SECTIONS))
    out.section(1, _u32(GROTH16))
    out.section(
        2,
        _u32(fp.bytes) + fp.modulus.to_bytes(fp.bytes, "little"),
        _u32(fr.bytes) + fr.modulus.to_bytes(fr.bytes, "little"),
        b"".join(map(_u32, counts)),
        *(getattr(key, name) for name in HEADER_POINTS),
    )
    out.section(4, _u32(memoryview(coefficients).nbytes // ZKEY_ENTRY_BYTES), coefficients)
    out.section(3, key.ic)
    out.section(9, key.h_query)
    out.section(8, key.l_query)
    out.section(5, key.a_query)
    out.section(6, key.b_g1_query)
    out.section(7, key.b_g2_query)
    out.section(10, key.circuit_hash, key.contributions)


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _read_header(container: Container) -> tuple[Curve, tuple[int, int, int], dict[str, memoryview]]:
    """The curve; wires, public inputs and log of the domain; the points by name."""
    _check_protocol(container)
    header = Cursor(container.section(2))
    curve = _read_curve(header)
    counts = _read_counts(header, curve)
    return curve, counts, _read_header_points(header, curve)


def _check_protocol(container: Container) -> None:
    cursor = Cursor(container.section(1))
    protocol = cursor.u32()
    cursor.end()
    if protocol != GROTH16:
        name = PROTOCOLS.get(protocol, f"number {protocol}")
        raise cursor.section.error(f"protocol {name}, only groth16 is proved", fix="make a groth16 key")


def _read_curve(header: Cursor) -> Curve:
    section = header.section
    n8q, q = read_prime(header)
    n8r, r = read_prime(header)
    for candidate in CURVES:
        if candidate.fp.modulus == q:
            if n8q != candidate.fp.bytes:
                raise section.error(f"coordinates of {n8q} bytes, {candidate.spelling} has {candidate.fp.bytes}")
            if r != candidate.fr.modulus:
                raise section.error(f"the scalar field is not that of {candidate.spelling}", 4 + n8q)
            if n8r != candidate.fr.bytes:
                raise section.error(f"scalars of {n8r} bytes, {candidate.spelling} has {candidate.fr.bytes}", 4 + n8q)
            return candidate
    known = " and ".join(c.spelling for c in CURVES)
    raise section.error("unknown curve", fix=f"give a key of one of the curves {known}")


def _read_counts(header: Cursor, curve: Curve) -> tuple[int, int, int]:
    at = header.at
    n_vars, n_public, domain = header.u32(), header.u32(), header.u32()
    if n_public + 1 > n_vars:
        raise header.section.error(f"{n_public} public inputs and the constant in {n_vars} wires", at)
    if domain == 0 or domain & (domain - 1):
        raise header.section.error(f"domain of {domain} is not a power of two", at + 8)
    log_n = domain.bit_length() - 1
    if log_n > curve.fr.two_adicity:
        what = f"domain of 2^{log_n} exceeds the two-adicity 2^{curve.fr.two_adicity} of {curve.spelling}"
        raise header.section.error(what, at + 8)
    return n_vars, n_public, log_n


def _read_header_points(header: Cursor, curve: Curve) -> dict[str, memoryview]:
    """The header's points: below the modulus, on the curve, not infinity."""
    points = {}
    for name in HEADER_POINTS:
        group = 1 if name.endswith("g1") else 2
        at = header.at
        data = header.take(2 * group * curve.fp.bytes)
        _check_point(header.section, curve, group, data, at, name)
        points[name] = buffers.as_rows(data, 2 * group * curve.fp.limbs)
    header.end()
    return points


def _read_ic(section: Section, curve: Curve, n_public: int) -> memoryview:
    """Every coordinate below the modulus. (The curve equation is the caller's: there may be very many points.)"""
    ic = _points(section, curve, 1, n_public + 1)
    bad = native.field_check(native.fp(curve), buffers.as_rows(ic, curve.fp.limbs))
    if bad is not None:
        raise section.error(f"point {bad // 2}: coordinate not below the field modulus", bad * curve.fp.bytes)
    return ic


def _verifying_key(curve: Curve, points: Mapping[str, BufferLike], ic: BufferLike) -> VerifyingKey:
    header: dict[str, Any] = {
        name: (g1_from_bytes if name.endswith("g1") else g2_from_bytes)(curve, bytes(points[name]))
        for name in HEADER_POINTS
    }
    data, size = memoryview(ic).cast("B"), 2 * curve.fp.bytes
    return VerifyingKey(
        curve=curve, ic=tuple(g1_from_bytes(curve, data[i : i + size]) for i in range(0, len(data), size)), **header
    )


def _check_point(section: Section, curve: Curve, group: int, data: memoryview, at: int, name: str) -> None:
    try:
        if group == 1:
            g1 = g1_from_bytes(curve, data)
            good, infinite = g1_on_curve(curve, g1), g1 is None
        else:
            g2 = g2_from_bytes(curve, data)
            good, infinite = g2_on_curve(curve, g2), g2 is None
    except ValueError as error:
        raise section.error(f"{name}: {error}", at) from None
    if not good:
        raise section.error(f"{name}: point not on the curve", at)
    if infinite:
        raise section.error(f"{name}: point at infinity", at)


def _points(section: Section, curve: Curve, group: GroupId, count: int) -> memoryview:
    return section.rows(count, native.point_words(curve, group), "points")


def _read_contributions(container: Container) -> tuple[bytes, bytes]:
    """The circuit hash and the rest of section 10, raw; a file without it counts as no contributions."""
    if 10 not in container.sections:
        return bytes(HASH_BYTES), bytes(4)
    section = container.section(10)
    if section.size < HASH_BYTES + 4:
        raise section.error(f"{section.size} bytes, at least {HASH_BYTES + 4} are needed")
    return bytes(section.data[:HASH_BYTES]), bytes(section.data[HASH_BYTES:])


def _check_sizes(key: Zkey) -> None:
    counts = dict.fromkeys(HEADER_POINTS, 1) | {
        "ic": key.n_public + 1,
        "a_query": key.n_vars,
        "b_g1_query": key.n_vars,
        "b_g2_query": key.n_vars,
        "l_query": key.n_vars - key.n_public - 1,
        "h_query": key.domain_size,
    }
    for name, count in counts.items():
        size = count * 8 * native.point_words(key.curve, 2 if "g2" in name else 1)
        found = memoryview(getattr(key, name)).nbytes
        if found != size:
            raise ValueError(f"{name} has {found} bytes, {count} points need {size}")
    if len(key.circuit_hash) != HASH_BYTES or len(key.contributions) < 4:
        raise ValueError("circuit_hash or contributions have another form than the file's")
