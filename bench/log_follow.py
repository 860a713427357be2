"""Logs followed, indexed and searched: what the follower costs, what it loses, and how long a big file takes.

- ``storm``: a process writes 50,000 lines a second and rotates 1,000 times; lines lost, repeated or out of order.
- ``tail``: 2,000 lines a second followed for some seconds; processor time as a share of one core.
- ``million``: 1,000,000 lines: last lines, all indexed, a word in the middle found, a regular expression.
- ``huge``: a sparse file of 10 GB, and its last lines through the follower and the index; a search that is cancelled.

    python bench/log_follow.py [--only NAME]... [--folder DIR] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reporting import cpu_model, write_report

_ROOT = Path(__file__).resolve().parents[1]
_WRITER = _ROOT / "tests" / "support" / "log_writer.py"
sys.path[:0] = [str(_ROOT), str(_WRITER.parent)]

import log_writer  # noqa: E402

from console.feeds.logs.follow import FollowedLogs  # noqa: E402
from console.feeds.logs.follow_file import AT_END  # noqa: E402
from console.feeds.logs.index import LogIndex  # noqa: E402
from console.feeds.logs.search import Search  # noqa: E402
from console.feeds.logs.sources import Chunk  # noqa: E402

_STEP_S = 0.25
"""How often the interface takes what has come."""


def storm(folder: Path, way: str, rotations: int, lines: int, keep: int) -> dict[str, Any]:
    """Lines against those written, and what it took."""
    stream = FollowedLogs([str(folder / "a.log")])
    stream.start()
    while stream.problem is None:
        time.sleep(0.01)
    numbers: list[int] = []

    def take() -> None:
        for item in stream.take():
            if isinstance(item, Chunk):
                numbers.extend(int(line[46:55]) for line in item.data.splitlines())

    cpu, began = time.process_time(), time.monotonic()
    arguments = [str(folder), way, str(rotations), str(lines), str(keep), "50000"]
    with subprocess.Popen([sys.executable, str(_WRITER), *arguments], stdout=subprocess.PIPE) as writer:
        while writer.poll() is None:
            take()
            time.sleep(_STEP_S)
        assert writer.stdout is not None
        wrote_s = float(writer.stdout.read())
    end = time.monotonic() + 10
    while len(numbers) < lines and time.monotonic() < end:
        take()
        time.sleep(0.05)
    time.sleep(0.5)
    take()
    stream.stop(5.0)
    wall = time.monotonic() - began
    return {
        "way": way,
        "rotations": rotations,
        "kept_files": keep,
        "lines": lines,
        "written_per_s": round(lines / wrote_s),
        "lost": lines - len(set(numbers)),
        "repeated": len(numbers) - len(set(numbers)),
        "in_order": numbers == sorted(numbers),
        "cpu_pct": round(100 * (time.process_time() - cpu) / wall, 1),
    }


def tail(folder: Path, rate: int, seconds: float) -> dict[str, Any]:
    """The share of a core that following takes, and taking what has come."""
    (folder / "a.log").touch()
    stream = FollowedLogs([str(folder / "a.log")])
    stream.start()
    lines = int(rate * seconds)
    came, late = 0, 0.0
    arguments = [str(folder), "dated", "0", str(lines), "1", str(rate)]
    with subprocess.Popen([sys.executable, str(_WRITER), *arguments], stdout=subprocess.PIPE) as writer:
        time.sleep(1.0)
        cpu, began = time.process_time(), time.monotonic()
        while writer.poll() is None:
            came += sum(item.data.count(b"\n") for item in stream.take() if isinstance(item, Chunk))
            time.sleep(_STEP_S)
        late = time.monotonic() - began
        spent = time.process_time() - cpu
    time.sleep(0.5)
    came += sum(item.data.count(b"\n") for item in stream.take() if isinstance(item, Chunk))
    stream.stop(5.0)
    return {"lines_per_s": rate, "seconds": round(late, 1), "came": came, "cpu_pct": round(100 * spent / late, 2)}


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and its result."""
    began = time.perf_counter()
    out = do()
    return round(time.perf_counter() - began, 4), out


