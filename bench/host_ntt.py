"""Times of the host library's transforms, as JSON in ``bench/results``.

Run: ``python bench/host_ntt.py [--log-n 10-20] [--threads 1,2] [--variants bmi2,ifma] [--out FILE]``.
Each figure is the median over repetitions of one transform in place, in milliseconds of wall time, beside the minimum
and the mean processor time. Where the machine did other work (``contended``), wall times include waiting for it: only
the processor time says something about the code.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from reporting import cpu_model, integers, write_report

from prover import native
from prover.curves import CURVES, Curve
from prover.field import pack

BUDGET_S = 1.0
"""Time for the repetitions of one figure (five at least)."""


def measure(curve: Curve, log_n: int, threads: int, inverse: bool, coset: bool) -> dict[str, Any]:
    """One figure: repetitions of the same transform over random elements."""
    rng = np.random.default_rng(1)
    data = rng.integers(0, 2**60, size=(1 << log_n, 4), dtype=np.uint64)
    root = pack([curve.root_of_unity(log_n)], curve.fr)
    shift = pack([curve.coset_shift(log_n)], curve.fr) if coset else None
    native.ntt(curve, data, root, inverse=inverse, shift=shift, threads=threads)
    wall: list[float] = []
    cpu_start, start = time.process_time(), time.perf_counter()
    while len(wall) < 5 or time.perf_counter() - start < BUDGET_S:
        before = time.perf_counter()
        native.ntt(curve, data, root, inverse=inverse, shift=shift, threads=threads)
        wall.append(time.perf_counter() - before)
    cpu = (time.process_time() - cpu_start) / len(wall)
    return {
        "curve": curve.name,
        "log_n": log_n,
        "threads": threads,
        "inverse": inverse,
        "coset": coset,
        "repetitions": len(wall),
        "median_ms": round(1e3 * statistics.median(wall), 4),
        "min_ms": round(1e3 * min(wall), 4),
        "cpu_ms": round(1e3 * cpu, 4),
    }


def figures(log_sizes: list[int], threads: list[int], variants: list[str]) -> Iterator[dict[str, Any]]:
    """All figures; the plain forward transform at every size, the others of a proof at the largest."""
    for variant in variants:
        native.select_variant(variant)
        for curve in CURVES:
            for log_n in log_sizes:
                for count in threads:
                    kinds = [(False, False)]
                    if log_n == max(log_sizes):
                        kinds += [(True, False), (False, True), (True, True)]
                    for inverse, coset in kinds:
                        yield {"variant": variant, **measure(curve, log_n, count, inverse, coset)}


def main() -> None:
    """Measure, print a line a figure, write the file."""
    parser = argparse.ArgumentParser(description="Times of the host library's transforms.")
    parser.add_argument("--log-n", type=integers, default=integers("10,12,14-16,18,20"))
    parser.add_argument("--threads", type=integers, default=[1])
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(native.cpu_variants()))
    today = datetime.datetime.now(tz=datetime.UTC)
    default = Path(__file__).parent / "results" / f"host_ntt_{today:%Y-%m-%d}.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    results = []
    for figure in figures(options.log_n, options.threads, options.variants):
        results.append(figure)
        print(
            f"{figure['variant']:8} {figure['curve']:9} 2^{figure['log_n']:<2} threads {figure['threads']}"
            f"{' inverse' if figure['inverse'] else ''}{' coset' if figure['coset'] else ''}:"
            f" median {figure['median_ms']} ms, min {figure['min_ms']} ms, cpu {figure['cpu_ms']} ms"
        )
    report = {
        "what": "host NTT over Fr, natural order in and out, in place",
        "date": today.isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average_before": load_before,
        "contended": load_before > (os.cpu_count() or 1) / 2,
        "figures": results,
    }
    write_report(options.out, report)


if __name__ == "__main__":
    main()
