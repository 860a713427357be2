"""Sparse matrices over Fr in compressed rows with dictionary-coded coefficients: the form that ``spmv`` evaluates."""

from __future__ import annotations

from collections.abc import Sequence

from prover.buffers import BufferLike
from prover.curves import PrimeField
from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PLUS_ONE = 0
"""Index of the coefficient +1 in every table."""
MINUS_ONE = 1
"""Index of the coefficient -1 in every table."""


@dataclass(frozen=True, slots=True, eq=False)
class CsrMatrix:
    """A sparse matrix over Fr, in numpy arrays or other typed buffers.

    Row i has the entries k in ``row_ptr[i] .. row_ptr[i+1]``: coefficient ``table[coef[k]]`` in column ``col[k]``.
    A table entry is ``value * R^2 mod r`` (little-endian 64-bit limbs), so that one Montgomery product with a canonical
    witness value yields the Montgomery form of the product. Entries 0 and 1 are +1 and -1. Matrices of one circuit may
    share a table. Column order within a row is free; the entries of a column that occurs twice add up.
    """

    row_ptr: BufferLike
    """``uint64[rows + 1]``."""
    col: BufferLike
    """``uint32[nnz]``."""
    coef: BufferLike
    """``uint32[nnz]``, indices into ``table``."""
    table: BufferLike
    """``uint64[k, 4]``, k >= 2."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.row_ptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.col)


def encode_coefficients(field: PrimeField, values: Sequence[int]) -> bytes:
    """``value * R^2 mod r`` of each, little-endian: table entries."""
    r2, modulus, size = field.r2, field.modulus, field.bytes
    return b"".join([(value * r2 % modulus).to_bytes(size, "little") for value in values])


def coefficient_table(field: PrimeField, values: Sequence[int]) -> npt.NDArray[np.uint64]:
    """The table +1, -1, ``values``... as ``uint64[2 + len(values), 4]``."""
    import numpy as np

    entries = encode_coefficients(field, [1, -1, *values])
    return np.frombuffer(entries, dtype="<u8").reshape(-1, field.limbs)
