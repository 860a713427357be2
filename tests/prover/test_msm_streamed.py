"""Multiplications whose bases the device has no room for: the sum of the parts is the whole, on every device."""

import random

import pytest
from emulated_gpu import emulated

from prover import msm as module
from prover import native
from prover.curves import BLS12_381, BN254
from prover.device.host import HostDevice
from prover.field import pack, pack_points
from prover.msm import MsmPlan


def operands(curve, group, n):
    rng = random.Random(n)
    scalars = [rng.choice([0, 1, rng.randrange(curve.fr.modulus)]) for _ in range(n)]
    generator = pack_points([curve.g1 if group == 1 else curve.g2], curve, group)
    exponents = pack([rng.randrange(curve.fr.modulus) for _ in range(n)], curve.fr, "canonical")
    return native.fixed_base_mul(curve, group, generator, exponents), pack(scalars, curve.fr, "canonical")


@pytest.mark.parametrize("device", [HostDevice(1), emulated()], ids=lambda d: d.name)
@pytest.mark.parametrize(("curve", "group"), [(BLS12_381, 1), (BN254, 2)])
@pytest.mark.parametrize("n", [1, 16, 17, 50])
def test_parts_add_up(device, curve, group, n, monkeypatch):
    monkeypatch.setattr(module, "_SMALLEST_PART", 16)
    monkeypatch.setattr(MsmPlan, "parts", lambda self, free, parts=MsmPlan.parts: parts(self, 0))
    bases, scalars = operands(curve, group, n)
    stream = device.stream("test")
    plan = MsmPlan.build(curve, group, n, device.capability)
    found = plan.sum_streamed(device, bases, device.upload(scalars, stream), stream, device.stream("copies"))
    assert found == bytes(memoryview(native.msm(curve, group, bases, scalars)).cast("B"))


def test_parts_cover_all_terms_and_fit():
    plan = MsmPlan.build(BLS12_381, 1, 5000, HostDevice(1).capability)
    for free in (0, 1 << 20, 1 << 22, 1 << 40):
        parts = list(plan.parts(free))
        assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
        assert parts[-1][1] == 5000
        assert all((stop - start) * 96 <= max(free // 8, 96 << 10) for start, stop in parts)
    assert list(MsmPlan.build(BN254, 1, 0, HostDevice(1).capability).parts(1 << 30)) == []
