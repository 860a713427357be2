"""Every line that the engine can write is one that a strict reader of the daemon's format takes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from daemon_grammar import MESSAGES, Message, Parsed, parse
from engine_rig import rig
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.device.errors import DeviceLost
from prover.model import Event, EventKind, Phase, Priority
from prover.pipeline.interfaces import Change, JobRequest
from prover.pipeline.log_format import LineFormat

DOCS = Path(__file__).parents[2] / "docs" / "log.md"
OFFSET = 1_790_000_000.0
SILENT = {EventKind.PHASE_BEGAN, EventKind.KERNELS}
"""They say when something begins; what is told is how long it took."""


class Death(BaseException):
    """What no handler of a workload's failures catches."""


def read(events: Iterable[Event], *, simulated: bool = False) -> list[tuple[Event, Parsed]]:
    lines = LineFormat(OFFSET, simulated)
    return [(event, parse(line)) for event in events for line in lines.lines(event)]


def an_eventful_night() -> list[Event]:
    """Jobs of all fates, knobs turned, priorities changed, a drain, a dead worker, a lost device."""
    knobs = {
        "synthesis_concurrency": 2,
        "synthesis_lookahead": 2,
        "on_device_lost": "requeue",
        "log_level": "trace",
    }
    with rig(knobs, devices=2) as r:
        r.faults["synthesize", 1, 0] = MemoryError("no\nroom in [12 34]")
        r.faults["msm", 2, 1] = ValueError("row=7 is bad")
        r.faults["h2d", 3, 0] = Death("at once")
        r.faults["ntt", 4, 0] = DeviceLost("an illegal address", "fake 1")
        r.workload.lies[5, 0] = 1
        for inputs in range(8):
            r.submit(inputs, 1 if inputs > 5 else 3)
        late = r.engine.submit(JobRequest(9, 1, id="night [1 2]", priority=Priority.HIGH, deadline=r.time() + 60))
        r.futures["night [1 2]"] = late
        r.engine.reprioritise("job-7", Priority.LOW)
        r.set("synthesis_lookahead", 4)
        r.engine.propose(Change("slot_size", 9999))
        r.engine.propose(Change("no_such_knob", "some words"))
        r.run_for(3.0)
        r.engine.drain()
        r.engine.resume()
        r.submit(11, 4)
        r.engine.cancel("job-11")
        r.run()
    return r.events()


def test_jobs_in_one_slot_are_told_as_the_daemon_tells_a_batch() -> None:
    with rig({"slot_size": 0, "max_batch_size": 3, "max_batch_wait_ms": 100}) as r:
        for inputs in range(3):
            r.submit(inputs, 2)
        r.run()
    lines = read(r.events())
    batches = [parsed for _, parsed in lines if parsed.message.text == "processing batch"]
    assert [parsed.span for parsed in batches] == [{"batch_size": "3", "proof_kind": "fake"}] * 3
    texts = [parsed.message.text for _, parsed in lines]
    assert texts.count("GPU_TIMING prove_start returned") == 1, "the worker was called once"
    assert texts.count("synthesis complete, sending to GPU") == 3
    assert texts.count("Phase 7: all partitions complete, proof assembled") == 3


@pytest.fixture(scope="module")
def night() -> list[Event]:
    return an_eventful_night()


def test_every_line_of_a_night_is_read(night: list[Event]) -> None:
    told = {parsed.message.text for _, parsed in read(night)}
    assert told >= {
        "job enqueued",
        "job has a deadline",
        "job reprioritised",
        "processing batch",
        "dispatching per-partition synthesis (budget-gated)",
        "partition synthesis failed",
        "partition GPU proving failed",
        "failure detail",
        "worker died",
        "device lost",
        "partition is made again",
        "proof self-check FAILED — proof is invalid",
        "job cancelled",
        "draining: no more jobs are taken",
        "resumed: jobs are taken again",
        "knob refused",
        "Phase 7: all partitions complete, proof assembled",
    }


def test_a_modelled_box_says_so_in_every_line(night: list[Event]) -> None:
    assert all(parsed.simulated for _, parsed in read(night, simulated=True))
    assert not any(parsed.simulated for _, parsed in read(night))


