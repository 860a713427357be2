"""The engine with the real prover on a small circuit: knobs turned all the time, every proof checked again."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from prover.circuits.builtin import builtin
from prover.device.host import HostDevice
from prover.groth16.workload import CircuitWorkload
from prover.model import EventKind, KnobValue, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder
from prover.pipeline.interfaces import Change, JobRequest
from prover.pipeline.knobs import KnobSet
from prover.timeline import Timeline

PARTITIONS = 5
HOT: dict[str, list[KnobValue]] = {
    "synthesis_lookahead": [0, 1, 2, 4],
    "synthesis_concurrency": [1, 2, 3],
    "gpu_workers_per_device": [1, 2, 3],
    "gpu_lock": ["narrow", "coarse"],
    "slot_size": [0, 1, 2, 3],
    "threads": [0, 1],
    "gpu_threads": [0, 1],
    "paused": [False, True],
}


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> CircuitWorkload:
    return CircuitWorkload.open(builtin("range-check-10"), threads=2, cache=Path(tmp_path_factory.mktemp("cache")))


def test_five_hundred_changes_over_two_hundred_real_partitions(workload: CircuitWorkload) -> None:
    rng = random.Random(7)
    device = HostDevice()
    engine = Engine(workload, [device], KnobSet())
    results: dict[int, tuple[bytes, ...]] = {}
    feeder = Feeder(
        engine,
        lambda n: workload.sample_inputs(n, PARTITIONS),
        PARTITIONS,
        3,
        on_end=lambda n, got: results.update({n: got.proofs if got is not None else ()}),
    )
    engine.start()
    feeder.start()
    timeline = Timeline(window_s=None)
    changes = 0
    while changes < 500:
        # changes are spread over the work: each waits for its share of 200 partitions
        if engine.snapshot().counters.partitions_done >= changes * 200 // 500 or engine.snapshot().paused:
            name = rng.choice(sorted(HOT))
            receipt = engine.propose(Change(name, rng.choice(HOT[name])))
            assert receipt.accepted
            changes += 1
        timeline.fold(engine.events(timeline.last_seq))
        time.sleep(0.001)
    engine.propose(Change("paused", False))
    feeder.stop()
    assert feeder.wait(60)
    engine.stop()
    timeline.fold(engine.events(timeline.last_seq))

    counters = engine.snapshot().counters
    assert counters.partitions_done >= 200
    assert (counters.jobs_failed, counters.proofs_withheld, feeder.failed) == (0, 0, 0)
    assert counters.proofs_verified == counters.partitions_done == PARTITIONS * feeder.submitted
    assert sorted(results) == list(range(feeder.submitted))
    for number, proofs in results.items():
        inputs = workload.sample_inputs(number, PARTITIONS)
        assert workload.verify(inputs, range(PARTITIONS), proofs)  # in order: a partition's proof fits no other
    assert len({proof for proofs in results.values() for proof in proofs}) == counters.partitions_done
    views = engine.snapshot().knobs
    assert all(view.wanted == view.in_force and not view.lagging for view in views)
    assert device.memory().used == 0
    assert timeline.missed == 0
    busy = timeline.busy(0, 0.0, timeline.now)
    assert len(busy) > 50 and timeline.phase_statistics()[Phase.MSM].count > 50


def test_cancelling_stops_native_work_at_once_and_the_engine_goes_on(workload: CircuitWorkload) -> None:
    engine = Engine(workload, [HostDevice()], KnobSet({"slot_size": 0}))
    engine.start()
    try:
        doomed = engine.submit(JobRequest(workload.sample_inputs(0, 40), 40, id="doomed"))
        while not any(event.phase is Phase.MSM for event in engine.events(0)):
            time.sleep(0.001)
        assert engine.cancel("doomed")
        assert doomed.exception(10) is not None
        inputs = workload.sample_inputs(1, 2)
        result = engine.submit(JobRequest(inputs, 2)).result(60)
        assert workload.verify(inputs, [0, 1], result.proofs)
    finally:
        engine.stop()
    spans = [event for event in engine.events(0) if event.kind is EventKind.SPAN and event.job == "doomed"]
    assert any(span.fields.get("ok") is False for span in spans)


def test_inputs_that_do_not_satisfy_the_circuit_fail_their_job_with_the_row(workload: CircuitWorkload) -> None:
    engine = Engine(workload, [HostDevice()], KnobSet())
    engine.start()
    try:
        good = workload.sample_inputs(0, 2)
        bad = [good[0], good[1].copy()]
        bad[1][:] = 2**64 - 1
        failed = engine.submit(JobRequest(bad, 2))
        fine = engine.submit(JobRequest(good, 2))
        message = str(failed.exception(60))
        assert message.startswith("job failed: job 0000, partition 1, synthesis: ") and "\n" not in message
        assert workload.verify(good, [0, 1], fine.result(60).proofs)
    finally:
        engine.stop()
