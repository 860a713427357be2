"""Transforms on the GPU: the same bytes as the host's, for every kind, size and cut into passes."""

import random

import numpy as np
import pytest
from emulated_gpu import KINDS, cuda_device, emulated

from prover.curves import BLS12_381, BN254
from prover.device import cuda_ntt
from prover.device.errors import OutOfMemory
from prover.device.host import HostDevice
from prover.device.values import Capability
from prover.field import pack, unpack
from prover.ntt import NttPlan

CURVES = pytest.mark.parametrize("curve", [BLS12_381, BN254], ids=lambda c: c.name)
FORMS = [(inverse, coset) for inverse in (False, True) for coset in (False, True)]


def elements(curve, n, seed):
    """Random ones, with the field's edges among them."""
    rng = random.Random(seed)
    values = [rng.randrange(curve.fr.modulus) for _ in range(n)]
    for at, edge in zip(rng.sample(range(n), min(n, 4)), (0, 1, curve.fr.modulus - 1, 2), strict=False):
        values[at] = edge
    return pack(values, curve.fr)


def transformed(device, plan, vector):
    stream = device.stream("test")
    data = device.upload(vector, stream)
    plan.run(device, data, stream)
    return np.frombuffer(device.download(data, stream), dtype=np.uint64).reshape(-1, 4)


def compare(device, curve, log_n, forms=FORMS, convention="snarkjs"):
    host, vector = HostDevice(1), elements(curve, 1 << log_n, log_n)
    for inverse, coset in forms:
        shift = curve.coset_shift(log_n) if coset else None
        plan = NttPlan.build(curve, log_n, device.capability, inverse=inverse, shift=shift, convention=convention)
        expected = vector.copy()
        plan.run(host, expected, host.stream("test"))
        assert np.array_equal(transformed(device, plan, vector), expected), (log_n, inverse, coset)


@pytest.mark.parametrize("kind", KINDS)
@CURVES
def test_same_as_the_host_in_one_pass_and_two(kind, curve):
    device = cuda_device(kind)
    for log_n in [*range(8), 9, 11, 12]:
        compare(device, curve, log_n)


@CURVES
def test_same_as_the_host_in_three_passes_and_with_split_tables(curve, monkeypatch):
    """A GPU with little shared memory: what takes 2^21 elements on a large one happens at 2^11."""
    device = emulated(shared_per_multiprocessor=2048)
    assert [len(cuda_ntt.passes(n, device.capability)) for n in (5, 6, 10, 11, 15)] == [1, 2, 2, 3, 3]
    compare(device, curve, 11)
    monkeypatch.setattr(cuda_ntt, "_TABLE_LIMIT", 3)
    device.transforms.clear()
    compare(device, curve, 10, FORMS[-1:])
    compare(device, curve, 12)


def test_columns_of_every_width():
    """Few multiprocessors make wide tiles, many make narrow ones."""
    for multiprocessors in (1, 8, 200):
        compare(emulated(multiprocessors=multiprocessors), BN254, 12, FORMS[:1])


def test_roots_of_both_conventions_and_other_shifts():
    compare(emulated(), BLS12_381, 6, convention="bellman")
    device, host = emulated(), HostDevice(1)
    vector = elements(BN254, 64, 1)
    plan = NttPlan.build(BN254, 6, device.capability, shift=7)
    expected = vector.copy()
    plan.run(host, expected, host.stream("test"))
    assert np.array_equal(transformed(device, plan, vector), expected)


