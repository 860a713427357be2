"""A storm over engines that share a journal, one after the other: what callers were told is what the journal says."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from engine_survivor import TURNED, RandomProofs, verify_fakes
from kept_engine import session, stages, until

from prover.model import Priority
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import Change, JobRequest, JobResult
from prover.pipeline.journal_records import OpenJob
from prover.pipeline.records import EngineStopped, JobCancelled, JobFailed
from prover.pipeline.resume import Remade, resume

SESSIONS = 4
CLIENTS = 3


class Clients:
    """Submit, cancel, reprioritise, turn knobs, until the engine stops; remember what each job was told last."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.futures: dict[str, Future[JobResult]] = {}
        self.requests: dict[str, tuple[int, int]] = {}
        self.cancelled: set[str] = set()
        self.lock = threading.Lock()

    def remake(self, job: OpenJob) -> Remade:
        number: Any = job.entry.request["number"]
        return Remade(number)

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        self.futures[job.entry.id] = future

    def given_up(self, job: OpenJob, reason: str) -> None:
        raise AssertionError(reason)

    def act(self, engine: Engine, name: str, actions: int) -> None:
        chance = random.Random(f"{self.seed} {name}")
        for count in range(actions):
            deed = chance.random()
            with self.lock:
                known = chance.choice(sorted(self.futures)) if self.futures else ""
            if deed < 0.5:
                number, partitions, job = chance.randrange(50), chance.randint(1, 6), f"{name}.{count}"
                request = JobRequest(
                    number,
                    partitions,
                    id=job,
                    origin={"number": number},
                    priority=chance.choice(list(Priority)),
                    deadline=chance.choice([None, engine._board.clock() + 1]),
                )
                try:
                    future = engine.submit(request)
                except EngineStopped:
                    return
                with self.lock:
                    self.futures[job], self.requests[job] = future, (number, partitions)
            elif deed < 0.6:
                if engine.cancel(known):
                    self.cancelled.add(known)
            elif deed < 0.65:
                if engine.cancel_remaining(known):
                    self.cancelled.add(known)
            elif deed < 0.75:
                engine.reprioritise(known, chance.choice(list(Priority)))
            else:
                knob = chance.choice(sorted(TURNED))
                engine.propose(Change(knob, chance.choice(TURNED[knob])))
            time.sleep(0)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_told_is_what_is_kept(tmp_path: Path, seed: int) -> None:
    path, clients = tmp_path / "journal.sqlite3", Clients(seed)
    for number in range(SESSIONS):
        with session(path, RandomProofs(), {"max_batch_wait_ms": 20}, devices=2) as (engine, journal):
            assert resume(engine, journal, [clients]) is not None
            threads = [
                threading.Thread(target=clients.act, args=(engine, f"s{number}c{client}", 40))
                for client in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            if number < SESSIONS - 1:
                until(lambda: engine.snapshot().counters.partitions_done >= 30)
                engine.stop()
            for thread in threads:
                thread.join()
            if number == SESSIONS - 1:
                until(lambda: all(future.done() for future in clients.futures.values()))
        _check(path, clients, last=number == SESSIONS - 1)
    with session(path, start=False) as (_, journal):
        for job, (number, partitions) in clients.requests.items():
            if stages(path)[job] == "delivered":
                assert verify_fakes(number, partitions, list(journal.proofs(job).values()))
                assert tuple(journal.proofs(job).values()) == clients.futures[job].result().proofs


def _check(path: Path, clients: Clients, *, last: bool) -> None:
    kept = stages(path)
    assert set(clients.futures) <= set(kept)
    for job, future in clients.futures.items():
        error = future.exception(0)
        if error is None:
            assert kept[job] == "delivered"
        elif isinstance(error, JobFailed):
            assert kept[job] == "failed"
        else:
            assert isinstance(error, JobCancelled)
            assert kept[job] == "cancelled" if job in clients.cancelled else kept[job] in ("accepted", "proved")
    for job in set(kept) - set(clients.futures):
        assert kept[job] == "cancelled"  # it came while the engine stopped, and was never acknowledged
    assert not last or set(kept.values()) <= {"delivered", "cancelled", "failed"}
