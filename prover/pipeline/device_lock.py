"""The lock of a device: one worker at a time computes on it, the foremost waiting slot next.

It may be kept free for a critical slot that is on its way (``reserved``): others then wait although nobody has it.

Every method is called with the engine's lock held; waiting lets go of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prover.pipeline.channel import Keyed, Make, Wait


@dataclass(eq=False, slots=True)
class _Waiter:
    key: Keyed
    who: str
    condition: threading.Condition
    urgent: Callable[[], bool]
    granted: bool = False


class DeviceLock:
    """Held by a worker by name, handed straight to the next."""

    def __init__(self, lock: threading.Lock, wait: Wait, make: Make | None = None) -> None:
        """``make`` makes conditions of the engine's lock, ``wait`` waits for one."""
        self._condition = make or partial(threading.Condition, lock)
        self._wait = wait
        self._waiters: list[_Waiter] = []
        self.holder: str | None = None
        self.reserved: Callable[[], bool] = lambda: False
        """Whether an urgent slot is about to ask for it."""

    @property
    def waiting(self) -> int:
        """Workers that wait for it."""
        return len(self._waiters)

    def acquire(
        self, who: str, key: Keyed, abandoned: Callable[[], bool], urgent: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait for the lock; False, without it, as soon as ``abandoned()`` says so. For a slot that is urgent when its
        turn comes the lock is not kept free: it is that slot.
        """
        if abandoned():
            return False
        waiter = _Waiter(key, who, self._condition(), urgent)
        self._waiters.append(waiter)
        self.pass_on()
        while not waiter.granted:
            self._wait(waiter.condition)
            if not waiter.granted and abandoned():
                self._waiters.remove(waiter)
                return False
        return True

    def release(self, who: str) -> None:
        """Give the lock to the foremost waiting slot. Only its holder may."""
        if self.holder != who:
            raise RuntimeError(f"{who} releases a lock that {self.holder} holds")
        self.holder = None
        self.pass_on()

    def pass_on(self) -> None:
        """Give a free lock to whom it is due. To be called when ``reserved`` may have changed."""
        if self.holder is not None or not self._waiters:
            return
        waiter = min(self._waiters, key=lambda waiter: waiter.key())
        if not waiter.urgent() and self.reserved():
            return
        self._waiters.remove(waiter)
        self.holder = waiter.who
        waiter.granted = True
        waiter.condition.notify()

    def wake(self) -> None:
        """Let every waiter ask ``abandoned()`` again."""
        for waiter in self._waiters:
            waiter.condition.notify()
