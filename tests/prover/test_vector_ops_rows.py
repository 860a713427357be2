"""Sparse products and element-wise operations over Fr against Python integers, for every variant that runs here."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.curves import CURVES, Curve
from prover.field import Form, pack, unpack

BOTH_CURVES = [pytest.param(c, id=c.name) for c in CURVES]
Row = list[tuple[int, int]]
"""(column, coefficient) entries, in order."""


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def edge_or_random(rng: random.Random, p: int) -> int:
    return rng.choice([0, 1, 2, p - 1, p - 2, rng.randrange(p), rng.randrange(p)])


def product(curve: Curve, rows: list[Row], w: list[int], threads: int = 1) -> list[int]:
    """The library's product; the coefficient table lists +1, -1 and then each coefficient that occurs."""
    p = curve.fr.modulus
    table = [1, p - 1]
    codes: dict[int, int] = {1: 0, p - 1: 1}
    for row in rows:
        for _, value in row:
            if value not in codes:
                codes[value] = len(table)
                table.append(value)
    out = native.spmv(
        curve,
        np.cumsum([0] + [len(row) for row in rows], dtype=np.uint64),
        np.array([column for row in rows for column, _ in row], dtype=np.uint32),
        np.array([codes[value] for row in rows for _, value in row], dtype=np.uint32),
        pack([value * curve.fr.r2 % p for value in table], curve.fr, "canonical"),
        pack(w, curve.fr, "canonical"),
        threads=threads,
    )
    assert native.field_check(native.fr(curve), out) is None
    return unpack(out, curve.fr)


def expected(curve: Curve, rows: list[Row], w: list[int]) -> list[int]:
    return [sum(value * w[column] for column, value in row) % curve.fr.modulus for row in rows]


