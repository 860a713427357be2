"""The forecast of memory: the arithmetic against counts by hand, and against the buffers that a proof really has."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prover.cancel import CancelToken
from prover.curves import BLS12_381, BN254
from prover.device.host import HostDevice
from prover.groth16.prove import Assignment
from prover.groth16.workload import WitnessFiles
from prover.pipeline.forecast import PROGRAM, CircuitShape, Forecast, Load, PeakCheck, check_peak, forecast

FIXTURES = Path(__file__).parents[1] / "fixtures" / "snark"
SHAPE = CircuitShape(BLS12_381, wires=1000, public=4, rows=900, log_domain=10, entries=(2000, 1000), key_entries=3000)


def nbytes(buffer) -> int:
    return memoryview(buffer).nbytes


def test_counts_by_hand():
    assert SHAPE.key_bytes == (3 * 1000 - 5 + 1024 + 5) * 96 + 1000 * 192 + 3000 * 44
    assert SHAPE.matrix_bytes == 2 * 8 * 901 + 8 * 3000
    assert SHAPE.witness_bytes == 32_000 and SHAPE.vector_bytes == 2 * 32 * 1024
    assert replace(SHAPE, curve=BN254).key_bytes == (3 * 1000 - 5 + 1024 + 5) * 64 + 1000 * 128 + 3000 * 44


def test_a_key_of_snarkjs_is_as_large_as_forecast():
    for curve in ("bls12-381", "bn128"):
        folder = FIXTURES / curve / "pow_255"
        workload = WitnessFiles.open(folder / "circuit.zkey")
        key = workload.key
        a, b = key.matrices
        shape = workload.footprint.shape
        held = sum(nbytes(points) for _, _, points in key.queries()) + (key.n_public + 1) * 2 * key.curve.fp.bytes
        assert shape.key_bytes == held + 44 * (a.nnz + b.nnz)
        size = (folder / "circuit.zkey").stat().st_size
        assert 0 < size - shape.key_bytes < 4096, "headers and the phase's contributions"
        assert shape.matrix_bytes == sum(nbytes(part) for m in (a, b) for part in (m.row_ptr, m.col, m.coef))
        (made,) = workload.synthesize([folder / "witness.wtns"], [0], 1, CancelToken())
        assert shape.witness_bytes == nbytes(made.witness)
        assert shape.vector_bytes == nbytes(made.a) + nbytes(made.b)


class WatchedDevice(HostDevice):
    """Tells, whenever something is copied, how many of the watched arrays are alive."""

    def __init__(self):
        super().__init__(1)
        self.watched: list[weakref.ref] = []
        self.alive: list[int] = []

    def upload(self, host, stream):
        self.alive.append(sum(ref() is not None for ref in self.watched))
        return super().upload(host, stream)


def test_an_assignment_is_freed_as_soon_as_it_has_arrived():
    workload = WitnessFiles.open(FIXTURES / "bn128" / "pow_255" / "circuit.zkey")
    device, token = WatchedDevice(), CancelToken()
    paths = [FIXTURES / "bn128" / "pow_255" / "witness.wtns"] * 3
    made = [Assignment(m.witness, np.array(m.a), np.array(m.b)) for m in workload.synthesize(paths, range(3), 1, token)]
    device.watched = [weakref.ref(array) for each in made for array in (each.a, each.b)]
    prover = workload.prover(made, device, 1, token)
    del made
    prover.setup()
    prover.h2d()
    assert device.alive == [6, 4, 2]
    assert not [ref for ref in device.watched if ref() is not None]
    prover.ntt()
    prover.msm()
    assert workload.verify(paths, range(3), workload.finish(prover.d2h()))
    prover.release()


def test_the_pages_of_an_evicted_key_go_and_come_back():
    workload = WitnessFiles.open(FIXTURES / "bn128" / "pow_255" / "circuit.zkey")
    (resident,) = workload.footprint.residents
    before = bytes(workload.key.source.data)
    assert resident_kib(workload.key.where) > 0
    workload.footprint.evict(resident.name)
    assert resident_kib(workload.key.where) == 0
    assert bytes(workload.key.source.data) == before
    assert resident_kib(workload.key.where) > 0


def resident_kib(path: str) -> int:
    """What of a mapped file is resident in this process."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            inside = line.endswith(str(Path(path).resolve()))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def test_slots_times_workers_times_lookahead():
    load = Load(slot=2, synthesisers=3, lookahead=4, workers=2, pinned=77)
    found = forecast(SHAPE, load)
    keys, matrices, vectors = SHAPE.key_bytes, SHAPE.matrix_bytes, 18 * SHAPE.vector_bytes
    assert found == Forecast(keys, matrices, 18 * 32_000, vectors, 0, 77, PROGRAM, 9)
    assert found.total == found.keys + found.matrices + found.working
    making_c = forecast(replace(SHAPE, c_made=True), load)
    assert making_c.vectors == vectors + 3 * 32 * 1024, "one for each synthesiser"
    on_host = forecast(SHAPE, replace(load, device_is_host=True))
    assert on_host.vectors == 14 * SHAPE.vector_bytes
    assert on_host.device == 2 * (2 * 3 * 32 * 1024 + SHAPE.vector_bytes)
    g1, g2 = 1024 * (116 + 372), 1000 * (116 + 614)
    assert on_host.workspace == PROGRAM + g1 + g2
    assert replace(SHAPE, log_domain=17).workspace_bytes(True) == PROGRAM + g2, "what is too large is not kept"


@given(partitions=st.integers(1, 8), c_made=st.booleans())
def test_a_slot_asks_for_the_most_that_it_ever_holds(partitions: int, c_made: bool):
    shape = replace(SHAPE, c_made=c_made)
    witness, vector = shape.witness_bytes, 32 * 1024
    for host in (False, True):
        asked = shape.slot(partitions, host)
        in_synthesis = [(done + 1) * (witness + 2 * vector) + c_made * vector for done in range(partitions)]
        assert max(in_synthesis) <= asked.vectors + asked.rest
        for arrived in range(partitions):  # those on the device, the one that is copied, those that wait
            waiting = (partitions - arrived) * (witness + 2 * vector)
            there = (arrived + 1) * 3 * vector + arrived * witness if host else 0
            assert waiting + there <= asked.vectors + asked.rest
        assert asked.rest == (partitions * (witness + 3 * vector) if host else 0)


def test_the_measured_peak_beside_it():
    expected = forecast(SHAPE, Load(1, 1, 1, 1))
    assert check_peak(expected, None, 5) is None
    found = check_peak(expected, 100 + expected.total * 2, 100)
    assert found == PeakCheck(expected.total, 2 * expected.total) and found.off == 1.0
    assert PeakCheck(0, 5).off is None
