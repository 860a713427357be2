"""Relations that hold between multi-scalar multiplications, whatever the points are; cancelling; refused arguments."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from curve_oracle import Group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msm_inputs import GROUPS, bases, msm, packed_scalars, scalar_set

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.curves import BLS12_381, BN254
from prover.field import Words, pack_points

ALL_GROUPS = pytest.mark.parametrize("group", [pytest.param(g, id=f"{g.curve.name}-g{g.group}") for g in GROUPS])
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def case(group: Group, n: int, seed: int) -> tuple[Words, list[int]]:
    """Bases with repetitions and infinities; scalars of all lengths, both signs, with zeros."""
    rng = random.Random(seed)
    points = bases(group, 300)[[rng.randrange(300) for _ in range(n)]]
    points[[i for i in range(n) if rng.random() < 0.1]] = 0
    scalars = [rng.choice((1, -1)) * rng.getrandbits(rng.choice((0, 1, 5, 64, 253))) % group.r for _ in range(n)]
    return points, scalars


@ALL_GROUPS
@FEW
@given(n=st.integers(1, 500), seed=st.integers(0, 2**32))
def test_order_and_threads_do_not_matter(group: Group, n: int, seed: int) -> None:
    points, scalars = case(group, n, seed)
    order = random.Random(seed).sample(range(n), n)
    total = msm(group, points, scalars)
    assert msm(group, points[order], [scalars[i] for i in order], threads=2) == total
    assert msm(group, points, scalars, threads=3) == total


@ALL_GROUPS
@FEW
@given(n=st.integers(1, 500), seed=st.integers(0, 2**32), data=st.data())
def test_parts_add_up(group: Group, n: int, seed: int, data: st.DataObject) -> None:
    points, scalars = case(group, n, seed)
    cut = data.draw(st.integers(0, n))
    parts = group.add(msm(group, points[:cut], scalars[:cut]), msm(group, points[cut:], scalars[cut:]))
    assert parts == msm(group, points, scalars)


@ALL_GROUPS
@FEW
@given(n=st.integers(1, 300), seed=st.integers(0, 2**32), k=st.integers(0, 2**300))
def test_a_factor_comes_out(group: Group, n: int, seed: int, k: int) -> None:
    points, scalars = case(group, n, seed)
    assert msm(group, points, [k * s % group.r for s in scalars]) == group.mul(k % group.r, msm(group, points, scalars))


@ALL_GROUPS
@FEW
@given(n=st.integers(1, 500), seed=st.integers(0, 2**32))
def test_opposite_scalars_and_opposite_points(group: Group, n: int, seed: int) -> None:
    points, scalars = case(group, n, seed)
    opposite = np.asarray(native.group_op(group.curve, group.group, native.GroupOp.NEG, points))
    total = msm(group, points, scalars)
    assert msm(group, opposite, [-s % group.r for s in scalars]) == total
    assert msm(group, opposite, scalars) == group.neg(total)
    assert msm(group, np.concatenate([points, opposite]), scalars * 2) is None


@ALL_GROUPS
@FEW
@given(n=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_equal_points_merge_and_nothing_adds_nothing(group: Group, n: int, seed: int) -> None:
    points, scalars = case(group, n, seed)
    doubled = msm(group, np.concatenate([points, points]), scalars * 2)
    assert doubled == msm(group, points, [2 * s % group.r for s in scalars])
    padded = np.concatenate([points, bases(group, 7), np.zeros_like(points[:1]).repeat(5, axis=0)])
    assert msm(group, padded, [*scalars, *[0] * 7, *[5, 0, 1, group.r - 1, group.r // 2]]) == msm(
        group, points, scalars
    )


@ALL_GROUPS
def test_a_call_stops_when_asked(group: Group) -> None:
    n = 1 << 16
    points = bases(group, n)
    scalars = packed_scalars(scalar_set("uniform", group.curve.index, 1000), group.curve)
    scalars = np.ascontiguousarray(np.resize(scalars, (n, 4)))
    before, during = CancelToken(), CancelToken()
    before.cancel()
    with pytest.raises(Cancelled):
        native.msm(group.curve, group.group, points[:1], scalars[:1], cancel=before)
    for threads in (1, 2):
        during = CancelToken()
        timer = threading.Timer(0.01, during.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            while True:  # the first call should not get through; the next ones cannot
                native.msm(group.curve, group.group, points, scalars, threads=threads, cancel=during)
        timer.join()


def test_refused_arguments() -> None:
    points = pack_points([BN254.g1], BN254, 1)
    scalars = packed_scalars([1], BN254)
    with pytest.raises(native.NativeError, match="threads"):
        native.msm(BN254, 1, points, scalars, threads=0)
    with pytest.raises(ValueError, match="scalars"):
        native.msm(BN254, 1, points, packed_scalars([1, 2], BN254))
    with pytest.raises(ValueError, match="bases"):
        native.msm(BLS12_381, 1, points, scalars)
