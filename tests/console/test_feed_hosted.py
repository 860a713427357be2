"""The hosted engine while it is made, while it runs, and when it will not start."""

import os
import sys
import threading

import pytest
from fakes_console import FakeClock, FakeEngine

from console.feeds.builtin import BuiltinWorkload
from console.feeds.hosted import NICENESS, HostedEngine, Session
from prover.cancel import Cancelled, CancelToken
from prover.circuits.builtin import DEFAULT, DEFAULT_ON_GPU, default_for
from prover.device.values import Capability
from prover.errors import MachineLacks
from prover.pipeline.interfaces import Change, Progress

WAIT_S = 20.0


class FakeSession:
    def __init__(self) -> None:
        self.engine = FakeEngine(FakeClock())
        self.trouble: str | None = None
        self.stopped = threading.Event()
        self.drains: list[bool] = []
        self.patience = threading.Event()
        self.patience.set()

    def stop(self, *, drain: bool = False) -> None:
        self.drains.append(drain)
        if drain:
            assert self.patience.wait(WAIT_S)
        self.stopped.set()

    def hurry(self) -> None:
        self.patience.set()


def test_it_tells_what_it_prepares_then_shows_the_engine():
    told, go = threading.Event(), threading.Event()
    session = FakeSession()

    def start(progress: Progress, cancel: CancelToken) -> Session:
        progress("making the proving key", 0.42)
        told.set()
        assert go.wait(WAIT_S)
        return session

    hosted = HostedEngine(start, "built-in")
    assert not hosted.ready and hosted.snapshot().activity == "getting ready"
    hosted.start()
    assert told.wait(WAIT_S)
    assert hosted.snapshot().activity == "making the proving key  42 %" and hosted.snapshot().workload == "built-in"
    assert hosted.events(0) == ()
    for receipt in (hosted.propose(Change("paused", True)), hosted.undo()):
        assert not receipt.accepted and receipt.reason == "the engine is still starting"
    go.set()
    hosted._thread.join(WAIT_S)
    assert hosted.ready and hosted.snapshot().devices
    assert hosted.propose(Change("paused", True)).accepted
    session.trouble = "five jobs failed"
    assert hosted.trouble == "five jobs failed"
    assert hosted.stop(WAIT_S) and session.stopped.is_set()


def test_a_stop_while_it_is_made_cancels():
    begun = threading.Event()

    def start(progress: Progress, cancel: CancelToken) -> Session:
        begun.set()
        assert cancel._event.wait(WAIT_S)
        raise Cancelled

    hosted = HostedEngine(start, "x")
    hosted.start()
    assert begun.wait(WAIT_S)
    hosted.stop(0.0)
    assert hosted.stop(WAIT_S)
    assert hosted.failure is None and not hosted.ready


def test_one_that_was_never_started_stops_at_once():
    assert HostedEngine(lambda progress, cancel: FakeSession(), "x").stop(WAIT_S)


@pytest.mark.parametrize("error", [MachineLacks("no library"), ZeroDivisionError("a defect")])
def test_a_failure_is_kept_for_the_main_thread(error: Exception):
    def start(progress: Progress, cancel: CancelToken) -> Session:
        raise error

    hosted = HostedEngine(start, "x")
    hosted.start()
    hosted._thread.join(WAIT_S)
    assert hosted.failure is error and hosted.stop(WAIT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of single threads is Linux's")
def test_what_the_engine_starts_stands_behind_the_interface():
    found: list[int] = []

    def look() -> None:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    def start(progress: Progress, cancel: CancelToken) -> Session:
        worker = threading.Thread(target=look)
        worker.start()
        worker.join()
        return FakeSession()

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    hosted = HostedEngine(start, "x")
    hosted.start()
    hosted._thread.join(WAIT_S)
    assert found == [min(19, before + NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


@pytest.mark.parametrize(
    ("kind", "gib", "circuit"), [("host", 512, DEFAULT), ("cuda", 140, DEFAULT_ON_GPU), ("cuda", 2, DEFAULT)]
)
def test_the_default_circuit_is_of_the_devices_size(kind, gib, circuit):
    capability = Capability(kind, "", 1, gib << 30, has_timing_events=False)
    assert default_for(capability) == circuit
    assert BuiltinWorkload().subject == "built-in circuit, 8 partitions"
    assert BuiltinWorkload(circuit).subject == f"built-in {circuit}, 8 partitions"


def hosting(session: FakeSession) -> HostedEngine:
    """A hosted engine that runs."""
    hosted = HostedEngine(lambda progress, cancel: session, "built-in")
    hosted.start()
    hosted._thread.join(WAIT_S)
    return hosted


def test_a_drain_waits_for_what_was_begun():
    session = FakeSession()
    session.patience.clear()
    hosted = hosting(session)
    assert not hosted.drain(0.0) and not hosted.drain(0.01)
    session.patience.set()
    assert hosted.drain(WAIT_S) and session.stopped.is_set()
    assert hosted.stop(0.0) and session.drains == [True]


def test_a_stop_cuts_a_drain_short():
    session = FakeSession()
    session.patience.clear()
    hosted = hosting(session)
    assert not hosted.drain(0.0)
    assert hosted.stop(WAIT_S) and session.drains == [True]


def test_a_drain_of_an_engine_that_is_being_made_cancels_that():
    begun = threading.Event()

    def start(progress: Progress, cancel: CancelToken) -> Session:
        begun.set()
        while not cancel.cancelled:
            threading.Event().wait(0.001)
        raise Cancelled

    hosted = HostedEngine(start, "built-in")
    hosted.start()
    assert begun.wait(WAIT_S)
    assert hosted.drain(WAIT_S) and hosted.failure is None
