"""The setup's exponents are those of the paper, recomputed with naive polynomials."""

import random

import groth16_files as files
import groth16_model as model
import pytest

from prover.curves import CURVES
from prover.errors import InputError
from prover.field import unpack
from prover.groth16 import setup as key_setup
from prover.groth16.setup import ConstraintSystem, Trapdoor, lagrange_at, powers, query_exponents


def ints(curve, words):
    return unpack(words, curve.fr, "canonical")


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("n_constraints", [1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 29])
def test_exponents_equal_the_model(curve, n_constraints):
    rng = random.Random(n_constraints)
    circuit, _ = model.sample(curve, rng, n_constraints, n_public=n_constraints % 3, n_wires=n_constraints + 4)
    secrets = model.trapdoor(curve, rng)
    expected = model.setup(circuit, secrets)
    system = files.system(circuit)
    assert system.log_n == circuit.log_n
    got = query_exponents(system, Trapdoor(secrets.tau, secrets.alpha, secrets.beta, secrets.gamma, secrets.delta))
    assert ints(curve, got.a) == expected.a
    assert ints(curve, got.b) == expected.b
    assert ints(curve, got.l) == expected.l
    assert ints(curve, got.ic) == expected.ic


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("log_n", [0, 1, 2, 5])
def test_h_basis_commits_to_the_product_by_its_values_on_the_coset(curve, log_n):
    """sum p(g w^i) h_i = p(tau) / delta for p = q Z, deg q < n - 1... whatever q is."""
    rng = random.Random(log_n)
    r, n = curve.fr.modulus, 1 << log_n
    t = Trapdoor(*(rng.randrange(2, r) for _ in range(5)))
    basis = ints(curve, key_setup._canonical(curve, key_setup._h_basis(curve, log_n, t, 1, None)))
    quotient = [rng.randrange(r) for _ in range(n)]

    def product_at(x):
        return sum(c * pow(x, i, r) for i, c in enumerate(quotient)) * (pow(x, n, r) - 1) % r

    shift, root = curve.coset_shift(log_n), curve.root_of_unity(log_n)
    scalars = [product_at(shift * pow(root, i, r) % r) for i in range(n)]
    assert sum(p * h for p, h in zip(scalars, basis, strict=True)) % r == product_at(t.tau) * pow(t.delta, -1, r) % r


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_powers_and_lagrange(curve):
    r = curve.fr.modulus
    x = random.Random(1).randrange(r)
    for log_n in (0, 1, 4):
        assert unpack(powers(curve, x, 1 << log_n), curve.fr) == [pow(x, i, r) for i in range(1 << log_n)]
        values = unpack(lagrange_at(curve, log_n, x), curve.fr)
        root = curve.root_of_unity(log_n)
        assert sum(values) % r == 1
        assert sum(v * pow(root, i, r) for i, v in enumerate(values)) % r == (x if log_n else 1)


def test_trapdoor_is_reproducible_from_entropy_only():
    curve = CURVES[0]
    a, b = (Trapdoor.draw(curve, 4, b"entropy") for _ in range(2))
    assert a == b
    assert Trapdoor.draw(curve, 4) != Trapdoor.draw(curve, 4)
    assert len({a.tau, a.alpha, a.beta, a.gamma, a.delta}) == 5
    assert Trapdoor.draw(curve, 4, b"other") != a


def test_a_circuit_beyond_every_domain_is_refused_before_any_work():
    curve = CURVES[1]
    small = files.system(model.sample(curve, random.Random(0), 3, 1, 6)[0])
    huge = ConstraintSystem(curve, small.n_wires, small.n_public, 1 << 28, small.a, small.b, small.c)
    with pytest.raises(InputError, match="more than a domain of bn128 holds"):
        key_setup.setup(huge)
