"""The engine's time: what the clock says, how threads wait, and which threads take part.

The engine reads its clock, makes its conditions and its threads through one ``EngineClock``, so that the same engine
runs in real time, or on a time that passes only when nothing else can happen (``VirtualClock``: hours in milliseconds,
and exact), at a given pace if somebody watches (``PacedClock``).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

from prover.cancel import Cancelled, CancelToken

T = TypeVar("T")


class EngineClock:
    """Real time, read from ``now``. Base of the others.

    Threads of the engine are made by ``thread`` and wait only on what ``condition`` made; what they wait for besides
    (a join) stands in ``outside()``.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._read = now

    def __call__(self) -> float:
        """Seconds."""
        return self._read()

    def condition(self, lock: threading.Lock) -> threading.Condition:
        """A condition of this lock whose timeouts are this clock's seconds."""
        return threading.Condition(lock)

    def event(self) -> threading.Event:
        """An event for whose setting threads that take part may wait."""
        return threading.Event()

    def thread(self, target: Callable[..., None], name: str, args: tuple[Any, ...] = ()) -> threading.Thread:
        """A daemon thread that takes part from its start to its end."""
        return threading.Thread(target=target, name=name, args=args, daemon=True)

    def outside(self) -> AbstractContextManager[object]:
        """The calling thread waits for something that this clock knows nothing of."""
        return nullcontext()

    def sleep(self, seconds: float, cancel: CancelToken | None = None) -> None:
        """Wait so long; raises ``Cancelled`` as soon as that is asked."""
        token = cancel or CancelToken()
        lock = threading.Lock()
        asked = self.condition(lock)

        def ring() -> None:
            with lock:
                asked.notify_all()

        with token.calling(ring), lock:
            asked.wait_for(lambda: token.cancelled, seconds)
        if token.cancelled:
            raise Cancelled


def engine_clock(now: Callable[[], float]) -> EngineClock:
    """``now`` itself if it is an engine's clock, or real time as ``now`` tells it."""
    return now if isinstance(now, EngineClock) else EngineClock(now)


class _Condition(threading.Condition):
    """``wait_for`` by another clock than the machine's."""

    def __init__(self, lock: threading.Lock, clock: EngineClock) -> None:
        super().__init__(lock)
        self._clock = clock

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """Wait until it holds, or for so many of the clock's seconds; what the predicate said last."""
        end = None if timeout is None else self._clock() + timeout
        while not (result := predicate()):
            left = None if end is None else end - self._clock()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result


class _Waiter:
    """A thread that waits, with its gate closed. ``counts``: it takes part."""

    __slots__ = ("counts", "gate", "notified", "woken")

    def __init__(self, counts: bool) -> None:
        self.counts = counts
        self.gate = threading.Lock()
        self.gate.acquire()
        self.woken = False
        self.notified = False


class VirtualClock(EngineClock):
    """Time that stands still while any thread that takes part can run, and then moves to the next end of a wait.

    The clock counts: a thread is taken off when it waits, and put on again by whoever wakes it, before that thread
    runs; one that is started is counted from ``start()`` on. So nothing is polled, and no moment is passed over.

    With ``autopilot`` the thread that goes to rest last moves the time. Without, time moves by ``advance`` alone, once
    everything rests (``settle``): for tests, which decide at each such moment.
    """

    def __init__(self, start: float = 0.0, autopilot: bool = True) -> None:
        super().__init__(lambda: self._now)
        self._now = start
        self._autopilot = autopilot
        self._lock = threading.Lock()  # taken last, below every other lock
        self._at_rest = threading.Condition(self._lock)
        self._running = 0
        self._due: list[tuple[float, int, _Waiter]] = []
        self._numbers = count()
        self._here = threading.local()

    def condition(self, lock: threading.Lock) -> threading.Condition:
        return _VirtualCondition(lock, self)

    def event(self) -> threading.Event:
        return _Event(self)

    def thread(self, target: Callable[..., None], name: str, args: tuple[Any, ...] = ()) -> threading.Thread:
        return _Participant(self, target, name, args)

    @contextmanager
    def attending(self) -> Iterator[None]:
        """The calling thread takes part: time stands still but while it waits."""
        self.begin()
        self._here.counts = True
        try:
            yield
        finally:
            self._here.counts = False
            self.end()

    @contextmanager
    def _outside(self) -> Iterator[None]:
        self._here.counts = False
        self.end()
        try:
            yield
        finally:
            self.begin()
            self._here.counts = True

    def outside(self) -> AbstractContextManager[object]:
        return self._outside() if self.counts else nullcontext()

    @property
    def counts(self) -> bool:
        """Whether the calling thread takes part."""
        return getattr(self._here, "counts", False)

    # -- by hand ------------------------------------------------------------------------------------------------------

    def settle(self, patience_s: float = 60.0) -> None:
        """Wait until everything rests. Raises ``TimeoutError`` after so many real seconds."""
        with self._lock:
            if not self._at_rest.wait_for(lambda: not self._running, patience_s):
                raise TimeoutError(f"{self._running} threads neither end nor wait")

    def advance(self, until: float | None = None) -> bool:
        """Move to the next end of a wait, or to ``until`` if that is earlier; whether there was anything to move to."""
        with self._lock:
            self._forget_woken()
            if until is not None and (not self._due or self._due[0][0] > until):
                self._set(max(self._now, until))
                return True
            return self._advance()

    # -- from conditions and threads ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """One more thread runs."""
        with self._lock:
            self._moment()
            self._running += 1

    def end(self) -> None:
        """One thread less runs."""
        with self._lock:
            self._rest()

    def mark(self) -> None:
        """The calling thread is one that was counted by ``begin``."""
        self._here.counts = True

    def park(self, timeout: float | None) -> _Waiter:
        """The calling thread goes to rest, once it passes its waiter's gate."""
        waiter = _Waiter(self.counts)
        with self._lock:
            if timeout is not None:
                heappush(self._due, (self._moment() + timeout, next(self._numbers), waiter))
            if waiter.counts:
                self._rest()
            else:
                self._at_rest.notify_all()
                self._drive()
        return waiter

    def wake(self, waiter: _Waiter) -> bool:
        """Let a thread run again; False if it was let before."""
        with self._lock:
            self._moment()
            return self._wake(waiter)

    def _wake(self, waiter: _Waiter) -> bool:
        if waiter.woken:
            return False
        waiter.woken = True
        self._running += waiter.counts
        waiter.gate.release()
        return True

    def _rest(self) -> None:
        self._running -= 1
        if not self._running:
            self._at_rest.notify_all()
        self._drive()

    def _moment(self) -> float:
        """The present; a thread that begins to run begins in it."""
        return self._now

    def _set(self, now: float) -> None:
        self._now = now

    def _drive(self) -> None:
        while self._autopilot and not self._running and self._advance():
            pass

    def _advance(self) -> bool:
        self._forget_woken()
        if not self._due:
            return False
        self._set(max(self._now, self._due[0][0]))
        while self._due and self._due[0][0] <= self._now:
            self._wake(heappop(self._due)[2])
        return True

    def _forget_woken(self) -> None:
        while self._due and self._due[0][2].woken:
            heappop(self._due)


