"""Proofs on the GPU: with fixed blinding the same bytes as the host's, of every size."""

import random
from concurrent.futures import ThreadPoolExecutor

import groth16_files as files
import groth16_model as model
import pytest
from emulated_gpu import KINDS, cuda_device, emulated, real

from prover.circuits.builtin import builtin
from prover.circuits.evaluator import evaluate
from prover.curves import BLS12_381, BN254, CURVES
from prover.device import open_device
from prover.device.cuda import CudaDevice
from prover.device.cuda_probe import probe
from prover.device.errors import OutOfMemory
from prover.device.host import HostDevice, cores
from prover.field import unpack
from prover.formats.proof_bytes import encode_proof
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Assignment, Blinding, SlotProof, finish, start
from prover.groth16.setup import ConstraintSystem, setup
from prover.groth16.verify import Verifier
from prover.groth16.witness import assign
from prover.msm import MsmPlan

BLINDING = Blinding(0x1234567890ABCDEF << 100, 0xFEDCBA0987654321 << 120)

BUILTIN = ["poseidon-merkle-10", "range-check-12", "poseidon-merkle-14", "range-check-16", "poseidon-merkle-18"]


def case(curve, n_constraints, n_public=2):
    rng = random.Random(f"{curve.name} {n_constraints}")
    circuit, values = model.sample(curve, rng, n_constraints, n_public, n_constraints + n_public + 3)
    return circuit, values, ProvingKey.from_zkey(setup(files.system(circuit), entropy=b"tests"))


def prove(key, assignment, device):
    return encode_proof(finish(start(key, assignment, device, blinding=BLINDING)))


def check(device, curve, n_constraints):
    host = HostDevice(1)
    circuit, values, key = case(curve, n_constraints)
    witness = files.witness(circuit, values)
    expected = prove(key, assign(key, witness, host), host)
    assert prove(key, assign(key, witness, host), device) == expected, n_constraints
    assert prove(key, assign(key, witness, device), device) == expected, "a and b evaluated on the GPU"


def test_a_small_circuit_on_an_emulated_gpu():
    check(emulated(multiprocessors=1), BN254, 5)


@pytest.mark.gpu
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_every_small_size_on_a_gpu(curve):
    device = cuda_device("real")
    for n_constraints in range(1, 301):
        check(device, curve, n_constraints)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_of_partitions_and_its_memory(kind):
    """Two partitions at once; afterwards only the key is left, and it serves the next slot."""
    device = cuda_device(kind)
    circuit, values, key = case(BN254, 9)
    host = HostDevice(1)
    witness = files.witness(circuit, values)
    expected = prove(key, assign(key, witness, host), host)
    stays = []
    for _ in range(3):
        slot = SlotProof(key, [assign(key, witness, host) for _ in range(2)], device, blindings=[BLINDING] * 2)
        assert slot.gpu_active_s is None
        slot.setup()
        slot.h2d()
        slot.ntt()
        slot.msm()
        assert [encode_proof(finish(pending)) for pending in slot.d2h()] == [expected] * 2
        assert slot.gpu_active_s > 0
        slot.release()
        assert slot.gpu_active_s > 0
        stays.append(device.memory().used)
    assert stays[0] == stays[1] == stays[2] > 0


def test_a_query_that_has_no_room_is_streamed_alone(monkeypatch):
    """What was refused holds no memory when its parts begin to come, and the proof stays the same."""
    device, host = emulated(multiprocessors=1), HostDevice(1)
    circuit, values, key = case(BN254, 20)
    assignment = assign(key, files.witness(circuit, values), host)
    expected = prove(key, assignment, host)
    refused, streamed, parts, resident = key.b_g2, [], MsmPlan.parts, CudaDevice.resident

    def resident_but_one(self, query, stream):
        if query is refused:
            attempt = self.empty(1 << 15, 4, stream)
            raise OutOfMemory(attempt.nbytes, 0, self.name)
        return resident(self, query, stream)

    def small_parts(self, free):
        streamed.append((self.group, device.memory().used))
        for first, last in parts(self, free):
            yield from ((at, min(at + 7, last)) for at in range(first, last, 7))

    monkeypatch.setattr(CudaDevice, "resident", resident_but_one)
    monkeypatch.setattr(MsmPlan, "parts", small_parts)
    slot = SlotProof(key, [assignment], device, blindings=[BLINDING])
    slot.setup()
    slot.h2d()
    slot.ntt()
    before = device.memory().used
    slot.msm()
    assert [encode_proof(finish(pending)) for pending in slot.d2h()] == [expected]
    slot.release()
    [(group, used)] = streamed
    assert group == 2
    assert used < before + (1 << 20), "the array that was refused is still held"


@pytest.mark.gpu
def test_a_key_that_has_no_room_is_streamed():
    """A GPU that may take little memory: bases come part by part, and the arena never holds more than its cap."""
    cuda_device("real")
    circuit, values, key = case(BLS12_381, 30_000)
    host = HostDevice(cores())
    assignment = assign(key, files.witness(circuit, values), host)
    expected = prove(key, assignment, host)
    size = sum(memoryview(points).nbytes for _, _, points in key.queries())
    for cap in (2 * size, size // 2):
        device = CudaDevice(real().driver, memory_cap=cap)
        assert prove(key, assignment, device) == expected
        assert device.memory().peak <= cap


@pytest.mark.gpu
@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_builtin_circuits_on_a_gpu(curve, name):
    device, host = cuda_device("real"), HostDevice(0)
    definition = builtin(name, curve)
    circuit = definition.build()
    key = ProvingKey.from_zkey(
        setup(ConstraintSystem.of_circuit(circuit), entropy=b"tests", threads=cores(), device=device)
    )
    made = evaluate(circuit, definition.random_inputs(circuit, 1))
    assignment = Assignment(made.witness, made.a, made.b, made.c)
    pending = start(key, assignment, device, blinding=BLINDING)
    assert encode_proof(finish(pending)) == prove(key, assignment, host)
    public = unpack(made.witness[1 : circuit.n_public + 1], curve.fr, "canonical")
    assert Verifier(key.verifying).verify(public, finish(pending))


@pytest.mark.gpu
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("log_n", [8, 9, 11, 13])
def test_random_circuits_on_a_gpu(curve, log_n):
    check(cuda_device("real"), curve, (1 << log_n) - 3)


@pytest.mark.gpu
def test_all_gpus_at_once_and_workers_of_one_gpu():
    """Two threads on every GPU of the machine, streams of their own, one key: all proofs are the host's."""
    cuda_device("real")
    circuit, values, key = case(BLS12_381, 1500)
    host = HostDevice(1)
    assignment = assign(key, files.witness(circuit, values), host)
    expected = prove(key, assignment, host)
    devices = [open_device(f"cuda:{gpu.ordinal}") for gpu in probe().usable]
    with ThreadPoolExecutor(2 * len(devices)) as pool:
        proofs = list(pool.map(lambda i: prove(key, assignment, devices[i % len(devices)]), range(12 * len(devices))))
    assert set(proofs) == {expected}
    for device in devices:
        device.close()
