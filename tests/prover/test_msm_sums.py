"""Multi-scalar multiplication of every variant against sums known in closed form and against arkworks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest
from curve_oracle import Group
from msm_inputs import GROUPS, SCALAR_SETS, bases, expected, msm, packed_scalars, scalar_set

from prover import native
from prover.curves import BLS12_381
from prover.field import Point, coordinates, pack_points, unpack_points

ALL_GROUPS = pytest.mark.parametrize("group", [pytest.param(g, id=f"{g.curve.name}-g{g.group}") for g in GROUPS])


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


@ALL_GROUPS
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100])
def test_small_sizes(group: Group, n: int) -> None:
    for name in ("uniform", "one", "witness"):
        scalars = scalar_set(name, group.curve.index, n)
        assert msm(group, bases(group, n), scalars) == expected(group, scalars), name


@ALL_GROUPS
@pytest.mark.parametrize("name", SCALAR_SETS)
def test_scalar_sets(group: Group, name: str) -> None:
    for n, threads in ((255, 1), (256, 2), (257, 3), (1000, 1), (1000, 2)):
        scalars = scalar_set(name, group.curve.index, n)
        assert msm(group, bases(group, n), scalars, threads) == expected(group, scalars), (n, threads)


@ALL_GROUPS
@pytest.mark.parametrize("name", ["uniform", "one", "all equal", "witness"])
def test_many_points_of_which_many_are_equal(group: Group, name: str) -> None:
    n = 9001
    scalars = scalar_set(name, group.curve.index, n)
    assert msm(group, bases(group, n), scalars, 2) == expected(group, scalars)


@pytest.mark.parametrize("group", [pytest.param(g, id=g.curve.name) for g in GROUPS if g.group == 1])
def test_more_points_than_scalars_are_split_for(group: Group) -> None:
    n = 33000
    scalars = scalar_set("uniform", group.curve.index, n)
    assert msm(group, bases(group, n), scalars) == expected(group, scalars)


@pytest.mark.parametrize("bits", range(2, 27))
def test_short_scalars_among_long_ones(bits: int) -> None:
    """4096 scalars are read together; a carry may leave the windows that their lengths reach."""
    group = GROUPS[2]
    scalars = [(1 << bits) - 1 - (i & 1) for i in range(4096)] + list(scalar_set("uniform", group.curve.index, 500))
    assert msm(group, bases(group, len(scalars)), scalars) == expected(group, scalars)


@ALL_GROUPS
def test_single_scalars(group: Group) -> None:
    """Powers of two and their neighbours, both ends and the middle of the range, where digits carry."""
    r = group.r
    values = [0, 1, 2, 3, r - 1, r - 2, r // 2 - 1, r // 2, r // 2 + 1, r // 2 + 2]
    values += [(1 << k) + d for k in (7, 8, 13, 63, 64, 65, 127, 128, 191, 192, 250, 252) for d in (-1, 0, 1)]
    values = [v for v in values if 0 <= v < r]
    point = bases(group, 1)
    for v in values:
        assert msm(group, point, [v]) == expected(group, [v]), v
    assert msm(group, bases(group, len(values)), values) == expected(group, values)


@ALL_GROUPS
@pytest.mark.parametrize("name", ["uniform", "one", "minus one", "all equal"])
def test_points_at_infinity_add_nothing(group: Group, name: str) -> None:
    n = 700
    rng = random.Random(5)
    points, scalars = bases(group, n), scalar_set(name, group.curve.index, n)
    absent = rng.sample(range(n), n // 2)
    points[absent] = 0
    kept = [0 if i in set(absent) else s for i, s in enumerate(scalars)]
    for threads in (1, 2):
        assert msm(group, points, scalars, threads) == expected(group, kept)
    points[:] = 0
    assert msm(group, points, scalars) is None


@ALL_GROUPS
@pytest.mark.parametrize("name", ["uniform", "one", "minus one", "8 bits", "all equal"])
def test_equal_and_opposite_points(group: Group, name: str) -> None:
    """One point and its opposite over and over: every addition of a bucket doubles or cancels."""
    n = 600
    rng = random.Random(6)
    scalars = scalar_set(name, group.curve.index, n)
    signs = [rng.choice((1, -1)) for _ in range(n)]
    plus = bases(group, 1)
    minus = np.asarray(native.group_op(group.curve, group.group, native.GroupOp.NEG, plus))
    for chosen in (signs, [1] * n, [1, -1] * (n // 2)):
        points = np.concatenate([plus if s > 0 else minus for s in chosen])
        logs = [s * 0xA5A5_0F0F_1234_5678_9ABC_DEF0_0001 for s in chosen]
        assert msm(group, points, scalars) == expected(group, scalars, logs)
    pairs = [s for s in scalars[: n // 2] for _ in range(2)]
    assert msm(group, np.concatenate([plus, minus] * (n // 2)), pairs) is None


def edge_points(group: Group) -> list[Point]:
    """Points with coordinates next to 0 and to p, as a rule outside the subgroup, and their opposites."""
    p = group.curve.fp.modulus
    found: list[Point] = []
    for k in range(40):
        for x0 in (k, p - 1 - k):
            for x in [x0] if group.group == 1 else [(x0, k), (k, x0), (x0, p - 1)]:
                y = group.f.sqrt(group.right_side(x))
                if y is not None:
                    point = cast("Point", (x, y))
                    found += [point, group.neg(point)]
    return found[:60]


@ALL_GROUPS
def test_points_with_extreme_coordinates(group: Group) -> None:
    points = edge_points(group)
    assert len(points) >= 20
    rng = random.Random(7)
    # Small scalars are taken as they are, so that the bases' order does not matter.
    scalars = [rng.randrange(1, 4) for _ in points]
    total: Point = None
    for k, point in zip(scalars, points, strict=True):
        total = group.add(total, group.mul(k, point))
    assert msm(group, pack_points(points, group.curve, group.group), scalars) == total


@ALL_GROUPS
def test_memory_without_alignment(group: Group) -> None:
    n = 300
    scalars = scalar_set("uniform", group.curve.index, n)
    point_bytes, scalar_bytes = bases(group, n).tobytes(), packed_scalars(scalars, group.curve).tobytes()
    for shift in (1, 3, 4):
        points = memoryview(b"\0" * shift + point_bytes)[shift:]
        packed = memoryview(b"\0" * shift + scalar_bytes)[shift:]
        out = native.msm(group.curve, group.group, points, packed)
        assert unpack_points(np.asarray(out), group.curve, group.group)[0] == expected(group, scalars)


def test_like_arkworks() -> None:
    n = 400
    scalars = scalar_set("uniform", BLS12_381.index, n)
    theirs = [arkworks.Scalar.from_le_bytes(s.to_bytes(32, "little")) for s in scalars]
    groups: tuple[tuple[native.GroupId, Any], ...] = ((1, arkworks.G1Point), (2, arkworks.G2Point))
    for g, kind in groups:
        group = Group(BLS12_381, g)
        points = [
            kind.from_xy_bytes_unchecked_le(b"".join(c.to_bytes(48, "little") for c in coordinates(p, group.group)))
            for p in unpack_points(bases(group, n), BLS12_381, group.group)
        ]
        sum_of_theirs = bytes(kind.multiexp_unchecked(points, theirs).to_xy_bytes_le())
        ours = b"".join(
            c.to_bytes(48, "little") for c in coordinates(msm(group, bases(group, n), scalars, 2), group.group)
        )
        assert ours == sum_of_theirs
