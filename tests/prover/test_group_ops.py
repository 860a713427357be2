"""Group operations of every variant against integers and against py_ecc and arkworks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest
from curve_oracle import Group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bls12_381, optimized_bn128

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.curves import BLS12_381, CURVES, Curve
from prover.field import Point, Words, pack, pack_points, unpack_points
from prover.native import GroupId, GroupOp

GROUPS = [pytest.param(Group(c, g), id=f"{c.name}-g{g}") for c in CURVES for g in (1, 2)]
ALL_GROUPS = pytest.mark.parametrize("group", GROUPS)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def packed(points: list[Point], group: Group) -> Words:
    return pack_points(points, group.curve, group.group)


def unpacked(array: Any, group: Group) -> list[Point]:
    return unpack_points(np.asarray(array), group.curve, group.group)


def scalars_of(values: list[int], curve: Curve) -> Words:
    return pack(values, curve.fr, "canonical")


def sample(group: Group) -> list[Point]:
    """Infinity, small multiples and their negatives (equal and opposite pairs), points off the subgroup."""
    rng = random.Random(3)
    small = [group.mul(k, group.generator) for k in (1, 2, 3)]
    return [None, *small, *(group.neg(p) for p in small), group.random_point(rng), group.random_point(rng)]


@ALL_GROUPS
def test_all_pairs_of_a_sample(group: Group) -> None:
    points = sample(group)
    pairs = [(p, q) for p in points for q in points]
    a, b = packed([p for p, _ in pairs], group), packed([q for _, q in pairs], group)
    sums = native.group_op(group.curve, group.group, GroupOp.ADD, a, b)
    assert unpacked(sums, group) == [group.add(p, q) for p, q in pairs]
    doubles = native.group_op(group.curve, group.group, GroupOp.DOUBLE, a)
    assert unpacked(doubles, group) == [group.add(p, p) for p, _ in pairs]
    negatives = native.group_op(group.curve, group.group, GroupOp.NEG, a)
    assert unpacked(negatives, group) == [group.neg(p) for p, _ in pairs]


@ALL_GROUPS
@pytest.mark.parametrize("n", [0, 1, 511, 512, 513, 1300])
def test_addition_in_batches(group: Group, n: int) -> None:
    """Sums across the batches that share an inversion, with every exceptional pair among them."""
    points = sample(group)
    rng = random.Random(n)
    pairs = [(rng.choice(points), rng.choice(points)) for _ in range(n)]
    table = {(p, q): group.add(p, q) for p in points for q in points}
    a, b = packed([p for p, _ in pairs], group), packed([q for _, q in pairs], group)
    out = native.group_op(group.curve, group.group, GroupOp.ADD, a, b, out=a)
    assert unpacked(out, group) == [table[pair] for pair in pairs]


def scalars(group: Group) -> st.SearchStrategy[int]:
    r = group.r
    edges = [
        0,
        1,
        2,
        3,
        7,
        8,
        9,
        15,
        16,
        17,
        r - 1,
        r - 2,
        r // 2,
        r // 2 + 1,
        (1 << 128) - 1,
        1 << 128,
        (1 << 252) - 1,
    ]
    runs = st.integers(0, 250).map(lambda k: ((1 << 255) - (1 << k)) % r)
    return st.one_of(st.sampled_from(edges), runs, st.integers(0, r - 1))


@ALL_GROUPS
@QUICK
@given(data=st.data())
def test_multiples(group: Group, data: st.DataObject) -> None:
    """Both ways of multiplying against double-and-add over the integers, off the subgroup too."""
    values = data.draw(st.lists(scalars(group), min_size=1, max_size=4))
    point = data.draw(st.sampled_from(sample(group)))
    threads = data.draw(st.integers(1, 3))
    want = [group.mul(k, point) for k in values]
    s, base = scalars_of(values, group.curve), packed([point], group)
    each = native.group_mul(group.curve, group.group, np.repeat(base, len(values), axis=0), s, threads=threads)
    assert unpacked(each, group) == want
    fixed = native.fixed_base_mul(group.curve, group.group, base, s, threads=threads)
    assert unpacked(fixed, group) == want


@ALL_GROUPS
@pytest.mark.parametrize("n", [0, 1, 2, 300, 2100])
def test_fixed_base_in_every_window_width(group: Group, n: int) -> None:
    """(k + 1)B - kB = B for all scalars, at sizes with narrow and wide windows; the last ones wrap around r."""
    rng = random.Random(n)
    values = [rng.randrange(group.r) for _ in range(n)]
    s = scalars_of(values, group.curve)
    s1 = scalars_of([(k + 1) % group.r for k in values], group.curve)
    c, g, base = group.curve, group.group, packed([group.generator], group)
    low = native.group_op(c, g, GroupOp.NEG, native.fixed_base_mul(c, g, base, s, threads=2))
    step = native.group_op(c, g, GroupOp.ADD, native.fixed_base_mul(c, g, base, s1, threads=2), low)
    assert np.array_equal(np.asarray(step), np.repeat(base, n, axis=0))
    if n:
        assert unpacked(native.fixed_base_mul(c, g, base, s[:1]), group) == [group.mul(values[0], group.generator)]


@ALL_GROUPS
def test_infinity_as_base(group: Group) -> None:
    c, g = group.curve, group.group
    out = native.fixed_base_mul(c, g, packed([None], group), scalars_of([0, 1, group.r - 1], c))
    assert unpacked(out, group) == [None, None, None]


@ALL_GROUPS
def test_scalars_not_below_r_are_refused(group: Group) -> None:
    c, g = group.curve, group.group
    raw = (5).to_bytes(32, "little") + group.r.to_bytes(32, "little")
    base = packed([group.generator], group)
    with pytest.raises(native.NativeError, match="scalar 1 is not below r"):
        native.fixed_base_mul(c, g, base, raw)
    with pytest.raises(native.NativeError, match="scalar 1 is not below r"):
        native.group_mul(c, g, np.repeat(base, 2, axis=0), raw)


@ALL_GROUPS
def test_cancelled(group: Group) -> None:
    c, g, base = group.curve, group.group, packed([group.generator], group)
    token = CancelToken()
    token.cancel()
    s = scalars_of([1, 2], c)
    with pytest.raises(Cancelled):
        native.fixed_base_mul(c, g, base, s, cancel=token)
    with pytest.raises(Cancelled):
        native.group_mul(c, g, np.repeat(base, 2, axis=0), s, cancel=token)
    with pytest.raises(Cancelled):
        native.points_check(c, g, base, cancel=token)


# --- independent implementations -------------------------------------------------------------------------------------


def py_ecc_multiply(group: Group) -> Callable[[int], Point]:
    module: Any = optimized_bls12_381 if group.curve is BLS12_381 else optimized_bn128
    generator = module.G1 if group.group == 1 else module.G2

    def multiple(k: int) -> Point:
        point = module.multiply(generator, k)
        if module.is_inf(point):
            return None
        x, y = module.normalize(point)
        if group.group == 1:
            return int(x), int(y)
        return (int(x.coeffs[0]), int(x.coeffs[1])), (int(y.coeffs[0]), int(y.coeffs[1]))

    return multiple


@ALL_GROUPS
def test_multiples_by_py_ecc(group: Group) -> None:
    rng = random.Random(4)
    values = [0, 1, 2, group.r - 1, rng.randrange(group.r), rng.randrange(group.r)]
    multiple = py_ecc_multiply(group)
    out = native.fixed_base_mul(
        group.curve, group.group, packed([group.generator], group), scalars_of(values, group.curve)
    )
    assert unpacked(out, group) == [multiple(k) for k in values]


@pytest.mark.parametrize("number", [1, 2])
def test_sums_by_arkworks(number: GroupId) -> None:
    """Compressed encodings of aG + bG, which arkworks makes from its own points."""
    group = Group(BLS12_381, number)
    kind: Any = arkworks.G1Point if number == 1 else arkworks.G2Point
    rng = random.Random(5)
    for a, b in [(rng.randrange(group.r), rng.randrange(group.r)) for _ in range(8)] + [(1, 1), (5, group.r - 5)]:
        s = scalars_of([a, b], BLS12_381)
        ours = native.fixed_base_mul(BLS12_381, number, packed([group.generator], group), s)
        total = native.group_op(BLS12_381, number, GroupOp.ADD, np.asarray(ours)[:1], np.asarray(ours)[1:])
        theirs = kind() * arkworks.Scalar(a) + kind() * arkworks.Scalar(b)
        assert zcash_compressed(unpacked(total, group)[0], group) == bytes(theirs.to_compressed_bytes())


def zcash_compressed(point: Point, group: Group) -> bytes:
    """The compressed encoding: flags compressed, infinity, larger y; x big-endian, c1 first."""
    size = 48 * group.group
    if point is None:
        return bytes([0xC0]) + bytes(size - 1)
    x, y = point
    p = group.curve.fp.modulus
    xs: Any = (x,) if group.group == 1 else (x[1], x[0])  # type: ignore[index]
    ys: Any = (y,) if group.group == 1 else (y[1], y[0])  # type: ignore[index]
    larger = ys > tuple(-c % p for c in ys) if ys[0] else ys[-1] > -ys[-1] % p
    raw = bytearray(b"".join(c.to_bytes(48, "big") for c in xs))
    raw[0] |= 0x80 | (0x20 if larger else 0)
    return bytes(raw)