def find(index: LogIndex, text: str, regex: bool = False, ignore_case: bool = False) -> dict[str, Any]:
    """When a text was found first, and when all was looked through."""
    began = time.perf_counter()
    search = Search(index.fd, text, size=index.size, regex=regex, ignore_case=ignore_case)
    search.start()
    first: float | None = None
    while search.running:
        if first is None and search.found:
            first = time.perf_counter() - began
        time.sleep(0.001)
    took = time.perf_counter() - began
    return {"text": text, "found": search.found, "first_s": round(first or took, 4), "all_s": round(took, 4)}


def million(folder: Path) -> dict[str, Any]:
    """A file of 1,000,000 lines, in the page cache."""
    path = folder / "million.log"
    with path.open("wb") as file:
        for first in range(0, 1_000_000, 10_000):
            file.write(b"".join(map(log_writer.line, range(first, first + 10_000))))
    opened = [timed(lambda: LogIndex(path)) for _ in range(3)]
    last = [timed(lambda index=index: index.last(60))[0] for _, index in opened]
    for _, index in opened:
        index.wait(60)
        index.close()
    whole: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        index = LogIndex(path)
        index.wait(60)
        whole.append(round(time.perf_counter() - began, 4))
        assert index.lines == 1_000_000
        if len(whole) < 3:
            index.close()
    middle, _ = timed(lambda: index.read(500_000, 60))
    searches = [
        find(index, "000500000"),
        find(index, "STORM: LINE 000500000", ignore_case=True),
        find(index, r"line 00050000\d", regex=True),
        find(index, r"LINE 00050000\d", regex=True, ignore_case=True),
    ]
    index.close()
    return {
        "bytes": path.stat().st_size,
        "open_s": min(took for took, _ in opened),
        "last_lines_s": min(last),
        "indexed_s": sorted(whole)[1],
        "line_500000_s": middle,
        "searches": searches,
    }


def huge(folder: Path) -> dict[str, Any]:
    """A sparse file of 10 GB with text at both ends and in the middle."""
    path = folder / "huge.log"
    text = b"".join(map(log_writer.line, range(200_000)))
    size = 10 << 30
    with path.open("wb") as file:
        for place in (0, size // 2, size - len(text)):
            file.seek(place)
            file.write(text)
    began = time.perf_counter()
    stream = FollowedLogs([str(path)], AT_END)
    stream.start()
    while not stream.waiting:
        time.sleep(0.001)
    followed = time.perf_counter() - began
    stream.stop(5.0)
    began = time.perf_counter()
    index = LogIndex(path)
    assert len(index.last(60)) == 60
    last = time.perf_counter() - began
    search = Search(index.fd, r"(x|xx)+never|line 9999999", size=size, regex=True)
    search.start()
    time.sleep(0.3)
    progress = search.progress
    cancel, _ = timed(lambda: (search.cancel(), search.wait(5.0)))
    indexed, _ = timed(lambda: index.wait(120))
    lines = index.lines
    index.close()
    return {
        "bytes": size,
        "bytes_on_disk": path.stat().st_blocks * 512,
        "followed_at_end_s": round(followed, 4),
        "last_lines_s": round(last, 4),
        "indexed_s": indexed,
        "lines": lines,
        "search_progress_at_cancel": round(progress, 3),
        "search_cancelled_s": cancel,
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=["huge", "tail", "million", "storm"])
    parser.add_argument("--folder", type=Path, help="where the files are written; a temporary one by default")
    parser.add_argument("--rotations", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }
    runs: dict[str, Callable[[Path], Any]] = {
        # The peak of memory is a process's: the largest file comes first.
        "huge": huge,
        "million": million,
        "tail": lambda folder: tail(folder, 2000, options.seconds),
        "storm": lambda folder: [
            storm(Path(tempfile.mkdtemp(dir=folder)), way, options.rotations, options.lines, keep)
            for way, keep in (("rename", 50), ("dated", options.rotations), ("copy", 50), ("switch", options.rotations))
        ],
    }
    for name, run in runs.items():
        if options.only and name not in options.only:
            continue
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            report[name] = run(Path(folder))
        print(json.dumps({name: report[name]}, indent=1))
    if options.output:
        write_report(options.output, report)


if __name__ == "__main__":
    main()
