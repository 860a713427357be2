"""One path, followed through everything that happens to log files.

``look`` compares what the path stands for with what is held open, ``read`` hands over bytes. The file held is read to
its end whatever its name is by then; what came and went since the last look is put between it and its successor. A copy
made before a truncation is read on from where the original was left.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from console.feeds.logs.follow_family import Family, Stranger, key_of
from console.feeds.logs.follow_stamps import seek_stamp
from console.feeds.logs.sources import LONGEST, Chunk, Item, Notice, OpenFile, Unreadable
from console.feeds.logs.sources_packed import PackedFile, is_packed

TAIL = 256 * 1024
"""Bytes of an existing file that are handed over when following starts at its end."""
_READ = 256 * 1024
_MOST_OPEN = 200
"""Files of one chain of rotations that are held open; older ones are passed over, and said to be."""
_MOST_LINGERING = 32
_LINGER_S = 10.0
"""How long a renamed file is watched for late writes: a daemon goes on with it until it is told to reopen."""
_ROUNDS = 8
_LAST: tuple[int, float, int] = (1 << 63, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Start:
    """Where following starts in what exists: a tail of so many bytes, or the first line at or after a time."""

    tail: int = TAIL
    since: float | None = None


AT_END = Start()
AT_BEGINNING = Start(tail=1 << 62)
"""From the beginning of the file that is there; what was rotated before is left out."""


@dataclass(slots=True)
class _Part:
    """A file to be read, and the piece of a line that it has ended with so far."""

    file: OpenFile | PackedFile
    notice: Notice | None = None
    partial: bytes = b""
    gone: bool = False
    """Its text was overwritten: only what is kept here is left."""
    left_at: float = 0.0

    def read(self, limit: int) -> bytes:
        return b"" if self.gone else self.file.read(limit)

    def cut(self, data: bytes) -> Chunk | None:
        """The whole lines among what is kept and ``data``, which was just read."""
        joined = self.partial + data
        whole = joined.rfind(b"\n") + 1
        if len(joined) - whole > LONGEST:
            whole = len(joined)
        begin = self.file.offset - len(joined)
        self.partial = joined[whole:]
        return Chunk(self.file.id, begin, joined[:whole]) if whole else None

    def finish(self) -> Chunk | None:
        """The line that was never ended."""
        partial, self.partial = self.partial, b""
        return Chunk(self.file.id, self.file.offset - len(partial), partial) if partial else None


class PathFollower:
    """Follows one path. No thread of its own: ``look`` and ``read`` are called when something may have changed."""

    def __init__(self, path: Path, start: Start = AT_END, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.problem: str | None = None
        """Why nothing is read, if nothing is."""
        self._start: Start | None = start
        self._clock = clock
        self._family = Family(path)
        self._parts: deque[_Part] = deque()
        """In the order of reading; the last one is the file that the path stood for at the last look."""
        self._live: OpenFile | None = None
        self._lingering: deque[_Part] = deque()
        self._notices: list[Item] = []
        self._copied = False
        """Whether names came or went while the first bytes of the live file were read."""

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        if len(self._parts) > 1 or self._live is None:
            return bool(self._parts or self._notices)
        return self._live.size > self._live.offset

    def holds(self, same: tuple[int, int]) -> bool:
        """Whether the path stands for this file (device and inode)."""
        return self._live is not None and self._live.same == same

    def close(self) -> None:
        """Let go of all files."""
        for part in (*self._parts, *self._lingering):
            part.file.close()
        self._parts.clear()
        self._lingering.clear()
        self._live = None

    def finish(self) -> list[Item]:
        """The lines that were never ended, when the stream is to end."""
        return [piece for part in self._parts if (piece := part.finish()) is not None]

    def pass_over(self, keep: int) -> None:
        """If more than ``keep`` bytes of the newest file are unread, go to its last lines, and say so."""
        live = self._live
        if live is None or len(self._parts) > 1 or live.size - live.offset <= keep:
            return
        part = self._parts[0]
        if (piece := part.finish()) is not None:
            self._notices.append(piece)
        before = live.offset
        self._move_to_tail(live, TAIL)
        self._notices.append(Notice(str(self.path), "passed over", f"{live.offset - before} bytes passed over"))

    # What the path stands for

    def look(self) -> None:
        """Notice what happened since the last look."""
        if self._live is None and is_packed(self.path):
            self._look_packed()
            return
        # What is written from here on is seen by this look or by the next one.
        begun = os.fstat(self._live.fd).st_mtime_ns if self._live is not None else 0
        for _ in range(_ROUNDS):
            if not self._look_once():
                break
        if self._live is not None and begun:
            self._live.seen_mtime = begun

    def _look_once(self) -> bool:
        live = self._live
        if live is None:
            self._open_first()
            return False
        if live.rewritten():
            self._truncated(live)
            return True
        try:
            there = self.path.stat()
        except OSError:
            return False  # renamed, and the new file has not come yet: stay with the old one
        if (there.st_dev, there.st_ino) != live.same:
            return self._rotated(live)
        if live.offset == 0 and (self._family.folder_changed() or self._copied):
            self._copied = False
            # Nothing is read of it, so its text cannot tell of a truncation: only the copies that were made do.
            part = self._parts.pop()
            self._insert_strangers(live, live)
            self._parts.append(part)
        return False

    def _open(self) -> OpenFile | None:
        try:
            file = OpenFile(self.path)
        except FileNotFoundError:
            self.problem = f"waits for the file to appear: {self.path}"
            return None
        except Unreadable as error:
            self.problem = str(error)
            return None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            self.problem = f"{self.path.name}: {error.strerror}"
            return None
        self.problem = None
        return file

    def _open_first(self) -> None:
        live = self._open()
        start = self._start
        if live is None:
            if start is not None and start.since is None:
                # Whatever comes from now on is new, however often it is rotated before we see it.
                self._family.remember_all(None)
                self._start = None
            return
        self._start = None
        self._family.folder_changed()
        live.seen_mtime = os.fstat(live.fd).st_mtime_ns
        if start is None:
            self._insert_strangers(None, live)
        elif start.since is not None:
            self._queue_history(live, start.since)
            live.move_to(seek_stamp(live.fd, live.size, start.since))
        else:
            self._family.remember_all(live.same)
            self._move_to_tail(live, start.tail)
        self._go_live(live, None)

    def _go_live(self, live: OpenFile, notice: Notice | None) -> None:
        live.skip_hole()
        self._live = live
        self._parts.append(_Part(live, notice))

    def _move_to_tail(self, live: OpenFile, tail: int) -> None:
        size = live.size
        if size <= tail:
            return
        # One byte more: if it ends a line, the tail begins with a whole one.
        block = os.pread(live.fd, min(tail + 1, TAIL), size - tail - 1)
        live.move_to(size - tail + block.find(b"\n"))

    def _queue_history(self, live: OpenFile, since: float) -> None:
        for stranger in self._family.strangers(int(since * 1e9), {live.same}, _MOST_OPEN):
            file = stranger.file
            head = b"" if isinstance(file, PackedFile) else stranger.head()
            self._family.remember(stranger.same, head, stranger.size)
            if isinstance(file, PackedFile):
                file.since = since
            else:
                file.move_to(seek_stamp(file.fd, stranger.size, since))
            self._parts.append(_Part(file))

    def _look_packed(self) -> None:
        start, self._start = self._start, None
        if start is None:
            return
        try:
            file = PackedFile(self.path)
        except FileNotFoundError:
            self._start = start
            self.problem = f"waits for the file to appear: {self.path}"
        except OSError as error:
            self.problem = str(error) if isinstance(error, Unreadable) else f"{self.path.name}: {error.strerror}"
        else:
            self.problem = None
            file.since = start.since
            self._parts.append(_Part(file))

    # What came between

    def _rotated(self, live: OpenFile) -> bool:
        fresh = self._open()
        if fresh is None:
            if self.path.exists():
                self._live = None  # a folder or a device took the name
            return False
        if fresh.same == live.same:
            fresh.close()
            return False
        fresh.seen_mtime = live.seen_mtime
        self._insert_strangers(live, fresh)
        self._go_live(fresh, Notice(str(self.path), "rotated", "log rotated"))
        return True

    def _truncated(self, live: OpenFile) -> None:
        old = self._parts[-1]
        old.gone = True
        fresh = live.next_life()
        fresh.seen_mtime = live.seen_mtime
        self._insert_strangers(live, fresh)
        self._go_live(fresh, Notice(str(self.path), "truncated", "log truncated"))

    def _insert_strangers(self, old: OpenFile | None, fresh: OpenFile) -> None:
        """Queue what came after ``old``, which is queued if there is one, and before ``fresh``, which is not."""
        taken = {(part.file.id.device, part.file.id.inode) for part in (*self._parts, *self._lingering)}
        found = self._family.strangers(old.seen_mtime if old else 0, {*taken, fresh.same}, _MOST_OPEN)
        limit = key_of(fresh)
        text = fresh.peek_head() if old is None or fresh.same == old.same else old.peek_head()
        for stranger in found:
            # What comes after the fresh file is met at the next look.
            if stranger.key > limit or not self._queue_stranger(stranger, old, fresh, text):
                stranger.file.close()

    def _queue_stranger(self, stranger: Stranger, old: OpenFile | None, fresh: OpenFile, text: bytes) -> bool:
        file, head = stranger.file, stranger.head()
        notice: Notice | None = Notice(str(self.path), "rotated", "log rotated")
        partial = b""
        if not head:
            return False
        truncated = old is not None and old is not fresh and old.same == fresh.same
        if old and truncated and old.head and head.startswith(old.head) and self._continue_copy(file, old):
            # The copy goes on with the line that the original was left in.
            before = self._parts[-1]
            if before.file is old:
                partial, before.partial = before.partial, b""
            notice = None
        elif text.startswith(head):
            if old is not None and old.same != fresh.same:
                self._family.remember(stranger.same, head, stranger.size)
            return False  # a copy of what is read from the original
        elif read_to := self._family.read_to(stranger, head):
            if stranger.size <= read_to or isinstance(file, PackedFile):
                return False
            file.move_to(read_to)
        self._family.remember(stranger.same, head, stranger.size)
        self._parts.append(_Part(file, notice, partial))
        return True

    def _continue_copy(self, file: OpenFile | PackedFile, old: OpenFile) -> bool:
        if isinstance(file, PackedFile):
            file.skip_to(old.offset)
            return True
        if not file.continues(old):
            return False
        file.move_to(old.offset)
        return True

    # Reading

    def read(self, limit: int = _READ) -> list[Item]:
        """What is new: whole lines, about ``limit`` bytes of them at most, and what happened in between."""
        items, self._notices = self._notices, []
        items += self._read_late(limit)
        while limit > 0 and self._parts:
            part = self._parts[0]
            if part.notice is not None:
                items.append(part.notice)
                part.notice = None
            first = part.file is self._live and part.file.offset == 0
            data = part.read(min(limit, _READ))
            if data and first and self._family.folder_changed():
                # These may be of a life after one that nothing was read of, and that only a copy holds now.
                self._live_again()
                break
            if data:
                limit -= len(data)
                if (piece := part.cut(data)) is not None:
                    items.append(piece)
            elif part.file is self._live:
                break
            else:
                items += self._leave(self._parts.popleft())
        return items

    def _live_again(self) -> None:
        if self._live is not None:
            self._live.rewind()
            self._copied = True

    def _leave(self, part: _Part) -> list[Item]:
        items: list[Item] = []
        if (piece := part.finish()) is not None:
            items.append(piece)
        if isinstance(part.file, PackedFile):
            if part.file.problem is not None:
                items.append(Notice(str(self.path), "unreadable", part.file.problem))
            part.file.close()
        elif part.gone:
            part.file.close()
        else:
            part.left_at = self._clock()
            self._lingering.append(part)
            if len(self._lingering) > _MOST_LINGERING:
                self._let_go(self._lingering.popleft())
        return items

    def _let_go(self, part: _Part) -> None:
        if isinstance(part.file, OpenFile):
            self._family.remember(part.file.same, part.file.peek_head(), part.file.offset)
        part.file.close()

    def _read_late(self, limit: int) -> list[Item]:
        """Late writes to files that were renamed, each line at once: its writer may never come back."""
        items: list[Item] = []
        now = self._clock()
        for _ in range(len(self._lingering)):
            part = self._lingering.popleft()
            data = part.read(limit)
            if data:
                limit -= len(data)
                part.left_at = now
                items += [piece for piece in (part.cut(data), part.finish()) if piece is not None]
            if now - part.left_at > _LINGER_S:
                self._let_go(part)
            else:
                self._lingering.append(part)
        return items
