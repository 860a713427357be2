"""Pools of worker threads that grow, shrink and replace their dead while work flows, and the steward that tends them.

A pool that is too large loses whichever worker comes to a hand-over point first. The steward starts missing threads
and joins ended ones, so nobody who asks for a change ever waits for a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from prover.model import EventKind
from prover.pipeline.board import Board
from prover.pipeline.failure import one_line_detail
from prover.pipeline.records import Worker, one_line


class Stage(Protocol):
    """What the workers of a pool do."""

    def work(self, worker: Worker) -> None:
        """Work until the pool lets the worker go."""

    def abandon(self, worker: Worker, cause: str) -> None:
        """The worker died: fail what it had in hand. Called with the lock held."""


class WorkerPool:
    """The workers of one stage (on one device). Methods are called with the engine's lock held."""

    def __init__(self, name: str, prefix: str, stage: Stage, board: Board, device: int | None = None) -> None:
        self.name = name
        self.bell = board.condition()
        """Rung when there may be work or a reason to leave."""
        self.target = 0
        self.ended: list[Worker] = []
        """Workers whose threads are over but not joined."""
        self._prefix = prefix
        self._stage = stage
        self._board = board
        self._device = device
        self._workers: dict[int, Worker] = {}
        self._dead = 0
        """Workers that died and have no successor yet."""
        self.members: tuple[Worker, ...] = ()
        """The living workers; replaced whole, may be read without the lock."""

    def busy(self) -> list[Worker]:
        """Workers with a slot that they work on (one that is only held in hand does not count)."""
        return [worker for worker in self.members if worker.slot is not None and not worker.blocked]

    def leaves(self, worker: Worker) -> bool:
        """Asked by a worker at a hand-over point: whether it is one too many. It then ends."""
        if not worker.leaving and len(self._workers) > self.target:
            worker.leaving = True
            self._forget(worker)
        return worker.leaving

    def recruit(self) -> list[Worker]:
        """Records for the workers that are missing, to be started."""
        recruits = []
        while len(self._workers) < self.target:
            index = next(index for index in range(self.target) if index not in self._workers)
            ring = self._board.events.ring()
            worker = Worker(f"{self._prefix}-{index}", self.name, index, ring, self._device)
            self._workers[index] = worker
            recruits.append(worker)
        self.members = tuple(self._workers.values())
        if self._dead:
            self._board.count(workers_replaced=min(self._dead, len(recruits)))
            self._dead = 0
        return recruits

    def start(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Start a recruit's thread. Called without the lock."""
        worker.thread = self._board.clock.thread(self._main, worker.name, (worker, on_end))
        try:
            worker.thread.start()
        except RuntimeError as error:  # the system gives no more threads; the pool stays smaller until it is changed
            with self._board.transaction:
                worker.thread = None
                self._forget(worker)
                self._ended(worker, one_line(error))

    def _main(self, worker: Worker, on_end: Callable[[], None]) -> None:
        cause: str | None = None
        detail: str | None = None
        with self._board.transaction:
            self._board.announce(EventKind.WORKER_STARTED, self._board.clock(), worker, device=worker.device)
        try:
            self._stage.work(worker)
        except BaseException as error:  # noqa: BLE001 - a worker that dies of anything is replaced and its job told
            cause, detail = one_line(error), one_line_detail(error)
        with self._board.transaction:
            try:
                if cause is not None:
                    self._stage.abandon(worker, cause)
            finally:
                worker.slot, worker.knobs, worker.blocked = None, None, False
                self._forget(worker)
                self._dead += cause is not None
                self._ended(worker, cause, detail)
                self.ended.append(worker)
                on_end()

    def _forget(self, worker: Worker) -> None:
        if self._workers.get(worker.index) is worker:
            del self._workers[worker.index]
            self.members = tuple(self._workers.values())

    def _ended(self, worker: Worker, cause: str | None, detail: str | None = None) -> None:
        fields = {"stage": self.name, "error": cause}
        if detail is not None:
            fields["detail"] = detail
        self._board.announce(EventKind.WORKER_STOPPED, self._board.clock(), worker, device=worker.device, fields=fields)
        self._board.events.give_back(worker.ring)


class Steward:
    """The thread that starts and joins all others."""

    def __init__(self, pools: Sequence[WorkerPool], board: Board) -> None:
        self._pools = pools
        self._board = board
        self._bell = board.condition()
        self._prodded = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._running: dict[int, Worker] = {}
        """A worker has left its pool before its thread is over."""

    def start(self) -> None:
        """Begin to tend the pools."""
        self._thread = self._board.clock.thread(self._run, "steward")
        self._thread.start()

    def prod(self) -> None:
        """A pool's target or members changed. Called with the lock held."""
        self._prodded = True
        self._bell.notify()

    def close(self) -> None:
        """End once every worker has left. Called with the lock held, all targets being 0."""
        self._closing = True
        self.prod()

    def tends(self, thread: threading.Thread) -> bool:
        """Whether ``join`` waits for this thread, among others. Needs no lock."""
        return any(worker.thread is thread for worker in list(self._running.values()))

    def join(self) -> None:
        """Wait until every thread is over."""
        if self._thread is not None and self._thread is not threading.current_thread():
            with self._board.clock.outside():
                self._thread.join()

    def _run(self) -> None:
        running = self._running
        while True:
            with self._board.transaction:
                while not self._prodded:
                    self._board.wait(self._bell)
                self._prodded = False
                recruits = [(pool, worker) for pool in self._pools for worker in pool.recruit()]
                ended = [worker for pool in self._pools for worker in pool.ended]
                for pool in self._pools:
                    pool.ended = []
                last = self._closing and not any(pool.members for pool in self._pools)
            for pool, worker in recruits:
                running[id(worker)] = worker
                pool.start(worker, self.prod)
                if worker.thread is None:  # none was to be had
                    del running[id(worker)]
            for worker in ended:
                if worker.thread is not None:
                    worker.thread.join()
                    del running[id(worker)]
            if last and not running:
                return
