"""The driver protocol over CuPy's run-time and driver bindings, which leave the GIL during calls."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prover.device.cuda_driver import KernelFacts, Properties
from prover.device.cuda_probe import device_uuid
from prover.device.errors import CudaFailure, DeviceLost
from prover.device.nvrtc import Nvrtc, load

R = TypeVar("R")

_NO_MEMORY = 2
_STICKY = frozenset({46, 62, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999})
"""Statuses after which a context answers nothing any more: illegal accesses, launch failures, hardware errors."""
_IN, _OUT, _WITHIN = 1, 2, 3
_NON_BLOCKING = 1
_COMMON, _URGENT = 0, -1
_NO_TIMING = 2
_EVENT_READY = 0
_ATTRIBUTE_LOCAL, _ATTRIBUTE_REGISTERS, _ATTRIBUTE_DYNAMIC_SHARED = 3, 4, 8
_SHARED_OPT_IN, _SHARED_PER_MULTIPROCESSOR = 97, 81

_current = threading.local()
"""The device that is current in this thread; nothing else in the process may change it."""


class CupyDriver:
    """One GPU through CuPy."""

    def __init__(self, ordinal: int) -> None:
        """Create the device's primary context.

        Raises:
            DeviceLost, CudaFailure: if CUDA refuses.
        """
        import cupy

        self.ordinal = ordinal
        self.lost: DeviceLost | None = None
        self._name = f"cuda:{ordinal}"
        self._runtime: Any = cupy.cuda.runtime
        self._driver: Any = cupy.cuda.driver
        self._errors = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
        cupy.cuda.nvrtc.getVersion()  # loads the NVRTC that belongs to this CuPy, so that ours finds it
        self._call(self._runtime.free, 0)
        self.properties = self._call(self._read_properties)

    def _read_properties(self) -> Properties:
        runtime = self._runtime
        found = runtime.getDeviceProperties(self.ordinal)
        return Properties(
            name=found["name"].decode(errors="replace"),
            uuid=device_uuid(self.ordinal),
            compute_capability=(found["major"], found["minor"]),
            multiprocessors=found["multiProcessorCount"],
            memory_bytes=found["totalGlobalMem"],
            shared_bytes=runtime.deviceGetAttribute(_SHARED_OPT_IN, self.ordinal),
            shared_bytes_per_multiprocessor=runtime.deviceGetAttribute(_SHARED_PER_MULTIPROCESSOR, self.ordinal),
            l2_bytes=found["l2CacheSize"],
            cuda_major=runtime.runtimeGetVersion() // 1000,
        )

    def _call(self, function: Callable[..., R], *args: object) -> R:
        try:
            if getattr(_current, "ordinal", None) != self.ordinal:
                self._runtime.setDevice(self.ordinal)
                _current.ordinal = self.ordinal
            return function(*args)
        except self._errors as error:
            raise self._translated(error) from error

    def _translated(self, error: Any) -> DeviceLost | CudaFailure:
        if error.status in _STICKY:
            # not the same object: one that is raised holds its frames, and with them arrays
            self.lost = self.lost or DeviceLost(str(error), self._name)
            return DeviceLost(str(error), self._name)
        return CudaFailure(str(error), self._name)

    def _or_none(self, function: Callable[..., int], *args: int) -> int | None:
        try:
            return self._call(function, *args)
        except CudaFailure as failure:
            if getattr(failure.__cause__, "status", None) == _NO_MEMORY:
                return None
            raise

    def compiler(self) -> Nvrtc:
        return load(self.properties.cuda_major)

    def allocate(self, nbytes: int) -> int | None:
        return self._or_none(self._runtime.malloc, nbytes)

    def free(self, address: int) -> None:
        self._call(self._runtime.free, address)

    def memory_info(self) -> tuple[int, int]:
        free, total = self._call(self._runtime.memGetInfo)
        return free, total

    def allocate_pinned(self, nbytes: int) -> int | None:
        return self._or_none(self._runtime.hostAlloc, nbytes, 0)

    def free_pinned(self, address: int) -> None:
        self._call(self._runtime.freeHost, address)

    def copy_in(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call(self._runtime.memcpyAsync, target, source, nbytes, _IN, stream)

    def copy_out(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call(self._runtime.memcpyAsync, target, source, nbytes, _OUT, stream)

    def copy_within(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call(self._runtime.memcpyAsync, target, source, nbytes, _WITHIN, stream)

    def fill(self, target: int, byte: int, nbytes: int, stream: int) -> None:
        self._call(self._runtime.memsetAsync, target, byte, nbytes, stream)

    def synchronize_device(self) -> None:
        self._call(self._runtime.deviceSynchronize)

    def create_stream(self, urgent: bool) -> int:
        priority = _URGENT if urgent else _COMMON
        return int(self._call(self._runtime.streamCreateWithPriority, _NON_BLOCKING, priority))

    def destroy_stream(self, stream: int) -> None:
        self._call(self._runtime.streamDestroy, stream)

    def synchronize_stream(self, stream: int) -> None:
        self._call(self._runtime.streamSynchronize, stream)

    def create_event(self, timing: bool) -> int:
        return int(self._call(self._runtime.eventCreateWithFlags, 0 if timing else _NO_TIMING))

    def destroy_event(self, event: int) -> None:
        self._call(self._runtime.eventDestroy, event)

    def record(self, event: int, stream: int) -> None:
        self._call(self._runtime.eventRecord, event, stream)

    def wait(self, stream: int, event: int) -> None:
        self._call(self._runtime.streamWaitEvent, stream, event)

    def synchronize_event(self, event: int) -> None:
        self._call(self._runtime.eventSynchronize, event)

    def event_done(self, event: int) -> bool:
        return bool(self._call(self._runtime.eventQuery, event) == _EVENT_READY)

    def elapsed_s(self, first: int, second: int) -> float:
        return float(self._call(self._runtime.eventElapsedTime, first, second)) / 1e3

    def load_module(self, image: bytes) -> int:
        return int(self._call(self._driver.moduleLoadData, image))

    def unload_module(self, module: int) -> None:
        self._call(self._driver.moduleUnload, module)

    def function(self, module: int, name: str) -> int:
        return int(self._call(self._driver.moduleGetFunction, module, name))

    def facts(self, function: int) -> KernelFacts:
        return KernelFacts(
            registers=self._call(self._driver.funcGetAttribute, _ATTRIBUTE_REGISTERS, function),
            local_bytes=self._call(self._driver.funcGetAttribute, _ATTRIBUTE_LOCAL, function),
        )

    def allow_shared(self, function: int, nbytes: int) -> None:
        self._call(self._driver.funcSetAttribute, function, _ATTRIBUTE_DYNAMIC_SHARED, nbytes)

    def launch(
        self, function: int, grid: int, block: int, shared: int, stream: int, arguments: Sequence[object]
    ) -> None:
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))  # type: ignore[arg-type]
        self._call(
            self._driver.launchKernel, function, grid, 1, 1, block, 1, 1, shared, stream, ctypes.addressof(pointers), 0
        )


__all__ = ["CupyDriver"]
