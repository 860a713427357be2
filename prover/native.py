"""The functions of the host library (``kernels/abi.h``), called without the GIL.

Buffers are numpy arrays or anything else with a contiguous buffer (memory maps, bytes). Their lengths are checked
against each other before C sees them; nothing is cut to the shorter. Elements are little-endian 64-bit limbs in the
form that the function states; ``abi.h`` has the conventions. Results are new uint64 arrays of shape ``(n, limbs)``
unless ``out`` is given. A call raises ``NativeError``, ``NativeOutOfMemory``, ``prover.cancel.Cancelled``, or
``prover.errors.MachineLacks`` where there is no usable library.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

from prover import buffers
from prover.cancel import CancelToken
from prover.csr import CsrMatrix
from prover.curves import Curve, PrimeField, fields
from prover.host_library import (
    BufferLike,
    NativeError,
    NativeOutOfMemory,
    call,
    cancel_address,
    cpu_variant,
    cpu_variants,
    exact_buffer,
    input_buffer,
    output_buffer,
    select_variant,
)
from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

__all__ = [
    "BufferLike",
    "FieldId",
    "FieldOp",
    "GroupId",
    "GroupOp",
    "NativeError",
    "NativeOutOfMemory",
    "PointFault",
    "cpu_variant",
    "cpu_variants",
    "field_check",
    "field_id",
    "field_op",
    "first_unsatisfied",
    "fixed_base_mul",
    "fp",
    "fp2",
    "fr",
    "group_mul",
    "group_op",
    "msm",
    "msm_combine",
    "mul_sub",
    "ntt",
    "pairing",
    "pairing_check",
    "point_words",
    "points_check",
    "points_in_subgroup",
    "program_run",
    "select_variant",
    "spmv",
    "zkey_matrices",
]

if TYPE_CHECKING:
    GroupId = Literal[1, 2]
else:
    GroupId = int


class FieldId(IntEnum):
    """The library's fields."""

    BLS12_381_FP = 0
    BLS12_381_FR = 1
    BN254_FP = 2
    BN254_FR = 3
    BLS12_381_FP2 = 4
    BN254_FP2 = 5

    @property
    def words(self) -> int:
        """64-bit words of an element."""
        return (6, 4, 4, 4, 12, 8)[self]


def fp(curve: Curve) -> FieldId:
    """The base field of a curve."""
    return FieldId(2 * curve.index)


def fr(curve: Curve) -> FieldId:
    """The scalar field of a curve."""
    return FieldId(2 * curve.index + 1)


def fp2(curve: Curve) -> FieldId:
    """The quadratic extension over which a curve's second group lies."""
    return FieldId(4 + curve.index)


def field_id(field: PrimeField) -> FieldId:
    """The library's number of a prime field.

    Raises:
        ValueError: if it is none of the four.
    """
    for index, known in enumerate(fields()):
        if known.modulus == field.modulus:
            return FieldId(index)
    raise ValueError(f"{field.name} is not a field of the host library")


class FieldOp(IntEnum):
    """Element-wise field operations."""

    ADD = 0
    SUB = 1
    MUL = 2
    SQR = 3
    NEG = 4
    INV = 5
    TO_MONTGOMERY = 6
    FROM_MONTGOMERY = 7

    @property
    def binary(self) -> bool:
        """Whether there is a second operand."""
        return self <= FieldOp.MUL


class GroupOp(IntEnum):
    """Element-wise group operations on affine points."""

    ADD = 0
    DOUBLE = 1
    NEG = 2


class PointFault(IntEnum):
    """Why a point is refused."""

    NOT_REDUCED = 1
    NOT_ON_CURVE = 2
    NOT_IN_SUBGROUP = 3


SCALAR_BYTES = 32


def point_words(curve: Curve, group: GroupId) -> int:
    """64-bit words of an affine point: 12 or 8 in G1, 24 or 16 in G2."""
    return 2 * group * curve.fp.limbs


