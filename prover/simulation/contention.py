"""What runs at once slows each other: work goes on at a rate that changes as other work comes and goes.

Work of one kind shares one rate. The machine keeps, for each kind, how much a worker would have done since the start
(the integral of its rate); a piece of work is over when that has grown by its length. So a change of rate in the
middle of a hundred pieces costs one addition, and no error adds up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from prover.cancel import Cancelled, CancelToken
from prover.pipeline.clock import EngineClock

_DONE_S = 1e-9
"""Work that is nearer to its end than this is over: rounding leaves no smaller rest."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """How many times as long work takes by how much other work there is: points, linear between and beyond them."""

    points: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def at(self, load: float) -> float:
        """The factor under this load."""
        points = self.points
        if load <= points[0][0] or len(points) == 1:
            return points[0][1]
        place = next((index for index, point in enumerate(points) if load <= point[0]), len(points) - 1)
        (x0, y0), (x1, y1) = points[place - 1], points[place]
        return y0 + (y1 - y0) * (load - x0) / (x1 - x0)


FREE = Slowdown()
"""Nothing slows it."""


@dataclass(eq=False, slots=True)
class Kind:
    """A kind of work. ``slowdown`` is asked how many times as long it takes while what counts is as given."""

    name: str
    slowdown: Callable[[Counter[str]], float]
    done_s: float = field(default=0.0, init=False)
    """Seconds of work that one worker would have done since the start."""


class Machine:
    """Who works, and how fast."""

    def __init__(self, clock: EngineClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = clock.condition(self._lock)
        self._kinds: dict[str, Kind] = {}
        self._busy: Counter[str] = Counter()
        self._since = clock()

    def add(self, name: str, slowdown: Callable[[Counter[str]], float]) -> None:
        """Know a kind of work; ``slowdown`` is given how many work on each kind."""
        with self._lock:
            self._settle()
            self._kinds[name] = Kind(name, slowdown)

    def work(
        self,
        name: str,
        seconds: float,
        cancel: CancelToken | None = None,
        reached: Callable[[float], None] = lambda share: None,
        steps: int = 1,
    ) -> None:
        """Do work that takes ``seconds`` if nothing slows it; ``reached`` is told each time another ``steps``-th of it
        is done, how much is done. Raises ``Cancelled`` as soon as that is asked.
        """
        token = cancel or CancelToken()
        kind = self._kinds[name]
        with token.calling(self._ring), self._lock:
            self._turn(name, 1)
            begin = kind.done_s
            try:
                for step in range(1, steps + 1):
                    end = begin + seconds * step / steps
                    while not token.cancelled and end - kind.done_s > _DONE_S:
                        self._changed.wait((end - kind.done_s) * kind.slowdown(self._busy))
                        self._settle()
                    if not token.cancelled:
                        reached(step / steps)
            finally:
                self._turn(name, -1)
        if token.cancelled:
            raise Cancelled

    def _ring(self) -> None:
        with self._lock:
            self._changed.notify_all()

    def _turn(self, name: str, by: int) -> None:
        """One more or one less works: what was done so far is kept, and who works looks again at the clock."""
        before = {kind.name: kind.slowdown(self._busy) for kind in self._kinds.values()}
        self._settle()
        self._busy[name] += by
        if any(kind.slowdown(self._busy) != before[kind.name] for kind in self._kinds.values()):
            self._changed.notify_all()

    def _settle(self) -> None:
        now = self._clock()
        for kind in self._kinds.values():
            kind.done_s += (now - self._since) / kind.slowdown(self._busy)
        self._since = now
