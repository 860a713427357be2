"""What a journal costs an engine: processor time a partition, and what submitting and handing over wait for.

    python bench/journal_cost.py [--partitions 20000] [--folder FOLDER] [--report PATH]

The workload is a fake that does nothing, so all processor time is the engine's, and the journal's writer's; jobs of
eight partitions, eight in flight. Runs with and without a journal alternate, so that a machine that is busy with other
things spoils both. ``--folder`` should be on a disk, not in memory: a commit waits for it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from fake_workload import FakeWorkload, fake_device
from reporting import cpu_model, write_report

from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.journal import Journal
from prover.pipeline.knobs import KnobSet

PARTITIONS = 8
IN_FLIGHT = 8
ROUNDS = 3


class Quiet(FakeWorkload):
    """Remembers nothing."""

    def finish(self, pending: tuple[Any, tuple[int, ...], bool]) -> list[bytes]:
        self.provers.clear()
        return [bytes(192) for _ in pending[1]]

    def verify(self, *_: Any) -> bool:
        return True


def measure(jobs: int, path: Path | None) -> dict[str, float]:
    """A run: milliseconds a partition, and of the waits."""
    journal = Journal.open(path) if path is not None else None
    knobs = KnobSet({"synthesis_lookahead": 4, "gpu_workers_per_device": 2})
    engine = Engine(Quiet(), [fake_device()], knobs, journal=journal)
    engine.start()
    free = threading.Semaphore(IN_FLIGHT)
    submitting: list[float] = []

    def ended(future: Future[JobResult]) -> None:
        future.result()
        free.release()

    cpu, begun = time.process_time(), time.perf_counter()
    for number in range(jobs):
        free.acquire()
        asked = time.perf_counter()
        future = engine.submit(JobRequest(number, PARTITIONS, origin={"circuit": "fake", "number": number}))
        submitting.append(time.perf_counter() - asked)
        future.add_done_callback(ended)
    for _ in range(IN_FLIGHT):
        free.acquire()
    if journal is not None:
        assert journal.flush(60)
    partitions = jobs * PARTITIONS
    out = {
        "cpu_ms_a_partition": 1e3 * (time.process_time() - cpu) / partitions,
        "ms_a_partition": 1e3 * (time.perf_counter() - begun) / partitions,
        "submit_ms_median": 1e3 * statistics.median(submitting),
        "submit_ms_p99": 1e3 * statistics.quantiles(submitting, n=100)[98],
    }
    engine.stop()
    if journal is not None and path is not None:
        assert journal.close() and not journal.lost
        out["journal_bytes_a_partition"] = path.stat().st_size / partitions
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20_000, help="of each run")
    parser.add_argument("--folder", type=Path, help="where the journals lie (the system's temporary folder)")
    parser.add_argument("--report", type=Path, help="where the report goes (bench/results)")
    args = parser.parse_args()
    without, kept = [], []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for turn in range(ROUNDS):
            without.append(measure(args.partitions // PARTITIONS, None))
            kept.append(measure(args.partitions // PARTITIONS, Path(folder) / f"{turn}.sqlite3"))
    best = [min(runs, key=lambda run: run["cpu_ms_a_partition"]) for runs in (without, kept)]
    now = datetime.now(UTC)
    report = {
        "when": now.isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "partitions": args.partitions,
        "partitions_a_job": PARTITIONS,
        "jobs_in_flight": IN_FLIGHT,
        "journal_cpu_ms_a_partition": best[1]["cpu_ms_a_partition"] - best[0]["cpu_ms_a_partition"],
        "without": without,
        "with": kept,
    }
    path = args.report or Path(__file__).parent / "results" / f"journal_cost_{now:%Y-%m-%d}.json"
    write_report(path, report)


if __name__ == "__main__":
    main()
