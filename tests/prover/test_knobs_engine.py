"""Knobs turned while work flows: when each lands, who lags till then, and that nothing is lost or repeated."""

from __future__ import annotations

import random
import threading
import time

import pytest
from engine_rig import Rig, rig
from fake_workload import FakeWorkload, fake_device, proof_of
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from prover.model import Cause, DeviceState, EventKind, KnobValue, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder
from prover.pipeline.interfaces import Change
from prover.pipeline.knobs import KnobSet
from prover.timeline import Timeline


def landed(r: Rig, name: str) -> bool:
    view = r.knob(name)
    return bool(view.wanted == view.in_force and not view.lagging)


def test_growing_synthesis_lands_at_once_and_shrinking_when_a_slot_is_done() -> None:
    with rig() as r:
        r.submit(1, 12)
        r.run(lambda: r.time() >= 101.0)
        r.set("synthesis_concurrency", 3)
        r.run(lambda: landed(r, "synthesis_concurrency"))
        assert r.time() == 101.0
        assert r.workload.running["synthesize"] == 3
        r.set("synthesis_concurrency", 1)
        view = r.knob("synthesis_concurrency")
        assert (view.wanted, view.in_force, view.lagging) == (1, 3, ("synthesis 3 of 1",))
        r.run(lambda: landed(r, "synthesis_concurrency"))
        assert r.time() >= 102.0
        assert [stage.workers for stage in r.engine.snapshot().stages] == [1, 2, 2]
        r.run()
        r.check_delivered("job-1", 1, 12)


def test_max_parallel_synthesis_limits() -> None:
    with rig({"synthesis_concurrency": 4, "max_parallel_synthesis": 2}) as r:
        r.submit(1, 8)
        r.run(lambda: r.time() >= 100.0)
        assert r.workload.running["synthesize"] == 2
        r.set("max_parallel_synthesis", 3)
        r.run(lambda: landed(r, "max_parallel_synthesis"))
        assert r.workload.running["synthesize"] == 3
        r.run()


def test_gpu_workers_grow_and_shrink() -> None:
    with rig({"synthesis_concurrency": 4, "gpu_workers_per_device": 1}) as r:
        r.submit(1, 12)
        r.run(lambda: r.time() >= 101.5)
        assert r.engine.snapshot().stages[1].workers == 1
        r.set("gpu_workers_per_device", 3)
        r.run(lambda: landed(r, "gpu_workers_per_device"))
        r.run(lambda: r.engine.snapshot().devices[0].workers_busy == 3)
        r.set("gpu_workers_per_device", 1)
        assert r.knob("gpu_workers_per_device").lagging == ("gpu 3 of 1",)
        r.run(lambda: landed(r, "gpu_workers_per_device"))
        assert r.engine.snapshot().devices[0].workers == 1
        r.run()


def test_the_lock_mode_changes_from_slot_to_slot_and_kernels_never_overlap() -> None:
    with rig({"synthesis_concurrency": 4, "synthesis_lookahead": 4}) as r:
        r.submit(1, 12)
        r.run(lambda: r.time() >= 101.5)
        r.set("gpu_lock", "coarse")
        assert r.knob("gpu_lock").lagging == ("gpu0-0", "gpu0-1")
        assert r.knob("gpu_lock").in_force == "narrow"
        r.run(lambda: len(r.knob("gpu_lock").lagging) == 1)
        r.run(lambda: landed(r, "gpu_lock"))
        at = r.time()
        r.run()
        setups = [(span.start, bool(span.fields.get("locked"))) for span in r.spans(Phase.SETUP)]
        assert all(locked for start, locked in setups if start is not None and start > at)
        assert not any(locked for start, locked in setups if start is not None and start <= 101.5)
        acknowledged = {event.worker for event in r.events(EventKind.KNOB_ACKNOWLEDGED)}
        assert {"gpu0-0", "gpu0-1"} <= acknowledged


def test_the_lookahead_grows_at_once_and_shrinks_as_the_queue_drains() -> None:
    with rig({"synthesis_concurrency": 4}, {"synthesize": 1.0, "msm": 50.0}) as r:
        r.submit(1, 16)
        r.run(lambda: r.engine.snapshot().stages[0].blocked == 4)
        r.set("synthesis_lookahead", 6)
        assert landed(r, "synthesis_lookahead")
        r.run(lambda: r.engine.snapshot().stages[0].blocked == 4)
        assert r.engine.snapshot().stages[1].queued == 6
        r.set("synthesis_lookahead", 2)
        assert r.knob("synthesis_lookahead").lagging == ("queue 6",)
        assert r.engine.snapshot().stages[1].capacity == 2
        r.run(lambda: landed(r, "synthesis_lookahead"))
        assert r.engine.snapshot().stages[1].queued == 2
        r.run()
        r.check_delivered("job-1", 1, 16)


