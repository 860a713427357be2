"""Faults at the hand-overs between stages: the right job fails, once, and everybody else's proofs are delivered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from engine_rig import Rig, rig
from fake_workload import FakeSlotProver, FakeWorkload, fake_device, proof_of

from prover.errors import InputError
from prover.model import EventKind, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.failure import MOST_CHARACTERS, one_line_detail
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import JobCancelled, JobFailed


class Death(BaseException):
    """What no handler of a workload's failures catches."""


def once(owner: Any, name: str, error: type, when: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Let a method raise, the first time that ``when`` holds for its arguments; later calls are its own again."""
    real = getattr(owner, name)
    left = [error]

    def faulty(*args: Any, **named: Any) -> Any:
        if left and when(*args, **named):
            raise left.pop()("at once")  # made here: an error that lives on keeps what its frames held
        return real(*args, **named)

    setattr(owner, name, faulty)


def of_job(number: int) -> Callable[..., bool]:
    """Arguments that are about this job: one of them is a slot or a job of it."""

    def about(*args: Any, **_: Any) -> bool:
        jobs = [getattr(arg, "job", arg) for arg in args]
        return any(getattr(job, "id", None) == f"job-{number}" for job in jobs)

    return about


HAND_OVERS: dict[str, Callable[[Rig], tuple[Any, str]]] = {
    "into the queue": lambda r: (r.engine._line.channel, "put"),
    "to the finalizers": lambda r: (r.engine._line, "pend"),
    "off the device": lambda r: (r.engine._line, "finalize"),
    "delivery": lambda r: (r.engine._line, "deliver"),
    "end of a phase": lambda r: (r.engine._board, "turn"),
}


@pytest.mark.parametrize("error", [MemoryError, Death])
@pytest.mark.parametrize("place", HAND_OVERS)
def test_a_fault_between_two_stages_fails_the_job_that_was_handed_over(place: str, error: type) -> None:
    with rig({"synthesis_concurrency": 2, "gpu_workers_per_device": 2}) as r:
        once(*HAND_OVERS[place](r), error, of_job(1))
        jobs = [r.submit(inputs, 3) for inputs in range(3)]
        r.run()
        assert isinstance(r.futures[jobs[1]].exception(), JobFailed)
        assert f"{error.__name__}: at once" in r.error(jobs[1])
        for inputs in (0, 2):
            r.check_delivered(jobs[inputs], inputs, 3)
        assert len(r.events(EventKind.PARTITION_FAILED)) == 1


@pytest.mark.parametrize("place", ["scheduler", "take", "finalizers"])
def test_a_worker_that_dies_with_empty_hands_costs_no_job(place: str) -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        line = r.engine._line
        owner, name = {
            "scheduler": (line.scheduler, "next"),
            "take": (line.channel, "take"),
            "finalizers": (line.finishing, "take"),
        }[place]
        once(owner, name, Death)
        jobs = [r.submit(inputs, 2) for inputs in range(3)]
        r.set("synthesis_lookahead", 2)  # whoever rests is woken, and asks
        r.run()
        for inputs, job in enumerate(jobs):
            r.check_delivered(job, inputs, 2)
        r.run(lambda: r.engine.snapshot().counters.workers_replaced == 1)
        stopped = [event for event in r.events(EventKind.WORKER_STOPPED) if event.fields["error"]]
        assert [event.fields["error"] for event in stopped] == ["Death: at once"]


@pytest.mark.parametrize("lock", ["narrow", "coarse"])
def test_a_fault_while_the_lock_is_asked_for_fails_that_job(lock: str) -> None:
    with rig({"gpu_lock": lock, "synthesis_concurrency": 2}) as r:
        record = r.engine._board.devices[0]
        acquire, asked = record.lock.acquire, []

        def third(*args: Any, **named: Any) -> bool:
            asked.append(args)
            if len(asked) == 3:
                raise MemoryError("no room to wait")
            return acquire(*args, **named)

        record.lock.acquire = third  # type: ignore[method-assign]
        jobs = [r.submit(inputs, 2) for inputs in range(3)]
        r.run()
        failed = [job for job in jobs if r.futures[job].exception() is not None]
        assert len(failed) == 1 and f"{Phase.LOCK_WAIT}: MemoryError: no room to wait" in r.error(failed[0])
        for inputs, job in enumerate(jobs):
            if job not in failed:
                r.check_delivered(job, inputs, 2)


@pytest.mark.parametrize("call", range(6))
def test_a_device_that_cannot_tell_when_kernels_ran_fails_that_job(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def spans(prover: FakeSlotProver) -> list[tuple[float, float]]:
        if prover._slot[0] == 1:
            calls.append(len(calls))
            if len(calls) == call + 1:
                raise RuntimeError("the event was never recorded")
        return []

    monkeypatch.setattr(FakeSlotProver, "kernel_spans", spans)
    with rig() as r:
        jobs = [r.submit(inputs) for inputs in range(3)]
        r.run()
        assert "RuntimeError: the event was never recorded" in r.error(jobs[1])
        for inputs in (0, 2):
            r.check_delivered(jobs[inputs], inputs, 1)


def test_a_caller_whose_callback_raises_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    def bad(_: Future[JobResult]) -> None:
        raise ValueError("the caller's own")

    def worse(_: Future[JobResult]) -> None:
        raise Death("the caller's own")

    with rig() as r, caplog.at_level(logging.CRITICAL, "concurrent.futures"):
        jobs = [r.submit(inputs, 2) for inputs in range(4)]
        r.futures[jobs[0]].add_done_callback(bad)
        r.futures[jobs[1]].add_done_callback(worse)
        r.run()
        for inputs, job in enumerate(jobs):
            r.check_delivered(job, inputs, 2)
        r.run(lambda: r.engine.snapshot().counters.workers_replaced == 1)
        assert r.engine.snapshot().counters.jobs_failed == 0


def test_a_callback_that_kills_its_caller_keeps_no_other_from_being_told() -> None:
    """Three jobs end at one instant: what the first one's callback raises reaches neither of the others."""

    def worse(_: Future[JobResult]) -> None:
        raise Death("the caller's own")

    engine = Engine(FakeWorkload(), [fake_device()])
    futures = [engine.submit(JobRequest(number, 1)) for number in range(3)]
    futures[0].add_done_callback(worse)
    with pytest.raises(Death):
        engine.stop()
    assert all(isinstance(future.exception(0), JobCancelled) for future in futures)


def test_a_loader_that_dies_tells_every_job() -> None:
    def loader(progress: object, cancel: object) -> FakeWorkload:
        raise Death("no key")

    engine = Engine(loader, [fake_device()], KnobSet())
    future = engine.submit(JobRequest(1, 1))
    engine.start()
    assert "Death: no key" in str(future.exception(30))
    assert engine.snapshot().activity == "cannot prove: Death: no key"
    engine.stop()


def test_a_job_of_a_circuit_that_is_not_loaded_fails_and_the_others_go_on() -> None:
    engine = Engine(lambda progress, cancel: FakeWorkload(), [fake_device()], KnobSet())
    futures = [engine.submit(JobRequest(1, 1, circuit=circuit)) for circuit in ("other", "fake", "")]
    engine.start()
    assert "no such circuit: other: this engine has fake" in str(futures[0].exception(30))
    assert [future.result(30).proofs for future in futures[1:]] == [(proof_of(1, 0),)] * 2
    engine.stop()
    assert engine.snapshot().counters.workers_replaced == 0


def test_a_callback_that_stops_the_engine_is_told_that_it_cannot() -> None:
    engine = Engine(FakeWorkload(), [fake_device()], KnobSet())
    engine.start()
    told: Future[BaseException | None] = Future()

    def stop(_: object) -> None:
        try:
            engine.stop()
        except RuntimeError as error:
            told.set_result(error)

    engine.submit(JobRequest(1, 1)).add_done_callback(stop)
    assert "a callback cannot stop the engine" in str(told.result(30))
    assert engine.submit(JobRequest(2, 1)).result(30).proofs == (proof_of(2, 0),)
    engine.stop()


def test_a_stop_while_the_engine_starts_ends_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    engine = Engine(lambda progress, cancel: FakeWorkload(), [fake_device()], KnobSet())
    monkeypatch.setattr("prover.pipeline.engine.give_back_what_is_freed", engine.stop)
    engine.start()
    engine.stop()
    assert set(threading.enumerate()) <= before


def test_a_second_stop_cuts_a_drain_short() -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        job = r.submit(1, 4)
        r.run(lambda: r.workload.running["synthesize"] == 2)
        patient = threading.Thread(target=r.engine.stop, args=(1000.0,))
        patient.start()
        r.time.stand_still(lambda: r.engine._state == "stopping")
        before = r.time()
        r.engine.stop(0.0)
        patient.join(30)
        assert not patient.is_alive()
        assert isinstance(r.futures[job].exception(0), JobCancelled)
        assert r.time() == before


def test_a_drain_tells_what_it_waits_for_and_delivers_it() -> None:
    with rig({"synthesis_concurrency": 2}) as r:
        job = r.submit(1, 2)
        waiting = r.submit(2, 5)
        r.run(lambda: r.workload.running["synthesize"] == 2)
        stopper = threading.Thread(target=r.engine.stop, args=(None,))
        stopper.start()
        r.time.join(stopper)
        r.check_delivered(job, 1, 2)
        assert isinstance(r.futures[waiting].exception(0), JobCancelled)


def test_the_detail_of_a_failure_is_one_line_that_begins_where_it_was_raised() -> None:
    def innermost() -> None:
        raise ValueError("bad\nrow")

    def outer() -> None:
        try:
            innermost()
        except ValueError as error:
            raise RuntimeError("cannot prove") from error

    with pytest.raises(RuntimeError) as caught:
        outer()
    detail = one_line_detail(caught.value)
    assert detail is not None and "\n" not in detail
    here, origin = detail.split(" | ")
    assert here.startswith("prover/test_engine_boundaries.py:") and " outer < " in here
    assert origin.startswith("from ValueError: bad row at prover/test_engine_boundaries.py:") and " innermost" in origin
    assert one_line_detail(InputError("no such file", "x", "check")) is None
    assert one_line_detail(ValueError("never raised")) == "nowhere"


def test_a_deep_failure_keeps_its_innermost_frames() -> None:
    def deep(left: int) -> None:
        if not left:
            raise ValueError("at the bottom")
        deep(left - 1)

    with pytest.raises(ValueError, match="bottom") as caught:
        deep(500)
    detail = one_line_detail(caught.value)
    assert detail is not None and len(detail) == MOST_CHARACTERS
    assert detail.startswith("prover/test_engine_boundaries.py:")


def test_a_result_says_which_partition_it_is() -> None:
    with rig() as r:
        job = r.submit(7, 3)
        r.run()
        assert r.result(job).proofs == tuple(proof_of(7, index) for index in range(3))
