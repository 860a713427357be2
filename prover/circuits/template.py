"""Recorded stretches of a circuit as arrays, and templates: stretches stamped many times by arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from prover.circuits.circuit import Region
from prover.circuits.expression import INDEX_MASK, PARAMETER, PRIVATE, TEMPORARY

I64Array = npt.NDArray[np.int64]
I32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixRows:
    """Rows of one matrix: how many entries each has, then all entries."""

    lengths: I32Array
    """``int32[rows]``."""
    ids: I64Array
    """``int64[nnz]``: identifiers of variables."""
    coefs: I32Array
    """``int32[nnz]``: numbers in the pool of coefficients."""


@dataclass(frozen=True, slots=True, eq=False)
class Relocation:
    """Identifiers of a template that change with each stamp: its own variables move, parameters are replaced."""

    ids: I64Array
    """``int64[n]``, parameters as 0."""
    private: I64Array
    """``int64[n]``: 1 where the identifier is a variable of the template's own."""
    temporary: I64Array
    parameter_at: I64Array
    """Positions of parameters."""
    parameter: I64Array
    """Which parameter each is."""

    @staticmethod
    def of(ids: I64Array) -> Relocation:
        """Sort the identifiers by what happens to them."""
        base = ids & ~np.int64(INDEX_MASK)
        at = np.flatnonzero(base == PARAMETER)
        return Relocation(
            ids=np.where(base == PARAMETER, 0, ids),
            private=(base == PRIVATE).astype(np.int64),
            temporary=(base == TEMPORARY).astype(np.int64),
            parameter_at=at,
            parameter=ids[at] & INDEX_MASK,
        )

    def stamp(self, private_bases: I64Array, temporary_base: int, arguments: I64Array) -> I64Array:
        """The identifiers of each stamp: ``int64[stamps, n]``."""
        fixed = self.ids + self.temporary * temporary_base
        out: I64Array = fixed[None, :] + private_bases[:, None] * self.private[None, :]
        out[:, self.parameter_at] = arguments[:, self.parameter]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A gadget recorded once over parameters, to be stamped with arguments."""

    name: str
    n_parameters: int
    n_private: int
    """Variables that each stamp allocates."""
    n_temporaries: int
    rows: tuple[MatrixRows, MatrixRows, MatrixRows]
    code: I64Array
    """``int64[instructions, 4]``."""
    outputs: I64Array
    """Identifiers of the variables that it returns."""
    regions: tuple[Region, ...]
    relocations: tuple[Relocation, ...] = field(init=False)
    """Of A, B, C, the code and the outputs."""

    def __post_init__(self) -> None:
        parts = (*(m.ids for m in self.rows), self.code.ravel(), self.outputs)
        object.__setattr__(self, "relocations", tuple(Relocation.of(part) for part in parts))

    @property
    def n_rows(self) -> int:
        """Constraints that each stamp adds."""
        return len(self.rows[0].lengths)


class RowRecorder:
    """Rows of one matrix as they are recorded: single ones in lists, stamped ones in arrays."""

    def __init__(self) -> None:
        self._chunks: list[MatrixRows] = []
        self._lengths: list[int] = []
        self._ids: list[int] = []
        self._coefs: list[int] = []

    def add(self, ids: list[int], coefs: list[int]) -> None:
        """One row."""
        self._lengths.append(len(ids))
        self._ids += ids
        self._coefs += coefs

    def add_rows(self, rows: MatrixRows) -> None:
        """Many rows."""
        self._flush()
        self._chunks.append(rows)

    def _flush(self) -> None:
        if self._lengths:
            self._chunks.append(
                MatrixRows(
                    np.array(self._lengths, dtype=np.int32),
                    np.array(self._ids, dtype=np.int64),
                    np.array(self._coefs, dtype=np.int32),
                )
            )
            self._lengths, self._ids, self._coefs = [], [], []

    def finish(self) -> MatrixRows:
        """All rows in order."""
        self._flush()
        if not self._chunks:
            return MatrixRows(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32))
        if len(self._chunks) > 1:
            self._chunks = [
                MatrixRows(
                    np.concatenate([c.lengths for c in self._chunks]),
                    np.concatenate([c.ids for c in self._chunks]),
                    np.concatenate([c.coefs for c in self._chunks]),
                )
            ]
        return self._chunks[0]


class CodeRecorder:
    """Instructions as they are recorded."""

    def __init__(self) -> None:
        self._chunks: list[I64Array] = []
        self._words: list[int] = []

    def add(self, op: int, dst: int, a: int, b: int) -> None:
        """One instruction."""
        self._words += (op, dst, a, b)

    def add_code(self, code: I64Array) -> None:
        """Many: ``int64[n, 4]``."""
        self._flush()
        self._chunks.append(code)

    def _flush(self) -> None:
        if self._words:
            self._chunks.append(np.array(self._words, dtype=np.int64).reshape(-1, 4))
            self._words = []

    def finish(self) -> I64Array:
        """All instructions in order."""
        self._flush()
        return np.concatenate(self._chunks) if self._chunks else np.zeros((0, 4), dtype=np.int64)