def test_a_transform_is_the_polynomials_values():
    """Against Horner's rule in integers, not against another transform."""
    device, curve = emulated(), BLS12_381
    coefficients, shift = [random.Random(5).randrange(curve.fr.modulus) for _ in range(32)], 11
    plan = NttPlan.build(curve, 5, device.capability, shift=shift)
    values = unpack(transformed(device, plan, pack(coefficients, curve.fr)), curve.fr)
    root = curve.root_of_unity(5)
    for i in (0, 1, 13, 31):
        x, value = shift * pow(root, i, curve.fr.modulus), 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % curve.fr.modulus
        assert values[i] == value


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_an_array(kind):
    """Views are transformed where they lie; nothing beside them changes."""
    device, host = cuda_device(kind), HostDevice(1)
    stream, vector = device.stream("test"), elements(BN254, 96, 3)
    whole = device.upload(vector, stream)
    plan = NttPlan.build(BN254, 5, device.capability)
    plan.run(device, device.rows(whole, 32, 64, 4), stream)
    expected = vector.copy()
    plan.run(host, host.rows(expected, 32, 64, 4), host.stream("test"))
    assert np.array_equal(np.frombuffer(device.download(whole, stream), dtype=np.uint64).reshape(-1, 4), expected)


def test_refusals():
    device = emulated(memory_bytes=8 << 20)
    stream = device.stream("test")
    with pytest.raises(ValueError, match="not a power of two"):
        NttPlan.build(BN254, 2, device.capability).run(device, device.empty(3, 4, stream), stream)
    data, plan = device.upload(bytes(4 << 20), stream), NttPlan.build(BN254, 17, device.capability)
    with pytest.raises(OutOfMemory) as caught:  # the scratch array is as large as the data, and tables are there too
        plan.run(device, data, stream)
    assert caught.value.asked == 4 << 20
    assert 0 < caught.value.free < 4 << 20
    with pytest.raises(ValueError, match="more than three passes"):
        cuda_ntt.passes(31, device.capability)


@pytest.mark.parametrize(
    ("arch", "shared", "tile"),
    [("sm_75", 64, 10), ("sm_80", 164, 10), ("sm_90", 228, 10), ("sm_120", 100, 10), ("small", 17, 9)],
)
def test_plans_fit_every_gpu(arch, shared, tile):
    capability = Capability("cuda", arch, 132, 1 << 36, True, (shared - 1) << 10, shared << 10, 50 << 20)
    assert cuda_ntt.largest_tile(capability) == tile
    for log_n in range(1, 28):
        steps = cuda_ntt.passes(log_n, capability)
        assert sum(step.levels for step in steps) == log_n
        for step in steps:
            assert step.blocks << step.log_tile == 1 << log_n
            assert 1 <= step.threads <= 128
            assert step.shared_bytes <= capability.shared_bytes
        if log_n > 18:
            assert all(step.blocks >= 132 for step in steps)


@pytest.mark.gpu
@pytest.mark.parametrize("log_n", [16, 18, 20, 21, 22, 24])
@CURVES
def test_large_sizes_on_a_gpu(curve, log_n):
    device, host = cuda_device("real"), HostDevice(0)
    rng = np.random.default_rng(log_n)
    vector = rng.integers(0, 1 << 60, size=(1 << log_n, 4), dtype=np.uint64)  # below either modulus
    for inverse, coset in FORMS:
        shift = curve.coset_shift(log_n) if coset else None
        plan = NttPlan.build(curve, log_n, device.capability, inverse=inverse, shift=shift)
        expected = vector.copy()
        plan.run(host, expected, host.stream("test", 0))
        assert np.array_equal(transformed(device, plan, vector), expected), (inverse, coset)


@pytest.mark.gpu
@CURVES
def test_the_largest_size_on_a_gpu(curve):
    device, host, log_n = cuda_device("real"), HostDevice(0), 27
    if device.memory().free < 16 << 30:
        pytest.skip("4 GiB of elements and their scratch take a GPU of 16 GiB")
    vector = np.random.default_rng(log_n).integers(0, 1 << 60, size=(1 << log_n, 4), dtype=np.uint64)
    plan = NttPlan.build(curve, log_n, device.capability, shift=curve.coset_shift(log_n))
    got = transformed(device, plan, vector)
    plan.run(host, vector, host.stream("test", 0))
    assert np.array_equal(got, vector)
