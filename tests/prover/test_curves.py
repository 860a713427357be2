"""Every constant of the curves is proved, none is believed."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from curve_oracle import Group, Pairs

from prover import curves
from prover.curves import BLS12_381, BN254, CURVES, Curve, PrimeField
from prover.native import GroupId

BOTH_CURVES = [pytest.param(c, id=c.name) for c in CURVES]
BOTH_GROUPS = pytest.mark.parametrize("group", [1, 2])
FOUR_FIELDS = [pytest.param(f, id=f.name) for f in curves.fields()]


def is_probable_prime(n: int) -> bool:
    """Miller and Rabin with thirty fixed bases: no composite of this size passes by accident."""
    s = ((n - 1) & -(n - 1)).bit_length() - 1
    d = (n - 1) >> s
    rng = random.Random(1)
    for _ in range(30):
        x = pow(rng.randrange(2, n - 1), d, n)
        if x not in (1, n - 1) and all((x := x * x % n) != n - 1 for _ in range(s - 1)):
            return False
    return True


@pytest.mark.parametrize("field", FOUR_FIELDS)
def test_moduli_are_prime(field: PrimeField) -> None:
    assert is_probable_prime(field.modulus)
    assert field.modulus.bit_length() == field.bits <= 64 * field.limbs - 1


def test_moduli_are_the_families_polynomials() -> None:
    x = BLS12_381.x
    assert BLS12_381.fr.modulus == x**4 - x**2 + 1
    assert BLS12_381.fp.modulus == (x - 1) ** 2 * (x**4 - x**2 + 1) // 3 + x
    x = BN254.x
    assert BN254.fp.modulus == 36 * x**4 + 36 * x**3 + 24 * x**2 + 6 * x + 1
    assert BN254.fr.modulus == 36 * x**4 + 36 * x**3 + 18 * x**2 + 6 * x + 1


@pytest.mark.parametrize("field", FOUR_FIELDS)
def test_montgomery_form(field: PrimeField) -> None:
    p, radix = field.modulus, 1 << (64 * field.limbs)
    assert field.r == radix % p
    assert field.r2 == radix * radix % p
    for value in (0, 1, 2, p - 1, p // 2, 12345678901234567890):
        assert field.to_montgomery(value) == value * radix % p
        assert field.from_montgomery(field.to_montgomery(value)) == value
    assert field.bytes == 8 * field.limbs == {381: 48}.get(field.bits, 32)


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_roots_of_unity(curve: Curve) -> None:
    r, s = curve.fr.modulus, curve.fr.two_adicity
    assert (r - 1) % (1 << s) == 0
    assert (r - 1) >> s & 1
    conventions: tuple[curves.RootConvention, ...] = ("snarkjs", "bellman") if curve is BLS12_381 else ("snarkjs",)
    for convention in conventions:
        for log_n in (0, 1, 2, s - 1, s):
            root = curve.root_of_unity(log_n, convention)
            assert pow(root, 1 << log_n, r) == 1
            assert log_n == 0 or pow(root, 1 << (log_n - 1), r) == r - 1
    with pytest.raises(ValueError, match="two-adicity"):
        curve.root_of_unity(s + 1)
    with pytest.raises(ValueError, match="two-adicity"):
        curve.root_of_unity(-1)


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_smallest_non_residue(curve: Curve) -> None:
    r = curve.fr.modulus
    non_residues = [g for g in range(2, curve.fr.generator + 1) if pow(g, (r - 1) // 2, r) == r - 1]
    assert non_residues == [curve.fr.generator]


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_coset_shift_is_off_the_domain(curve: Curve) -> None:
    r, s = curve.fr.modulus, curve.fr.two_adicity
    for log_n in (0, 1, 10, s - 1):
        shift = curve.coset_shift(log_n)
        assert shift * shift % r == curve.root_of_unity(log_n)
        assert pow(shift, 1 << log_n, r) == r - 1
    assert curve.coset_shift(s) == 25
    assert pow(25, 1 << s, r) != 1


def test_bellman_roots_are_of_bls12_381_alone() -> None:
    with pytest.raises(ValueError, match="bls12-381"):
        BN254.root_of_unity(3, "bellman")


@pytest.mark.parametrize("curve", BOTH_CURVES)
@BOTH_GROUPS
def test_generators(curve: Curve, group: GroupId) -> None:
    g = Group(curve, group)
    assert g.generator is not None
    assert g.contains(g.generator)
    assert g.mul(g.r, g.generator) is None  # r is prime, so that is the order


@pytest.mark.parametrize("curve", BOTH_CURVES)
@BOTH_GROUPS
def test_orders(curve: Curve, group: GroupId) -> None:
    """The curves' orders: a multiple of r, inside Hasse's interval, and they kill random points."""
    g = Group(curve, group)
    q = curve.fp.modulus**group
    assert g.order % g.r == 0
    assert abs(g.order - q - 1) <= 2 * math.isqrt(q)
    rng = random.Random(2)
    for _ in range(3):
        assert g.mul(g.order, g.random_point(rng)) is None


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_twist(curve: Curve) -> None:
    """xi is neither a square nor a cube in Fp2, and the twist's b is b*xi or b/xi."""
    p = curve.fp.modulus
    f = Pairs(p)
    assert f.pow(curve.xi, (p * p - 1) // 2) != f.one
    assert f.pow(curve.xi, (p * p - 1) // 3) != f.one
    assert p % 4 == 3  # so that u^2 = -1 has no root in Fp
    scaled = f.mul((curve.b, 0), curve.xi if curve is BLS12_381 else f.inv(curve.xi))
    assert curve.b2 == scaled


def test_subgroup_tests_are_exact() -> None:
    """What kernels/host/endomorphism.hpp states: a test's multiple and the curve's order have just r in common."""
    x, p, r = BLS12_381.x, BLS12_381.fp.modulus, BLS12_381.fr.modulus
    assert x**4 - x**2 + 1 == r
    assert p - x == r * ((x - 1) ** 2 // 3)
    assert math.gcd(p - x, Group(BLS12_381, 2).order) == r
    x, p, r = BN254.x, BN254.fp.modulus, BN254.fr.modulus
    assert p + 1 - (6 * x**2 + 1) == r
    assert Group(BN254, 1).cofactor() == 1


def test_curve_lookup() -> None:
    for c in CURVES:
        assert curves.curve(c.fp.modulus) is c
        assert all(curves.curve(alias) is c for alias in (*c.aliases, c.name, c.snarkjs_name, c.name.upper()))
    for unknown in ("bls12-377", 17):
        with pytest.raises(KeyError, match="unknown curve"):
            curves.curve(unknown)


def test_params_header_is_fresh() -> None:
    header = Path(curves.__file__).with_name("kernels") / "params.cuh"
    printed = subprocess.run([sys.executable, "-m", "prover.curves"], capture_output=True, text=True, check=True).stdout
    assert printed == curves.params_header()
    assert header.read_text() == printed, "run: python -m prover.curves > prover/kernels/params.cuh"
