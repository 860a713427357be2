"""Time that passes only when every thread of an engine sleeps or waits: hours in milliseconds, exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from prover.cancel import Cancelled, CancelToken
from prover.pipeline.engine import FINALIZERS, Engine
from prover.pipeline.feeder import Feeder

_SYNTHESIS = ("synthesize",)
_FINALIZING = ("finish", "verify")
PATIENCE_S = 60.0


class _Sleeper:
    def __init__(self, step: str, wake_at: float, cancel: CancelToken | None) -> None:
        self.step = step
        self.wake_at = wake_at
        self.cancel = cancel
        self.woken = threading.Event()


class VirtualTime:
    """A clock for an engine, and a ``step`` for its fake workload that sleeps on it. ``durations`` are by step."""

    def __init__(self, durations: dict[str, float]) -> None:
        self.durations = durations
        self._now = 100.0
        self._lock = threading.Lock()
        self._asleep: list[_Sleeper] = []

    def __call__(self) -> float:
        return self._now

    def step(self, step: str, inputs: Any, partitions: tuple[int, ...], cancel: CancelToken | None) -> None:
        """Sleep as long as this step takes, times the partitions of the slot."""
        seconds = self.durations.get(step, 0.0) * len(partitions)
        if seconds <= 0:
            return
        sleeper = _Sleeper(step, self._now + seconds, cancel)
        with self._lock:
            self._asleep.append(sleeper)
        sleeper.woken.wait(PATIENCE_S)
        if cancel is not None and cancel.cancelled:
            raise Cancelled

    def run(self, engine: Engine, until: Callable[[], bool], feeder: Callable[[], Feeder] | None = None) -> None:
        """Let time pass until everything is done for now and ``until()`` holds; ``feeder`` gives the one that feeds."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, "the engine neither works nor waits"
            if self._wake_cancelled() or not self._quiet(engine, feeder() if feeder is not None else None):
                time.sleep(0.0001)
            elif until():
                return
            else:
                self._advance()
                time.sleep(0)

    def pass_(self, seconds: float) -> None:
        """Move the clock while nothing sleeps."""
        with self._lock:
            assert not self._asleep
            self._now += seconds

    def stand_still(self, until: Callable[[], bool]) -> None:
        """Let no time pass; sleepers wake early whose job is cancelled, or whom no job's end can wake."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < deadline, "it does not happen"
            self._wake_cancelled(tokenless=True)
            time.sleep(0.0001)

    def _advance(self) -> None:
        with self._lock:
            if not self._asleep:
                return  # a result is on its way to its caller
            self._now = min(sleeper.wake_at for sleeper in self._asleep)
            woken = [sleeper for sleeper in self._asleep if sleeper.wake_at <= self._now]
            self._asleep = [sleeper for sleeper in self._asleep if sleeper.wake_at > self._now]
        for sleeper in woken:
            sleeper.woken.set()

    def _wake_cancelled(self, tokenless: bool = False) -> bool:
        with self._lock:
            woken = [s for s in self._asleep if (tokenless if s.cancel is None else s.cancel.cancelled)]
            self._asleep = [sleeper for sleeper in self._asleep if sleeper not in woken]
        for sleeper in woken:
            sleeper.woken.set()
        return bool(woken)

    def _quiet(self, engine: Engine, feeder: Feeder | None) -> bool:
        """Whether every slot is with a thread that sleeps, or waits where only time can move it."""
        line, board = engine._line, engine._board
        with board.lock, self._lock:
            steps = [sleeper.step for sleeper in self._asleep]
            finalizing = sum(step in _FINALIZING for step in steps)
            locks = sum(record.lock.waiting for record in board.devices.values())
            idle_synthesisers = any(worker.slot is None for worker in engine._synthesis.pool.members)
            missing = any(
                len(pool.members) < pool.target
                or (len(pool.members) > pool.target and any(worker.slot is None for worker in pool.members))
                for pool in engine._pools
            )
            idle_workers = sum(worker.slot is None for stage in engine._gpu for worker in stage.pool.members)
            may_begin = not (line.scheduler.empty or board.paused or line.draining)
            ready = (line.channel.queued or line.channel.held) and line.channel.waiting and line.channel._open
            busy = (
                line.alive != len(steps) - finalizing + line.channel.queued + line.channel.held + locks
                or line.under_way - line.alive != line.pending + finalizing
                or (line.pending and finalizing < FINALIZERS)
                or (may_begin and idle_synthesisers)
                or ready
                or missing
                or line.channel.waiting != idle_workers
                or self._lock_free_for_a_waiter(engine)
                or (feeder is not None and not self._feeder_waits(engine, feeder))
            )
        return not busy

    def _lock_free_for_a_waiter(self, engine: Engine) -> bool:
        return any(r.lock.holder is None and r.lock.waiting for r in engine._board.devices.values())

    def _feeder_waits(self, engine: Engine, feeder: Feeder) -> bool:
        in_flight = feeder._in_flight
        return in_flight == len(engine._board.jobs) and (in_flight >= feeder.clients or feeder._over)
