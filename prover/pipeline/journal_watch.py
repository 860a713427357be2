"""A running engine's journal: resumes what was unfinished, tells of trouble and of its end, is closed by it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from prover.pipeline.engine import Engine
from prover.pipeline.journal import Journal
from prover.pipeline.records import one_line
from prover.pipeline.resume import Submitter, resume

LOOK_S = 0.5
"""How often the journal's state is looked at."""


class JournalWatch:
    """Looks after the journal of an engine whose workload is ready.

    Everything worth telling becomes a ``JOURNAL`` event: what was resumed, trouble, its end. ``problem`` is the banner.
    """

    def __init__(self, engine: Engine, journal: Journal, submitters: Sequence[Submitter]) -> None:
        self._engine = engine
        self._journal = journal
        self._submitters = submitters
        self._resumed = False
        self._told: str | None = None
        self._noticed: str | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with the journal now, in one line."""
        state = self._journal.state
        return None if state == "ok" else state.removeprefix("degraded: ")

    def start(self) -> None:
        """Resume what is open, before anything else is submitted; where it is in trouble, as soon as it heals."""
        self._look()
        self._thread = threading.Thread(target=self._run, name="journal-watch", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Close the journal, once the engine has stopped; whether everything was written."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        return self._journal.close(timeout_s)

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        problem, notice = self.problem, self._journal.notice
        if notice is not None and notice != self._noticed:
            self._noticed = notice
            self._engine.tell_journal(notice, trouble=True)
        if problem is not None and self._told is None:
            self._engine.tell_journal(problem, trouble=True)
        elif problem is None and self._told is not None:
            self._engine.tell_journal(f"the journal is written again{self._lost()}", trouble=False)
        self._told = problem
        if problem is None and not self._resumed:
            self._resume()

    def _lost(self) -> str:
        lost = self._journal.lost
        return f"; {lost} entries were lost" if lost else ""

    def _resume(self) -> None:
        try:
            done = resume(self._engine, self._journal, self._submitters)
        except Exception as error:  # noqa: BLE001 - a defect of a submitter's: its jobs stay open, the engine goes on
            self._resumed = True
            self._engine.tell_journal(f"not all jobs could be resumed: {one_line(error)}", trouble=True)
            return
        if done is None:
            return
        self._resumed = True
        if done.line is not None:
            self._engine.tell_journal(done.line, trouble=bool(done.failed or done.undelivered))


__all__ = ["JournalWatch"]
