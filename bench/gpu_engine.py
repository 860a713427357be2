"""The engine on a GPU: a long run under changing knobs, memory over a thousand partitions, the steady state.

    python bench/gpu_engine.py [--stress] [--cancels] [--growth] [--steady] [--device cuda] [--out FILE]

With no part named, all run. One JSON document goes to standard output (and to FILE); what is being done goes to
standard error. Exit code 1 if a part failed or ran out of time. Each part has ``--limit`` seconds.

stress  jobs of partitions with two workers under the narrow lock, while every other knob changes at random: every
        partition must come once, and every proof is verified here again.
cancels jobs of which every other is cancelled at some moment: the rest must be proved, no memory stay in use.
growth  many small partitions; the memory of the device after each hundred.
steady  one circuit as fast as it goes, with one worker and with two, under the narrow and the coarse lock: how busy the
        device was by its own events, by GPM's SM counter and by the driver's samples; seconds a partition and idle
        seconds a partition; how long a slot waited for the lock. A table goes to standard error.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from console.feeds.nvml.sampler import NvmlSampler
from prover.circuits.builtin import builtin
from prover.curves import curve
from prover.device import open_devices
from prover.device.cuda import CudaDevice
from prover.device.host import cores
from prover.device.protocol import Device
from prover.groth16.workload import CircuitWorkload
from prover.intervals import length
from prover.model import EventKind, KnobValue, Snapshot
from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder
from prover.pipeline.interfaces import Change, JobRequest, JobResult
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import JobCancelled
from prover.timeline import Timeline

Report = dict[str, Any]
TICK_S = 0.1


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Setting:
    """What the parts share: the options and the devices."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.curve = curve(args.curve)
        began = time.monotonic()
        opened = open_devices(args.device)
        self.devices: list[Device] = opened.devices
        opened_at = time.monotonic()
        for device in self.devices:
            device.prepare(self.curve)
        self.report: Report = {
            "devices": [
                {
                    "name": device.name,
                    "arch": device.capability.arch,
                    "product": device.product if isinstance(device, CudaDevice) else platform.machine(),
                    "memory_bytes": device.capability.memory_bytes,
                }
                for device in self.devices
            ],
            "note": opened.note,
            "cores": cores(),
            "open_s": opened_at - began,
            "kernels_s": time.monotonic() - opened_at,
        }
        say(f"{self.report['devices']}, kernels ready in {self.report['kernels_s']:.1f} s")

    def workload(self, family: str, log_n: int) -> tuple[CircuitWorkload, float]:
        """The circuit with its key, made on the first device if it is not cached; how long that took."""
        began = time.monotonic()
        told: list[str] = []

        def progress(what: str, share: float | None) -> None:
            if not told or told[-1] != what:
                told.append(what)
                say(f"  {what}")

        made = CircuitWorkload.open(
            builtin(f"{family}-{log_n}", self.curve), threads=cores(), progress=progress, device=self.devices[0]
        )
        return made, time.monotonic() - began

    def engine(self, workload: CircuitWorkload, knobs: Mapping[str, KnobValue]) -> Engine:
        """An engine on the devices; started."""
        engine = Engine(workload, self.devices, KnobSet(knobs))
        engine.start()
        return engine

    def memory(self) -> Report:
        """Bytes on the devices and of this process."""
        gpus = [device for device in self.devices if isinstance(device, CudaDevice)]
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return {
            "arrays": sum(device.memory().used for device in self.devices),
            "peak": sum(device.memory().peak for device in self.devices),
            "taken_of_gpus": sum(total - free for free, total in (device.driver.memory_info() for device in gpus)),
            "pinned": sum(device.copies.pinned.nbytes for device in gpus),
            "host_resident": int(pages) * os.sysconf("SC_PAGE_SIZE"),
        }


