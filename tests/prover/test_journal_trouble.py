"""The journal in trouble: locked, full, read-only, corrupt, not ours, in use; hand-overs cut short; kill -9."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from journal_writer import Survivor, open_job

from prover.formats.errors import WriteError
from prover.pipeline import journal as journal_module
from prover.pipeline import journal_schema
from prover.pipeline.delivery import deliver, finish_deliveries
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import JobEntry, KnobEntry, Stage, TimingEntry
from prover.pipeline.journal_schema import MIGRATIONS, open_database

ROOT = Path(__file__).parents[2]


def entry(job: str, partitions: int = 1) -> JobEntry:
    return JobEntry(job, "test", partitions, 1.8e9)


def change(number: int) -> KnobEntry:
    return KnobEntry(1.8e9, "synthesis_lookahead", 1, number, "operator", "", number)


def until_ok(journal: Journal) -> None:
    assert journal.flush(30), journal.state
    while journal.state != "ok":  # set right after what was flushed
        time.sleep(0.002)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_schema, "BUSY_S", 0.02)
    monkeypatch.setattr(journal_module, "RETRY_S", (0.02, 0.1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite3"


# -- degraded ---------------------------------------------------------------------------------------------------------


def test_locked_by_another_program_it_goes_on_and_writes_all_of_it_later(path: Path):
    journal = Journal.open(path)
    assert journal.submit(entry("before")).result().durable
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = journal.submit(entry("meanwhile")).result()
        assert not answer.durable and not answer.refused and answer.reason == journal.state
        assert journal.state.startswith("degraded: the journal cannot be written: ") and "\n" not in journal.state
        assert "locked" in journal.state and "close that one" in journal.state
        assert not journal.submit(entry("second")).result().durable, "answered at once while degraded"
        journal.proved("meanwhile", 0, b"proof", verified=True, device="host")
        assert not journal.flush(0.05)
        other.execute("ROLLBACK")
    until_ok(journal)
    assert [job.entry.id for job in journal.open_jobs() or ()] == ["before", "meanwhile", "second"]
    assert journal.proofs("meanwhile") == {0: b"proof"} and journal.lost == 0
    assert journal.submit(entry("after")).result().durable
    journal.close()


def test_locked_when_it_is_opened_it_finds_the_open_jobs_later(path: Path):
    first = Journal.open(path)
    first.submit(entry("left"))
    first.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        journal = Journal.open(path)
        assert journal.state.startswith("degraded: ") and journal.open_jobs() is None
        other.execute("ROLLBACK")
    until_ok(journal)
    assert open_job(journal, "left") is not None
    journal.close()


def test_the_queue_is_bounded_and_timings_go_first(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(journal_module, "MOST_QUEUED", 50)
    journal = Journal.open(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not journal.submit(entry("j")).result().durable
        for number in range(39):
            journal.timing(TimingEntry("j", (number,), "msm", 1.8e9, 1.0))
        for number in range(20):
            journal.knob(change(number))
        assert journal.lost == 39
        for number in range(20, 60):
            journal.knob(change(number))
        assert journal.lost == 39 + 11
        answer = journal.submit(entry("too many")).result()
        assert not answer.durable and "queue is full" in str(answer.reason)
        other.execute("ROLLBACK")
    until_ok(journal)
    assert [each.generation for each in journal.knob_changes()] == list(range(49))
    assert open_job(journal, "j") is not None
    journal.close()


def test_a_corrupt_journal_is_kept_aside_and_a_new_one_begun(path: Path):
    journal = Journal.open(path)
    for number in range(200):
        journal.knob(change(number))
    journal.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    journal = Journal.open(path)
    until_ok(journal)
    assert journal.notice is not None and "corrupt" in journal.notice and "\n" not in journal.notice
    (aside,) = path.parent.glob("journal.corrupt-*.sqlite3")
    assert aside.name in journal.notice and b"\xff" * 8192 in aside.read_bytes()
    assert journal.submit(entry("j")).result().durable and journal.knob_changes() == []
    journal.close()


def test_overwritten_under_its_feet_it_begins_anew_with_the_open_jobs(path: Path):
    journal = Journal.open(path)
    for job in ("ended", "running", "waiting"):
        assert journal.submit(entry(job)).result().durable
    assert journal.ended("ended", Stage.CANCELLED).result().durable
    path.write_bytes(b"nothing of the kind" * 4096)
    path.with_name(path.name + "-wal").write_bytes(b"")
    assert journal.open_jobs() is None
    while journal.notice is None:
        time.sleep(0.002)
    journal.proved("running", 0, b"proof", verified=True, device="host")
    until_ok(journal)
    assert {job.entry.id: job.stage for job in journal.open_jobs() or ()} == {
        "running": Stage.PROVED,
        "waiting": Stage.ACCEPTED,
    }
    assert journal.close() and len(list(path.parent.glob("journal.corrupt-*.sqlite3"))) == 1


def test_another_programs_database_is_not_touched(path: Path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE diary (day TEXT)")
    before = path.read_bytes()
    journal = Journal.open(path)
    assert journal.state.startswith("degraded: another program's database lies where the journal belongs: ")
    assert not journal.submit(entry("j")).result().durable
    journal.close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("diary",)]
    assert path.read_bytes()[100:] == before[100:]


def test_a_later_versions_journal_is_not_touched(path: Path):
    path.parent.mkdir()
    open_database(path, (*MIGRATIONS, "CREATE TABLE more (x INTEGER)")).close()
    journal = Journal.open(path)
    assert "degraded: the journal is of version 2" in journal.state
    journal.close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (2,)


def test_the_second_process_is_told_in_one_line(path: Path):
    first, second = Journal.open(path), Journal.open(path)
    assert second.state == (
        f"degraded: another cuzk-top (process {os.getpid()}) writes the journal, this one keeps none: {path}: "
        "stop that one, or set another XDG_STATE_HOME"
    )
    answer = second.submit(entry("j")).result()
    assert not answer.durable and answer.reason == second.state
    second.timing(TimingEntry("j", (0,), "msm", 1.8e9, 1.0))
    assert not second.flush(0.01) and not second.close()
    assert first.submit(entry("j")).result().durable
    assert first.close()
    third = Journal.open(path)
    assert third.state == "ok" and open_job(third, "j") is not None
    third.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    journal = Journal.open(tmp_path / "file" / "journal.sqlite3")
    assert journal.state.startswith("degraded: the journal cannot be written: ") and "\n" not in journal.state
    assert not journal.submit(entry("j")).result().durable and journal.open_jobs() is None
    journal.close(1)


def in_a_process(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


FULL = """
import resource, sys
from pathlib import Path
from prover.pipeline import journal as module
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import JobEntry
module.RETRY_S = (0.02, 0.1)
path = Path(sys.argv[1])
journal = Journal.open(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
durable = []
for number in range(400):
    job = JobEntry(f"j{number}", "test", 1, 1.8e9, request={"text": "x" * 1000})
    durable.append(journal.submit(job).result().durable)
assert durable[0] and not durable[-1], "no room for all of it"
print(journal.state)
assert not journal.flush(0.05)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert journal.flush(30)
assert [job.entry.id for job in journal.open_jobs()] == [f"j{number}" for number in range(400)]
assert journal.close() and journal.state == "ok" and journal.lost == 0
"""


def test_a_full_disk_degrades_and_heals(path: Path):
    state = in_a_process(FULL, str(path)).strip()
    assert state.startswith("degraded: the journal cannot be written: ") and "make room" in state
    assert len(state.splitlines()) == 1


READ_ONLY = """
import os, sys
from pathlib import Path
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import JobEntry
path = Path(sys.argv[1])
path.chmod(0o444)
path.parent.chmod(0o555)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
journal = Journal.open(path)
print(journal.state)
assert not journal.submit(JobEntry("j", "test", 1, 1.8e9)).result().durable
journal.close(1)
"""


def test_a_read_only_folder_degrades():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "state" / "journal.sqlite3"
        Journal.open(path).close()
        before = path.read_bytes()
        path.with_suffix(".lock").unlink()
        state = in_a_process(READ_ONLY, str(path)).strip()
        path.parent.chmod(0o755)
        assert state.startswith("degraded: the journal cannot be written: ") and len(state.splitlines()) == 1
        assert path.read_bytes() == before


# -- hand-over --------------------------------------------------------------------------------------------------------


def proved(path: Path) -> Journal:
    journal = Journal.open(path)
    journal.submit(entry("j"))
    journal.proved("j", 0, b"proof", verified=True, device="host")
    return journal


def test_a_job_is_handed_over_once(path: Path, tmp_path: Path):
    journal = proved(path)
    target = tmp_path / "j.proof"
    assert deliver(journal, "j", {target: b"proof"}).durable
    target.unlink()
    again = deliver(journal, "j", {target: b"proof"})
    assert again.refused and not target.exists()
    assert journal.flush() and journal.stage("j") == (Stage.DELIVERED, None)
    assert journal.proofs("j") == {0: b"proof"}, "it can still be looked up"
    journal.close()
    reopened = Journal.open(path)
    assert finish_deliveries(reopened) == [] and reopened.open_jobs() == []
    assert deliver(reopened, "j", {target: b"proof"}).refused and not target.exists()
    reopened.close()


def test_what_is_not_proved_is_not_delivered(path: Path, tmp_path: Path):
    journal = Journal.open(path)
    journal.submit(entry("j", 2))
    journal.proved("j", 0, b"proof", verified=True, device="host")
    assert deliver(journal, "j", {tmp_path / "j.proof": b"proof"}).reason == "job j is not to be delivered: accepted"
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    journal.close()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("renames", [0, 1, 2])
@pytest.mark.parametrize("reader", ["takes everything away", "leaves it"])
def test_cut_short_at_any_rename_it_is_finished_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int, reader: str
):
    journal = proved(path)
    out = tmp_path / "out"
    out.mkdir()
    contents = {out / "j.proof": b"proof", out / "j.public": b"public"}
    rename, done = os.replace, 0

    def until_killed(source: str, target: str) -> None:
        nonlocal done
        if done == renames:
            raise Killed
        done += 1
        rename(source, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", until_killed)
        deliver(journal, "j", contents)
        raise Killed  # after the last rename, before the journal knows
    monkeypatch.setattr(journal, "ended", None)
    taken = []
    if reader == "takes everything away":
        taken = [file.name for file in out.iterdir() if not file.name.startswith(".")]
        for name in taken:
            (out / name).unlink()
    journal.close()
    reopened = Journal.open(path)
    assert finish_deliveries(reopened) == [] and reopened.open_jobs() == []
    there = sorted(file.name for file in out.iterdir())
    assert sorted(taken + there) == ["j.proof", "j.public"]
    assert all((out / name).read_bytes() == contents[out / name] for name in there)
    reopened.close()


def test_a_file_that_cannot_be_written_claims_nothing(path: Path, tmp_path: Path):
    journal = proved(path)
    with pytest.raises(WriteError):
        deliver(journal, "j", {tmp_path / "there" / "j.proof": b"proof", tmp_path / "not" / "j.public": b""})
    assert journal.flush() and journal.stage("j") == (Stage.PROVED, None)
    assert deliver(journal, "j", {tmp_path / "j.proof": b"proof"}).durable
    journal.close()


def test_a_claimed_file_that_cannot_be_put_in_place_is_told_and_kept(path: Path, tmp_path: Path):
    journal = proved(path)
    target = tmp_path / "j.proof"
    target.mkdir()
    with pytest.raises(WriteError):
        deliver(journal, "j", {target: b"proof"})
    (complaint,) = finish_deliveries(journal)
    assert complaint.startswith("job j is not delivered yet: ") and "\n" not in complaint
    target.rmdir()
    assert finish_deliveries(journal) == [] and target.read_bytes() == b"proof"
    journal.close()


# -- kill -9 ----------------------------------------------------------------------------------------------------------


def test_killed_at_random_moments_nothing_acknowledged_is_lost_or_delivered_twice(tmp_path: Path):
    survivor = Survivor(tmp_path)
    for kill in range(8):
        at_work = kill % 2 == 1  # the others may die before they have begun
        survivor.run(
            f"w{kill}", 100_000, random.uniform(0.0, 0.3) if at_work else random.uniform(0.1, 0.5), at_work=at_work
        )
        survivor.check_nothing_is_lost()
    survivor.run("last", 1)
    survivor.check_all_is_done()
    assert {"w1-0", "w7-0", "last-0"} <= survivor.acknowledged
