"""NVML as it answered on a real machine: plays a recording of ``bench/nvml_record.py`` on a clock of the test's.

Structures, constants and exceptions are the binding's own. Every answer is the recorded one of its time; a question
that was not recorded is remembered in ``unrecorded`` and refused as unsupported.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

FIXTURE = Path(__file__).parent.parent / "fixtures" / "nvml" / "h200.json"
FUNCTION_NOT_FOUND, NOT_FOUND = 13, 6


def recording() -> dict[str, Any]:
    """The recording of an H200: idle, one block, copies only, the whole GPU, 300 ms on and off, a second process."""
    document: dict[str, Any] = json.loads(FIXTURE.read_text())
    return document


def phase(document: dict[str, Any], name: str) -> tuple[float, float]:
    """When a phase of the load began and ended, in seconds of the recording."""
    found = next(one for one in document["recorded"]["phases"] if one["name"] == name)
    return found["start"], found["end"]


class Handle(ctypes.c_void_p):
    """What stands for a device or an event set."""

    def __init__(self, name: str) -> None:
        super().__init__(id(name))
        self.name = name


class ReplayedNvml:
    """A stand-in for the module ``pynvml``. ``clock`` gives seconds since the recording's start."""

    def __init__(self, document: dict[str, Any], clock: Callable[[], float]) -> None:
        self.document = document
        self.clock = clock
        self.faults: dict[str, int | Callable[[], None]] = {}
        """By function: the error that it now gives, or what happens before it answers."""
        self.events: list[tuple[int, int]] = []
        """Events that wait to be heard: type and data."""
        self.unrecorded: set[tuple[str, ...]] = set()
        self.calls: list[str] = []
        self.sampled: dict[int, float] = {}
        self.handles: dict[str, Handle] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name)):
            return lambda *arguments: self._answer(name, arguments)
        return getattr(pynvml, name)

    def wall(self) -> float:
        """Seconds since 1970, as they were."""
        return float(self.document["recorded"]["wall"]) + self.clock()

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        fault = self.faults.get(name, self.faults.get("*"))
        if isinstance(fault, int):
            raise pynvml.NVMLError(fault)
        if fault is not None:
            fault()
        special = getattr(self, f"_{name}", None)
        if special is not None:
            return special(*arguments)
        key = json.dumps([self._plain(argument) for argument in arguments])
        by = self.document["answers"].get(name, {})
        if key not in by:
            self.unrecorded.add((name, key))
            raise pynvml.NVMLError(FUNCTION_NOT_FOUND)
        return self._outcome(by[key])

    def _outcome(self, told: list[list[Any]]) -> Any:
        """The last answer that had been given by now; the first for what is asked early."""
        now = self.clock()
        outcome = next((row[1] for row in reversed(told) if row[0] <= now), told[0][1])
        if "error" in outcome:
            raise pynvml.NVMLError(outcome["error"])
        if "missing" in outcome:
            raise pynvml.NVMLError(FUNCTION_NOT_FOUND)
        return self._object(outcome["answer"])

    def _plain(self, argument: Any) -> Any:
        if isinstance(argument, Handle):
            return argument.name
        return "nvmlMemory_v2" if argument == pynvml.nvmlMemory_v2 else argument

    def _object(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._object(item) for item in value]
        if isinstance(value, dict) and "struct" in value:
            return SimpleNamespace(**{name: self._object(item) for name, item in value["struct"].items()})
        if isinstance(value, dict) and "handle" in value:
            return self.handles.setdefault(value["handle"], Handle(value["handle"]))
        return value

    # -- what depends on the answer before --

    def _nvmlShutdown(self) -> None:
        return None

    def _nvmlEventSetFree(self, event_set: Handle) -> None:
        return None

    def _nvmlEventSetWait_v2(self, event_set: Handle, timeout: int) -> Any:
        if self.events:
            kind, data = self.events.pop(0)
            return SimpleNamespace(eventType=kind, eventData=data)
        return self._outcome(self.document["answers"]["nvmlEventSetWait_v2"][f'["gpu0", {timeout}]'])

    def _nvmlDeviceRegisterEvents(self, handle: Handle, kinds: int, event_set: Handle) -> None:
        return None

    def _nvmlDeviceGetSamples(self, handle: Handle, kind: int, since: int) -> Any:
        """The buffer's samples newer than ``since`` that the driver had by now."""
        now = self.clock()
        rows = [
            row
            for at, recorded, outcome in self.document["samples"][handle.name]
            if recorded == kind and at <= now
            for row in outcome.get("samples", ())
            if row[0] > since
        ]
        if not rows:
            raise pynvml.NVMLError(NOT_FOUND)
        return 1, [SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=value)) for at, value in rows]

    def _nvmlGpmSampleAlloc(self) -> Any:
        address = 4096 + 16 * (1 + len(self.sampled))
        self.sampled[address] = math.nan
        return ctypes.cast(ctypes.c_void_p(address), pynvml.c_nvmlGpmSample_t)

    def _nvmlGpmSampleFree(self, sample: Any) -> None:
        del self.sampled[self._address(sample)]

    def _nvmlGpmSampleGet(self, handle: Handle, sample: Any) -> Any:
        self.sampled[self._address(sample)] = self.clock()
        self.asked_gpm_of = handle.name
        return sample

    def _nvmlGpmMigSampleGet(self, parent: Handle, instance: int, sample: Any) -> Any:
        return self._nvmlGpmSampleGet(parent, sample)

    def _nvmlGpmMetricsGet(self, get: Any) -> Any:
        """Recorded intervals in proportion to how much of each lies between the two samples."""
        begin, end = (self.sampled[self._address(sample)] for sample in (get.sample1, get.sample2))
        weights: dict[str, float] = {}
        sums: dict[str, float] = {}
        for start, stop, metrics in self.document["gpm"][self.asked_gpm_of]:
            share = min(stop, end) - max(start, begin)
            for metric, (code, value) in metrics.items():
                if share > 0 and code == 0 and value is not None:
                    weights[metric] = weights.get(metric, 0.0) + share
                    sums[metric] = sums.get(metric, 0.0) + share * value
        for place in range(get.numMetrics):
            metric = str(get.metrics[place].metricId)
            known = metric in weights
            get.metrics[place].nvmlReturn = 0 if known else 3
            get.metrics[place].value = sums[metric] / weights[metric] if known else math.nan
        return get

    @staticmethod
    def _address(sample: Any) -> int:
        return ctypes.cast(sample, ctypes.c_void_p).value or 0
