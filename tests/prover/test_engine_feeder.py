"""The clients of the built-in workload."""

from __future__ import annotations

import threading

import pytest
from engine_rig import rig
from fake_workload import FakeWorkload, fake_device

from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder
from prover.pipeline.interfaces import Change, JobResult


def test_so_many_jobs_are_in_flight_and_each_is_followed_by_the_next() -> None:
    with rig() as r:
        feeder = Feeder(r.engine, lambda n: n, 2, clients=3, total=8, clock=r.time)
        feeder.start()
        seen = set()
        while not feeder.wait(0):
            r.time.settle()
            seen.add(len(r.engine.snapshot().jobs) - r.engine.snapshot().counters.jobs_done)
            r.time.advance()
        assert max(seen) == 3
        assert (feeder.submitted, feeder.done, feeder.failed, feeder.trouble) == (8, 8, 0, None)
        feeder.stop()


def test_the_number_of_clients_changes_while_it_feeds() -> None:
    engine = Engine(FakeWorkload(), [fake_device()])
    engine.start()
    engine.propose(Change("paused", True))
    feeder = Feeder(engine, lambda n: n, 1, clients=1)
    feeder.start()
    for clients in (1, 4, 2):
        feeder.clients = clients
        while feeder._in_flight < clients:
            threading.Event().wait(0.001)
    assert feeder.submitted == 4
    feeder.stop()
    engine.propose(Change("paused", False))
    assert feeder.wait(10)
    engine.stop()
    assert feeder.done == 4


def test_it_gives_up_on_what_fails_at_once() -> None:
    def broken(step: str, inputs: object, partitions: object, cancel: object) -> None:
        if step == "synthesize" and inputs != 2:
            raise MemoryError("full")

    engine = Engine(FakeWorkload(step=broken), [fake_device()])
    engine.start()
    results: list[tuple[int, JobResult | None]] = []
    feeder = Feeder(engine, lambda n: n, 1, clients=1, on_end=lambda n, result: results.append((n, result)))
    feeder.start()
    assert feeder.wait(10)
    assert feeder.trouble is not None and feeder.trouble.startswith("5 jobs failed in a row: job failed: job 0007")
    assert (feeder.done, feeder.failed) == (1, 7)
    assert feeder.failure is not None and feeder.trouble.endswith(feeder.failure)
    assert [number for number, result in results if result is not None] == [2]
    feeder.stop()
    engine.stop()


def test_inputs_that_cannot_be_made_end_it_with_their_line() -> None:
    def inputs(number: int) -> int:
        if number == 3:
            raise ValueError("no such leaf")
        return number

    engine = Engine(FakeWorkload(), [fake_device()])
    engine.start()
    feeder = Feeder(engine, inputs, 1)
    feeder.start()
    assert feeder.wait(10)
    assert feeder.trouble == "no inputs for job 3: ValueError: no such leaf"
    assert feeder.done == 3
    feeder.stop()
    engine.stop()


def test_a_stopped_engine_ends_it() -> None:
    engine = Engine(FakeWorkload(), [fake_device()])
    engine.start()
    feeder = Feeder(engine, lambda n: n, 1)
    feeder.start()
    engine.stop()
    assert feeder.wait(10)
    feeder.stop()
    assert feeder.failed == 0
    assert feeder.trouble is not None and "the engine stops" in feeder.trouble


@pytest.mark.parametrize("clients", [1, 4])
def test_stopping_it_leaves_what_is_in_flight_to_the_engine(clients: int) -> None:
    before = set(threading.enumerate())
    engine = Engine(FakeWorkload(), [fake_device()])
    engine.start()
    feeder = Feeder(engine, lambda n: n, 3, clients)
    feeder.start()
    while feeder.done < 3:
        threading.Event().wait(0.001)
    feeder.stop()
    assert feeder.wait(10)
    assert feeder.done == feeder.submitted
    engine.stop()
    assert set(threading.enumerate()) <= before
