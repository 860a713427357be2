"""The engine's events as lines in the text format of the daemon's own log. ``docs/log.md`` lists them.

Lines are ``<UTC time, six digits>Z <LEVEL> <span>{...}: <target>: <message> <key>=<value> ...``. Where the daemon has a
message for a happening, ours is the same, so that one reader understands both; what it has no message for has one of
its own. Targets begin with ``cuzk_top`` where the daemon's begin with ``cuzk_core``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prover.model import Event, EventKind, FieldValue, Phase

LEVELS = ("error", "warn", "info", "debug", "trace")
ENGINE = "cuzk_top::engine"
SCHEDULER = "cuzk_top::scheduler"
KNOBS = "cuzk_top::knobs"
MEMORY = "cuzk_top::memory"


_ENDS = frozenset({EventKind.JOB_DONE, EventKind.JOB_FAILED, EventKind.JOB_CANCELLED})


@dataclass(slots=True)
class _JobFacts:
    """What later lines of a job tell again."""

    circuit: str = ""
    partitions: int = 0
    submitted: float = 0.0
    synthesis_s: float = 0.0
    device_s: float = 0.0
    bytes: int = 0
    done: int = 0
    picked: dict[tuple[int, ...], float] = field(default_factory=dict)
    phases: dict[tuple[int, ...], dict[Phase, float]] = field(default_factory=dict)
    active: dict[tuple[int, ...], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    level: str
    target: str
    message: str
    span: str = ""


class LineFormat:
    """Events to lines. Keeps what it must remember of jobs in flight, nothing of ended ones."""

    def __init__(self, wall_offset_s: float, simulated: bool = False) -> None:
        """``simulated``: each line says so, in the outermost span."""
        self._offset = wall_offset_s
        self._mark = "SIMULATED: " if simulated else ""
        self._jobs: dict[str, _JobFacts] = {}

    def lines(self, event: Event, level: str = "trace") -> list[str]:
        """The lines of an event that are at least as severe as ``level``."""
        limit = LEVELS.index(level)
        return [self._write(event.at, line) for line in self._lines(event) if LEVELS.index(line.level) <= limit]

    def missed(self, at: float, count: int) -> str:
        """The line that says that events were overwritten before they were read."""
        return self._write(at, _Line("warn", ENGINE, _text("events were lost to the log", count=count)))

    def _write(self, at: float, line: _Line) -> str:
        stamp = datetime.fromtimestamp(at + self._offset, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"{stamp} {line.level.upper():>5} {self._mark}{line.span}{line.target}: {line.message}"

    def _lines(self, event: Event) -> Iterator[_Line]:
        if event.kind is EventKind.SPAN:
            yield from self._span(event)
        elif event.kind.value.startswith("job_"):
            yield from self._job(event)
        elif event.kind.value.startswith(("partition_", "proof_")):
            yield from self._partition(event)
        elif event.kind.value.startswith("knob_"):
            yield from _knob(event)
        else:
            yield from _engine(event)

    def _job(self, event: Event) -> Iterator[_Line]:
        job, facts = event.job or "", self._jobs.setdefault(event.job or "", _JobFacts())
        if event.kind is EventKind.JOB_SUBMITTED:
            facts.circuit = str(event.fields.get("circuit") or "")
            facts.partitions = len(event.partitions)
            facts.submitted = event.at
            kind, ahead = facts.circuit, event.fields.get("ahead")
            priority = str(event.fields.get("priority") or "normal").capitalize()
            message = _text("job enqueued", job_id=job, proof_kind=kind, priority=priority, queue_position=ahead)
            yield _Line("info", SCHEDULER, message)
            deadline = event.fields.get("deadline")
            if isinstance(deadline, float):
                left = _ms(deadline - event.at)
                yield _Line("debug", SCHEDULER, _text("job has a deadline", job_id=job, left_ms=left))
        elif event.kind is EventKind.JOB_REPRIORITISED:
            old, new = (str(event.fields.get(name) or "").capitalize() for name in ("old", "new"))
            yield _Line("info", SCHEDULER, _text("job reprioritised", job_id=job, old=old, new=new))
        elif event.kind is EventKind.JOB_STARTED:
            facts.circuit = str(event.fields.get("circuit") or facts.circuit)
            yield _Line("info", ENGINE, _text("job dequeued for proving", job_id=job, proof_kind=facts.circuit))
            yield from _batch(event, facts)
        elif event.kind in _ENDS:
            yield self._job_end(event, job, facts)
            self._jobs.pop(job, None)

    def _job_end(self, event: Event, job: str, facts: _JobFacts) -> _Line:
        if event.kind is EventKind.JOB_CANCELLED:
            return _Line("warn", ENGINE, _text("job cancelled", job_id=job, why=event.fields.get("error")))
        if event.kind is EventKind.JOB_FAILED:
            return _Line("error", ENGINE, _text("job failed", job_id=job, error=event.fields.get("error")))
        return _Line(
            "info",
            ENGINE,
            _text(
                "Phase 7: all partitions complete, proof assembled",
                job_id=job,
                proof_len=facts.bytes,
                total_ms=_ms(event.at - facts.submitted),
                synth_ms=_ms(facts.synthesis_s),
                gpu_ms=_ms(facts.device_s),
            ),
        )

    def _span(self, event: Event) -> Iterator[_Line]:
        facts = self._jobs.get(event.job or "")
        if facts is None or event.start is None or event.phase is None:
            return
        seconds = event.at - event.start
        slot = event.partitions
        if event.phase is Phase.SYNTHESIS:
            facts.phases[slot] = {}  # what an earlier attempt took is told
        facts.phases.setdefault(slot, {})[event.phase] = seconds
        if event.fields.get("ok") is False:
            return
        if event.phase is Phase.SYNTHESIS:
            facts.synthesis_s += seconds
            yield _synthesised(event, facts, seconds)
        elif event.phase is Phase.QUEUED:
            facts.picked[slot] = event.at
        elif event.phase is Phase.D2H:
            active = event.fields.get("gpu_active_s")
            if isinstance(active, float):
                facts.active[slot] = active
            yield from self._left_device(event, facts, slot)

    def _left_device(self, event: Event, facts: _JobFacts, slot: tuple[int, ...]) -> Iterator[_Line]:
        picked = facts.picked.get(slot, event.at)
        facts.device_s += event.at - picked
        if event.fields.get("shared_with") is not None:
            return  # told with the job that it shares the slot with
        ids = _worker_ids(event)
        job, kind = _plain(event.job or ""), facts.circuit
        span = (
            f"gpu_worker{{worker_id={ids[0]} gpu={event.device} job_id={job} proof_kind={kind} "
            f"batch_size={len(slot)} partition=Some({slot[0]})}}: "
        )
        whole = _ms(event.at - picked)
        yield _Line(
            "info",
            ENGINE,
            _text(
                "GPU_TIMING prove_start returned",
                worker_id=ids[0],
                partition=f"Some({slot[0]})",
                total_pre_prove_ms=whole,
                spawn_blocking_wall_ms=whole,
            ),
            span,
        )
        phases = {f"{phase.value}_ms": _ms(seconds) for phase, seconds in facts.phases.get(slot, {}).items()}
        yield _Line("debug", ENGINE, _text("slot phases", job_id=event.job, partition=_number(slot), **phases))

    def _partition(self, event: Event) -> Iterator[_Line]:
        facts = self._jobs.get(event.job or "") or _JobFacts()  # nothing is remembered of a job that has ended
        about: dict[str, FieldValue] = {"job_id": event.job, "partition": _number(event.partitions)}
        if event.kind is EventKind.PARTITION_DONE:
            facts.done += len(event.partitions)
            size = event.fields.get("bytes")
            facts.bytes += size if isinstance(size, int) else 0
            gpu = event.at - facts.picked.pop(event.partitions, event.at)
            facts.phases.pop(event.partitions, None)
            filled = int(facts.done == facts.partitions)
            active = facts.active.pop(event.partitions, None)
            active_ms = None if active is None else _ms(active)
            message = _text(
                "partition GPU prove complete", **about, gpu_ms=_ms(gpu), gpu_active_ms=active_ms, filled=filled
            )
            yield _Line("info", ENGINE, message)
        elif event.kind is EventKind.PARTITION_FAILED:
            synthesis = event.phase is Phase.SYNTHESIS
            message = "partition synthesis failed" if synthesis else "partition GPU proving failed"
            yield _Line("error", ENGINE, _text(message, error=event.fields.get("error"), **about))
            yield from _detail(event, about)
        elif event.kind is EventKind.PROOF_WITHHELD:
            yield _Line("warn", ENGINE, _text("proof self-check FAILED — proof is invalid", **about, gpu=event.device))
        else:
            yield _Line("debug", ENGINE, _text("partitions cancelled", **about))


def _batch(event: Event, facts: _JobFacts) -> Iterator[_Line]:
    """A job is cut into slots; several jobs of a batch are, each by an event of its own."""
    size, batch = event.fields.get("slot_size"), event.fields.get("batch")
    together = batch if isinstance(batch, int) and batch > 1 else 1
    kind = facts.circuit
    span = f"synth_batch_full{{batch_size={together} proof_kind={kind}}}: "
    if together == 1:
        span = f"synth_single{{proof_kind={kind}}}: "
    message = _text("processing batch", batch_size=together, proof_kind=kind, slot_size=size)
    yield _Line("info", ENGINE, message, span)
    if isinstance(size, int) and 0 < size < facts.partitions:
        message = "dispatching per-partition synthesis (budget-gated)"
        yield _Line("info", ENGINE, _text(message, job_id=event.job, num_partitions=facts.partitions), span)


def _synthesised(event: Event, facts: _JobFacts, seconds: float) -> _Line:
    if len(event.partitions) == 1:
        message = "partition synthesis complete, pushing to GPU queue"
        return _Line(
            "info",
            ENGINE,
            _text(message, job_id=event.job, partition=event.partitions[0], synth_ms=_ms(seconds)),
        )
    return _Line(
        "info",
        ENGINE,
        _text(
            "synthesis complete, sending to GPU",
            synth_ms=_ms(seconds),
            circuit_id=facts.circuit,
            batch_size=len(event.partitions),
            sectors=1,
            job_id=event.job,
        ),
    )


def _knob(event: Event) -> Iterator[_Line]:
    fields = event.fields
    if event.kind is EventKind.KNOB_PROPOSED:
        keys = ("old", "new", "who", "generation")
        yield _Line("info", KNOBS, _text("knob proposed", knob=fields.get("name"), **{k: fields.get(k) for k in keys}))
    elif event.kind is EventKind.KNOB_APPLIED:
        seconds = fields.get("seconds")
        took = _ms(seconds) if isinstance(seconds, float) else None
        value = fields.get("value")
        yield _Line("info", KNOBS, _text("knob in force", knob=fields.get("name"), value=value, after_ms=took))
    elif event.kind is EventKind.KNOB_REFUSED:
        about = {"knob": fields.get("name"), "new": fields.get("new"), "reason": fields.get("reason")}
        yield _Line("warn", KNOBS, _text("knob refused", **about))
    else:
        about = {"worker": event.worker, "generation": fields.get("generation")}
        yield _Line("debug", KNOBS, _text("knobs taken over", **about))


def _engine(event: Event) -> Iterator[_Line]:
    fields = event.fields
    if event.kind is EventKind.ENGINE_STARTED:
        yield _Line("info", ENGINE, _text("starting cuzk engine", pipeline_enabled=True))
        devices, each = fields.get("devices"), fields.get("gpu_workers_per_device")
        workers = devices * each if isinstance(devices, int) and isinstance(each, int) else None
        yield _Line(
            "info",
            ENGINE,
            _text("initializing GPU workers", num_gpus=devices, gpu_workers_per_device=each, total_workers=workers),
        )
        if fields.get("note") is not None:
            yield _Line("warn", ENGINE, _text("devices", note=fields["note"]))
        yield _Line("info", ENGINE, _text("cuzk engine started", num_workers=workers, pipeline=True))
    elif event.kind is EventKind.ENGINE_STOPPED:
        yield _Line("info", ENGINE, "cuzk engine stopped")
    elif event.kind is EventKind.ENGINE_DRAINING:
        yield _Line("info", ENGINE, "draining: no more jobs are taken")
    elif event.kind is EventKind.ENGINE_RESUMED:
        yield _Line("info", ENGINE, "resumed: jobs are taken again")
    elif event.kind is EventKind.WORKER_STARTED and event.device is not None:
        ids = _worker_ids(event)
        yield _Line(
            "info",
            ENGINE,
            _text("pipeline GPU worker started", worker_id=ids[0], gpu=event.device, sub_id=ids[1]),
        )
    elif event.kind is EventKind.DEVICE_LOST:
        yield _Line("error", ENGINE, _text("device lost", gpu=event.device, error=fields.get("error")))
    elif event.kind is EventKind.SLOT_REQUEUED:
        about = {"job_id": event.job, "partition": _number(event.partitions), "gpu": event.device}
        yield _Line("warn", ENGINE, _text("partition is made again", **about, error=fields.get("error")))
        yield from _detail(event, about)
    elif event.kind is EventKind.WORKER_STOPPED:
        error = fields.get("error")
        if error is not None:
            yield _Line("error", ENGINE, _text("worker died", worker=event.worker, error=error))
            yield from _detail(event, {"worker": event.worker})
        elif event.device is not None:
            yield _Line("info", ENGINE, _text("pipeline GPU worker stopped", worker_id=_worker_ids(event)[0]))
    elif event.kind in (EventKind.JOURNAL, EventKind.SPOOL):
        level = "warn" if fields.get("trouble") else "info"
        yield _Line(level, ENGINE, _text(event.kind.value, note=fields.get("line")))
    elif event.kind is EventKind.MEMORY:
        yield _memory(event)
    elif event.kind is EventKind.FIRST_RUN and event.start is not None:
        yield _Line("info", ENGINE, _text("first run", what=fields.get("what"), elapsed_ms=_ms(event.at - event.start)))


def _memory(event: Event) -> _Line:
    """The slot that is next waits for memory, or has it: the daemon's words, in GiB as it counts them."""
    used, total = event.fields.get("used"), event.fields.get("total")
    gib = {name: value >> 30 for name, value in (("used", used), ("total", total)) if isinstance(value, int)}
    if event.fields.get("waits"):
        available = gib["total"] - gib["used"] if len(gib) == 2 else None
        message = "waiting for budget (acquire blocked)"
        what = event.fields.get("what")
        return _Line("debug", MEMORY, _text(message, available_gib=available, total_gib=gib.get("total"), what=what))
    return _Line("debug", MEMORY, _text("budget acquired", used_gib=gib.get("used"), total_gib=gib.get("total")))


