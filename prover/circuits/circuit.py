"""A finished circuit: its matrices, its witness program, its inputs by name, and the gadget behind each row."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover.circuits.program import Program
from prover.csr import CsrMatrix
from prover.curves import Curve
from prover.errors import InputError
from prover.field import pack, unpack
from prover.formats.r1cs import R1cs

U64Array = npt.NDArray[np.uint64]


class UnsatisfiedConstraint(InputError):
    """The witness does not satisfy the circuit.

    Attributes:
        row: the first constraint (counted from 0) where ``a * b != c``.
        gadget: what recorded it, ``""`` if unknown.
    """

    def __init__(self, row: int, gadget: str = "") -> None:
        self.row = row
        self.gadget = gadget
        where = f"row {row}" + (f" ({gadget})" if gadget else "")
        super().__init__("the witness does not satisfy the circuit", where, "correct the inputs or the witness")


@dataclass(frozen=True, slots=True)
class InputField:
    """Consecutive inputs of a circuit under one name, in row-major order."""

    name: str
    offset: int
    shape: tuple[int, ...]
    public: bool

    @property
    def count(self) -> int:
        """How many elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Region:
    """``count`` times the same stretch of rows, and what recorded it."""

    first: int
    rows: int
    """Rows of one repetition."""
    count: int
    name: str
    inner: tuple[Region, ...] = ()
    """Regions within one repetition, their ``first`` counted from its beginning."""


def find_region(regions: Sequence[Region], row: int) -> str:
    """The path of names to a row: ``"challenge 3 / level 5 / poseidon-2"``; ``""`` outside every region."""
    for region in regions:
        index, within = divmod(row - region.first, region.rows or 1)
        if row >= region.first and index < region.count and region.rows:
            name = region.name if region.count == 1 else f"{region.name} {index}"
            inner = find_region(region.inner, within)
            return f"{name} / {inner}" if inner else name
    return ""


@dataclass(frozen=True, eq=False)
class Circuit:
    """A rank-1 constraint system with the program that makes its witness.

    Variables: 0 is the constant one, then ``n_public`` public inputs, then the private ones. Rows: ``n_constraints``
    constraints, then one row for each of the constant one and the public inputs, with that variable in A and nothing in
    B and C. (They keep the public inputs' polynomials independent, as in bellman and snarkjs.)
    """

    name: str
    curve: Curve
    n_constraints: int
    """Without the input rows."""
    n_public: int
    """Public inputs, without the constant one."""
    n_variables: int
    """With the constant one."""
    a: CsrMatrix
    b: CsrMatrix
    c: CsrMatrix
    """The three matrices have ``rows`` rows and share one table of coefficients."""
    program: Program
    inputs: tuple[InputField, ...]
    """What the program takes, in order."""
    regions: tuple[Region, ...] = ()

    @property
    def rows(self) -> int:
        """Constraints and input rows."""
        return self.n_constraints + self.n_public + 1

    @property
    def log_domain(self) -> int:
        """Logarithm of the evaluation domain: the least power of two that holds the rows."""
        return (self.rows - 1).bit_length()

    @property
    def domain(self) -> int:
        """Size of the evaluation domain."""
        return 1 << self.log_domain

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the shape and the matrices: what a proving key depends on."""
        h = hashlib.sha256(
            f"cuzk-top circuit 1\n{self.curve.name} {self.n_constraints} {self.n_public} {self.n_variables}\n".encode()
        )
        h.update(np.ascontiguousarray(self.a.table, dtype="<u8").data)
        for matrix in (self.a, self.b, self.c):
            h.update(matrix.nnz.to_bytes(8, "little"))
            h.update(np.ascontiguousarray(matrix.row_ptr, dtype="<u8").data)
            h.update(np.ascontiguousarray(matrix.col, dtype="<u4").data)
            h.update(np.ascontiguousarray(matrix.coef, dtype="<u4").data)
        return h.hexdigest()

    def gadget(self, row: int) -> str:
        """What recorded a row, as a path of names; ``""`` if nothing was noted."""
        if row >= self.n_constraints:
            return "input row"
        return find_region(self.regions, row)

    def field(self, name: str) -> InputField:
        """The input field of this name.

        Raises:
            KeyError: if there is none.
        """
        for candidate in self.inputs:
            if candidate.name == name:
                return candidate
        raise KeyError(f"circuit {self.name} has no input {name!r}")

    def pack_inputs(self, **values: object) -> U64Array:
        """Inputs by name, each an integer or a nested sequence of integers of the field's shape, as ``uint64[n, 4]``.

        Raises:
            InputError: if one is missing, unknown, of another shape, or not in ``[0, r)``.
        """
        unknown = values.keys() - {f.name for f in self.inputs}
        if unknown:
            raise InputError(f"unknown input {', '.join(sorted(unknown))}", self.name, "remove it")
        out = np.zeros((self.program.n_inputs, 4), dtype=np.uint64)
        for f in self.inputs:
            if f.name not in values:
                raise InputError(f"input {f.name} is missing", self.name, f"give {f.count} numbers")
            elements = np.array(values[f.name], dtype=object)
            if elements.shape != f.shape:
                raise InputError(f"input {f.name} has shape {elements.shape}, not {f.shape}", self.name, "correct it")
            try:
                out[f.offset : f.offset + f.count] = pack(elements.ravel().tolist(), self.curve.fr, "canonical")
            except (ValueError, TypeError, AttributeError) as error:
                raise InputError(f"input {f.name}: {error}", self.name, "give integers in [0, r)") from error
        return out

    def public_inputs(self, inputs: U64Array) -> U64Array:
        """What a verifier sees of packed inputs: ``uint64[n_public, 4]``, canonical."""
        fields = [f for f in self.inputs if f.public]
        chosen = [inputs[f.offset : f.offset + f.count] for f in fields]
        return np.concatenate(chosen) if chosen else np.zeros((0, 4), dtype=np.uint64)

    def r1cs(self) -> R1cs:
        """The constraints without the input rows, as ``prover.formats.r1cs.write_r1cs`` takes them."""
        a, b, c = (self._constraint_rows(matrix) for matrix in (self.a, self.b, self.c))
        n_private_inputs = sum(f.count for f in self.inputs if not f.public)
        return R1cs(self.curve, self.n_variables, 0, self.n_public, n_private_inputs, a, b, c)

    def _constraint_rows(self, matrix: CsrMatrix) -> CsrMatrix:
        row_ptr = matrix.row_ptr[: self.n_constraints + 1]
        nnz = int(row_ptr[-1])
        return CsrMatrix(row_ptr, matrix.col[:nnz], matrix.coef[:nnz], matrix.table)

    def unpack(self, inputs: U64Array, name: str) -> list[int]:
        """The integers of one field in packed inputs, in row-major order."""
        f = self.field(name)
        return unpack(inputs[f.offset : f.offset + f.count], self.curve.fr, "canonical")
