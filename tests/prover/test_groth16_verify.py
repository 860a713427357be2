"""Verification refuses what has no meaning, says no to what is false, and batches say what single checks say."""

import dataclasses
import functools
import itertools
import os
import random

import groth16_files as files
import groth16_model as model
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.curves import BLS12_381, BN254, CURVES
from prover.device import open_device
from prover.errors import InputError
from prover.formats.proof import Proof
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import finish, start
from prover.groth16.setup import setup
from prover.groth16.verify import Verifier, verify
from prover.groth16.witness import assign


@functools.cache
def statements(curve, count=4, n_public=3):
    """One key; several statements that differ in a public input that no row reads, and their proofs."""
    for seed in itertools.count():
        circuit, values = model.sample(curve, random.Random(seed), 9, n_public, 40)
        if not any(n_public in row for rows in circuit.constraints for row in rows):
            break
    key = ProvingKey.from_zkey(setup(files.system(circuit), entropy=b"verify"))
    device = open_device("host")
    out = []
    for i in range(count):
        values[n_public] = i
        out.append(
            (values[1 : n_public + 1], finish(start(key, assign(key, files.witness(circuit, values), device), device)))
        )
    return key, out


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_batches_agree_with_single_checks(curve):
    key, good = statements(curve)
    verifier = Verifier(key.verifying)
    assert verifier.verify_batch([])
    for size in range(1, len(good) + 1):
        assert verifier.verify_batch(good[:size], threads=2)
    for bad in range(len(good)):
        public, proof = good[bad]
        wrong = list(good)
        wrong[bad] = ([public[0], public[1], (public[2] + 1) % curve.fr.modulus], proof)
        assert not verifier.verify_batch(wrong)
        wrong[bad] = (public, Proof(curve, proof.c, proof.b, proof.a))
        assert not verifier.verify_batch(wrong)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_errors_that_cancel_in_a_plain_sum_do_not_cancel_in_a_batch(curve):
    """Two proofs whose C points are swapped: the plain product of both equations would still hold."""
    key, good = statements(curve)
    (public_a, a), (public_b, b) = good[0], good[1]
    assert a.c != b.c
    swapped = [(public_a, Proof(curve, a.a, a.b, b.c)), (public_b, Proof(curve, b.a, b.b, a.c))]
    assert not any(Verifier(key.verifying).verify_batch(swapped) for _ in range(5))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@given(data=st.data())
@settings(max_examples=12, deadline=None, derandomize=True)
def test_of_a_batch_the_bad_ones_are_found_also_where_their_errors_cancel(curve, data):
    """C points are handed round among some of the proofs: with coefficients that a forger could foresee, none of the
    equations' product would show it. One more may be bad by itself.
    """
    key, good = statements(curve, 8)
    verifier = Verifier(key.verifying)
    order = data.draw(st.permutations(range(8)))
    ring = order[: data.draw(st.sampled_from([0, 2, 3, 8]))]
    wrong = list(good)
    for here, there in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        public, proof = good[here]
        wrong[here] = (public, Proof(curve, proof.a, proof.b, good[there][1].c))
    assert verifier._equation(wrong, [1] * 8, curve.fr.modulus, 1), "the errors do not cancel: nothing was tested"
    bad = set(ring)
    if len(ring) < 8 and data.draw(st.booleans()):
        public, proof = good[order[-1]]
        wrong[order[-1]] = (public, Proof(curve, proof.c, proof.b, proof.c))
        bad.add(order[-1])
    assert verifier.faulty(wrong) == sorted(bad)


def test_coefficients_are_the_systems_and_of_128_bits(monkeypatch):
    key, good = statements(BN254)
    asked, urandom = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or urandom(n))
    assert Verifier(key.verifying).verify_batch(good[:3])
    assert asked == [16] * 3


def test_public_inputs_must_be_canonical_and_as_many():
    key, good = statements(BN254)
    public, proof = good[0]
    r = BN254.fr.modulus
    for value in (r, r + public[0], -1, 1 << 256):
        with pytest.raises(InputError, match=r"not in \[0, r\): public input 1"):
            verify(key.verifying, [public[0], value, public[2]], proof)
    with pytest.raises(InputError, match="2 values, the key wants 3"):
        verify(key.verifying, public[:2], proof)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_points_must_be_reduced_on_the_curve_and_in_the_subgroup(curve):
    key, good = statements(curve)
    public, proof = good[0]
    p = curve.fp.modulus
    x, y = proof.a
    verifier = Verifier(key.verifying)
    with pytest.raises(InputError, match="point A is not on the curve"):
        verifier.verify(public, Proof(curve, (x, (y + 1) % p), proof.b, proof.c))
    (bx, by) = proof.b
    with pytest.raises(InputError, match="point B is not on the curve"):
        verifier.verify(public, Proof(curve, proof.a, (bx, (by[0], (by[1] + 1) % p)), proof.c))
    with pytest.raises(InputError, match="point B is not in the subgroup"):
        verifier.verify(public, Proof(curve, proof.a, stray_g2(curve), proof.c))
    if curve is BLS12_381:
        with pytest.raises(InputError, match="point C is not in the subgroup"):
            verifier.verify(public, Proof(curve, proof.a, proof.b, stray_g1(curve)))
    with pytest.raises(InputError, match="gamma_g2 is not in the subgroup"):
        Verifier(dataclasses.replace(key.verifying, gamma_g2=stray_g2(curve)))
    ic = (*key.verifying.ic[:2], (x, (y + 1) % p), *key.verifying.ic[3:])
    with pytest.raises(InputError, match="IC 2 is not on the curve"):
        Verifier(dataclasses.replace(key.verifying, ic=ic))


def test_a_proof_of_the_other_curve_is_refused():
    key, good = statements(BN254)
    _, others = statements(BLS12_381)
    with pytest.raises(InputError, match="proof is over bls12-381, the key over bn128"):
        verify(key.verifying, good[0][0], others[0][1])


def stray_g1(curve):
    """A point on the curve that is not in the subgroup: the first x that is on it is almost surely not."""
    p = curve.fp.modulus
    x = 1
    while True:
        square = (x**3 + curve.b) % p
        y = pow(square, (p + 1) // 4, p)
        if y * y % p == square:
            return x, y
        x += 1


def stray_g2(curve):
    p = curve.fp.modulus
    x = 1
    while True:
        a = (x**3 + curve.b2[0]) % p
        root = square_root_fp2(a, curve.b2[1], p)
        if root is not None:
            return (x, 0), root
        x += 1


def square_root_fp2(a, b, p):
    """(c + d u)^2 = a + b u with u^2 = -1, or None."""
    norm = (a * a + b * b) % p
    n = pow(norm, (p + 1) // 4, p)
    if n * n % p != norm:
        return None
    for sign in (n, p - n):
        half = (a + sign) * pow(2, -1, p) % p
        c = pow(half, (p + 1) // 4, p)
        if c and c * c % p == half:
            return c, b * pow(2 * c, -1, p) % p
    return None
