"""Bases of known discrete logarithms, scalar sets and expected sums for the tests of multi-scalar multiplication."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from curve_oracle import Group

from prover import native
from prover.curves import CURVES, Curve
from prover.field import Point, Words, pack, pack_points, unpack_points

START, STRIDE = 0xA5A5_0F0F_1234_5678_9ABC_DEF0_0001, 0x1357_9BDF_0246_8ACE

GROUPS = [Group(c, g) for c in CURVES for g in (1, 2)]


@functools.cache
def progression(curve_index: int, group: native.GroupId, n: int) -> tuple[Point, ...]:
    """(START + i*STRIDE) times the generator for i < n, one addition each, in Python."""
    g = Group(CURVES[curve_index], group)
    point, step = g.mul(START, g.generator), g.mul(STRIDE, g.generator)
    points = []
    for _ in range(n):
        points.append(point)
        point = g.add(point, step)
    return tuple(points)


@functools.cache
def packed_progression(curve_index: int, group: native.GroupId, n: int) -> Words:
    return pack_points(progression(curve_index, group, n), CURVES[curve_index], group)


def bases(group: Group, n: int) -> Words:
    """The progression's first n points; past 1000 it begins again (points then meet their equals)."""
    period = 1000
    rows = packed_progression(group.curve.index, group.group, period)
    return np.ascontiguousarray(np.resize(rows, (n, rows.shape[1])))


def logarithms(n: int) -> list[int]:
    """The discrete logarithms of ``bases``."""
    return [START + (i % 1000) * STRIDE for i in range(n)]


@functools.lru_cache(maxsize=4096)
def multiple(curve_index: int, group: native.GroupId, k: int) -> Point:
    """k times the generator, in Python."""
    g = Group(CURVES[curve_index], group)
    return g.mul(k % g.r, g.generator)


def expected(group: Group, scalars: Sequence[int], logs: Sequence[int] | None = None) -> Point:
    """The sum over bases of these logarithms."""
    logs = logarithms(len(scalars)) if logs is None else logs
    total = sum(s * x for s, x in zip(scalars, logs, strict=True)) % group.r
    return multiple(group.curve.index, group.group, total)


def packed_scalars(values: Sequence[int], curve: Curve) -> Words:
    return pack(values, curve.fr, "canonical").reshape(-1, 4)


def msm(group: Group, points: Any, scalars: Sequence[int], threads: int = 1) -> Point:
    """The library's answer."""
    out = native.msm(group.curve, group.group, points, packed_scalars(scalars, group.curve), threads=threads)
    return unpack_points(np.asarray(out), group.curve, group.group)[0]


def _mixed(choices: Callable[[random.Random, int], int]) -> Callable[[random.Random, int, int], list[int]]:
    return lambda rng, r, n: [choices(rng, r) % r for _ in range(n)]


def _signed(bits: int) -> Callable[[random.Random, int], int]:
    return lambda rng, r: rng.choice((1, -1)) * rng.getrandbits(bits)


def _near_powers(rng: random.Random, r: int, n: int) -> list[int]:
    """Where the splitting along endomorphisms rounds: halves of x^i, 6x^2 and r, small multiples of them."""
    x = next(c.x for c in CURVES if c.fr.modulus == r)
    steps = [x, x**2, x**3, 6 * x**2, 2 * x + 1, 36 * x**3]
    return [(rng.randrange(-4, 5) * rng.choice(steps) // 2 + rng.randrange(-2, 3)) % r for _ in range(n)]


SCALAR_SETS: dict[str, Callable[[random.Random, int, int], list[int]]] = {
    "uniform": _mixed(lambda rng, r: rng.randrange(r)),
    "zero": _mixed(lambda rng, r: 0),
    "one": _mixed(lambda rng, r: 1),
    "minus one": _mixed(lambda rng, r: -1),
    "zero or plus or minus one": _mixed(lambda rng, r: rng.choice((0, 1, -1))),
    "8 bits": _mixed(_signed(8)),
    "16 bits": _mixed(_signed(16)),
    "64 bits": _mixed(_signed(64)),
    "witness": _mixed(lambda rng, r: rng.choice((0, 0, 0, 1, 1, 1, 1, -1, rng.getrandbits(64), rng.randrange(r)))),
    "sparse": _mixed(lambda rng, r: rng.randrange(r) if rng.random() < 0.02 else 0),
    "all equal": lambda rng, r, n: [rng.randrange(r)] * n,
    "one bit": _mixed(lambda rng, r: 1 << 77),
    "runs": lambda rng, r, n: [(i // 13 + 1) * (r // 97) % r for i in range(n)],
    "every digit minimal": _mixed(
        lambda rng, r: rng.choice((int("8" * 60, 16), int("80" * 30, 16), int("8000" * 15, 16)))
    ),
    "around half": _mixed(lambda rng, r: r // 2 + rng.randrange(-2, 4)),
    "around zero": _mixed(lambda rng, r: rng.randrange(-3, 4)),
    "near the parameter's powers": _near_powers,
}


@functools.cache
def scalar_set(name: str, curve_index: int, n: int) -> tuple[int, ...]:
    """n canonical scalars of a named set, always the same."""
    rng = random.Random(f"{name} {n}")
    return tuple(SCALAR_SETS[name](rng, CURVES[curve_index].fr.modulus, n))
