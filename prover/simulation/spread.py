"""Times that differ from slot to slot, the same in every run: quantiles, visited evenly.

A step's n-th slot takes the quantile at frac(start + n * alpha), alpha irrational: any few slots in a row cover the
distribution evenly (a Weyl sequence), so that the mean of five proofs is close to that of five thousand. What a slot
takes depends on the model's seed, the step and the slot's number alone, never on the order in which threads ran.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from itertools import pairwise

_SQUARES = (5, 2, 3, 7, 13)
"""Alpha is the square root of one of these: steps that use different ones are independent of one another."""


def position(seed: int, step: str, number: int) -> float:
    """Where in its distribution a step of slot ``number`` falls, 0 <= position < 1."""
    mixed = zlib.crc32(f"{seed}/{step}".encode())
    alpha = math.sqrt(_SQUARES[mixed % len(_SQUARES)])
    return (mixed / 2**32 + number * alpha) % 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution of factors, by quantiles at equal distances: least, ..., median (of an odd number), ..., most."""

    quantiles: tuple[float, ...] = (1.0,)

    def at(self, position: float) -> float:
        """The factor at this position, linear between the quantiles."""
        steps = len(self.quantiles) - 1
        if not steps:
            return self.quantiles[0]
        whole = min(int(position * steps), steps - 1)
        low, high = self.quantiles[whole], self.quantiles[whole + 1]
        return low + (high - low) * (position * steps - whole)

    @property
    def mean(self) -> float:
        """The mean of all positions."""
        if len(self.quantiles) == 1:
            return self.quantiles[0]
        return math.fsum((a + b) / 2 for a, b in pairwise(self.quantiles)) / (len(self.quantiles) - 1)


EVEN = Spread()
"""Always the same."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a step takes: so much a slot, so much for each of its partitions, times a factor."""

    slot_s: float = 0.0
    partition_s: float = 0.0
    spread: Spread = EVEN

    def seconds(self, partitions: int, position: float) -> float:
        """Seconds of a slot of so many partitions."""
        return (self.slot_s + self.partition_s * partitions) * self.spread.at(position)


NO_TIME = Timing()
