"""Where log lines come from: bytes with the file and the place that they were read at.

A name is not a file. What a path stands for changes with each rotation, a file changes its name, a truncated file
begins a second life under the same inode, and a freed inode is given to the next file. So bytes carry a ``FileId``
(device, inode and a life's number of our own), and a file is recognised by its inode *and* the bytes at its head.

Nothing here maps a file into memory: a mapped file that is truncated under its reader ends the process (SIGBUS).
"""

from __future__ import annotations

import itertools
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

HEAD = 256
"""Bytes at a file's head that it is recognised by."""
MEMORY = 64
"""Bytes before our place that must still be there when reading on."""
LONGEST = 64 * 1024
"""A line longer than this is handed over in pieces."""

_lives = itertools.count(1)


@dataclass(frozen=True, slots=True)
class FileId:
    """One life of one file: it ends when the file is truncated."""

    device: int
    inode: int
    life: int
    """Counts what this process has opened or seen truncated, so no two are the same."""
    name: str
    """The path that it was opened by; a rotation may have renamed it since."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one file, in order and without a gap.

    They end with a line's end, unless the line is longer than ``LONGEST``, the file ended without one, or the stream
    did: if a next chunk of the same file begins where this one ends, the line goes on there.
    """

    file: FileId
    offset: int
    """Where in the file the first byte is; in what was compressed, of the content."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to a source: ``rotated``, ``truncated``, ``passed over``, ``ended`` or ``unreadable``."""

    source: str
    kind: str
    text: str


Item = Chunk | Notice


class Unreadable(OSError):
    """What is there can't be read as a log; the message says what and why, in one line."""


class Readable(Protocol):
    """A file that is read once, forwards."""

    id: FileId
    offset: int

    def read(self, limit: int) -> bytes:
        """At most so many of the bytes that follow; empty at what is the end for now."""

    def close(self) -> None:
        """Let go of it."""


class OpenFile:
    """A regular file held open: what it was named is of no account any more."""

    def __init__(self, path: Path) -> None:
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise Unreadable(f"{path.name}: not a regular file")
        self._begin(fd, FileId(found.st_dev, found.st_ino, next(_lives), str(path)))

    def _begin(self, fd: int, identity: FileId) -> None:
        self.fd = fd
        self.id = identity
        self.offset = 0
        self.head = b""
        """The first bytes as they were when they, or what follows them, were read."""
        self.before = b""
        self.seen_mtime = 0
        """When it, or what it replaced, had last been written to as the last look began, in ns."""

    def next_life(self) -> OpenFile:
        """The same file after its truncation, from its beginning; this object keeps a place in what is gone."""
        other = OpenFile.__new__(OpenFile)
        other._begin(os.dup(self.fd), FileId(self.id.device, self.id.inode, next(_lives), self.id.name))
        return other

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.fd)

    @property
    def size(self) -> int:
        """Its length now."""
        return os.fstat(self.fd).st_size

    @property
    def same(self) -> tuple[int, int]:
        """Device and inode."""
        return self.id.device, self.id.inode

    def peek_head(self) -> bytes:
        """Its first bytes now."""
        return os.pread(self.fd, HEAD, 0)

    def move_to(self, offset: int) -> None:
        """Read on from there; what is before it counts as read."""
        self.head = os.pread(self.fd, min(HEAD, offset), 0)
        first = max(0, offset - MEMORY)
        self.before = os.pread(self.fd, offset - first, first)
        self.offset = offset

    def rewind(self) -> None:
        """Nothing is read yet."""
        self.offset, self.head, self.before = 0, b"", b""

    def rewritten(self) -> bool:
        """Whether what was read is no longer what is there: truncated, and perhaps grown past our place since."""
        if self.size < self.offset or os.pread(self.fd, len(self.head), 0) != self.head:
            return True
        return os.pread(self.fd, len(self.before), self.offset - len(self.before)) != self.before

    def continues(self, other: OpenFile) -> bool:
        """Whether this holds what ``other`` had read and more: a copy made before ``other`` was truncated."""
        if not other.head or self.peek_head()[: len(other.head)] != other.head or self.size < other.offset:
            return False
        return os.pread(self.fd, len(other.before), other.offset - len(other.before)) == other.before

    def read(self, limit: int) -> bytes:
        """What follows; nothing if the bytes before our place have changed, which is ``rewritten``'s to tell."""
        memory = len(self.before)
        # One call for the memory and the news: a truncation between two calls would go unseen.
        data = os.pread(self.fd, memory + limit, self.offset - memory)
        if data[:memory] != self.before:
            return b""
        news = data[memory:]
        if len(self.head) == self.offset < HEAD:
            self.head += news[: HEAD - self.offset]
        self.offset += len(news)
        self.before = data[-MEMORY:]
        return news

    def skip_hole(self) -> None:
        """Pass over what was never written: a truncated file whose writer kept its old place begins with a hole."""
        try:
            data = os.lseek(self.fd, self.offset, os.SEEK_DATA)
        except OSError:  # no data behind our place, or the file system knows no holes
            return
        if data > self.offset:
            self.move_to(data)
