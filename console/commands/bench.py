"""``cuzk-top bench``: a throughput sweep without the console."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prover.device import check_spec
from prover.errors import InputError

if TYPE_CHECKING:
    from console.progress import ProgressLine
    from prover.cancel import CancelToken
    from prover.device.protocol import Device
    from prover.groth16.workload import CircuitWorkload, WitnessFiles
    from prover.pipeline.interfaces import EngineDevice, Workload
    from prover.pipeline.knobs import KnobSet
    from prover.pipeline.sweep import Level, Sweep
    from prover.simulation.model import Model
    from prover.timeline import DeviceFigures

SCHEMA = "cuzk-top/bench/1"
STANDARD_MODE = {"slot_size": 0}
"""A proof is one slot unless told otherwise: then one client cannot overlap synthesis and proving, and two can."""
_MODEL_FOLD_S = 2.0
MEANINGS = {
    "clients": "proofs kept in flight: each that ends is followed by the next",
    "proofs": "proofs measured, without warm-up (and failed ones)",
    "s/proof": "seconds a proof: the span of the measurement / proofs",
    "+-95 %": "95 % interval of it, by the times from one end to the next",
    "proofs/min": "60 / (s/proof)",
    "use": "share of the span in which the device computed, ramp included",
    "steady use": "the same without ramp: from first to last hand-over",
    "idle s/proof": "seconds a proof in which the device did not compute",
    "gap s": "middle length of the most frequent kind of gap",
    "peak RSS": "most memory that the process held (of a model: the modelled machine)",
    "forecast": "the same as the circuit's counts and the knobs foretell it",
    "verified": "proofs that were verified",
}
"""What each column of the report means."""
Inputs = Callable[[int], Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``bench``."""
    add = parser.add_argument
    add("-c", dest="count", type=int, required=True, metavar="COUNT", help="proofs for each number of clients")
    add("-j", dest="clients", required=True, metavar="N[,N...]", help="numbers of clients")
    add("--circuit", metavar="NAME or ZKEY", help="a built-in circuit, or a snarkjs key")
    add("--witness", metavar="WTNS", help="witness for a ZKEY (default: the one beside it)")
    add("--preset", metavar="NAME", help="measure a modelled box instead, on its own clock (SIMULATED)")
    add("--model", metavar="FILE", help="the same with a model of your own")
    add("--partitions", type=int, metavar="P", help="partitions of a proof (1; a model says its own)")
    add("--warmup", type=int, default=1, metavar="W", help="proofs before each measurement, left out (1)")
    width = max(len(column) for column in MEANINGS)
    listing = "\n".join(f"  {column:<{width}}  {meaning}" for column, meaning in MEANINGS.items())
    parser.epilog = f"columns of the report, one line for each number of clients (- is unknown):\n{listing}"


def run(args: argparse.Namespace) -> int:
    """Measure and report. Returns 1 if a proof failed."""
    from console.interrupts import run_interruptibly
    from console.progress import ProgressLine

    clients = _clients(args.clients)
    for option, value, least, most in (
        ("-c", args.count, 1, 1_000_000),
        ("--partitions", args.partitions, 1, 1024),
        ("--warmup", args.warmup, 0, 1_000_000),
    ):
        if value is not None and not least <= value <= most:
            raise InputError("number is out of range", f"{option} {value}", f"give {least} to {most}")
    check_spec(args.device)
    modelled = args.preset is not None or args.model is not None
    model = _model(args) if modelled else None
    knobs = _knobs(args, model)
    with ProgressLine() as progress:

        def measure(cancel: CancelToken) -> dict[str, Any]:
            if model is not None:
                return _measure_model(args, model, clients, knobs, progress, cancel)
            return _measure(args, clients, knobs, progress, cancel)

        report = run_interruptibly(measure)
    if args.json:
        from console.cli import print_json

        print_json(report)
    else:
        sys.stdout.write(table(report))
    return 1 if any(level["failed"] for level in report["runs"]) else 0


