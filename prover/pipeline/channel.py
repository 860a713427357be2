"""The bounded channel between synthesis and the GPU workers.

It holds ``capacity`` finished slots. A synthesiser that finishes when it is full keeps its slot in hand (not counted as
queued) and stays in ``put``; with capacity 0 a slot only ever passes from hand to hand. Whoever takes gets the foremost
slot of all, queued or in hand. Keys are asked for at each choice, since a slot's class may change while it waits. The
capacity changes at any time: growing takes slots in at once, shrinking waits for the queue to drain.

Every method is called with the engine's lock held; waiting lets go of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
Key = tuple[float, ...]
"""Lower goes first."""
Keyed = Callable[[], Key]
Wait = Callable[[threading.Condition], object]
Make = Callable[[], threading.Condition]


@dataclass(eq=False, slots=True)
class _Queued(Generic[T]):
    key: Keyed
    item: T
    beyond: bool = False
    """Taken in although there was no room."""


@dataclass(eq=False, slots=True)
class _Offer(Generic[T]):
    """A finished slot in the hand of its synthesiser."""

    key: Keyed
    item: T
    condition: threading.Condition
    accepted: bool | None = None


@dataclass(eq=False, slots=True)
class _Claim(Generic[T]):
    """A worker that waits."""

    condition: threading.Condition
    item: T | None = None


class Channel(Generic[T]):
    """Slots on their way to the workers. Keys order them."""

    def __init__(self, lock: threading.Lock, capacity: int, wait: Wait, make: Make | None = None) -> None:
        """``make`` makes conditions of the lock, ``wait`` waits for one."""
        self._condition = make or partial(threading.Condition, lock)
        self._wait = wait
        self._capacity = capacity
        self._open = True
        self._queue: list[_Queued[T]] = []
        self._offers: list[_Offer[T]] = []
        self._claims: deque[_Claim[T]] = deque()

    @property
    def capacity(self) -> int:
        """How many finished slots it holds."""
        return self._capacity

    @property
    def queued(self) -> int:
        """How many it holds now."""
        return len(self._queue)

    @property
    def surplus(self) -> int:
        """How many it holds beyond its capacity."""
        return max(len(self._queue) - self._capacity, 0)

    @property
    def laid_down(self) -> bool:
        """Whether a slot that was taken in beyond the capacity is still one too many."""
        return self.surplus > 0 and any(entry.beyond for entry in self._queue)

    @property
    def held(self) -> int:
        """Synthesisers that wait with a finished slot in hand."""
        return len(self._offers)

    @property
    def waiting(self) -> int:
        """Workers that wait for a slot."""
        return len(self._claims)

    def put(self, item: T, key: Keyed, *, beyond: bool = False) -> bool:
        """Hand a finished slot over; waits while the channel is full, unless it may go ``beyond`` its capacity. False
        if it was withdrawn meanwhile.
        """
        offer = _Offer(key, item, self._condition())
        self._offers.append(offer)
        self._match()
        if beyond and offer.accepted is None:
            self._take_in(offer, beyond=True)
        while offer.accepted is None:
            self._wait(offer.condition)
        return offer.accepted

    def take(self, leave: Callable[[], bool]) -> T | None:
        """The foremost slot, waiting for one; None as soon as ``leave()`` says so (asked before each wait)."""
        while not leave():
            claim: _Claim[T] = _Claim(self._condition())
            self._claims.append(claim)
            self._match()
            if claim.item is None:
                self._wait(claim.condition)
            if claim.item is not None:
                return claim.item
            self._claims.remove(claim)
        return None

    def overflow(self, such: Callable[[T], bool]) -> None:
        """Take the hindmost slot like this in hand in beyond the capacity, if there is one: its synthesiser is free for
        something more urgent.
        """
        offers = [offer for offer in self._offers if such(offer.item)]
        if offers:
            self._take_in(max(offers, key=_key), beyond=True)

    def holds(self, such: Callable[[T], bool]) -> bool:
        """Whether a slot like this waits, queued or in hand, and may be taken."""
        return self._open and (
            any(such(entry.item) for entry in self._queue) or any(such(offer.item) for offer in self._offers)
        )

    def resize(self, capacity: int) -> None:
        """Hold this many from now on."""
        self._capacity = capacity
        self._match()

    def set_open(self, open_: bool) -> None:
        """A closed channel gives nothing out."""
        self._open = open_
        self._match()

    def wake(self) -> None:
        """Let every waiting worker ask ``leave()`` again."""
        for claim in self._claims:
            claim.condition.notify()

    def withdraw(self, doomed: Callable[[T], bool]) -> list[T]:
        """Take slots out for good. Returns the queued ones; ``put`` of those in hand returns False."""
        gone = [entry.item for entry in self._queue if doomed(entry.item)]
        self._queue = [entry for entry in self._queue if not doomed(entry.item)]
        for offer in [offer for offer in self._offers if doomed(offer.item)]:
            self._settle(offer, False)
        self._match()
        return gone

    def _match(self) -> None:
        """Bring slots and workers together, then fill the queue from the hands, foremost first."""
        while self._open and self._claims and (self._queue or self._offers):
            claim = self._claims.popleft()
            claim.item = self._pop_foremost()
            claim.condition.notify()
        while self._offers and len(self._queue) < self._capacity:
            self._take_in(min(self._offers, key=_key))

    def _take_in(self, offer: _Offer[T], beyond: bool = False) -> None:
        self._queue.append(_Queued(offer.key, offer.item, beyond))
        self._settle(offer, True)

    def _pop_foremost(self) -> T:
        offer = min(self._offers, key=_key, default=None)
        queued = min(self._queue, key=_key, default=None)
        if offer is None or (queued is not None and queued.key() < offer.key()):
            assert queued is not None
            self._queue.remove(queued)
            return queued.item
        self._settle(offer, True)
        return offer.item

    def _settle(self, offer: _Offer[T], accepted: bool) -> None:
        self._offers.remove(offer)
        offer.accepted = accepted
        offer.condition.notify()


def _key(entry: _Queued[T] | _Offer[T]) -> Key:
    return entry.key()
