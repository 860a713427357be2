"""Times of multi-scalar multiplication on a GPU, checked, as a table and as JSON in ``bench/results``.

Run: ``python bench/gpu_msm.py [--curves bls12-381] [--groups 1,2] [--log-n 16,18,20,22] [--scalars uniform,witness]``.
Points are (a + i*b)G and scalars the words of a splitmix generator, so that anybody can repeat a case and the result is
known in closed form. Points and scalars lie on the device. ``total`` is the wall time from the call to the affine point
in host memory, ``device`` the time between the first and the last kernel by the GPU's clock; both are medians.
``--phases`` adds the time of each kernel (measured apart, two events a kernel), ``--windows`` tries other numbers of
windows.
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
from reporting import integers, write_report

from prover import native
from prover.curves import Curve, curve
from prover.device.cuda import CudaDevice, open_cuda
from prover.device.cuda_kernels import LoadedModule
from prover.device.cuda_msm import Multiplications
from prover.field import pack

A = 0x9E3779B97F4A7C15
B = 0xD1B54A32D192ED03
REPETITIONS = 5
SPPARK_MS = {
    (1, 16): 7.37,
    (1, 18): 20.31,
    (1, 20): 22.43,
    (1, 22): 54.94,
    (1, 24): 159.33,
    (2, 16): 11.08,
    (2, 18): 32.31,
    (2, 20): 49.19,
    (2, 22): 140.51,
}
"""BLS12-381, points resident, median of 5, on an H200: what we compare with."""
PREFIXES = {22: "07316cfe64dc91ba", 24: "07f07c311f86e394"}
"""Of x, BLS12-381 G1, uniform scalars."""


def splitmix(count: int, first: int = 0) -> np.ndarray:
    """Outputs ``first`` .. of the generator: mix64(i)."""
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(A)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def scalars(on: Curve, n: int, kind: str) -> np.ndarray:
    """``uniform``: 254 bits (253 on BN254). ``witness``: nine in ten are 0 or 1. ``equal``: all the same."""
    words = splitmix(4 * n).reshape(n, 4)
    words[:, 3] &= np.uint64((1 << (62 if on.index == 0 else 61)) - 1)
    if kind == "witness":
        draw = splitmix(n, 1 << 40) % np.uint64(20)
        words[draw < 18] = 0
        words[draw < 9, 0] = 1
    if kind == "equal":
        words[:] = words[0]
    return words


def steps(n: int) -> np.ndarray:
    """a + i*b, canonical."""
    i = np.arange(n, dtype=np.uint64)
    low = i * np.uint64(B & 0xFFFFFFFF)
    high = i * np.uint64(B >> 32) + (low >> np.uint64(32))
    words = np.zeros((n, 4), dtype=np.uint64)
    words[:, 0] = (low & np.uint64(0xFFFFFFFF)) | (high << np.uint64(32))
    words[:, 1] = high >> np.uint64(32)
    with np.errstate(over="ignore"):
        words[:, 0] += np.uint64(A)
    words[:, 1] += words[:, 0] < np.uint64(A)
    return words


def expected(on: Curve, group: native.GroupId, given: np.ndarray) -> np.ndarray:
    """The result in closed form: (sum s_i (a + i*b)) G."""
    total, weighted = 0, 0
    i = np.arange(len(given), dtype=np.uint64)
    for at in range(16):
        piece = (given[:, at // 4] >> np.uint64(16 * (at % 4))) & np.uint64(0xFFFF)
        total += int(piece.sum()) << (16 * at)
        weighted += int((piece * i).sum()) << (16 * at)
    value = (A * total + B * weighted) % on.fr.modulus
    words = np.array([[value >> (64 * k) & (2**64 - 1) for k in range(4)]], dtype=np.uint64)
    return np.asarray(native.fixed_base_mul(on, group, generator(on, group), words))


def generator(on: Curve, group: native.GroupId) -> np.ndarray:
    """The group's generator, affine Montgomery."""
    coordinates = list(on.g1) if group == 1 else [c for xy in on.g2 for c in xy]
    return np.asarray(pack(coordinates, on.fp)).reshape(1, -1)


