"""``cuzk-top``: opens the console on the prover that it hosts, or prints one frame of it (``--once``)."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from console.settings import (
    ConsoleSettings,
    cache_problem,
    config_path,
    no_colour_wanted,
    read_console_section,
    read_knob_table,
    state_folder,
    warn_of_cache,
)
from console.storage import read_storage_section, with_journal
from console.windows import DEFAULT_WINDOW
from prover.device import check_spec
from prover.errors import InputError, MachineLacks

if TYPE_CHECKING:
    from console.app import ConsoleApp
    from console.feeds.circuit import UserCircuit
    from console.feeds.engine import EngineFeed
    from console.feeds.interfaces import Feed
    from console.frame import Frame
    from console.recording.recorder import Recorder

_UNBUILT = {
    "attach": "--attach",
    "cuzk_config": "--cuzk-config",
    "since": "--since",
}
_PLAIN_SIZE = (120, 40)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the console."""
    parser.add_argument("--workload", metavar="CIRCUIT", help="built-in circuit to prove, as poseidon-merkle-13")
    parser.add_argument("-j", dest="clients", type=int, metavar="CLIENTS", help="jobs in flight (2)")
    parser.add_argument(
        "--partitions", type=int, metavar="P", help="partitions of a job, each a whole instance of the circuit (8)"
    )
    parser.add_argument("--circuit", metavar="ZKEY", help="host the prover on this circuit of yours (snarkjs .zkey)")
    parser.add_argument(
        "--inputs",
        metavar="DIR",
        help="prove every witness NAME.wtns in this folder; NAME.proof.json appears beside it",
    )
    parser.add_argument("--wasm", metavar="FILE", help="circom's witness generator: then every NAME.json is an input")
    configure_look(parser)
    configure_recording(parser)
    for dest, option in _UNBUILT.items():
        parser.add_argument(option, dest=dest, help=argparse.SUPPRESS)


def configure_recording(parser: argparse.ArgumentParser) -> None:
    """The option of every command whose session can be recorded."""
    parser.add_argument("--record", metavar="FILE", help="record the session; cuzk-top replay FILE shows it again")


def configure_look(parser: argparse.ArgumentParser) -> None:
    """Options of every command that opens the console."""
    parser.add_argument(
        "--log", type=Path, metavar="PATH", help="follow this log, there or not yet, instead of the engine's own"
    )
    parser.add_argument(
        "--journal", metavar="PATH", help="where jobs are kept until they end, or none (--once keeps none without this)"
    )
    parser.add_argument("--once", action="store_true", help="print one frame and end; with --json as JSON")
    parser.add_argument("--read-only", action="store_true", help="change nothing")
    parser.add_argument("--theme", metavar="NAME", help="dark, light, contrast, colourblind, or one of your own")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII signs only")
    parser.add_argument("--no-color", action="store_true", help="no colours (so does NO_COLOR)")


def run(args: argparse.Namespace) -> int:
    """Open the console, or print a frame. Raises ``InputError`` for options that cannot be used."""
    _refuse(args)
    settings = settings_of(args)
    feed = _feed(args, settings)
    if not args.once:
        return open_console(feed, settings, notices=[*filter(None, [cache_problem()])])
    warn_of_cache()
    return print_once(feed, settings, as_json=args.json)


def settings_of(args: argparse.Namespace) -> ConsoleSettings:
    """How the console is to look. Raises ``InputError``, also where it needs a terminal and has none."""
    settings = _settings(args)
    if args.json and not args.once:
        raise InputError("--json prints one frame", "the console", "add --once")
    if not args.once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("no terminal", "the console needs one", "use --once for one frame as text, --once --json")
    if settings.theme != ConsoleSettings().theme:
        from console.theming import read_themes, require_theme

        require_theme(settings.theme, read_themes()[0])
    return settings


def _refuse(args: argparse.Namespace) -> None:
    for dest, option in _UNBUILT.items():
        if getattr(args, dest) is not None:
            raise InputError("option is not built yet", option, "this version hosts its own prover only")
    _refuse_circuit(args)
    check_spec(args.device)
    if args.device.startswith("cuda"):
        from prover.device.cuda_probe import require

        require(args.device)
    for option, value in (("-j", args.clients), ("--partitions", args.partitions)):
        if value is not None and not 1 <= value <= 1024:
            raise InputError("number is out of range", f"{option} {value}", "give 1 to 1024")
    if args.workload is not None:
        from prover.circuits.builtin import builtin

        builtin(args.workload)


def _refuse_circuit(args: argparse.Namespace) -> None:
    if args.circuit is None:
        for option, value in (("--inputs", args.inputs), ("--wasm", args.wasm)):
            if value is not None:
                raise InputError("a circuit is missing", option, "give --circuit ZKEY too")
        return
    for option, value in (("--workload", args.workload), ("-j", args.clients), ("--partitions", args.partitions)):
        if value is not None:
            raise InputError("option is of the built-in workload", option, "leave it out, or --circuit")
    _circuit(args).check()


def _circuit(args: argparse.Namespace) -> UserCircuit:
    from console.feeds.circuit import UserCircuit

    return UserCircuit(
        Path(args.circuit),
        None if args.inputs is None else Path(args.inputs),
        None if args.wasm is None else Path(args.wasm),
    )