def test_the_slot_size_is_the_next_jobs() -> None:
    with rig() as r:
        r.submit(1, 4)
        r.submit(2, 4)
        r.run(lambda: r.time() >= 100.0)
        r.set("slot_size", 0)
        assert r.knob("slot_size").lagging == ("job job-1",)
        r.run()
        assert landed(r, "slot_size")
        sizes = {event.job: event.fields["slot_size"] for event in r.events(EventKind.JOB_STARTED)}
        assert sizes == {"job-1": 1, "job-2": 4}
        r.set("slot_size", 2)
        assert landed(r, "slot_size")


def test_a_pause_begins_nothing_and_the_end_of_it_goes_on() -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        r.submit(1, 8)
        r.run(lambda: r.time() >= 101.3)
        r.set("paused", True)
        assert r.engine.snapshot().paused
        assert set(r.knob("paused").lagging) <= {"synthesis-0", "synthesis-1", "gpu0-0", "gpu0-1"}
        r.run(lambda: landed(r, "paused"))
        r.run(lambda: r.engine.snapshot().stages[2].busy == 0)
        at = r.time()
        calls = dict(r.workload.calls)
        device = r.engine.snapshot().devices[0]
        assert (device.state, device.cause, device.workers_busy) == (DeviceState.IDLE, Cause.PAUSED, 0)
        time.sleep(0.02)
        assert dict(r.workload.calls) == calls and r.time() == at
        r.time.pass_(100.0)
        r.set("paused", False)
        assert landed(r, "paused")
        r.run()
        r.check_delivered("job-1", 1, 8)
        gaps = r.timeline().runs()[0].devices[0].gaps
        assert max(gaps, key=lambda gap: gap.seconds).cause is Cause.PAUSED


def test_a_paused_engine_can_be_started_and_stopped() -> None:
    with rig({"paused": True}) as r:
        r.submit(1, 2)
        r.run(lambda: True)
        assert r.workload.calls["synthesize"] == 0
        assert r.engine.snapshot().paused


def test_threads_and_self_check_are_read_at_the_next_slot() -> None:
    with rig({"threads": 1}) as r:
        r.submit(1, 4)
        r.run(lambda: r.time() >= 101.5)
        r.set("gpu_threads", 1)
        assert r.knob("gpu_threads").lagging == ("gpu0-0",)
        r.set("self_check", False)
        assert landed(r, "self_check")
        r.run()
        assert landed(r, "gpu_threads")
        assert r.workload.threads_given["prover"] == {3, 1}
        assert not r.result("job-1").verified


def test_undo_while_running() -> None:
    with rig() as r:
        r.submit(1, 4)
        r.run(lambda: r.time() >= 101.5)
        r.set("synthesis_lookahead", 5)
        r.set("gpu_lock", "coarse")
        assert r.engine.undo().accepted
        assert (r.engine.knobs["gpu_lock"], r.engine.knobs["synthesis_lookahead"]) == ("narrow", 5)
        assert landed(r, "gpu_lock")  # nobody had taken the change over
        assert r.engine.undo().accepted
        assert r.engine.snapshot().stages[1].capacity == 1
        r.run()


def test_every_change_is_told_proposed_then_applied() -> None:
    with rig() as r:
        r.submit(1, 6)
        for name, value in [("synthesis_lookahead", 3), ("gpu_lock", "coarse"), ("slot_size", 2), ("threads", 1)]:
            r.run_for(0.7)
            r.set(name, value)
        assert not r.engine.propose(Change("slot_size", -1)).accepted
        r.run()
        story = [(event.kind, event.fields["name"]) for event in r.events() if event.kind.value.startswith("knob_p")]
        applied = {event.fields["name"] for event in r.events(EventKind.KNOB_APPLIED)}
        assert [name for _, name in story] == ["synthesis_lookahead", "gpu_lock", "slot_size", "threads"]
        assert applied == {"synthesis_lookahead", "gpu_lock", "slot_size", "threads"}
        assert len(r.events(EventKind.KNOB_REFUSED)) == 1


HOT: dict[str, list[KnobValue]] = {
    "synthesis_lookahead": [0, 1, 2, 5],
    "synthesis_concurrency": [1, 2, 3, 6],
    "max_parallel_synthesis": [1, 2, 18],
    "gpu_workers_per_device": [1, 2, 3, 5],
    "gpu_lock": ["narrow", "coarse"],
    "slot_size": [0, 1, 2, 3],
    "threads": [0, 1],
    "gpu_threads": [0, 1],
    "paused": [False, True],
}


