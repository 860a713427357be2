"""A knob turned while proofs run: what the numbers before the change promise, and what came.

    python bench/live_change.py [--circuit NAME] [--seconds 20] [--from 1] [--to 2] [--device auto] [--out FILE]

``synthesis_concurrency`` goes from one value to another in a mix that is bound by synthesis (each synthesis on one
thread). The promise is the pipeline's bound with the times measured before the change: partitions a second =
min(synthesisers / synthesis seconds, 1 / device seconds), where the device's are the larger of what a slot holds its
lock for and of its whole section over the workers. Also told: when the change was in force, and after how many
partitions.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from reporting import cpu_model, write_report

from prover.circuits.builtin import builtin
from prover.device import open_devices
from prover.groth16.workload import CircuitWorkload
from prover.model import DEVICE_PHASES, Event, EventKind, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder
from prover.pipeline.interfaces import Change
from prover.pipeline.knobs import KnobSet, available_cores

PARTITIONS = 8


@dataclass(frozen=True)
class Window:
    """What was seen in a stretch of time."""

    seconds: float
    partitions: int
    synthesis_s: float
    locked_s: float
    section_s: float

    @property
    def rate(self) -> float:
        return self.partitions / self.seconds


class Watch:
    """Reads the engine's events as they come."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.seq = 0
        self.events: list[Event] = []

    def read(self) -> None:
        new = self.engine.events(self.seq)
        self.events += new
        self.seq = new[-1].seq if new else self.seq

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
            self.read()

    def window(self, start: float, end: float, workers: int) -> Window:
        """From one completion to another: a window's edges are no part of what it measures."""
        done = [e.at for e in self.events if e.kind is EventKind.PARTITION_DONE and start <= e.at <= end]
        spans = [e for e in self.events if e.kind is EventKind.SPAN and e.start is not None and start <= e.at <= end]
        synthesis = [e.at - e.start for e in spans if e.phase is Phase.SYNTHESIS]
        slots: dict[tuple[str | None, tuple[int, ...]], list[float]] = {}
        for event in spans:
            if event.phase in DEVICE_PHASES and event.phase is not Phase.LOCK_WAIT:
                whole = slots.setdefault((event.job, event.partitions), [0.0, 0.0])
                whole[0] += event.at - event.start
                whole[1] += event.at - event.start if event.fields.get("locked") else 0.0
        return Window(
            done[-1] - done[0],
            len(done) - 1,
            statistics.median(synthesis),
            statistics.median(locked for _, locked in slots.values()),
            statistics.median(section for section, _ in slots.values()) / workers,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--circuit", default="poseidon-merkle-16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--from", dest="old", type=int, default=1)
    parser.add_argument("--to", dest="new", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    opened = open_devices(args.device)
    workload = CircuitWorkload.open(builtin(args.circuit), threads=available_cores())
    knobs = KnobSet({"synthesis_concurrency": args.old, "threads": 1})
    engine = Engine(workload, opened.devices, knobs)
    feeder = Feeder(engine, lambda number: workload.sample_inputs(number, PARTITIONS), PARTITIONS, clients=4)
    engine.start()
    feeder.start()
    watch, clock = Watch(engine), engine.clock
    watch.sleep(max(5.0, args.seconds / 4))
    began = clock()
    watch.sleep(args.seconds)
    turned = clock()
    assert engine.propose(Change("synthesis_concurrency", args.new)).accepted
    watch.sleep(args.seconds / 4)
    settled = clock()
    watch.sleep(args.seconds)
    ended = clock()
    feeder.stop()
    engine.stop()
    watch.read()
    workers = knobs.integer("gpu_workers_per_device") * len(opened.devices)
    before, after = watch.window(began, turned, workers), watch.window(settled, ended, workers)
    device_s = max(before.locked_s / len(opened.devices), before.section_s)
    promised = min(args.new / before.synthesis_s, 1 / device_s)
    applied = next(e.at for e in watch.events if e.kind is EventKind.KNOB_APPLIED and e.at >= turned)
    counters = engine.snapshot().counters
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "devices": [device.name for device in opened.devices],
        "circuit": args.circuit,
        "change": {"synthesis_concurrency": [args.old, args.new]},
        "before": vars(before) | {"partitions_per_s": before.rate},
        "after": vars(after) | {"partitions_per_s": after.rate},
        "promised_partitions_per_s": promised,
        "measured_over_promised": after.rate / promised,
        "in_force_after_s": applied - turned,
        "partitions_until_in_force": sum(
            e.kind is EventKind.PARTITION_DONE and turned < e.at <= applied for e in watch.events
        ),
        "failed": counters.jobs_failed,
        "withheld": counters.proofs_withheld,
        "verified": counters.proofs_verified == counters.partitions_done,
    }
    print(report)
    if args.out is not None:
        write_report(args.out, report)


if __name__ == "__main__":
    main()