class PacedClock(VirtualClock):
    """Virtual time whose waits take real time, ``speed`` times as fast: exact for the engine, smooth for who watches.

    Threads that take part read the moment at which they were woken; others read a time that flows up to the next end
    of a wait. What threads do between their waits takes none of this time, however long it really takes.
    """

    def __init__(self, speed: float = 1.0, start: float = 0.0) -> None:
        if not speed > 0:
            raise ValueError("time passes forwards")
        super().__init__(start, autopilot=False)
        self.speed = speed
        self._anchor = time.monotonic()
        self._open = True
        self._pacer = threading.Thread(target=self._pace, name="pacer", daemon=True)
        self._pacer.start()

    def __call__(self) -> float:
        if self.counts:
            return self._now
        with self._lock:
            return self._reading()

    def close(self) -> None:
        """Let time stand still from now on."""
        with self._lock:
            self._open = False
            self._at_rest.notify_all()
        self._pacer.join()

    def _reading(self) -> float:
        if self._running or not self._open:
            return self._now
        flowing = self._now + (time.monotonic() - self._anchor) * self.speed
        self._forget_woken()
        return min(flowing, max(self._due[0][0], self._now)) if self._due else flowing

    def _moment(self) -> float:
        self._set(self._reading())
        return self._now

    def _set(self, now: float) -> None:
        self._now, self._anchor = now, time.monotonic()

    def _rest(self) -> None:
        self._anchor = time.monotonic()
        super()._rest()

    def _pace(self) -> None:
        with self._lock:
            while self._open:
                self._forget_woken()
                left = self._due[0][0] - self._reading() if self._due else 0.0
                if self._running or not self._due:
                    self._at_rest.wait()
                elif left > 0:
                    self._at_rest.wait(left / self.speed)
                else:
                    self._advance()


class _VirtualCondition(_Condition):
    """Threads in order of their coming, each with its gate."""

    def __init__(self, lock: threading.Lock, clock: VirtualClock) -> None:
        super().__init__(lock, clock)
        self._time = clock
        self._queue: deque[_Waiter] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None and timeout <= 0:
            return False
        waiter = self._time.park(timeout)
        self._queue.append(waiter)
        self.release()
        try:
            waiter.gate.acquire()
        finally:
            self._time.wake(waiter)  # it was, unless this thread was interrupted
            self.acquire()
            if waiter in self._queue:
                self._queue.remove(waiter)
        return waiter.notified

    def notify(self, n: int = 1) -> None:
        while n > 0 and self._queue:
            waiter = self._queue.popleft()
            if self._time.wake(waiter):
                waiter.notified = True
                n -= 1

    def notify_all(self) -> None:
        self.notify(len(self._queue))


class _Event(threading.Event):
    """Waited for in a clock's time."""

    def __init__(self, clock: EngineClock) -> None:
        super().__init__()
        self._changed = clock.condition(threading.Lock())

    def set(self) -> None:
        with self._changed:
            super().set()
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(self.is_set, timeout)


class _Participant(threading.Thread):
    def __init__(self, clock: VirtualClock, target: Callable[..., None], name: str, args: tuple[Any, ...]) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)
        self._clock = clock

    def start(self) -> None:
        self._clock.begin()
        try:
            super().start()
        except BaseException:
            self._clock.end()
            raise

    def run(self) -> None:
        self._clock.mark()
        try:
            super().run()
        finally:
            self._clock.end()