class EngineMachine(RuleBasedStateMachine):
    """Any order of jobs, changes, failures, lies, cancellations and passing time."""

    @initialize(devices=st.integers(1, 2))
    def begin(self, devices: int) -> None:
        self.context = rig(devices=devices)
        self.r = self.context.__enter__()
        self.expected: dict[str, tuple[int, int]] = {}
        self.cancelled: set[str] = set()
        self.failing: set[str] = set()
        self.next = 0

    @rule(
        partitions=st.integers(1, 5), fate=st.sampled_from(["fine", "fine", "fine", "fail", "lie", "die"]), at=st.data()
    )
    def submit(self, partitions: int, fate: str, at: st.DataObject) -> None:
        self.next += 1
        where = at.draw(st.integers(0, partitions - 1))
        if fate == "lie":
            self.r.workload.lies[self.next, where] = 1
        elif fate in ("fail", "die"):
            step = at.draw(st.sampled_from(["synthesize", "setup", "h2d", "ntt", "msm", "d2h", "finish", "verify"]))
            self.r.faults[step, self.next, 0] = MemoryError("full") if fate == "fail" else SystemExit(1)
        job = self.r.submit(self.next, partitions)
        self.expected[job] = (self.next, partitions)
        if fate in ("fail", "die"):
            self.failing.add(job)

    @rule(name=st.sampled_from(sorted(HOT)), choice=st.integers(0, 4))
    def turn(self, name: str, choice: int) -> None:
        value = HOT[name][choice % len(HOT[name])]
        assert self.r.engine.propose(Change(name, value)).accepted

    @rule()
    def undo(self) -> None:
        self.r.engine.undo()

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.expected)))
        if self.r.engine.cancel(job):
            self.cancelled.add(job)

    @rule(tenths=st.integers(1, 30))
    def let_time_pass(self, tenths: int) -> None:
        if not self.r.engine.snapshot().paused:
            self.r.run_for(tenths / 10)

    @invariant()
    def bounded(self) -> None:
        snapshot = self.r.engine.snapshot()
        assert all(view.wanted == self.r.engine.knobs[view.name] for view in snapshot.knobs)
        assert snapshot.counters.proofs_verified == snapshot.counters.partitions_done

    def teardown(self) -> None:
        if not hasattr(self, "context"):
            return
        r = self.r
        r.set("paused", False)
        r.run()
        r.run(lambda: all(landed(r, name) for name in HOT))
        for job, (inputs, partitions) in self.expected.items():
            if job in self.cancelled:
                continue
            if job in self.failing:
                assert r.futures[job].exception() is not None
            else:
                r.check_delivered(job, inputs, partitions)
        self.context.__exit__(None, None, None)


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("seed", [1, 2])
def test_five_hundred_random_changes_over_two_hundred_partitions(seed: int) -> None:
    """On real threads and real time: all proofs once, in order, all valid; every change lands."""
    before = set(threading.enumerate())
    rng = random.Random(seed)
    workload = FakeWorkload(step=lambda *_: None if rng.random() < 0.7 else time.sleep(rng.random() * 1e-3))
    engine = Engine(workload, [fake_device()], KnobSet(), cores=4)
    results: dict[int, tuple[bytes, ...]] = {}
    feeder = Feeder(engine, lambda n: n, 5, 3, on_end=lambda n, got: results.update({n: got.proofs if got else ()}))
    engine.start()
    feeder.start()
    for _ in range(500):
        name = rng.choice(sorted(HOT))
        assert engine.propose(Change(name, rng.choice(HOT[name]))).accepted
        time.sleep(rng.random() * 1e-3)
    engine.propose(Change("paused", False))
    while engine.snapshot().counters.partitions_done < 200:
        time.sleep(0.001)
    feeder.stop()
    assert feeder.wait(60)
    assert results == {n: tuple(proof_of(n, index) for index in range(5)) for n in range(feeder.submitted)}
    assert engine.snapshot().counters.proofs_verified == 5 * feeder.submitted >= 200
    pending = [view for view in engine.snapshot().knobs if view.lagging or view.wanted != view.in_force]
    assert not pending
    engine.stop()
    workload.assert_all_released()
    assert not workload.kernel_clash
    events = engine.events(0)
    timeline = Timeline(window_s=None)
    timeline.fold(events)
    assert timeline.missed == 0
    assert sum(event.kind is EventKind.KNOB_PROPOSED for event in events) >= 200
    assert set(threading.enumerate()) <= before