def test_lines_tell_what_happened(night: list[Event]) -> None:
    lines = read(night)

    def of(text: str) -> list[tuple[Event, Parsed]]:
        return [(event, parsed) for event, parsed in lines if parsed.message.text == text]

    assert {parsed.fields["priority"] for _, parsed in of("job enqueued")} == {"Normal", "High"}
    (changed,) = of("job reprioritised")
    assert changed[1].fields == {"job_id": "job-7", "old": "Normal", "new": "Low"}
    done = [event for event in night if event.kind is EventKind.JOB_DONE]
    assert [event.job for event in done] == [
        parsed.fields["job_id"] for _, parsed in of("Phase 7: all partitions complete, proof assembled")
    ]
    failed = {event.job for event in night if event.kind is EventKind.JOB_FAILED}
    assert {parsed.fields["job_id"] for _, parsed in of("job failed")} == failed
    causes = [parsed.fields["error"] for _, parsed in of("partition GPU proving failed")]
    assert "ValueError: row=7 is bad" in causes
    details = [parsed.fields["detail"] for _, parsed in of("failure detail")]
    assert all(re.match(r"\S+\.py:\d+ \w+", detail) for detail in details)
    for event, parsed in lines:
        assert (parsed.at - datetime(1970, 1, 1)).total_seconds() == pytest.approx(event.at + OFFSET, abs=1e-5)
        if event.job is not None and "job_id" in parsed.fields:
            assert parsed.fields["job_id"] == event.job


def one_of_each() -> list[Event]:
    """Each kind at least once, with all that it can carry."""
    about = {"job": "wdpost-1000-0-[194 216 79]", "partitions": (0,)}
    return [
        Event(
            1, 1.0, EventKind.ENGINE_STARTED, fields={"devices": 1, "gpu_workers_per_device": 2, "note": "no GPU: x"}
        ),
        Event(2, 1.0, EventKind.JOURNAL, fields={"line": "the disk is full: x", "trouble": True}),
        Event(3, 1.0, EventKind.JOURNAL, fields={"line": "2 jobs go on", "trouble": False}),
        Event(4, 1.0, EventKind.SPOOL, fields={"line": "taken: a b.json", "trouble": False}),
        Event(5, 1.0, EventKind.SPOOL, fields={"line": "refused: c.json: no", "trouble": True}),
        Event(
            6,
            1.0,
            EventKind.MEMORY,
            fields={"waits": True, "what": "the slot's memory", "used": 5 << 30, "total": 9 << 30},
        ),
        Event(7, 1.0, EventKind.MEMORY, fields={"waits": False, "what": None, "used": 4 << 30, "total": 9 << 30}),
        Event(8, 1.0, EventKind.JOB_SUBMITTED, **about, fields={"circuit": "c", "ahead": 0, "priority": "critical"}),
        Event(9, 1.0, EventKind.JOB_STARTED, **about, fields={"circuit": "c", "slot_size": 1, "batch": 3}),
        Event(10, 2.0, EventKind.SPAN, **about, phase=Phase.SYNTHESIS, start=1.0),
        Event(11, 2.0, EventKind.SPAN, **about, phase=Phase.D2H, start=1.9, device=0, worker="gpu0-1"),
        Event(12, 2.0, EventKind.PARTITION_DONE, **about, fields={"bytes": 192}),
        Event(
            13, 2.0, EventKind.PARTITION_FAILED, **about, phase=Phase.MSM, fields={"error": "x", "detail": "a.py:1 f"}
        ),
        Event(14, 2.0, EventKind.PARTITION_CANCELLED, **{**about, "partitions": (0, 1, 2)}),
        Event(15, 2.0, EventKind.PROOF_WITHHELD, **about, device=0, fields={"attempt": 0}),
        Event(16, 2.0, EventKind.SLOT_REQUEUED, **about, device=0, fields={"error": "x"}),
        Event(17, 2.0, EventKind.JOB_REPRIORITISED, **about, fields={"old": "low", "new": "high"}),
        Event(18, 2.0, EventKind.JOB_DONE, **about),
        Event(19, 2.0, EventKind.JOB_FAILED, **about, fields={"error": "x"}),
        Event(20, 2.0, EventKind.JOB_CANCELLED, **about, fields={"error": "the engine stops"}),
        Event(
            21,
            2.0,
            EventKind.KNOB_PROPOSED,
            fields={"name": "paused", "old": False, "new": True, "who": "me", "generation": 3},
        ),
        Event(22, 2.0, EventKind.KNOB_APPLIED, fields={"name": "paused", "value": True, "seconds": 0.25}),
        Event(23, 2.0, EventKind.KNOB_ACKNOWLEDGED, worker="gpu0-1", fields={"generation": 3}),
        Event(24, 2.0, EventKind.KNOB_REFUSED, fields={"name": "paused", "new": "x y", "reason": "no"}),
        Event(25, 2.0, EventKind.WORKER_STARTED, device=0, worker="gpu0-1"),
        Event(26, 2.0, EventKind.WORKER_STOPPED, device=0, worker="gpu0-1", fields={"error": None}),
        Event(
            27, 2.0, EventKind.WORKER_STOPPED, device=0, worker="gpu0-1", fields={"error": "x", "detail": "a.py:1 f"}
        ),
        Event(28, 2.0, EventKind.DEVICE_LOST, device=0, fields={"error": "x"}),
        Event(29, 2.0, EventKind.FIRST_RUN, start=1.0, fields={"what": "load"}),
        Event(30, 2.0, EventKind.ENGINE_DRAINING),
        Event(31, 2.0, EventKind.ENGINE_RESUMED),
        Event(32, 2.0, EventKind.ENGINE_STOPPED),
    ]


