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
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise MachineLacks("cannot write the log", str(folder), error.strerror or "check the folder") from error

    def write(self, lines: Iterable[str]) -> None:
        """Append whole lines in one write."""
        data = "".join(f"{line}\n" for line in lines).encode()
        if not data:
            return
        if self._size and self._size + len(data) > self._limit:
            self._rotate()
        os.write(self._descriptor, data)
        self._size += len(data)

    def close(self) -> None:
        """Close, and let another process have the name."""
        os.close(self._descriptor)

    def _open(self) -> None:
        self.path, self._descriptor = _claim(self._folder, self._stem)
        self._size = os.fstat(self._descriptor).st_size

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
        self._stopping = False
        self._seq = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self.trouble: str | None = None
        """Why nothing is written any more, in one line."""

    @property
    def path(self) -> Path:
        """The file that grows."""
        return self._file.path

    def start(self) -> None:
        """Begin to write, from the first event that is still there."""
        self._thread.start()

    def stop(self) -> None:
        """Write what there is, and close the file."""
        self._stopping = True
        self._bell.set()
        self._thread.join()
        self._events.unsubscribe(self._bell)
        self._file.close()

    def _run(self) -> None:
        while self.trouble is None:
            self._bell.wait()
            self._bell.clear()
            last = self._stopping
            try:
                self._file.write(self._pending())
            except OSError as error:
                self.trouble = f"the log is no longer written: {self.path}: {error.strerror}"
            if last:
                return

    def _pending(self) -> list[str]:
        level = self._level()
        lines: list[str] = []
        for event in self._events.since(self._seq):
            missed = event.seq - self._seq - 1
            if missed:
                lines.append(self._format.missed(event.at, missed))
            self._seq = event.seq
            lines += self._format.lines(event, level)
        return lines
