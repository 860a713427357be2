"""Times of the host library's multi-scalar multiplication, beside arkworks's, as JSON in ``bench/results``.

Run: ``python bench/host_msm.py [--log-n 10-16] [--threads 1,2] [--variants bmi2,ifma] [--sets uniform] [--out FILE]``.
Each figure is the median over repetitions in milliseconds of wall time, beside the minimum and the processor time of
the process; on a machine that does other work the latter two are the steadier ones. arkworks (py_arkworks_bls12381,
one thread) multiplies the same points by the same scalars in the same run, at one size, between ours.

Scalar sets: ``uniform`` below r; ``witness``, 45 % zeros, 40 % ones, the rest uniform, half of the points infinity (as
the B query of a circuit of bits); ``repeated``, sixteen values.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from reporting import cpu_model, integers, write_report

from prover import native
from prover.curves import BLS12_381, CURVES, Curve
from prover.field import Words, coordinates, pack, pack_points, unpack, unpack_points
from prover.native import GroupId

BUDGET_S = 1.0
"""Time for the repetitions of one figure (five at least)."""
SETS = ("uniform", "witness", "repeated")
ARKWORKS_LOG_N = 16


def uniform(curve: Curve, n: int, seed: int) -> Words:
    """n canonical scalars below r."""
    rng = np.random.default_rng(seed)
    values = [int.from_bytes(rng.bytes(40), "little") % curve.fr.modulus for _ in range(n)]
    return pack(values, curve.fr, "canonical")


def random_bases(curve: Curve, group: GroupId, n: int) -> Words:
    """n random points."""
    generator = pack_points([curve.g1 if group == 1 else curve.g2], curve, group)
    return np.asarray(native.fixed_base_mul(curve, group, generator, uniform(curve, n, 1)))


def inputs(bases: Words, scalars: Words, kind: str) -> tuple[Words, Words]:
    """Bases and scalars of a named set, from random ones."""
    rng, n = np.random.default_rng(2), len(scalars)
    if kind == "witness":
        bases, scalars = bases.copy(), scalars.copy()
        draw = rng.random(n)
        scalars[draw < 0.85] = 0
        scalars[(draw >= 0.45) & (draw < 0.85), 0] = 1
        bases[rng.random(n) < 0.5] = 0
    elif kind == "repeated":
        scalars = scalars[rng.integers(0, 16, n)]
    return bases, scalars


def repeat(call: Callable[[], object]) -> dict[str, Any]:
    """Times of repeated calls, after one that is not counted."""
    call()
    wall: list[float] = []
    cpu_start, start = time.process_time(), time.perf_counter()
    while len(wall) < 5 or time.perf_counter() - start < BUDGET_S:
        before = time.perf_counter()
        call()
        wall.append(time.perf_counter() - before)
    cpu = (time.process_time() - cpu_start) / len(wall)
    return {
        "repetitions": len(wall),
        "median_ms": round(1e3 * statistics.median(wall), 4),
        "min_ms": round(1e3 * min(wall), 4),
        "cpu_ms": round(1e3 * cpu, 4),
    }


def ours(curve: Curve, group: GroupId, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All figures of a group."""
    largest = 1 << max(options.log_n)
    all_bases, all_scalars = random_bases(curve, group, largest), uniform(curve, largest, 3)
    for variant in options.variants:
        native.select_variant(variant)
        for log_n in options.log_n:
            n = 1 << log_n
            for kind in options.sets:
                bases, scalars = inputs(all_bases[:n], all_scalars[:n], kind)
                for threads in options.threads:
                    times = repeat(lambda: native.msm(curve, group, bases, scalars, threads=threads))  # noqa: B023
                    yield {
                        "variant": variant,
                        "curve": curve.name,
                        "group": group,
                        "n": n,
                        "scalars": kind,
                        "threads": threads,
                        **times,
                        "ns_per_point": round(1e6 * times["min_ms"] / n, 1),
                    }


def arkworks(group: GroupId, log_n: int) -> dict[str, Any]:
    """arkworks through its Python binding, and our answer compared with it."""
    import py_arkworks_bls12381 as ark

    curve, n = BLS12_381, 1 << log_n
    kind: Any = ark.G1Point if group == 1 else ark.G2Point
    bases, scalars = random_bases(curve, group, n), uniform(curve, n, 3)

    def raw(point: Any) -> bytes:
        return b"".join(c.to_bytes(curve.fp.bytes, "little") for c in coordinates(point, group))

    points = [kind.from_xy_bytes_unchecked_le(raw(p)) for p in unpack_points(bases, curve, group)]
    factors = [ark.Scalar.from_le_bytes(s.to_bytes(32, "little")) for s in unpack(scalars, curve.fr, "canonical")]
    times = repeat(lambda: kind.multiexp_unchecked(points, factors))
    total = unpack_points(np.asarray(native.msm(curve, group, bases, scalars)), curve, group)[0]
    return {
        "variant": "arkworks",
        "curve": curve.name,
        "group": group,
        "n": n,
        "scalars": "uniform",
        "threads": 1,
        **times,
        "ns_per_point": round(1e6 * times["min_ms"] / n, 1),
        "same_point": bytes(kind.multiexp_unchecked(points, factors).to_xy_bytes_le()) == raw(total),
    }


def figures(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Everything asked for."""
    for curve in CURVES:
        for group in options.groups:
            yield from ours(curve, group, options)
            if curve is BLS12_381 and options.arkworks and ARKWORKS_LOG_N in options.log_n:
                yield arkworks(group, ARKWORKS_LOG_N)


def main() -> None:
    """Measure, print a line a figure, write the file."""
    parser = argparse.ArgumentParser(description="Times of the host library's multi-scalar multiplication.")
    parser.add_argument("--log-n", type=integers, default=integers("10-16"))
    parser.add_argument("--groups", type=integers, default=[1, 2])
    parser.add_argument("--threads", type=integers, default=[1])
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(native.cpu_variants()))
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--no-arkworks", dest="arkworks", action="store_false")
    today = datetime.datetime.now(tz=datetime.UTC)
    default = Path(__file__).parent / "results" / f"host-msm-{today:%Y-%m-%d}.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    results = []
    for figure in figures(options):
        results.append(figure)
        print(
            f"{figure['variant']:8} {figure['curve']:9} G{figure['group']} n {figure['n']:<6} {figure['scalars']:8}"
            f" threads {figure['threads']}: median {figure['median_ms']} ms, min {figure['min_ms']} ms,"
            f" cpu {figure['cpu_ms']} ms",
            flush=True,
        )
    report = {
        "what": "host multi-scalar multiplication, affine Montgomery bases, canonical scalars",
        "date": today.isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "figures": results,
    }
    write_report(options.out, report)


if __name__ == "__main__":
    main()
