"""Faults in the journal's calls themselves: whoever's job it was is told, everybody else's proofs are delivered."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fake_workload import FakeWorkload
from kept_engine import PATIENCE_S, check_result, request, session

from prover.pipeline.interfaces import JobResult
from prover.pipeline.journal import Journal


class Death(BaseException):
    """What no handler of a workload's failures catches."""


def fails_once(journal: Journal, method: str, error: type, job: str) -> list[str]:
    """Let a method raise the first time that it is about this job; what is left to happen."""
    real = getattr(journal, method)
    left = [job]

    def faulty(*args: Any, **named: Any) -> Any:
        about = getattr(args[0], "job", None) or getattr(args[0], "id", args[0])
        if left and about == job:
            left.clear()
            raise error("of the journal")
        return real(*args, **named)

    setattr(journal, method, faulty)
    return left


@pytest.mark.parametrize("error", [MemoryError, Death])
@pytest.mark.parametrize("method", ["submit", "proved", "timing", "claim", "ended"])
def test_a_fault_in_the_journal_is_one_jobs_and_nobody_waits_for_ever(method: str, error: type, tmp_path: Path) -> None:
    workload = FakeWorkload()

    def step(name: str, inputs: Any, partitions: tuple[int, ...], cancel: object) -> None:
        if name == "msm" and inputs == 1 and method == "ended":
            raise ValueError("so that the job fails")

    workload.step = step
    with session(tmp_path / "journal.sqlite3", workload, {"synthesis_concurrency": 2}) as (engine, journal):
        left = fails_once(journal, method, error, "job-1")
        futures: dict[int, Future[JobResult]] = {}
        for inputs in range(4):
            try:
                futures[inputs] = engine.submit(request(inputs, 3, id=f"job-{inputs}"))
            except (MemoryError, Death):
                assert (method, inputs) == ("submit", 1)
        for inputs, future in futures.items():
            error_of = future.exception(PATIENCE_S)
            if inputs != 1:
                assert error_of is None
                check_result(future.result(0), inputs, 3)
        assert left == [], "the fault happened"
        again = engine.submit(request(7, 2, id="job-7"))
        check_result(again.result(PATIENCE_S), 7, 2)
        assert not engine.snapshot().jobs or all(job.ended is not None for job in engine.snapshot().jobs)
