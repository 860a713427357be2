"""What a recording costs, and how quickly it is moved about in: processor time and bytes an event, seconds a leap.

    python bench/recording_cost.py [--seconds 60] [--report PATH]

What is recorded are the modelled boxes of the presets, on a clock so fast that some hundred events come each second,
watched four times a second as by the console. The time is the recorder's own thread's.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reporting import cpu_model, write_report

from console.feeds.hosted import HostedEngine
from console.feeds.modelled import choose_model, starter
from console.feeds.replay import Playhead, ReplayFeed
from console.recording.reader import Recording
from console.recording.recorder import Recorder, description
from prover.pipeline.clock import PacedClock
from prover.simulation.box import modelled_knobs

RATES = {"snap-coarse": 60.0, "porep-partitions": 400.0}
"""How fast each box runs: some fifty events a second, and some hundreds."""


class Timed(Recorder):
    """Adds up what its rounds take."""

    spent = 0.0

    def take(self, *, last: bool = False) -> None:
        begun = time.thread_time()
        super().take(last=last)
        self.spent += time.thread_time() - begun


def record(preset: str, speed: float, seconds: float, path: Path) -> dict[str, float]:
    """Record a box for so many real seconds."""
    clock = PacedClock(speed)
    model = choose_model(preset, None)
    engine = HostedEngine(
        starter(model, modelled_knobs(model, {}, {}, []), model.clients, clock, None, 0.0),
        preset,
        clock,
        simulated=True,
    )
    recorder = Timed(path, engine, description(0.0, simulated=True, version="bench", machine="model"))
    recorder.start()
    engine.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.25)
        recorder.show(engine.snapshot())
    engine.stop(10.0)
    recorder.stop()
    events = sum(1 for _ in Recording(path).events())
    assert recorder.trouble is None and recorder.missed == 0
    return {
        "events_per_s": events / seconds,
        "cpu_us_per_event": 1e6 * recorder.spent / events,
        "cpu_percent": 100 * recorder.spent / seconds,
        "bytes_per_event": path.stat().st_size / events,
        "bytes_per_hour": 3600 * path.stat().st_size / seconds,
    }


def move_about(path: Path) -> dict[str, float]:
    """Open it, and leap."""
    begun = time.perf_counter()
    recording = Recording(path)
    opened = time.perf_counter() - begun
    playhead = Playhead(recording.begin, recording.end)
    feed = ReplayFeed(recording, playhead)
    leaps = []
    for share in (0.9, 0.5, 0.1, 0.7, 0.3):
        playhead.seek(recording.begin + share * (recording.end - recording.begin))
        begun = time.perf_counter()
        feed.poll(60.0)
        feed.take_lines()
        leaps.append(time.perf_counter() - begun)
    return {"open_s": opened, "leap_mean_s": sum(leaps) / len(leaps), "leap_worst_s": max(leaps)}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each recording")
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    runs: dict[str, Any] = {}
    for preset, speed in RATES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bench.rec"
            runs[preset] = record(preset, speed, args.seconds, path) | move_about(path)
        print(preset, {name: round(value, 3) for name, value in runs[preset].items()})
    if args.report is not None:
        about = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "processor": cpu_model(),
            "python": platform.python_version(),
            "seconds": args.seconds,
        }
        write_report(args.report, {**about, "runs": runs})


if __name__ == "__main__":
    main()
