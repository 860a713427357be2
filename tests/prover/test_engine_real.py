"""The engine with the real prover on a small circuit: knobs turned all the time, every proof checked again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from storm import Storm

from prover.circuits.builtin import builtin
from prover.device.host import HostDevice
from prover.errors import InputError
from prover.groth16.workload import CircuitWorkload
from prover.model import EventKind, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import KnobSet
from prover.timeline import Timeline


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> CircuitWorkload:
    return CircuitWorkload.open(builtin("range-check-10"), threads=2, cache=Path(tmp_path_factory.mktemp("cache")))


def test_a_storm_of_changes_over_two_hundred_real_partitions(workload: CircuitWorkload) -> None:
    threads = set(threading.enumerate())
    device = HostDevice()
    engine = Engine(workload, [device], KnobSet())
    storm = Storm(
        engine,
        workload.sample_inputs,
        lambda number, proofs: workload.verify(workload.sample_inputs(number, len(proofs)), range(len(proofs)), proofs),
        seed=7,
    )
    engine.start()
    storm.blow(actions=1000, partitions=200)
    deadline = time.monotonic() + 30
    while lagging := [view for view in engine.snapshot().knobs if view.wanted != view.in_force or view.lagging]:
        assert time.monotonic() < deadline, lagging
        time.sleep(0.01)
    engine.stop()
    storm.check()
    counters = engine.snapshot().counters
    assert (counters.jobs_failed, counters.partitions_failed, counters.proofs_withheld) == (0, 0, 0)
    delivered = [each.future.result() for each in storm.asked.values() if each.future.exception() is None]
    proofs = [proof for result in delivered for proof in result.proofs]
    assert len(set(proofs)) == len(proofs) > 60
    assert device.memory().used == 0
    assert set(threading.enumerate()) <= threads
    timeline = Timeline(window_s=None)
    timeline.fold(storm.events)
    assert timeline.missed == 0 and timeline.phase_statistics()[Phase.MSM].count > 50


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


def test_inputs_for_another_number_of_partitions_are_refused_at_once(workload: CircuitWorkload) -> None:
    engine = Engine(workload, [HostDevice()], KnobSet())
    inputs = workload.sample_inputs(0, 3)
    for given, partitions in ((inputs, 2), (inputs[:1], 2), ([], 1)):
        with pytest.raises(InputError, match=f"inputs do not match: .*{len(given)} inputs? for {partitions} partition"):
            engine.submit(JobRequest(given, partitions, id="x"))
    engine.stop()
