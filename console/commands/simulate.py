"""``cuzk-top simulate``: the console on a modelled box, on a clock that runs faster. It makes no proofs and says so."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from console.commands.open_console import configure_look, configure_recording, open_console, print_once, settings_of
from console.settings import ConsoleSettings, config_path, read_knob_table, state_folder
from console.storage import read_storage_section, with_journal
from console.windows import DEFAULT_WINDOW, WINDOWS
from prover.errors import InputError, MachineLacks

if TYPE_CHECKING:
    from console.feeds.engine import EngineFeed

_SPEED = 20.0
_FASTEST = 10_000.0
_LOOK_S = 15.0
"""Real seconds that the lane shows at least, if there is a window as long as that."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``simulate``."""
    from prover.simulation.presets import DEFAULT, preset_names

    add = parser.add_argument
    add("--preset", metavar="NAME", help=f"{', '.join(preset_names())} ({DEFAULT})")
    add("--model", metavar="FILE", help="a model of your own (TOML)")
    add("--speed", type=float, default=_SPEED, metavar="N", help=f"how many times as fast as the box ({_SPEED:g})")
    add("-j", dest="clients", type=int, metavar="CLIENTS", help="jobs in flight (the model's)")
    add("--partitions", type=int, metavar="P", help="partitions of a job (the model's)")
    configure_look(parser)
    configure_recording(parser)


def run(args: argparse.Namespace) -> int:
    """Open the console on the model, or print a frame. Raises ``InputError`` for options that cannot be used."""
    for option, value in (("-j", args.clients), ("--partitions", args.partitions)):
        if value is not None and not 1 <= value <= 1024:
            raise InputError("number is out of range", f"{option} {value}", "give 1 to 1024")
    if not (math.isfinite(args.speed) and 0 < args.speed <= _FASTEST):
        raise InputError("speed is out of range", f"--speed {args.speed:g}", f"give more than 0, up to {_FASTEST:g}")
    feed = _feed(args, settings := settings_of(args))
    window = _window(args.speed)
    if args.once:
        return print_once(feed, settings, as_json=args.json, window_s=window)
    return open_console(feed, settings, window_s=window)


def _window(speed: float) -> float:
    return next((window for window in WINDOWS if window >= max(DEFAULT_WINDOW, _LOOK_S * speed)), WINDOWS[-1])


def _feed(args: argparse.Namespace, settings: ConsoleSettings) -> EngineFeed:
    from console.feeds.engine import EngineFeed
    from console.feeds.hosted import HostedEngine
    from console.feeds.modelled import ModelledMachine, choose_model, starter
    from console.recording.begin import begin as begin_recording
    from prover.pipeline.clock import PacedClock
    from prover.pipeline.knobs import REGISTRY
    from prover.pipeline.log import LogFile
    from prover.simulation.box import modelled_knobs

    model = choose_model(args.preset, args.model, args.device, args.partitions)
    knobs = modelled_knobs(model, read_knob_table(args.config), os.environ, args.knobs)
    log: LogFile | None = None
    with contextlib.suppress(MachineLacks):  # the pane says that no log is kept
        log = LogFile(state_folder() / "logs", stem="simulated")
    clock, offset = PacedClock(args.speed), time.time()
    storage = read_storage_section(config_path(args.config), required=False)
    kept = with_journal(replace(storage, journal=False), args.journal)  # the prover's own journal is not the model's
    begin = starter(model, knobs, args.clients or model.clients, clock, log, offset, kept)
    engine = HostedEngine(begin, f"{model.name}, {model.partitions} partitions", clock, simulated=True)

    def memory() -> tuple[int, int] | None:
        snapshot = engine.snapshot()
        return None if snapshot.memory_used is None else (snapshot.memory_used, snapshot.memory_total or 0)

    path = settings.log_path or (log.path if log is not None else None)
    machine = ModelledMachine(clock, memory)
    recorder = begin_recording(
        args.record, replace(storage, record=False), engine, offset, machine=machine, simulated=True
    )
    return EngineFeed(
        engine,
        log_path=path.absolute() if path is not None else None,
        log_name=path.name if path is not None else "none",
        sampler=machine,
        recorder=recorder,
        clock=clock,
        wall=lambda: clock() + offset,
        specs=REGISTRY,
        machine="model",
    )
