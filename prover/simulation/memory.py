"""The modelled machine's memory: what is there always, and what each slot takes from its synthesis to its release."""

from __future__ import annotations

import threading
import weakref


class Memory:
    """Bytes in use now and at most, and those of the pinned pool."""

    def __init__(self, fixed: int, total: int) -> None:
        self.total = total
        self._lock = threading.RLock()  # garbage may be collected, and give bytes back, anywhere
        self._used = fixed
        self._peak = fixed
        self._pinned = 0

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._used

    @property
    def pinned(self) -> int:
        """Bytes of them that are pinned."""
        return self._pinned

    def take(self, size: int, pinned: int = 0, pool: int | None = None) -> Holding:
        """Take ``size`` bytes until they are given back or nobody has the holding any more. ``pinned`` of them are,
        if a pool of ``pool`` bytes (None: as large as it has to be) has room for them.
        """
        with self._lock:
            fits = pinned > 0 and (pool is None or self._pinned + pinned <= pool)
            return Holding(self, size, pinned if fits else 0)

    def change(self, used: int, pinned: int) -> None:
        """So many bytes more, or less."""
        with self._lock:
            self._used += used
            self._pinned += pinned
            self._peak = max(self._peak, self._used)

    def take_peak(self) -> int:
        """The most that was in use since the last call."""
        with self._lock:
            peak, self._peak = self._peak, self._used
            return peak


class Holding:
    """Bytes that a slot has."""

    def __init__(self, memory: Memory, size: int, pinned: int) -> None:
        self._memory = memory
        self._have = (0, 0)
        self._end: weakref.finalize[[int, int], Holding] | None = None
        self.resize(size, pinned)

    @property
    def pinned(self) -> bool:
        """Whether any are pinned."""
        return self._have[1] > 0

    def resize(self, size: int, pinned: int = 0) -> None:
        """Have so many bytes instead."""
        if self._end is not None:
            self._end.detach()
        self._memory.change(size - self._have[0], pinned - self._have[1])
        self._have = (size, pinned)
        self._end = weakref.finalize(self, self._memory.change, -size, -pinned)
        self._end.atexit = False

    def grow(self, size: int) -> None:
        """Have so many bytes; what is pinned stays."""
        self.resize(size, self._have[1])

    def release(self) -> None:
        """Give all back. Idempotent."""
        self.resize(0)
