"""Compressed history: ``.gz`` and ``.zst`` files as streams of their content, in bounded memory."""

from __future__ import annotations

import gzip
import importlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from console.feeds.logs.follow_stamps import stamp_at
from console.feeds.logs.sources import LONGEST, FileId, OpenFile, Unreadable

SUFFIXES = (".gz", ".zst")


def is_packed(path: Path) -> bool:
    """Whether its name says that it is compressed."""
    return path.suffix in SUFFIXES


def _zstandard() -> tuple[Callable[[IO[bytes]], Any], type[Exception]]:
    """Python's own module where there is one (3.14), else the ``zstandard`` package."""
    try:
        own = importlib.import_module("compression.zstd")
        return own.ZstdFile, own.ZstdError
    except ImportError:
        pass
    try:
        package = importlib.import_module("zstandard")
    except ImportError as error:
        raise Unreadable("zst: needs the package zstandard: pip install 'cuzk-top[zst]'") from error
    return (
        lambda raw: package.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False),
        package.ZstdError,
    )


class PackedFile:
    """The content of a compressed file, read once, forwards. A file cut off in the middle ends there."""

    def __init__(self, path: Path) -> None:
        file = OpenFile(path)
        found = os.fstat(file.fd)
        self.id: FileId = file.id
        self.size = found.st_size
        """Compressed."""
        self.mtime = found.st_mtime_ns
        self.since: float | None = None
        """Lines before this time are passed over, when reading begins."""
        self.offset = 0
        self.problem: str | None = None
        self._raw = os.fdopen(file.fd, "rb")
        self._kept = b""
        self._errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
        try:
            if path.suffix == ".zst":
                opened, error = _zstandard()
                self._errors += (error,)
                self._stream: Any = opened(self._raw)
            else:
                self._stream = gzip.GzipFile(fileobj=self._raw, mode="rb")
        except Unreadable as problem:
            self._raw.close()
            raise Unreadable(f"{path.name}: {problem}") from problem

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()

    def peek_head(self, size: int) -> bytes:
        """The first bytes of the content; for before anything is read."""
        if len(self._kept) < size:
            self._kept += self._more(size - len(self._kept))
        return self._kept[:size]

    def read(self, limit: int) -> bytes:
        """What follows of the content; empty at its end, for good."""
        if self.since is not None:
            since, self.since = self.since, None
            self._skip_before(since)
        data, self._kept = self._kept[:limit], self._kept[limit:]
        if not data:
            data = self._more(limit)
        self.offset += len(data)
        return data

    def skip_to(self, offset: int) -> None:
        """Pass over the content before a place."""
        while self.offset < offset and self.read(min(LONGEST, offset - self.offset)):
            pass

    def _skip_before(self, stamp: float) -> None:
        """Pass over the lines before a time, a piece at a time."""
        while data := self.read(LONGEST):
            if b"\n" not in data[-1:] and (rest := self._line_rest()):
                data += rest
            place = 0
            while place < len(data):
                found = stamp_at(data[place : place + 1024])
                if found is not None and found >= stamp:
                    self._kept = data[place:] + self._kept
                    self.offset -= len(data) - place
                    return
                place = data.find(b"\n", place) + 1 or len(data)

    def _line_rest(self) -> bytes:
        """What is left of the line that a piece ended in, if it is not too long."""
        more = self.read(LONGEST)
        cut = more.find(b"\n") + 1 or len(more)
        self._kept = more[cut:] + self._kept
        self.offset -= len(more) - cut
        return more[:cut]

    def _more(self, limit: int) -> bytes:
        if self.problem is not None:
            return b""
        try:
            return bytes(self._stream.read(limit))
        except self._errors as error:
            self.problem = f"{Path(self.id.name).name}: cut off or damaged: {error}"
            return b""
