"""Section 4 of a zkey: the coefficients of A and B as one list of entries, and the same as CSR matrices.

An entry is u32 matrix (0 A, 1 B), u32 constraint, u32 signal (a column), value * R^2 mod r. The last n_public + 1
entries are the input rows: coefficient 1 of A at row n_constraints + s, column s. C is absent: c = a * b on a satisfied
circuit.
"""

from __future__ import annotations

from prover import native
from prover.buffers import BufferLike
from prover.csr import PLUS_ONE, CsrMatrix
from prover.curves import Curve
from prover.formats.container import Section
from prover.native import ZKEY_ENTRY_BYTES, BadEntry, EntryFault

FAULTS = {
    EntryFault.MATRIX: ("matrix is out of range, A and B exist", 0),
    EntryFault.CONSTRAINT: ("constraint is out of range, {constraints} exist", 4),
    EntryFault.COLUMN: ("signal is out of range, {columns} exist", 8),
    EntryFault.VALUE: ("value is not below the field modulus", 12),
    EntryFault.INPUT_ROW: ("not the input row that belongs here", 0),
}
"""What is wrong, and at which byte of the entry."""


def read_matrices(
    section: Section, curve: Curve, n_vars: int, n_public: int, domain: int
) -> tuple[CsrMatrix, CsrMatrix, int]:
    """A and B with ``domain`` rows each, and the number of constraints that the input rows tell.

    Raises:
        FormatError: size, indices out of range, values not below r, input rows that are not where snarkjs puts them.
    """
    count = int.from_bytes(section.data[:4], "little") if section.size >= 4 else 0
    section.expect_size(4 + count * ZKEY_ENTRY_BYTES, f"{count} entries of {ZKEY_ENTRY_BYTES} bytes")
    inputs = n_public + 1
    if count < inputs:
        raise section.error(f"{count} entries, {inputs} input rows alone need as many")
    at = 4 + (count - inputs) * ZKEY_ENTRY_BYTES + 4
    constraints = int.from_bytes(section.data[at : at + 4], "little")
    if constraints + inputs > domain:
        raise section.error(f"{constraints} constraints and {inputs} input rows exceed the domain of {domain}", at)
    result = native.zkey_matrices(curve, section.data[4:], n_vars, constraints, inputs, domain)
    if isinstance(result, BadEntry):
        what, byte = FAULTS[result.why]
        text = what.format(constraints=constraints, columns=n_vars)
        raise section.error(f"coefficient {result.index}: {text}", 4 + result.index * ZKEY_ENTRY_BYTES + byte)
    return *result, constraints


def entries(curve: Curve, a: CsrMatrix, b: CsrMatrix, n_constraints: int, n_public: int) -> BufferLike:
    """Section 4 without its count: row by row, A before B. Both matrices hold the input rows.

    Raises:
        ValueError: if the input rows are not there, or something lies beyond them.
    """
    import numpy as np

    entry = np.dtype([("matrix", "<u4"), ("constraint", "<u4"), ("signal", "<u4"), ("value", "<u8", (4,))])
    inputs, rows = n_public + 1, n_constraints + n_public + 1
    _check_input_rows(curve, a, b, n_constraints, inputs)
    pointers = [np.frombuffer(m.row_ptr, "<u8").astype(np.int64)[: rows + 1] for m in (a, b)]
    out = np.zeros(a.nnz + b.nnz, dtype=entry)
    for which, matrix in enumerate((a, b)):
        row = np.repeat(np.arange(rows), pointers[which][1:] - pointers[which][:-1])
        # Behind the other matrix's entries of earlier rows, and for B those of its own row.
        at = np.arange(matrix.nnz) + pointers[1 - which][row + which]
        out["matrix"][at] = which
        out["constraint"][at] = row
        out["signal"][at] = np.frombuffer(matrix.col, "<u4")
        out["value"][at] = np.frombuffer(matrix.table, "<u8").reshape(-1, 4)[np.frombuffer(matrix.coef, "<u4")]
    return out.view(np.uint8)


def _check_input_rows(curve: Curve, a: CsrMatrix, b: CsrMatrix, n_constraints: int, inputs: int) -> None:
    rows = n_constraints + inputs
    if min(a.rows, b.rows) < rows:
        raise ValueError(f"matrices of {a.rows} and {b.rows} rows, {n_constraints} constraints and {inputs} inputs")
    first = a.nnz - inputs
    good = list(map(int, a.row_ptr[n_constraints : rows + 1])) == list(range(first, a.nnz + 1))
    good = good and int(a.row_ptr[a.rows]) == a.nnz and int(b.row_ptr[n_constraints]) == b.nnz == int(b.row_ptr[b.rows])
    good = good and list(map(int, a.col[first:])) == list(range(inputs))
    if not good or any(int(c) != PLUS_ONE for c in a.coef[first:]):
        raise ValueError("the last rows of A are not the input rows")
