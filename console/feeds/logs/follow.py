"""Logs followed in a thread: it waits for the file system to report a change, and looks by itself now and then.

The thread reads no further than its queue has room; what is not taken stays in the files. The interface drains the
queue when it likes, so a burst of lines costs it nothing until it asks.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from console.feeds.logs.follow_file import AT_END, PathFollower, Start
from console.feeds.logs.follow_merge import Merge
from console.feeds.logs.follow_set import LogSet
from console.feeds.logs.sources import Chunk, Item

_LOOK_S = 1.0
"""How often is looked where nothing is reported: folders of other machines, watches run out."""
_POLL_S = 0.25
_STEP_MS = 20
_DEBOUNCE_MS = 100
"""A busy log is read this often: each look costs the same however many lines it finds."""
_PIECE = 256 * 1024
_ROOM = 8 << 20


class FollowedLogs:
    """One stream of all that ``names`` stand for: paths, folders, patterns, ``-`` for standard input.

    ``watch=False`` looks four times a second and asks the system for no watches. With ``pass_over`` (bytes) a file
    that is further behind is left out up to its last lines, for those who show the newest and nothing else.
    """

    def __init__(
        self,
        names: Sequence[str],
        start: Start = AT_END,
        *,
        watch: bool = True,
        room: int = _ROOM,
        pass_over: int | None = None,
        hold_s: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._set = LogSet(names, start, clock)
        self._merge = Merge(hold_s, clock)
        self._watch = watch
        self._room = room
        self._pass_over = pass_over
        self._items: deque[Item] = deque()
        self._held = 0
        self._lock = threading.Lock()
        self._taken = threading.Event()
        self._stop = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self.run, name="log-follower", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why nothing comes, if nothing does."""
        return self._problem

    @property
    def running(self) -> bool:
        """Whether more may come."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Bytes that wait to be taken."""
        return self._held

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self, timeout_s: float = 0.2) -> None:
        """Ask the thread to end, and wait a moment for it."""
        self._stop.set()
        self._taken.set()
        if timeout_s > 0 and self._thread.is_alive():
            self._thread.join(timeout_s)

    def take(self, limit: int = 1 << 62) -> list[Item]:
        """What came since the last call, oldest first, about ``limit`` bytes of it."""
        items: list[Item] = []
        with self._lock:
            while self._items and limit > 0:
                item = self._items.popleft()
                size = _size(item)
                limit -= size
                self._held -= size
                items.append(item)
        if items:
            self._taken.set()
        return items

    def pump(self) -> None:
        """Look, and read until nothing is behind or the queue is full. For a caller with a thread of its own."""
        while True:
            self._set.look()
            self._problem = self._set.problem
            if self._stop.is_set() or self._held >= self._room:
                break
            followers = self._set.followers
            if self._pass_over is not None:
                for follower in followers:
                    if isinstance(follower, PathFollower):
                        follower.pass_over(self._pass_over)
            stream = self._set.stream
            items = self._merge.pull(followers, _PIECE, final=stream is not None and stream.ended)
            self._put(items)
            if not items or not any(follower.behind for follower in followers):
                break

    def _put(self, items: list[Item]) -> None:
        with self._lock:
            self._items.extend(items)
            self._held += sum(map(_size, items))

    def run(self) -> None:
        """Follow until it is stopped; ``start`` does so in a thread of its own."""
        waits = self._waits()
        try:
            while not self._stop.is_set():
                try:
                    self.pump()
                except OSError as error:
                    self._problem = f"{error.filename or 'log'}: {error.strerror}"
                    self._stop.wait(_POLL_S)
                if self._done():
                    break
                if self._held >= self._room:
                    self._taken.clear()
                    self._taken.wait(_POLL_S)
                else:
                    next(waits, None)
        finally:
            self._put(self._set.finish())
            self._set.close()

    def _done(self) -> bool:
        stream = self._set.stream
        return stream is not None and stream.ended and len(self._set.followers) == 1 and not self._merge.holding

    def _waits(self) -> Iterator[None]:
        """Each step waits until something may have changed; ends when the thread is to end."""
        while not self._stop.is_set():
            stream = self._set.stream
            if stream is not None and not stream.ended:
                select.select([stream.fd], [], [], _POLL_S)
                yield
            elif not self._watch or not any(folder.is_dir() for folder in self._set.folders):
                self._stop.wait(_POLL_S)
                yield
            else:
                try:
                    yield from self._reports()
                except OSError:  # a folder went away, or the system has no watches left
                    self._stop.wait(_POLL_S)
                    yield

    def _reports(self) -> Iterator[None]:
        """What the system reports of the folders that there are, until there are others."""
        from watchfiles import watch

        folders = self._set.folders
        there = [folder for folder in folders if folder.is_dir()]
        every_s = _LOOK_S if len(there) == len(folders) and len(self._set.followers) == 1 else _POLL_S
        changes = watch(
            *there,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            rust_timeout=int(every_s * 1000),
            yield_on_timeout=True,
            recursive=False,
            raise_interrupt=False,
        )
        for _ in changes:
            yield
            if self._set.folders != folders or [folder for folder in folders if folder.is_dir()] != there:
                return


def _size(item: Item) -> int:
    return len(item.data) if isinstance(item, Chunk) else len(item.text)
