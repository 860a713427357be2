"""The checks of ``cuzk-top doctor`` that ask an NVIDIA driver: each has a deadline, for a driver may hang.

GPUs are counted three ways (driver, CUDA, usable) and matched by UUID: the two number them each in its own way.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from console.feeds.nvml import words
from console.feeds.nvml.card import same_gpu
from console.feeds.nvml.census import Census, take_census
from console.feeds.nvml.gpm import GpmCounters
from console.feeds.nvml.questions import CardGoneError, Questions
from console.feeds.nvml.sampler import load_pynvml

DEADLINE_S = 15.0
"""A driver that was not in use may take seconds to wake its GPUs."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Seen:
    """A GPU that the driver shows."""

    name: str
    uuid: str
    memory: int | None
    gpm: bool


@dataclass(frozen=True, slots=True)
class DriverReport:
    """What NVML says: its version and GPUs, or why not and what to do."""

    version: str = ""
    gpus: tuple[Seen, ...] = ()
    problem: str | None = None
    fix: str = ""
    opened: bool = True


@dataclass(frozen=True, slots=True)
class GpuReport:
    """All of it."""

    driver: DriverReport
    census: Census
    lines: tuple[str, ...] = ()
    """Each usable GPU in words."""


class _Asked(Generic[Answer]):
    """A question in a thread of its own, which is left behind if it hangs."""

    def __init__(self, question: Callable[[], Answer]) -> None:
        self._question = question
        self._answer: Answer | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="doctor", daemon=True)

    def within(self, deadline_s: float) -> Answer | None:
        """The answer, or ``None`` if there is none in time. Raises what the question raised."""
        self._thread.start()
        self._thread.join(deadline_s)
        if self._failure is not None:
            raise self._failure
        return None if self._thread.is_alive() else self._answer

    def _run(self) -> None:
        try:
            self._answer = self._question()
        except Exception as error:  # noqa: BLE001 - raised again where the answer was awaited
            self._failure = error


def ask_driver(load: Callable[[], Any] = load_pynvml) -> DriverReport:
    """What NVML says."""
    try:
        nvml = load()
    except ImportError:
        return DriverReport(problem="nvidia-ml-py is not installed", fix="pip install nvidia-ml-py", opened=False)
    if not hasattr(nvml, "nvmlInit"):
        return DriverReport(problem="the module pynvml is not NVIDIA's", fix="pip install nvidia-ml-py", opened=False)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        problem, fix = words.closed(int(error.value), str(error))
        return DriverReport(problem=problem, fix=fix, opened=False)
    questions = Questions(nvml)
    try:
        version = str(questions.ask("nvmlSystemGetDriverVersion") or "version not known")
        count = int(questions.ask("nvmlDeviceGetCount") or 0)
        gpus = tuple(seen for index in range(count) if (seen := _look_at(questions, index)) is not None)
    except CardGoneError as gone:
        return DriverReport(problem=f"a GPU is in trouble: {gone}", fix="check it with nvidia-smi")
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()
    if len(gpus) < count:
        return DriverReport(version, gpus, f"{count - len(gpus)} of {count} GPUs cannot be opened", "check nvidia-smi")
    return DriverReport(version, gpus, None if count else "the driver shows no GPU", "check nvidia-smi")


def ask_gpus(load: Callable[[], Any] = load_pynvml, deadline_s: float = DEADLINE_S) -> GpuReport:
    """Driver and CUDA, each within its deadline."""
    silent = f"the NVIDIA driver has not answered for {deadline_s:.0f} s"
    fix = "check nvidia-smi; if that hangs too, reboot"
    driver = _Asked(lambda: ask_driver(load)).within(deadline_s)
    if driver is None:
        return GpuReport(DriverReport(problem=silent, fix=fix), Census(None, 0, 0, silent, fix))
    count = len(driver.gpus) if driver.opened else None
    told = _Asked(lambda: _count(count, driver)).within(deadline_s)
    if told is None:
        silent = f"CUDA has not answered for {deadline_s:.0f} s"
        return GpuReport(driver, Census(count, 0, 0, silent, fix))
    return GpuReport(driver, *told)


def _count(count: int | None, driver: DriverReport) -> tuple[Census, tuple[str, ...]]:
    from prover.device.cuda_probe import probe

    census = take_census(count, driver.problem, driver.fix)
    lines = []
    for gpu in probe().usable:
        seen = next((one for one in driver.gpus if same_gpu(one.uuid, gpu.uuid)), None)
        details = [f"cuda:{gpu.ordinal}", "compute capability " + ".".join(map(str, gpu.compute_capability))]
        if seen is None:
            details.append("not seen by NVML")
        else:
            details += [f"{(seen.memory or 0) / 2**30:.0f} GiB", "GPM" if seen.gpm else "no GPM"]
        lines.append(f"{gpu.name} ({', '.join(details)})")
    return census, tuple(lines)


def _look_at(questions: Questions, index: int) -> Seen | None:
    handle = questions.ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return None
    memory = questions.ask("nvmlDeviceGetMemoryInfo", handle)
    counters = GpmCounters(questions, handle)
    supported = counters.supported
    counters.close()
    return Seen(
        name=str(questions.ask("nvmlDeviceGetName", handle) or "GPU"),
        uuid=str(questions.ask("nvmlDeviceGetUUID", handle) or ""),
        memory=int(memory.total) if memory is not None else None,
        gpm=supported,
    )
