"""The logs that an operator names: paths, folders, patterns and standard input, each followed by what fits it."""

from __future__ import annotations

import glob
import os
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from console.feeds.logs.follow_file import AT_BEGINNING, PathFollower, Start
from console.feeds.logs.sources import LONGEST, Chunk, FileId, Item, Notice
from console.feeds.logs.sources_family import family_of
from console.feeds.logs.sources_packed import is_packed

STANDARD_INPUT = "-"
MOST_FILES = 256
"""Files that a pattern may open; beyond that the ones written to last."""
_RESCAN_S = 0.5


class Follower(Protocol):
    """One source that is followed."""

    problem: str | None

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""

    def look(self) -> None:
        """Notice what happened."""

    def read(self, limit: int) -> list[Item]:
        """What is new."""

    def finish(self) -> list[Item]:
        """The lines that were never ended."""

    def close(self) -> None:
        """Let go of it."""


class StreamFollower:
    """A pipe, a terminal or a redirected file: read once, as it comes."""

    def __init__(self, fd: int, name: str = "standard input") -> None:
        self.problem: str | None = None
        self.fd = fd
        self.ended = False
        self._name = name
        found = os.fstat(fd)
        self._id = FileId(found.st_dev, found.st_ino, 0, name)
        self._offset = 0
        self._partial = b""

    @property
    def behind(self) -> bool:
        """Whether bytes are waiting."""
        return not self.ended and bool(select.select([self.fd], [], [], 0)[0])

    def look(self) -> None:
        """Nothing happens to a stream but its end, which reading meets."""

    def read(self, limit: int) -> list[Item]:
        """What has come, in whole lines."""
        if not self.behind:
            return []
        data = os.read(self.fd, limit)
        self._offset += len(data)
        joined = self._partial + data
        cut = joined.rfind(b"\n") + 1
        if not data or len(joined) - cut > LONGEST:
            cut = len(joined)
        self._partial = joined[cut:]
        items: list[Item] = []
        if cut:
            items.append(Chunk(self._id, self._offset - len(joined), joined[:cut]))
        if not data:
            self.ended = True
            items.append(Notice(self._name, "ended", f"{self._name} ended"))
        return items

    def finish(self) -> list[Item]:
        """The line that was never ended."""
        partial, self._partial = self._partial, b""
        return [Chunk(self._id, self._offset - len(partial), partial)] if partial else []

    def close(self) -> None:
        """Standard input is not ours to close."""


class LogSet:
    """All that is followed together. New files of a folder or pattern join as they appear, from their beginning."""

    def __init__(self, names: Sequence[str], start: Start, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = start
        self._patterns: list[str] = []
        self._followers: dict[str, Follower] = {}
        self._scanned: float | None = None
        self.stream: StreamFollower | None = None
        for name in names:
            if name == STANDARD_INPUT:
                self.stream = StreamFollower(0)
                self._followers[name] = self.stream
            elif Path(name).is_dir():
                self._patterns.append(str(Path(glob.escape(name)) / "*.log"))
            elif glob.has_magic(name) and not Path(name).exists():
                self._patterns.append(name)
            else:
                self._followers[name] = PathFollower(Path(name), start, clock)

    @property
    def followers(self) -> list[Follower]:
        """What is followed now."""
        return list(self._followers.values())

    @property
    def folders(self) -> list[Path]:
        """Folders in which something may happen."""
        found: dict[Path, None] = {}
        for pattern in self._patterns:
            folder = Path(pattern).parent
            if not glob.has_magic(str(folder)):
                found[folder] = None
        for follower in self._followers.values():
            if isinstance(follower, PathFollower):
                found[follower.path.parent] = None
                found[follower.path.resolve().parent] = None
        return list(found)

    @property
    def problem(self) -> str | None:
        """Why nothing is read of the first source of which nothing is."""
        if not self._followers:
            return f"waits for a file: {', '.join(self._patterns)}"
        return next((one.problem for one in self._followers.values() if one.problem is not None), None)

    def look(self) -> None:
        """Notice what happened to each, and what has joined."""
        now = self._clock()
        if self._patterns and (self._scanned is None or now - self._scanned >= _RESCAN_S):
            self._scan(first=self._scanned is None)
            self._scanned = now
        for follower in self._followers.values():
            follower.look()

    def finish(self) -> list[Item]:
        """The lines that were never ended, of all."""
        return [item for follower in self._followers.values() for item in follower.finish()]

    def close(self) -> None:
        """Let go of everything."""
        for follower in self._followers.values():
            follower.close()

    def _scan(self, first: bool) -> None:
        found = {Path(name) for pattern in self._patterns for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207
        rotated = {
            other for path in found for other in found if other.parent == path.parent and _is_rotated(other, path)
        }
        new: list[tuple[int, Path]] = []
        for path in found - rotated:
            if str(path) in self._followers or (is_packed(path) and self._start.since is None):
                continue
            try:
                there = path.stat()
            except OSError:
                continue
            same = there.st_dev, there.st_ino
            if path.is_file() and not any(isinstance(f, PathFollower) and f.holds(same) for f in self.followers):
                new.append((there.st_mtime_ns, path))
        room = MOST_FILES - len(self._followers)
        for _, path in sorted(new, reverse=True)[: max(0, room)]:
            self._followers[str(path)] = PathFollower(path, self._start if first else AT_BEGINNING, self._clock)


def _is_rotated(name: Path, of: Path) -> bool:
    return family_of(of).fullmatch(name.name) is not None
