"""Multi-scalar multiplication on the GPU: the same bytes as the host's, whatever the scalars, the points, the plan."""

import random
from itertools import pairwise

import numpy as np
import pytest
from emulated_gpu import FEW_BUCKETS, KINDS, cuda_device, emulated
from hypothesis import given, settings
from hypothesis import strategies as st

from prover import native
from prover.curves import BLS12_381, BN254
from prover.device import cuda_msm_plan as plan
from prover.device.cuda_msm import Multiplications, Operand
from prover.device.errors import OutOfMemory
from prover.field import pack

GROUPS = [(BLS12_381, 1), (BLS12_381, 2), (BN254, 1), (BN254, 2)]
EVERY_GROUP = pytest.mark.parametrize(("curve", "group"), GROUPS, ids=lambda v: getattr(v, "name", f"g{v}"))
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)

FILL = plan.Fill.of(132, {1: 2, 2: 2}, {1: 2, 2: 2})


def canonical(values):
    words = [[value >> (64 * i) & (2**64 - 1) for i in range(4)] for value in values]
    return np.array(words, dtype=np.uint64).reshape(len(values), 4)


def random_points(curve, group, n, rng):
    coordinates = list(curve.g1) if group == 1 else [c for xy in curve.g2 for c in xy]
    generator = np.asarray(pack(coordinates, curve.fp)).reshape(1, -1)
    return np.array(native.fixed_base_mul(curve, group, generator, canonical([rng.getrandbits(64) for _ in range(n)])))


def negated(curve, group, points):
    return native.group_op(curve, group, native.GroupOp.NEG, points)


def product(device, curve, group, points, scalars):
    stream = device.stream("test")
    bases, there = device.upload(points, stream), device.upload(scalars, stream)
    return np.asarray(device.multiplications.run(curve, group, bases, there, stream))


def check(device, curve, group, points, values):
    scalars = canonical(values)
    expected = native.msm(curve, group, points, scalars, threads=2)
    assert np.array_equal(product(device, curve, group, points, scalars), expected)


@EVERY_KIND
@EVERY_GROUP
def test_sizes(kind, curve, group):
    rng, device = random.Random(7), cuda_device(kind)
    sizes = (0, 1, 2, 33) if kind == "emulated" else (0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 1000, 4097, 40_000)
    for n in sizes:
        check(
            device,
            curve,
            group,
            random_points(curve, group, n, rng),
            [rng.randrange(curve.fr.modulus) for _ in range(n)],
        )


