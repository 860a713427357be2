"""Where a GPU's time goes within a partition, kernel by kernel, as Nsight Compute counts it (events cannot).

    ncu --profile-from-start off --clock-control none --csv --metrics METRICS python bench/gpu_where.py > kernels.csv
    python bench/gpu_where.py --read kernels.csv

METRICS is gpu__time_duration.sum,sm__cycles_active.avg.pct_of_peak_sustained_elapsed. Under the profiler kernels run
one after another: the report is of what each one leaves idle when nothing runs beside it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from prover.circuits.builtin import builtin
from prover.circuits.evaluator import evaluate
from prover.curves import curve
from prover.device import open_device
from prover.device.host import cores
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Assignment, start
from prover.groth16.setup import ConstraintSystem, setup

_TIME, _ACTIVE = "gpu__time_duration.sum", "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"


@dataclass(slots=True)
class Kernel:
    """One launch: its time, and the share of it during which a multiprocessor had work, on average."""

    name: str
    grid: str
    ms: float = 0.0
    active: float = 0.0


def prove(size: int, on: str, device_name: str) -> None:
    """One partition under the profiler, after one that is not."""
    import cupy

    device, definition = open_device(device_name), builtin(f"poseidon-merkle-{size}", curve(on))
    circuit = definition.build()
    made = evaluate(circuit, definition.random_inputs(circuit, 1), cores())
    key = ProvingKey.from_zkey(setup(ConstraintSystem.of_circuit(circuit), threads=cores(), device=device))
    assignment = Assignment(made.witness, made.a, made.b)
    start(key, assignment, device)
    cupy.cuda.runtime.profilerStart()
    start(key, assignment, device)
    cupy.cuda.runtime.profilerStop()


def launches(lines: Iterable[str]) -> list[Kernel]:
    """The profiler's table: a row for each launch and metric."""
    table = [line for line in lines if line.startswith('"')]
    found: dict[str, Kernel] = {}
    for row in csv.DictReader(table):
        kernel = found.setdefault(row["ID"], Kernel(row["Kernel Name"].split("(")[0], row["Grid Size"]))
        value = float(row["Metric Value"].replace(",", ""))
        if row["Metric Name"] == _TIME:
            kernel.ms = value * {"ns": 1e-6, "us": 1e-3, "ms": 1.0}[row["Metric Unit"].replace("second", "s")]
        elif row["Metric Name"] == _ACTIVE:
            kernel.active = value / 100
    return list(found.values())


def report(kernels: list[Kernel]) -> None:
    """By launch, in order, and by name."""
    print(f"{'kernel':<28}{'grid':>16}{'ms':>9}{'active':>9}{'idle ms':>9}")
    by_name: dict[str, Kernel] = {}
    for kernel in kernels:
        print(row(kernel))
        total = by_name.setdefault(kernel.name, Kernel(kernel.name, ""))
        total.active = (total.active * total.ms + kernel.active * kernel.ms) / max(total.ms + kernel.ms, 1e-12)
        total.ms += kernel.ms
    print("\nby name")
    for kernel in sorted(by_name.values(), key=lambda k: -(1 - k.active) * k.ms):
        print(row(kernel))
    whole = sum(kernel.ms for kernel in kernels)
    idle = sum((1 - kernel.active) * kernel.ms for kernel in kernels)
    print(f"all {len(kernels)} launches: {whole:.2f} ms, idle multiprocessors {idle:.2f} ms ({idle / whole:.1%})")


def row(kernel: Kernel) -> str:
    idle = (1 - kernel.active) * kernel.ms
    return f"{kernel.name:<28}{kernel.grid:>16}{kernel.ms:>9.3f}{kernel.active:>9.1%}{idle:>9.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", type=Path, help="a table of the profiler's")
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--curve", default="bls12-381")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.read is None:
        prove(args.size, args.curve, args.device)
        return
    kernels = launches(args.read.read_text(encoding="utf-8").splitlines())
    if not kernels:
        sys.exit(f"{args.read}: no launches in it")
    report(kernels)


if __name__ == "__main__":
    main()
