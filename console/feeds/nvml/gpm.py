"""GPM: what the multiprocessors, the pipes, the memory and the bus really did between two looks (Hopper and newer).

The device refreshes its counters about every 100 ms: closer looks give zeros and parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.feeds.nvml.questions import Questions

SM, OCCUPANCY, INTEGER, DRAM, FP64, PCIE_TX, PCIE_RX = 2, 3, 4, 10, 11, 20, 21
METRICS = (SM, OCCUPANCY, INTEGER, DRAM, FP64, PCIE_TX, PCIE_RX)
LEAST_S = 0.095
"""Looks closer than this are not worth taking."""


@dataclass(frozen=True, slots=True)
class MigPlace:
    """Where a MIG device sits: GPM is asked of its parent."""

    parent: Any
    instance: int


class GpmCounters:
    """The counters of one device, read from look to look."""

    def __init__(self, questions: Questions, handle: Any, mig: MigPlace | None = None) -> None:
        self._questions = questions
        self._handle = handle
        self._mig = mig
        self._before: Any = None
        self._spare: Any = None
        self._before_at = 0.0
        self._get: Any = None
        self.supported = self._open()

    def interval(self, now: float) -> Mapping[int, float] | None:
        """The metrics since the last call, by number; ``None`` for the first call and one that came too soon.

        Percentages are 0..100, PCIe is bytes a second. What this device does not count is missing.
        """
        if not self.supported or now - self._before_at < LEAST_S:
            return None
        if not self._look(self._spare):
            return None
        first, self._before_at = self._before_at == 0.0, now
        self._before, self._spare = self._spare, self._before
        return None if first else self._metrics(self._spare, self._before)

    def close(self) -> None:
        """Give the driver its buffers back."""
        for sample in (self._before, self._spare):
            if sample is not None:
                self._questions.ask("nvmlGpmSampleFree", sample)
        self._before = self._spare = None
        self.supported = False

    def _open(self) -> bool:
        support = self._questions.ask("nvmlGpmQueryDeviceSupport", self._mig.parent if self._mig else self._handle)
        make = getattr(self._questions.nvml, "c_nvmlGpmMetricsGet_t", None)
        if support is None or not support.isSupportedDevice or make is None:
            return False
        self._before = self._questions.ask("nvmlGpmSampleAlloc")
        self._spare = self._questions.ask("nvmlGpmSampleAlloc")
        if self._before is None or self._spare is None or not self._look(self._spare):
            return False
        self._get = make()
        self._get.version = self._questions.nvml.NVML_GPM_METRICS_GET_VERSION
        return True

    def _look(self, sample: Any) -> bool:
        if self._mig is not None:
            place = self._mig
            return self._questions.ask("nvmlGpmMigSampleGet", place.parent, place.instance, sample) is not None
        return self._questions.ask("nvmlGpmSampleGet", self._handle, sample) is not None

    def _metrics(self, since: Any, until: Any) -> Mapping[int, float] | None:
        get = self._get
        get.sample1, get.sample2 = since, until
        get.numMetrics = len(METRICS)
        for place, metric in enumerate(METRICS):
            get.metrics[place].metricId = metric
        if self._questions.ask("nvmlGpmMetricsGet", get) is None:
            return None
        found: dict[int, float] = {}
        for place, metric in enumerate(METRICS):
            told = get.metrics[place]
            if told.nvmlReturn == 0 and math.isfinite(told.value):
                found[metric] = float(told.value) * (1 << 20 if metric in (PCIE_TX, PCIE_RX) else 1)
        return found
