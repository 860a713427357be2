"""Sparse matrices over Fr in compressed rows with dictionary-coded coefficients: the form that ``spmv`` evaluates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover.curves import PrimeField

U32Array = npt.NDArray[np.uint32]
U64Array = npt.NDArray[np.uint64]

PLUS_ONE = 0
"""Index of the coefficient +1 in every table."""
MINUS_ONE = 1
"""Index of the coefficient -1 in every table."""


@dataclass(frozen=True, slots=True)
class CsrMatrix:
    """A sparse matrix over Fr.

    Row i has the entries k in ``row_ptr[i] .. row_ptr[i+1]``: coefficient ``table[coef[k]]`` in column ``col[k]``.
    A table entry is ``value * R^2 mod r`` (little-endian 64-bit limbs), so that one Montgomery product with a canonical
    witness value yields the Montgomery form of the product. Entries 0 and 1 are +1 and -1. Matrices of one circuit may
    share a table. Column order within a row, and repeated columns, are allowed.
    """

    row_ptr: U64Array
    """``uint64[rows + 1]``."""
    col: U32Array
    """``uint32[nnz]``."""
    coef: U32Array
    """``uint32[nnz]``, indices into ``table``."""
    table: U64Array
    """``uint64[k, 4]``, k >= 2."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.row_ptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.col)


def encode_coefficient(field: PrimeField, value: int) -> bytes:
    """``value * R^2 mod r``, little-endian: a table entry."""
    return (value * field.r2 % field.modulus).to_bytes(field.bytes, "little")


def coefficient_table(field: PrimeField, values: list[int]) -> U64Array:
    """The table +1, -1, ``values``... as ``uint64[2 + len(values), 4]``."""
    entries = b"".join(encode_coefficient(field, value) for value in (1, -1, *values))
    return np.frombuffer(entries, dtype="<u8").reshape(-1, field.limbs)
