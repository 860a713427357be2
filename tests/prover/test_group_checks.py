"""Points that are not reduced, not on the curve, not in the subgroup, alone and among thousands of good ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from curve_oracle import Group

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.curves import BLS12_381, BN254, CURVES
from prover.field import Point, Words, pack, pack_points
from prover.native import PointFault

GROUPS = [pytest.param(Group(c, g), id=f"{c.name}-g{g}") for c in CURVES for g in (1, 2)]
WITH_COFACTOR = [case for case, group in ((g, g.values[0]) for g in GROUPS) if group.cofactor() > 1]
ALL_GROUPS = pytest.mark.parametrize("group", GROUPS)
SEED = bytes(range(32))


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def packed(points: list[Point], group: Group) -> Words:
    return pack_points(points, group.curve, group.group)


def many(group: Group, n: int) -> Words:
    """n points of the subgroup, a few of them infinity."""
    rng = random.Random(n)
    values = [rng.randrange(group.r) if rng.random() < 0.95 else 0 for _ in range(n)]
    base = packed([group.generator], group)
    scalars = pack(values, group.curve.fr, "canonical")
    return np.asarray(native.fixed_base_mul(group.curve, group.group, base, scalars, threads=2))


def check(points: object, group: Group, subgroup: bool = True, threads: int = 1) -> tuple[int, PointFault] | None:
    return native.points_check(group.curve, group.group, points, subgroup=subgroup, threads=threads)


def torsion(group: Group, order: int) -> Point:
    """A point of this prime order, which divides the cofactor once or more."""
    rng = random.Random(order)
    cofree = group.order
    while cofree % order == 0:
        cofree //= order
    while True:
        point = group.mul(cofree, group.random_point(rng))
        if point is not None:
            break
    while (higher := group.mul(order, point)) is not None:
        point = higher
    return point


SMALL_ORDERS = {("bls12-381", 1): [3, 11, 10177], ("bls12-381", 2): [13, 23, 2713], ("bn254", 2): [10069, 5864401]}


def strays(group: Group) -> list[Point]:
    """Points of the curve outside the subgroup: random ones, of small order, and off by one of small order."""
    rng = random.Random(6)
    small = [torsion(group, order) for order in SMALL_ORDERS[group.curve.name, group.group]]
    near = [group.add(group.mul(rng.randrange(group.r), group.generator), t) for t in small]
    return [group.random_point(rng), group.mul(group.r, group.random_point(rng)), *small, *near]


@ALL_GROUPS
def test_good_points_pass(group: Group) -> None:
    for n in (0, 1, 17, 100):
        points = many(group, n)
        for threads in (1, 2, 3):
            assert check(points, group, threads=threads) is None
        assert native.points_in_subgroup(group.curve, group.group, points, SEED)
    assert check(packed([None, group.generator], group), group) is None


@pytest.mark.parametrize("group", WITH_COFACTOR)
def test_points_outside_the_subgroup(group: Group) -> None:
    """The oracle agrees that they are: r times the point is not infinity."""
    for stray in strays(group):
        assert group.contains(stray)
        assert group.mul(group.r, stray) is not None
        alone = packed([stray], group)
        assert check(alone, group, subgroup=False) is None
        assert check(alone, group) == (0, PointFault.NOT_IN_SUBGROUP)
        assert not native.points_in_subgroup(group.curve, group.group, alone, SEED)


@pytest.mark.parametrize("group", WITH_COFACTOR)
def test_multiples_of_random_points_agree_with_the_order(group: Group) -> None:
    rng = random.Random(7)
    points = [group.mul(rng.choice([1, group.cofactor()]), group.random_point(rng)) for _ in range(12)]
    for point in points:
        inside = group.mul(group.r, point) is None
        assert (check(packed([point], group), group) is None) == inside


def test_bn254_g1_has_no_other_points() -> None:
    group, rng = Group(BN254, 1), random.Random(8)
    points = packed([group.random_point(rng) for _ in range(20)], group)
    assert check(points, group) is None
    assert native.points_in_subgroup(BN254, 1, points, SEED)


@ALL_GROUPS
def test_points_off_the_curve_and_unreduced(group: Group) -> None:
    size = group.curve.fp.bytes
    p = group.curve.fp.modulus
    good = many(group, 40)
    rng = random.Random(9)
    for index in (0, 13, 39):
        for position in range(2 * group.group):
            off = bytearray(good.tobytes())
            at = index * len(good[0].tobytes()) + position * size
            off[at] ^= 1
            assert check(off, group) == (index, PointFault.NOT_ON_CURVE)
            unreduced = bytearray(good.tobytes())
            value = int.from_bytes(unreduced[at : at + size], "little") + p
            unreduced[at : at + size] = value.to_bytes(size, "little")
            assert check(unreduced, group, threads=2) == (index, PointFault.NOT_REDUCED)
    swapped = packed([group.random_point(rng)], group)
    half = swapped.shape[1] // 2
    assert check(np.roll(swapped, half, axis=1), group) == (0, PointFault.NOT_ON_CURVE)


@pytest.mark.parametrize("group", WITH_COFACTOR)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_first_of_several_offenders_is_named(group: Group, threads: int) -> None:
    points = many(group, 120)
    stray = packed(strays(group)[:1], group)[0]
    for first in (0, 31, 77, 119):
        bad = points.copy()
        bad[first:] = stray
        assert check(bad, group, threads=threads) == (first, PointFault.NOT_IN_SUBGROUP)


@pytest.mark.parametrize("group", WITH_COFACTOR)
def test_a_later_offender_found_meanwhile_does_not_win(group: Group) -> None:
    """One thread finds the first after a while, another a later one at once; in some of the rows at the same time."""
    points = many(group, 32)
    stray = packed(strays(group)[:1], group)[0]
    for first in [*range(16)] * 6:
        bad = points.copy()
        bad[first:] = stray
        assert check(bad, group, threads=2) == (first, PointFault.NOT_IN_SUBGROUP)


@pytest.mark.parametrize("group", WITH_COFACTOR)
def test_one_stray_point_among_thousands(group: Group) -> None:
    """A point off by one of order 3 would pass one linear combination in three; it passes no bucket test."""
    points = many(group, 3000)
    assert native.points_in_subgroup(group.curve, group.group, points, SEED, threads=2)
    for i, stray in enumerate(strays(group)):
        bad = points.copy()
        bad[(997 * i + 5) % 3000] = packed([stray], group)[0]
        assert not native.points_in_subgroup(group.curve, group.group, bad, SEED, threads=1 + i % 3)


def test_strays_that_cancel_each_other() -> None:
    """T and -T, and three times T of order three: their sums are in the subgroup."""
    group = Group(BLS12_381, 1)
    t = torsion(group, 3)
    points = many(group, 3000)
    cases: list[list[Point]] = [[t, group.neg(t)], [t, t, t], [t, group.neg(t)] * 8]
    for seed in range(10):
        for case in cases:
            bad = points.copy()
            bad[100 : 100 + len(case)] = packed(case, group)
            assert not native.points_in_subgroup(BLS12_381, 1, bad, bytes([seed]) * 32)


def test_rounds_are_drawn_apart() -> None:
    """T and -T share a bucket of a round in sixteen or fewer: were all rounds alike, some of these seeds would miss."""
    group = Group(BLS12_381, 1)
    t = torsion(group, 3)
    points = many(group, 400)
    points[[7, 301]] = packed([t, group.neg(t)], group)
    for seed in range(150):
        assert not native.points_in_subgroup(BLS12_381, 1, points, seed.to_bytes(32, "little"))


def chacha_words(seeds: Words, counter: int, nonce: int) -> npt.NDArray[np.uint32]:
    """The first ChaCha20 block (RFC 8439) of every seed, sixteen words each; the nonce is its lowest word."""
    key = seeds.view("<u4")
    rows = [np.full(len(seeds), word, dtype=np.uint32) for word in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)]
    rows += [key[:, i].astype(np.uint32) for i in range(8)]
    rows += [np.full(len(seeds), word, dtype=np.uint32) for word in (counter, nonce, 0, 0)]
    s = [row.copy() for row in rows]

    def step(a: int, d: int, turn: int) -> None:
        """s[d] ^= s[a], turned left."""
        mixed = s[d] ^ s[a]
        s[d] = (mixed << np.uint32(turn)) | (mixed >> np.uint32(32 - turn))

    for _ in range(10):
        for shift in (0, 1):
            for i in range(4):
                a, b, c, d = i, 4 + (i + shift) % 4, 8 + (i + 2 * shift) % 4, 12 + (i + 3 * shift) % 4
                for first, second, turns in ((a, c, (16, 12)), (a, c, (8, 7))):
                    s[first] = s[first] + s[b]
                    step(first, d, turns[0])
                    s[second] = s[second] + s[d]
                    step(second, b, turns[1])
    return np.stack([x + y for x, y in zip(s, rows, strict=True)], axis=1)


def test_chacha_of_this_file() -> None:
    """Of a key of zeros (RFC 8439, appendix A.1, test vector 1)."""
    words = chacha_words(np.zeros((1, 4), dtype=np.uint64), 0, 0)[0]
    assert words.astype("<u4").tobytes().hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1a")


DRAWN = 400
ROUNDS, BUCKETS = 10, 16
"""Of so many points, with every variant's weights."""


