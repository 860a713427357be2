"""The recorder: a thread that reads what the console reads, and writes it down. Nobody ever waits for it."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from console.feeds.interfaces import GpuSource
from console.recording.frames import Packer, Record
from console.recording.segments import KEPT, SEGMENT_BYTES, Segments
from console.recording.values import Encoder
from prover.model import DeviceSample, Event, Snapshot

SCHEMA = "cuzk-top/recording/1"
PERIOD_S = 0.1
_PICTURE_S = 0.25
"""How often a picture is taken at most, besides those that somebody is shown."""
_IDLE_S = 1.0
"""How often a picture is taken while nothing happens."""
_FRAME_S = 0.5
_GROUP_S = 30.0
_GROUP_BYTES = 256 << 10
"""Of records: a reader expands a group as a whole, in a fraction of a second."""
_MOST_WAITING = 4 << 20
_RETRY_S = 5.0
_PATIENCE_S = 1.0


class Source(Protocol):
    """What of an engine is recorded."""

    def snapshot(self) -> Snapshot:
        """The picture now."""

    def events(self, since: int) -> Sequence[Event]:
        """Events numbered above ``since``, oldest first."""


class Samples(Protocol):
    """Counters of the machine."""

    def samples(self, since: float) -> tuple[DeviceSample, ...]:
        """Samples after ``since``, oldest first."""


def description(wall_offset_s: float, *, simulated: bool, version: str, machine: str = "host") -> dict[str, Any]:
    """The header of a recording. ``wall_offset_s``: the session's clock at 0 in seconds since 1970."""
    return {
        "schema": SCHEMA,
        "session": uuid.uuid4().hex,
        "wall_offset_s": wall_offset_s,
        "simulated": simulated,
        "machine": machine,
        "version": version,
    }


