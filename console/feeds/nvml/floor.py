"""The floor of a GPU's memory: what stays in use between proofs. A floor that rises is a leak."""

from __future__ import annotations

from collections import deque

MINUTE_S = 60.0
LOOK_BACK = 5
"""The floor is the least of so many minutes."""
LEAST_MINUTES = 30
"""A rise is told once this much was seen."""
_KEPT = 24 * 60


class MemoryFloor:
    """The least memory in use, minute by minute, over a day."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def add(self, at: float, used: int) -> None:
        """A sample; ``at`` in seconds."""
        minute = int(at // MINUTE_S)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append((minute, used))
        elif used < self._minutes[-1][1]:
            self._minutes[-1] = minute, used

    @property
    def floor(self) -> int | None:
        """The least of the last minutes, in bytes."""
        last = list(self._minutes)[-LOOK_BACK:]
        return min((used for _, used in last), default=None)

    def line(self, points: int) -> tuple[int, ...]:
        """The floor over all that was seen, in at most so many stretches of equal numbers of minutes, oldest first."""
        used = [least for _, least in self._minutes]
        each = max(LOOK_BACK, -(-len(used) // points))
        return tuple(min(used[at : at + each]) for at in range(len(used) % each, len(used), each))

    @property
    def rise_an_hour(self) -> float | None:
        """Bytes an hour between the first minutes' floor and the last's; ``None`` until there is half an hour.

        The first minutes, in which keys are loaded, are left out.
        """
        minutes = list(self._minutes)[LOOK_BACK:]
        if len(minutes) < LEAST_MINUTES:
            return None
        first, last = minutes[:LOOK_BACK], minutes[-LOOK_BACK:]
        hours = (last[0][0] - first[0][0]) / 60
        return (min(used for _, used in last) - min(used for _, used in first)) / hours if hours > 0 else None
