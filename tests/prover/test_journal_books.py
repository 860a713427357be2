"""What the journal keeps: jobs, proofs, hand-overs, knob changes, ledger; restarts; retention; schema versions."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from journal_writer import open_job

from prover.errors import InputError
from prover.pipeline import journal_store
from prover.pipeline.journal import Journal, Retention, journal_path
from prover.pipeline.journal_records import (
    DeviceTally,
    FileIdentity,
    InputFile,
    JobEntry,
    KnobEntry,
    Rejected,
    Stage,
    TimingEntry,
    identify,
)
from prover.pipeline.journal_schema import MIGRATIONS, NotOurs, open_database

WHEN = 1_800_000_000.0


def entry(job: str, partitions: int = 1, **other) -> JobEntry:
    return JobEntry(job, "test", partitions, WHEN, **other)


@pytest.fixture
def journal(tmp_path: Path):
    made = Journal.open(tmp_path / "state" / "journal.sqlite3", clock=lambda: WHEN)
    assert made.state == "ok"
    yield made
    made.close()


def test_the_journal_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert journal_path() == tmp_path / "cuzk-top" / "journal.sqlite3"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert journal_path() == Path.home() / ".local/state/cuzk-top/journal.sqlite3"


def test_a_job_comes_back_as_it_was_submitted(journal: Journal, tmp_path: Path):
    key, witness = tmp_path / "c.zkey", tmp_path / "w.wtns"
    key.write_bytes(b"key" * 1000)
    witness.write_bytes(b"witness")
    files = (InputFile("key", 0, identify(key)), *(InputFile("witness", i, identify(witness)) for i in range(2)))
    submitted = entry("j", 2, priority=0, deadline=WHEN + 9, request={"spool": str(witness), "n": 3}, files=files)
    assert journal.submit(submitted).result().durable
    journal.proved("j", 1, b"p1", verified=True, device="GPU-1")
    assert journal.flush()
    found = open_job(journal, "j")
    assert found is not None
    assert (found.entry, found.stage, found.proofs) == (submitted, Stage.ACCEPTED, {1: b"p1"})
    assert journal.known_digest(str(key), 3000, key.stat().st_mtime_ns) == files[0].identity.sha256


def test_an_id_is_taken_once_and_the_same_submission_twice_is_one(journal: Journal):
    assert journal.submit(entry("j")).result().durable
    assert journal.submit(entry("j")).result().durable
    again = journal.submit(entry("j", 2)).result()
    assert again.refused and again.reason == "job j is in the journal already (accepted): give each job its own id"
    assert len(journal.open_jobs() or ()) == 1 and journal.lost == 0


def test_a_proof_that_was_withheld_counts_against_its_device(journal: Journal):
    journal.submit(entry("j", 2))
    journal.proved("j", 0, b"a", verified=True, device="GPU-1")
    journal.rejected("GPU-1")
    journal.proved("j", 1, b"b", verified=False, device="host")
    assert journal.flush()
    assert journal.devices() == [DeviceTally("GPU-1", 1, 1, WHEN)]
    found = open_job(journal, "j")
    assert found is not None and found.stage is Stage.PROVED and not found.verified


def test_knob_changes_and_timings_are_kept_in_order(journal: Journal):
    changes = [
        KnobEntry(WHEN, "synthesis_lookahead", 1, 3, "operator", "starved", 4),
        KnobEntry(WHEN + 1, "gpu_lock", "narrow", "coarse", "http", "compare", 5, reason="refused: paused"),
        KnobEntry(WHEN + 2, "synthesis_lookahead", 3, 1, "operator", "undo", 6, undo=True),
        KnobEntry(WHEN + 3, "paused", False, True, "operator", "", 7),
    ]
    phases = [TimingEntry("j", (0, 1), name, WHEN, 0.5, "host", "w0", 1, name != "msm") for name in ("ntt", "msm")]
    for change in changes:
        journal.knob(change)
    for phase in phases:
        journal.timing(phase)
    assert journal.flush()
    assert journal.knob_changes() == changes and journal.knob_changes(2) == changes[2:]
    assert journal.timings("j") == phases


def test_what_cannot_be_kept_is_answered_and_stops_nothing_else(journal: Journal):
    bad = journal.submit(entry("bad", request={"inputs": object()}))
    huge = journal.submit(entry("huge", 2**70))
    good = journal.submit(entry("good"))
    journal.timing(TimingEntry("good", (0,), "msm", WHEN, 1.0, device="\ud800"))
    assert not bad.result().durable and "journal cannot hold this entry" in str(bad.result().reason)
    assert not huge.result().durable and good.result().durable
    assert journal.flush() and journal.state == "ok" and journal.lost == 3


def test_durable_answers_wait_for_the_disk(journal: Journal):
    statements: list[str] = []
    assert journal._connection is not None
    journal._connection.set_trace_callback(statements.append)
    journal.timing(TimingEntry("j", (0,), "msm", WHEN, 1.0))
    assert journal.flush()
    relaxed, statements[:] = list(statements), []
    assert journal.submit(entry("j")).result().durable
    assert {s for s in relaxed if "synchronous" in s} == {"PRAGMA synchronous = NORMAL"}
    assert statements[:2] == ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"] and "COMMIT" in statements


def test_what_was_applied_before_a_commit_seemed_to_fail_is_not_applied_again(tmp_path: Path):
    connection = open_database(tmp_path / "j.sqlite3")
    writes = [(number, Rejected("GPU-1", WHEN)) for number in range(3)]
    for _ in range(2):
        answers = journal_store.apply(connection, "this session", writes, durable=True)
        assert all(answer.durable for answer in answers)
    assert journal_store.devices(connection) == [DeviceTally("GPU-1", 0, 3, WHEN)]
    journal_store.apply(connection, "another session", writes, durable=True)
    assert journal_store.devices(connection) == [DeviceTally("GPU-1", 0, 6, WHEN)]
    connection.close()


def test_closing_writes_what_is_queued_and_takes_nothing_more(tmp_path: Path):
    path = tmp_path / "j.sqlite3"
    journal = Journal.open(path)
    for i in range(3000):
        journal.timing(TimingEntry("j", (i,), "msm", WHEN, 1.0))
    assert journal.close() and journal.close()
    late = journal.submit(entry("late")).result()
    assert not late.durable and late.reason == "the journal is closed"
    again = Journal.open(path)
    assert len(again.timings("j")) == 3000
    again.close()


# -- retention --------------------------------------------------------------------------------------------------------


def fill(journal: Journal, count: int) -> None:
    for i in range(count):
        identity = FileIdentity(f"/w/{i}", 1, 1, "0" * 64)
        journal.submit(entry(f"j{i}", files=(InputFile("witness", 0, identity),)))
        journal.proved(f"j{i}", 0, bytes(2000), verified=True, device="host")
        journal.timing(TimingEntry(f"j{i}", (0,), "msm", WHEN, 1.0))
        journal.knob(KnobEntry(WHEN, "paused", False, True, "operator", "", i))
        if i % 4:
            journal.claim(f"j{i}")
    assert journal.flush()


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def kept_after(tmp_path: Path, keep: Retention, now: float, count: int = 400) -> Path:
    path = tmp_path / "j.sqlite3"
    journal = Journal.open(path, Retention(), clock=lambda: WHEN)
    fill(journal, count)
    journal.close()
    tidied(path, keep, now)
    return path


def tidied(path: Path, keep: Retention, now: float) -> None:
    journal = Journal.open(path, keep, clock=lambda: now)
    while journal._retire_at == 0:  # until the writer finds nothing left to take out
        time.sleep(0.002)
    assert journal.state == "ok"
    journal.close()


def test_open_jobs_are_kept_whatever_the_bounds(tmp_path: Path):
    path = kept_after(tmp_path, Retention(jobs=0, timings=0, knob_changes=0, days=0, nbytes=0), WHEN + 1)
    assert rows(path, "jobs") == rows(path, "proofs") == rows(path, "files") == 100
    assert rows(path, "timings") == rows(path, "knob_changes") == 0
    assert path.stat().st_size < 1_000_000


def test_the_oldest_go_first(tmp_path: Path):
    path = kept_after(tmp_path, Retention(jobs=150, timings=120, knob_changes=7), WHEN)
    with closing(sqlite3.connect(path)) as connection:
        ended = [row[0] for row in connection.execute("SELECT seq FROM jobs WHERE stage = 'delivered'")]
    assert rows(path, "jobs") == 150 and len(ended) == 50 and min(ended) > 300
    assert rows(path, "timings") <= 120 and rows(path, "knob_changes") == 7


def test_days_and_bytes_bound_it_too(tmp_path: Path):
    path = kept_after(tmp_path, Retention(days=10), WHEN + 9 * 86400, count=200)
    assert rows(path, "jobs") == 200 and path.stat().st_size > 1_000_000
    tidied(path, Retention(nbytes=500_000), WHEN)
    assert path.stat().st_size <= 500_000 + 64 * 4096  # what is kept free for what comes
    assert 50 < rows(path, "jobs") < 200, "no more than necessary is taken out"


# -- schema -----------------------------------------------------------------------------------------------------------


def test_an_older_database_is_brought_up_to_date_with_all_it_holds(tmp_path: Path):
    path = tmp_path / "j.sqlite3"
    journal = Journal.open(path)
    assert journal.submit(entry("old")).result().durable
    journal.close()
    newer = (*MIGRATIONS, "ALTER TABLE jobs ADD COLUMN note TEXT DEFAULT 'none';\nCREATE TABLE more (x INTEGER)")
    connection = open_database(path, newer)
    assert connection.execute("SELECT id, note FROM jobs").fetchall() == [("old", "none")]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
    connection.close()


def test_a_migration_that_fails_leaves_the_version_before(tmp_path: Path):
    path = tmp_path / "j.sqlite3"
    open_database(path).close()
    with pytest.raises(sqlite3.OperationalError):
        open_database(path, (*MIGRATIONS, "CREATE TABLE more (x INTEGER);\nINSERT INTO nowhere VALUES (1)"))
    connection = open_database(path)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert "more" not in tables and "jobs" in tables
    connection.close()


def test_a_later_version_is_left_alone(tmp_path: Path):
    path = tmp_path / "j.sqlite3"
    open_database(path, (*MIGRATIONS, "CREATE TABLE more (x INTEGER)")).close()
    with pytest.raises(NotOurs, match="of version 2, this program knows 1"):
        open_database(path)


# -- identity ---------------------------------------------------------------------------------------------------------


def test_a_file_that_changed_is_noticed(tmp_path: Path):
    file = tmp_path / "w.wtns"
    file.write_bytes(b"first")
    identity = identify(file)
    assert identity.changed() is None
    file.touch()
    assert identity.changed() is None, "its content is the same"
    file.write_bytes(b"other")
    assert "another content" in str(identity.changed())
    file.write_bytes(b"longer than before")
    assert "18 bytes, was 5" in str(identity.changed())
    file.unlink()
    assert "cannot be read" in str(identity.changed())
    with pytest.raises(InputError, match="cannot be read"):
        identify(file)


def test_a_known_digest_spares_reading(tmp_path: Path):
    file = tmp_path / "k.zkey"
    file.write_bytes(b"key")
    assert identify(file, lambda path, size, mtime_ns: "known").sha256 == "known"
    assert identify(file, lambda path, size, mtime_ns: None) == identify(file)


# -- restarts ---------------------------------------------------------------------------------------------------------

IDS = [f"j{i}" for i in range(4)]


class Books(RuleBasedStateMachine):
    """Any sequence of entries and restarts against a dictionary."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.jobs: dict[str, JobEntry] = {}
        self.stages: dict[str, Stage] = {}
        self.proofs: dict[str, dict[int, bytes]] = {}
        self.good = self.bad = 0
        self.handed_over: list[str] = []
        self.journal = self.opened()

    def opened(self) -> Journal:
        journal = Journal.open(self.folder / "journal.sqlite3", clock=lambda: WHEN)
        assert journal.state == "ok"
        return journal

    @rule(job=st.sampled_from(IDS), partitions=st.integers(1, 3))
    def submit(self, job: str, partitions: int) -> None:
        new = entry(job, partitions)
        answer = self.journal.submit(new).result()
        assert answer.durable == (self.jobs.setdefault(job, new) == new)
        self.stages.setdefault(job, Stage.ACCEPTED)
        self.proofs.setdefault(job, {})

    @rule(job=st.sampled_from(IDS), partition=st.integers(0, 2), proof=st.binary(max_size=9))
    def prove(self, job: str, partition: int, proof: bytes) -> None:
        self.journal.proved(job, partition, proof, verified=True, device="GPU-1")
        self.good += 1
        if self.stages.get(job) is Stage.ACCEPTED and partition < self.jobs[job].partitions:
            self.proofs[job].setdefault(partition, proof)
            if len(self.proofs[job]) == self.jobs[job].partitions:
                self.stages[job] = Stage.PROVED

    @rule()
    def reject(self) -> None:
        self.journal.rejected("GPU-1")
        self.bad += 1

    @rule(job=st.sampled_from(IDS))
    def hand_over(self, job: str) -> None:
        answer = self.journal.claim(job).result()
        assert answer.durable == (self.stages.get(job) is Stage.PROVED) and answer.refused != answer.durable
        if answer.durable:
            self.stages[job] = Stage.DELIVERED
            self.handed_over.append(job)

    @rule(job=st.sampled_from(IDS), stage=st.sampled_from([Stage.FAILED, Stage.CANCELLED]))
    def end(self, job: str, stage: Stage) -> None:
        answer = self.journal.ended(job, stage, "because").result()
        assert answer.durable == (self.stages.get(job) in (Stage.ACCEPTED, Stage.PROVED))
        if answer.durable:
            self.stages[job] = stage

    @rule()
    def restart(self) -> None:
        assert self.journal.close()
        self.journal = self.opened()

    @rule()
    def compare(self) -> None:
        assert self.journal.flush()
        left = [job for job, stage in self.stages.items() if stage in (Stage.ACCEPTED, Stage.PROVED)]
        found = {job.entry.id: job for job in self.journal.open_jobs() or ()}
        assert sorted(found) == sorted(left)
        for job in left:
            assert found[job].entry == self.jobs[job]
            assert found[job].stage is self.stages[job] and found[job].proofs == self.proofs[job]
        for job, stage in self.stages.items():
            assert self.journal.stage(job) == (stage, "because" if stage in (Stage.FAILED, Stage.CANCELLED) else None)
            assert self.journal.proofs(job) == self.proofs[job]
        tally = [DeviceTally("GPU-1", self.good, self.bad, WHEN if self.bad else None)]
        assert self.journal.devices() == (tally if self.good or self.bad else [])
        assert len(self.handed_over) == len(set(self.handed_over)), "handed over twice"

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.restart()
            self.compare()
            self.journal.close()
            shutil.rmtree(self.folder)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
