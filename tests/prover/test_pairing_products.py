"""Pairings against two independent implementations and against bilinearity, for every variant that runs here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bls12_381, optimized_bn128

from prover import native
from prover.curves import BLS12_381, BN254, CURVES, Curve
from prover.field import Words, pack, pack_points, unpack

BOTH_CURVES = [pytest.param(c, id=c.name) for c in CURVES]
NO_FIXTURE_CHECK = [HealthCheck.function_scoped_fixture]


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def multiples(curve: Curve, group: native.GroupId, scalars: list[int]) -> Words:
    """Multiples of the group's generator; zero gives infinity."""
    base = pack_points([curve.g1 if group == 1 else curve.g2], curve, group)
    reduced = [s % curve.fr.modulus for s in scalars]
    out = native.fixed_base_mul(curve, group, base, pack(reduced, curve.fr, "canonical"))
    return np.asarray(out)


def product_is_one(curve: Curve, pairs: list[tuple[int, int]], threads: int = 1) -> bool:
    """Whether the product of e(a G1, b G2) over the pairs (a, b) is one."""
    g1 = multiples(curve, 1, [a for a, _ in pairs])
    g2 = multiples(curve, 2, [b for _, b in pairs])
    return native.pairing_check(curve, g1, g2, threads=threads)


@pytest.mark.parametrize("curve", BOTH_CURVES)
@settings(max_examples=15, deadline=None, suppress_health_check=NO_FIXTURE_CHECK)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 2**256), st.integers(0, 2**256)), max_size=6),
    threads=st.integers(1, 3),
)
def test_products_follow_the_exponents(curve: Curve, pairs: list[tuple[int, int]], threads: int) -> None:
    """prod e(a_i G1, b_i G2) = e(G1, G2)^(sum a_i b_i), and only the exponent 0 gives one."""
    total = sum(a * b for a, b in pairs) % curve.fr.modulus
    assert product_is_one(curve, [*pairs, (-total, 1)], threads)
    assert product_is_one(curve, [(1, -total), *pairs], threads)
    assert not product_is_one(curve, [*pairs, (1 - total, 1)], threads)
    assert product_is_one(curve, pairs, threads) == (total == 0)


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_bilinear_and_not_degenerate(curve: Curve) -> None:
    a, b = 0x123456789ABCDEF0123456789, curve.fr.modulus - 77
    assert not product_is_one(curve, [(1, 1)])
    assert product_is_one(curve, [(1, 1), (-1, 1)])
    assert product_is_one(curve, [(a, b), (-a * b, 1)])
    assert product_is_one(curve, [(a, b), (-b, a)])
    assert product_is_one(curve, [(a, 1), (b, 1), (-(a + b), 1)])
    assert product_is_one(curve, [(1, a), (1, b), (1, -(a + b))])
    assert not product_is_one(curve, [(a, b), (-a, b + 1)])


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_infinity_counts_as_one(curve: Curve) -> None:
    assert product_is_one(curve, [])
    assert product_is_one(curve, [(0, 1)])
    assert product_is_one(curve, [(1, 0)])
    assert product_is_one(curve, [(0, 0)])
    assert product_is_one(curve, [(0, 5), (2, 3), (7, 0), (-6, 1)])
    assert not product_is_one(curve, [(0, 5), (2, 3), (7, 0), (-5, 1)])


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_pairs(curve: Curve, threads: int) -> None:
    """More pairs than one share of a thread holds."""
    rng, r = random.Random(threads), curve.fr.modulus
    pairs = [(rng.randrange(r), rng.randrange(r)) for _ in range(70)]
    total = sum(a * b for a, b in pairs)
    assert product_is_one(curve, [*pairs, (-total, 1)], threads)
    swapped = [(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1]), *pairs[2:]]
    assert not product_is_one(curve, [*swapped, (-total, 1)], threads)


def test_values_are_those_of_arkworks() -> None:
    """Same tower, same power of the reduced pairing: equal bytes."""
    for a, b in ((1, 1), (5, 7), (BLS12_381.fr.modulus - 1, 3), (2**200 + 9, 2**127 - 1)):
        ours = native.pairing(BLS12_381, multiples(BLS12_381, 1, [a]), multiples(BLS12_381, 2, [b]))
        p = arkworks.G1Point() * arkworks.Scalar(a)
        q = arkworks.G2Point() * arkworks.Scalar(b)
        theirs = bytes.fromhex(str(arkworks.GT.pairing(p, q)))
        assert b"".join(v.to_bytes(48, "little") for v in unpack(ours, BLS12_381.fp)) == theirs


@pytest.mark.parametrize("pairs", [[(2, 3), (-6, 1)], [(2, 3), (-5, 1)], [(4, 5), (6, 7), (-62, 1)], [(1, 1)]])
def test_checks_agree_with_arkworks(pairs: list[tuple[int, int]]) -> None:
    r = BLS12_381.fr.modulus
    g1 = [arkworks.G1Point() * arkworks.Scalar(a % r) for a, _ in pairs]
    g2 = [arkworks.G2Point() * arkworks.Scalar(b % r) for _, b in pairs]
    assert product_is_one(BLS12_381, pairs) == arkworks.GT.pairing_check(g1, g2)


def as_polynomial(curve: Curve, value: Any, module: ModuleType) -> Any:
    """An element of the tower as py_ecc's polynomial in w: u = w^6 - 1 (BLS12-381) or w^6 - 9 (BN254)."""
    p, constant = curve.fp.modulus, 1 if curve is BLS12_381 else 9
    flat = unpack(value, curve.fp)
    coefficients = [0] * 12
    for position, power in enumerate((0, 2, 4, 1, 3, 5)):
        c0, c1 = flat[2 * position], flat[2 * position + 1]
        coefficients[power] = (c0 - constant * c1) % p
        coefficients[power + 6] = c1
    return module.FQ12(coefficients)


BN_X = 4965661367192848881
POWERS = [
    # Relative to the reduced pairing; py_ecc leaves out the sign of the loop length of BLS12-381.
    pytest.param(BLS12_381, optimized_bls12_381, -3, id="bls12-381"),
    pytest.param(BN254, optimized_bn128, 2 * BN_X * (6 * BN_X**2 + 3 * BN_X + 1), id="bn254"),
]


@pytest.mark.parametrize(("curve", "module", "power"), POWERS)
def test_values_are_the_stated_power_of_py_ecc(curve: Curve, module: ModuleType, power: int) -> None:
    ours = native.pairing(curve, multiples(curve, 1, [2]), multiples(curve, 2, [3]))
    theirs = module.pairing(module.multiply(module.G2, 3), module.multiply(module.G1, 2))
    assert as_polynomial(curve, ours, module) == theirs ** (power % curve.fr.modulus)


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_values_multiply(curve: Curve) -> None:
    """The pairing of several pairs is the pairing of one with the summed exponent; infinity alone gives one."""
    several = native.pairing(curve, multiples(curve, 1, [2, 5, 0]), multiples(curve, 2, [3, 7, 4]))
    one = native.pairing(curve, multiples(curve, 1, [41]), multiples(curve, 2, [1]))
    assert np.array_equal(np.asarray(several), np.asarray(one))
    identity = native.pairing(curve, multiples(curve, 1, [0]), multiples(curve, 2, [1]))
    assert unpack(np.asarray(identity), curve.fp) == [1] + [0] * 11


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_refusals(curve: Curve) -> None:
    with pytest.raises(native.NativeError, match="threads"):
        native.pairing_check(curve, multiples(curve, 1, [1]), multiples(curve, 2, [1]), threads=0)
