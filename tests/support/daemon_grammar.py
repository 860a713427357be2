"""A strict reader of the engine's log: the daemon's line, and for each message the fields that it has, in their order.

It knows a message only by what ``MESSAGES`` says of it, and takes nothing that is not said there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
LEVELS = ("ERROR", " WARN", " INFO", "DEBUG", "TRACE")
_LINE = re.compile(
    rf"(?P<stamp>{STAMP}) (?P<level>{'|'.join(LEVELS)}) (?P<mark>SIMULATED: )?"
    r"(?:(?P<span>[a-z_]+)\{(?P<fields>.*?)\}: )?(?P<target>cuzk_top(?:::[a-z_]+)+): (?P<rest>.*)"
)
KINDS = {
    "i": r"-?\d+",
    "b": "true|false",
    "w": r"\S+",
    "t": r".*?",
    "p": r"\d+(?:-\d+)?",
    "m": r"Some\(\d+\)|None",
}
"""What a value may be: number, boolean, word, Display (which may hold blanks), partitions, Debug of one."""


@dataclass(frozen=True)
class Message:
    """``fields`` are ``name:kind``, with ``?`` behind those that may be missing."""

    level: str
    target: str
    text: str
    fields: str = ""
    span: str = ""
    daemon: bool = False
    """Whether the daemon has it too, under ``cuzk_core``."""


ENGINE, SCHEDULER, KNOBS, MEMORY = "engine", "scheduler", "knobs", "memory"
MESSAGES = (
    Message("INFO", ENGINE, "starting cuzk engine", "pipeline_enabled:b", daemon=True),
    Message(
        "INFO",
        ENGINE,
        "initializing GPU workers",
        "num_gpus:i gpu_workers_per_device:i total_workers:i",
        daemon=True,
    ),
    Message("WARN", ENGINE, "devices", "note:t"),
    Message("INFO", ENGINE, "cuzk engine started", "num_workers:i pipeline:b", daemon=True),
    Message("INFO", ENGINE, "pipeline GPU worker started", "worker_id:i gpu:i sub_id:i", daemon=True),
    Message("INFO", ENGINE, "pipeline GPU worker stopped", "worker_id:i", daemon=True),
    Message("INFO", ENGINE, "draining: no more jobs are taken"),
    Message("INFO", ENGINE, "resumed: jobs are taken again"),
    Message("INFO", ENGINE, "cuzk engine stopped"),
    Message("INFO", ENGINE, "first run", "what:t elapsed_ms:i"),
    Message("INFO", SCHEDULER, "job enqueued", "job_id:t proof_kind:t priority:w queue_position:i", daemon=True),
    Message("DEBUG", SCHEDULER, "job has a deadline", "job_id:t left_ms:i"),
    Message("INFO", SCHEDULER, "job reprioritised", "job_id:t old:w new:w"),
    Message("INFO", ENGINE, "job dequeued for proving", "job_id:t proof_kind:t", daemon=True),
    Message("INFO", ENGINE, "processing batch", "batch_size:i proof_kind:t slot_size:i", "synth", daemon=True),
    Message(
        "INFO",
        ENGINE,
        "dispatching per-partition synthesis (budget-gated)",
        "job_id:t num_partitions:i",
        "synth",
        daemon=True,
    ),
    Message(
        "INFO",
        ENGINE,
        "partition synthesis complete, pushing to GPU queue",
        "job_id:t partition:i synth_ms:i",
        daemon=True,
    ),
    Message(
        "INFO",
        ENGINE,
        "synthesis complete, sending to GPU",
        "synth_ms:i circuit_id:t batch_size:i sectors:i job_id:t",
        daemon=True,
    ),
    Message(
        "INFO",
        ENGINE,
        "GPU_TIMING prove_start returned",
        "worker_id:i partition:m total_pre_prove_ms:i spawn_blocking_wall_ms:i",
        "gpu_worker",
        daemon=True,
    ),
    Message(
        "DEBUG",
        ENGINE,
        "slot phases",
        "job_id:t partition:p "
        + " ".join(
            f"{name}_ms:i?"
            for name in ("synthesis", "queued", "lock_wait", "setup", "h2d", "lock_wait", "ntt", "msm", "d2h")
        ),
    ),
    Message(
        "INFO",
        ENGINE,
        "partition GPU prove complete",
        "job_id:t partition:p gpu_ms:i gpu_active_ms:i? filled:i",
        daemon=True,
    ),
    Message(
        "INFO",
        ENGINE,
        "Phase 7: all partitions complete, proof assembled",
        "job_id:t proof_len:i total_ms:i synth_ms:i gpu_ms:i",
        daemon=True,
    ),
    Message("ERROR", ENGINE, "partition synthesis failed", "error:t job_id:t partition:p", daemon=True),
    Message("ERROR", ENGINE, "partition GPU proving failed", "error:t job_id:t partition:p", daemon=True),
    Message("ERROR", ENGINE, "failure detail", "job_id:t? partition:p? gpu:i? worker:w? detail:t"),
    Message("ERROR", ENGINE, "job failed", "job_id:t error:t"),
    Message("WARN", ENGINE, "job cancelled", "job_id:t why:t?"),
    Message("DEBUG", ENGINE, "partitions cancelled", "job_id:t partition:p"),
    Message("WARN", ENGINE, "proof self-check FAILED — proof is invalid", "job_id:t partition:p gpu:i?"),
    Message("WARN", ENGINE, "partition is made again", "job_id:t partition:p gpu:i? error:t"),
    Message("ERROR", ENGINE, "device lost", "gpu:i error:t"),
    Message("ERROR", ENGINE, "worker died", "worker:w error:t"),
    Message("INFO", KNOBS, "knob proposed", "knob:w old:w new:w who:t generation:i"),
    Message("INFO", KNOBS, "knob in force", "knob:w value:w after_ms:i?"),
    Message("WARN", KNOBS, "knob refused", "knob:w new:t reason:t"),
    Message("DEBUG", KNOBS, "knobs taken over", "worker:w generation:i"),
    Message(
        "DEBUG", MEMORY, "waiting for budget (acquire blocked)", "available_gib:i total_gib:i what:t?", daemon=True
    ),
    Message("DEBUG", MEMORY, "budget acquired", "used_gib:i total_gib:i", daemon=True),
    Message("WARN", ENGINE, "journal", "note:t"),
    Message("INFO", ENGINE, "journal", "note:t"),
    Message("WARN", ENGINE, "spool", "note:t"),
    Message("INFO", ENGINE, "spool", "note:t"),
    Message("WARN", ENGINE, "events were lost to the log", "count:i"),
)
_SPANS = {
    "synth_single": "proof_kind:t",
    "synth_batch_full": "batch_size:i proof_kind:t",
    "gpu_worker": "worker_id:i gpu:i job_id:t proof_kind:t batch_size:i partition:m",
}


@dataclass(frozen=True)
class Parsed:
    """A line that is right."""

    at: datetime
    message: Message
    fields: dict[str, str]
    span: dict[str, str]
    simulated: bool


def _pattern(fields: str, lead: str) -> re.Pattern[str]:
    parts = []
    for place, field in enumerate(fields.split()):
        name, _, kind = field.partition(":")
        value = f"{lead if place or lead == ' ' else ''}{name}=(?P<{name}_{place}>{KINDS[kind[0]]})"
        if not place and lead == " ":
            value = f" {name}=(?P<{name}_{place}>{KINDS[kind[0]]})"
        parts.append(f"(?:{value})?" if kind.endswith("?") else value)
    return re.compile("".join(parts))


def _values(pattern: re.Pattern[str], text: str) -> dict[str, str] | None:
    found = pattern.fullmatch(text)
    if found is None:
        return None
    return {name.rpartition("_")[0]: value for name, value in found.groupdict().items() if value is not None}


_FIELDS = {message: _pattern(message.fields, " ") for message in MESSAGES}
_SPAN_FIELDS = {name: re.compile(_pattern(fields, " ").pattern.removeprefix(" ")) for name, fields in _SPANS.items()}


def parse(line: str) -> Parsed:
    """Read a line; ``AssertionError`` says what is wrong with it."""
    assert "\n" not in line and "\r" not in line and line.isprintable(), f"not one printable line: {line!r}"
    found = _LINE.fullmatch(line)
    assert found is not None, f"not the daemon's shape: {line!r}"
    level, target, rest = found["level"].strip(), found["target"].removeprefix("cuzk_top::"), found["rest"]
    for message in MESSAGES:
        if (message.level, message.target) != (level, target) or not rest.startswith(message.text):
            continue
        fields = _values(_FIELDS[message], rest.removeprefix(message.text))
        if fields is None:
            continue
        span = found["span"] or ""
        assert span.startswith(message.span) and bool(span) == bool(message.span), f"wrong span: {line!r}"
        inner = _values(_SPAN_FIELDS[span], found["fields"]) if span else {}
        assert inner is not None, f"wrong fields of the span: {line!r}"
        at = datetime.strptime(found["stamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
        return Parsed(at, message, fields, inner, found["mark"] is not None)
    raise AssertionError(f"no message of the catalogue: {line!r}")
