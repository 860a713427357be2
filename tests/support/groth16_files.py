"""The model's circuits as the files and arrays that the code under test takes."""

from __future__ import annotations

import groth16_model as model
import numpy as np

from prover.csr import CsrMatrix, coefficient_table
from prover.field import pack
from prover.formats.r1cs import R1cs
from prover.groth16.setup import ConstraintSystem


def matrix(circuit: model.Model, which: int) -> CsrMatrix:
    r = circuit.r
    distinct = sorted({v for row in circuit.constraints for v in row[which].values()} - {1, r - 1})
    code = {1: 0, r - 1: 1, **{v: 2 + i for i, v in enumerate(distinct)}}
    row_ptr, col, coef = [0], [], []
    for row in circuit.constraints:
        col += list(row[which])
        coef += [code[v] for v in row[which].values()]
        row_ptr.append(len(col))
    return CsrMatrix(
        np.array(row_ptr, dtype=np.uint64),
        np.array(col, dtype=np.uint32),
        np.array(coef, dtype=np.uint32),
        coefficient_table(circuit.curve.fr, distinct),
    )


def r1cs(circuit: model.Model) -> R1cs:
    return R1cs(
        curve=circuit.curve,
        n_wires=circuit.n_wires,
        n_outputs=0,
        n_public_inputs=circuit.n_public,
        n_private_inputs=circuit.n_wires - circuit.n_public - 1,
        a=matrix(circuit, 0),
        b=matrix(circuit, 1),
        c=matrix(circuit, 2),
    )


def system(circuit: model.Model) -> ConstraintSystem:
    return ConstraintSystem.of_r1cs(r1cs(circuit))


def witness(circuit: model.Model, values: list[int]) -> np.ndarray:
    return pack(values, circuit.curve.fr, "canonical")
