"""The host's own counters: CPU use of all cores and memory, sampled by one thread of its own.

The sampler writes into its own ring and never waits for anybody; readers copy what they need. Linux only: elsewhere
there are no samples, and the screen says so.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from prover.model import DeviceSample

SOURCE = "host"
_KIB = 1024


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Jiffies since boot: all of them, and those without work."""

    total: int
    idle: int


def parse_cpu_times(stat: str) -> CpuTimes | None:
    """The first line of ``/proc/stat``; ``None`` if it is not what it should be."""
    name, *numbers = stat.split("\n", 1)[0].split()
    if name != "cpu" or len(numbers) < 5 or not all(number.isdigit() for number in numbers):
        return None
    # Guest time is contained in user and nice time already.
    values = [int(number) for number in numbers[:8]]
    return CpuTimes(sum(values), values[3] + values[4])


def parse_memory(meminfo: str) -> tuple[int, int] | None:
    """``(used, total)`` bytes from ``/proc/meminfo``."""
    values: dict[str, int] = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            values[name] = int(rest.split()[0]) * _KIB
    if len(values) != 2:
        return None
    return values["MemTotal"] - values["MemAvailable"], values["MemTotal"]


class HostSampler:
    """Samples the host every ``period`` seconds into a ring that holds ``span`` seconds."""

    def __init__(
        self,
        period: float = 0.25,
        span: float = 900.0,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._period = period
        self._proc = proc
        self._clock = clock
        self._ring: deque[DeviceSample] = deque(maxlen=max(2, round(span / period)))
        self._before: CpuTimes | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host-sampler", daemon=True)
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """Why there are no samples, if there are none."""
        return self._problem

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self, timeout_s: float = 0.2) -> None:
        """Ask the thread to end, and wait a moment for it."""
        self._stop.set()
        if timeout_s > 0 and self._thread.is_alive():
            self._thread.join(timeout_s)

    def samples(self, since: float = 0.0) -> tuple[DeviceSample, ...]:
        """Samples taken after ``since``, oldest first."""
        ring = self._ring.copy()
        newer = list(takewhile(lambda sample: sample.at > since, reversed(ring)))
        newer.reverse()
        return tuple(newer)

    def sample_once(self) -> None:
        """Take one sample; the first only sets the mark from which the next counts."""
        try:
            times = parse_cpu_times((self._proc / "stat").read_text())
            memory = parse_memory((self._proc / "meminfo").read_text())
        except OSError as error:
            self._problem = f"no CPU figures: {error.filename}: {error.strerror}"
            return
        if times is None:
            self._problem = f"no CPU figures: {self._proc / 'stat'}: unknown format"
            return
        before, self._before = self._before, times
        if before is None or times.total <= before.total:
            return
        busy = 1 - (times.idle - before.idle) / (times.total - before.total)
        used, total = memory if memory is not None else (None, None)
        self._ring.append(
            DeviceSample(
                at=self._clock(),
                ordinal=0,
                source=SOURCE,
                cpu=100 * min(1.0, max(0.0, busy)),
                memory_used=used,
                memory_total=total,
            )
        )
        self._problem = None

    def _run(self) -> None:
        self.sample_once()
        while not self._stop.wait(self._period):
            self.sample_once()
