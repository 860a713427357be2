"""What a running engine's journal tells: resumed jobs, trouble and its end; what is resumed late."""

from pathlib import Path
from typing import Any

import pytest
from fake_workload import FakeWorkload
from kept_engine import Gate, check_result, locked, request, session, stages, until

from prover.errors import InputError
from prover.model import EventKind
from prover.pipeline import journal as journal_module
from prover.pipeline import journal_schema, journal_watch
from prover.pipeline.engine import Engine
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import JobEntry
from prover.pipeline.journal_watch import JournalWatch
from prover.pipeline.log import LineFormat
from prover.pipeline.resume import resume
from prover.pipeline.submitters import SampleJobs, WitnessJobs, sample_origin, witness_request


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_schema, "BUSY_S", 0.02)
    monkeypatch.setattr(journal_module, "RETRY_S", (0.02, 0.1))
    monkeypatch.setattr(journal_watch, "LOOK_S", 0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


class Numbers:
    """A circuit with sample inputs."""

    circuit = "fake"

    def sample_inputs(self, job: int, partitions: int) -> Any:
        return (job, partitions)


def told(engine: Engine) -> list[tuple[str, bool]]:
    events = [event for event in engine.events(0) if event.kind is EventKind.JOURNAL]
    return [(str(event.fields["line"]), bool(event.fields["trouble"])) for event in events]


def leave_open(path: Path, number: int = 4) -> None:
    with session(path, FakeWorkload(Gate("synthesize"))) as (engine, _):
        engine.submit(request((number, 2), 2))
        journal = engine.journal
        assert journal is not None
        journal.submit(JobEntry("sample", "fake", 2, 1.0, request=sample_origin("fake", number))).result()


def test_it_resumes_at_the_start_and_says_so(path: Path) -> None:
    leave_open(path)
    with session(path) as (engine, journal):
        watch = JournalWatch(engine, journal, [SampleJobs(Numbers())])
        watch.start()
        assert told(engine) == [("1 job resumed, 0 of 2 proofs were there; 1 job of fake left", False)]
        until(lambda: stages(path)["sample"] == "delivered")
        assert watch.problem is None
        engine.stop()
        assert watch.stop()
        assert stages(path)["0000"] == "accepted"


def test_trouble_is_told_once_and_its_end_too(path: Path) -> None:
    with session(path) as (engine, journal):
        watch = JournalWatch(engine, journal, [])
        watch.start()
        with locked(path):
            engine.submit(request(1)).result(30)
            until(lambda: watch.problem and told(engine))
            assert watch.problem is not None and watch.problem.startswith("the journal cannot be written: ")
            engine.submit(request(2)).result(30)
        until(lambda: len(told(engine)) == 2)
        (first, trouble), end = told(engine)
        assert "another program has locked it" in first and trouble
        assert end == ("the journal is written again", False) and watch.problem is None
        watch.stop()


def test_a_journal_that_heals_is_resumed_then(path: Path) -> None:
    leave_open(path)
    with locked(path), session(path) as (engine, journal):
        watch = JournalWatch(engine, journal, [SampleJobs(Numbers())])
        watch.start()
        assert resume(engine, journal, []) is None and len(told(engine)) == 1
        first = engine.submit(request(1))
        assert first.result(30).id not in ("0000", "0001")
        watch.stop()
    with session(path) as (engine, journal):
        with locked(path):
            watch = JournalWatch(engine, journal, [SampleJobs(Numbers())])
            engine.submit(request(1)).result(30)
            until(lambda: journal.state != "ok")
            watch.start()
            assert [trouble for _, trouble in told(engine)] == [True]
        until(lambda: len(told(engine)) == 3)
        assert told(engine)[2][0].startswith("1 job resumed")
        until(lambda: stages(path)["sample"] == "delivered")
        watch.stop()


def test_a_corrupt_journal_is_told(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 16)
    journal = Journal.open(path)
    until(lambda: journal.state == "ok")
    engine = Engine(FakeWorkload(), [], journal=journal)
    watch = JournalWatch(engine, journal, [])
    watch.start()
    ((line, trouble),) = told(engine)
    assert "it was kept as journal.corrupt-" in line and trouble
    text = LineFormat(0.0)
    (event,) = [event for event in engine.events(0) if event.kind is EventKind.JOURNAL]
    (logged,) = text.lines(event, "info")
    assert f" WARN cuzk_top::engine: journal note={line}" in logged
    engine.stop()
    assert watch.stop()


def test_what_cannot_go_on_is_trouble(path: Path, tmp_path: Path) -> None:
    witness = tmp_path / "a.wtns"
    witness.write_text("witness")
    with session(path, start=False) as (engine, _):
        engine.submit(witness_request([witness, witness]))
        engine.submit(witness_request([witness], id="second"))
    witness.unlink()
    with session(path) as (engine, journal):
        watch = JournalWatch(engine, journal, [WitnessJobs()])
        watch.start()
        reason = f"file cannot be read: {witness}: No such file or directory"
        assert told(engine) == [(f"job 0000 cannot be resumed: {reason} (and 1 more)", True)]
        watch.stop()
    with pytest.raises(InputError, match="No such file"):
        witness_request([witness])


class Broken(SampleJobs):
    """A submitter with a defect."""

    def remake(self, job: Any) -> Any:
        raise ZeroDivisionError("of its own")


def test_a_submitters_defect_loses_no_job_and_stops_no_engine(path: Path) -> None:
    leave_open(path)
    with session(path) as (engine, journal):
        watch = JournalWatch(engine, journal, [Broken(Numbers())])
        watch.start()
        assert told(engine) == [("not all jobs could be resumed: ZeroDivisionError: of its own", True)]
        check_result(engine.submit(request(1)).result(30), 1, 1)
        watch.stop()
    assert (stages(path)["0000"], stages(path)["sample"]) == ("accepted", "accepted")


def test_while_the_engine_drains_jobs_wait_for_the_next_session(path: Path) -> None:
    leave_open(path)
    with session(path) as (engine, journal):
        engine.drain()
        done = resume(engine, journal, [SampleJobs(Numbers())])
        assert done is not None and done.left == {"fake": 2} and not done.futures


def test_witness_files_are_proved_where_they_were(path: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.wtns" for name in "ab"]
    for file in files:
        file.write_text(file.name)
    wanted = (files[1], files[0], files[1])
    with session(path, start=False) as (engine, _):
        engine.submit(witness_request(wanted, hands_over=True))
    workload = FakeWorkload()
    with session(path, workload) as (engine, journal):
        done = resume(engine, journal, [SampleJobs(Numbers()), WitnessJobs()])
        assert done is not None
        check_result(done.futures["0000"].result(30), wanted, 3)
