"""The engine's own log: each event as a line, in the shape of the daemon's, written by a thread of its own.

The file rotates by size. The console's log pane follows it like any other file: what is on screen is what is on disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from prover.model import Event, EventKind, FieldValue, Phase, Snapshot

LEVELS = ("error", "warn", "info", "debug", "trace")
_EVERY_S = 0.2
"""Events are written in batches: waking for each of thousands a second would cost more than the writing."""
_ROTATE_BYTES = 8 << 20
_KEEP = 5
"""Logs of earlier sessions that are kept."""
_TARGET = "cuzk_top::engine"

_MESSAGE: Mapping[EventKind, tuple[str, str]] = {
    EventKind.ENGINE_STARTED: ("info", "engine started"),
    EventKind.ENGINE_STOPPED: ("info", "engine stopped"),
    EventKind.FIRST_RUN: ("info", "made ready"),
    EventKind.JOB_SUBMITTED: ("info", "job enqueued"),
    EventKind.JOB_STARTED: ("info", "job begins"),
    EventKind.JOB_DONE: ("info", "job done"),
    EventKind.JOB_FAILED: ("error", "job failed"),
    EventKind.JOB_CANCELLED: ("warn", "job cancelled"),
    EventKind.PARTITION_DONE: ("debug", "partition proof delivered"),
    EventKind.PARTITION_FAILED: ("error", "partition failed"),
    EventKind.PARTITION_CANCELLED: ("debug", "partition cancelled"),
    EventKind.PROOF_WITHHELD: ("error", "proof does not verify, withheld"),
    EventKind.KNOB_PROPOSED: ("info", "knob wanted"),
    EventKind.KNOB_APPLIED: ("info", "knob in force"),
    EventKind.KNOB_REFUSED: ("warn", "knob refused"),
    EventKind.KNOB_ACKNOWLEDGED: ("trace", "knob taken over"),
    EventKind.WORKER_STARTED: ("debug", "worker started"),
    EventKind.WORKER_STOPPED: ("debug", "worker stopped"),
    EventKind.PHASE_BEGAN: ("trace", "phase begins"),
}
_SPAN: Mapping[Phase, tuple[str, str]] = {
    Phase.SYNTHESIS: ("info", "partition synthesised"),
    Phase.MSM: ("info", "partition computed"),
    Phase.FINALIZING: ("info", "partition verified"),
}


def event_line(event: Event, epoch: float) -> tuple[str, str]:
    """Level and line of an event. ``epoch``: wall time minus the monotonic clock, seconds."""
    fields: dict[str, FieldValue] = {}
    if event.job is not None:
        fields["job_id"] = event.job
    if len(event.partitions) == 1:
        fields["partition"] = event.partitions[0]
    elif event.partitions:
        fields["partitions"] = f"{event.partitions[0]}-{event.partitions[-1]}"
    length = "ms"
    if event.kind is EventKind.SPAN and event.phase is not None:
        level, message = _SPAN.get(event.phase, ("debug", "phase ends"))
        if event.phase in _SPAN:
            length = f"{event.phase.value}_ms"
        else:
            fields["phase"] = event.phase.value
    else:
        level, message = _MESSAGE.get(event.kind, ("debug", event.kind.value))
        if event.phase is not None:
            fields["phase"] = event.phase.value
    if event.start is not None:
        fields[length] = round((event.at - event.start) * 1000)
    if event.worker is not None:
        fields["worker"] = event.worker
    fields.update({name: value for name, value in event.fields.items() if name not in fields})
    stamp = datetime.fromtimestamp(event.at + epoch, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    tail = "".join(f" {name}={_value(value)}" for name, value in fields.items() if value is not None)
    return level, f"{stamp} {level.upper():>5} {_TARGET}: {message}{tail}"


def _value(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(value).split())


class LogSource(Protocol):
    """What the log is written from."""

    def events(self, since: int) -> Iterable[Event]:
        """Events above a number."""

    def snapshot(self) -> Snapshot:
        """For the level in force."""


class EngineLog:
    """Writes an engine's events to a file until stopped."""

    def __init__(self, source: LogSource, path: Path, rotate_bytes: int = _ROTATE_BYTES) -> None:
        self.path = path
        self.problem: str | None = None
        self._source = source
        self._rotate_bytes = rotate_bytes
        self._epoch = time.time() - time.monotonic()
        self._seq = 0
        self._level = LEVELS.index("info")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine-log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is left and stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(0.3)

    def write(self) -> None:
        """Append what is new."""
        events = list(self._source.events(self._seq))
        if not events:
            return
        if self._seq == 0 or any(event.fields.get("name") == "log_level" for event in events):
            knobs = self._source.snapshot().knobs
            wanted = next((str(knob.wanted) for knob in knobs if knob.name == "log_level"), "info")
            self._level = LEVELS.index(wanted) if wanted in LEVELS else self._level
        self._seq = events[-1].seq
        lines = [line for level, line in (event_line(e, self._epoch) for e in events) if self._shown(level)]
        if not lines:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
                size = file.tell()
            if size > self._rotate_bytes:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            self.problem = None
        except OSError as error:
            self.problem = f"log not written: {self.path}: {error.strerror}"

    def _shown(self, level: str) -> bool:
        return LEVELS.index(level) <= self._level

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self.write()
        self.write()


def session_log(folder: Path) -> Path:
    """The log of this session; logs of earlier ones beyond the newest few are removed."""
    with contextlib.suppress(OSError):
        old = sorted(folder.glob("engine-*.log*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[_KEEP:]:
            path.unlink(missing_ok=True)
    return folder / f"engine-{os.getpid()}.log"
