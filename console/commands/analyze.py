"""``cuzk-top analyze``: what a daemon's logs say about the GPU's idle time."""

from __future__ import annotations

import argparse
import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prover.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="a daemon's log; several are one stream, in time order")
    parser.add_argument(
        "--pause", type=_seconds, default=1.0, metavar="S", help="with nothing asked for longer, a run ends"
    )
    parser.add_argument(
        "--since", type=_time, metavar="T", help="only from this time on (RFC 3339; without a zone UTC)"
    )
    parser.add_argument("--until", type=_time, metavar="T", help="only before this time")


def run(args: argparse.Namespace) -> int:
    """Read, judge, print."""
    report = analyse([Path(name) for name in args.logs], args.pause, args.since, args.until)
    if args.json:
        from console.cli import print_json

        print_json(report)
    else:
        sys.stdout.write(text(report))
    return 0


def analyse(paths: list[Path], pause_s: float, since_us: int | None, until_us: int | None) -> dict[str, Any]:
    """The report of log files, in the contract's schema.

    Raises InputError for a file that cannot be read or has nothing of a log.
    """
    from console.analysis.log_analysis import Analysis, document
    from console.feeds.logs.reading import read_logs

    try:
        reading = read_logs(paths, since_us, until_us)
    except OSError as error:
        raise InputError(f"analyze: {error.filename}: {error.strerror}: give a log file") from error
    if not reading.lines_understood:
        names = ", ".join(map(str, paths))
        raise InputError(f"analyze: {names}: no line of a proving daemon in it: give the log of a cuzk daemon")
    analysis = Analysis(reading.events, pause_s, reading.tally)
    return document(analysis, reading.lines, reading.lines_understood, reading.warnings())


def text(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"{report['lines']} lines ({report['lines_understood']} understood), {report['span_s']:.1f} s: "
        f"{report['proofs']} proofs, {report['failed']} failed, {report['partitions']} partitions",
        f"limited by: {report['bottleneck']}"
        + (
            f"; at most {report['ceiling_proofs_per_minute']:.3f} proofs/min if the GPU never waited"
            if report["ceiling_proofs_per_minute"]
            else ""
        ),
    ]
    for device in report["devices"]:
        by = {name: value for name, value in device["utilisation_by"].items() if value is not None}
        lines += [
            "",
            f"device {device['ordinal']}: busy {device['busy_s']:.3f} s, {_percent(device['utilisation'])} of the runs "
            f"({_percent(device['steady_utilisation'])} without ramp); in the device window: "
            + ", ".join(f"{name} {_percent(value)}" for name, value in by.items())
            + "; kernels unknown",
            *(
                f"  {cluster['count']:>4} gaps of {cluster['centre_s']:.3f} s "
                f"({cluster['low_s']:.3f} ... {cluster['high_s']:.3f}): {cluster['cause']}"
                for cluster in device["gaps"]["clusters"]
            ),
        ]
        between = device["gaps"]["between_runs"]
        if between["count"]:
            lines.append(f"  {between['count']:>4} gaps between runs, {between['total_s']:.3f} s: not counted above")
    if report["runs"]:
        lines += ["", "run  in flight  proofs  s/proof  steady  proofs/min  busy  steady    gap"]
        lines += [_run_row(nth, run) for nth, run in enumerate(report["runs"], 1)]
    if report["phases"]:
        lines += ["", "phase        count     mean      p95      min      max  (s)"]
        lines += [
            f"{name:<11} {p['count']:>6} {p['mean_s']:>8.3f} {p['p95_s']:>8.3f} {p['min_s']:>8.3f} {p['max_s']:>8.3f}"
            for name, p in report["phases"].items()
        ]
    for head, entries in (
        ("evidence", report["evidence"]),
        ("ruled out", [f"{entry['what']}: {entry['figure']}" for entry in report["ruled_out"]]),
        ("about the input", report["warnings"]),
    ):
        if entries:
            lines += ["", f"{head}:", *(f"  {_printable(entry)}" for entry in entries)]
    return "\n".join(lines) + "\n"


def _run_row(nth: int, run: dict[str, Any]) -> str:
    return (
        f"{nth:>3}  {_figure(run['concurrency'], 9, 0)}  {run['proofs']:>6}  {_figure(run['seconds_per_proof'], 7, 2)}"
        f"  {_figure(run['steady_seconds_per_proof'], 6, 2)}  {_figure(run['proofs_per_minute'], 10, 3)}"
        f"  {_percent(run['utilisation']):>5}  {_percent(run['steady_utilisation']):>6}"
        f"  {_figure(run['gap_centre_s'], 5, 2)}" + ("  warm-up" if run["warmup"] else "")
    )


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.1f}%"


def _figure(value: float | None, width: int, digits: int) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


def _printable(line: str) -> str:
    """One line, whatever a log's text holds."""
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of seconds")
    return seconds


def _time(value: str) -> int:
    try:
        at = datetime.fromisoformat(value)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return round(at.timestamp() * 1_000_000)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{value!r} is not a time such as 2026-03-13T18:43:00Z") from error
