"""Watches a folder through watchfiles: one that vanishes, comes back or is replaced too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

_LOOK_MS = 1000
_STEP_MS = 20
_DEBOUNCE_MS = 50

Changed = Callable[[set[str] | None], None]
"""Told the names that changed; None if anything may have."""


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