class Delivered:
    """Collects what the jobs of a run delivered."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.results: dict[int, JobResult] = {}
        self.failed: list[int] = []

    def __call__(self, number: int, result: JobResult | None) -> None:
        with self.lock:
            if result is None:
                self.failed.append(number)
            else:
                assert number not in self.results, f"job {number} was delivered twice"
                self.results[number] = result


def told_errors(engine: Engine) -> list[str]:
    """The first causes of failed partitions."""
    events = engine.events(0)
    return [str(e.fields.get("error")) for e in events if e.kind is EventKind.PARTITION_FAILED][:5]


def counters(snapshot: Snapshot) -> Report:
    return asdict(snapshot.counters)


# -- stress -----------------------------------------------------------------------------------------------------------


def random_change(rng: random.Random, workers: int) -> tuple[str, KnobValue]:
    """A knob and its next value. The number of workers and the lock stay what the part is about."""
    most = max(2, cores() // 2)
    choices: list[tuple[str, KnobValue]] = [
        ("synthesis_lookahead", rng.randrange(5)),
        ("synthesis_concurrency", rng.randint(1, most)),
        ("max_parallel_synthesis", rng.randint(1, most)),
        ("slot_size", rng.randrange(4)),
        ("threads", rng.randint(0, 2)),
        ("gpu_workers_per_device", workers),
        ("paused", rng.random() < 0.3),
    ]
    return rng.choice(choices)


def stress(setting: Setting) -> Report:
    args = setting.args
    workload, ready_s = setting.workload("poseidon-merkle", args.stress_size)
    partitions, jobs = 8, -(-args.stress_partitions // 8)
    rng = random.Random(args.seed)
    engine = setting.engine(workload, {"gpu_workers_per_device": 2, "gpu_lock": "narrow", "synthesis_concurrency": 4})
    delivered = Delivered()
    feeder = Feeder(engine, lambda n: workload.sample_inputs(n, partitions), partitions, 3, jobs, on_end=delivered)
    changes, refused = Counter[str](), 0
    began = time.monotonic()
    feeder.start()
    try:
        while not feeder.wait(rng.uniform(0.001, 0.02)):
            name, value = random_change(rng, 2)
            accepted = engine.propose(Change(name, value, who="stress")).accepted
            changes[name] += accepted
            refused += not accepted
            if value is True:
                time.sleep(rng.uniform(0.001, 0.05))
                engine.propose(Change("paused", False, who="stress"))
    finally:
        engine.propose(Change("paused", False, who="stress"))
        feeder.stop()
        elapsed = time.monotonic() - began
        snapshot, errors = engine.snapshot(), told_errors(engine)
        engine.stop(0.0)
    say("  verifying again")
    verified = 0
    for number, result in delivered.results.items():
        if workload.verify(workload.sample_inputs(number, partitions), range(partitions), result.proofs):
            verified += len(result.proofs)
    distinct = len({proof for result in delivered.results.values() for proof in result.proofs})
    wanted = jobs * partitions
    return {
        "ok": verified == distinct == wanted and not delivered.failed,
        "circuit": workload.circuit,
        "constraints": workload.constraints,
        "ready_s": ready_s,
        "partitions": wanted,
        "verified": verified,
        "distinct": distinct,
        "seconds": elapsed,
        "changes": dict(changes),
        "refused": refused,
        "counters": counters(snapshot),
        "errors": errors,
        "trouble": feeder.trouble,
        "memory": setting.memory(),
    }


# -- cancels ----------------------------------------------------------------------------------------------------------


def cancels(setting: Setting) -> Report:
    """Jobs die at any moment, with kernels enqueued: the others are proved, and nothing of the dead ones stays."""
    args = setting.args
    workload, _ = setting.workload("poseidon-merkle", args.stress_size)
    partitions, jobs = 4, args.cancelled_jobs
    rng = random.Random(args.seed)
    engine = setting.engine(workload, {"gpu_workers_per_device": 2, "synthesis_concurrency": 4, "slot_size": 2})
    good: list[tuple[int, JobResult]] = []
    cancelled, used = 0, 0
    began = time.monotonic()
    try:
        futures: list[tuple[int, Future[JobResult]]] = []
        for number in range(jobs):
            request = JobRequest(workload.sample_inputs(number, partitions), partitions, id=f"c{number}")
            futures.append((number, engine.submit(request)))
            time.sleep(rng.uniform(0.0, 0.06))
            cancelled += rng.random() < 0.5 and engine.cancel(f"c{max(0, number - rng.randrange(3))}")
            used = max(used, setting.memory()["arrays"]) if number < jobs // 4 else used
        for number, future in futures:
            with suppress(JobCancelled):
                good.append((number, future.result(timeout=60)))
        elapsed = time.monotonic() - began
    finally:
        engine.stop(0.0)
    verified = sum(
        workload.verify(workload.sample_inputs(number, partitions), range(partitions), result.proofs)
        for number, result in good
    )
    memory = setting.memory()
    return {
        "ok": verified == len(good) == jobs - cancelled and cancelled > 0 and memory["arrays"] <= used,
        "circuit": workload.circuit,
        "jobs": jobs,
        "cancelled": cancelled,
        "verified_jobs": verified,
        "seconds": elapsed,
        "arrays_while_running": used,
        "memory": memory,
    }


# -- growth -----------------------------------------------------------------------------------------------------------


def growth(setting: Setting) -> Report:
    args = setting.args
    workload, ready_s = setting.workload("poseidon-merkle", args.growth_size)
    partitions, jobs = 10, -(-args.growth_partitions // 10)
    engine = setting.engine(workload, {"gpu_workers_per_device": 2, "synthesis_concurrency": 4})
    delivered = Delivered()
    feeder = Feeder(engine, lambda n: workload.sample_inputs(n, partitions), partitions, 4, jobs, on_end=delivered)
    samples: list[Report] = []
    began, due = time.monotonic(), 0
    feeder.start()
    try:
        while not feeder.wait(0.02):
            done = engine.snapshot().counters.partitions_done
            if done >= due:
                samples.append({"partitions": done, **setting.memory()})
                due = done - done % 100 + 100
    finally:
        feeder.stop()
        elapsed = time.monotonic() - began
        errors = told_errors(engine)
        engine.stop(0.0)
    samples.append({"partitions": partitions * feeder.done, **setting.memory()})
    # before that it now and then takes another block, when workers meet as they never did
    first = next((sample for sample in samples if sample["partitions"] >= args.growth_partitions // 2), samples[0])
    grown = {name: samples[-1][name] - first[name] for name in ("taken_of_gpus", "pinned", "peak", "host_resident")}
    return {
        "ok": feeder.done == jobs and grown["taken_of_gpus"] <= 0,
        "circuit": workload.circuit,
        "constraints": workload.constraints,
        "ready_s": ready_s,
        "partitions": partitions * feeder.done,
        "seconds": elapsed,
        "grown_in_the_second_half": grown,
        "samples": samples,
        "failed": len(delivered.failed),
        "errors": errors,
        "trouble": feeder.trouble,
    }


# -- steady -----------------------------------------------------------------------------------------------------------


def steady(setting: Setting) -> Report:
    args = setting.args
    workload, ready_s = setting.workload(args.steady_family, args.steady_size)
    began = time.monotonic()
    inputs = workload.sample_inputs(0, 1)
    inputs_s = time.monotonic() - began
    sampler = NvmlSampler()
    sampler.start()
    levels = [
        _steady(setting, workload, int(workers), lock, sampler)
        for lock in args.locks.split(",")
        for workers in args.workers.split(",")
    ]
    sampler.stop(1.0)
    for line in table(levels):
        say(line)
    return {
        "ok": all(level["ok"] for level in levels),
        "circuit": workload.circuit,
        "constraints": workload.constraints,
        "log_n": workload.key.log_n,
        "ready_s": ready_s,
        "inputs_s": inputs_s,
        "synthesis_alone_s": _synthesis_alone(workload, inputs),
        "nvml": sampler.problem,
        "levels": levels,
    }


def table(levels: list[Report]) -> list[str]:
    """The steady states of the first device, a line each; times in milliseconds a partition."""
    head = ("lock", "workers", "ms", "kernels", "idle", "lock wait", "events", "driver", "sm", "lock held")
    lines = ["".join(f"{name:>10}" for name in head)]
    for level in levels:
        device = level["devices"][0]
        nvml, by = device["by_nvml"], device["utilisation_by"]
        wait = level["phases"].get("lock_wait", {}).get("mean_s")
        times = [
            level["seconds_per_partition"],
            level["gpu_active_ms_per_partition"],
            level["idle_s_per_partition"],
            wait,
        ]
        scaled = [None if t is None else t * (1 if i == 1 else 1e3) for i, t in enumerate(times)]
        shares = [device["utilisation_by_events"], nvml.get("driver"), nvml.get("sm"), by.get("lock")]
        percent = [None if s is None else s * (100 if i in (0, 3) else 1) for i, s in enumerate(shares)]
        cells = [
            *("-" if t is None else f"{t:.2f}" for t in scaled),
            *("-" if p is None else f"{p:.1f} %" for p in percent),
        ]
        lines.append("".join(f"{cell:>10}" for cell in (level["lock"], str(level["workers"]), *cells)))
    return lines


def _synthesis_alone(workload: CircuitWorkload, inputs: Any) -> dict[str, float]:
    """Seconds of one synthesis that has the machine to itself, by its threads."""
    from prover.cancel import CancelToken

    out = {}
    for threads in (1, 4):
        began = time.monotonic()
        workload.synthesize(inputs, [0], threads, CancelToken())
        out[str(threads)] = time.monotonic() - began
    return out


def _steady(setting: Setting, workload: CircuitWorkload, workers: int, lock: str, sampler: NvmlSampler) -> Report:
    args = setting.args
    synthesisers = args.synthesisers or max(1, cores() - 3)
    knobs: dict[str, KnobValue] = {
        "gpu_workers_per_device": workers,
        "gpu_lock": lock,
        "synthesis_concurrency": synthesisers,
        "synthesis_lookahead": args.lookahead,
        "threads": args.threads,
        "slot_size": 1,
    }
    engine = setting.engine(workload, knobs)
    timeline = Timeline(window_s=None)
    clients = len(setting.devices) * workers + args.lookahead + synthesisers + 2
    feeder = Feeder(engine, lambda n: workload.sample_inputs(n, 1), 1, clients)
    say(f"  {workers} worker(s), {lock} lock, {synthesisers} synthesisers, {clients} jobs in flight: warming up")
    feeder.start()

    def fold(until: Callable[[], bool]) -> None:
        while not until() and feeder.trouble is None:
            time.sleep(TICK_S)
            timeline.fold(engine.events(timeline.last_seq))

    try:
        warm = time.monotonic() + args.warmup_s
        fold(lambda: feeder.done >= 4 * workers and time.monotonic() >= warm)
        start = time.monotonic()
        say(f"  measuring for {args.seconds} s")
        fold(lambda: time.monotonic() >= start + args.seconds)
        end = time.monotonic() - 0.5  # what was under way by then has been told
        timeline.fold(engine.events(timeline.last_seq))
        memory, snapshot, errors = setting.memory(), engine.snapshot(), told_errors(engine)
    finally:
        feeder.stop()
        engine.stop(0.0)
    return {
        **_figures(setting, timeline, sampler, start, end),
        "ok": feeder.trouble is None and not feeder.failed and not timeline.missed,
        "workers": workers,
        "lock": lock,
        "knobs": knobs,
        "missed_events": timeline.missed,
        "counters": counters(snapshot),
        "memory": memory,
        "errors": errors,
        "trouble": feeder.trouble,
    }


def _figures(setting: Setting, timeline: Timeline, sampler: NvmlSampler, start: float, end: float) -> Report:
    """The stretch, by the timeline and by NVML."""
    run = timeline.figures(start, end)
    span, busy = end - start, sum(device.busy_s for device in run.devices)
    devices = []
    for figures in run.devices:
        lost: dict[str, float] = {}
        for gap in figures.gaps:
            for cause, seconds in gap.parts:
                lost[cause.value] = lost.get(cause.value, 0.0) + seconds
        uuid = next((d.uuid for d in setting.devices if isinstance(d, CudaDevice) and d.ordinal == figures.ordinal), "")
        devices.append(
            {
                "ordinal": figures.ordinal,
                "by_events": figures.gpu_active_s is not None,
                "utilisation_by_events": figures.utilisation,
                "utilisation_by": dict(figures.utilisation_by),
                "steady_utilisation": figures.steady_utilisation,
                "busy_s": length(timeline.busy(figures.ordinal, start, end)),
                "gaps": len(figures.gaps),
                "gap_seconds_by_cause": lost,
                "clusters": [asdict(cluster) for cluster in figures.clusters[:4]],
                "by_nvml": _by_nvml(sampler, uuid, start, end),
            }
        )
    return {
        "span_s": span,
        "partitions": run.proofs,
        "seconds_per_partition": run.seconds_per_proof,
        "stdev_s": run.stdev_s,
        "gpu_active_ms_per_partition": 1e3 * busy / run.proofs if run.proofs else None,
        "idle_s_per_partition": (span * len(run.devices) - busy) / run.proofs if run.proofs else None,
        "phases": {phase.value: asdict(s) for phase, s in timeline.phase_statistics(start).items()},
        "gpu_phases": {phase.value: asdict(s) for phase, s in timeline.active_statistics(start).items()},
        "devices": devices,
    }


def _by_nvml(sampler: NvmlSampler, uuid: str, start: float, end: float) -> Report:
    if not uuid:
        return {}
    own = [sample for sample in sampler.samples(uuid, start) if sample.at <= end]
    driver = [sample for sample in sampler.driver(uuid, start) if sample.at <= end]
    return {
        "samples": len(own),
        "sm": _mean([sample.sm for sample in own]),
        "sm_over_20_share": _share_over([sample.sm for sample in own], 20.0),
        "driver_samples": len(driver),
        "driver": _mean([sample.driver for sample in driver]),
        "occupancy": _mean([sample.occupancy for sample in own]),
        "power_w": _mean([sample.power_w for sample in own]),
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _share_over(values: list[float | None], limit: float) -> float | None:
    known = [value for value in values if value is not None]
    return sum(value > limit for value in known) / len(known) if known else None


# -- all of it --------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Setting], Report]] = {
    "stress": stress,
    "cancels": cancels,
    "growth": growth,
    "steady": steady,
}


def within(limit: float, work: Callable[[], Report]) -> tuple[Report, bool]:
    """What ``work`` reports, or why it does not; and whether it ended at all."""
    out: Report = {"ok": False, "error": f"not over after {limit:.0f} s"}

    def run() -> None:
        try:
            report = work()
        except Exception as error:  # noqa: BLE001 - it belongs into the report, and the other parts go on
            out["error"] = f"{type(error).__name__}: {error}"
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            out.clear()
            out.update(report)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    return dict(out), not thread.is_alive()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    for part in PARTS:
        add(f"--{part}", action="store_true")
    add("--device", default="cuda")
    add("--curve", default="bls12-381")
    add("--out", type=Path)
    add("--limit", type=float, default=240.0, help="seconds for each part")
    add("--seed", type=int, default=1)
    add("--stress-size", type=int, default=16, help="logarithm of the rows")
    add("--stress-partitions", type=int, default=200)
    add("--cancelled-jobs", type=int, default=120, help="jobs of which about half are cancelled")
    add("--growth-size", type=int, default=10)
    add("--growth-partitions", type=int, default=1000)
    add("--steady-family", default="poseidon-merkle", help="or range-check")
    add("--steady-size", type=int, default=20)
    add("--workers", default="1,2")
    add("--seconds", type=float, default=20.0, help="of each steady state")
    add("--warmup-s", type=float, default=3.0)
    add("--synthesisers", type=int, default=0, help="0 = all cores but three")
    add("--threads", type=int, default=1, help="of a synthesis")
    add("--lookahead", type=int, default=4)
    add("--locks", default="narrow,coarse")
    add("--switch-ms", type=float, default=1.0, help="Python's switch interval; the console's is 1, Python's own 5")
    return parser.parse_args()


def main() -> int:
    args = options()
    sys.setswitchinterval(args.switch_ms / 1e3)
    document: Report = {
        "schema": "cuzk-top/bench-engine/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": {name: str(value) for name, value in vars(args).items()},
    }
    ended = True
    setting: Setting | None = None

    def open_setting() -> Report:
        nonlocal setting
        setting = Setting(args)
        return {"ok": True, **setting.report}

    document["setting"], ended = within(args.limit, open_setting)
    for part in [name for name in PARTS if getattr(args, name)] or list(PARTS):
        if setting is None or not ended:
            document[part] = {"ok": False, "error": "not begun"}
            continue
        say(part)
        began, on = time.monotonic(), setting
        document[part], ended = within(args.limit, lambda part=part, on=on: PARTS[part](on))  # type: ignore[misc]
        say(f"{part}: {'ok' if document[part].get('ok') else 'FAILED'} after {time.monotonic() - began:.1f} s")
    text = json.dumps(document, indent=1)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
    code = 0 if all(part.get("ok") for part in document.values() if isinstance(part, dict) and "ok" in part) else 1
    if not ended:
        faulthandler.dump_traceback(all_threads=True)
        os._exit(code)  # a thread hangs in the driver
    return code


if __name__ == "__main__":
    sys.exit(main())
