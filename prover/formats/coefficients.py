"""Section 4 of a zkey: the coefficients of A and B as one list of entries, and the same as CSR matrices.

An entry is u32 matrix (0 A, 1 B), u32 constraint, u32 signal (a column), value * R^2 mod r. The last n_public + 1
entries are the input rows: coefficient 1 of A at row n_constraints + s, column s. C is absent: c = a * b on a satisfied
circuit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prover.csr import MINUS_ONE, PLUS_ONE, CsrMatrix, U32Array, U64Array, coefficient_table
from prover.curves import Curve
from prover.formats.container import Section
from prover.formats.errors import FormatError
from prover.formats.reduced import first_unreduced

ENTRY = np.dtype([("matrix", "<u4"), ("constraint", "<u4"), ("signal", "<u4"), ("value", "<u8", (4,))])
"""44 bytes, packed: values are not aligned."""

Entries = npt.NDArray[Any]
"""A structured array of ``ENTRY``."""

_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], dtype=np.uint64)
"""Odd multipliers of the hash by which equal values are found; a collision costs only time."""


def read_entries(section: Section, curve: Curve, n_vars: int, n_public: int, domain: int) -> tuple[Entries, int]:
    """The entries as a view of the map, checked, and the number of constraints that the input rows tell.

    Raises:
        FormatError: size, indices out of range, values not below r, input rows that are not where snarkjs puts them.
    """
    count = int.from_bytes(section.data[:4], "little") if section.size >= 4 else 0
    section.expect_size(4 + count * ENTRY.itemsize, f"{count} entries of {ENTRY.itemsize} bytes")
    entries = section.view(ENTRY, count, 4)
    inputs = n_public + 1
    if count < inputs:
        raise section.error(f"{count} entries, but {inputs} input rows")
    n_constraints = int(entries["constraint"][count - inputs])
    if n_constraints + inputs > domain:
        raise section.error(
            f"{n_constraints} constraints and {inputs} input rows exceed the domain of {domain}",
            4 + (count - inputs) * ENTRY.itemsize + 4,
        )
    _check_input_rows(section, curve, entries, inputs, n_constraints)
    _check_limit(section, entries, "matrix", 2, "matrix", count)
    _check_limit(section, entries, "constraint", n_constraints, "constraint", count - inputs)
    _check_limit(section, entries, "signal", n_vars, "signal", count)
    bad = first_unreduced(entries["value"], curve.fr.modulus)
    if bad is not None:
        raise _at(section, bad, "value is not below the field modulus", 12)
    return entries, n_constraints


def matrices(curve: Curve, entries: Entries, rows: int, *, share_equal: bool = False) -> tuple[CsrMatrix, CsrMatrix]:
    """A and B with ``rows`` rows each (the domain, so that a product needs no padding) and one table for both.

    ``share_equal`` gives equal coefficients one table entry: a smaller table for a key that is used often, at the price
    of a sort. Without it only +1 and -1 are shared.
    """
    coef, table = dictionary(curve, entries["value"], share_equal=share_equal)
    matrix = np.ascontiguousarray(entries["matrix"])
    constraint = np.ascontiguousarray(entries["constraint"])
    signal = np.ascontiguousarray(entries["signal"])
    pair = []
    for which in (0, 1):
        chosen = np.flatnonzero(matrix == which)
        row = constraint[chosen]
        if np.any(row[1:] < row[:-1]):
            order = np.argsort(row, kind="stable")
            chosen, row = chosen[order], row[order]
        row_ptr = np.zeros(rows + 1, dtype=np.uint64)
        np.cumsum(np.bincount(row, minlength=rows).astype(np.uint64), out=row_ptr[1:])
        pair.append(CsrMatrix(row_ptr, signal[chosen], coef[chosen], table))
    return pair[0], pair[1]


def entries_from_matrices(curve: Curve, a: CsrMatrix, b: CsrMatrix, n_constraints: int, n_public: int) -> Entries:
    """Section 4 for a circuit's A and B: row by row, A before B, then the input rows.

    Only the first ``n_constraints`` rows of the matrices are read.
    """
    nnz_a, nnz_b = int(a.row_ptr[n_constraints]), int(b.row_ptr[n_constraints])
    entries = np.zeros(nnz_a + nnz_b + n_public + 1, dtype=ENTRY)
    # Entries of A before row i, plus those of B before row i (before row i + 1 for B's own).
    row_a = np.repeat(np.arange(n_constraints, dtype=np.uint32), _lengths(a, n_constraints))
    row_b = np.repeat(np.arange(n_constraints, dtype=np.uint32), _lengths(b, n_constraints))
    at_a = np.arange(nnz_a, dtype=np.int64) + b.row_ptr[row_a].astype(np.int64)
    at_b = np.arange(nnz_b, dtype=np.int64) + a.row_ptr[row_b.astype(np.int64) + 1].astype(np.int64)
    for which, matrix, row, at, nnz in ((0, a, row_a, at_a, nnz_a), (1, b, row_b, at_b, nnz_b)):
        entries["matrix"][at] = which
        entries["constraint"][at] = row
        entries["signal"][at] = matrix.col[:nnz]
        entries["value"][at] = matrix.table[matrix.coef[:nnz]]
    inputs = entries[nnz_a + nnz_b :]
    inputs["constraint"] = n_constraints + np.arange(n_public + 1)
    inputs["signal"] = np.arange(n_public + 1)
    inputs["value"] = coefficient_table(curve.fr, [])[PLUS_ONE]
    return entries


def dictionary(curve: Curve, values: npt.NDArray[Any], *, share_equal: bool) -> tuple[U32Array, U64Array]:
    """``uint64[n, 4]`` coefficients (times R^2) as indices into a table that starts with +1 and -1."""
    units = coefficient_table(curve.fr, [])
    plus = _rows_equal(values, units[PLUS_ONE])
    minus = _rows_equal(values, units[MINUS_ONE])
    coef = np.zeros(len(values), dtype=np.uint32)
    coef[minus] = MINUS_ONE
    others = np.flatnonzero(~(plus | minus))
    distinct = values[others]
    if share_equal:
        index, distinct = distinct_rows(distinct)
        coef[others] = index + np.uint32(2)
    else:
        coef[others] = np.arange(2, 2 + len(others), dtype=np.uint32)
    return coef, np.concatenate([units, distinct])


def distinct_rows(values: U64Array) -> tuple[U32Array, U64Array]:
    """Index of each row of ``uint64[n, 4]`` among the distinct rows, and these, in an order of no meaning."""
    key = (values * _MIX).sum(axis=1, dtype=np.uint64)
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    distinct = values[first]
    if not np.array_equal(distinct[index], values):  # two values with one hash
        distinct, index = np.unique(values, axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.uint32), distinct


def _rows_equal(values: npt.NDArray[Any], row: U64Array) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = values[:, 0] == row[0]
    for limb in range(1, len(row)):
        equal &= values[:, limb] == row[limb]
    return equal


def _lengths(matrix: CsrMatrix, rows: int) -> npt.NDArray[np.int64]:
    row_ptr = matrix.row_ptr[: rows + 1].astype(np.int64)
    return row_ptr[1:] - row_ptr[:-1]


def _check_input_rows(section: Section, curve: Curve, entries: Entries, inputs: int, n_constraints: int) -> None:
    first = len(entries) - inputs
    tail = entries[first:]
    number = np.arange(inputs)
    good = (tail["matrix"] == 0) & (tail["constraint"] == n_constraints + number) & (tail["signal"] == number)
    good &= _rows_equal(tail["value"], coefficient_table(curve.fr, [])[PLUS_ONE])
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise _at(section, first + bad, f"not the row of input {bad}, which belongs here")


def _check_limit(section: Section, entries: Entries, name: str, limit: int, what: str, count: int) -> None:
    column = entries[name][:count]
    if count and int(column.max()) >= limit:
        bad = int(np.flatnonzero(column >= limit)[0])
        raise _at(section, bad, f"{what} {int(column[bad])} is out of range, {limit} exist", ENTRY.fields[name][1])  # type: ignore[index]


def _at(section: Section, entry: int, what: str, byte: int = 0) -> FormatError:
    return section.error(f"coefficient {entry}: {what}", 4 + entry * ENTRY.itemsize + byte)