def test_every_kind_of_event_has_its_line() -> None:
    lines = read(one_of_each())
    told = {event.kind for event, _ in lines}
    assert told == set(EventKind) - SILENT


def test_every_message_of_the_catalogue_can_be_written(night: list[Event]) -> None:
    whole = {"job": "j", "partitions": (0, 1), "phase": Phase.SYNTHESIS}
    standard = [
        Event(1, 1.0, EventKind.JOB_SUBMITTED, job="j", fields={"ahead": 0}),
        Event(2, 2.0, EventKind.SPAN, **whole, start=1.0),
    ]
    written = {(p.message.level, p.message.text) for _, p in [*read(night), *read(one_of_each()), *read(standard)]}
    written.add(("WARN", parse(LineFormat(0.0).missed(1.0, 6)).message.text))
    assert written == {(message.level, message.text) for message in MESSAGES}


FREE = ("error", "line", "note", "what")
"""Fields that hold whatever somebody wrote."""
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_in_a_value_the_line_stays_one(data: st.DataObject) -> None:
    """Ids, causes and notes may hold anything: breaks, control characters, other scripts."""
    job = data.draw(texts)
    lines = LineFormat(0.0)
    for event in one_of_each():
        fields = {name: data.draw(texts) if name in FREE else value for name, value in event.fields.items()}
        told = replace(event, job=None if event.job is None else job, fields=fields)
        for line in lines.lines(told):
            assert "\n" not in line and "\r" not in line and line.isprintable(), repr(line)
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (ERROR| WARN| INFO|DEBUG) ", line), repr(line)


def documented(message: Message) -> str:
    names = " ".join(field.partition(":")[0] + ("?" if field.endswith("?") else "") for field in message.fields.split())
    shown = f"`{names}`" if names else ""
    whose = "daemon" if message.daemon else ""
    return f"| {message.level} | `{message.target}` | `{message.text}` | {shown} | {whose} |"


def test_the_documentation_lists_every_message() -> None:
    text = DOCS.read_text()
    for message in MESSAGES:
        assert documented(message) in text, documented(message)


@pytest.mark.parametrize(
    "line",
    [
        "2026-02-18T16:19:26.983822Z  INFO cuzk_top::engine: cuzk engine stopped",
        "2026-02-18T16:19:26.983822Z  INFO SIMULATED: cuzk_top::engine: cuzk engine stopped",
    ],
)
def test_the_reader_takes_what_is_right(line: str) -> None:
    assert parse(line).message.text == "cuzk engine stopped"


@pytest.mark.parametrize(
    "line",
    [
        "2026-02-18T16:19:26.98382Z  INFO cuzk_top::engine: cuzk engine stopped",
        "2026-02-18T16:19:26.983822Z INFO cuzk_top::engine: cuzk engine stopped",
        "2026-02-18T16:19:26.983822Z  INFO cuzk_top::engine: cuzk engine stopped now",
        "2026-02-18T16:19:26.983822Z  WARN cuzk_top::engine: cuzk engine stopped",
        "2026-02-18T16:19:26.983822Z  INFO cuzk_top::knobs: cuzk engine stopped",
        "2026-02-18T16:19:26.983822Z  INFO cuzk_top::engine: first run elapsed_ms=3 what=load",
        "2026-02-18T16:19:26.983822Z  INFO cuzk_top::engine: first run what=load elapsed_ms=3.5",
        "2026-02-18T16:19:26.983822Z  INFO cuzk_top::engine: processing batch batch_size=1 proof_kind=c slot_size=1",
        "2026-02-18T16:19:26.983822Z  INFO synth{a=1}: cuzk_top::engine: cuzk engine stopped",
    ],
)
def test_the_reader_refuses_what_is_not(line: str) -> None:
    with pytest.raises(AssertionError):
        parse(line)
