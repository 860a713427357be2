"""The steward: it is over only when every thread that it started is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from prover.pipeline.board import Board
from prover.pipeline.events import EventLog
from prover.pipeline.records import Worker
from prover.pipeline.workers import Steward, WorkerPool


class LeavingStage:
    """Workers that only wait to be let go; the first then takes its time."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.pool = WorkerPool("synthesis", "leaver", self, board)
        self.may_end = threading.Event()

    def work(self, worker: Worker) -> None:
        with self.board.transaction:
            while not self.pool.leaves(worker):
                self.board.wait(self.pool.bell)
        if worker.index == 0:
            assert self.may_end.wait(30)

    def abandon(self, worker: Worker, cause: str) -> None:
        raise AssertionError(cause)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()} & {"leaver-0", "leaver-1", "steward"}


def test_a_worker_that_left_its_pool_is_waited_for_until_its_thread_ends() -> None:
    board = Board(time.monotonic, EventLog(64))
    stage = LeavingStage(board)
    steward = Steward([stage.pool], board)
    steward.start()
    with board.transaction:
        stage.pool.target = 2
        steward.prod()
    wait_until(lambda: threads() == {"leaver-0", "leaver-1", "steward"})
    with board.transaction:
        stage.pool.target = 0
        stage.pool.bell.notify_all()
        steward.close()
    wait_until(lambda: "leaver-1" not in threads())
    joiner = threading.Thread(target=steward.join)
    joiner.start()
    joiner.join(0.3)
    assert joiner.is_alive() and stage.pool.members == ()
    stage.may_end.set()
    joiner.join(30)
    assert threads() == set()
