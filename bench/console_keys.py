"""Key to paint: how long the console takes to answer a key while every core proves, in a real pseudo-terminal.

Presses the arrow keys in the knobs panel at random moments. An answer is the first output, after the key, that paints
the panel's cursor mark; the mark is painted by nothing else (a silent stretch without keys is checked for it first).
The reader only timestamps and searches, so that no terminal emulator's time is counted.

    python bench/console_keys.py [--keys 300] [--size 120x40] [--output FILE]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import pty
import random
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from datetime import UTC, datetime
from pathlib import Path

MARK = "▌".encode()
_ROOT = Path(__file__).resolve().parents[1]


class Console:
    """``cuzk-top`` on a pseudo-terminal; ``read`` returns what came, with its time of arrival."""

    def __init__(self, size: tuple[int, int], state: str) -> None:
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            environment = os.environ | {"COLORTERM": "truecolor", "TERM": "xterm-256color", "XDG_STATE_HOME": state}
            os.execvpe(sys.executable, [sys.executable, "-m", "console.cli"], environment)

    def read(self, seconds: float) -> tuple[float, bytes] | None:
        """The next output within ``seconds``."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return None
        data = os.read(self.fd, 1 << 16)
        return time.monotonic(), data

    def collect(self, seconds: float) -> bytes:
        """Everything within ``seconds``."""
        end = time.monotonic() + seconds
        out = b""
        while (left := end - time.monotonic()) > 0:
            got = self.read(left)
            out += got[1] if got else b""
        return out

    def answer(self, key: bytes, limit: float = 5.0) -> float:
        """Seconds from the key to the mark's painting."""
        sent = time.monotonic()
        os.write(self.fd, key)
        tail = b""
        while time.monotonic() - sent < limit:
            got = self.read(limit)
            if got is None:
                break
            tail = tail[-8:] + got[1]
            if MARK in tail:
                return got[0] - sent
        raise SystemExit(f"the console did not answer a key within {limit} s")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=300)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds of proving before the first key")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    columns, rows = map(int, args.size.split("x"))
    moments = random.Random(7)
    with tempfile.TemporaryDirectory() as state:
        console = Console((columns, rows), state)
        first = console.read(30.0)
        assert first is not None
        console.collect(args.warm_up)
        os.write(console.fd, b"k")
        console.collect(1.0)
        silent = console.collect(5.0)
        times = []
        for number in range(args.keys):
            console.collect(moments.uniform(0.05, 0.4))
            times.append(1000 * console.answer(b"\x1b[B" if number % 2 == 0 else b"\x1b[A"))
        quitting = time.monotonic()
        os.write(console.fd, b"q")
        while True:
            try:
                if not os.read(console.fd, 1 << 16):
                    break
            except OSError:
                break
        _, status = os.waitpid(console.pid, 0)
        quit_s = time.monotonic() - quitting
    ordered = sorted(times)
    report = {
        "schema": "cuzk-top/console-keys/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
        "size": args.size,
        "keys": len(times),
        "mark_painted_without_a_key": silent.count(MARK),
        "bytes_per_second": len(silent) / 5.0,
        "first_output_s": round(first[0] - console.began, 3),
        "key_to_paint_ms": {
            "p50": round(statistics.median(ordered), 1),
            "p90": round(ordered[int(0.90 * len(ordered))], 1),
            "p99": round(ordered[int(0.99 * len(ordered))], 1),
            "max": round(ordered[-1], 1),
        },
        "quit_s": round(quit_s, 3),
        "exit_status": os.waitstatus_to_exitcode(status),
    }
    text = json.dumps(report, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n")


if __name__ == "__main__":
    os.chdir(_ROOT)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
