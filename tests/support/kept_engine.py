"""Engines that keep a journal, over the fake workload in real time: one session after another on the same file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fake_workload import FakeWorkload, fake_device, proof_of

from prover.cancel import CancelToken
from prover.model import KnobValue
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.journal import Journal
from prover.pipeline.knobs import KnobSet

PATIENCE_S = 30.0


class Gate:
    """A ``step`` of the fake workload that holds chosen steps back until it is opened, or until their job is over."""

    def __init__(self, *steps: str) -> None:
        self.steps = set(steps)
        self.open = threading.Event()

    def __call__(self, step: str, inputs: Any, partitions: tuple[int, ...], cancel: CancelToken | None) -> None:
        if step in self.steps:
            while not self.open.wait(0.002):
                if cancel is not None and cancel.cancelled:
                    return


@contextmanager
def session(
    path: Path,
    workload: FakeWorkload | None = None,
    knobs: dict[str, KnobValue] | None = None,
    devices: int = 1,
    start: bool = True,
) -> Iterator[tuple[Engine, Journal]]:
    """An engine and its journal, both ended at the end."""
    journal = Journal.open(path)
    engine = Engine(
        workload or FakeWorkload(),
        [fake_device(ordinal) for ordinal in range(devices)],
        KnobSet(knobs or {}),
        cores=4,
        journal=journal,
    )
    try:
        if start:
            engine.start()
        yield engine, journal
    finally:
        engine.stop()
        journal.close()


def request(inputs: Any, partitions: int = 1, **more: Any) -> JobRequest:
    """A request whose inputs can be made again from its origin."""
    return JobRequest(inputs, partitions, origin={"inputs": inputs}, **more)


def check_result(result: JobResult, inputs: Any, partitions: int) -> None:
    assert result.proofs == tuple(proof_of(inputs, index) for index in range(partitions))


def stages(path: Path) -> dict[str, str]:
    """Every job's stage, as the file has it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return dict(connection.execute("SELECT id, stage FROM jobs").fetchall())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program keeps the journal's writer out."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE_S)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def until(condition: Callable[[], object]) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.002)
