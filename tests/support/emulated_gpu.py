"""A GPU that is none: the driver protocol over host memory, kernels compiled by g++ and run on an emulated grid.

Everything of the CUDA device but the driver runs as it is: the arena, the copies, the operations, the launches, and the
kernels themselves, thread by thread. Memory that nobody wrote holds 0xA5; what is written behind a buffer is found when
the buffer is freed.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from prover.device.cuda import CudaDevice, open_cuda
from prover.device.cuda_driver import KernelFacts, Properties
from prover.device.cuda_msm import Multiplications
from prover.device.cuda_msm_plan import Costs
from prover.device.cuda_probe import probe
from prover.device.errors import DeviceLost
from prover.device.kernel_cache import KernelCache
from prover.device.nvrtc import Compiled

_GRID = Path(__file__).parent / "host_grid"
_POISON = 0xA5
_GUARD = 64
_GRID_LOCK = threading.Lock()
"""The grid is one for the process, whatever driver runs it."""


class GridCompiler:
    """g++ in NVRTC's place: the machine code is a shared library."""

    version = (0, 1)

    def compile(self, name, source, options):
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            pytest.skip("no C++ compiler")
        definitions = [option for option in options if option.startswith("-D")]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / f"{name}.so"
            command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", f"-I{_GRID}", *definitions]
            command += ["-x", "c++", "-", "-o", str(out)]
            subprocess.run(command, input=source.encode(), check=True, timeout=240)
            return Compiled(out.read_bytes(), "")


class EmulatedDriver:
    """One emulated GPU. ``fail_launch`` makes the launch of this kernel lose the device."""

    def __init__(self, ordinal=0, memory_bytes=1 << 30, multiprocessors=4, shared_per_multiprocessor=228 << 10):
        self.ordinal = ordinal
        self.properties = Properties(
            name="emulated",
            uuid="GPU-00000000-0000-0000-0000-000000000000",
            compute_capability=(9, 0),
            multiprocessors=multiprocessors,
            memory_bytes=memory_bytes,
            shared_bytes=min(shared_per_multiprocessor - 1024, 227 << 10),
            shared_bytes_per_multiprocessor=shared_per_multiprocessor,
            l2_bytes=1 << 20,
            cuda_major=13,
        )
        self.lost = None
        self.fail_launch = None
        self.launches = []
        self.waits = []
        self._lock = threading.Lock()
        self._used = 0
        self._blocks = {}
        self._handles = itertools.count(1)
        self._events = {}
        self._live = set()
        self._modules = {}
        self._functions = {}
        self._folder = tempfile.TemporaryDirectory()

    def compiler(self):
        return GridCompiler()

    def allocate(self, nbytes):
        with self._lock:
            if self._used + nbytes > self.properties.memory_bytes:
                return None
            self._used += nbytes
        raw = ctypes.create_string_buffer(nbytes + 2 * _GUARD)
        ctypes.memset(raw, _POISON, len(raw))
        address = -(-ctypes.addressof(raw) // _GUARD) * _GUARD
        self._blocks[address] = (raw, nbytes)
        return address

    def free(self, address):
        raw, nbytes = self._blocks.pop(address)
        end = address - ctypes.addressof(raw) + nbytes
        assert set(raw.raw[end:]) <= {_POISON, 0}, "written behind the end of a buffer"
        self._used -= nbytes

    def memory_info(self):
        return self.properties.memory_bytes - self._used, self.properties.memory_bytes

    def allocate_pinned(self, nbytes):
        raw = ctypes.create_string_buffer(nbytes)
        self._blocks[ctypes.addressof(raw)] = (raw, 0)
        return ctypes.addressof(raw)

    def free_pinned(self, address):
        del self._blocks[address]

    def copy_in(self, target, source, nbytes, stream):
        ctypes.memmove(target, source, nbytes)

    copy_out = copy_in
    copy_within = copy_in

    def fill(self, target, byte, nbytes, stream):
        ctypes.memset(target, byte, nbytes)

    def synchronize_device(self):
        pass

    def create_stream(self, urgent):
        return self._made()

    def destroy_stream(self, stream):
        self._live.remove(stream)

    def synchronize_stream(self, stream):
        assert stream in self._live

    def create_event(self, timing):
        return self._made()

    def destroy_event(self, event):
        self._live.remove(event)

    def record(self, event, stream):
        assert {event, stream} <= self._live
        self._events[event] = time.monotonic()

    def wait(self, stream, event):
        assert event in self._events
        self.waits.append((stream, event))

    def synchronize_event(self, event):
        assert event in self._events

    def event_done(self, event):
        return event in self._events

    def elapsed_s(self, first, second):
        return self._events[second] - self._events[first]

    def load_module(self, image):
        handle = next(self._handles)
        path = Path(self._folder.name) / f"{handle}.so"
        path.write_bytes(image)
        self._modules[handle] = ctypes.CDLL(str(path))
        return handle

    def unload_module(self, module):
        del self._modules[module]

    def function(self, module, name):
        handle = next(self._handles)
        self._functions[handle] = (self._modules[module], name)
        return handle

    def facts(self, function):
        return KernelFacts(registers=255, local_bytes=0)

    def allow_shared(self, function, nbytes):
        assert nbytes <= self.properties.shared_bytes

    def launch(self, function, grid, block, shared, stream, arguments):
        library, name = self._functions[function]
        if name == self.fail_launch:
            self.lost = DeviceLost("illegal access (emulated)", f"cuda:{self.ordinal}")
            raise self.lost
        values = (ctypes.c_uint64 * 20)(*(argument.value for argument in arguments))
        with _GRID_LOCK:
            self.launches.append(name)
            entry = ctypes.cast(getattr(library, name), ctypes.c_void_p)
            status = library.czk_emulate(entry, grid, block, -(-shared // 4), values)
        faults = ["", "its threads wait for each other", "written behind the end of shared memory"]
        assert status == 0, f"{name}: {faults[status]}"

    def live_handles(self):
        """Streams and events that were made and not destroyed."""
        return len(self._live)

    def _made(self):
        handle = next(self._handles)
        self._live.add(handle)
        return handle


@functools.cache
def emulated_cache():
    """Kernels compiled in this process, so that every test finds those of the tests before it."""
    folder = tempfile.TemporaryDirectory(prefix="cuzk-top-emulated-")
    atexit.register(folder.cleanup)
    return KernelCache(Path(folder.name))


FEW_BUCKETS = Costs(addition=1, entry=0, bucket=2, window=0)
"""On an emulated grid threads cost time even when they have little to do: narrower windows than on a GPU."""


def emulated(memory_cap=None, **properties):
    """A CUDA device on an emulated GPU."""
    device = CudaDevice(EmulatedDriver(**properties), memory_cap=memory_cap, cache=emulated_cache())
    device.multiplications = Multiplications(device, FEW_BUCKETS)
    return device


@functools.cache
def real():
    """The machine's first GPU; the test is skipped where there is none."""
    status = probe()
    if not status.usable:
        pytest.skip(status.why)
    return open_cuda("cuda")


def cuda_device(kind):
    """``emulated`` or ``real``: what tests of the CUDA device are parametrised over."""
    return real() if kind == "real" else emulated()


KINDS = ["emulated", pytest.param("real", marks=pytest.mark.gpu)]

__all__ = ["KINDS", "EmulatedDriver", "GridCompiler", "cuda_device", "emulated", "emulated_cache", "real"]
