"""Synthesis from pre-compiled matrices: the witness by the recorded program, a, b, c by sparse products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prover import native
from prover.cancel import CancelToken
from prover.circuits.circuit import Circuit, U64Array, UnsatisfiedConstraint


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """What a proof of one instance needs of the CPU."""

    witness: U64Array
    """``uint64[n_variables, 4]``, canonical; element 0 is one."""
    a: U64Array
    """``uint64[domain, 4]``, Montgomery: A times witness, zero beyond the rows. So are b and c."""
    b: U64Array
    c: U64Array


def evaluate(circuit: Circuit, inputs: U64Array, threads: int = 1, cancel: CancelToken | None = None) -> Assignment:
    """Witness and a, b, c for these inputs, checked row by row.

    Args:
        circuit: the circuit.
        inputs: ``uint64[n, 4]``, canonical, in the order of ``circuit.inputs`` (``circuit.pack_inputs``).
        threads: threads to use.
        cancel: asks to stop.

    Raises:
        UnsatisfiedConstraint: if ``a * b != c`` somewhere; names the first row and its gadget.
        prover.circuits.program.ProgramError: if there is no witness for these inputs.
        prover.cancel.Cancelled: if asked to stop.
    """
    witness = circuit.program.run(inputs, cancel)
    return evaluate_witness(circuit, witness, threads, cancel)


def evaluate_witness(
    circuit: Circuit, witness: U64Array, threads: int = 1, cancel: CancelToken | None = None
) -> Assignment:
    """The same from a finished witness."""
    vectors = []
    for matrix in (circuit.a, circuit.b, circuit.c):
        vector = np.empty((circuit.domain, 4), dtype=np.uint64)
        vector[circuit.rows :] = 0
        native.spmv(
            circuit.curve,
            matrix.row_ptr,
            matrix.col,
            matrix.coef,
            matrix.table,
            witness,
            out=vector[: circuit.rows],
            threads=threads,
            cancel=cancel,
        )
        vectors.append(vector)
    a, b, c = vectors
    row = native.first_unsatisfied(circuit.curve, a[: circuit.rows], b[: circuit.rows], c[: circuit.rows])
    if row is not None:
        raise UnsatisfiedConstraint(row, circuit.gadget(row))
    return Assignment(witness, a, b, c)
