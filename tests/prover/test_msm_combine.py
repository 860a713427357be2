"""The last step of a multiplication on a GPU: sums of windows, weighted by powers of two, to one affine point."""

import random

import numpy as np
import pytest

from prover import native
from prover.curves import BLS12_381, BN254
from prover.field import pack

CASES = [(BLS12_381, 1), (BLS12_381, 2), (BN254, 1), (BN254, 2)]


def generator(curve, group):
    coordinates = list(curve.g1) if group == 1 else [c for xy in curve.g2 for c in xy]
    return np.asarray(pack(coordinates, curve.fp)).reshape(1, -1)


def canonical(values):
    words = [[value >> (64 * i) & (2**64 - 1) for i in range(4)] for value in values]
    return np.array(words, dtype=np.uint64).reshape(len(values), 4)


def xyzz(curve, group, points, rng):
    """The points with a random Z each; those at infinity with random X and Y."""
    field = native.fp(curve) if group == 1 else native.fp2(curve)
    mul = native.FieldOp.MUL
    half = points.shape[1] // 2
    z = np.asarray(pack([rng.randrange(1, curve.fp.modulus) for _ in range(len(points) * group)], curve.fp))
    z = z.reshape(len(points), half)
    z[~points.any(axis=1)] = 0
    zz = np.asarray(native.field_op(field, native.FieldOp.SQR, z))
    zzz = np.asarray(native.field_op(field, mul, zz, z))
    x = np.asarray(native.field_op(field, mul, np.ascontiguousarray(points[:, :half]), zz))
    y = np.asarray(native.field_op(field, mul, np.ascontiguousarray(points[:, half:]), zzz))
    at_infinity = ~points.any(axis=1)
    x[at_infinity], y[at_infinity] = x[at_infinity] + 1, y[at_infinity] + 2
    return np.concatenate([x, y, zz, zzz], axis=1)


@pytest.mark.parametrize(("curve", "group"), CASES)
@pytest.mark.parametrize("positions", [[], [0], [5], [256], [0, 0, 0], [0, 3, 3, 11, 200, 256]])
def test_sum_of_weighted_points(curve, group, positions):
    rng = random.Random(str((curve.name, group, positions)))
    n = len(positions)
    factors = [rng.randrange(curve.fr.modulus) for _ in range(n)]
    if n > 2:
        factors[1] = 0
        factors[2] = factors[0]
    scalars = canonical(factors)
    points = np.asarray(native.fixed_base_mul(curve, group, generator(curve, group), scalars))
    given = xyzz(curve, group, points, rng)
    total = sum(f << p for f, p in zip(factors, positions, strict=True)) % curve.fr.modulus
    expected = native.fixed_base_mul(curve, group, generator(curve, group), canonical([total]))
    out = native.msm_combine(curve, group, given, np.array(positions, dtype=np.uint32))
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("positions", [[3, 2], [257], [0, 4, 3, 9]])
def test_positions_that_fall_or_exceed_the_scalars_are_refused(positions):
    points = np.zeros((len(positions), 24), dtype=np.uint64)
    with pytest.raises(native.NativeError, match="position"):
        native.msm_combine(BLS12_381, 1, points, np.array(positions, dtype=np.uint32))


def test_lengths_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError):
        native.msm_combine(BN254, 1, np.zeros((2, 16), dtype=np.uint64), np.zeros(3, dtype=np.uint32))
