"""Line numbers of a file on disk, for a view of it that holds only what it shows.

Instead of where lines begin, it is kept how many have ended by the end of each 64 KiB: eight bytes a block whatever the
lines are like (10 GB: 1.3 MB), made as fast as newlines are counted. A line's start is then one block away. Nothing is
stored: counting again takes no longer than checking that what was stored is still true.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from console.feeds.logs.index_lines import Line, line_end, line_start, lines_before, lines_from
from console.feeds.logs.sources import OpenFile

BLOCK = 64 * 1024
_READ = 1 << 20
_AT_ONCE = 1 << 20
"""Growth up to this is counted by ``refresh`` itself, in a millisecond."""
_WORTH_NUMPY = 256 << 20
"""It counts twice as fast as ``bytes.count``, and takes as long to load as this takes to count."""


class LineCounts:
    """How many lines have ended by the end of each block."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes counted."""
        self.ended = 0
        """Lines ended in them."""
        self._ends = array("Q")

    def extend(self, fd: int, size: int) -> Iterator[int]:
        """Count on up to ``size``; yields the bytes counted from time to time, and may be left then."""
        buffer = bytearray(_READ)
        count = _counter(buffer, size - self.size)
        while self.size < size:
            # Blocks lie at multiples of their length; the last one is counted on when the file grows.
            room = _READ - self.size % BLOCK
            wanted = min(room, size - self.size)
            got = os.preadv(fd, [memoryview(buffer)[:wanted]], self.size)
            if got == 0:
                return
            place = 0
            while place < got:
                step = min(BLOCK - self.size % BLOCK, got - place)
                self.ended += count(place, place + step)
                self.size += step
                place += step
                if self.size % BLOCK == 0:
                    self._ends.append(self.ended)
            if self.size < size and (skipped := self._skip_hole(fd, size)):
                self.size += skipped
            yield self.size

    def _skip_hole(self, fd: int, size: int) -> int:
        """Whole blocks that were never written hold no line's end."""
        if self.size % BLOCK:
            return 0
        try:
            data = os.lseek(fd, self.size, os.SEEK_DATA)
        except OSError:  # no data behind, or a file system without holes: counting finds out
            data = size if self._hole_to_the_end(fd, size) else self.size
        blocks = max(0, min(data, size) - self.size) // BLOCK
        self._ends.extend([self.ended] * blocks)
        return blocks * BLOCK

    def _hole_to_the_end(self, fd: int, size: int) -> bool:
        try:
            return os.lseek(fd, self.size, os.SEEK_HOLE) == self.size < size
        except OSError:
            return False

    def start_of(self, fd: int, number: int) -> int | None:
        """Where line ``number`` (from 0) begins; None if that is not counted yet or does not exist."""
        if number == 0:
            return 0
        if number > self.ended:
            return None
        block = bisect_left(self._ends, number)
        missing = number - (self._ends[block - 1] if block else 0)
        data = os.pread(fd, BLOCK, block * BLOCK)
        place = -1
        for _ in range(missing):
            place = data.find(b"\n", place + 1)
            if place < 0:
                return None  # rewritten since
        return block * BLOCK + place + 1

    def number_at(self, fd: int, offset: int) -> int | None:
        """The number of the line that the byte at ``offset`` is in; None if that is not counted yet."""
        block = offset // BLOCK
        if offset > self.size or block > len(self._ends):
            return None
        before = self._ends[block - 1] if block else 0
        return before + os.pread(fd, offset - block * BLOCK, block * BLOCK).count(b"\n")


def _counter(buffer: bytearray, amount: int) -> Callable[[int, int], int]:
    if amount < _WORTH_NUMPY:
        return lambda first, last: buffer.count(b"\n", first, last)
    import numpy as np

    view = np.frombuffer(buffer, np.uint8)
    return lambda first, last: int(np.count_nonzero(view[first:last] == 10))


