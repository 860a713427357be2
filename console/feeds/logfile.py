"""A growing log file, followed: new lines as they come, through rotation, truncation and a file that is not there yet.

One thread waits for the file system to report a change in the file's folder (watchfiles), and looks by itself once
a second for file systems that report nothing. It keeps the file open, so that the last lines before a rename are not
lost, and remembers the bytes before its position: if they have changed, the file was rewritten even though it did not
shrink.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from pathlib import Path

_TAIL = 256 * 1024
"""Bytes of an existing file that are shown when it is opened."""
_CHUNK = 1 << 20
_MOST = 16 * _CHUNK
"""Further behind than this, all but the tail is passed over: nobody could read it, and it must not fill memory."""
_MEMORY = 64
_LONGEST = 64 * 1024
"""A line longer than this is cut in pieces."""
_LOOK_MS = 1000


class LogReader:
    """Reads what is new in one path. No thread of its own: ``read`` is called when something may have changed."""

    def __init__(self, path: Path, tail: int = _TAIL) -> None:
        self.path = path
        self._tail = tail
        self._fd: int | None = None
        self._offset = 0
        self._before = b""
        self._partial = b""
        self._opened_once = False
        self.problem: str | None = None

    def read(self) -> list[str]:
        """Complete lines that are new; a line in angle brackets tells of a rotation or a truncation."""
        lines: list[str] = []
        if self._fd is None and not self._open():
            return lines
        if self._rewritten():
            lines += self._finish_partial()
            lines.append("<log truncated>")
            self._offset, self._before = 0, b""
        lines += self._drain()
        if self._replaced():
            lines += self._drain()  # what came before the rename
            lines += self._finish_partial()
            self.close()
            if self._open():
                lines.append("<log rotated>")
                lines += self._drain()
        return lines

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> bool:
        try:
            # O_NONBLOCK: opening a pipe must not wait for its writer.
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self.problem = f"waits for the file to appear: {self.path}"
            return False
        except OSError as error:
            self.problem = f"{self.path.name}: {error.strerror}"
            return False
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            self.problem = f"{self.path.name}: not a regular file"
            return False
        self.problem = None
        self._offset, self._before, self._partial = 0, b"", b""
        if not self._opened_once:
            self._opened_once = True
            self._skip_to_tail()
        return True

    def _skip_to_tail(self) -> None:
        assert self._fd is not None
        size = os.fstat(self._fd).st_size
        if size - self._offset <= self._tail:
            return
        self._offset = size - self._tail
        self._before = b""
        head = os.pread(self._fd, self._tail, self._offset)
        cut = head.find(b"\n") + 1
        self._offset += cut

    def _rewritten(self) -> bool:
        assert self._fd is not None
        if os.fstat(self._fd).st_size < self._offset:
            return True
        if not self._before:
            return False
        return os.pread(self._fd, len(self._before), self._offset - len(self._before)) != self._before

    def _replaced(self) -> bool:
        assert self._fd is not None
        try:
            there = self.path.stat()
        except OSError:
            return False  # renamed, and the new file has not come yet: stay with the old one
        ours = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _drain(self) -> list[str]:
        assert self._fd is not None
        lines: list[str] = []
        behind, end = self._offset, os.fstat(self._fd).st_size
        if end - behind > _MOST:
            lines += self._finish_partial()
            self._skip_to_tail()
            lines.append(f"<{self._offset - behind} bytes passed over>")
        # No further than the end as it was: a writer faster than this loop is met again at the next look.
        while self._offset < end and (chunk := os.pread(self._fd, min(_CHUNK, end - self._offset), self._offset)):
            self._offset += len(chunk)
            self._before = (self._before + chunk)[-_MEMORY:]
            *whole, self._partial = (self._partial + chunk).split(b"\n")
            lines += [_text(line) for line in whole]
            if len(self._partial) > _LONGEST:
                lines += self._finish_partial()
        return lines

    def _finish_partial(self) -> list[str]:
        partial, self._partial = self._partial, b""
        return [_text(partial)] if partial else []


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


class LogFollower:
    """Follows one path in a thread; ``take`` hands over what came since the last call."""

    def __init__(self, path: Path, limit: int = 20_000) -> None:
        self.path = path
        self._reader = LogReader(path)
        self._lines: deque[str] = deque(maxlen=limit)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why nothing is shown, if nothing is."""
        return self._reader.problem

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self, timeout_s: float = 0.2) -> None:
        """Ask the thread to end, and wait a moment for it."""
        self._stop.set()
        if timeout_s > 0 and self._thread.is_alive():
            self._thread.join(timeout_s)

    def take(self) -> list[str]:
        """Lines that came since the last call, oldest first; only the newest are kept if nobody asks for long."""
        lines: list[str] = []
        while self._lines:
            lines.append(self._lines.popleft())
        return lines

    def _run(self) -> None:
        self._look()
        from watchfiles import watch

        while not self._stop.is_set():
            folder = self.path.parent
            if not folder.is_dir():
                self._reader.problem = f"waits for the folder to appear: {folder}"
                self._stop.wait(_LOOK_MS / 1000)
                self._look()
                continue
            changes = watch(
                folder,
                watch_filter=None,
                debounce=100,
                step=20,
                stop_event=self._stop,
                rust_timeout=_LOOK_MS,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
            )
            try:
                for _ in changes:
                    self._look()
            except OSError as error:  # the folder went away, or the system has no watches left
                self._reader.problem = f"{folder}: {error.strerror or error}"
                self._stop.wait(_LOOK_MS / 1000)
        self._reader.close()

    def _look(self) -> None:
        try:
            lines = self._reader.read()
        except OSError as error:
            self._reader.problem = f"{self.path.name}: {error.strerror}"
            self._reader.close()
            return
        self._lines.extend(lines)
