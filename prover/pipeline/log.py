"""The engine's log: a file that is rotated, and the thread that writes events to it as lines. No worker ever does."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from prover.errors import MachineLacks
from prover.pipeline.events import EventLog
from prover.pipeline.log_format import LEVELS, LineFormat

__all__ = ["LEVELS", "LineFormat", "LogFile", "LogWriter"]


RETRY_S = 1.0
"""Pause before a log that could not be written is tried again."""


class LogFile:
    """A file that is rotated by size: ``engine.log``, then ``engine.log.1`` and so on, the oldest dropped.

    Its writer keeps it locked, so a second process gets ``engine-2.log``; the lock goes with the process, however that
    ends, and nothing is left behind.
    """

    LIMIT_BYTES = 8 * 2**20
    KEPT = 3

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES, stem: str = "engine") -> None:
        """``stem`` is the file's name without its ending."""
        self._folder = folder
        self._stem = stem
        self._limit = limit_bytes
        self._torn: bool = False
        """Whether its last line is cut short."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise MachineLacks("cannot write the log", str(folder), error.strerror or "check the folder") from error

    def write(self, lines: Iterable[str]) -> None:
        """Append whole lines in one write. Raises ``OSError``; what of them is in the file then is ended as a line by
        the next call.
        """
        data = "".join(f"{line}\n" for line in lines).encode()
        if not data:
            return
        if self._size and self._size + len(data) > self._limit:
            self._rotate()
        if self._torn:
            data = b"\n" + data
        while data:
            written = os.write(self._descriptor, data)
            self._torn = not data[:written].endswith(b"\n") if written else self._torn
            self._size += written
            data = data[written:]

    def close(self) -> None:
        """Close, and let another process have the name."""
        os.close(self._descriptor)

    def _open(self) -> None:
        self.path, self._descriptor = _claim(self._folder, self._stem)
        self._size = os.fstat(self._descriptor).st_size
        self._torn = False

    def _rotate(self) -> None:
        for number in range(self.KEPT, 0, -1):
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(self.path.with_name(f"{self.path.name}.{number}"))
        os.close(self._descriptor)
        self._open()


def _claim(folder: Path, stem: str) -> tuple[Path, int]:
    """The first log file that no living process writes, opened and locked."""
    for number in range(1, 1000):
        path = folder / (f"{stem}.log" if number == 1 else f"{stem}-{number}.log")
        while True:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                break
            if _is(path, descriptor):
                return path, descriptor
            os.close(descriptor)  # its writer rotated it between our opening and locking it
    raise OSError(0, "a thousand processes log there")


def _is(path: Path, descriptor: int) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


class LogWriter:
    """The thread that turns events into lines of a file. Workers never wait for it; what it misses it says."""

    def __init__(
        self, events: EventLog, file: LogFile, level: Callable[[], str], wall_offset_s: float, simulated: bool = False
    ) -> None:
        self._events = events
        self._file = file
        self._level = level
        self._format = LineFormat(wall_offset_s, simulated)
        self._bell = events.subscribe()
        self._stopping = threading.Event()
        self._seq = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self.trouble: str | None = None
        """Why nothing is written for now, in one line; it is tried again until it goes."""

    @property
    def path(self) -> Path:
        """The file that grows."""
        return self._file.path

    def start(self) -> None:
        """Begin to write, from the first event that is still there."""
        self._thread.start()

    def stop(self) -> None:
        """Write what there is, and close the file."""
        self._stopping.set()
        self._bell.set()
        self._thread.join()
        self._events.unsubscribe(self._bell)
        self._file.close()

    def _run(self) -> None:
        lost = 0
        while True:
            if self.trouble is None:
                self._bell.wait()
            else:
                self._stopping.wait(RETRY_S)
            self._bell.clear()
            last = self._stopping.is_set()
            at, lines = self._pending()
            if self.trouble is not None and not lines and not last:
                continue  # nothing that would show whether it goes again
            told = [self._format.missed(at, lost), *lines] if lost and lines else lines
            try:
                self._file.write(told)
            except OSError as error:
                lost += len(lines)
                self.trouble = f"the log cannot be written: {self.path}: {error.strerror}"
            else:
                lost = 0 if told is not lines else lost
                self.trouble = None
            if last:
                return

    def _pending(self) -> tuple[float, list[str]]:
        """The lines of events that came, and the time of the first of these."""
        level = self._level()
        lines: list[str] = []
        events = self._events.since(self._seq)
        for event in events:
            missed = event.seq - self._seq - 1
            if missed:
                lines.append(self._format.missed(event.at, missed))
            self._seq = event.seq
            lines += self._format.lines(event, level)
        return events[0].at if events else 0.0, lines