def _detail(event: Event, about: Mapping[str, FieldValue]) -> Iterator[_Line]:
    """Where an unforeseen failure was raised, in a line of its own: the line before it stays the daemon's."""
    detail = event.fields.get("detail")
    if detail is not None:
        yield _Line("error", ENGINE, _text("failure detail", **about, detail=detail))


def _worker_ids(event: Event) -> tuple[int, int]:
    """(worker, its number on the device) from a name such as ``gpu0-1``. Eight workers a device are the most."""
    number = (event.worker or "").rpartition("-")[2]
    sub = int(number) if number.isdigit() else 0
    return 8 * (event.device or 0) + sub, sub


def _number(partitions: tuple[int, ...]) -> str:
    """One partition by its number, several as a range."""
    return f"{partitions[0]}" if len(partitions) == 1 else f"{partitions[0]}-{partitions[-1]}" if partitions else ""


def _ms(seconds: float) -> int:
    """Whole milliseconds, cut as the daemon cuts them; a rounding error of the clock's arithmetic cuts none off."""
    return int(seconds * 1000 + 1e-6)


def _text(message: str, **fields: FieldValue) -> str:
    """A message with its fields; absent ones (None) are left out, line breaks never get through."""
    parts = [message]
    for key, value in fields.items():
        if value is not None:
            parts.append(f"{key}={str(value).lower() if isinstance(value, bool) else _plain(str(value))}")
    return " ".join(parts)


def _plain(text: str) -> str:
    """A value as the daemon displays it: no quotes, what cannot be printed escaped; and, other than there, one line."""
    text = " ".join(text.split())
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else f"\\u{{{ord(sign):x}}}" for sign in text)
