"""Ended by a signal: the terminal comes back at once, what was begun ends without a screen. A second signal ends it."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from console.feeds.interfaces import Feed
from prover.model import PartitionState, Snapshot

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP_S = 0.25
"""How long leaving waits for the engine; a process that ends takes the rest with it."""
_LOOK_S = 0.1
_CLOSE_S = 1.0
"""How long journal and log may take to be closed where there is nothing to drain."""
_WINDOW_S = 60.0
_AT_REST = frozenset({PartitionState.PENDING, PartitionState.DONE, PartitionState.FAILED, PartitionState.CANCELLED})


def drain(feed: Feed, number: int, again: threading.Event) -> bool:
    """Let what was begun end, saying on stderr what that is; whether the engine ended. Cut short once ``again`` is set.

    ``number`` is the signal that asked for it.
    """
    feed.drain(0.0)
    snapshot = feed.poll(_WINDOW_S).snapshot
    line = told(snapshot, number)
    if line is not None:
        _say(line)
    end = time.monotonic() + (_CLOSE_S if line is None else math.inf)  # the engine bounds a drain by itself
    while not again.is_set() and time.monotonic() < end and not feed.drain(_LOOK_S):
        pass
    return feed.stop(STOP_S)


def told(snapshot: Snapshot, number: int) -> str | None:
    """What a drain waits for, and how to end it at once; ``None`` where there is nothing to wait for."""
    begun = [sum(part.state not in _AT_REST for part in job.partitions) for job in snapshot.jobs]
    parts, jobs = sum(begun), sum(count > 0 for count in begun)
    limit = next((knob.wanted for knob in snapshot.knobs if knob.name == "drain_timeout_s"), 0)
    if not parts or not limit or snapshot.simulated:
        return None
    what = f"{_count(parts, 'partition')} of {_count(jobs, 'job')}"
    return (
        f"cuzk-top: {signal.Signals(number).name}: {what} may end, for {limit} s at most: "
        "send a second signal (Ctrl-C) to stop at once"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone: that was the signal
        errors = sys.stderr.fileno()
        if select.select([], [errors], [], 0)[1]:  # or nobody reads it
            os.write(errors, f"{line}\n".encode())


@contextmanager
def second_signal() -> Iterator[threading.Event]:
    """An event that the next signal sets, instead of ending the process."""
    again = threading.Event()
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, lambda *_: again.set()) for number in heard}
    try:
        yield again
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
