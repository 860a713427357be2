"""Sessions one after the other: what was unfinished goes on, what was done is not done again."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fake_workload import FakeWorkload, fake_device, proof_of
from kept_engine import Gate, check_result, request, session, stages, until

from prover.errors import InputError
from prover.model import EventKind, JobState, KnobValue, PartitionState, Priority
from prover.pipeline.delivery import deliver
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest, JobResult
from prover.pipeline.journal import Journal
from prover.pipeline.journal_records import InputFile, OpenJob, Stage, identify
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import DuplicateJob
from prover.pipeline.resume import Remade, Resumption, resume
from prover.timeline import Timeline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


class Origins:
    """Makes inputs from ``{"inputs": ...}``, and remembers what it is told."""

    def __init__(self, hands_over: bool = False, unable: str | None = None) -> None:
        self.hands_over = hands_over
        self.unable = unable
        self.futures: dict[str, Future[JobResult]] = {}
        self.failures: dict[str, str] = {}

    def remake(self, job: OpenJob) -> Remade | None:
        if self.unable is not None:
            raise InputError("inputs are gone", job.entry.id, self.unable)
        inputs = job.entry.request.get("inputs")
        return None if inputs is None else Remade(inputs, self.hands_over)

    def resumed(self, job: OpenJob, future: Future[JobResult]) -> None:
        self.futures[job.entry.id] = future

    def given_up(self, job: OpenJob, reason: str) -> None:
        self.failures[job.entry.id] = reason


def resumed(engine: Engine, journal: Journal, origins: Origins | None = None) -> Resumption:
    done = resume(engine, journal, [origins or Origins()])
    assert done is not None
    return done


def leave(path: Path, inputs: Any, partitions: int, done: int, **more: Any) -> None:
    """A session that stops when so many partitions of its job are proved."""

    def step(step: str, _: Any, slot: tuple[int, ...], cancel: Any) -> None:
        if step == "synthesize" and slot[0] >= done:
            cancel.wait(30)

    with session(path, FakeWorkload(step), {"synthesis_lookahead": 8}) as (engine, _):
        engine.submit(request(inputs, partitions, **more))
        until(lambda: engine.snapshot().counters.partitions_done == done)
    assert list(stages(path).values())[-1] == ("proved" if done == partitions else "accepted")


@pytest.mark.parametrize("slot_size", [0, 1, 2])
@pytest.mark.parametrize("done", [0, 1, 3])
def test_only_what_is_missing_is_made(path: Path, done: int, slot_size: int) -> None:
    leave(path, 7, 5, done)
    workload = FakeWorkload()
    made: list[int] = []
    workload.step = lambda step, inputs, slot, cancel: made.extend(slot) if step == "synthesize" else None
    with session(path, workload, {"slot_size": slot_size}) as (engine, journal):
        kept = journal.proofs("0000")
        origins = Origins()
        result = resumed(engine, journal, origins)
        check_result(origins.futures["0000"].result(30), 7, 5)
        assert sorted(kept) == list(range(done)) and sorted(made) == list(range(done, 5))
        assert result.line == f"1 job resumed, {done} of 5 proofs were there"
        check_result(engine.submit(request(8)).result(30), 8, 1)
        assert stages(path) == {"0000": "delivered", "0001": "delivered"}
        assert resumed(engine, journal).line is None
        view = next(view for view in engine.snapshot().jobs if view.id == "0000")
        assert view.state is JobState.DONE and {p.state for p in view.partitions} == {PartitionState.DONE}
        timeline = Timeline()
        timeline.fold(engine.events(0))
        assert not timeline._requests and engine._board.asked == 0
        submitted = next(event for event in engine.events(0) if event.kind is EventKind.JOB_SUBMITTED)
        assert submitted.fields.get("resumed", 0) == done


def test_a_job_with_all_its_proofs_is_delivered_at_once_without_a_worker(path: Path) -> None:
    leave(path, 7, 3, 3, hands_over=True)
    workload = FakeWorkload()
    with session(path, workload, start=False) as (engine, journal):
        origins = Origins(hands_over=True)
        resumed(engine, journal, origins)
        check_result(origins.futures["0000"].result(0), 7, 3)
        assert workload.calls == {"verify": 1}
        assert stages(path) == {"0000": "proved"}


def test_files_are_handed_over_by_whoever_resumes_them(path: Path, tmp_path: Path) -> None:
    leave(path, 7, 3, 2, hands_over=True)
    for _ in range(2):
        with session(path) as (engine, journal):
            origins = Origins(hands_over=True)
            resumed(engine, journal, origins)
            for job, future in origins.futures.items():
                assert deliver(journal, job, {tmp_path / f"{job}.proof": b"".join(future.result(30).proofs)}).durable
    assert (tmp_path / "0000.proof").read_bytes() == b"".join(proof_of(7, index) for index in range(3))
    assert stages(path) == {"0000": "delivered"} and origins.futures == {}


@pytest.mark.parametrize("bad", [{0}, {1}, {0, 1, 2}])
def test_a_kept_proof_that_does_not_verify_is_made_again(path: Path, bad: set[int]) -> None:
    with session(path, start=False) as (engine, journal):
        engine.submit(request(7, 3))
        for index in range(3):
            proof = bytes(192) if index in bad else proof_of(7, index)
            journal.proved("0000", index, proof, verified=True, device="another")
    workload = FakeWorkload()
    with session(path, workload) as (engine, journal):
        done = resumed(engine, journal)
        check_result(done.futures["0000"].result(30), 7, 3)
        assert workload.calls["synthesize"] == len(bad) and done.proofs == 3 - len(bad)
        assert journal.proofs("0000") == {index: proof_of(7, index) for index in range(3)}


def test_before_the_workload_is_ready_nothing_is_taken_on_trust(path: Path) -> None:
    leave(path, 7, 3, 2)
    journal = Journal.open(path)
    workload = FakeWorkload()
    engine = Engine(lambda progress, cancel: workload, [fake_device()], KnobSet({}), cores=4, journal=journal)
    done = resumed(engine, journal)
    engine.start()
    check_result(done.futures["0000"].result(30), 7, 3)
    assert workload.calls["synthesize"] == 3
    engine.stop()
    assert journal.close()


def test_jobs_go_on_in_their_order_with_what_was_asked_of_them(path: Path) -> None:
    gate = Gate("synthesize")
    with session(path, FakeWorkload(gate)) as (engine, _):
        deadline = engine._board.clock() + 1000
        for number in range(3):
            engine.submit(request(number, 2, deadline=deadline))
    order: list[Any] = []
    workload = FakeWorkload(lambda step, inputs, slot, cancel: order.append(inputs) if step == "synthesize" else None)
    with session(path, workload, start=False) as (engine, journal):
        done = resumed(engine, journal)
        requests = [job.request for job in engine._board.jobs]
        assert [(r.id, r.partitions, dict(r.origin)) for r in requests] == [
            (f"{number:04d}", 2, {"inputs": number}) for number in range(3)
        ]
        assert all(r.deadline == pytest.approx(deadline, abs=1.0) for r in requests)
        engine.start()
        for future in done.futures.values():
            future.result(30)
    assert order == [0, 0, 1, 1, 2, 2]


def test_ids_are_given_once_whatever_session(path: Path) -> None:
    with session(path) as (engine, _):
        assert [engine.submit(request(1)).result(30).id for _ in range(3)] == ["0000", "0001", "0002"]
        engine.submit(request(1, id="5")).result(30)
        engine.submit(request(1, id="0006")).result(30)
        engine.submit(request(1, id="9041")).result(30)
        engine.submit(request(1, id="a name")).result(30)
        with pytest.raises(DuplicateJob, match="submitted before"):
            engine.submit(request(1, id="a name"))
    with session(path) as (engine, _):
        with pytest.raises(DuplicateJob, match="submitted before"):
            engine.submit(request(1, id="a name"))
        assert engine.submit(request(1)).result(30).id == "9043"
        engine.submit(request(1, id="9045")).result(30)
    with session(path, start=False) as (engine, _):
        engine.submit(request(1, id="9048"))
        futures = [engine.submit(request(1)) for _ in range(3)]
        engine.start()
        assert [future.result(30).id for future in futures] == ["9047", "9049", "9050"]
    assert len(stages(path)) == 13


def test_a_number_that_was_somebodys_name_is_passed_over(path: Path) -> None:
    with session(path) as (engine, _):
        engine.submit(request(1, id="0002")).result(30)
        assert [engine.submit(request(1)).result(30).id for _ in range(3)] == ["0001", "0003", "0004"]


# -- what cannot go on ------------------------------------------------------------------------------------------------


def with_file(path: Path, file: Path) -> None:
    file.write_text("witness")
    with session(path, FakeWorkload(Gate("synthesize"))) as (engine, _):
        engine.submit(request(7, 2, files=(InputFile("witness", 0, identify(file)),)))


def change(file: Path) -> str:
    file.write_text("Witness")
    return f"file changed: {file}: another content of the same size"


def grow(file: Path) -> str:
    file.write_text("witness and more")
    return f"file changed: {file}: 16 bytes, was 7"


def remove(file: Path) -> str:
    file.unlink()
    return f"file cannot be read: {file}: No such file or directory"


@pytest.mark.parametrize("spoil", [change, grow, remove])
def test_a_job_whose_file_changed_fails_in_one_line(path: Path, tmp_path: Path, spoil: Any) -> None:
    file = tmp_path / "input.wtns"
    with_file(path, file)
    reason = spoil(file)
    with session(path) as (engine, journal):
        origins = Origins()
        done = resumed(engine, journal, origins)
        assert (origins.futures, origins.failures) == ({}, {"0000": reason})
        assert journal.stage("0000") == (Stage.FAILED, reason) or journal.flush(30)
        assert journal.stage("0000") == (Stage.FAILED, reason)
        assert done.line == f"job 0000 cannot be resumed: {reason}"
        assert resumed(engine, journal).line is None


def test_the_same_file_with_another_time_is_the_same(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "input.wtns"
    with_file(path, file)
    file.write_text("witness")
    with session(path) as (engine, journal):
        check_result(resumed(engine, journal).futures["0000"].result(30), 7, 2)


def test_what_cannot_be_made_again_fails_and_what_nobody_knows_is_left(path: Path) -> None:
    with session(path, start=False) as (engine, _):
        engine.submit(JobRequest(1, 1, origin={"another": "submitter"}))
        engine.submit(request(2))
    with session(path) as (engine, journal):
        origins = Origins(unable="its folder was removed")
        done = resumed(engine, journal, origins)
        reason = "inputs are gone: {}: its folder was removed"
        assert done.failed == {job: reason.format(job) for job in ("0000", "0001")}
    with session(path, start=False) as (engine, _):
        engine.submit(JobRequest(1, 1, origin={"another": "submitter"}))
    with session(path) as (engine, journal):
        done = resumed(engine, journal)
        assert (done.futures, done.left, done.line) == ({}, {"fake": 1}, "1 job of fake left")
    assert list(stages(path).values()) == ["failed", "failed", "accepted"]


def test_nothing_is_resumed_from_a_journal_that_another_process_writes(path: Path) -> None:
    with session(path, FakeWorkload(Gate("synthesize"))) as (engine, journal):
        engine.submit(request(1))
        with session(path) as (second, refused):
            assert resume(second, refused, [Origins()]) is None
        assert journal.state == "ok"


def test_resuming_twice_makes_nothing_twice(path: Path) -> None:
    leave(path, 7, 3, 1)
    gate = Gate("synthesize")
    workload = FakeWorkload(gate)
    with session(path, workload) as (engine, journal):
        first, second = resumed(engine, journal), resumed(engine, journal)
        gate.open.set()
        check_result(first.futures["0000"].result(30), 7, 3)
        assert not second.futures and workload.calls["synthesize"] == 2


def test_another_priority_is_kept(path: Path) -> None:
    with session(path, start=False) as (engine, _):
        engine.submit(request(1, priority=Priority.LOW))
        assert engine.reprioritise("0000", Priority.CRITICAL)
    with session(path, start=False) as (engine, journal):
        resumed(engine, journal)
        assert [job.priority for job in engine.snapshot().jobs] == [Priority.CRITICAL]


def test_a_batch_of_resumed_jobs_is_made_together(path: Path) -> None:
    with session(path, start=False) as (engine, journal):
        for number in range(3):
            engine.submit(request(number, 3))
        for number in range(3):
            journal.proved(f"{number:04d}", number, proof_of(number, number), verified=True, device="fake 0")
    knobs: dict[str, KnobValue] = {"slot_size": 0, "max_batch_size": 3, "max_batch_wait_ms": 10_000}
    with session(path, knobs=knobs, start=False) as (engine, journal):
        done = resumed(engine, journal)
        engine.start()
        for number, future in enumerate(done.futures.values()):
            check_result(future.result(30), number, 3)
        assert engine.most_slots_alive == 1
        assert journal.flush(30)
        assert next(timing.partitions for timing in journal.timings("0001")) == (0, 2)
        assert set(stages(path).values()) == {"delivered"}


def test_jobs_of_another_circuit_wait_for_a_session_that_has_it(path: Path) -> None:
    with session(path, FakeWorkload(circuit="other"), start=False) as (engine, _):
        engine.submit(request(1))
    with session(path) as (engine, journal):
        assert resumed(engine, journal).line == "1 job of other left"
    with session(path, FakeWorkload(circuit="other")) as (engine, journal):
        check_result(resumed(engine, journal).futures["0000"].result(30), 1, 1)
