"""Standard mode beside partitioned mode at equal work: working memory at its peak, and throughput, on the host.

    python bench/modes.py [--circuit NAME] [--partitions 10] [--jobs 6] [--out FILE]

Each mode is a process of its own: the same circuit (its key has to be in the cache: the first run makes it), the same
jobs, the same knobs but ``slot_size``. Working memory is the most that was resident while jobs were proved, less what
was resident before the first one with the key's pages in memory: keys and matrices are in neither.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from reporting import cpu_model, write_report

from prover.circuits.builtin import builtin
from prover.device.host import HostDevice, cores
from prover.groth16.workload import CircuitWorkload
from prover.memory_limits import memory_limits
from prover.pipeline.engine import Engine
from prover.pipeline.forecast import Load, check_peak
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import load_knobs
from prover.resources import give_back_what_is_freed, peak_rss_bytes, reset_peak_rss

MODES = {"partitioned": 1, "standard": 0}


def measure(circuit: str, partitions: int, jobs: int, mode: str) -> dict[str, Any]:
    """One mode, in this process."""
    give_back_what_is_freed()
    start = memory_limits().resident
    workload = CircuitWorkload.open(builtin(circuit), threads=2)
    inputs = workload.sample_inputs(0, partitions)
    sum(memoryview(workload.key.source.data)[::4096])  # the key's pages
    before = memory_limits().resident
    engine = Engine(workload, [HostDevice()], load_knobs(assignments=[f"slot_size={MODES[mode]}"]))
    knobs = engine.knobs
    reset_peak_rss()
    engine.start()
    began = time.monotonic()
    for future in [engine.submit(JobRequest(inputs, partitions)) for _ in range(jobs)]:
        assert future.result().verified
    elapsed = time.monotonic() - began
    peak, budget = peak_rss_bytes(), engine.snapshot().memory
    engine.stop()
    load = Load.of(knobs, 1, partitions, device_is_host=True)
    expected = workload.footprint.forecast(load)
    check = check_peak(expected, peak, start)
    assert peak is not None and check is not None and budget is not None
    return {
        "mode": mode,
        "slot": load.slot,
        "jobs": jobs,
        "seconds_per_proof": round(elapsed / jobs, 4),
        "working_bytes": peak - before,
        "working_forecast_bytes": expected.working,
        "peak_bytes": check.measured,
        "peak_forecast_bytes": check.forecast,
        "off": round(check.off or 0.0, 3),
        "budget_peak_bytes": budget.peak,
    }


def main() -> None:
    """Both modes, twice in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--circuit", default="poseidon-merkle-16")
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--mode", choices=MODES, help="measure this one here")
    args = parser.parse_args()
    if args.mode is not None:
        print(json.dumps(measure(args.circuit, args.partitions, args.jobs, args.mode)))
        return
    runs = []
    for _ in range(args.rounds):
        for mode in MODES:
            command = [sys.executable, __file__, "--circuit", args.circuit, "--partitions", str(args.partitions)]
            command += ["--jobs", str(args.jobs), "--mode", mode]
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            print(line, end="", flush=True)
            runs.append(json.loads(line))
    memory = {mode: max(run["working_bytes"] for run in runs if run["mode"] == mode) for mode in MODES}
    seconds = {mode: min(run["seconds_per_proof"] for run in runs if run["mode"] == mode) for mode in MODES}
    report = {
        "circuit": args.circuit,
        "partitions": args.partitions,
        "cpu": cpu_model(),
        "cores": cores(),
        "runs": runs,
        "memory_share": round(memory["partitioned"] / memory["standard"], 3),
        "standard_speed": round(seconds["partitioned"] / seconds["standard"], 3),
    }
    print(f"working memory, partitioned / standard: {report['memory_share']}")
    print(f"throughput, standard / partitioned: {report['standard_speed']}")
    if args.out is not None:
        write_report(args.out, report)


if __name__ == "__main__":
    main()
