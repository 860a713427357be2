"""The controller behind ``max_gpu_queue_depth``: it keeps about that many finished syntheses waiting.

It bounds what is on its way (finished syntheses that wait, and those in work) at

    target + synthesis seconds / (device seconds x share of syntheses that succeed), of one slot: Little's law for what
    synthesis itself must hold

so that, when a slot's synthesis is done, about ``target`` others wait before it. A start follows a slot that a device
took, or one that failed on the way, so in steady state starts come at the pace of the devices. Where many are missing
at once they are begun a little faster than devices take them, not all together: begun together they would end
together, and wait. There is no integral to wind up and no count of completions to drift: a slot that fails is simply no
longer on its way (the constant-work-in-process discipline: Spearman, Woodruff, Hopp 1990, "CONWIP").

The device's seconds are those that it is taken for, not those between two slots: where it starves, these are long
because it starves, and to pace by them would keep it starved. Until both have been seen, cold or for a circuit that is
new, ``target`` and one slot for each idle GPU worker may be on their way.
"""

from __future__ import annotations

from prover.model import PacerView

_WEIGHT = 0.25
"""Of the latest measurement in the smoothed one."""
_YIELD_WEIGHT = 0.05
_LEAST_YIELD = 0.25
_SPACING = 0.75
"""Least time between two starts, in device seconds of a slot: a third faster than the devices."""


class _Smoothed:
    """Exponentially smoothed; the first value counts whole."""

    def __init__(self, weight: float = _WEIGHT, value: float | None = None) -> None:
        self.weight = weight
        self.value = value

    def take(self, value: float) -> None:
        self.value = value if self.value is None else self.value + self.weight * (value - self.value)


class Pacer:
    """Says whether another synthesis may begin. Called with the engine's lock held."""

    def __init__(self) -> None:
        self._synthesis = _Smoothed()
        self._device = _Smoothed()
        self._yield = _Smoothed(_YIELD_WEIGHT, 1.0)
        self._last_start = float("-inf")
        self.ready_at: float | None = None
        """After ``may_begin`` said no: when to ask again although nothing happens; None if something has to."""
        self.view = PacerView(0, 0, 0, None, None, None, False)

    def begun(self, now: float) -> None:
        """A synthesis began."""
        self._last_start = now

    def synthesised(self, seconds: float) -> None:
        """A slot's synthesis took so long."""
        self._synthesis.take(seconds)
        self._yield.take(1.0)

    def failed(self) -> None:
        """A slot's synthesis failed."""
        self._yield.take(0.0)

    def proved(self, locked_s: float, section_s: float, workers: int, devices: int) -> None:
        """A slot has left its device.

        Args:
            locked_s: seconds under the device's lock.
            section_s: seconds on the device without the wait for its lock.
            workers: workers of a device: so many sections go on at once.
            devices: devices that prove.
        """
        self._device.take(max(locked_s, section_s / max(workers, 1)) / max(devices, 1))

    def may_begin(
        self, target: int, waiting: int, in_work: int, idle_workers: int, now: float, wanted: bool = True
    ) -> bool:
        """Whether one more may begin; ``wanted``: whether there is one. With a target of 0 any may."""
        limit = None if target <= 0 else self._limit(target, idle_workers)
        free = limit is None or waiting + in_work < limit
        self.ready_at = None
        if free and limit is not None and self._device.value is not None and waiting + in_work:
            at = self._last_start + _SPACING * self._device.value * self._share
            if now < at:
                free, self.ready_at = False, at
        held = wanted and not free
        synthesis, device = self._synthesis.value, self._device.value
        self.view = PacerView(max(target, 0), waiting, in_work, limit, synthesis, device, held)
        return free

    @property
    def _share(self) -> float:
        """Of the syntheses, how many succeed."""
        return max(self._yield.value or 0.0, _LEAST_YIELD)

    def _limit(self, target: int, idle_workers: int) -> int:
        synthesis, device = self._synthesis.value, self._device.value
        if synthesis is None or device is None:
            return target + max(idle_workers, 1)
        return target + idle_workers + max(1, round(synthesis / max(device * self._share, 1e-9)))


__all__ = ["Pacer"]