class Recorder:
    """Takes down events, pictures, samples. ``take`` is one round; the thread does nothing else."""

    def __init__(
        self,
        path: Path,
        source: Source,
        document: dict[str, Any],
        *,
        machine: Samples | None = None,
        gpus: GpuSource | None = None,
        limit: int = SEGMENT_BYTES,
        kept: int = KEPT,
        pace: Callable[[], float] = time.monotonic,
    ) -> None:
        """``pace`` is the clock of the recorder's own habits; what it records has the session's.

        Raises:
            InputError, MachineLacks: if nothing can be written at ``path``.
        """
        self._segments = Segments(path, document, limit, kept)
        self._source = source
        self._machine = machine
        self._gpus = gpus
        self._pace = pace
        self._shown: deque[Snapshot] = deque(maxlen=256)
        self._stop = threading.Event()
        self._closed = False
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._seq = 0
        self._sampled: dict[str, float] = {}
        self._records = bytearray()
        self._retry_at = float("-inf")
        self._picture_at = float("-inf")
        self._changed = False
        """Whether anything happened since the last picture."""
        self._framed_at = float("-inf")
        self._moment = 0.0
        """When samples and cards were looked at."""
        self._since: float | None = None
        """Up to when all is written."""
        self.missed = 0
        """Events that were overwritten before they were read."""
        self.trouble: str | None = None
        """Why nothing is written at the moment, in one line."""
        self._begin_group()

    @property
    def path(self) -> Path:
        """The newest file."""
        return self._segments.path

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what there is, and close. Waits a moment at most: the disk may hang."""
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        if self._thread.ident is None:
            self._round(last=True)
        else:
            self._thread.join(_PATIENCE_S)
        if not self._thread.is_alive():
            self._segments.close()

    def show(self, snapshot: Snapshot) -> None:
        """A picture that somebody was shown: it is recorded, so that a replay has the very same."""
        self._shown.append(snapshot)

    def take(self, *, last: bool = False) -> None:
        """Read what is new; write it if it is time."""
        events = self._source.events(self._seq)
        snapshot = self._source.snapshot()
        now = self._pace()
        for event in events:
            self.missed += event.seq - self._seq - 1 if self._seq else 0
            self._seq = event.seq
            self._put(Record.EVENT, event)
        while self._shown:
            shown = self._shown.popleft()
            self._picture_at = now
            self._put(Record.PICTURE, shown)
        age = now - self._picture_at
        self._changed = self._changed or bool(events)
        if last or age >= _IDLE_S or (self._changed and age >= _PICTURE_S):
            self._changed = False
            self._put(Record.PICTURE, snapshot)
            self._picture_at = now
        self._take_samples(snapshot.at)
        if last or now - self._framed_at >= _FRAME_S:
            self._framed_at = now
            self._write(now, snapshot.at)

    def _take_samples(self, now: float) -> None:
        self._moment = now
        if self._machine is not None:
            self._put_samples("machine", self._machine.samples)
        gpus = self._gpus
        if gpus is None:
            return
        cards = gpus.cards(now)
        for card in cards:
            name = card.identity.uuid
            if name:
                self._put_samples(name, lambda since, name=name: gpus.samples(name, since))  # type: ignore[misc]
                self._put_samples(f"{name}/driver", lambda since, name=name: gpus.driver(name, since))  # type: ignore[misc]
        if cards:
            self._put(Record.CARDS, cards)
        if gpus.census is not None:
            self._put(Record.CENSUS, gpus.census)

    def _put_samples(self, name: str, samples: Callable[[float], tuple[DeviceSample, ...]]) -> None:
        for sample in samples(self._sampled.get(name, float("-inf"))):
            self._sampled[name] = sample.at
            self._put(Record.SAMPLE, sample, name)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _put(self, record: Record, value: Any, name: str = "") -> None:
        key = f"{record}{name}"
        before = self._before.get(key)
        if value is before or (before is not None and record >= Record.CARDS and value == before):
            return
        if record >= Record.SAMPLE and self._before.get("known") != self._moment:
            self._records.append(Record.MOMENT)
            self._encoder.write(self._records, self._moment, None)
            self._before["known"] = self._moment
        self._records.append(record)
        if record is Record.SAMPLE:
            self._encoder.write(self._records, name, None)
        self._encoder.write(self._records, value, before)
        self._before[key] = value

    def _begin_group(self) -> None:
        self._encoder = Encoder()
        self._before: dict[str, Any] = {}
        self._packer = Packer()
        self._group_at: float | None = None
        self._group_bytes = 0

    def _write(self, now: float, until: float) -> None:
        if not self._records or now < self._retry_at:
            self._forget_old()
            return
        since = until if self._since is None else self._since
        self._since = until
        frame = self._packer.pack(since, bytes(self._records))
        try:
            self._segments.append(frame)
        except OSError as error:
            self.trouble = f"not recorded: {self.path}: {error.strerror}: it goes on when that is mended"
            self._retry_at = now + _RETRY_S
            self._restart()
            return
        self.trouble = None
        self._group_at = now if self._group_at is None else self._group_at
        self._group_bytes += len(self._records)
        self._records.clear()
        full = not self._segments.has_room(len(frame))
        if full or now - self._group_at >= _GROUP_S or self._group_bytes >= _GROUP_BYTES:
            if full:
                self._rotate()
            self._restart()

    def _rotate(self) -> None:
        try:
            self._segments.rotate()
        except OSError as error:
            self.trouble = f"recording goes on in one file: {self.path}: {error.strerror}"

    def _restart(self) -> None:
        """A key frame comes next: it holds the picture as it is, whatever was written before."""
        before = self._before
        self._records.clear()
        self._begin_group()
        for record in (Record.PICTURE, Record.CARDS, Record.CENSUS):
            value = before.get(f"{record}")
            if value is not None:
                self._put(record, value)

    def _forget_old(self) -> None:
        """Nothing can be written: what waits does not grow."""
        if len(self._records) > _MOST_WAITING:
            self._restart()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self._round()
        if not self._broken:
            self._round(last=True)

    def _round(self, *, last: bool = False) -> None:
        try:
            self.take(last=last)
        except Exception as error:  # noqa: BLE001 - a recording that fails is told, and harms nothing else
            self._broken = True
            self.trouble = f"recording stopped: {self.path}: {type(error).__name__}: {error}"
            self._stop.set()