@EVERY_KIND
@EVERY_GROUP
def test_edges(kind, curve, group):
    """Scalars at the field's and the windows' edges; infinity, equal and opposite points in one bucket."""
    rng, device, r = random.Random(8), cuda_device(kind), curve.fr.modulus
    values = [0, 1, 2, r - 1, r - 2, r // 2, r // 2 + 1, *(1 << k for k in (31, 32, 63, 128, 252)), (1 << 253) - 1]
    values += [v - 1 for v in values[7:]]
    points = random_points(curve, group, len(values), rng)
    points[3] = points[11] = 0
    check(device, curve, group, points, values)
    few = np.concatenate([points[:1], points[:1], negated(curve, group, points[:1]), points[3:4], points[1:2]])
    check(device, curve, group, few, [5, 5, 5, 5, 5])
    check(device, curve, group, few[:4], [3, r - 3, 6, 7])
    check(device, curve, group, few[1:3], [1, 1])
    check(device, curve, group, np.zeros_like(few), [1, 2, 3, 4, r - 1])
    check(device, curve, group, few, [0] * 5)


@EVERY_KIND
@EVERY_GROUP
def test_witnesses_of_few_values(kind, curve, group):
    """Zeros and ones, all the same: buckets that many workers share, over more than one round of merging."""
    rng, device = random.Random(9), cuda_device(kind)
    n = 1500 if kind == "emulated" else 70_000
    points = np.resize(random_points(curve, group, 40, rng), (n, native.point_words(curve, group)))
    points[700:720] = negated(curve, group, points[700:720])
    check(device, curve, group, points, [1] * n)
    check(device, curve, group, points, [rng.choice((0, 0, 1, 1, 1, curve.fr.modulus - 1)) for _ in range(n)])
    same = rng.randrange(curve.fr.modulus)
    check(device, curve, group, np.resize(points[:1], points.shape)[: n // 8], [same] * (n // 8))


@EVERY_KIND
def test_operands_that_share_their_scalars(kind):
    """As the queries of a key do: in both groups, one without bases for the first scalars."""
    rng, device, curve, n, absent = random.Random(10), cuda_device(kind), BLS12_381, 40, 3
    scalars = canonical([rng.randrange(curve.fr.modulus) for _ in range(n)])
    a, b, late = (random_points(curve, group, n, rng) for group in (1, 2, 1))
    stream = device.stream("test")
    operands = [Operand(1, device.upload(a, stream)), Operand(2, device.upload(b, stream))]
    operands.append(Operand(1, device.upload(late[absent:].copy(), stream), absent))
    pending = device.multiplications.start(curve, operands, device.upload(scalars, stream), stream)
    expected = [
        native.msm(curve, 1, a, scalars),
        native.msm(curve, 2, b, scalars),
        native.msm(curve, 1, late[absent:].copy(), scalars[absent:].copy()),
    ]
    for got, want in zip(pending, expected, strict=True):
        assert np.array_equal(np.asarray(got.finish()), want)
    with pytest.raises(ValueError, match="bytes of bases"):
        device.multiplications.start(curve, [Operand(1, operands[0].bases, 1)], device.upload(scalars, stream), stream)


@EVERY_KIND
@pytest.mark.parametrize("windows", [25, 37, 84])
def test_any_windows_give_the_same_point(kind, windows):
    rng, device, curve = random.Random(11), cuda_device(kind), BN254
    n = 25 if kind == "emulated" else 5000
    points, scalars = random_points(curve, 1, n, rng), canonical([rng.randrange(curve.fr.modulus) for _ in range(n)])
    stream = device.stream("test")
    got = Multiplications(device, windows=windows).run(
        curve, 1, device.upload(points, stream), device.upload(scalars, stream), stream
    )
    assert np.array_equal(np.asarray(got), native.msm(curve, 1, points, scalars))


@EVERY_KIND
def test_little_memory_takes_passes_and_parts(kind, monkeypatch):
    rng, device, curve, n = random.Random(12), cuda_device(kind), BLS12_381, 50
    points, scalars = random_points(curve, 1, n, rng), canonical([rng.randrange(curve.fr.modulus) for _ in range(n)])
    stream = device.stream("test")
    bases, there = device.upload(points, stream), device.upload(scalars, stream)
    build, seen = plan.MsmLayout.build, []

    def scarce(curve, groups, n, fill, memory_bytes, costs, windows):
        few = build(curve, groups, 20, fill, 1 << 30, costs)
        layout = plan.MsmLayout(curve, n, 20, few.widths, plan.passes_of(few.widths, 20, 30, fill), few.workspace_bytes)
        seen.append(layout)
        return layout

    monkeypatch.setattr(plan.MsmLayout, "build", scarce)
    multiplications = Multiplications(device, FEW_BUCKETS)
    (pending,) = multiplications.start(curve, [Operand(1, bases)], there, stream)
    assert np.array_equal(np.asarray(pending.finish()), native.msm(curve, 1, points, scalars))
    assert len(seen[0].passes) > 1 and len(seen[0].parts()) == 3


@pytest.mark.parametrize("curve", [BLS12_381, BN254], ids=lambda c: c.name)
def test_scalars_above_the_modulus_stay_within_their_buckets(curve):
    """Nobody may pass one; if it happens, it counts as zero, and nothing is written beside the arrays."""
    rng, device, r, n = random.Random(13), emulated(), curve.fr.modulus, 40
    points, values = random_points(curve, 1, n, rng), [rng.randrange(r) for _ in range(n)]
    for at, above in enumerate((r + 1, r + 2**200, 2**255 + 1, 2**256 - 1)):
        values[7 * at] = above
    expected = native.msm(curve, 1, points, canonical([value if value < r else 0 for value in values]))
    assert np.array_equal(product(device, curve, 1, points, canonical(values)), expected)


def test_a_layout_that_found_no_room_is_not_tried_again(monkeypatch):
    rng, device, curve, n = random.Random(14), emulated(), BLS12_381, 40
    points, scalars = random_points(curve, 1, n, rng), canonical([rng.randrange(curve.fr.modulus) for _ in range(n)])
    expected = native.msm(curve, 1, points, scalars)
    take, refused = device.arena.take, []

    def scarce(nbytes, stream):
        if not refused and nbytes > 10_000:
            refused.append(nbytes)
            raise OutOfMemory(nbytes, 0, device.name)
        return take(nbytes, stream)

    built = []
    build = plan.MsmLayout.build
    monkeypatch.setattr(plan.MsmLayout, "build", lambda *a, **k: built.append(build(*a, **k)) or built[-1])
    stream = device.stream("test")
    bases, there = device.upload(points, stream), device.upload(scalars, stream)
    monkeypatch.setattr(device.arena, "take", scarce)
    for _ in range(3):
        assert np.array_equal(np.asarray(device.multiplications.run(curve, 1, bases, there, stream)), expected)
    assert len(refused) == 1
    assert len(built) == 2 and built[1].workspace_bytes <= built[0].workspace_bytes // 2


def test_no_memory_is_said_in_bytes():
    device = emulated(memory_cap=1 << 14)
    stream = device.stream("test")
    bases, scalars = device.upload(bytes(96), stream), device.upload(bytes(32), stream)
    with pytest.raises(OutOfMemory, match=r"out of memory: \d+ bytes asked, \d+ free"):
        device.multiplications.run(BLS12_381, 1, bases, scalars, stream)


@given(
    st.sampled_from([BLS12_381, BN254]),
    st.sampled_from([(1,), (2,), (1, 1, 2)]),
    st.integers(1, 1 << 28),
    st.integers(20, 37),
)
@settings(max_examples=60, deadline=None)
def test_layouts(curve, groups, n, log_memory):
    """Windows cover the scalar, passes the windows, parts the scalars; what it takes fits, or is told."""
    memory = 1 << log_memory
    try:
        layout = plan.MsmLayout.build(curve, groups, n, FILL, memory)
    except plan.WorkspaceTooSmall as error:
        assert error.needed > memory
        memory = error.needed
        layout = plan.MsmLayout.build(curve, groups, n, FILL, memory)
    assert len(layout.parts()) <= 64
    assert sum(layout.widths) == plan.signed_bits(curve)
    assert max(layout.widths) - min(layout.widths) <= 1
    assert layout.passes[0].first == 0 and layout.passes[-1].last == len(layout.widths)
    assert all(a.last == b.first for a, b in pairwise(layout.passes))
    assert layout.parts()[0][0] == 0 and layout.parts()[-1][1] == n
    assert all(a[1] == b[0] and b[0] < b[1] for a, b in pairwise(layout.parts()))
    for step in layout.passes:
        sizes = [
            layout.sort_layout(step).size,
            *(layout.sums_layout(step, group, FILL.at_once[group]).size for group in groups),
        ]
        kept = len(layout.parts()) * len(layout.widths) * sum(16 * native.point_words(curve, group) for group in groups)
        assert sum(sizes) + kept <= layout.workspace_bytes <= memory
        assert (step.last - step.first) * min(n, layout.part) < 1 << 32
        assert step.buckets == sum(1 << (layout.widths[w] - 1) for w in range(step.first, step.last))
        assert step.low_bits < layout.widths[-1]
        assert step.levels <= step.log_chunks[0] <= step.log_chunks[1]
        for window in range(step.first, step.last):
            needed = -(-(1 << (layout.widths[window] - 1)) // step.chunk)
            assert needed <= 1 << step.log_chunks[layout.widths[window] > layout.widths[-1]] < 2 * needed


def test_more_points_take_wider_windows():
    chosen = [len(plan.MsmLayout.build(BLS12_381, [1], 1 << k, FILL, 1 << 36).widths) for k in range(8, 25, 2)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[-1] <= 14
