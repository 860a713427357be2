"""A storm of random changes over a running engine with real proofs: what came of it, and what is left of it.

    python bench/engine_storm.py [--actions 10000] [--partitions 2000] [--circuit range-check-10] [--out FILE]

Knob changes, undos, cancellations of whole jobs and of what is left of them, priorities, draining and devices, at
random and all the time (``tests/support/storm.py``). Afterwards every job was delivered exactly once, each proof
verifies and lies in its place, jobs of one class began in order, and no thread, slot or buffer is left.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parent))
from reporting import cpu_model, write_report
from storm import Storm

from prover.circuits.builtin import builtin
from prover.device import open_devices
from prover.groth16.workload import CircuitWorkload
from prover.memory_limits import memory_limits
from prover.pipeline.engine import Engine
from prover.pipeline.knobs import KnobSet, available_cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--circuit", default="range-check-10")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=1, help="storms one after another: does memory grow?")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        workload = CircuitWorkload.open(builtin(args.circuit), threads=available_cores(), cache=Path(cache))
        rounds = [blow(workload, args, args.seed + number) for number in range(args.rounds)]
    report = {"cpu": cpu_model(), "cores": available_cores(), "circuit": args.circuit, "rounds": rounds}
    print(report)
    if args.out is not None:
        write_report(args.out, report)


def blow(workload: CircuitWorkload, args: argparse.Namespace, seed: int) -> dict[str, object]:
    devices = open_devices(args.device).devices
    threads = set(threading.enumerate())
    engine = Engine(workload, devices, KnobSet(), ring_capacity=1 << 16)
    storm = Storm(
        engine,
        workload.sample_inputs,
        lambda number, proofs: workload.verify(workload.sample_inputs(number, len(proofs)), range(len(proofs)), proofs),
        seed,
    )
    began, cpu = time.monotonic(), time.process_time()
    engine.start()
    storm.blow(args.actions, args.partitions)
    engine.stop()
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    storm.check()
    events, storm.events = len(storm.events), []
    counters = engine.snapshot().counters
    delivered = sum(each.future.exception() is None for each in storm.asked.values())
    jobs = len(storm.asked)
    actions, refused = dict(storm.actions), storm.refused
    del engine, storm
    return {
        "seed": seed,
        "devices": [device.name for device in devices],
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "actions": actions,
        "refused_changes": refused,
        "jobs": jobs,
        "delivered": delivered,
        "cancelled": jobs - delivered,
        "partitions_proved": counters.partitions_done,
        "proofs_verified": counters.proofs_verified,
        "proofs_withheld": counters.proofs_withheld,
        "events": events,
        "threads_left": len(set(threading.enumerate()) - threads),
        "slots_left": Storm.leftovers(),
        "device_bytes_left": [device.memory().used for device in devices],
        "resident_bytes": resident(),
    }


def resident() -> int:
    """What the process holds, with what the allocator can give back given back."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return memory_limits().resident


if __name__ == "__main__":
    main()
