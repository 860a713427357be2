"""How fast the GPU's kernels are: median device time of every operation over sizes, against its predicted work.

    python bench/gpu_kernels.py [--device cuda] [--out FOLDER] [--only ntt,quotient,...] [--largest 24]

Prints a table, and writes one JSON line for each case to FOLDER/kernels.jsonl. Times are of device events, queued
behind a filler so that launches cost nothing; inputs are random; a transform must come back from its inverse.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from prover.csr import CsrMatrix, coefficient_table
from prover.curves import BLS12_381, CURVES, Curve
from prover.device import open_device
from prover.device.cuda import CudaDevice
from prover.device.cuda_memory import CudaArray
from prover.device.cuda_stream import CudaStream
from prover.device.values import Step
from prover.groth16.quotient import QuotientPlan
from prover.ntt import NttPlan
from prover.spmv import SpmvPlan

SAMPLES = 5
_FILLER_BYTES = 512 << 20
_CHUNK = 1 << 20
_ENOUGH_S = 2e-3
"""A sample repeats what takes less than this."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement."""

    operation: str
    curve: Curve
    log_n: int
    run: Callable[[], None]
    multiplications: int
    nbytes: int


class Bench:
    """The device, its stream, the filler."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.stream: CudaStream = device.stream("bench")
        self.filler = device.empty(_FILLER_BYTES // 32, 4, self.stream)
        self.rng = np.random.default_rng(time.time_ns())

    def random(self, n: int) -> CudaArray:
        """n random elements, below either modulus."""
        chunk = self.rng.integers(0, 1 << 60, size=(min(n, _CHUNK), 4), dtype=np.uint64)
        array = self.device.empty(n, 4, self.stream)
        for start in range(0, n, _CHUNK):
            self.device.write(self.device.rows(array, start, min(n, start + _CHUNK), 4), chunk, self.stream)
        return array

    def seconds(self, run: Callable[[], None]) -> tuple[list[float], float]:
        """Device time of each sample, and host time of one launch."""
        run()
        self.stream.synchronize()
        began = time.monotonic()
        run()
        launched = time.monotonic() - began
        first = self._once(run, 1)
        repeats = max(1, min(50, int(_ENOUGH_S / max(first, 1e-6))))
        return [self._once(run, repeats) / repeats for _ in range(SAMPLES)], launched

    def _once(self, run: Callable[[], None], repeats: int) -> float:
        for _ in range(3):
            self.device.driver.fill(self.filler.address, 0, _FILLER_BYTES, self.stream.handle)
        first = self.stream.record()
        for _ in range(repeats):
            run()
        last = self.stream.record()
        self.stream.synchronize()
        return first.elapsed_s(last)


def ntt_cases(bench: Bench, curve: Curve, log_n: int) -> Iterator[Case]:
    """Forward and inverse, on the domain and on the coset."""
    data = bench.random(1 << log_n)
    for inverse in (False, True):
        for shift in (None, curve.coset_shift(log_n)):
            plan = NttPlan.build(curve, log_n, bench.device.capability, inverse=inverse, shift=shift)
            name = ("inverse " if inverse else "") + ("coset " if shift is not None else "") + "ntt"
            if log_n <= 22 and not inverse:
                before = bytes(bench.device.download(data, bench.stream))
                back = NttPlan.build(curve, log_n, bench.device.capability, inverse=True, shift=shift)
                plan.run(bench.device, data, bench.stream)
                back.run(bench.device, data, bench.stream)
                if bytes(bench.device.download(data, bench.stream)) != before:
                    raise SystemExit(f"{name} 2^{log_n} does not come back from its inverse")
            step = plan.step(data)
            yield Case(
                name,
                curve,
                log_n,
                lambda step=step: bench.device.run(step, bench.stream),  # type: ignore[misc]
                plan.multiplications,
                step.bytes,
            )


def quotient_cases(bench: Bench, curve: Curve, log_n: int) -> Iterator[Case]:
    """The scalars of H: six transforms and two products."""
    plan = QuotientPlan.build(curve, log_n, bench.device.capability)
    a, b, c = (bench.random(1 << log_n) for _ in range(3))
    yield Case(
        "quotient",
        curve,
        log_n,
        lambda: plan.run(bench.device, a, b, c, False, bench.stream),
        plan.multiplications,
        14 * 32 << log_n,
    )


def product_cases(bench: Bench, curve: Curve, log_n: int) -> Iterator[Case]:
    """a*b - c, canonical."""
    n = 1 << log_n
    a, b, c, out = (bench.random(n) for _ in range(4))
    step = Step("mul_sub", {"curve": curve, "a": a, "b": b, "c": c, "out": out, "canonical_out": True})
    yield Case("mul_sub", curve, log_n, lambda: bench.device.run(step, bench.stream), 2 * n, 128 * n)


def sparse_cases(bench: Bench, curve: Curve, log_n: int) -> Iterator[Case]:
    """A matrix of three entries a row, two of them +1 or -1; and one whose rows have 1 to 200."""
    n = 1 << log_n
    for name, lengths in (
        ("spmv short", np.full(n, 3)),
        ("spmv mixed", bench.rng.integers(1, 200, size=n >> 6).repeat(1)),
    ):
        nnz = int(lengths.sum())
        matrix = CsrMatrix(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64),
            bench.rng.integers(0, n, size=nnz, dtype=np.uint32),
            bench.rng.choice(np.array([0, 1, 2, 3, 4, 0], dtype=np.uint32), size=nnz),
            coefficient_table(curve.fr, [3, 5, 7]),
        )
        plan = SpmvPlan.build(curve, matrix, bench.device.capability)
        loaded, vector = plan.load(bench.device, matrix, bench.stream), bench.random(n)
        step = plan.step(loaded, vector, bench.device.empty(matrix.rows, 4, bench.stream))
        yield Case(
            name,
            curve,
            log_n,
            lambda step=step: bench.device.run(step, bench.stream),  # type: ignore[misc]
            plan.nnz // 2,
            step.bytes,
        )


OPERATIONS = {
    "ntt": (ntt_cases, (10, 12, 14, 16, 18, 20, 22, 24, 26)),
    "quotient": (quotient_cases, (16, 20, 22)),
    "product": (product_cases, (20, 24)),
    "sparse": (sparse_cases, (16, 20)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    parser.add_argument("--only", default=",".join(OPERATIONS))
    parser.add_argument("--largest", type=int, default=26, help="logarithm of the largest size")
    args = parser.parse_args()
    device = open_device(args.device)
    if not isinstance(device, CudaDevice):
        raise SystemExit("not a CUDA device")
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "kernels.jsonl").open("a", encoding="utf-8") as out:
        bench = Bench(device)
        for name in args.only.split(","):
            make, sizes = OPERATIONS[name]
            for curve in CURVES:
                for log_n in sizes:
                    if log_n > args.largest or (curve is not BLS12_381 and log_n not in (20, 24)):
                        continue
                    for case in make(bench, curve, log_n):
                        line = measured(bench, case)
                        out.write(json.dumps(line) + "\n")
                        print(_row(line), flush=True)
        compiled = [
            {"name": r.cache.name, "seconds": r.cache.seconds, "load_seconds": r.load_seconds, "cached": r.cache.cached}
            for r in device.kernels.records
        ]
        out.write(json.dumps({"schema": "cuzk-top/bench-modules/1", "modules": compiled}) + "\n")
        for module in compiled:
            print(module)


def measured(bench: Bench, case: Case) -> dict[str, object]:
    samples, launched = bench.seconds(case.run)
    median = statistics.median(samples)
    return {
        "schema": "cuzk-top/bench-kernel/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpu": bench.device.product,
        "host": platform.machine(),
        "operation": case.operation,
        "curve": case.curve.name,
        "log_n": case.log_n,
        "samples_s": samples,
        "median_s": median,
        "launch_s": launched,
        "multiplications_per_s": case.multiplications / median,
        "bytes_per_s": case.nbytes / median,
    }


def _row(line: dict[str, object]) -> str:
    median, launch = float(line["median_s"]), float(line["launch_s"])  # type: ignore[arg-type]
    rate, bandwidth = float(line["multiplications_per_s"]), float(line["bytes_per_s"])  # type: ignore[arg-type]
    return (
        f"{line['curve']:10} {line['operation']:18} 2^{line['log_n']:<3} {median * 1e3:9.3f} ms"
        f"  {rate / 1e9:7.1f} G mul/s {bandwidth / 1e12:6.2f} TB/s  launch {launch * 1e6:6.0f} us"
    )


if __name__ == "__main__":
    main()
