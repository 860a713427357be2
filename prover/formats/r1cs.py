"""Constraint systems of circom (``.r1cs``, version 1) as CSR matrices, read and written.

Section 1: u32 n8, prime, u32 wires, u32 public outputs, u32 public inputs, u32 private inputs, u64 labels, u32
constraints. Section 2: for each constraint and each of A, B, C a u32 count and that many (u32 wire, value), canonical.
Section 3: a u64 label for each wire. Sections 4 and 5: custom gates (PLONK only). Wires: the constant one, outputs,
public inputs, private inputs, internal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover import native
from prover.buffers import BufferLike
from prover.csr import MINUS_ONE, PLUS_ONE, CsrMatrix
from prover.curves import Curve, PrimeField
from prover.formats.atomic import atomic_file
from prover.formats.container import (
    Container,
    ContainerWriter,
    Cursor,
    Section,
    open_container,
    read_prime,
    scalar_field_curve,
)
from prover.formats.errors import FormatError, StrPath

MAGIC = b"r1cs"
VERSION = 1
SECTIONS = {1: "header", 2: "constraints", 3: "labels", 4: "custom gates", 5: "custom gate uses"}

U32Array = npt.NDArray[np.uint32]
U64Array = npt.NDArray[np.uint64]

_WORDS = 8
"""u32 words of a value: both curves' scalars have 32 bytes."""
_STRIDE = 1 + _WORDS
"""u32 words of a (wire, value) pair."""


_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], dtype=np.uint64)
"""Odd multipliers of the hash by which equal values are found; a collision costs only time."""


@dataclass(frozen=True, slots=True, eq=False)
class R1cs:
    """A constraint system a * b = c, one row for each constraint (no input rows), one column for each wire."""

    curve: Curve
    n_wires: int
    n_outputs: int
    n_public_inputs: int
    n_private_inputs: int
    a: CsrMatrix
    b: CsrMatrix
    c: CsrMatrix
    n_labels: int = 0
    path: str = ""

    @property
    def n_public(self) -> int:
        """What a verifier sees: outputs and public inputs, without the constant one."""
        return self.n_outputs + self.n_public_inputs

    @property
    def n_constraints(self) -> int:
        """Rows of each matrix."""
        return self.a.rows


def read_r1cs(path: StrPath) -> R1cs:
    """Read a constraint system. A, B and C share one table of their distinct coefficients.

    Raises:
        FormatError: what is wrong, in which section, at which byte; custom gates are refused.
    """
    container = open_container(path, MAGIC, VERSION, SECTIONS)
    header = Cursor(container.section(1))
    n8, prime = read_prime(header)
    curve = scalar_field_curve(header.section, n8, prime, 0)
    at = header.at
    n_wires, n_outputs, n_public, n_private = (header.u32() for _ in range(4))
    n_labels, n_constraints = header.u64(), header.u32()
    header.end()
    if 1 + n_outputs + n_public + n_private > n_wires:
        what = (
            f"{n_outputs} outputs, {n_public} public and {n_private} private inputs and the constant in {n_wires} wires"
        )
        raise header.section.error(what, at)
    _refuse_custom_gates(container)
    if 3 in container.sections:
        container.section(3).expect_size(8 * n_wires, f"{n_wires} labels of 8 bytes")
    a, b, c = _read_constraints(container.section(2), curve.fr, n_wires, n_constraints)
    return R1cs(curve, n_wires, n_outputs, n_public, n_private, a, b, c, n_labels, container.path)


def write_r1cs(path: StrPath, r1cs: R1cs) -> None:
    """Write a constraint system atomically; label i of wire i.

    Raises:
        WriteError: if the file cannot be written.
        ValueError: if the matrices differ in their number of rows.
    """
    if not r1cs.a.rows == r1cs.b.rows == r1cs.c.rows:
        raise ValueError(f"matrices of {r1cs.a.rows}, {r1cs.b.rows} and {r1cs.c.rows} rows")
    fr = r1cs.curve.fr
    counts = (r1cs.n_wires, r1cs.n_outputs, r1cs.n_public_inputs, r1cs.n_private_inputs)
    header = (
        (fr.bytes, 4),
        (fr.modulus, fr.bytes),
        *((n, 4) for n in counts),
        (r1cs.n_wires, 8),
        (r1cs.n_constraints, 4),
    )
    with atomic_file(path) as stream:
        out = ContainerWriter(stream, MAGIC, VERSION, 3)
        out.section(1, b"".join(value.to_bytes(size, "little") for value, size in header))
        out.section(2, _constraint_words(fr, (r1cs.a, r1cs.b, r1cs.c)))
        out.section(3, np.arange(r1cs.n_wires, dtype="<u8"))


def canonical_table(field: PrimeField, table: BufferLike) -> U64Array:
    """A coefficient table's values without their factor R^2, ``uint64[k, 4]``."""
    return _times(field, table, pow(field.r2, -1, field.modulus))


def _refuse_custom_gates(container: Container) -> None:
    for number in (4, 5):
        if number in container.sections and any(container.section(number).data[:4]):
            raise container.section(number).error("custom gates", fix="Groth16 has none: compile without them")


