"""The model that the other Groth16 tests trust is itself Groth16: complete, and unmoved by what it should refuse."""

import random

import groth16_model as model
import pytest

from prover.curves import CURVES


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("n_constraints", [1, 2, 3, 5, 8, 13])
def test_model_is_complete_and_sound_on_samples(curve, n_constraints):
    rng = random.Random(n_constraints)
    circuit, witness = model.sample(curve, rng, n_constraints, n_public=2, n_wires=n_constraints + 5)
    assert model.satisfied(circuit, witness)
    secrets = model.trapdoor(curve, rng)
    proof = model.prove(circuit, secrets, witness, rng.randrange(circuit.r), rng.randrange(circuit.r))
    public = witness[1:3]
    assert model.accepts(circuit, secrets, public, proof)
    assert not model.accepts(circuit, secrets, [public[0] + 1, public[1]], proof)
    for i in range(3):
        tampered = list(proof)
        tampered[i] = (tampered[i] + 1) % circuit.r
        assert not model.accepts(circuit, secrets, public, tuple(tampered))


def test_lagrange_values_interpolate():
    curve = CURVES[0]
    rng = random.Random(3)
    circuit, _ = model.sample(curve, rng, 5, n_public=1, n_wires=6)
    r, n = circuit.r, 1 << circuit.log_n
    tau = rng.randrange(r)
    coefficients = [rng.randrange(r) for _ in range(n)]

    def at(x):
        return sum(c * pow(x, i, r) for i, c in enumerate(coefficients)) % r

    root = curve.root_of_unity(circuit.log_n)
    values = [at(pow(root, i, r)) for i in range(n)]
    assert sum(u * v for u, v in zip(model.lagrange_at(circuit, tau), values, strict=True)) % r == at(tau)
