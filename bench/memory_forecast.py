"""The forecast of memory beside the measured peak, of the built-in circuit on the host.

    python bench/memory_forecast.py [--circuit NAME] [--jobs 6]

Each row is a process of its own: it opens the circuit (its key has to be in the cache: the first run makes it), proves
under the row's knobs with enough jobs to fill the line, and reports the most that was resident less what was resident
before, beside the forecast.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from prover.circuits.builtin import DEFAULT, builtin
from prover.device.host import HostDevice
from prover.groth16.workload import CircuitWorkload
from prover.memory_limits import memory_limits
from prover.pipeline.engine import Engine
from prover.pipeline.forecast import Load, check_peak
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import load_knobs
from prover.resources import peak_rss_bytes, reset_peak_rss

ROWS = ((0, 1, 1, 1), (1, 1, 1, 2), (4, 1, 1, 1), (1, 2, 1, 2), (8, 1, 1, 2), (1, 1, 8, 1))
"""Lookahead, synthesisers, partitions a slot, device workers."""


def measure(circuit: str, jobs: int, row: tuple[int, int, int, int]) -> dict[str, object]:
    lookahead, synthesisers, slot, workers = row
    before = memory_limits().resident
    workload = CircuitWorkload.open(builtin(circuit), threads=2)
    knobs = load_knobs(
        assignments=[
            f"synthesis_lookahead={lookahead}",
            f"synthesis_concurrency={synthesisers}",
            f"slot_size={slot}",
            f"gpu_workers_per_device={workers}",
        ]
    )
    inputs = workload.sample_inputs(0, 8)
    reset_peak_rss()
    engine = Engine(workload, [HostDevice()], knobs)
    engine.start()
    for future in [engine.submit(JobRequest(inputs, 8)) for _ in range(jobs)]:
        future.result()
    alive = engine.most_slots_alive
    engine.stop()
    load = Load(slot, synthesisers, lookahead, workers, device_is_host=True)
    expected = workload.footprint.forecast(load)
    check = check_peak(expected, peak_rss_bytes(), before)
    return {
        "lookahead": lookahead,
        "synthesisers": synthesisers,
        "slot": slot,
        "workers": workers,
        "most_slots_alive": alive,
        "slots_forecast": expected.slots,
        "forecast_bytes": expected.total,
        "workspace_bytes": expected.workspace,
        "measured_bytes": check.measured if check else None,
        "off": round(check.off, 3) if check and check.off is not None else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--circuit", default=DEFAULT)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--row", type=int, help="measure this row here")
    args = parser.parse_args()
    if args.row is not None:
        print(json.dumps(measure(args.circuit, args.jobs, ROWS[args.row])))
        return
    for row in range(len(ROWS)):
        command = [sys.executable, __file__, "--circuit", args.circuit, "--jobs", str(args.jobs), "--row", str(row)]
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        print(line, end="", flush=True)


if __name__ == "__main__":
    main()
