"""Witness programs and matrices once more, in Python integers: what the native machine is compared with."""

from __future__ import annotations

import itertools

from prover.circuits.circuit import Circuit
from prover.circuits.program import Op, Program
from prover.csr import CsrMatrix
from prover.curves import Curve
from prover.field import unpack


class Refused(Exception):
    """The instruction with this index cannot be carried out."""

    def __init__(self, instruction: int) -> None:
        self.instruction = instruction


def interpret(program: Program, inputs: list[int]) -> list[int]:
    """The witness, by the words of ``prover.circuits.program``'s documentation."""
    p = program.curve.fr.modulus
    k = unpack(program.constants, program.curve.fr)
    r = [1] + [0] * (program.n_values - 1)
    for i, (op, dst, a, b) in enumerate(program.code.tolist()):
        match Op(op):
            case Op.INPUT:
                for j in range(b):
                    if inputs[a + j] >= p:
                        raise Refused(i)
                    r[dst + j] = inputs[a + j]
            case Op.CONSTANT:
                r[dst] = k[a]
            case Op.COPY:
                r[dst] = r[a]
            case Op.ADD:
                r[dst] = (r[a] + r[b]) % p
            case Op.SUBTRACT:
                r[dst] = (r[a] - r[b]) % p
            case Op.MULTIPLY:
                r[dst] = r[a] * r[b] % p
            case Op.SCALE:
                r[dst] = r[a] * k[b] % p
            case Op.ACCUMULATE:
                r[dst] = (r[dst] + r[a] * k[b]) % p
            case Op.OFFSET:
                r[dst] = (r[a] + k[b]) % p
            case Op.FIFTH:
                x = r[a]
                r[dst : dst + 3] = [pow(x, e, p) for e in (2, 4, 5)]
            case Op.BITS:
                x, first, count = r[a], b >> 16, b & 0xFFFF
                r[dst : dst + count] = [x >> (first + j) & 1 for j in range(count)]
            case Op.INVERT:
                r[dst] = pow(r[a], p - 2, p)
            case Op.REQUIRE_EQUAL:
                if r[a] != r[b]:
                    raise Refused(i)
            case Op.REQUIRE_BOOLEAN:
                if r[a] not in (0, 1):
                    raise Refused(i)
    return r[: program.n_variables]


def dense_rows(curve: Curve, matrix: CsrMatrix) -> list[list[tuple[int, int]]]:
    """Each row as pairs of column and canonical coefficient."""
    p = curve.fr.modulus
    unscale = pow(curve.fr.r2, -1, p)
    table = [value * unscale % p for value in unpack(matrix.table, curve.fr, "canonical")]
    ends = matrix.row_ptr.tolist()
    entries = list(zip(matrix.col.tolist(), (table[i] for i in matrix.coef.tolist()), strict=True))
    return [entries[begin:end] for begin, end in itertools.pairwise(ends)]


def multiply(curve: Curve, matrix: CsrMatrix, witness: list[int]) -> list[int]:
    """The matrix times the witness."""
    p = curve.fr.modulus
    return [sum(c * witness[column] for column, c in row) % p for row in dense_rows(curve, matrix)]


def unsatisfied_rows(circuit: Circuit, witness: list[int]) -> list[int]:
    """Every row where a * b != c."""
    a, b, c = (multiply(circuit.curve, m, witness) for m in (circuit.a, circuit.b, circuit.c))
    p = circuit.curve.fr.modulus
    return [i for i, (x, y, z) in enumerate(zip(a, b, c, strict=True)) if (x * y - z) % p]
