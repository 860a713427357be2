from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import multiply, unsatisfied_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.cancel import Cancelled, CancelToken
from prover.circuits.builder import Builder
from prover.circuits.builtin import builtin
from prover.circuits.circuit import Circuit, UnsatisfiedConstraint
from prover.circuits.evaluator import evaluate, evaluate_witness
from prover.circuits.merkle import MerkleShape, merkle_circuit, random_inputs
from prover.circuits.program import ProgramError
from prover.curves import BLS12_381, BN254, CURVES, Curve
from prover.errors import InputError
from prover.field import pack, unpack

SHAPES = {curve: MerkleShape(curve, 2, 2, 2) for curve in CURVES}
CIRCUITS = {curve: merkle_circuit(shape) for curve, shape in SHAPES.items()}
WITNESSES = {c: circuit.program.run(random_inputs(circuit, SHAPES[c], 1)) for c, circuit in CIRCUITS.items()}
each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)


@each_curve
@pytest.mark.parametrize("threads", [1, 2])
def test_vectors_are_the_products_padded_to_the_domain(curve: Curve, threads: int) -> None:
    circuit = CIRCUITS[curve]
    inputs = random_inputs(circuit, SHAPES[curve], 4)
    got = evaluate(circuit, inputs, threads)
    witness = unpack(got.witness, curve.fr, "canonical")
    padding = [0] * (circuit.domain - circuit.rows)
    for vector, matrix in ((got.a, circuit.a), (got.b, circuit.b), (got.c, circuit.c)):
        assert vector.shape == (circuit.domain, 4)
        assert unpack(vector, curve.fr) == multiply(curve, matrix, witness) + padding
    public = unpack(got.a[circuit.n_constraints : circuit.rows], curve.fr)
    assert public == witness[: circuit.n_public + 1]  # the input rows


@each_curve
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_value_is_found_in_the_first_row_that_it_breaks(curve: Curve, data: st.DataObject) -> None:
    circuit = CIRCUITS[curve]
    column = data.draw(st.integers(0, circuit.n_variables - 1))
    value = data.draw(st.sampled_from([0, 1, curve.fr.modulus - 1]) | st.integers(0, curve.fr.modulus - 1))
    changed = WITNESSES[curve].copy()
    changed[column] = pack([value], curve.fr, "canonical")[0]
    rows = unsatisfied_rows(circuit, unpack(changed, curve.fr, "canonical"))
    if not rows:
        assert np.array_equal(changed, WITNESSES[curve])
        return
    with pytest.raises(UnsatisfiedConstraint) as caught:
        evaluate_witness(circuit, changed)
    assert caught.value.row == rows[0]
    assert caught.value.gadget == circuit.gadget(rows[0]) != ""


def test_the_message_names_row_and_gadget() -> None:
    circuit = CIRCUITS[BLS12_381]
    inputs = random_inputs(circuit, SHAPES[BLS12_381], 1)
    leaf = circuit.field("leaf").offset + 1
    inputs[leaf] = pack([5], BLS12_381.fr, "canonical")[0]
    row = 2 * SHAPES[BLS12_381].path_constraints - 1
    expected = f"the witness does not satisfy the circuit: row {row} (challenge 1 / root): correct the inputs"
    with pytest.raises(UnsatisfiedConstraint) as caught:
        evaluate(circuit, inputs)
    assert str(caught.value).startswith(expected)
    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == 2


def test_a_row_without_a_name() -> None:
    builder = Builder(BN254)
    builder.require_equal(builder.input("x"), 3)
    circuit = builder.finish("three")
    evaluate(circuit, circuit.pack_inputs(x=3))
    with pytest.raises(UnsatisfiedConstraint, match="row 0: correct"):
        evaluate(circuit, circuit.pack_inputs(x=4))


def test_a_domain_that_is_full_and_one_of_a_single_row() -> None:
    def squares(n: int) -> Circuit:
        builder = Builder(BLS12_381)
        x = builder.input("x")
        for _ in range(n):
            builder.product(x, x)
        return builder.finish("squares")

    full = squares(7)
    assert full.rows == full.domain == 8
    assert unpack(evaluate(full, full.pack_inputs(x=3)).c, BLS12_381.fr) == [9] * 7 + [0]
    single = squares(0)
    assert single.domain == 1
    assert unpack(evaluate(single, single.pack_inputs(x=3)).a, BLS12_381.fr) == [1]


def test_unusable_inputs() -> None:
    circuit = CIRCUITS[BLS12_381]
    with pytest.raises(ProgramError, match="not below the modulus"):
        evaluate(circuit, np.full((circuit.program.n_inputs, 4), 2**64 - 1, np.uint64))
    with pytest.raises(ValueError, match="shape"):
        evaluate(circuit, np.zeros((1, 4), np.uint64))


def test_cancelled() -> None:
    circuit = CIRCUITS[BLS12_381]
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        evaluate(circuit, random_inputs(circuit, SHAPES[BLS12_381], 1), cancel=token)
    with pytest.raises(Cancelled):
        evaluate_witness(circuit, WITNESSES[BLS12_381], cancel=token)


@pytest.mark.parametrize("name", ["poseidon-merkle-13", "range-check-12"])
@each_curve
def test_built_in_circuits_evaluate(name: str, curve: Curve) -> None:
    entry = builtin(name, curve)
    circuit = entry.build()
    for seed in range(3):
        got = evaluate(circuit, entry.random_inputs(circuit, seed))
        assert len(got.a) == 1 << entry.log_domain