class Phases:
    """Times every kernel by events around each launch."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._plain = LoadedModule.launch
        self.marks: list[tuple[str, Any, Any]] = []

    def __enter__(self) -> Phases:
        phases = self

        def launch(module: LoadedModule, kernel: str, *rest: Any, **named: Any) -> None:
            stream = named.get("stream") or rest[3]
            before = stream.record()
            phases._plain(module, kernel, *rest, **named)
            phases.marks.append((kernel, before, stream.record()))

        LoadedModule.launch = launch  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        LoadedModule.launch = self._plain  # type: ignore[method-assign]

    def milliseconds(self) -> dict[str, float]:
        """By kernel, all its launches together."""
        out: dict[str, float] = {}
        for kernel, before, after in self.marks:
            out[kernel] = round(out.get(kernel, 0) + 1e3 * before.elapsed_s(after), 4)
        return out


def measure(
    device: CudaDevice, on: Curve, group: native.GroupId, log_n: int, kind: str, points: Any, options: Any, windows: int
) -> dict[str, Any]:
    """One case."""
    n = 1 << log_n
    stream = device.stream("bench")
    given = scalars(on, n, kind)
    there = device.upload(given, stream)
    bases = device.rows(points, 0, n, native.point_words(on, group))
    multiplications = Multiplications(device, windows=windows or None)
    want = expected(on, group, given)
    wall, active = [], []
    right = True
    for repetition in range(options.repetitions + 1):
        stream.synchronize()
        busy, began = stream.active_s, time.perf_counter()
        point = multiplications.run(on, group, bases, there, stream)
        took = time.perf_counter() - began
        stream.synchronize()
        right &= bool(np.array_equal(np.asarray(point), want))
        if repetition:  # the first one makes the layout and takes memory
            wall.append(took)
            active.append(stream.active_s - busy)
    layout, _ = next(iter(multiplications._kept.values()))
    out = {
        "curve": on.name,
        "group": group,
        "log_n": log_n,
        "scalars": kind,
        "windows": len(layout.widths),
        "widest": max(layout.widths),
        "passes": len(layout.passes),
        "buckets": sum(step.buckets for step in layout.passes),
        "workspace_mb": round(layout.workspace_bytes / 1e6, 1),
        "total_ms": round(1e3 * statistics.median(wall), 4),
        "total_min_ms": round(1e3 * min(wall), 4),
        "device_ms": round(1e3 * statistics.median(active), 4),
        "right": right,
        "x": f"{on.fp.from_montgomery(int.from_bytes(bytes(want[0])[: on.fp.bytes], 'little')):0{2 * on.fp.bytes}x}"[
            :16
        ],
    }
    if on.index == 0 and kind == "uniform":
        out["sppark_ms"] = SPPARK_MS.get((group, log_n))
        if group == 1 and log_n in PREFIXES:
            out["x_as_published"] = out["x"] == PREFIXES[log_n]
    if options.phases:
        with Phases(device) as phases:
            multiplications.run(on, group, bases, there, stream)
            stream.synchronize()
        out["kernels_ms"] = phases.milliseconds()
    return out


def cases(device: CudaDevice, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All cases, largest points first made."""
    threads = len(os.sched_getaffinity(0))
    for name in options.curves:
        on = curve(name)
        for group in options.groups:
            sizes = [size for size in options.log_n if group == 1 or size <= options.largest_g2]
            stream = device.stream("points")
            made = native.fixed_base_mul(on, group, generator(on, group), steps(1 << max(sizes)), threads=threads)
            points = device.upload(made, stream)
            for log_n in sizes:
                for kind in options.scalars:
                    for windows in options.windows:
                        yield measure(device, on, group, log_n, kind, points, options, windows)


def facts(device: CudaDevice, options: argparse.Namespace) -> dict[str, Any]:
    """Registers and spills of the kernels."""
    from prover.device.cuda_kernels import KernelModule

    out: dict[str, Any] = {}
    for name in options.curves:
        for group in options.groups:
            for file, kernels in (
                ("msm_accumulate.cu", ["msm_accumulate"]),
                ("msm_chunks.cu", ["msm_chunks"]),
                ("msm_reduce.cu", ["msm_merge", "msm_fold", "msm_window_sums"]),
            ):
                module = device.kernels.get(KernelModule(file, curve(name), group))
                for kernel in kernels:
                    found = module.facts(kernel)
                    out[f"{kernel} {name} g{group}"] = [found.registers, found.local_bytes]
    return out


def line(case: dict[str, Any]) -> str:
    """A row of the table."""
    reference = case.get("sppark_ms")
    against = f"{reference / case['total_ms']:6.2f}x sppark" if reference else ""
    return (
        f"{case['curve']:9} g{case['group']} 2^{case['log_n']:<2} {case['scalars']:8}"
        f" {case['windows']:3}x{case['widest']:<2} total {case['total_ms']:9.3f} device {case['device_ms']:9.3f} ms"
        f"{against:>15}{'' if case['right'] else '  WRONG'}{'' if case.get('x_as_published', True) else '  x DIFFERS'}"
    )


def main() -> None:
    """Measure, print a line a case, write the file; the exit status says whether all were right."""
    parser = argparse.ArgumentParser(description="Times of multi-scalar multiplication on a GPU.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--curves", type=lambda text: text.split(","), default=["bls12-381"])
    parser.add_argument("--groups", type=integers, default=[1, 2])
    parser.add_argument("--log-n", type=integers, default=[16, 18, 20, 22])
    parser.add_argument("--largest-g2", type=int, default=22)
    parser.add_argument("--scalars", type=lambda text: text.split(","), default=["uniform"])
    parser.add_argument("--windows", type=integers, default=[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--phases", action="store_true")
    today = datetime.datetime.now(tz=datetime.UTC)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / f"gpu_msm_{today:%Y-%m-%d}.json"
    )
    options = parser.parse_args()
    device = open_cuda(options.device)
    began = time.perf_counter()
    for name in options.curves:
        device.prepare(curve(name), len(os.sched_getaffinity(0)))
    report: dict[str, Any] = {
        "what": "multi-scalar multiplication, points and scalars resident on the device",
        "date": today.isoformat(timespec="seconds"),
        "gpu": device.product,
        "arch": device.capability.arch,
        "prepare_s": round(time.perf_counter() - began, 2),
        "kernels": facts(device, options),
        "cases": [],
    }
    print(f"{device.product}, kernels ready after {report['prepare_s']} s")
    for case in cases(device, options):
        report["cases"].append(case)
        print(line(case), flush=True)
        if options.phases:
            print("   ", *(f"{kernel} {ms:.3f}" for kernel, ms in case["kernels_ms"].items()), flush=True)
    write_report(options.out, report)
    if not all(case["right"] and case.get("x_as_published", True) for case in report["cases"]):
        raise SystemExit("a result is wrong")


if __name__ == "__main__":
    main()
