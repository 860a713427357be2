"""A spool's folder as a whole: watched through watchfiles, and held against other processes. It may vanish, come back
or be replaced by another of its name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

_LOOK_MS = 1000
_STEP_MS = 20
_DEBOUNCE_MS = 50

Changed = Callable[[set[str] | None], None]
"""Told the names that changed; None if anything may have."""


class FolderClaim:
    """A lock on the folder itself, for as long as it is there: two processes would prove everything twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def hold(self) -> bool:
        """Whether the folder that now bears the name is ours, or could be. A file system without locks has none."""
        if self._descriptor is not None and self._is_it(self._descriptor):
            return True
        self.release()
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(descriptor)
                return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let it go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_it(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._folder.stat(), os.fstat(descriptor))
        except OSError:
            return False


class FolderWatch:
    """A thread that tells what changed in a folder, not below it."""

    def __init__(self, folder: Path, changed: Changed) -> None:
        self._folder = folder
        self._changed = changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spool-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        from watchfiles import watch

        while not self._stop.is_set():
            there = self._identity()
            if there is None:
                self._stop.wait(_LOOK_MS / 1000)
                continue
            changes = watch(
                self._folder,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=self._stop,
                rust_timeout=_LOOK_MS,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
            )
            self._changed(None)
            try:
                for found in changes:
                    if found:
                        self._tell({path for _, path in found})
                    if self._identity() != there:
                        break
            except OSError:  # the folder went away, or the system has no watches left: looked at without
                self._stop.wait(_LOOK_MS / 1000)
            self._changed(None)

    def _tell(self, paths: set[str]) -> None:
        lossy = any("\ufffd" in path for path in paths)  # a name that is no UTF-8
        self._changed(None if lossy else {path.rpartition("/")[2] for path in paths})

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._folder.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
