"""A process that submits, proves and delivers until it is killed; and what must be true afterwards, however often.

    python journal_writer.py JOURNAL FOLDER NAME JOBS

It finishes what an earlier one left, then makes JOBS jobs called NAME-0, NAME-1, ... A line goes to standard output as
soon as a job is acknowledged. Proofs are random, as real ones are: two runs never make the same.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from prover.pipeline.delivery import deliver, finish_deliveries
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import InputFile, JobEntry, KnobEntry, OpenJob, Stage, TimingEntry, identify

PROOF = 192
DEVICES = ("host", "GPU-1")


def finish(journal: Journal, folder: Path, job: str, partitions: int, have: dict[int, bytes]) -> None:
    for partition in range(partitions):
        if partition not in have:
            have[partition] = os.urandom(PROOF)
            device = DEVICES[partition % 2]
            journal.proved(job, partition, have[partition], verified=True, device=device)
            journal.timing(TimingEntry(job, (partition,), "msm", time.time(), 0.5, device, "gpu0-w0"))
    proof = b"".join(have[partition] for partition in range(partitions))
    deliver(journal, job, {folder / f"{job}.proof": proof, folder / f"{job}.public": job.encode()})


def write(path: Path, folder: Path, name: str, jobs: int) -> int:
    journal = Journal.open(path)
    if journal.state != "ok" or finish_deliveries(journal):
        return 1
    for left in journal.open_jobs() or ():
        assert left.stage is not Stage.DELIVERING and all(not file.identity.changed() for file in left.entry.files)
        finish(journal, folder, left.entry.id, left.entry.partitions, dict(left.proofs))
    key = InputFile("key", 0, identify(__file__, journal.known_digest))
    for number in range(jobs):
        entry = JobEntry(f"{name}-{number}", "test", random.randint(1, 4), time.time(), files=(key,))
        if not journal.submit(entry).result().durable:
            return 1
        os.write(1, f"{entry.id}\n".encode())
        journal.knob(KnobEntry(time.time(), "synthesis_lookahead", 1, number, "test", "", number))
        finish(journal, folder, entry.id, entry.partitions, {})
    return 0 if journal.close() else 1


class Survivor:
    """Runs writers on one journal, kills them, takes away what they deliver, and keeps the books."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "state" / "journal.sqlite3"
        self.out = folder / "out"
        self.out.mkdir()
        self.acknowledged: set[str] = set()
        self.taken: dict[str, int] = {}

    def run(self, name: str, jobs: int, kill_after_s: float | None = None, *, at_work: bool = False) -> None:
        """One writer, killed ``kill_after_s`` after it was started (``at_work``: after its first job was acknowledged),
        or let end.
        """
        command = [sys.executable, __file__, str(self.journal), str(self.out), name, str(jobs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            first = child.stdout.readline() if at_work else b""
            if kill_after_s is not None:
                time.sleep(kill_after_s)
                child.send_signal(signal.SIGKILL)
            lines = (first + child.stdout.read()).decode().splitlines()
            code = child.wait()
        assert code == (0 if kill_after_s is None else -signal.SIGKILL), f"the writer ended with {code}"
        self.acknowledged |= set(lines)
        self.take()

    def take(self) -> None:
        """A reader takes away what was delivered."""
        for file in self.out.iterdir():
            if not file.name.startswith("."):
                self.taken[file.name] = self.taken.get(file.name, 0) + 1
                file.unlink()

    def jobs(self) -> dict[str, str]:
        """Every journalled job's stage. Read-only: the write-ahead log is left to the next writer to recover."""
        if not self.journal.exists():
            return {}  # killed before it was made
        connection = sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True)
        try:
            if connection.execute("PRAGMA user_version").fetchone() == (0,):
                return {}
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            return dict(connection.execute("SELECT id, stage FROM jobs").fetchall())
        finally:
            connection.close()

    def check_nothing_is_lost(self) -> None:
        """After a kill: what was acknowledged is there, what was delivered came once."""
        known = self.jobs()
        assert self.acknowledged <= set(known), "an acknowledged job is not in the journal"
        assert all(count == 1 for count in self.taken.values()), "a file was delivered twice"
        assert {name.partition(".")[0] for name in self.taken} <= set(known)

    def check_all_is_done(self) -> None:
        """At the end: every job that was acknowledged was delivered once, whole."""
        self.check_nothing_is_lost()
        known = self.jobs()
        assert set(known.values()) <= {"delivered"}
        assert set(self.taken) == {f"{job}.{kind}" for job in known for kind in ("proof", "public")}
        assert list(self.out.iterdir()) == []


def open_job(journal: Journal, job: str) -> OpenJob | None:
    """One of the open jobs."""
    return next((each for each in journal.open_jobs() or () if each.entry.id == job), None)


if __name__ == "__main__":
    sys.exit(write(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
