"""The lock of a device: one worker at a time computes on it, the oldest waiting slot next.

Every method is called with the engine's lock held; waiting lets go of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prover.pipeline.channel import Key, Make, Wait


@dataclass(eq=False, slots=True)
class _Waiter:
    key: Key
    who: str
    condition: threading.Condition
    granted: bool = False


class DeviceLock:
    """Held by a worker by name, handed straight to the next."""

    def __init__(self, lock: threading.Lock, wait: Wait, make: Make | None = None) -> None:
        """``make`` makes conditions of the engine's lock, ``wait`` waits for one."""
        self._condition = make or partial(threading.Condition, lock)
        self._wait = wait
        self._waiters: list[_Waiter] = []
        self.holder: str | None = None

    @property
    def waiting(self) -> int:
        """Workers that wait for it."""
        return len(self._waiters)

    def acquire(self, who: str, key: Key, abandoned: Callable[[], bool]) -> bool:
        """Wait for the lock; False, without it, as soon as ``abandoned()`` says so."""
        if abandoned():
            return False
        if self.holder is None:
            self.holder = who
            return True
        waiter = _Waiter(key, who, self._condition())
        self._waiters.append(waiter)
        while not waiter.granted:
            self._wait(waiter.condition)
            if not waiter.granted and abandoned():
                self._waiters.remove(waiter)
                return False
        return True

    def release(self, who: str) -> None:
        """Give the lock to the oldest waiting slot. Only its holder may."""
        if self.holder != who:
            raise RuntimeError(f"{who} releases a lock that {self.holder} holds")
        self.holder = None
        if self._waiters:
            waiter = min(self._waiters, key=lambda waiter: waiter.key)
            self._waiters.remove(waiter)
            self.holder = waiter.who
            waiter.granted = True
            waiter.condition.notify()

    def wake(self) -> None:
        """Let every waiter ask ``abandoned()`` again."""
        for waiter in self._waiters:
            waiter.condition.notify()