def _read_constraints(
    section: Section, field: PrimeField, n_wires: int, n_constraints: int
) -> tuple[CsrMatrix, CsrMatrix, CsrMatrix]:
    starts, counts = _scan(section, n_constraints)
    words = np.frombuffer(section.data, "<u4")
    wires, values, positions = [], [], []
    for which in range(3):
        position = _pair_positions(starts[which::3], counts[which::3])
        wire = words[position]
        if len(wire) and int(wire.max()) >= n_wires:
            bad = int(np.flatnonzero(wire >= n_wires)[0])
            what = f"wire {int(wire[bad])} is out of range, {n_wires} exist"
            raise section.error(what, 4 * int(position[bad]))
        value = _windows(words)[position + 1].view("<u8")
        unreduced = native.field_check(native.field_id(field), value)
        if unreduced is not None:
            raise section.error("coefficient is not below the field modulus", 4 * int(position[unreduced]) + 4)
        wires.append(wire)
        values.append(value)
        positions.append(position)
    coef, table = _coefficients(field, np.concatenate(values))
    out, first = [], 0
    for which, wire in enumerate(wires):
        row_ptr = np.zeros(n_constraints + 1, dtype=np.uint64)
        np.cumsum(counts[which::3].astype(np.uint64), out=row_ptr[1:])
        out.append(CsrMatrix(row_ptr, wire, coef[first : first + len(wire)], table))
        first += len(wire)
    return out[0], out[1], out[2]


def _scan(section: Section, n_constraints: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each of the 3 * n_constraints combinations begins (in u32 words) and how many pairs it has.

    A combination's length is only known from its count, so this is a walk; it makes one step a combination.
    """
    n = 3 * n_constraints
    if section.size % 4:
        raise section.error(f"{section.size} bytes are no multiple of 4")
    if 4 * n > section.size:
        raise section.error(f"{n_constraints} constraints promised, {section.size} bytes are too few")
    words = section.data.cast("I")
    starts: list[int] = []
    at = 0
    try:
        for _ in range(n):
            starts.append(at)
            at += 1 + _STRIDE * words[at]
    except IndexError:
        if at > len(words):
            raise _overrun(section, len(starts) - 2, starts[-2]) from None
        what = f"{n_constraints} constraints promised, the section ends after {(len(starts) - 1) // 3}"
        raise section.error(what, 4 * at) from None
    if at > len(words):
        raise _overrun(section, n - 1, starts[-1])
    if at < len(words):
        raise section.error(f"{4 * (len(words) - at)} bytes after the last constraint", 4 * at)
    begin = np.array(starts, dtype=np.int64)
    return begin, np.frombuffer(section.data, "<u4")[begin].astype(np.int64)


def _overrun(section: Section, combination: int, word: int) -> FormatError:
    constraint, which = divmod(combination, 3)
    return section.error(f"constraint {constraint}, {'ABC'[which]}: more entries than the section holds", 4 * word)


def _pair_positions(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The word at which each (wire, value) pair of the combinations begins."""
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.asarray(np.repeat(starts + 1, counts) + _STRIDE * within, dtype=np.int64)


def _coefficients(field: PrimeField, values: U64Array) -> tuple[U32Array, U64Array]:
    """Canonical values as indices into a table of R^2 multiples that starts with +1 and -1."""
    units = _pack(field, [1, field.modulus - 1])
    index, distinct = _distinct_rows(np.concatenate([units, values]))
    # Put +1 and -1 in front, whatever order the distinct values came in.
    place = np.full(len(distinct), 2)
    place[index[:2]] = PLUS_ONE, MINUS_ONE
    order = np.argsort(place, kind="stable")
    rank = np.empty(len(distinct), dtype=np.uint32)
    rank[order] = np.arange(len(distinct), dtype=np.uint32)
    table = _times(field, distinct[order], field.r2)
    return rank[index[2:]], table


def _distinct_rows(values: U64Array) -> tuple[U32Array, U64Array]:
    """Index of each row of ``uint64[n, 4]`` among the distinct rows, and these, in an order of no meaning."""
    key = (values * _MIX).sum(axis=1, dtype=np.uint64)
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    distinct = values[first]
    if not np.array_equal(distinct[index], values):  # two values with one hash
        distinct, index = np.unique(values, axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.uint32), distinct


def _constraint_words(field: PrimeField, matrices: tuple[CsrMatrix, CsrMatrix, CsrMatrix]) -> npt.NDArray[np.uint32]:
    rows = matrices[0].rows
    pointers = [np.frombuffer(m.row_ptr, np.uint64).astype(np.int64) for m in matrices]
    lengths = np.stack([pointer[1:] - pointer[:-1] for pointer in pointers], axis=1).reshape(-1)
    ends = np.cumsum(1 + _STRIDE * lengths)
    starts = ends - (1 + _STRIDE * lengths)
    words = np.zeros(int(ends[-1]) if rows else 0, dtype="<u4")
    words[starts] = lengths
    for which, matrix in enumerate(matrices):
        position = _pair_positions(starts[which::3], lengths[which::3])
        words[position] = np.frombuffer(matrix.col, np.uint32)
        values = canonical_table(field, matrix.table)[np.frombuffer(matrix.coef, np.uint32)]
        _windows(words)[position + 1] = values.view("<u4").reshape(len(position), _WORDS)
    return words


def _windows(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Row i of this view is the value that begins at word i."""
    rows = max(len(words) - _WORDS + 1, 0)
    return np.lib.stride_tricks.as_strided(words, (rows, _WORDS), (words.itemsize, words.itemsize))


def _times(field: PrimeField, rows: BufferLike, factor: int) -> U64Array:
    data, n8, modulus = bytes(rows), field.bytes, field.modulus
    values = [int.from_bytes(data[i : i + n8], "little") for i in range(0, len(data), n8)]
    return _pack(field, [value * factor % modulus for value in values])


def _pack(field: PrimeField, values: list[int]) -> U64Array:
    n8 = field.bytes
    data = b"".join([value.to_bytes(n8, "little") for value in values])
    return np.frombuffer(data, dtype="<u8").reshape(-1, field.limbs)
