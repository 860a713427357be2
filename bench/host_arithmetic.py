"""Times of the host library's field and group operations, as JSON in ``bench/results``.

Run: ``python bench/host_arithmetic.py [--variants portable,bmi2] [--out FILE]``. Each figure is the least processor
time of several repetitions over many elements, in nanoseconds an element, one thread. Processor time does not count
what other work takes on a shared machine, and the least of several is the one that was disturbed least.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from reporting import cpu_model, write_report

from prover import native
from prover.curves import CURVES, Curve
from prover.field import pack, pack_points
from prover.native import FieldId, FieldOp, GroupId, GroupOp

BUDGET_S = 0.3
"""Processor time for the repetitions of one figure (five at least)."""
ELEMENTS = 1 << 12
POINTS = 1 << 12


def least_ns(run: Callable[[], Any], elements: int) -> float:
    """The least processor time of a run, per element."""
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 5 or spent < BUDGET_S:
        before = time.process_time()
        run()
        took = time.process_time() - before
        best, spent, runs = min(best, took), spent + took, runs + 1
    return round(1e9 * best / elements, 2)


def field_figures(field: FieldId) -> Iterator[dict[str, Any]]:
    """Every operation over random elements that stay in the second-level cache."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2**60, size=(ELEMENTS, field.words), dtype=np.uint64)
    b, out = a[::-1].copy(), np.empty_like(a)
    for op in (FieldOp.MUL, FieldOp.SQR, FieldOp.ADD, FieldOp.SUB, FieldOp.INV):
        second = b if op.binary else None

        def run(op: FieldOp = op, second: Any = second) -> None:
            native.field_op(field, op, a, second, out=out)

        yield {"of": field.name, "operation": op.name.lower(), "ns": least_ns(run, ELEMENTS)}


def group_figures(curve: Curve, group: GroupId) -> Iterator[dict[str, Any]]:
    """Additions in batches, both multiplications, both checks."""
    base = pack_points([curve.g1 if group == 1 else curve.g2], curve, group)
    rng = np.random.default_rng(2)
    scalars = pack([int.from_bytes(rng.bytes(31), "little") for _ in range(POINTS)], curve.fr, "canonical")
    points = np.asarray(native.fixed_base_mul(curve, group, base, scalars))
    few, few_scalars = points[:128], scalars[:128]
    cases: list[tuple[str, Callable[[], Any], int]] = [
        ("add", lambda: native.group_op(curve, group, GroupOp.ADD, points, points[::-1].copy()), POINTS),
        ("fixed_base_mul", lambda: native.fixed_base_mul(curve, group, base, scalars), POINTS),
        ("mul", lambda: native.group_mul(curve, group, few, few_scalars), len(few)),
        ("check_curve", lambda: native.points_check(curve, group, points, subgroup=False), POINTS),
        ("check_subgroup", lambda: native.points_check(curve, group, few), len(few)),
        ("check_combined", lambda: native.points_in_subgroup(curve, group, points, bytes(32)), POINTS),
    ]
    for name, run, elements in cases:
        yield {"of": f"{curve.name} G{group}", "operation": name, "ns": least_ns(run, elements)}


def figures(variants: list[str]) -> Iterator[dict[str, Any]]:
    """All figures of all variants."""
    for variant in variants:
        native.select_variant(variant)
        for field in FieldId:
            yield from ({"variant": variant, **figure} for figure in field_figures(field))
        for curve in CURVES:
            groups: tuple[GroupId, ...] = (1, 2)
            for group in groups:
                yield from ({"variant": variant, **figure} for figure in group_figures(curve, group))


def main() -> None:
    """Measure, print a line a figure, write the file."""
    parser = argparse.ArgumentParser(description="Times of the host library's field and group operations.")
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(native.cpu_variants()))
    today = datetime.datetime.now(tz=datetime.UTC)
    default = Path(__file__).parent / "results" / f"host_arithmetic_{today:%Y-%m-%d}.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    results = []
    for figure in figures(options.variants):
        results.append(figure)
        print(f"{figure['variant']:8} {figure['of']:14} {figure['operation']:15} {figure['ns']:>11} ns")
    report = {
        "what": "host field and group operations, one thread, least processor time an element",
        "date": today.isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average_before": load_before,
        "figures": results,
    }
    write_report(options.out, report)


if __name__ == "__main__":
    main()
