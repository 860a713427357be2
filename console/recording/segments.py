"""The files of a recording: the newest under its name, older ones numbered, the oldest dropped. One writer a name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from console.recording.frames import MAGIC, header
from prover.errors import InputError, MachineLacks

SEGMENT_BYTES = 64 << 20
KEPT = 8


class Segments:
    """Appends frames. A file that grew to ``limit`` bytes is numbered ``.1``, and a new one begun with a key frame."""

    def __init__(self, path: Path, document: Mapping[str, Any], limit: int = SEGMENT_BYTES, kept: int = KEPT) -> None:
        """``document`` is each file's header; ``kept`` files stay beside the newest. A recording that lies at ``path``
        becomes number 1.

        Raises:
            InputError: if something else lies there, or another process writes there.
            MachineLacks: if the file cannot be made.
        """
        self.path = path
        self._head = header(document)
        self._limit = limit
        self._kept = kept
        self._descriptor = -1
        self._size = 0
        try:
            self._take_place()
        except OSError as error:
            raise MachineLacks("cannot record", str(path), error.strerror or "choose another file") from error

    def has_room(self, size: int) -> bool:
        """Whether a frame of this size belongs into this file. If not, the next must be a key frame."""
        return self._size + size <= self._limit or self._size <= len(self._head)

    def append(self, frame: bytes) -> None:
        """Write a frame, whole or not at all.

        Raises:
            OSError: if the disk is full, for instance. The file is then as it was.
        """
        written = 0
        try:
            while written < len(frame):
                written += os.write(self._descriptor, frame[written:])
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += written

    def rotate(self) -> None:
        """Begin a new file. Raises ``OSError``."""
        self._number()
        self._open()

    def close(self) -> None:
        """Close, and let another process have the name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _take_place(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            with self.path.open("rb") as file:
                start = file.read(len(MAGIC))
                if start and not start.startswith(MAGIC[:-2]):
                    raise InputError("file is no recording", str(self.path), "it stays: choose another name")
                try:
                    fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InputError("recording is being written", str(self.path), "choose another name") from None
            if start:
                self._number()
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, self._head)
        except OSError:
            os.close(descriptor)
            raise
        self.close()
        self._descriptor, self._size = descriptor, len(self._head)

    def _number(self) -> None:
        for number in range(self._kept, 0, -1):
            newer = numbered(self.path, number - 1)
            if newer.exists():
                newer.replace(numbered(self.path, number))


def numbered(path: Path, number: int) -> Path:
    """The name of an older file: ``night.rec.2``; number 0 is the newest."""
    return path if number == 0 else path.with_name(f"{path.name}.{number}")
