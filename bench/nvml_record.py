"""Records what a real driver answers, so that the NVML feed can be tested where there is no GPU.

    python bench/nvml_record.py --out FILE [--seconds 20] [--no-load]

Every question that the feed may ask is asked, at the feed's own pace, of every GPU; an answer that the driver refuses
is recorded as its error. With CuPy the first GPU is put through phases meanwhile (idle, one block, copies only, the
whole GPU, 300 ms on and off, a second process), whose times stand in the recording. UUIDs are replaced by made-up
ones; no serial number is asked for. ``tests/support/replayed_nvml.py`` plays the file.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

SCHEMA = "cuzk-top/nvml-recording/1"
PERIOD_S = 0.1
SLOW_EVERY = 10
"""Slow questions are asked every so many periods."""
GRACE_S = 45.0
"""A driver that hangs for longer than this ends the recording; what there is is written."""
GPM_METRICS = (1, 2, 3, 4, 5, 10, 11, 12, 13, 20, 21, 60, 61)
FIELDS = (82, 83, 94, 95, 96, 97, 98, 99, 142, 143, 144, 145, 193, 194, 269, 270, 271)

SYSTEM = (
    ("nvmlSystemGetDriverVersion",),
    ("nvmlSystemGetNVMLVersion",),
    ("nvmlSystemGetCudaDriverVersion_v2",),
    ("nvmlDeviceGetCount",),
)
ONCE: tuple[tuple[Any, ...], ...] = (
    ("nvmlDeviceGetIndex",),
    ("nvmlDeviceGetName",),
    ("nvmlDeviceGetUUID",),
    ("nvmlDeviceGetPciInfo",),
    ("nvmlDeviceGetMinorNumber",),
    ("nvmlDeviceGetArchitecture",),
    ("nvmlDeviceGetCudaComputeCapability",),
    ("nvmlDeviceGetNumGpuCores",),
    ("nvmlDeviceGetMemoryBusWidth",),
    ("nvmlDeviceGetPersistenceMode",),
    ("nvmlDeviceGetComputeMode",),
    ("nvmlDeviceGetEccMode",),
    ("nvmlDeviceGetMaxPcieLinkGeneration",),
    ("nvmlDeviceGetGpuMaxPcieLinkGeneration",),
    ("nvmlDeviceGetMaxPcieLinkWidth",),
    ("nvmlDeviceGetPcieLinkMaxSpeed",),
    *(("nvmlDeviceGetMaxClockInfo", clock) for clock in range(4)),
    ("nvmlDeviceGetPowerManagementLimitConstraints",),
    ("nvmlDeviceGetPowerManagementDefaultLimit",),
    *(("nvmlDeviceGetTemperatureThreshold", threshold) for threshold in range(8)),
    ("nvmlDeviceGetSupportedClocksEventReasons",),
    ("nvmlDeviceGetSupportedClocksThrottleReasons",),
    ("nvmlDeviceGetSupportedEventTypes",),
    ("nvmlDeviceGetVirtualizationMode",),
    ("nvmlDeviceGetMigMode",),
    ("nvmlDeviceGetMaxMigDeviceCount",),
    ("nvmlDeviceGetBAR1MemoryInfo",),
    ("nvmlGpmQueryDeviceSupport",),
    ("nvmlGpmQueryIfStreamingEnabled",),
)
FAST: tuple[tuple[Any, ...], ...] = (
    ("nvmlDeviceGetUtilizationRates",),
    ("nvmlDeviceGetMemoryInfo",),
    ("nvmlDeviceGetPowerUsage",),
    ("nvmlDeviceGetTemperature", 0),
    ("nvmlDeviceGetClockInfo", 0),
    ("nvmlDeviceGetClockInfo", 1),
    ("nvmlDeviceGetClockInfo", 2),
    ("nvmlDeviceGetCurrentClocksEventReasons",),
    ("nvmlDeviceGetCurrentClocksThrottleReasons",),
)
KINDS_OF_PROCESS = ("Compute", "Graphics", "MPSCompute")
SLOW: tuple[tuple[Any, ...], ...] = (
    ("nvmlDeviceGetMemoryInfo", "nvmlMemory_v2"),
    ("nvmlDeviceGetEnforcedPowerLimit",),
    ("nvmlDeviceGetPowerManagementLimit",),
    ("nvmlDeviceGetTotalEnergyConsumption",),
    ("nvmlDeviceGetPerformanceState",),
    ("nvmlDeviceGetFanSpeed",),
    ("nvmlDeviceGetMarginTemperature",),
    ("nvmlDeviceGetCurrPcieLinkGeneration",),
    ("nvmlDeviceGetCurrPcieLinkWidth",),
    ("nvmlDeviceGetPcieSpeed",),
    ("nvmlDeviceGetPcieReplayCounter",),
    *(("nvmlDeviceGetTotalEccErrors", kind, counter) for kind in (0, 1) for counter in (0, 1)),
    ("nvmlDeviceGetRemappedRows",),
    ("nvmlDeviceGetRetiredPagesPendingStatus",),
    *(
        (f"nvmlDeviceGet{kind}RunningProcesses{version}",)
        for kind in KINDS_OF_PROCESS
        for version in ("_v3", "_v2", "")
    ),
    ("nvmlDeviceGetProcessUtilization", 0),
    ("nvmlDeviceGetFieldValues", list(FIELDS)),
)
LAST: tuple[tuple[Any, ...], ...] = (
    ("nvmlDeviceGetPcieThroughput", 0),
    ("nvmlDeviceGetPcieThroughput", 1),
    ("nvmlDeviceGetEncoderUtilization",),
    ("nvmlDeviceGetDecoderUtilization",),
)
UTILISATION_SAMPLES = 1
SAMPLES_AT_THE_END = (0, 2)
"""Power and memory use: their buffers are looked at once."""

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def made_up_uuids(text: str) -> str:
    """Each UUID replaced by another that stands for it everywhere."""

    def other(match: re.Match[str]) -> str:
        digits = hashlib.sha256(match[0].encode()).hexdigest()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))

    return _UUID.sub(other, text)


def plain(value: Any, handles: dict[int, str]) -> Any:
    """An answer as JSON: structures become ``{"struct": {...}}``, handles their names."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if abs(value) < 1e300 and value == value else None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(item, handles) for item in value]
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {"struct": {name: plain(getattr(value, name), handles) for name, *_ in value._fields_}}
    address = address_of(value)
    if address is not None:
        return {"handle": handles.get(address, "unknown")}
    if hasattr(value, "__dict__"):
        return {"struct": {name: plain(item, handles) for name, item in vars(value).items()}}
    return repr(value)