def _clients(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if not all(1 <= number <= 1024 for number in numbers):
        raise InputError("not numbers of clients", f"-j {text[:60]}", "give 1 to 1024, several with commas: -j 1,2,3")
    return numbers


def _model(args: argparse.Namespace) -> Model:
    for option in ("circuit", "witness"):
        if getattr(args, option) is not None:
            raise InputError("a model has its own circuit", f"--{option}", "leave it out, or leave the model out")
    from console.feeds.modelled import choose_model

    return choose_model(args.preset, args.model, args.device, args.partitions)


def _knobs(args: argparse.Namespace, model: Model | None) -> KnobSet:
    from console.settings import read_knob_table
    from prover.pipeline.knobs import load_knobs

    table = read_knob_table(args.config)
    if model is not None:
        from prover.simulation.box import modelled_knobs

        knobs = modelled_knobs(model, table, os.environ, args.knobs)
    else:
        knobs = load_knobs(table, os.environ, args.knobs, base=STANDARD_MODE)
    if knobs.flag("paused"):
        raise InputError("a paused engine proves nothing", "paused=true", "leave that knob out")
    return knobs


def _measure(
    args: argparse.Namespace, clients: list[int], knobs: KnobSet, progress: ProgressLine, cancel: CancelToken
) -> dict[str, Any]:
    from prover.device import open_devices
    from prover.device.host import HostDevice
    from prover.memory_limits import memory_limits
    from prover.pipeline.engine import Engine
    from prover.pipeline.sweep import Sweep

    sys.setswitchinterval(0.001)  # a worker that launches kernels gets its turn between pieces of Python work
    opened = open_devices(args.device)
    importlib.import_module("prover.groth16.workload")  # modules are no memory of the circuit's
    before = memory_limits().resident
    workload, inputs = _workload(args, opened.devices[0], progress, cancel)
    for device in opened.devices:
        device.prepare(workload.key.curve, progress=progress)
    engine = Engine(workload, opened.devices, knobs, spare=lambda ordinal: HostDevice(ordinal=ordinal))
    sweep = Sweep(inputs, _partitions(args), args.count, clients, args.warmup)
    engine.start()
    try:
        levels = sweep.measure(engine, progress, cancel)
        expected = _peaks(workload, knobs, opened.devices, sweep, before)
        return report(sweep, workload, opened.devices, opened.note, knobs, levels, peaks=expected)
    finally:
        engine.stop()


def _measure_model(
    args: argparse.Namespace,
    model: Model,
    clients: list[int],
    knobs: KnobSet,
    progress: ProgressLine,
    cancel: CancelToken,
) -> dict[str, Any]:
    """The same sweep over a modelled box, as fast as its clock can go."""
    from prover.pipeline.clock import VirtualClock
    from prover.pipeline.sweep import Sweep
    from prover.simulation.box import ModelledEngine

    clock = VirtualClock()
    with clock.attending():
        engine = ModelledEngine(model, knobs, clock)
        memory = engine.modelled.memory
        sweep = Sweep(
            lambda job: job,
            model.partitions,
            args.count,
            clients,
            args.warmup,
            fold_s=_MODEL_FOLD_S,
            forget_peak=memory.take_peak,
            peak_bytes=memory.take_peak,
        )
        engine.start()
        try:
            levels = sweep.measure(engine, progress, cancel)
            return report(sweep, engine.modelled, engine.modelled.devices(), None, knobs, levels, model=model.name)
        finally:
            engine.stop()


def _partitions(args: argparse.Namespace) -> int:
    return 1 if args.partitions is None else int(args.partitions)


def _workload(
    args: argparse.Namespace, device: Device, progress: ProgressLine, cancel: CancelToken
) -> tuple[CircuitWorkload | WitnessFiles, Inputs]:
    from prover.pipeline.knobs import available_cores

    name, cores = args.circuit, available_cores()
    if name is not None and (name.endswith(".zkey") or os.sep in name):
        from prover.groth16.workload import WitnessFiles

        files = WitnessFiles.open(Path(name), threads=cores, progress=progress, cancel=cancel)
        witness = _witness(Path(name), args.witness)
        return files, lambda job: [witness] * _partitions(args)
    if args.witness is not None:
        raise InputError("a witness belongs to a zkey", args.witness, "give --circuit ZKEY too")
    from console.settings import warn_of_cache
    from prover.circuits.builtin import builtin, default_for
    from prover.groth16.workload import CircuitWorkload

    warn_of_cache()
    circuit = CircuitWorkload.open(
        builtin(name or default_for(device.capability)), threads=cores, progress=progress, cancel=cancel, device=device
    )
    return circuit, lambda job: circuit.sample_inputs(job, _partitions(args))


def _witness(zkey: Path, given: str | None) -> Path:
    candidates = [Path(given)] if given is not None else [zkey.with_suffix(".wtns"), zkey.with_name("witness.wtns")]
    for path in candidates:
        if path.is_file():
            return path
    raise InputError("witness not found", str(candidates[0]), "give --witness WTNS")


def _peaks(
    workload: CircuitWorkload | WitnessFiles, knobs: KnobSet, devices: Sequence[Device], sweep: Sweep, before: int
) -> dict[int, int]:
    """The resident memory that is forecast for each number of clients; ``before``: without the circuit."""
    from prover.pipeline.forecast import Load

    host = any(device.capability.kind == "host" for device in devices)

    def load(clients: int) -> Load:
        return Load.of(knobs, len(devices), sweep.partitions, device_is_host=host, jobs=clients)

    return {clients: before + workload.footprint.forecast(load(clients)).total for clients in sweep.clients}


def report(
    sweep: Sweep,
    workload: Workload,
    devices: Sequence[EngineDevice],
    note: str | None,
    knobs: KnobSet,
    levels: Iterable[Level],
    model: str | None = None,
    peaks: Mapping[int, int] | None = None,
) -> dict[str, Any]:
    """The report in the contract's schema. ``note`` is of the devices; ``model`` names the box if it is modelled;
    ``peaks``: the resident memory that is forecast, by clients.
    """
    return {
        "schema": SCHEMA,
        "simulated": model is not None,
        **({} if model is None else {"model": model}),
        "device": ", ".join(f"{device.name} ({device.capability.arch})" for device in devices),
        "device_note": note,
        "circuit": workload.circuit,
        "constraints": workload.constraints,
        "partitions": sweep.partitions,
        "knobs": dict(knobs),
        "runs": [_level(level, devices, (peaks or {}).get(level.concurrency)) for level in levels],
    }


def _level(level: Level, devices: Sequence[EngineDevice], forecast: int | None) -> dict[str, Any]:
    """A run; figures of several devices are their mean, and stand apart in ``devices``."""
    run = level.run
    each = [_device(device) for device in run.devices]
    active = [device.gpu_active_s for device in run.devices if device.gpu_active_s is not None]
    gpus = cast("list[Device]", [device for device in devices if device.capability.kind == "cuda"])
    return {
        "concurrency": level.concurrency,
        "proofs": run.proofs,
        "seconds_per_proof": run.seconds_per_proof,
        "stdev_s": run.stdev_s,
        "ci95_s": run.ci95_s,
        "steady_seconds_per_proof": run.steady_seconds_per_proof,
        "proofs_per_minute": run.proofs_per_minute,
        **{name: _mean([device[name] for device in each]) for name in _OF_DEVICES},
        "gpu_active_ms": 1e3 * sum(active) / run.proofs if active and run.proofs else None,
        "peak_rss_bytes": level.peak_rss_bytes,
        "forecast_rss_bytes": forecast,
        "peak_device_bytes": sum(device.memory().peak for device in gpus) if gpus else None,
        "phases": {phase.value: asdict(statistics) for phase, statistics in level.phases.items()},
        "gpu_phases": {phase.value: asdict(statistics) for phase, statistics in level.gpu_phases.items()},
        "devices": each,
        "verified": level.verified,
        "failed": run.failed,
        "failure": level.failure,
    }


_OF_DEVICES = ("utilisation", "steady_utilisation", "idle_s_per_proof", "gap_centre_s")


def _device(figures: DeviceFigures) -> dict[str, Any]:
    return {
        "ordinal": figures.ordinal,
        "utilisation": figures.utilisation,
        "steady_utilisation": figures.steady_utilisation,
        "utilisation_by": dict(figures.utilisation_by),
        "idle_s_per_proof": figures.idle_s_per_proof,
        "gap_centre_s": figures.clusters[0].centre_s if figures.clusters else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "clients": lambda run: str(run["concurrency"]),
    "proofs": lambda run: str(run["proofs"]) + (f" ({run['failed']} failed)" if run["failed"] else ""),
    "s/proof": lambda run: _number(run["seconds_per_proof"], 3),
    "+-95 %": lambda run: _number(run["ci95_s"], 3),
    "proofs/min": lambda run: _number(run["proofs_per_minute"], 1),
    "use": lambda run: _share(run["utilisation"]),
    "steady use": lambda run: _share(run["steady_utilisation"]),
    "idle s/proof": lambda run: _number(run["idle_s_per_proof"], 4),
    "gap s": lambda run: _number(run["gap_centre_s"], 4),
    "peak RSS": lambda run: _size(run["peak_rss_bytes"]),
    "forecast": lambda run: _size(run["forecast_rss_bytes"]),
    "verified": lambda run: str(run["verified"]),
}


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    rows = [list(_COLUMNS), *([cell(run) for cell in _COLUMNS.values()] for run in report["runs"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    size, partitions = report["knobs"]["slot_size"], report["partitions"]
    about = (
        report["circuit"],
        f"{report['constraints']:,} constraints",
        "1 partition a proof" if partitions == 1 else f"{partitions} partitions a proof",
        f"slots of {size}" if size else "standard mode",
        f"on {report['device']}",
    )
    simulated = f"SIMULATED {report['model']}, no proofs were made: " if report["simulated"] else ""
    note = "" if report["device_note"] is None else f"; {report['device_note']}"
    failures = [
        f"failed with {run['concurrency']} client{'s' if run['concurrency'] > 1 else ''}: {run['failure']}"
        for run in report["runs"]
        if run["failure"] is not None
    ]
    return "\n".join([simulated + ", ".join(about) + note, *lines, *failures]) + "\n"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _size(value: int | None) -> str:
    return "-" if value is None else f"{value / 2**20:,.0f} MiB"
