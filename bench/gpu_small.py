"""Every operation of the GPU at small sizes, against the host: what a memory or race checker runs.

    compute-sanitizer --tool memcheck python bench/gpu_small.py [--device cuda] [--without msm]

Leaves with status 1 where a result differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from prover import native
from prover.circuits.builtin import builtin
from prover.circuits.evaluator import evaluate
from prover.csr import CsrMatrix, coefficient_table
from prover.curves import CURVES, Curve
from prover.device import open_device
from prover.device.host import HostDevice
from prover.device.protocol import Device
from prover.field import pack_points
from prover.formats.proof_bytes import encode_proof
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Assignment, Blinding, SlotProof, finish
from prover.groth16.quotient import QuotientPlan
from prover.groth16.setup import ConstraintSystem, setup
from prover.msm import MsmPlan
from prover.native import GroupId
from prover.ntt import NttPlan
from prover.spmv import SpmvPlan

RNG = np.random.default_rng()
GROUPS: tuple[GroupId, ...] = (1, 2)
Words = npt.NDArray[np.uint64]
Task = Callable[[Device], bytes]
"""Computes something on a device; the result must be the same on every one."""


def elements(n: int) -> Words:
    """Random, below either modulus."""
    return RNG.integers(0, 1 << 60, size=(n, 4), dtype=np.uint64)


def transform(curve: Curve, log_n: int, inverse: bool, shift: int | None) -> Task:
    """One transform."""
    vector = elements(1 << log_n)

    def task(device: Device) -> bytes:
        stream = device.stream("small")
        data = device.upload(vector.copy(), stream)
        NttPlan.build(curve, log_n, device.capability, inverse=inverse, shift=shift).run(device, data, stream)
        return bytes(device.download(data, stream))

    return task


def quotient(curve: Curve, log_n: int) -> Task:
    """The scalars of H."""
    vectors = [elements(1 << log_n) for _ in range(3)]

    def task(device: Device) -> bytes:
        stream = device.stream("small")
        a, b, c = (device.upload(vector.copy(), stream) for vector in vectors)
        QuotientPlan.build(curve, log_n, device.capability).run(device, a, b, c, True, stream)
        return bytes(device.download(a, stream))

    return task


def sparse(curve: Curve) -> Task:
    """A product with rows that a thread, a warp and a block work on."""
    lengths = np.array([0, 1, 3, 24, 25, 200, 2100, *([2] * 300), 40, 5])
    matrix = CsrMatrix(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64),
        RNG.integers(0, 50, size=lengths.sum(), dtype=np.uint32),
        RNG.integers(0, 5, size=lengths.sum(), dtype=np.uint32),
        coefficient_table(curve.fr, [3, 5, 7]),
    )
    vector = elements(50)

    def task(device: Device) -> bytes:
        stream = device.stream("small")
        plan = SpmvPlan.build(curve, matrix, device.capability)
        out = device.empty(matrix.rows, 4, stream)
        plan.run(device, plan.load(device, matrix, stream), device.upload(vector, stream), out, stream)
        return bytes(device.download(out, stream))

    return task


def multiplication(curve: Curve, group: GroupId, n: int) -> Task:
    """A multi-scalar multiplication, with zeros, ones and a point at infinity."""
    words = native.point_words(curve, group)
    generator = pack_points([curve.g1 if group == 1 else curve.g2], curve, group)
    bases = np.array(native.fixed_base_mul(curve, group, generator, elements(n)), dtype=np.uint64)
    bases[n // 2 : n // 2 + 1] = 0
    scalars = elements(n)
    scalars[: n // 3, 1:] = 0
    scalars[: n // 3, 0] &= np.uint64(1)

    def task(device: Device) -> bytes:
        stream = device.stream("small")
        out = device.empty(1, words, stream)
        plan = MsmPlan.build(curve, group, n, device.capability)
        plan.run(device, device.upload(bases, stream), device.upload(scalars, stream), out, stream)
        return bytes(device.download(out, stream))

    return task


def slot(curve: Curve) -> Task:
    """Two partitions of a circuit in one slot: every stream and lane of a proof."""
    definition = builtin("range-check-10", curve)
    circuit = definition.build()
    made = evaluate(circuit, definition.random_inputs(circuit, 1))
    key = ProvingKey.from_zkey(setup(ConstraintSystem.of_circuit(circuit), entropy=b"small"))
    assignments = [Assignment(made.witness, made.a, made.b)] * 2

    def task(device: Device) -> bytes:
        slot = SlotProof(key, assignments, device, blindings=[Blinding(3, 5), Blinding(7, 11)])
        for step in (slot.setup, slot.h2d, slot.ntt, slot.msm):
            step()
        proofs = [encode_proof(finish(pending)) for pending in slot.d2h()]
        slot.release()
        return b"".join(proofs)

    return task


def tasks(curve: Curve, without: set[str]) -> Iterator[tuple[str, Task]]:
    """Everything, by name."""
    for log_n in (1, 2, 3, 5, 8, 11, 13):
        for inverse in (False, True):
            for shift in (None, curve.coset_shift(log_n)):
                yield f"ntt 2^{log_n}", transform(curve, log_n, inverse, shift)
    yield "quotient", quotient(curve, 9)
    yield "spmv", sparse(curve)
    if "msm" not in without:
        yield "slot", slot(curve)
    for group in GROUPS:
        for n in (1, 3, 100, 2500):
            if "msm" not in without:
                yield f"msm G{group} {n}", multiplication(curve, group, n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--without", default="", help="operations to leave out, comma-separated")
    args = parser.parse_args()
    device, host = open_device(args.device), HostDevice()
    different = count = 0
    for curve in CURVES:
        for name, task in tasks(curve, set(args.without.split(","))):
            count += 1
            if task(device) != task(host):
                different += 1
                print(f"{curve.name} {name}: differs from the host")
    print(f"{count} results, {different} of them different")
    device.close()
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