def address_of(value: Any) -> int | None:
    """What a handle points at, or ``None`` for what is none."""
    try:
        return ctypes.cast(value, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        return None


class Recorder:
    """Asks, and keeps every answer that differs from the one before it."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.begun = time.monotonic()
        self.begun_wall = time.time()
        self.handles: dict[int, str] = {}
        self.answers: dict[str, dict[str, list[list[Any]]]] = {}
        self.cost_ms: dict[str, list[float]] = {}
        self.samples: dict[str, list[list[Any]]] = {}
        self.gpm: dict[str, list[list[Any]]] = {}
        self.lock = threading.Lock()
        self.asking = "nothing"

    def now(self) -> float:
        return round(time.monotonic() - self.begun, 4)

    def call(self, name: str, *arguments: Any, convert: bool = True) -> tuple[dict[str, Any], Any]:
        """The outcome as JSON (just that there is one, without ``convert``), and the raw answer."""
        self.asking = name
        began = time.perf_counter()
        raw: Any = None
        try:
            raw = getattr(self.nvml, name)(*arguments)
            outcome: dict[str, Any] = {"answer": plain(raw, self.handles) if convert else True}
        except self.nvml.NVMLError as error:
            outcome = {"error": int(error.value), "text": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever a library does is part of the recording
            outcome = {"missing": f"{type(error).__name__}: {error}"}
        self.cost_ms.setdefault(name, []).append(1000 * (time.perf_counter() - began))
        self.asking = "nothing"
        return outcome, raw

    def ask(self, question: Sequence[Any], handle: Any = None, key: str = "") -> Any:
        """One question of the lists above; the raw answer."""
        name, *rest = question
        # A version constant is named, so that a library without it records just that.
        arguments = [getattr(self.nvml, a, 0) if isinstance(a, str) and a.startswith("nvml") else a for a in rest]
        outcome, raw = self.call(name, *([handle] if key else []), *arguments)
        self.keep(name, [key, *rest] if key else rest, outcome)
        return raw

    def keep(self, name: str, arguments: Sequence[Any], outcome: dict[str, Any]) -> None:
        with self.lock:
            told = self.answers.setdefault(name, {}).setdefault(json.dumps(list(arguments)), [])
            if not told or told[-1][1] != outcome:
                told.append([self.now(), outcome])

    def name_handle(self, raw: Any, name: str) -> None:
        address = address_of(raw)
        if address is not None:
            self.handles[address] = name

    def take_samples(self, gpu: Gpu, kind: int, since: int) -> int:
        """What the driver's buffer holds after ``since``; the newest time in it."""
        outcome, raw = self.call("nvmlDeviceGetSamples", gpu.handle, kind, since, convert=False)
        if raw is not None:
            rows = [[int(s.timeStamp), int(s.sampleValue.uiVal)] for s in raw[1]]
            outcome = {"type": int(raw[0]), "samples": rows}
            since = max([since, *(row[0] for row in rows)])
        with self.lock:
            self.samples.setdefault(gpu.key, []).append([self.now(), kind, outcome])
        return since

    def document(self, extra: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            return {
                "schema": SCHEMA,
                "recorded": {
                    "wall": self.begun_wall,
                    "seconds": self.now(),
                    "period_s": PERIOD_S,
                    "pid": os.getpid(),
                    **extra,
                },
                "cost_ms": {
                    name: [len(costs), round(statistics.median(costs), 4), round(max(costs), 3)]
                    for name, costs in sorted(self.cost_ms.items())
                },
                "answers": {name: dict(by) for name, by in sorted(self.answers.items())},
                "samples": dict(self.samples),
                "gpm": dict(self.gpm),
            }


class Gpu:
    """A GPU (or a MIG device) and where its sampling stands."""

    def __init__(self, handle: Any, key: str) -> None:
        self.handle = handle
        self.key = key
        self.since = 0
        self.gpm: list[Any] = []
        """GPM samples: the one before, the one to fill, the one of a second ago."""
        self.gpm_at = [0.0, 0.0, 0.0]
        self.event_set: Any = None


def open_gpus(recorder: Recorder) -> list[Gpu]:
    """Every GPU with its MIG devices, and what can be asked once."""
    for question in SYSTEM:
        recorder.ask(question)
    outcome, count = recorder.call("nvmlDeviceGetCount")
    gpus: list[Gpu] = []
    for index in range(count or 0):
        outcome, handle = recorder.call("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            recorder.keep("nvmlDeviceGetHandleByIndex", [index], outcome)
            continue
        gpu = Gpu(handle, f"gpu{index}")
        recorder.name_handle(handle, gpu.key)
        recorder.keep("nvmlDeviceGetHandleByIndex", [index], {"answer": {"handle": gpu.key}})
        gpus.append(gpu)
        for question in ONCE:
            recorder.ask(question, handle, gpu.key)
        uuid = recorder.ask(("nvmlDeviceGetUUID",), handle, gpu.key)
        if uuid is not None:
            found = recorder.call("nvmlDeviceGetHandleByUUID", uuid)[1]
            same = found is not None and address_of(found) == address_of(handle)
            recorder.keep("nvmlDeviceGetHandleByUUID", [uuid], {"answer": {"handle": gpu.key if same else "other"}})
        record_mig(recorder, gpu)
        open_gpm(recorder, gpu)
        open_events(recorder, gpu)
    return gpus


def record_mig(recorder: Recorder, gpu: Gpu) -> None:
    most = recorder.call("nvmlDeviceGetMaxMigDeviceCount", gpu.handle)[1] or 0
    for index in range(most):
        outcome, handle = recorder.call("nvmlDeviceGetMigDeviceHandleByIndex", gpu.handle, index)
        if handle is None:
            recorder.keep("nvmlDeviceGetMigDeviceHandleByIndex", [gpu.key, index], outcome)
            continue
        key = f"{gpu.key}.mig{index}"
        recorder.name_handle(handle, key)
        recorder.keep("nvmlDeviceGetMigDeviceHandleByIndex", [gpu.key, index], {"answer": {"handle": key}})
        for name in ("UUID", "Name", "MemoryInfo", "GpuInstanceId", "ComputeInstanceId", "Attributes", "MigMode"):
            recorder.ask((f"nvmlDeviceGet{name}",), handle, key)


def open_gpm(recorder: Recorder, gpu: Gpu) -> None:
    for _ in range(3):
        outcome, sample = recorder.call("nvmlGpmSampleAlloc")
        if sample is None:
            recorder.keep("nvmlGpmSampleAlloc", [], outcome)
            gpu.gpm = []
            return
        gpu.gpm.append(sample)
    recorder.keep("nvmlGpmSampleAlloc", [], {"answer": {"handle": "gpm"}})
    for place in (0, 2):
        outcome, _ = recorder.call("nvmlGpmSampleGet", gpu.handle, gpu.gpm[place])
        gpu.gpm_at[place] = recorder.now()
        recorder.keep("nvmlGpmSampleGet", [gpu.key], outcome)
        if "answer" not in outcome:
            gpu.gpm = []
            return


def open_events(recorder: Recorder, gpu: Gpu) -> None:
    outcome, event_set = recorder.call("nvmlEventSetCreate")
    recorder.keep("nvmlEventSetCreate", [], outcome if event_set is None else {"answer": {"handle": "events"}})
    if event_set is None:
        return
    wanted = getattr(recorder.nvml, "nvmlEventTypeXidCriticalError", 8)
    wanted |= getattr(recorder.nvml, "nvmlEventTypeDoubleBitEccError", 2)
    outcome, _ = recorder.call("nvmlDeviceRegisterEvents", gpu.handle, wanted, event_set)
    recorder.keep("nvmlDeviceRegisterEvents", [gpu.key, wanted], outcome)
    gpu.event_set = event_set if "answer" in outcome else None


def gpm_interval(recorder: Recorder, gpu: Gpu, first: int, second: int) -> None:
    """Metrics between two samples, each with its own return code."""
    nvml = recorder.nvml
    get = nvml.c_nvmlGpmMetricsGet_t()
    get.version = nvml.NVML_GPM_METRICS_GET_VERSION
    get.numMetrics = len(GPM_METRICS)
    for place, metric in enumerate(GPM_METRICS):
        get.metrics[place].metricId = metric
    get.sample1, get.sample2 = gpu.gpm[first], gpu.gpm[second]
    outcome, _ = recorder.call("nvmlGpmMetricsGet", get, convert=False)
    told: Any = outcome
    if "answer" in outcome:
        told = {
            str(metric): [int(get.metrics[place].nvmlReturn), plain(round(get.metrics[place].value, 4), {})]
            for place, metric in enumerate(GPM_METRICS)
        }
    with recorder.lock:
        recorder.gpm.setdefault(gpu.key, []).append([gpu.gpm_at[first], gpu.gpm_at[second], told])


def look(recorder: Recorder, gpus: Iterable[Gpu], tick: int) -> None:
    """One period's questions."""
    slow = tick % SLOW_EVERY == 0
    for gpu in gpus:
        if gpu.gpm:
            outcome, _ = recorder.call("nvmlGpmSampleGet", gpu.handle, gpu.gpm[1])
            gpu.gpm_at[1] = recorder.now()
            if "answer" in outcome:
                gpm_interval(recorder, gpu, 0, 1)
                if slow and tick:
                    gpm_interval(recorder, gpu, 2, 1)
                kept = 2 if slow else 0
                gpu.gpm[kept], gpu.gpm[1] = gpu.gpm[1], gpu.gpm[kept]
                gpu.gpm_at[kept], gpu.gpm_at[1] = gpu.gpm_at[1], gpu.gpm_at[kept]
                if slow:  # the sample of now is the next one's "before" too
                    recorder.call("nvmlGpmSampleGet", gpu.handle, gpu.gpm[0])
                    gpu.gpm_at[0] = recorder.now()
            else:
                recorder.keep("nvmlGpmSampleGet", [gpu.key], outcome)
        for question in FAST:
            recorder.ask(question, gpu.handle, gpu.key)
        if slow:
            for question in SLOW:
                raw = recorder.ask(question, gpu.handle, gpu.key)
                if question[0].startswith("nvmlDeviceGetComputeRunningProcesses"):
                    for process in raw or ():
                        recorder.ask(("nvmlSystemGetProcessName", int(process.pid)))
            gpu.since = recorder.take_samples(gpu, UTILISATION_SAMPLES, gpu.since)
            if gpu.event_set is not None:
                outcome, _ = recorder.call("nvmlEventSetWait_v2", gpu.event_set, 0)
                recorder.keep("nvmlEventSetWait_v2", [gpu.key, 0], outcome)


def record(recorder: Recorder, seconds: float, phases: list[dict[str, Any]], load: Load | None) -> None:
    """Everything, in a thread of its own: a hanging driver must not keep what was recorded from being written."""
    gpus = open_gpus(recorder)
    if load is not None:
        load.start(recorder.now, phases, seconds)
    start = time.monotonic()
    tick = 0
    while time.monotonic() - start < seconds:
        look(recorder, gpus, tick)
        tick += 1
        time.sleep(max(0.0, start + tick * PERIOD_S - time.monotonic()))
    for gpu in gpus:
        for question in LAST:
            recorder.ask(question, gpu.handle, gpu.key)
        for kind in SAMPLES_AT_THE_END:
            recorder.take_samples(gpu, kind, 0)
        recorder.take_samples(gpu, UTILISATION_SAMPLES, 0)
    recorder.call("nvmlShutdown")
    recorder.keep("nvmlDeviceGetCount", ["after shutdown"], recorder.call("nvmlDeviceGetCount")[0])


# -- something to see --

_KERNEL = r"""
extern "C" __global__ void spin(unsigned long long ns, unsigned int* out) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    unsigned int x = threadIdx.x + 1u, y = blockIdx.x + 7u;
    do {
        #pragma unroll 64
        for (int i = 0; i < 1024; ++i) { x = x * 1664525u + y; y = y * 22695477u + x; }
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < ns);
    if (x == 0xdeadbeefu && y == 0x12345678u) *out = x;
}
"""


class Load:
    """Phases of work on the first GPU, in a thread of this process; the last in a second process."""

    SHARES = (("idle", 0.1), ("one block", 0.12), ("copies", 0.15), ("whole GPU", 0.2), ("300 ms on and off", 0.2))

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.spin = cupy.RawKernel(_KERNEL, "spin")
        self.out = cupy.zeros(1, dtype=cupy.uint32)
        multiprocessors = cupy.cuda.Device(0).attributes["MultiProcessorCount"]
        self.blocks = multiprocessors * 8
        self.device = cupy.empty(1 << 28, dtype=cupy.uint8)
        self.pinned = cupy.cuda.alloc_pinned_memory(1 << 28)
        self.run_kernel(1, 1.0)
        self.child: subprocess.Popen[bytes] | None = None

    def run_kernel(self, blocks: int, milliseconds: float) -> None:
        self.spin((blocks,), (256,), (self.cupy.uint64(int(milliseconds * 1e6)), self.out))
        self.cupy.cuda.runtime.deviceSynchronize()

    def copy(self) -> None:
        self.device.data.copy_from_host_async(self.pinned.ptr, 1 << 28, self.cupy.cuda.Stream.null)
        self.cupy.cuda.runtime.deviceSynchronize()

    def start(self, now: Callable[[], float], phases: list[dict[str, Any]], seconds: float) -> None:
        threading.Thread(target=self._run, args=(now, phases, seconds), daemon=True).start()

    def _run(self, now: Callable[[], float], phases: list[dict[str, Any]], seconds: float) -> None:
        try:
            self._phases(now, phases, seconds)
        except Exception as error:  # noqa: BLE001 - the recording goes on, of what is left
            phases.append({"name": f"failed: {type(error).__name__}: {error}", "start": now(), "end": None})

    def on_and_off(self) -> None:
        self.run_kernel(self.blocks, 300)
        time.sleep(0.3)

    def _phases(self, now: Callable[[], float], phases: list[dict[str, Any]], seconds: float) -> None:
        works: dict[str, Callable[[], None]] = {
            "idle": lambda: time.sleep(0.05),
            "one block": lambda: self.run_kernel(1, 20),
            "copies": self.copy,
            "whole GPU": lambda: self.run_kernel(self.blocks, 20),
            "300 ms on and off": self.on_and_off,
        }
        for name, share in self.SHARES:
            phases.append({"name": name, "start": now(), "end": None})
            end = time.monotonic() + share * seconds
            while time.monotonic() < end:
                works[name]()
            phases[-1]["end"] = now()
        phases.append({"name": "a second process", "start": now(), "end": None})
        command = [sys.executable, __file__, "--burn", str(max(1.0, 0.1 * seconds))]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        phases[-1]["pid"] = self.child.pid
        self.child.wait()
        phases[-1]["end"] = now()
        phases.append({"name": "idle again", "start": now(), "end": None})


def burn(seconds: float) -> None:
    """What the second process does."""
    load = Load()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        load.run_kernel(load.blocks, 20)


def cuda_side() -> Any:
    """What CUDA shows beside NVML, by UUID."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    try:
        from prover.device.cuda_probe import probe

        status = probe()
    except Exception as error:  # noqa: BLE001 - a recording without it is still one
        return {"missing": f"{type(error).__name__}: {error}"}
    return {
        "driver": status.driver,
        "why": status.why,
        "gpus": [{"ordinal": gpu.ordinal, "name": gpu.name, "uuid": gpu.uuid} for gpu in status.gpus],
    }


def library_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("nvidia-ml-py")
    except metadata.PackageNotFoundError:
        return "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("nvml-recording.json"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--no-load", action="store_true", help="only watch")
    parser.add_argument("--burn", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.burn is not None:
        burn(options.burn)
        return 0
    extra: dict[str, Any] = {"library": library_version(), "cuda": cuda_side(), "problems": [], "phases": []}
    load: Load | None = None
    if not options.no_load:
        try:
            load = Load()
        except Exception as error:  # noqa: BLE001 - then the recording is of a GPU at rest
            extra["problems"].append(f"no load: {type(error).__name__}: {error}")
    try:
        import pynvml
    except ImportError:
        print("nvidia-ml-py is not installed: pip install nvidia-ml-py", file=sys.stderr)
        return 1

    recorder = Recorder(pynvml)
    outcome, _ = recorder.call("nvmlInit")
    recorder.keep("nvmlInit", [], outcome)
    if "answer" in outcome:
        thread = threading.Thread(target=record, args=(recorder, options.seconds, extra["phases"], load), daemon=True)
        thread.start()
        thread.join(options.seconds + GRACE_S)
        if thread.is_alive():
            extra["problems"].append(f"no answer: {recorder.asking}")
    else:
        extra["problems"].append(f"nvmlInit: {outcome}")
    text = made_up_uuids(json.dumps(recorder.document(extra), separators=(",", ":")))
    options.out.write_text(text + "\n")
    costs = recorder.cost_ms
    print(f"{options.out}: {len(text) / 1e6:.2f} MB, {sum(map(len, costs.values()))} calls of {len(costs)} functions")
    for line in extra["problems"]:
        print(f"problem: {line}")
    for name, told in sorted(costs.items(), key=lambda item: -max(item[1]))[:8]:
        print(f"  {name}: {len(told)} calls, median {statistics.median(told):.3f} ms, worst {max(told):.2f} ms")
    sys.stdout.flush()
    os._exit(0 if "answer" in outcome else 1)  # a thread in a hanging driver call would keep the process


if __name__ == "__main__":
    sys.exit(main())
