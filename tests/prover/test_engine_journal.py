"""An engine with a journal: what is acknowledged is kept, what is handed over is claimed, trouble stops nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_workload import FakeWorkload
from kept_engine import Gate, check_result, locked, request, session, stages, until

from prover.errors import InputError
from prover.model import EventKind, Phase
from prover.pipeline import journal as journal_module
from prover.pipeline import journal_schema
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import Change, JobRequest
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import Stage
from prover.pipeline.records import DuplicateJob, EngineStopped, JobFailed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is waited for as long as the test takes."""
    monkeypatch.setattr(journal_schema, "BUSY_S", 60.0)


class Background:
    """A call on a thread of its own, and what came of it."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.answer: Any = None
        self.error: BaseException | None = None
        self._call = (call, arguments)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        call, arguments = self._call
        try:
            self.answer = call(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is the test's to look at
            self.error = error

    def wait(self) -> Any:
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.answer


def taken_from_the_queue(engine: Engine) -> bool:
    """Whether the writer is at it."""
    journal = engine.journal
    assert journal is not None
    return not journal._queue


@pytest.mark.usefixtures("patient")
def test_a_job_is_acknowledged_once_it_is_on_the_disk_and_nobody_else_waits(path: Path) -> None:
    with session(path) as (engine, journal):
        with locked(path):
            submitting = Background(engine.submit, request(1, 2))
            until(lambda: engine._line.keeper._reserved and taken_from_the_queue(engine))
            assert engine.propose(Change("synthesis_lookahead", 3)).accepted
            assert engine.snapshot().jobs == () and not engine.cancel("0000")
            with pytest.raises(DuplicateJob):
                engine.submit(JobRequest(2, 1, id="0000"))
            assert submitting.thread.is_alive() and journal.state == "ok"
            assert stages(path) == {}
        future = submitting.wait()
        assert stages(path)["0000"] in ("accepted", "proved", "delivered")
        check_result(future.result(30), 1, 2)


@pytest.mark.usefixtures("patient")
def test_a_result_is_given_out_once_its_claim_is_on_the_disk(path: Path) -> None:
    gate = Gate("finish")
    with session(path, FakeWorkload(gate)) as (engine, journal):
        future = engine.submit(request(1, 2))
        assert journal.flush(30)
        with locked(path):
            gate.open.set()
            until(lambda: engine.snapshot().counters.jobs_done == 1 and taken_from_the_queue(engine))
            assert engine.propose(Change("synthesis_lookahead", 3)).accepted  # the lock is free meanwhile
            assert not future.done() and journal.state == "ok"
        check_result(future.result(30), 1, 2)
        assert stages(path) == {"0000": "delivered"}
        assert journal.proofs("0000") == dict(enumerate(future.result().proofs))


def test_a_callback_may_submit_and_wait_for_the_disk(path: Path) -> None:
    """It runs on the engine's thread, so the journal's own must not be the one that sets futures."""
    with session(path) as (engine, _):
        second: list[Any] = []
        first = engine.submit(request(1))
        first.add_done_callback(lambda _: second.append(engine.submit(request(2))))
        until(lambda: second)
        check_result(second[0].result(30), 2, 1)


def test_one_that_hands_over_itself_is_claimed_by_nobody_else(path: Path) -> None:
    with session(path) as (engine, journal):
        check_result(engine.submit(request(1, 2, hands_over=True)).result(30), 1, 2)
        assert journal.flush(30)
        assert stages(path) == {"0000": "proved"}
        assert journal.claim("0000").result().durable


def test_ends_are_kept_and_a_stop_leaves_jobs_open(path: Path) -> None:
    gate = Gate("msm")
    workload = FakeWorkload(gate)
    with session(path, workload) as (engine, journal):
        cancelled, stopped = engine.submit(request("cancelled")), engine.submit(request("stopped"))
        until(lambda: workload.running["msm"])
        assert engine.cancel("0000")
        assert cancelled.exception(30) and not stopped.done()
        engine.stop()
        assert stopped.exception(30)
        failing = FakeWorkload()
        failing.step = lambda step, *_: (_ for _ in ()).throw(ValueError("no\nwitness")) if step == "msm" else None
        assert journal.flush(30)
        assert stages(path) == {"0000": "cancelled", "0001": "accepted"}
    with session(path, failing) as (engine, journal):
        error = engine.submit(request("failed")).exception(30)
        assert isinstance(error, JobFailed)
        assert journal.stage("0002") == (Stage.FAILED, "job 0002, partition 0, msm: ValueError: no witness")


@pytest.mark.usefixtures("patient")
def test_a_job_that_comes_while_the_engine_stops_is_not_taken_and_not_resumed(path: Path) -> None:
    with session(path) as (engine, journal):
        with locked(path):
            submitting = Background(engine.submit, request(1))
            until(lambda: engine._line.keeper._reserved and taken_from_the_queue(engine))
            engine.stop()
        submitting.wait()
        assert isinstance(submitting.error, EngineStopped)
        assert journal.flush(30) and stages(path) == {"0000": "cancelled"}


def test_a_job_whose_rest_was_cancelled_is_not_resumed(path: Path) -> None:
    gate = Gate("msm")
    workload = FakeWorkload(gate)
    with session(path, workload) as (engine, journal):
        future = engine.submit(request(1, 8))
        until(lambda: workload.running["msm"])
        assert engine.cancel_remaining("0000")
        assert journal.flush(30) and stages(path) == {"0000": "cancelled"} and not future.done()
        gate.open.set()
        assert future.exception(30)
        assert journal.flush(30) and stages(path) == {"0000": "cancelled"}
        assert journal.devices()[0].good == engine.snapshot().devices[0].proofs_good > 0


def test_a_request_that_cannot_be_kept_is_refused(path: Path) -> None:
    with session(path) as (engine, journal):
        with pytest.raises(InputError, match="origin is not JSON"):
            engine.submit(JobRequest(1, 1, origin={"inputs": object()}))
        check_result(engine.submit(request(1)).result(30), 1, 1)
        assert journal.flush(30) and list(stages(path).values()) == ["delivered"]


@pytest.mark.parametrize("devices", [1, 2])
def test_the_ledger_of_devices_counts_each_proof_once(path: Path, devices: int) -> None:
    workload = FakeWorkload()
    workload.lies = {("retried", 1): 1, ("wrong", 0): 2}
    with session(path, workload, {"synthesis_concurrency": 2}, devices) as (engine, journal):
        check_result(engine.submit(request("retried", 3)).result(30), "retried", 3)
        assert engine.submit(request("wrong")).exception(30)
        views = engine.snapshot().devices
        assert sum(view.proofs_good for view in views) == 3
        bad = sum(view.proofs_bad for view in views)
        made = {event.device for event in engine.events(0) if event.phase is Phase.MSM and event.job == "0001"}
        assert bad == 1 + len(made)  # the retry counts only where it was made on another device
        assert journal.flush(30)
        tallies = {tally.device: (tally.good, tally.bad) for tally in journal.devices()}
        seen = {view.name: (view.proofs_good, view.proofs_bad) for view in views}
        assert tallies == {name: counts for name, counts in seen.items() if counts != (0, 0)}
    with session(path, devices=devices) as (engine, _):
        assert {v.name: (v.proofs_good, v.proofs_bad) for v in engine.snapshot().devices} == seen  # goes on from there
        engine.submit(request("more", 2)).result(30)
        assert sum(view.proofs_good for view in engine.snapshot().devices) == 5


def test_without_self_check_no_proof_counts(path: Path) -> None:
    with session(path, knobs={"self_check": False}) as (engine, journal):
        engine.submit(request(1, 2)).result(30)
        assert [(view.proofs_good, view.proofs_bad) for view in engine.snapshot().devices] == [(0, 0)]
        assert journal.flush(30) and journal.devices() == []


def test_knob_changes_are_kept_with_who_and_why(path: Path) -> None:
    with session(path) as (engine, journal):
        engine.propose(Change("synthesis_lookahead", 3, who="anna", why="idle GPU"))
        engine.propose(Change("synthesis_lookahead", -1, who="bert"))
        engine.propose(Change("no_such_knob", "x"))
        engine.undo("anna")
        assert journal.flush(30)
        kept = journal.knob_changes()
    told = [(e.name, e.old, e.new, e.who, e.why, e.generation, e.undo, e.reason is None) for e in kept]
    assert told == [
        ("synthesis_lookahead", 1, 3, "anna", "idle GPU", 1, False, True),
        ("synthesis_lookahead", None, -1, "bert", "", 1, False, False),
        ("no_such_knob", None, "x", "operator", "", 1, False, False),
        ("synthesis_lookahead", 3, 1, "anna", "undo", 2, True, True),
    ]


def test_every_phase_is_timed(path: Path) -> None:
    workload = FakeWorkload()
    workload.lies = {(1, 1): 1}
    with session(path, workload) as (engine, journal):
        engine.submit(request(1, 3)).result(30)
        assert journal.flush(30)
        spans = [event for event in engine.events(0) if event.kind is EventKind.SPAN]
        kept = journal.timings("0000")
    offset = engine._line.keeper._offset
    assert len(kept) == len(spans) == 9 * 4
    kept.sort(key=lambda timing: (timing.partitions, timing.phase, timing.began))
    spans.sort(key=lambda span: (span.partitions, str(span.phase), span.start))
    for timing, span in zip(kept, spans, strict=True):
        device = None if span.device is None else f"fake {span.device}"
        assert (timing.partitions, timing.phase, timing.worker) == (span.partitions, span.phase, span.worker)
        assert (timing.device, timing.ok) == (device, span.fields.get("ok") is not False)
        assert timing.began - offset == pytest.approx(span.start, abs=1e-5)
        assert timing.seconds == pytest.approx(span.at - (span.start or 0))
    assert sorted(t.attempt for t in kept) == [0] * 27 + [1] * 9


# -- trouble ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_schema, "BUSY_S", 0.02)
    monkeypatch.setattr(journal_module, "RETRY_S", (0.02, 0.1))


@pytest.mark.usefixtures("impatient")
def test_a_locked_journal_stops_nothing_and_is_made_up_for(path: Path) -> None:
    with session(path) as (engine, journal):
        before = engine.submit(request(0))
        before.result(30)
        with locked(path):
            futures = [engine.submit(request(number, 2)) for number in range(1, 6)]
            for number, future in enumerate(futures, 1):
                check_result(future.result(30), number, 2)
            assert journal.state.startswith("degraded: the journal cannot be written")
            assert stages(path) == {"0000": "delivered"}
        until(lambda: journal.state == "ok")
        assert journal.flush(30)
        assert stages(path) == {f"{number:04d}": "delivered" for number in range(6)}
        assert journal.devices()[0].good == 11 and journal.lost == 0


@pytest.mark.usefixtures("impatient")
def test_where_the_journal_lost_proofs_the_caller_still_has_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(path) as (engine, journal):
        engine.submit(request(0)).result(30)
        monkeypatch.setattr(journal_module, "MOST_QUEUED", 6)
        with locked(path):
            futures = [engine.submit(request(number, 4)) for number in range(1, 4)]
            for number, future in enumerate(futures, 1):
                check_result(future.result(30), number, 4)
            assert journal.lost
        monkeypatch.setattr(journal_module, "MOST_QUEUED", 1000)
        until(lambda: journal.state == "ok")
        check_result(engine.submit(request("after")).result(30), "after", 1)


def test_without_a_place_for_it_the_engine_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with session(tmp_path / "file" / "journal.sqlite3") as (engine, journal):
        check_result(engine.submit(request(1, 2)).result(30), 1, 2)
        assert journal.state.startswith("degraded")
        assert engine.submit(request(2)).result(30).id != "0001"  # it may hold jobs of that name


def test_a_second_process_makes_what_it_is_asked_and_keeps_none(path: Path) -> None:
    with session(path) as (first, _), session(path) as (second, refused):
        assert "another cuzk-top" in refused.state
        check_result(second.submit(request(2)).result(30), 2, 1)
        check_result(first.submit(request(1)).result(30), 1, 1)
        assert stages(path) == {"0000": "delivered"}


FULL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from kept_engine import check_result, request, session, stages, until
from prover.model import EventKind
from prover.pipeline import journal as module, journal_watch
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.journal_watch import JournalWatch
module.RETRY_S = (0.02, 0.1)
journal_watch.LOOK_S = 0.01
path = Path(sys.argv[1])
with session(path) as (engine, journal):
    watch = JournalWatch(engine, journal, [])
    watch.start()
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    count = 0
    while watch.problem is None:
        result = engine.submit(JobRequest(count, 2, origin={"text": "x" * 4000})).result(30)
        check_result(result, count, 2)
        count += 1
    print(watch.problem)
    for number in range(count, count + 20):
        check_result(engine.submit(request(number, 2)).result(30), number, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    until(lambda: watch.problem is None)
    assert journal.flush(30) and journal.lost == 0
    assert stages(path) == {f"{number:04d}": "delivered" for number in range(count + 20)}
    until(lambda: [e.fields["trouble"] for e in engine.events(0) if e.kind is EventKind.JOURNAL][-1:] == [False])
    engine.stop()
    assert watch.stop()
"""


def test_a_full_disk_stops_no_proof(path: Path) -> None:
    support = Path(__file__).parents[1] / "support"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(support)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("the journal cannot be written: ") and "make room" in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("gone", ["journal.sqlite3", "journal.sqlite3*", "*"])
def test_a_journal_that_is_deleted_under_the_engine_is_begun_anew(path: Path, gone: str) -> None:
    """Whoever has a future after that has a job that survives a kill, and so do those that were open."""
    with session(path) as (engine, journal):
        check_result(engine.submit(request("done", 2, id="done")).result(30), "done", 2)
        assert engine.propose(Change("paused", True)).accepted
        futures = {"open": engine.submit(request("open", 2, id="open"))}
        for file in path.parent.glob(gone):
            file.unlink()
        futures["new"] = engine.submit(request("new", 2, id="new"))
        assert stages(path) == {"open": "accepted", "new": "accepted"}
        assert journal.state == "ok" and "was taken away" in str(journal.notice)
        other = Journal.open(path)
        assert "writes the journal" in other.state, "it is still this one's"
        other.close()
        assert engine.propose(Change("paused", False)).accepted
        for inputs, future in futures.items():
            check_result(future.result(30), inputs, 2)
    assert stages(path) == {"open": "delivered", "new": "delivered"}