def _result(out: BufferLike | None, n: int, words: int) -> tuple[BufferLike, int]:
    """Where n results of so many words go, ``out`` or a new array, and its address."""
    if out is None:
        import numpy as np

        out = np.empty((n, words), dtype=np.uint64)
    return out, output_buffer("out", out, n, 8 * words)


def _first(bad: ctypes.c_uint64, n: int) -> int | None:
    """The index that C reports: n stands for none."""
    return None if bad.value == n else bad.value


# --- fields ----------------------------------------------------------------------------------------------------------


def field_op(
    field: FieldId,
    op: FieldOp,
    a: BufferLike,
    b: BufferLike | None = None,
    out: BufferLike | None = None,
    shared: bool = False,
) -> BufferLike:
    """Element-wise operation over Montgomery elements. ``INV`` takes zero to zero. ``out`` may be ``a`` or ``b``.

    Args:
        field: the field.
        op: the operation.
        a: n elements.
        b: n elements for a binary operation.
        out: where the result goes; a new array by default.
        shared: compute through the 32-bit header that the GPU uses.

    Returns:
        ``out``.
    """
    size = 8 * field.words
    pa, n = input_buffer("a", a, size)
    if op.binary != (b is not None):
        raise ValueError(f"{op.name} takes {'two operands' if op.binary else 'one operand'}")
    pb = None if b is None else exact_buffer("b", b, n, size)
    out, po = _result(out, n, field.words)
    call("field_op_shared" if shared else "field_op", field, op, pa, pb, po, n)
    return out


def field_check(field: FieldId, a: BufferLike) -> int | None:
    """Index of the first element not below the modulus, or None."""
    pa, n = input_buffer("a", a, 8 * field.words)
    bad = ctypes.c_uint64()
    call("field_check", field, pa, n, ctypes.byref(bad))
    return _first(bad, n)


# --- groups ----------------------------------------------------------------------------------------------------------


def group_op(
    curve: Curve, group: GroupId, op: GroupOp, a: BufferLike, b: BufferLike | None = None, out: BufferLike | None = None
) -> BufferLike:
    """Element-wise operation over affine Montgomery points; ``ADD`` takes ``b``. Returns ``out``."""
    words = point_words(curve, group)
    pa, n = input_buffer("a", a, 8 * words)
    if (op is GroupOp.ADD) != (b is not None):
        raise ValueError(f"{op.name} takes {'two operands' if op is GroupOp.ADD else 'one operand'}")
    pb = None if b is None else exact_buffer("b", b, n, 8 * words)
    out, po = _result(out, n, words)
    call("group_op", curve.index, group, op, pa, pb, po, n)
    return out


