"""One GPU read through NVML: its identity, a sample every period, a survey every second. Synchronous, one thread's.

What each question costs on an H200, and why PCIe throughput is taken from GPM and never asked for (20 ms), is in
``docs/gpu.md``.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from console.feeds.nvml import gpm, words
from console.feeds.nvml.card import CardEvent, CardIdentity, CardProcess, CardState
from console.feeds.nvml.questions import Questions
from prover.model import DeviceSample

SETTLE_S = 0.5
"""Memory, power, temperature and clock are asked this often; samples between carry the last answer."""
HEALTH_S = 5.0
"""So often for what changes when hardware fails."""
_UTILISATION = 1
"""``NVML_GPU_UTILIZATION_SAMPLES``."""
_SM_CLOCK = 1
_DIE = 0
_CRITICAL_XID = 8
_EVENTS_KEPT = 16
_PROCESS_LISTS = ("Compute", "Graphics", "MPSCompute")


class CardReader:
    """Reads one GPU, or one slice of a GPU in MIG mode."""

    def __init__(
        self,
        questions: Questions,
        handle: Any,
        index: int,
        *,
        mig: gpm.MigPlace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        proc: Path = Path("/proc"),
    ) -> None:
        self._questions = questions
        self._handle = handle
        self._board = handle if mig is None else mig.parent
        """What answers for the whole card: power, temperature, the bus."""
        self._clock = clock
        self._wall = wall
        self._proc = proc
        self._counters = gpm.GpmCounters(questions, handle, mig)
        self.identity = self._identify(index, mig is not None)
        self._newest_sample = 0
        self._driver: float | None = None
        self._buffered = False
        self._settled_at = float("-inf")
        self._settled: dict[str, float | int | None] = {}
        self._health_at = float("-inf")
        self._health: dict[str, Any] = {}
        self._events: deque[CardEvent] = deque(maxlen=_EVENTS_KEPT)
        self._event_set = self._listen()

    def close(self) -> None:
        """Give the driver back what it lent."""
        self._counters.close()
        if self._event_set is not None:
            self._questions.ask("nvmlEventSetFree", self._event_set)
            self._event_set = None

    # -- every period --

    def sample(self) -> DeviceSample | None:
        """A sample, or ``None`` where nothing can be said of the time since the last.

        Raises:
            CardGoneError: the GPU or its driver is gone.
        """
        now = self._clock()
        metrics = self._counters.interval(now)
        if self._counters.supported and metrics is None:
            return None
        if now - self._settled_at >= SETTLE_S:
            self._settled_at = now
            self._settled = self._settle()
        if not self._buffered:
            rates = self._questions.ask("nvmlDeviceGetUtilizationRates", self._handle)
            self._driver = float(rates.gpu) if rates is not None else None
        counted = metrics or {}
        settled = self._settled
        return DeviceSample(
            at=now,
            ordinal=self.identity.index,
            source="gpm" if metrics is not None else "nvml",
            sm=counted.get(gpm.SM),
            driver=self._driver,
            occupancy=counted.get(gpm.OCCUPANCY),
            integer_pipe=counted.get(gpm.INTEGER),
            fp64_pipe=counted.get(gpm.FP64),
            dram=counted.get(gpm.DRAM),
            pcie_rx=counted.get(gpm.PCIE_RX),
            pcie_tx=counted.get(gpm.PCIE_TX),
            memory_used=_whole(settled.get("used")),
            memory_total=_whole(settled.get("total")),
            power_w=settled.get("power"),
            power_limit_w=settled.get("limit"),
            temperature_c=settled.get("temperature"),
            sm_clock_mhz=settled.get("clock"),
        )

    def _settle(self) -> dict[str, float | int | None]:
        ask, board = self._questions.ask, self._board
        memory = self._memory()
        power = ask("nvmlDeviceGetPowerUsage", board)
        limit = ask("nvmlDeviceGetEnforcedPowerLimit", board)
        temperature = ask("nvmlDeviceGetTemperature", board, _DIE)
        clock = ask("nvmlDeviceGetClockInfo", board, _SM_CLOCK)
        return {
            "used": memory.used if memory is not None else None,
            "total": memory.total if memory is not None else None,
            "power": power / 1000 if power is not None else None,
            "limit": limit / 1000 if limit is not None else None,
            "temperature": float(temperature) if temperature is not None else None,
            "clock": float(clock) if clock is not None else None,
        }

    def _memory(self) -> Any:
        """Total and used bytes; without what the driver holds back for itself, where it tells that apart."""
        ask, version = self._questions.ask, getattr(self._questions.nvml, "nvmlMemory_v2", None)
        told = ask("nvmlDeviceGetMemoryInfo", self._handle, version, variant="_v2") if version is not None else None
        return told if told is not None else ask("nvmlDeviceGetMemoryInfo", self._handle)

    # -- every second --

    def driver_samples(self) -> list[DeviceSample]:
        """What the driver's buffer holds since the last call: 200 ms apart on an H200, 14 s of them at first.

        They say that a kernel *or a copy* ran: the GPU may have copied all the time and computed nothing.
        """
        answer = self._questions.ask("nvmlDeviceGetSamples", self._handle, _UTILISATION, self._newest_sample)
        if answer is None:
            return []
        since_epoch = self._wall() - self._clock()
        found: list[DeviceSample] = []
        for sample in answer[1]:
            at, value = int(sample.timeStamp), int(sample.sampleValue.uiVal)
            if at > self._newest_sample and value <= 100:
                self._newest_sample = at
                place = at / 1e6 - since_epoch
                found.append(DeviceSample(at=place, ordinal=self.identity.index, source="nvml", driver=float(value)))
        if found:
            self._buffered = True
            self._driver = found[-1].driver
        return found

    def survey(self) -> CardState:
        """Health, bus, neighbours and events."""
        ask, board = self._questions.ask, self._board
        now = self._clock()
        self._hear(now)
        if now - self._health_at >= HEALTH_S:
            self._health_at = now
            self._health = self._examine()
        bits = self._questions.first(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons", of=(board,)
        )
        return CardState(
            throttle=words.throttle(int(bits or 0)),
            pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", board),
            pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", board),
            processes=tuple(self._processes()),
            events=tuple(self._events),
            refused=self._questions.refused,
            **self._health,
        )

    def _examine(self) -> dict[str, Any]:
        ask, board = self._questions.ask, self._board
        rows = ask("nvmlDeviceGetRemappedRows", board)
        return {
            "ecc_corrected": ask("nvmlDeviceGetTotalEccErrors", board, 0, 0),
            "ecc_uncorrected": ask("nvmlDeviceGetTotalEccErrors", board, 1, 0),
            "rows_pending": bool(rows is not None and rows[2]),
            "rows_failed": bool(rows is not None and rows[3]),
        }

    def _processes(self) -> Iterable[CardProcess]:
        memory: dict[int, int | None] = {}
        for kind in _PROCESS_LISTS:
            name = f"nvmlDeviceGet{kind}RunningProcesses"
            for process in self._questions.first(f"{name}_v3", f"{name}_v2", name, of=(self._handle,)) or ():
                used = process.usedGpuMemory
                pid = int(process.pid)
                memory[pid] = max(memory.get(pid) or 0, int(used)) if used is not None else memory.get(pid)
        own = os.getpid()
        for pid, used in sorted(memory.items()):
            yield CardProcess(pid, self._name(pid), used, pid == own)

    def _name(self, pid: int) -> str:
        """A process's name. The driver's word comes first: in a container its numbers may not be ours."""
        told = self._questions.ask("nvmlSystemGetProcessName", pid)
        if told:
            return Path(str(told)).name
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            return f"pid {pid}"

    # -- events --

    def _listen(self) -> Any:
        event_set = self._questions.ask("nvmlEventSetCreate")
        if event_set is not None:
            self._questions.ask("nvmlDeviceRegisterEvents", self._board, _CRITICAL_XID, event_set)
        return event_set

    def _hear(self, now: float) -> None:
        for _ in range(_EVENTS_KEPT if self._event_set is not None else 0):
            told = self._questions.ask("nvmlEventSetWait_v2", self._event_set, 0)
            if told is None:
                return
            if told.eventType & _CRITICAL_XID:
                self._events.append(CardEvent(now, int(told.eventData)))

    # -- once --

    def _identify(self, index: int, mig: bool) -> CardIdentity:
        ask, board = self._questions.ask, self._board
        memory = self._memory()
        name = ask("nvmlDeviceGetName", self._handle) or ask("nvmlDeviceGetName", board) or "GPU"
        return CardIdentity(
            index=index,
            uuid=str(ask("nvmlDeviceGetUUID", self._handle) or ""),
            name=str(name),
            memory_total=int(memory.total) if memory is not None else None,
            pcie_generation_max=ask("nvmlDeviceGetMaxPcieLinkGeneration", board),
            pcie_width_max=ask("nvmlDeviceGetMaxPcieLinkWidth", board),
            sm_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", board, _SM_CLOCK),
            mig=mig,
            gpm=self._counters.supported,
        )


def _whole(value: float | int | None) -> int | None:
    return int(value) if value is not None else None
