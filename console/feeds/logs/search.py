"""Searching a file on disk in the background: progress, what is found so far, and an end at any moment.

Plain text is looked for in a thread, a piece at a time; a regular expression in a process of its own, as it may never
come to an end and would stand in everybody's way. Lines are found as they are read: colours left out, each for itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

from console.feeds.logs.index_lines import line_start
from console.feeds.logs.search_scan import Finder, compile_pattern, scan

MOST = 1_000_000
"""Lines whose places are kept (8 MB); beyond that they are counted."""


class PatternError(ValueError):
    """A regular expression that is none; the message says why, in one line."""


class Search:
    """One search of the file behind ``fd``, from the line at ``begin`` to its end, and then what is before it.

    All calls return at once and come from one thread. Places are offsets of lines.
    """

    def __init__(
        self, fd: int, text: str, *, size: int, begin: int = 0, regex: bool = False, ignore_case: bool = False
    ) -> None:
        """Raises ``PatternError``."""
        if not text or "\n" in text:
            raise PatternError("search: what is looked for is on one line, and not empty")
        self.text = text
        self.found = 0
        """Lines found so far."""
        self.problem: str | None = None
        self._size = size
        self._ignore_case = ignore_case
        try:
            self._finder, known_time = compile_pattern(text, regex, ignore_case)
        except re.error as error:
            raise PatternError(f"search: {text!r}: {error}") from error
        self._apart = not known_time
        self._source = text if regex else re.escape(text)
        self._fd = os.dup(fd)
        begin = line_start(self._fd, min(begin, size))
        self._ranges = [(begin, size), (0, begin)]
        self._hits = (array("Q"), array("Q"))
        """Found from the beginning on, and before it; each in order."""
        self._done = 0
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="log-search", daemon=True)

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    @property
    def progress(self) -> float:
        """How much is looked through, 0 to 1."""
        return min(1.0, self._done / self._size) if self._size else 1.0

    @property
    def cancelled(self) -> bool:
        """Whether it was ended before its end."""
        return self._stop.is_set()

    def start(self) -> None:
        """Start searching."""
        self._thread.start()

    def cancel(self) -> None:
        """End it now; what is found stays."""
        self._stop.set()
        process = self._process
        if process is not None:
            process.kill()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, at most so long; whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def places(self) -> list[int]:
        """Offsets of the lines found so far, in the file's order."""
        return [*self._hits[1], *self._hits[0]]

    def next(self, offset: int) -> int | None:
        """The first line found that begins after ``offset``; None if there is none so far."""
        for hits in (self._hits[1], self._hits[0]):
            at = bisect_right(hits, offset)
            if at < len(hits):
                return hits[at]
        return None

    def previous(self, offset: int) -> int | None:
        """The last line found that begins before ``offset``; None if there is none so far."""
        for hits in self._hits:
            at = bisect_left(hits, offset)
            if at > 0:
                return hits[at - 1]
        return None

    def _run(self) -> None:
        try:
            if self._apart:
                self._run_apart()
            else:
                self._run_here(self._finder)
        except OSError as error:
            self.problem = f"search: {error.strerror}"
        finally:
            os.close(self._fd)

    def _run_here(self, finder: Finder) -> None:
        before = 0
        for part, (begin, end) in enumerate(self._ranges):
            for done, hits in scan(self._fd, begin, end, finder):
                if self._stop.is_set():
                    return
                self._keep(part, hits)
                self._done = before + done
            before += end - begin
        self._done = self._size

    def _run_apart(self) -> None:
        told = json.dumps({"text": self._source, "ignore_case": self._ignore_case, "ranges": self._ranges})
        program = str(Path(__file__).with_name("search_scan.py"))
        with subprocess.Popen(
            [sys.executable, "-I", "-S", program, str(self._fd), told],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._fd,),
        ) as process:
            self._process = process
            if self._stop.is_set():
                process.kill()
            assert process.stdout is not None
            part, before = 0, 0
            for line in process.stdout:
                if line[:1] == b"E":
                    before += self._ranges[part][1] - self._ranges[part][0]
                    part += 1
                elif line.endswith(b"\n"):
                    self._hear(line, part, before)
        if process.returncode and not self._stop.is_set():
            self.problem = f"search: ended early, with status {process.returncode}"
        elif not self._stop.is_set():
            self._done = self._size

    def _hear(self, line: bytes, part: int, before: int) -> None:
        if line[:1] == b"M":
            self._keep(part, [int(line[1:])])
        else:
            self._done = before + int(line[1:])

    def _keep(self, part: int, hits: list[int]) -> None:
        self.found += len(hits)
        room = MOST - len(self._hits[0]) - len(self._hits[1])
        self._hits[part].extend(hits[: max(0, room)])
