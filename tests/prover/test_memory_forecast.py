"""The forecast of memory: the arithmetic against counts by hand, and against the buffers that a proof really has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from prover.cancel import CancelToken
from prover.curves import BLS12_381, BN254
from prover.groth16.workload import WitnessFiles
from prover.pipeline.budget import MemoryBudget, State
from prover.pipeline.forecast import CircuitShape, Forecast, Load, PeakCheck, check_peak, forecast, slot_need

FIXTURES = Path(__file__).parents[1] / "fixtures" / "snark"
SHAPE = CircuitShape(BLS12_381, wires=1000, public=4, rows=900, log_domain=10, entries=(2000, 1000), key_entries=3000)


def nbytes(buffer) -> int:
    return memoryview(buffer).nbytes


def test_counts_by_hand():
    assert SHAPE.key_bytes == (3 * 1000 - 5 + 1024 + 5) * 96 + 1000 * 192 + 3000 * 44
    assert SHAPE.matrix_bytes == 2 * 8 * 901 + 8 * 3000
    assert SHAPE.witness_bytes == 32_000 and SHAPE.vector_bytes == 3 * 32 * 1024
    assert replace(SHAPE, curve=BN254).key_bytes == (3 * 1000 - 5 + 1024 + 5) * 64 + 1000 * 128 + 3000 * 44


def test_a_key_of_snarkjs_is_as_large_as_forecast():
    for curve in ("bls12-381", "bn128"):
        folder = FIXTURES / curve / "pow_255"
        workload = WitnessFiles.open(folder / "circuit.zkey")
        key = workload.key
        a, b = key.matrices
        shape = CircuitShape(
            key.curve,
            key.n_wires,
            key.n_public,
            key.n_constraints + key.n_public + 1,
            key.log_n,
            entries=(a.nnz, b.nnz),
            key_entries=a.nnz + b.nnz,
            rows_held=key.domain_size,
            c_given=False,
        )
        held = sum(nbytes(points) for _, _, points in key.queries()) + (key.n_public + 1) * 2 * key.curve.fp.bytes
        assert shape.key_bytes == held + 44 * (a.nnz + b.nnz)
        size = (folder / "circuit.zkey").stat().st_size
        assert 0 < size - shape.key_bytes < 4096, "headers and the phase's contributions"
        assert shape.matrix_bytes == sum(nbytes(part) for m in (a, b) for part in (m.row_ptr, m.col, m.coef))
        (made,) = workload.synthesize([folder / "witness.wtns"], [0], 1, CancelToken())
        assert shape.witness_bytes == nbytes(made.witness)
        assert shape.vector_bytes == nbytes(made.a) + nbytes(made.b)


def test_slots_times_workers_times_lookahead():
    load = Load(slot=2, synthesisers=3, lookahead=4, workers=2, pinned=77, workspace=5)
    found = forecast(SHAPE, load)
    assert found.slots == 9
    assert found == Forecast(
        SHAPE.key_bytes, SHAPE.matrix_bytes, 18 * SHAPE.witness_bytes, 18 * SHAPE.vector_bytes, 0, 77, 5, 9
    )
    assert forecast(SHAPE, replace(load, device_is_host=True)).device == 4 * 3 * 32 * 1024
    assert found.total == found.keys + found.matrices + found.working


@given(
    slot=st.integers(1, 8),
    synthesisers=st.integers(1, 8),
    lookahead=st.integers(0, 8),
    workers=st.integers(1, 8),
    host=st.booleans(),
)
def test_a_budget_of_the_forecast_holds_all_slots_at_once(
    slot: int, synthesisers: int, lookahead: int, workers: int, host: bool
):
    load = Load(slot, synthesisers, lookahead, workers, device_is_host=host)
    expected = forecast(SHAPE, load)
    needs = [slot_need(SHAPE, "test", f"slot {i}", load) for i in range(expected.slots)]
    beyond = (expected.slots - workers) * slot * SHAPE.device_bytes if host else 0  # asked for by each, held by few
    budget = MemoryBudget(expected.total + beyond, pinned=0)
    assert all(budget.ask(need).state is State.GRANTED for need in needs)
    assert budget.view.used == expected.total + beyond
    assert budget.ask(needs[0]).state is State.WAITING


def test_the_measured_peak_beside_it():
    expected = forecast(SHAPE, Load(1, 1, 1, 1))
    assert check_peak(expected, None, 5) is None
    found = check_peak(expected, 100 + expected.total * 2, 100)
    assert found == PeakCheck(expected.total, 2 * expected.total) and found.off == 1.0
    assert PeakCheck(0, 5).off is None