def group_mul(
    curve: Curve,
    group: GroupId,
    points: BufferLike,
    scalars: BufferLike,
    out: BufferLike | None = None,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> BufferLike:
    """``scalars[i] * points[i]``, affine. Scalars canonical."""
    words = point_words(curve, group)
    pp, n = input_buffer("points", points, 8 * words)
    ps = exact_buffer("scalars", scalars, n, SCALAR_BYTES)
    out, po = _result(out, n, words)
    call("group_mul", curve.index, group, pp, ps, po, n, threads, cancel_address(cancel))
    return out


def fixed_base_mul(
    curve: Curve,
    group: GroupId,
    base: BufferLike,
    scalars: BufferLike,
    out: BufferLike | None = None,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> BufferLike:
    """``scalars[i] * base``, affine. Scalars canonical."""
    words = point_words(curve, group)
    pb = exact_buffer("base", base, 1, 8 * words)
    ps, n = input_buffer("scalars", scalars, SCALAR_BYTES)
    out, po = _result(out, n, words)
    call("fixed_base_mul", curve.index, group, pb, ps, po, n, threads, cancel_address(cancel))
    return out


def points_check(
    curve: Curve,
    group: GroupId,
    points: BufferLike,
    subgroup: bool = True,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> tuple[int, PointFault] | None:
    """The first point with a coordinate not reduced, off the curve, or (``subgroup``) outside the subgroup, and why.

    Infinity passes. None if all pass.
    """
    pp, n = input_buffer("points", points, 8 * point_words(curve, group))
    bad, why = ctypes.c_uint64(), ctypes.c_int32()
    checks = 3 if subgroup else 1
    out = (ctypes.byref(bad), ctypes.byref(why))
    call("points_check", curve.index, group, pp, n, checks, threads, cancel_address(cancel), *out)
    return None if bad.value == n else (bad.value, PointFault(why.value))


def points_in_subgroup(
    curve: Curve,
    group: GroupId,
    points: BufferLike,
    seed: bytes,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> bool:
    """Whether random combinations of the points lie in the subgroup: false for one stray point but with chance 2^-40.

    The points must be reduced and on the curve (``points_check(..., subgroup=False)``).

    Args:
        curve: the curve.
        group: 1 or 2.
        points: affine Montgomery points.
        seed: 32 bytes that whoever made the points could not know.
        threads: threads to use.
        cancel: asks to stop.
    """
    pp, n = input_buffer("points", points, 8 * point_words(curve, group))
    ps = exact_buffer("seed", seed, 1, 32)
    ok = ctypes.c_int32()
    call("points_check_combined", curve.index, group, pp, n, ps, threads, cancel_address(cancel), ctypes.byref(ok))
    return bool(ok.value)


def msm(
    curve: Curve,
    group: GroupId,
    bases: BufferLike,
    scalars: BufferLike,
    out: BufferLike | None = None,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> BufferLike:
    """``sum scalars[i] * bases[i]``, one affine point of shape ``(1, words)``. Scalars canonical."""
    words = point_words(curve, group)
    pb, n = input_buffer("bases", bases, 8 * words)
    ps = exact_buffer("scalars", scalars, n, SCALAR_BYTES)
    out, po = _result(out, 1, words)
    call("msm", curve.index, group, pb, ps, n, threads, cancel_address(cancel), po)
    return out


def msm_combine(
    curve: Curve, group: GroupId, points: BufferLike, positions: BufferLike, out: BufferLike | None = None
) -> BufferLike:
    """``sum 2^positions[i] * points[i]``, one affine point.

    Args:
        curve: the curve.
        group: 1 or 2.
        points: n times X, Y, ZZ, ZZZ (Montgomery) with x = X/ZZ and y = Y/ZZZ; ZZ = 0 at infinity.
        positions: n 32-bit words that do not fall, at most 256.
        out: where the sum goes; a new array of shape ``(1, words)`` by default.
    """
    words = point_words(curve, group)
    pp, n = input_buffer("points", points, 16 * words)
    pq = exact_buffer("positions", positions, n, 4)
    out, po = _result(out, 1, words)
    call("msm_combine", curve.index, group, pp, pq, n, po)
    return out


# --- transforms and vectors over Fr ----------------------------------------------------------------------------------


def ntt(
    curve: Curve,
    data: BufferLike,
    root: BufferLike,
    inverse: bool = False,
    shift: BufferLike | None = None,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> None:
    """Transform in place, natural order, Montgomery form, over the domain of ``root`` or its coset by ``shift``.

    Args:
        curve: the curve.
        data: 2^k elements.
        root: a primitive 2^k-th root of unity, Montgomery (one element).
        inverse: interpolate instead of evaluate; the factor 1/n is included.
        shift: the coset shift, Montgomery (one element); None for the domain itself.
        threads: threads to use.
        cancel: asks to stop; the data is then spoilt.
    """
    _, n = input_buffer("data", data, SCALAR_BYTES)
    if n == 0 or n & (n - 1):
        raise ValueError(f"data has {n} elements, not a power of two")
    pd = output_buffer("data", data, n, SCALAR_BYTES)
    pr = exact_buffer("root", root, 1, SCALAR_BYTES)
    ps = None if shift is None else exact_buffer("shift", shift, 1, SCALAR_BYTES)
    call("ntt", curve.index, pd, n.bit_length() - 1, int(inverse), pr, ps, threads, cancel_address(cancel))


def mul_sub(
    curve: Curve,
    a: BufferLike,
    b: BufferLike,
    c: BufferLike,
    out: BufferLike | None = None,
    canonical_out: bool = False,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> BufferLike:
    """``a*b - c`` element-wise over Fr, Montgomery in; ``out`` may be an operand."""
    pa, n = input_buffer("a", a, SCALAR_BYTES)
    pb, pc = exact_buffer("b", b, n, SCALAR_BYTES), exact_buffer("c", c, n, SCALAR_BYTES)
    out, po = _result(out, n, 4)
    call("mul_sub", curve.index, pa, pb, pc, po, n, int(canonical_out), threads, cancel_address(cancel))
    return out


def spmv(
    curve: Curve,
    row_ptr: BufferLike,
    col: BufferLike,
    coef: BufferLike,
    table: BufferLike,
    w: BufferLike,
    out: BufferLike | None = None,
    threads: int = 1,
    cancel: CancelToken | None = None,
) -> BufferLike:
    """Sparse matrix (CSR, dictionary-coded coefficients) times vector over Fr; Montgomery out.

    Args:
        curve: the curve.
        row_ptr: uint64, rows + 1 offsets.
        col: uint32 per entry, index into ``w``.
        coef: uint32 per entry, index into ``table``; 0 is +1 and 1 is -1.
        table: coefficients times R^2.
        w: the vector, canonical.
        out: rows elements; a new array by default.
        threads: threads to use.
        cancel: asks to stop.
    """
    prow, offsets = input_buffer("row_ptr", row_ptr, 8)
    if offsets == 0:
        raise ValueError("row_ptr is empty")
    rows = offsets - 1
    pcol, nnz = input_buffer("col", col, 4)
    pcoef = exact_buffer("coef", coef, nnz, 4)
    last = int.from_bytes(memoryview(row_ptr).cast("B")[8 * rows :], "little")
    if last != nnz:
        raise ValueError(f"row_ptr ends at {last}, but there are {nnz} entries")
    ptable, table_len = input_buffer("table", table, SCALAR_BYTES)
    pw, w_len = input_buffer("w", w, SCALAR_BYTES)
    out, po = _result(out, rows, 4)
    call(
        "spmv", curve.index, rows, prow, pcol, pcoef, ptable, table_len, pw, w_len, po, threads, cancel_address(cancel)
    )
    return out


def first_unsatisfied(curve: Curve, a: BufferLike, b: BufferLike, c: BufferLike) -> int | None:
    """The first row where ``a*b != c`` over Fr (Montgomery), or None."""
    pa, n = input_buffer("a", a, SCALAR_BYTES)
    pb, pc = exact_buffer("b", b, n, SCALAR_BYTES), exact_buffer("c", c, n, SCALAR_BYTES)
    bad = ctypes.c_uint64()
    call("first_unsatisfied", curve.index, pa, pb, pc, n, ctypes.byref(bad))
    return _first(bad, n)


def program_run(
    curve: Curve,
    code: BufferLike,
    constants: BufferLike,
    inputs: BufferLike,
    values: BufferLike,
    n_variables: int,
    cancel: CancelToken | None = None,
) -> tuple[int, str] | None:
    """Run a witness program (``prover.circuits.program``) in the registers ``values``.

    Args:
        curve: the curve.
        code: four uint32 words per instruction.
        constants: Montgomery.
        inputs: canonical.
        values: the registers; their contents do not matter. The first ``n_variables`` become the canonical witness.
        n_variables: length of the witness.
        cancel: asks to stop.

    Returns:
        None, or the instruction that failed and why.
    """
    pcode, n_instructions = input_buffer("code", code, 16)
    pconst, n_constants = input_buffer("constants", constants, SCALAR_BYTES)
    pin, n_inputs = input_buffer("inputs", inputs, SCALAR_BYTES)
    _, n_values = input_buffer("values", values, SCALAR_BYTES)
    pval = output_buffer("values", values, n_values, SCALAR_BYTES)
    failed = ctypes.c_uint64(n_instructions)
    operands = (pcode, n_instructions, pconst, n_constants, pin, n_inputs, pval, n_values, n_variables)
    try:
        call("program_run", curve.index, *operands, cancel_address(cancel), ctypes.byref(failed))
    except NativeError as error:
        if failed.value == n_instructions:
            raise
        return failed.value, error.what
    return None


# --- pairing ---------------------------------------------------------------------------------------------------------


def pairing_check(curve: Curve, g1: BufferLike, g2: BufferLike, threads: int = 1) -> bool:
    """Whether the product of ``e(g1[i], g2[i])`` is one. Points on the curve and in the subgroup (not checked)."""
    p1, n = input_buffer("g1", g1, 8 * point_words(curve, 1))
    p2 = exact_buffer("g2", g2, n, 8 * point_words(curve, 2))
    ok = ctypes.c_int32()
    call("pairing_check", curve.index, p1, p2, n, threads, ctypes.byref(ok))
    return bool(ok.value)


def pairing(curve: Curve, g1: BufferLike, g2: BufferLike) -> BufferLike:
    """The product of pairings, 12 Fp elements in Montgomery form, in the tower's order."""
    p1, n = input_buffer("g1", g1, 8 * point_words(curve, 1))
    p2 = exact_buffer("g2", g2, n, 8 * point_words(curve, 2))
    out, po = _result(None, 12, curve.fp.limbs)
    call("pairing", curve.index, p1, p2, n, po)
    return out


# --- proving key files -----------------------------------------------------------------------------------------------

ZKEY_ENTRY_BYTES = 44


class EntryFault(IntEnum):
    """Why an entry of a zkey's coefficients is refused."""

    MATRIX = 1
    CONSTRAINT = 2
    COLUMN = 3
    VALUE = 4
    INPUT_ROW = 5


@dataclass(frozen=True, slots=True)
class BadEntry:
    """The first entry that is refused, and why."""

    index: int
    why: EntryFault


def zkey_matrices(
    curve: Curve, entries: BufferLike, columns: int, constraints: int, inputs: int, rows: int
) -> tuple[CsrMatrix, CsrMatrix] | BadEntry:
    """The coefficients of a zkey as the matrices A and B, or the first entry that is wrong and why.

    Args:
        curve: the curve.
        entries: section 4 without its count.
        columns: wires.
        constraints: without the input rows.
        inputs: input rows, the last entries.
        rows: rows of the matrices, at least ``constraints + inputs``.

    Returns:
        A and B with one table between them; equal coefficients mostly share an entry.
    """
    pentries, n = input_buffer("entries", entries, ZKEY_ENTRY_BYTES)
    row_ptr = [buffers.zeros(rows + 1, 1).cast("B").cast("Q") for _ in range(2)]
    col, coef = (buffers.zeros((n + 1) // 2, 1).cast("B").cast("I")[:n] for _ in range(2))
    table = buffers.zeros(n + 2, 4)
    table_len, bad, why = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int32()
    out = [buffers.address(b) if b.nbytes else 0 for b in (*row_ptr, col, coef, table)]
    results = (ctypes.byref(table_len), ctypes.byref(bad), ctypes.byref(why))
    call("zkey_matrices", curve.index, pentries, n, columns, constraints, inputs, rows, *out, *results)
    if bad.value != n:
        return BadEntry(bad.value, EntryFault(why.value))
    used = buffers.rows(table, 0, table_len.value, 4)
    nnz = row_ptr[0][rows]
    a = CsrMatrix(row_ptr[0], col[:nnz], coef[:nnz], used)
    return a, CsrMatrix(row_ptr[1], col[nnz:], coef[nnz:], used)