class LogIndex:
    """A file's lines by number and by place; numbers come as they are counted, in a thread.

    The thread of the interface calls everything here; what it reads is a block or two. ``refresh`` notices growth,
    truncation and replacement: ``generation`` then tells that all offsets are of another file.
    """

    def __init__(self, path: Path) -> None:
        """Raises ``OSError`` if there is no file that can be read."""
        self.path = path
        self.generation = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._begin(OpenFile(path))

    def _begin(self, file: OpenFile) -> None:
        self._file = file
        self._size = file.size
        file.move_to(self._size)
        self._counts = LineCounts()
        self._count()

    @property
    def fd(self) -> int:
        """The file, for reading and searching."""
        return self._file.fd

    @property
    def size(self) -> int:
        """Bytes of the file at the last refresh."""
        return self._size

    @property
    def complete(self) -> bool:
        """Whether all of it is counted."""
        return self._counts.size >= self._size

    @property
    def progress(self) -> float:
        """How much of it is counted, 0 to 1."""
        return min(1.0, self._counts.size / self._size) if self._size else 1.0

    @property
    def lines(self) -> int:
        """Lines counted so far, the one without an end at the end of the file included."""
        if not self.complete or self._size == 0:
            return self._counts.ended
        return self._counts.ended + (os.pread(self.fd, 1, self._size - 1) not in (b"\n", b""))

    def refresh(self) -> bool:
        """Notice what happened to the file; whether something did."""
        file = self._file
        if file.rewritten() or self._replaced():
            return self._reopen()
        size = file.size
        if size == self._size:
            if not self.complete:
                self._count()  # a thread that was just ending did not see that there was more
            return False
        file.move_to(size)
        self._size = size
        self._count()
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._end_thread()
        self._file.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all is counted, at most so long; whether it is."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self.complete

    def start_of(self, number: int) -> int | None:
        """Where line ``number`` (from 0) begins; None if it is not counted yet or does not exist."""
        return self._counts.start_of(self.fd, number)

    def number_at(self, offset: int) -> int | None:
        """The number of the line that the byte at ``offset`` is in; None if that is not counted yet."""
        return self._counts.number_at(self.fd, offset)

    def read(self, number: int, count: int) -> list[Line]:
        """At most ``count`` lines from line ``number`` on; none if it is not counted yet."""
        offset = self.start_of(number)
        return [] if offset is None else lines_from(self.fd, offset, count, self._size)

    def last(self, count: int) -> list[Line]:
        """The last lines, which need no index."""
        return lines_before(self.fd, self._size, count)

    def around(self, offset: int, before: int, after: int) -> tuple[list[Line], list[Line]]:
        """Lines before the one that the byte at ``offset`` is in, and from it on; need no index."""
        start = line_start(self.fd, offset)
        return lines_before(self.fd, start, before), lines_from(self.fd, start, after, self._size)

    def end_of(self, offset: int) -> int:
        """Where the next line after ``offset`` begins."""
        return line_end(self.fd, offset, self._size)

    def _replaced(self) -> bool:
        try:
            there = self.path.stat()
        except OSError:
            return False  # renamed, and the new file has not come yet
        return (there.st_dev, there.st_ino) != self._file.same

    def _reopen(self) -> bool:
        try:
            fresh = OpenFile(self.path)
        except OSError:
            if self._file.size >= self._size:
                return False  # what replaced it can't be read: the old one is as good as it was
            fresh = self._file.next_life()
        self._end_thread()
        self._file.close()
        self.generation += 1
        self._begin(fresh)
        return True

    def _count(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return  # it sees by itself that there is more
        if self._size - self._counts.size <= _AT_ONCE:
            self._count_on()
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._count_on, name="log-index", daemon=True)
        self._thread.start()

    def _count_on(self) -> None:
        stop, counts = self._stop, self._counts
        while counts.size < self._size and not stop.is_set():
            before = counts.size
            for _ in counts.extend(self._file.fd, self._size):
                if stop.is_set():
                    return
            if counts.size == before:
                return  # truncated meanwhile: refresh notices

    def _end_thread(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._stop = threading.Event()
