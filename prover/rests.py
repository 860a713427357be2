"""When devices rest as the operator says: all of them (``paused``), or those that ``gpu_devices`` leaves out."""

from __future__ import annotations

from prover.intervals import Interval, IntervalSet, Switch
from prover.model import Event, EventKind


def names_device(devices: str, ordinal: int) -> bool:
    """Whether a value of the knob ``gpu_devices`` names a device."""
    return devices == "all" or str(ordinal) in devices.split(",")


class Rests:
    """Folds the events that tell of it."""

    def __init__(self) -> None:
        self._paused = Switch()
        self._wanted: list[tuple[float, str]] = [(float("-inf"), "all")]
        """The devices wanted since a time, by time."""

    def fold(self, event: Event) -> None:
        """Take in a change of a knob, or the start of an engine."""
        fields = event.fields
        if event.kind is EventKind.ENGINE_STARTED:
            self._paused.turn(bool(fields.get("paused")), event.at)
            self._wanted.append((event.at, str(fields.get("gpu_devices", "all"))))
        elif fields.get("name") == "paused":
            self._paused.turn(bool(fields.get("new")), event.at)
        elif fields.get("name") == "gpu_devices":
            self._wanted.append((event.at, str(fields.get("new"))))

    def now(self, device: int) -> bool:
        """Whether a device rests as far as is known."""
        return self._paused.since is not None or not names_device(self._wanted[-1][1], device)

    def clip(self, device: int, start: float, end: float) -> list[Interval]:
        """When a device rested within ``[start, end)``."""
        rested = IntervalSet(self._paused.clip(start, end))
        ends = [at for at, _ in self._wanted[1:]] + [end]
        for (begin, devices), until in zip(self._wanted, ends, strict=True):
            if not names_device(devices, device) and max(begin, start) < min(until, end):
                rested.add(max(begin, start), min(until, end))
        return list(rested)

    def prune(self, horizon: float) -> None:
        """Forget what was over before ``horizon``."""
        self._paused.times.prune(horizon)
        while len(self._wanted) > 1 and self._wanted[1][0] <= horizon:
            del self._wanted[0]
