"""Multiples of one point on the GPU, and the setup that is made of them: the same bytes as the host's."""

import random

import groth16_files as files
import groth16_model as model
import numpy as np
import pytest
from emulated_gpu import KINDS, cuda_device, emulated

from prover import native
from prover.curves import BN254, CURVES
from prover.device import cuda_fixed_base
from prover.device.host import HostDevice
from prover.field import pack, pack_points
from prover.fixed_base import FixedBasePlan
from prover.formats.zkey import write_zkey
from prover.groth16.setup import setup

CASES = pytest.mark.parametrize(
    ("curve", "group"), [pytest.param(c, g, id=f"{c.name}-g{g}") for c in CURVES for g in (1, 2)]
)


def scalars_of(curve, n):
    r = curve.fr.modulus
    edges = [0, 1, 2, 255, 256, r - 1, r - 2, (r - 1) // 2, 1 << 248, (1 << 253) - 1, 0, 0x0100FF00]
    rng = random.Random(n)
    return pack((edges + [rng.randrange(r) for _ in range(n)])[:n], curve.fr, "canonical")


def generator(curve, group):
    return pack_points([curve.g1 if group == 1 else curve.g2], curve, group).tobytes()


def multiples(device, curve, group, base, scalars):
    stream = device.stream("test")
    plan = FixedBasePlan.build(curve, group, len(scalars), device.capability)
    out = device.empty(plan.n, plan.words, stream)
    plan.run(device, base, device.upload(scalars, stream), out, stream)
    return bytes(device.download(out, stream))


@pytest.mark.parametrize("kind", KINDS)
@CASES
def test_multiples_are_the_hosts(kind, curve, group):
    device = cuda_device(kind)
    base, scalars = generator(curve, group), scalars_of(curve, 70 if kind == "emulated" else 70_000)
    expected = bytes(memoryview(native.fixed_base_mul(curve, group, base, scalars, threads=4)).cast("B"))
    assert multiples(device, curve, group, base, scalars) == expected
    other = bytes(memoryview(native.group_op(curve, group, native.GroupOp.DOUBLE, base)).cast("B"))
    assert multiples(device, curve, group, other, scalars[:3]) == multiples(
        HostDevice(1), curve, group, other, scalars[:3]
    )


def test_none_one_and_more_than_a_chunk(monkeypatch):
    monkeypatch.setattr(cuda_fixed_base, "_CHUNK", 10)
    device, base = emulated(), generator(BN254, 1)
    for n in (0, 1, 10, 11, 37):
        scalars = scalars_of(BN254, n) if n else np.zeros((0, 4), np.uint64)
        host = multiples(HostDevice(1), BN254, 1, base, scalars) if n else b""
        assert multiples(device, BN254, 1, base, scalars) == host


def test_infinity_has_only_itself_as_multiples():
    base = bytes(64)
    assert multiples(emulated(), BN254, 1, base, scalars_of(BN254, 5)) == bytes(5 * 64)


def test_lengths_are_checked():
    device = emulated()
    stream = device.stream("test")
    plan = FixedBasePlan.build(BN254, 1, 2, device.capability)
    with pytest.raises(ValueError, match="64 bytes of scalars, 64 of a base, 64 of multiples"):
        plan.run(device, bytes(64), device.empty(2, 4, stream), device.empty(1, 8, stream), stream)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_a_key_made_on_the_gpu_is_the_hosts(kind, curve, tmp_path):
    circuit, _ = model.sample(curve, random.Random(4), 9 if kind == "emulated" else 3000, 2, 20)
    system = files.system(circuit)
    written = []
    for device in (cuda_device(kind), None):
        path = tmp_path / f"{device}.zkey"
        write_zkey(path, setup(system, entropy=b"tests", device=device))
        written.append(path.read_bytes())
    assert written[0] == written[1]