@pytest.mark.parametrize("curve", BOTH_CURVES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(0, 12), max_size=20), threads=st.integers(1, 3))
def test_random_matrices(curve: Curve, seed: int, sizes: list[int], threads: int) -> None:
    """Empty rows, repeated columns, coefficients 0, 1, -1 and large ones."""
    rng, p = random.Random(seed), curve.fr.modulus
    w = [edge_or_random(rng, p) for _ in range(1 + seed % 9)]
    rows = [[(rng.randrange(len(w)), edge_or_random(rng, p)) for _ in range(size)] for size in sizes]
    assert product(curve, rows, w, threads) == expected(curve, rows, w)


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_shapes_without_entries(curve: Curve) -> None:
    assert product(curve, [], []) == []
    assert product(curve, [[], [], []], []) == [0, 0, 0]
    assert product(curve, [[], [(0, 1)], []], [5]) == [0, 5, 0]


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("value", [1, -1, 2, -2])
def test_a_long_row_of_the_largest_values(curve: Curve, value: int) -> None:
    """Sums of many largest products must not overflow what they are gathered in."""
    p = curve.fr.modulus
    rows = [[(0, value % p)] * 5000, [(0, value % p), (0, 1)], [(0, value % p), (0, p - 1), (0, 3)]]
    assert product(curve, rows, [p - 1]) == expected(curve, rows, [p - 1])


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_uneven_rows_over_several_tasks(curve: Curve, threads: int) -> None:
    rng, p = random.Random(7), curve.fr.modulus
    w = [rng.randrange(p) for _ in range(50)]
    sizes = [40000] + [0] * 3000 + [2] * 3000 + [20000, 1, 0]
    choices = [1, p - 1, 3, rng.randrange(p)]
    rows = [[(rng.randrange(50), rng.choice(choices)) for _ in range(size)] for size in sizes]
    assert product(curve, rows, w, threads) == expected(curve, rows, w)


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("threads", [1, 2])
def test_malformed_matrices_are_refused(curve: Curve, threads: int) -> None:
    def call(row_ptr: list[int], col: list[int], coef: list[int], table: int = 2, w: int = 3) -> None:
        native.spmv(
            curve,
            np.array(row_ptr, dtype=np.uint64),
            np.array(col, dtype=np.uint32),
            np.array(coef, dtype=np.uint32),
            pack([1] * table, curve.fr),
            pack([1] * w, curve.fr),
            threads=threads,
        )

    call([0, 1, 2], [0, 2], [0, 1])
    with pytest.raises(native.NativeError, match="row 1 "):
        call([0, 1, 2], [0, 3], [0, 1])
    with pytest.raises(native.NativeError, match="row 0 "):
        call([0, 1, 2], [0, 2], [2, 1])
    with pytest.raises(native.NativeError, match="row 1 "):
        call([0, 2, 1, 2], [0, 0], [0, 0])
    with pytest.raises(native.NativeError, match="row 0 "):
        call([0, 2**40, 2], [0, 0], [0, 0])
    with pytest.raises(native.NativeError, match="begins"):
        call([3, 2], [0, 0], [0, 0])
    with pytest.raises(native.NativeError, match="table"):
        call([0, 1], [0], [0], table=1)
    # Over many tasks, the boundaries found by bisection included.
    rows = 60000
    broken = np.arange(rows + 1)
    broken[rows // 3] = rows - 1
    with pytest.raises(native.NativeError, match="row "):
        call(broken.tolist(), [0] * rows, [0] * rows)


@pytest.mark.parametrize("curve", BOTH_CURVES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), n=st.integers(0, 40), threads=st.integers(1, 3), canonical=st.booleans())
def test_mul_sub(curve: Curve, seed: int, n: int, threads: int, canonical: bool) -> None:
    rng, p = random.Random(seed), curve.fr.modulus
    a, b, c = ([edge_or_random(rng, p) for _ in range(n)] for _ in range(3))
    wanted = [(x * y - z) % p for x, y, z in zip(a, b, c, strict=True)]
    pa, pb, pc = (pack(v, curve.fr) for v in (a, b, c))
    form: Form = "canonical" if canonical else "montgomery"
    out = native.mul_sub(curve, pa, pb, pc, canonical_out=canonical, threads=threads)
    assert unpack(out, curve.fr, form) == wanted
    assert native.field_check(native.fr(curve), out) is None
    for operand in (pa, pb, pc):
        aliased = operand.copy()
        x, y, z = (aliased if v is operand else v for v in (pa, pb, pc))
        native.mul_sub(curve, x, y, z, out=aliased, canonical_out=canonical, threads=threads)
        assert np.array_equal(aliased, out)


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("threads", [1, 2])
def test_mul_sub_over_several_tasks(curve: Curve, threads: int) -> None:
    rng, p, n = random.Random(3), curve.fr.modulus, 40000
    a, b, c = ([rng.randrange(p) for _ in range(n)] for _ in range(3))
    out = native.mul_sub(curve, pack(a, curve.fr), pack(b, curve.fr), pack(c, curve.fr), threads=threads)
    assert unpack(out, curve.fr) == [(x * y - z) % p for x, y, z in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_first_unsatisfied(curve: Curve) -> None:
    rng, p, n = random.Random(4), curve.fr.modulus, 30
    a, b = ([edge_or_random(rng, p) for _ in range(n)] for _ in range(2))
    c = [x * y % p for x, y in zip(a, b, strict=True)]

    def first(c: list[int]) -> int | None:
        return native.first_unsatisfied(curve, pack(a, curve.fr), pack(b, curve.fr), pack(c, curve.fr))

    assert first(c) is None
    for wrong in (0, 1, n - 1):
        changed = list(c)
        changed[wrong] = (changed[wrong] + 1) % p
        changed[n - 1] = (changed[n - 1] + 2) % p
        assert first(changed) == wrong
    empty = pack([], curve.fr)
    assert native.first_unsatisfied(curve, empty, empty, empty) is None


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_cancelling(curve: Curve) -> None:
    token = CancelToken()
    token.cancel()
    one = pack([1], curve.fr)
    with pytest.raises(Cancelled):
        native.mul_sub(curve, one, one, one, cancel=token)
    with pytest.raises(Cancelled):
        native.spmv(
            curve,
            np.array([0, 1], dtype=np.uint64),
            np.array([0], dtype=np.uint32),
            np.array([0], dtype=np.uint32),
            pack([1, 1], curve.fr),
            one,
            cancel=token,
        )
