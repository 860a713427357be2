"""The log: the daemon's shape and messages, off the workers, rotated, one writer a file."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_rig import rig
from fake_workload import FakeWorkload, fake_device

from prover.errors import MachineLacks
from prover.model import Event, EventKind, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.events import EventLog
from prover.pipeline.interfaces import Change, JobRequest
from prover.pipeline.knobs import KnobSet
from prover.pipeline.log import LineFormat, LogFile, LogWriter

LINE = re.compile(
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (ERROR| WARN| INFO|DEBUG|TRACE) "
    r"(?:[a-z_]+\{[^}]*\}: )?cuzk_top::[a-z_]+: (\S.*)$"
)


def written(events: list[Event], level: str = "info") -> list[str]:
    lines = LineFormat(0.0)
    return [line for event in events for line in lines.lines(event, level)]


def bodies(lines: list[str]) -> list[str]:
    """Without the stamp; every line must have the shape."""
    for line in lines:
        assert LINE.match(line), line
    return [line[28:] for line in lines]


def test_the_story_of_a_job_in_the_daemons_words() -> None:
    with rig({"gpu_workers_per_device": 1}) as r:
        r.submit(1, 2)
        r.run()
        found = bodies(written(r.events()))
    story = [line for line in found if "worker started" not in line]
    assert story == [
        " INFO cuzk_top::engine: starting cuzk engine pipeline_enabled=true",
        " INFO cuzk_top::engine: initializing GPU workers num_gpus=1 gpu_workers_per_device=1 total_workers=1",
        " INFO cuzk_top::engine: cuzk engine started num_workers=1 pipeline=true",
        " INFO cuzk_top::scheduler: job enqueued job_id=job-1 proof_kind=fake priority=Normal queue_position=0",
        " INFO cuzk_top::engine: job dequeued for proving job_id=job-1 proof_kind=fake",
        " INFO synth_single{proof_kind=fake}: cuzk_top::engine: processing batch batch_size=1 proof_kind=fake "
        "slot_size=1",
        " INFO synth_single{proof_kind=fake}: cuzk_top::engine: dispatching per-partition synthesis (budget-gated) "
        "job_id=job-1 num_partitions=2",
        " INFO cuzk_top::engine: partition synthesis complete, pushing to GPU queue job_id=job-1 partition=0 "
        "synth_ms=1000",
        " INFO cuzk_top::engine: partition synthesis complete, pushing to GPU queue job_id=job-1 partition=1 "
        "synth_ms=1000",
        " INFO gpu_worker{worker_id=0 gpu=0 job_id=job-1 proof_kind=fake batch_size=1 partition=Some(0)}: "
        "cuzk_top::engine: GPU_TIMING prove_start returned worker_id=0 partition=Some(0) total_pre_prove_ms=1700 "
        "spawn_blocking_wall_ms=1700",
        " INFO cuzk_top::engine: partition GPU prove complete job_id=job-1 partition=0 gpu_ms=1800 filled=0",
        " INFO gpu_worker{worker_id=0 gpu=0 job_id=job-1 proof_kind=fake batch_size=1 partition=Some(1)}: "
        "cuzk_top::engine: GPU_TIMING prove_start returned worker_id=0 partition=Some(1) total_pre_prove_ms=1700 "
        "spawn_blocking_wall_ms=1700",
        " INFO cuzk_top::engine: partition GPU prove complete job_id=job-1 partition=1 gpu_ms=1800 filled=1",
        " INFO cuzk_top::engine: Phase 7: all partitions complete, proof assembled job_id=job-1 proof_len=384 "
        "total_ms=4500 synth_ms=2000 gpu_ms=3400",
    ]


def test_kernel_time_by_the_devices_events_stands_beside_the_wall_time() -> None:
    begun = {"job": "j", "partitions": (0,)}
    about = {**begun, "device": 0, "worker": "gpu0-0"}
    events = [
        Event(1, 1.0, EventKind.JOB_SUBMITTED, **begun, fields={"circuit": "c", "partitions": 1}),
        Event(2, 2.0, EventKind.SPAN, **begun, phase=Phase.QUEUED, start=2.0),
        Event(3, 3.4, EventKind.KERNELS, **about, phase=Phase.MSM, start=2.5),
        Event(4, 3.5, EventKind.SPAN, **about, phase=Phase.D2H, start=3.4, fields={"gpu_active_s": 0.9}),
        Event(5, 3.6, EventKind.PARTITION_DONE, **begun, fields={"bytes": 192}),
        Event(6, 3.7, EventKind.SLOT_REQUEUED, **begun, device=0, fields={"error": "device lost: x: cuda:0"}),
        Event(7, 3.8, EventKind.DEVICE_LOST, device=0, fields={"error": "device lost: x: cuda:0"}),
    ]
    assert bodies(written(events))[2:] == [
        " INFO cuzk_top::engine: partition GPU prove complete job_id=j partition=0 gpu_ms=1600 gpu_active_ms=900 "
        "filled=1",
        " WARN cuzk_top::engine: partition is made again job_id=j partition=0 gpu=0 error=device lost: x: cuda:0",
        "ERROR cuzk_top::engine: device lost gpu=0 error=device lost: x: cuda:0",
    ]


def test_standard_mode_failures_knobs_and_ends_have_their_lines() -> None:
    with rig({"slot_size": 0}) as r:
        r.faults["synthesize", 1, 0] = MemoryError("no\nroom")
        r.faults["msm", 2, 0] = MemoryError("full")
        r.workload.lies[3, 0] = 1
        for inputs in (1, 2, 3):
            r.submit(inputs, 2)
        r.run()
        r.submit(4)
        r.engine.cancel("job-4")
        r.set("synthesis_lookahead", 2)
        r.engine.propose(Change("slot_size", 9999))
        r.run()
    text = "\n".join(bodies(written(r.events())))
    for line in [
        "ERROR cuzk_top::engine: partition synthesis failed error=MemoryError: no room job_id=job-1 partition=0-1",
        "ERROR cuzk_top::engine: job failed job_id=job-1 error=job job-1, partition 0, 1, synthesis: MemoryError: "
        "no room",
        "ERROR cuzk_top::engine: partition GPU proving failed error=MemoryError: full job_id=job-2 partition=0-1",
        " WARN cuzk_top::engine: proof self-check FAILED — proof is invalid job_id=job-3 partition=0-1 gpu=0",
        " INFO cuzk_top::engine: synthesis complete, sending to GPU synth_ms=2000 circuit_id=fake batch_size=2 "
        "sectors=1 job_id=job-3",
        " WARN cuzk_top::engine: job cancelled job_id=job-4",
        " INFO cuzk_top::knobs: knob proposed knob=synthesis_lookahead old=1 new=2 who=operator generation=1",
        " INFO cuzk_top::knobs: knob in force knob=synthesis_lookahead value=2 after_ms=0",
        " WARN cuzk_top::knobs: knob refused knob=slot_size new=9999 reason=not a value of this knob: slot_size=9999: "
        "give a whole number from 0 to 1024, or job",
        " INFO cuzk_top::engine: pipeline GPU worker stopped worker_id=1",
        " INFO cuzk_top::engine: cuzk engine stopped",
    ]:
        assert line in text
    assert "DEBUG" not in text
    errors = bodies(written(r.events(), "error"))
    assert errors and all(line.startswith("ERROR") for line in errors)
    assert "slot phases" in "\n".join(bodies(written(r.events(), "debug")))


def test_stamps_are_utc_with_six_digits() -> None:
    line = LineFormat(1_771_431_566.0).lines(Event(1, 0.983822, EventKind.ENGINE_STOPPED))[0]
    assert line == "2026-02-18T16:19:26.983822Z  INFO cuzk_top::engine: cuzk engine stopped"


def test_nothing_is_remembered_of_ended_jobs() -> None:
    lines = LineFormat(0.0)
    with rig() as r:
        for inputs in range(5):
            r.submit(inputs, 2)
        r.run()
        for event in r.events():
            lines.lines(event)
    assert lines._jobs == {}


def test_the_writer_follows_an_engine_to_its_end(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    engine = Engine(FakeWorkload(), [fake_device()], KnobSet())
    writer = LogWriter(engine.event_log, LogFile(tmp_path / "logs"), lambda: engine.knobs.text("log_level"), 0.0)
    writer.start()
    engine.start()
    for number in range(20):
        engine.submit(JobRequest(number, 2)).result(10)
    engine.stop()
    writer.stop()
    lines = writer.path.read_text(encoding="utf-8").splitlines()
    bodies(lines)
    assert sum("partition GPU prove complete" in line for line in lines) == 40
    assert lines[-1].endswith("cuzk engine stopped")
    assert writer.trouble is None
    assert set(threading.enumerate()) <= before


def test_a_disk_that_was_full_for_a_time_costs_lines_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system takes half of a write and refuses the rest, until there is room again."""
    monkeypatch.setattr("prover.pipeline.log.RETRY_S", 0.01)
    events = EventLog()
    ring = events.ring()
    file = LogFile(tmp_path)
    writer = LogWriter(events, file, lambda: "info", 0.0)
    real, full = os.write, threading.Event()

    def write(descriptor: int, data: bytes) -> int:
        if descriptor != file._descriptor or not full.is_set():
            return real(descriptor, data)
        if len(data) > 20:
            return real(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def until(true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not true():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    monkeypatch.setattr(os, "write", write)
    writer.start()
    events.emit(ring, EventKind.ENGINE_STOPPED, 1.0)
    until(lambda: file._size > 0)
    full.set()
    events.emit(ring, EventKind.ENGINE_STOPPED, 2.0)
    until(lambda: writer.trouble is not None)
    assert writer.trouble == f"the log cannot be written: {writer.path}: No space left on device"
    full.clear()
    events.emit(ring, EventKind.ENGINE_STOPPED, 3.0)
    until(lambda: writer.trouble is None)
    writer.stop()
    first, torn, missed, last = writer.path.read_text().splitlines()
    bodies([first, last])
    assert missed.endswith("cuzk_top::engine: events were lost to the log count=1") and first[28:].startswith(torn[28:])


def test_what_the_writer_missed_it_says(tmp_path: Path) -> None:
    events = EventLog(capacity=4)
    ring = events.ring()
    writer = LogWriter(events, LogFile(tmp_path), lambda: "info", 0.0)
    for at in range(10):
        events.emit(ring, EventKind.ENGINE_STOPPED, float(at))
    writer.start()
    writer.stop()
    lines = bodies(writer.path.read_text().splitlines())
    assert lines[0] == " WARN cuzk_top::engine: events were lost to the log count=6"
    assert len(lines) == 5


def test_the_file_is_rotated_and_only_so_many_are_kept(tmp_path: Path) -> None:
    file = LogFile(tmp_path, limit_bytes=100)
    for number in range(60):
        file.write([f"line {number:04d} {'x' * 30}"])
    file.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["engine.log", "engine.log.1", "engine.log.2", "engine.log.3"]
    kept = [line for name in reversed(names) for line in (tmp_path / name).read_text().splitlines()]
    numbers = [int(line.split()[1]) for line in kept]
    assert numbers == list(range(numbers[0], 60))
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())


def test_an_old_file_is_continued(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text("old\n")
    file = LogFile(tmp_path)
    file.write(["new"])
    file.write([])
    file.close()
    assert file.path.read_text() == "old\nnew\n"


def test_a_second_writer_takes_another_name_until_the_first_ends(tmp_path: Path) -> None:
    first, second = LogFile(tmp_path), LogFile(tmp_path)
    assert (first.path.name, second.path.name) == ("engine.log", "engine-2.log")
    first.close()
    third = LogFile(tmp_path)
    assert third.path.name == "engine.log"
    for file in (second, third):
        file.close()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineLacks, match=r"cannot write the log: .*: "):
        LogFile(tmp_path / "file" / "logs")
