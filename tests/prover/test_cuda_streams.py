"""The streams of a proof wait for each other wherever they must: on a GPU that does everything as late as it may."""

import contextlib
import faulthandler
import os
import random

import groth16_files as files
import groth16_model as model
import pytest
from emulated_gpu import FEW_BUCKETS, emulated_cache
from lazy_gpu import LazyDriver

from prover.curves import BN254
from prover.device.cuda import CudaDevice
from prover.device.cuda_msm import Multiplications
from prover.device.cuda_stream import CudaStream
from prover.device.errors import OutOfMemory
from prover.device.host import HostDevice
from prover.formats.proof_bytes import encode_proof
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Blinding, SlotProof, finish, start
from prover.groth16.setup import setup
from prover.groth16.witness import assign
from prover.intervals import length

BLINDINGS = [Blinding(3 << 100, 5 << 120), Blinding(7, 11 << 90), Blinding(13 << 200, 17)]


@pytest.fixture(scope="module")
def case():
    """A key, three assignments of other witnesses' kind, and the host's proofs of them."""
    curve, rng = BN254, random.Random("streams")
    circuit, values = model.sample(curve, rng, 9, 2, 14)
    key = ProvingKey.from_zkey(setup(files.system(circuit), entropy=b"tests"))
    host = HostDevice(1)
    witness = files.witness(circuit, values)
    made = [assign(key, witness, host) for _ in BLINDINGS]
    proofs = [encode_proof(finish(start(key, each, host, blinding=b))) for each, b in zip(made, BLINDINGS, strict=True)]
    return key, made, proofs


def late(seed, eager, **properties):
    driver = LazyDriver(seed, eager, multiprocessors=1, **properties)
    device = CudaDevice(driver, cache=emulated_cache())
    device.multiplications = Multiplications(device, FEW_BUCKETS)
    return device


def prove(device, key, assignments, blindings):
    slot = SlotProof(key, assignments, device, blindings=blindings)
    told = []
    try:
        slot.setup()
        slot.h2d()
        for step in (slot.ntt, slot.msm):
            step()
            told += slot.kernel_spans()
        proofs = [encode_proof(finish(pending)) for pending in slot.d2h()]
        told += slot.kernel_spans()
    finally:
        slot.release()
    return proofs, told, slot.gpu_active_s


@pytest.mark.parametrize("eager", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_a_proof_is_the_hosts_in_whatever_order_the_streams_run(case, seed, eager):
    key, made, expected = case
    device = late(seed, eager)
    for _ in range(2):  # the second finds the first one's memory, and what is in it
        proofs, told, active = prove(device, key, made, BLINDINGS)
        assert proofs == expected
        assert all(one[1] <= other[0] for one, other in zip(sorted(told), sorted(told)[1:], strict=False))
        assert active == pytest.approx(length(told)) and active > 0
    assert device.driver.late > 10, "the streams ran in the order they were filled in: nothing was tested"
    used = device.memory().used
    prove(device, key, made[:1], BLINDINGS[:1])
    assert device.memory().used == used


def test_a_missing_wait_is_found(case, monkeypatch):
    """The test above fails where the lanes do not wait for each other. In a process of its own: kernels that read
    garbage may write anywhere.
    """
    key, made, expected = case
    monkeypatch.setattr(CudaStream, "wait", lambda self, event: None)
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        right = False
        with contextlib.suppress(BaseException):
            right = all(prove(late(seed, 0.5), key, made, BLINDINGS)[0] == expected for seed in range(3))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] != 0


def test_a_slot_that_fails_half_way_leaves_nothing_running(case, monkeypatch):
    """The device refuses memory for the last sum's buckets: what was enqueued ends before its memory is used again."""
    key, made, expected = case
    device = late(1, 0.2)
    prove(device, key, made[:1], BLINDINGS[:1])
    accumulate, calls = Multiplications._accumulate, []

    def refuse(self, work, operand, stream):
        calls.append(operand.group)
        if len(calls) in (4, 5):
            raise OutOfMemory(1, 0, self._device.name)
        return accumulate(self, work, operand, stream)

    monkeypatch.setattr(Multiplications, "_accumulate", refuse)
    assert prove(device, key, made, BLINDINGS)[0] == expected
    assert len(calls) > 15, "it was not begun again"
    used = device.memory().used
    assert prove(device, key, made, BLINDINGS)[0] == expected
    assert device.memory().used == used