def _settings(args: argparse.Namespace) -> ConsoleSettings:
    settings = read_console_section(config_path(args.config), required=args.config is not None)
    return replace(
        settings,
        theme=args.theme or settings.theme,
        ascii=args.ascii or settings.ascii,
        colour=not no_colour_wanted(args.no_color),
        read_only=args.read_only or settings.read_only,
        log_path=args.log,
    )


def _feed(args: argparse.Namespace, settings: ConsoleSettings) -> EngineFeed:
    from console.feeds import builtin, circuit
    from console.feeds.engine import EngineFeed
    from console.feeds.host import HostSampler
    from console.feeds.hosted import HostedEngine
    from console.feeds.nvml.sampler import NvmlSampler
    from prover.pipeline.knobs import load_knobs
    from prover.pipeline.log import LogFile

    knobs = load_knobs(read_knob_table(args.config), os.environ, args.knobs)
    log: LogFile | None = None
    with contextlib.suppress(MachineLacks):  # the pane says that no log is kept; proving needs none
        log = LogFile(state_folder() / "logs")
    storage = with_journal(read_storage_section(config_path(args.config), required=False), args.journal)
    if args.once and args.journal is None:
        storage = replace(storage, journal=False)
    if args.circuit is not None:
        own_circuit = _circuit(args)
        engine = HostedEngine(circuit.starter(own_circuit, knobs, log, args.device, storage), own_circuit.subject)
    else:
        partitions, clients = args.partitions or builtin.PARTITIONS, args.clients or builtin.CLIENTS
        workload = builtin.BuiltinWorkload(args.workload, partitions, clients)
        engine = HostedEngine(builtin.starter(workload, knobs, log, args.device, storage), workload.subject)
    own = log.path if log is not None else None
    path = settings.log_path or own
    sampler, gpus, offset = HostSampler(), NvmlSampler(), time.time() - time.monotonic()
    recorder: Recorder | None = None
    if args.record is not None or (storage.record and not args.once):
        from console.recording.begin import begin  # a session that is not recorded need not load it

        recorder = begin(args.record, storage, engine, offset, machine=sampler, gpus=gpus)
    return EngineFeed(
        engine,
        log_path=path.absolute() if path is not None else None,
        log_name=path.name if path is not None else "none",
        sampler=sampler,
        gpus=gpus,
        recorder=recorder,
    )


def open_console(
    feed: EngineFeed, settings: ConsoleSettings, notices: Sequence[str] = (), window_s: float = DEFAULT_WINDOW
) -> int:
    """Show the console until it is left; ``notices`` are told at its start, ``window_s`` is what its lanes show."""
    set_no_color(not settings.colour)
    from console.app import ConsoleApp
    from console.theming import read_themes

    themes, problems = read_themes()
    return run_app(ConsoleApp(feed, settings, themes, [*problems, *notices], window_s), feed)


def run_app(app: ConsoleApp, feed: Feed) -> int:
    """Show an application until it is left; its exit code."""
    sys.setswitchinterval(0.001)  # the interface gets its turn between pieces of Python work
    app.run()
    ended = _leave(app, feed)
    for error in (app.crash, feed.failure):
        if error is not None:
            raise error
    code = app.return_code or 0
    if not ended:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # a native call is still on its way to its end; nothing of it is wanted any more
    return code


def _leave(app: ConsoleApp, feed: Feed) -> bool:
    """Stop the engine, at once unless a signal ended the console; whether it ended."""
    from console.drain import STOP_S, drain, second_signal

    if app.last_resort is not None:
        app.last_resort.disarm()
    if app.ended_by is None or app.crash is not None:
        return feed.stop(STOP_S)
    with second_signal() as again:
        if app.last_resort is not None and app.last_resort.again.is_set():
            again.set()
        return drain(feed, app.ended_by, again)


def set_no_color(plain: bool) -> None:
    """Textual and Rich read the environment; an empty ``NO_COLOR`` means nothing to us and much to them."""
    if plain:
        os.environ["NO_COLOR"] = "1"
    else:
        os.environ.pop("NO_COLOR", None)


def print_once(feed: EngineFeed, settings: ConsoleSettings, *, as_json: bool, window_s: float = DEFAULT_WINDOW) -> int:
    """Print one frame, soon after the first job's end."""
    from console.interrupts import run_interruptibly
    from console.once import first_frame

    feed.start()
    try:
        frame, lines = run_interruptibly(lambda cancel: first_frame(feed, cancel, window_s))
    finally:
        feed.stop(10.0)
    print_frame(frame, lines, settings, feed, as_json=as_json)
    return 1 if frame.snapshot.counters.jobs_failed else 0


def print_frame(frame: Frame, lines: Sequence[str], settings: ConsoleSettings, feed: Feed, *, as_json: bool) -> None:
    """Print a frame as JSON, or as the console would show it."""
    from console.once import plain_screen

    if as_json:
        from console.cli import print_json
        from console.export.frame_json import frame_document

        print_json(frame_document(frame))
    else:
        set_no_color(True)
        size = shutil.get_terminal_size(_PLAIN_SIZE)
        columns, rows = (max(80, size.columns), max(24, size.lines)) if sys.stdout.isatty() else _PLAIN_SIZE
        sys.stdout.write(plain_screen(frame, lines, settings, (columns, rows), feed) + "\n")
