"""The sweep on virtual time: the effect that operators see, to the digit."""

from __future__ import annotations

import pytest
from engine_rig import DURATIONS
from fake_workload import FakeWorkload, fake_device
from virtual_time import VirtualTime

from prover.cancel import Cancelled, CancelToken
from prover.errors import AnswerIsNo
from prover.model import Cause, KnobValue, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.knobs import KnobSet
from prover.pipeline.sweep import Level, Sweep


def measure(
    clients: list[int],
    partitions: int = 1,
    knobs: dict[str, KnobValue] | None = None,
    durations: dict[str, float] | None = None,
    count: int = 5,
    warmup: int = 1,
) -> tuple[list[Level], FakeWorkload]:
    time = VirtualTime(durations or DURATIONS, autopilot=True)
    workload = FakeWorkload(step=time.step)
    engine = Engine(workload, [fake_device()], KnobSet({"slot_size": 0, **(knobs or {})}), clock=time, cores=2)
    sweep = Sweep(lambda n: n, partitions, count, clients, warmup)
    with time.attending():
        engine.start()
        levels = list(sweep.measure(engine, lambda *_: None, CancelToken()))
        engine.stop()
    return levels, workload


def test_two_clients_hide_the_synthesis_that_one_waits_for() -> None:
    (one, two, three), workload = measure([1, 2, 3])
    assert workload.calls["synthesize"] == 3 * (5 + 1)
    for level in (one, two, three):
        assert (level.run.proofs, level.verified, level.run.failed) == (5, 5, 0)
    device = one.run.devices[0]
    assert one.run.seconds_per_proof == pytest.approx(2.8)
    assert device.utilisation == pytest.approx(1.4 / 2.8)
    assert device.idle_s_per_proof == pytest.approx(1.4)
    assert (device.clusters[0].count, device.clusters[0].cause) == (4, Cause.SYNTHESIS)
    assert device.clusters[0].centre_s == pytest.approx(1.4)
    for level in (two, three):
        after = level.run.devices[0]
        assert after.idle_s_per_proof == pytest.approx(1.4 / 5)  # the ramp only
        assert after.idle_s_per_proof <= device.idle_s_per_proof / 2
        assert after.utilisation == pytest.approx(5 * 1.4 / (5 * 1.4 + 1.4))
        assert level.run.seconds_per_proof == pytest.approx(1.68)
        assert after.gaps == ()
        assert after.steady_utilisation is None or after.steady_utilisation == pytest.approx(1.0)
    assert one.run.stdev_s == pytest.approx(0.0, abs=1e-9)
    assert one.run.steady_seconds_per_proof == pytest.approx(2.8)


def test_partitions_flow_one_by_one_if_the_slot_size_says_so() -> None:
    (standard,), _ = measure([1], partitions=4)
    (slotted,), _ = measure([1], partitions=4, knobs={"slot_size": 1})
    assert standard.run.devices[0].idle_s_per_proof == pytest.approx(4 * 1.4)
    assert slotted.run.devices[0].idle_s_per_proof == pytest.approx(1.4)
    assert (standard.run.partitions, slotted.run.partitions) == (20, 20)


def test_phases_are_those_of_the_measured_proofs_only() -> None:
    (level,), _ = measure([1], warmup=3)
    assert {statistics.count for statistics in level.phases.values()} == {5}
    assert level.phases[Phase.MSM].p95_s == pytest.approx(1.0)
    assert level.phases[Phase.MSM].stdev_s == pytest.approx(0.0, abs=1e-9)


def test_one_proof_has_no_spread() -> None:
    (level,), _ = measure([1], count=1, warmup=0)
    assert (level.run.stdev_s, level.run.ci95_s, level.run.steady_seconds_per_proof) == (None, None, None)
    assert level.run.devices[0].steady_utilisation is None
    assert level.run.seconds_per_proof == pytest.approx(2.8)


def test_without_the_self_check_nothing_counts_as_verified() -> None:
    (level,), _ = measure([1], knobs={"self_check": False}, count=2)
    assert (level.run.proofs, level.verified) == (2, 0)


def test_what_fails_again_and_again_is_given_up() -> None:
    workload = FakeWorkload(lies={(n, 0): 9 for n in range(100)})
    engine = Engine(workload, [fake_device()])
    engine.start()
    with pytest.raises(AnswerIsNo, match="given up: 5 jobs failed in a row: job failed: job 0004, partition 0"):
        list(Sweep(lambda n: n, 1, 50, [1], 0).measure(engine, lambda *_: None, CancelToken()))
    engine.stop()


def test_a_sweep_can_be_cancelled() -> None:
    token = CancelToken()
    workload = FakeWorkload(step=lambda *_: token.cancel())
    engine = Engine(workload, [fake_device()])
    engine.start()
    with pytest.raises(Cancelled):
        list(Sweep(lambda n: n, 1, 10**6, [2], 0).measure(engine, lambda *_: None, token))
    engine.stop()
    workload.assert_all_released()
