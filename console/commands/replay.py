"""``cuzk-top replay``: the console on a recording, or one frame of it."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from console.commands.open_console import configure_look, print_frame, run_app, set_no_color, settings_of
from console.windows import DEFAULT_WINDOW
from prover.errors import InputError

if TYPE_CHECKING:
    from console.recording.reader import Recording

_SLOWEST, _FASTEST = 0.01, 10_000.0
_MINUTE_S, _DAY_S = 60.0, 86_400.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``replay``."""
    add = parser.add_argument
    add("recording", metavar="RECORDING", help="what --record wrote")
    add("--speed", type=float, default=1.0, metavar="N", help="how many times as fast as it was (1)")
    add(
        "--at",
        metavar="T",
        help="where to begin (with --once: what to print): seconds, from the end if negative, or HH:MM[:SS] of the day",
    )
    configure_look(parser)


def run(args: argparse.Namespace) -> int:
    """Open the console on the recording, or print a frame. Raises ``InputError`` for what cannot be replayed."""
    if not (math.isfinite(args.speed) and _SLOWEST <= args.speed <= _FASTEST):
        raise InputError("speed is out of range", f"--speed {args.speed:g}", f"give {_SLOWEST:g} to {_FASTEST:g}")
    if args.log is not None:
        raise InputError("a replay has its own log", f"--log {args.log}", "leave it out")
    settings = settings_of(args)
    from console.feeds.replay import Playhead, ReplayFeed
    from console.recording.reader import Recording

    recording = Recording(Path(args.recording))
    playhead = Playhead(recording.begin, recording.end, args.speed)
    feed = ReplayFeed(recording, playhead)
    at = instant(recording, args.at)
    if args.once:
        playhead.seek(recording.end if at is None else at)
        frame = feed.poll(DEFAULT_WINDOW)
        print_frame(frame, feed.take_lines(), settings, feed, as_json=args.json)
        return 0
    if at is not None:
        playhead.seek(at)
    set_no_color(not settings.colour)
    from console.replay_app import ReplayApp
    from console.theming import read_themes

    themes, problems = read_themes()
    return run_app(ReplayApp(feed, settings, themes, problems), feed)


def instant(recording: Recording, text: str | None) -> float | None:
    """The instant that ``--at`` names, on the session's clock. Raises ``InputError``."""
    if text is None:
        return None
    try:
        if ":" in text:
            return _of_the_day(recording, text)
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError("not a time", f"--at {text[:40]}", "give seconds, as 90 or -10, or a time of day, as 03:15:00")
    at = (recording.end if seconds < 0 or text.startswith("-") else recording.begin) + seconds
    return _within(recording, at, text)


def _of_the_day(recording: Recording, text: str) -> float:
    """The first such time of day since the recording's beginning."""
    hours, minutes, *rest = (int(part) for part in text.split(":"))
    if not (0 <= hours < 24 and 0 <= minutes < 60 and len(rest) <= 1 and all(0 <= part < 60 for part in rest)):
        raise ValueError(text)
    begin = recording.begin + recording.wall_offset_s
    day = time.localtime(begin)
    moment = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, hours, minutes, sum(rest), 0, 0, -1))
    if moment < math.floor(begin) - (_MINUTE_S if not rest else 0.0):
        moment += _DAY_S
    return _within(recording, max(moment, begin) - recording.wall_offset_s, text)


def _within(recording: Recording, at: float, text: str) -> float:
    if recording.begin - 1e-6 <= at <= recording.end + 1e-6:
        return at
    first, last = (
        time.strftime("%H:%M:%S", time.localtime(moment + recording.wall_offset_s))
        for moment in (recording.begin, recording.end)
    )
    length = recording.end - recording.begin
    raise InputError("not in the recording", f"--at {text[:40]}", f"it is {length:.0f} s long, from {first} to {last}")