def drawn_buckets(seeds: Words) -> npt.NDArray[np.uint32]:
    """The bucket of every point in every round: (seeds, rounds, points). Each takes 16 bits of the round's stream."""
    rounds = []
    for number in range(ROUNDS):
        words = [chacha_words(seeds, number, block) for block in range((DRAWN + 31) // 32)]
        stream = np.concatenate(words, axis=1)
        halves = np.stack([stream & np.uint32(0xFFFF), stream >> np.uint32(16)], axis=2)
        rounds.append(halves.reshape(len(seeds), -1)[:, :DRAWN] % BUCKETS)
    return np.stack(rounds, axis=1)


def some_seeds(n: int) -> Words:
    """n seeds of 32 bytes."""
    return np.random.default_rng(12).integers(0, 2**64, size=(n, 4), dtype=np.uint64)


def test_every_bucket_counts() -> None:
    """Seeds and places that put the one stray point into the same buckets in all rounds: a check without those, one
    half of them or the other, the even or the odd ones, would pass it.
    """
    group = Group(BLS12_381, 1)
    stray = packed([torsion(group, 11)], group)[0]
    points, seeds = many(group, DRAWN), some_seeds(20)
    buckets = drawn_buckets(seeds)
    for inside in (buckets < BUCKETS // 2, buckets >= BUCKETS // 2, buckets % 2 == 0, buckets % 2 == 1):
        found = np.argwhere(inside.all(axis=1))
        assert len(found) > 0
        for seed, place in found[:4]:
            bad = points.copy()
            bad[place] = stray
            assert not native.points_in_subgroup(BLS12_381, 1, bad, seeds[seed].tobytes())


def test_every_round_counts() -> None:
    """T and -T in one bucket in the first five rounds, or the last five: the other rounds tell them."""
    group = Group(BLS12_381, 1)
    t = torsion(group, 3)
    pair = packed([t, group.neg(t)], group)
    points, seeds = many(group, DRAWN), some_seeds(200)
    buckets = drawn_buckets(seeds)
    weights = BUCKETS ** np.arange(ROUNDS // 2, dtype=np.int64)
    for half in (buckets[:, : ROUNDS // 2], buckets[:, ROUNDS // 2 :]):
        key = np.einsum("srp,r->sp", half, weights)
        order = np.argsort(key, axis=1)
        ordered = np.take_along_axis(key, order, axis=1)
        found = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
        assert len(found) > 0
        for seed, i in found[:4]:
            bad = points.copy()
            bad[order[seed, i : i + 2]] = pair
            assert not native.points_in_subgroup(BLS12_381, 1, bad, seeds[seed].tobytes())


def test_cancelled() -> None:
    group, token = Group(BLS12_381, 1), CancelToken()
    points = many(group, 3000)
    token.cancel()
    with pytest.raises(Cancelled):
        native.points_in_subgroup(BLS12_381, 1, points, SEED, cancel=token)
    with pytest.raises(Cancelled):
        native.points_in_subgroup(BLS12_381, 1, points[:10], SEED, cancel=token)


def test_seed_has_thirty_two_bytes() -> None:
    with pytest.raises(ValueError, match="seed has"):
        native.points_in_subgroup(BLS12_381, 1, many(Group(BLS12_381, 1), 3), b"short")
