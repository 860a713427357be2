"""The built-in workload's clients: so many jobs in flight, each followed by the next, until stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from prover.pipeline.clock import EngineClock
from prover.pipeline.interfaces import EngineControl, JobRequest, JobResult
from prover.pipeline.records import Draining, EngineStopped, JobCancelled, one_line

Inputs = Callable[[int], Any]
"""The inputs of the n-th job: a pure function, so that a workload can be repeated."""
Origin = Callable[[int], Mapping[str, object]]
"""What the n-th job's inputs are made again from after a restart (``JobRequest.origin``)."""
Ended = Callable[[int, JobResult | None], None]
"""Told of every job that ended, with its result or None, on the thread that ended it: must be quick."""


class Feeder:
    """Keeps ``clients`` jobs of ``partitions`` partitions in flight, ``total`` in all (None: endless).

    The next inputs are made while the jobs run, on the feeder's own thread. It gives up after several failures in a
    row, since what fails at once would be submitted again and again; ``trouble`` then says why.
    """

    FAILURES_IN_A_ROW = 5

    def __init__(
        self,
        engine: EngineControl,
        inputs: Inputs,
        partitions: int,
        clients: int = 2,
        total: int | None = None,
        first: int = 0,
        on_end: Ended | None = None,
        clock: EngineClock | None = None,
        origin: Origin | None = None,
    ) -> None:
        """``clock`` is the engine's, where that is not real time; ``origin`` is for a journal."""
        self._origin = origin
        self._clock = clock or EngineClock()
        self._engine = engine
        self._inputs = inputs
        self._partitions = partitions
        self._clients = clients
        self._total = total
        self._first = first
        self._on_end = on_end
        self._changed = self._clock.condition(threading.Lock())
        self._in_flight = 0
        self._failures = 0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.submitted = 0
        self.done = 0
        self.failed = 0
        self.failure: str | None = None
        """Why the last job that failed did, in one line."""
        self.trouble: str | None = None
        """Why it gave up, in one line."""

    @property
    def clients(self) -> int:
        """Jobs that are kept in flight."""
        return self._clients

    @clients.setter
    def clients(self, clients: int) -> None:
        with self._changed:
            self._clients = clients
            self._changed.notify_all()

    def start(self) -> None:
        """Begin to submit."""
        self._thread = self._clock.thread(self._run, "feeder")
        self._thread.start()

    def stop(self) -> None:
        """Submit no more. Jobs in flight go on; they are the engine's."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            with self._clock.outside():
                self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all jobs have ended, or until it gave up and none is in flight; False if time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over and not self._in_flight, timeout)

    @property
    def _over(self) -> bool:
        return self._stopping or self.trouble is not None or self.submitted == self._total

    def _run(self) -> None:
        number = self._first
        while True:
            try:
                inputs = self._inputs(number)
            except Exception as error:  # noqa: BLE001 - whatever makes no inputs is told, and ends the feed
                self._give_up(f"no inputs for job {number}: {one_line(error)}")
                return
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._in_flight < self._clients)
                if self._over:
                    return
                self._in_flight += 1
                self.submitted += 1
                last = self.submitted == self._total
            try:
                future = self._submit(number, inputs)
            except EngineStopped as error:
                self._give_up(str(error), unsubmitted=1)
                return
            future.add_done_callback(partial(self._ended, number))
            number += 1
            if last:
                return

    def _submit(self, number: int, inputs: Any) -> Future[JobResult]:
        """Submit a job, waiting while the engine drains."""
        origin = {} if self._origin is None else self._origin(number)
        while True:
            try:
                return self._engine.submit(JobRequest(inputs, self._partitions, origin=origin))
            except Draining:
                self._engine.accepting.wait()

    def _ended(self, number: int, future: Future[JobResult]) -> None:
        error = future.exception()
        if self._on_end is not None:
            self._on_end(number, None if error is not None else future.result())
        with self._changed:
            self._in_flight -= 1
            if error is None:
                self.done += 1
                self._failures = 0
            elif not isinstance(error, JobCancelled):
                self.failed += 1
                self._failures += 1
                self.failure = one_line(error)
                if self._failures >= self.FAILURES_IN_A_ROW:
                    self.trouble = f"{self._failures} jobs failed in a row: {self.failure}"
            self._changed.notify_all()

    def _give_up(self, trouble: str, unsubmitted: int = 0) -> None:
        with self._changed:
            self._in_flight -= unsubmitted
            self.submitted -= unsubmitted
            self.trouble = trouble
            self._changed.notify_all()
