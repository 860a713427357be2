from __future__ import annotations

import pytest
from circuit_oracle import unsatisfied_rows

from prover.circuits.builtin import DEFAULT, builtin, builtin_names
from prover.curves import BLS12_381, BN254, CURVES, Curve
from prover.errors import InputError
from prover.field import pack, unpack


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_the_name_tells_the_domain_and_most_of_it_is_used(name: str, curve: Curve) -> None:
    entry = builtin(name, curve)
    log_size = int(name.rpartition("-")[2])
    assert entry.log_domain == log_size
    assert entry.rows > 0.9 * (1 << log_size)
    assert (entry.name, entry.curve) == (name, curve)


@pytest.mark.parametrize("name", ["poseidon-merkle-10", "poseidon-merkle-11", "poseidon-merkle-13", "range-check-10"])
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_what_is_built_is_what_was_counted(name: str, curve: Curve) -> None:
    entry = builtin(name, curve)
    circuit = entry.build()
    assert (circuit.name, circuit.curve) == (name, curve)
    counted = (entry.n_constraints, entry.n_public, entry.n_variables, entry.rows, entry.log_domain)
    assert counted == (
        circuit.n_constraints,
        circuit.n_public,
        circuit.n_variables,
        circuit.rows,
        circuit.log_domain,
    )
    inputs = entry.random_inputs(circuit, 11)
    witness = unpack(circuit.program.run(inputs), curve.fr, "canonical")
    assert unsatisfied_rows(circuit, witness) == []


def test_the_default_is_one_of_them() -> None:
    assert DEFAULT in builtin_names()


def test_large_ones_are_stamped() -> None:
    """A quarter of a million constraints; recorded one by one this would take minutes."""
    entry = builtin("poseidon-merkle-18")
    circuit = entry.build()
    assert circuit.n_constraints == entry.n_constraints == 261_376
    assert circuit.a.rows == circuit.b.rows == circuit.c.rows == circuit.rows
    assert circuit.gadget(circuit.n_constraints - 1) == "challenge 63 / root"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("poseidon-merkle-9", "did you mean poseidon-merkle-1"),
        ("poseidon-merkle-21", "did you mean poseidon-merkle-"),
        ("poseidon-merkl-13", "did you mean poseidon-merkle-13"),
        ("poseidon-merkle-1٣", "did you mean"),
        ("poseidon-merkle-013", "did you mean poseidon-merkle-13"),
        ("x", "there are poseidon-merkle-10, "),
        ("", "there are poseidon-merkle-10, "),
        ("range-check-", "did you mean range-check"),
    ],
)
def test_unknown_names_get_a_hint(name: str, hint: str) -> None:
    with pytest.raises(InputError, match="unknown circuit") as caught:
        builtin(name)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_sum_that_is_wrong_and_an_amount_that_is_too_large() -> None:
    entry = builtin("range-check-10", BN254)
    circuit = entry.build()
    inputs = entry.random_inputs(circuit, 3)
    amounts = circuit.unpack(inputs, "amount")
    assert circuit.unpack(inputs, "total") == [sum(amounts)]
    assert all(0 <= amount < 2**64 for amount in amounts)
    wrong = inputs.copy()
    wrong[0] = pack([sum(amounts) + 1], BN254.fr, "canonical")[0]
    rows = unsatisfied_rows(circuit, unpack(circuit.program.run(wrong), BN254.fr, "canonical"))
    assert [circuit.gadget(row) for row in rows] == ["total"]
    large = inputs.copy()
    large[3] = pack([2**64], BN254.fr, "canonical")[0]
    rows = unsatisfied_rows(circuit, unpack(circuit.program.run(large), BN254.fr, "canonical"))
    assert [circuit.gadget(row) for row in rows] == ["amount 2", "total"]


def test_inputs_differ_by_seed_alone() -> None:
    entry = builtin("poseidon-merkle-10", BLS12_381)
    circuit, again = entry.build(), entry.build()
    assert entry.random_inputs(circuit, 1).tobytes() == entry.random_inputs(again, 1).tobytes()
    assert entry.random_inputs(circuit, 1).tobytes() != entry.random_inputs(circuit, 2).tobytes()
