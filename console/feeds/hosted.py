"""The prover in this process: made in a thread of its own after the first frame, watched, and stopped in time.

Everything that the engine's threads start inherits their niceness, so one call at the head of the starting thread puts
all proving a step behind the interface: keys are answered while every core proves.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from prover.cancel import Cancelled, CancelToken
from prover.model import Counters, Event, Snapshot
from prover.pipeline.interfaces import Change, EngineView, Progress, Receipt

NICENESS = 5
"""How far proving stands behind the interface on a machine whose cores are all busy."""
_NICEST = 19


class Session(Protocol):
    """A running engine with what feeds it and what writes its log."""

    @property
    def engine(self) -> EngineView:
        """The engine."""

    @property
    def trouble(self) -> str | None:
        """Why nothing is submitted or logged any more, in one line."""

    @property
    def idle(self) -> bool:
        """Whether nothing more will be proved unless somebody brings it."""

    def stop(self, *, drain: bool = False) -> None:
        """Stop all of it and join its threads. ``drain`` lets what was begun end for the knob ``drain_timeout_s``."""

    def hurry(self) -> None:
        """Cut the drain of a ``stop`` short. Returns at once."""


Starter = Callable[[Progress, CancelToken], Session]
"""Starts a session, telling what it does meanwhile; raises ``ProverError`` or ``Cancelled``."""

_NOT_READY = Receipt(False, 0, reason="the engine is still starting")


def stand_back(niceness: int = NICENESS) -> None:
    """Lower the priority of the calling thread and of all threads that it will start. Linux; elsewhere nothing."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(_NICEST, now + niceness))


class HostedEngine:
    """``EngineView`` over an engine that is being made, runs, or failed to start."""

    def __init__(
        self, starter: Starter, subject: str, clock: Callable[[], float] = time.monotonic, simulated: bool = False
    ) -> None:
        self._starter = starter
        self._simulated = simulated
        self._subject = subject
        self._clock = clock
        self._begun = clock()
        self._cancel = CancelToken()
        self._activity = "getting ready"
        self._session: Session | None = None
        self._thread = threading.Thread(target=self._run, name="engine-start", daemon=True)
        self._stopper: threading.Thread | None = None
        self._hurried = False
        self._failure: BaseException | None = None

    @property
    def ready(self) -> bool:
        """Whether the engine runs."""
        return self._session is not None

    @property
    def failure(self) -> BaseException | None:
        """What kept the engine from starting."""
        return self._failure

    @property
    def trouble(self) -> str | None:
        """What is wrong with a running session."""
        return self._session.trouble if self._session is not None else None

    @property
    def idle(self) -> bool:
        """Whether nothing more will be proved unless somebody brings it."""
        return self._session is not None and self._session.idle

    def start(self) -> None:
        """Begin to make the engine."""
        self._thread.start()

    def snapshot(self) -> Snapshot:
        """The engine's picture; before it runs, an empty one that tells what is being prepared."""
        if self._session is not None:
            return self._session.engine.snapshot()
        return Snapshot(
            at=self._clock(),
            started=self._begun,
            last_seq=0,
            circuit="",
            workload=self._subject,
            paused=False,
            jobs=(),
            stages=(),
            devices=(),
            knobs=(),
            knob_generation=0,
            counters=Counters(),
            activity=self._activity,
            simulated=self._simulated,
        )

    def events(self, since: int) -> Sequence[Event]:
        """The engine's events."""
        return self._session.engine.events(since) if self._session is not None else ()

    def propose(self, change: Change) -> Receipt:
        """Hand a proposal to the engine."""
        return self._session.engine.propose(change) if self._session is not None else _NOT_READY

    def undo(self, who: str = "operator") -> Receipt:
        """Hand an undo to the engine."""
        return self._session.engine.undo(who) if self._session is not None else _NOT_READY

    def stop(self, timeout_s: float) -> bool:
        """Cancel what is being made or proved, or drained; whether all of it ended within ``timeout_s``. Ask again to
        wait more.
        """
        self._hurried = True
        stopper = self._stopping(drain=False)
        if self._session is not None:
            self._session.hurry()
        stopper.join(timeout_s)
        return not stopper.is_alive()

    def drain(self, timeout_s: float) -> bool:
        """Cancel what is being made, begin nothing new, let what was begun end within its time; whether all of it ended
        within ``timeout_s``. Ask again to wait more, ``stop`` not to.
        """
        stopper = self._stopping(drain=True)
        stopper.join(timeout_s)
        return not stopper.is_alive()

    def _stopping(self, *, drain: bool) -> threading.Thread:
        if self._stopper is None:
            self._cancel.cancel()
            self._stopper = threading.Thread(target=self._stop, args=(drain,), name="engine-stop", daemon=True)
            self._stopper.start()
        return self._stopper

    def _stop(self, drain: bool) -> None:
        if self._thread.ident is not None:
            self._thread.join()
        if self._session is not None:
            self._session.stop(drain=drain and not self._hurried)

    def _run(self) -> None:
        stand_back()
        try:
            self._session = self._starter(self._tell, self._cancel)
        except Cancelled:
            return
        except Exception as error:  # noqa: BLE001 - the main thread reports it, as a refusal or as a crash
            self._failure = error

    def _tell(self, what: str, share: float | None) -> None:
        self._activity = what if share is None else f"{what} {share * 100:3.0f} %"
