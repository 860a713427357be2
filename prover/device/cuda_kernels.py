"""Kernel modules: what there is to compile, how it is compiled and loaded, and how a kernel is launched.

A module is one ``.cu`` file for one curve (and group). Its options are definitions, never template names, so kernels
keep plain names. All modules are listed here: a device compiles what it needs of them, a test compiles all.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prover.curves import CURVES, Curve
from prover.device.cuda_memory import CudaArray
from prover.device.errors import LaunchRefused
from prover.device.kernel_cache import CacheRecord, Compiler, KernelCache
from prover.device.source import amalgamated
from prover.native import GroupId

if TYPE_CHECKING:
    from prover.device.cuda_driver import Driver, KernelFacts
    from prover.device.cuda_stream import CudaStream
    from prover.device.protocol import Progress

Argument = Any
"""Of a kernel: a ``CudaArray``, or a ctypes integer of the parameter's width."""
_Key = tuple[str, int | None, int | None]
_MAX_BLOCK = 1024
_MAX_GRID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class KernelModule:
    """One source file for one curve and group, either where it depends on none."""

    file: str
    curve: Curve | None = None
    group: GroupId | None = None

    @property
    def key(self) -> _Key:
        """Equal for equal modules, and quick to hash, as curves are not."""
        return self.file, None if self.curve is None else self.curve.index, self.group

    @property
    def name(self) -> str:
        """Short and unique: ``ntt-bls12-381``."""
        parts = [self.file.removesuffix(".cu")]
        if self.curve is not None:
            parts.append(self.curve.name)
        if self.group is not None:
            parts.append(f"g{self.group}")
        return "-".join(parts)

    def definitions(self) -> tuple[str, ...]:
        """The options that make the instance."""
        out: list[str] = []
        if self.curve is not None:
            out += [f"-DCZK_FP={self.curve.fp.name}", f"-DCZK_FR={self.curve.fr.name}"]
        if self.group is not None:
            out.append(f"-DCZK_GROUP={self.group}")
        return tuple(out)

    def options(self, arch: str) -> tuple[str, ...]:
        """All options of the compiler for a real architecture such as ``sm_90``."""
        return ("--std=c++17", f"--gpu-architecture={arch}", *self.definitions())


_PER_GROUP = ("msm_chunks.cu", "msm_accumulate.cu", "msm_reduce.cu")
_OF_SETUP = ("fixed_base.cu",)
_PER_CURVE = ("ntt.cu", "vector.cu", "spmv.cu")
_PLAIN = ("msm_sort.cu",)


def all_modules() -> Iterator[KernelModule]:
    """Every module there is."""
    modules = [module for curve in CURVES for module in modules_of_proof(curve)]
    modules += [module for curve in CURVES for module in modules_of_setup(curve)]
    yield from dict.fromkeys(modules)


def modules_of_proof(curve: Curve) -> Iterator[KernelModule]:
    """What a proof on this curve needs, the modules that take longest to compile first."""
    groups: tuple[GroupId, ...] = (2, 1)
    for file in _PER_GROUP:
        for group in groups:
            yield KernelModule(file, curve, group)
    for file in _PER_CURVE:
        yield KernelModule(file, curve)
    for file in _PLAIN:
        yield KernelModule(file)


def modules_of_setup(curve: Curve) -> Iterator[KernelModule]:
    """What a setup on this curve needs."""
    groups: tuple[GroupId, ...] = (2, 1)
    for file in _OF_SETUP:
        for group in groups:
            yield KernelModule(file, curve, group)


@dataclass(frozen=True, slots=True)
class ModuleRecord:
    """How a module came onto the device."""

    cache: CacheRecord
    load_seconds: float


class LoadedModule:
    """A module on a device."""

    def __init__(self, driver: Driver, module: KernelModule, handle: int) -> None:
        self.module = module
        self.handle = handle
        self._driver = driver
        self._functions: dict[str, int] = {}
        self._shared: dict[str, int] = {}

    def launch(
        self, kernel: str, grid: int, block: int, arguments: Sequence[Argument], stream: CudaStream, shared: int = 0
    ) -> None:
        """Enqueue a kernel over ``grid`` blocks of ``block`` threads.

        Args:
            kernel: its ``extern "C"`` name.
            grid: blocks; 0 launches nothing.
            block: threads of a block.
            arguments: arrays, and ctypes integers (``c_uint32``, ``c_uint64``) as wide as the parameters.
            stream: where.
            shared: bytes of dynamic shared memory.

        Raises:
            LaunchRefused: if the device cannot hold such a block or grid.
        """
        if grid == 0:
            return
        function = self._function(kernel)
        self._check(kernel, grid, block, shared)
        if shared > self._shared.get(kernel, 48 << 10):
            self._driver.allow_shared(function, shared)
            self._shared[kernel] = shared
        packed = [_packed(argument) for argument in arguments]
        stream.begin_kernels()
        self._driver.launch(function, grid, block, shared, stream.handle, packed)

    def facts(self, kernel: str) -> KernelFacts:
        """Registers and local memory of a kernel."""
        return self._driver.facts(self._function(kernel))

    def _function(self, kernel: str) -> int:
        found = self._functions.get(kernel)
        if found is None:
            found = self._functions[kernel] = self._driver.function(self.handle, kernel)
        return found

    def _check(self, kernel: str, grid: int, block: int, shared: int) -> None:
        properties = self._driver.properties
        for what, asked, limit in (
            ("threads a block", block, _MAX_BLOCK),
            ("blocks", grid, _MAX_GRID),
            ("bytes of shared memory", shared, properties.shared_bytes),
        ):
            if asked > limit:
                raise LaunchRefused(kernel, f"{asked} {what}", str(limit), f"cuda:{self._driver.ordinal}")


def _packed(argument: Argument) -> object:
    if isinstance(argument, CudaArray):
        return ctypes.c_uint64(argument.address)
    if isinstance(argument, int):
        raise TypeError(f"kernel argument {argument} has no width: wrap it in a ctypes integer")
    return argument


class KernelLibrary:
    """The modules of one device: compiled or read from disk when first asked for."""

    def __init__(self, driver: Driver, cache: KernelCache | None = None) -> None:
        self._driver = driver
        major, minor = driver.properties.compute_capability
        self.arch = f"sm_{major}{minor}"
        self._compiler: Compiler | None = None
        self._cache = cache or KernelCache()
        self._lock = threading.Lock()
        self._locks: dict[_Key, threading.Lock] = {}
        self._loaded: dict[_Key, LoadedModule] = {}
        self.records: list[ModuleRecord] = []

    def get(self, module: KernelModule) -> LoadedModule:
        """The module on the device.

        Raises:
            KernelCompileError: if it does not compile.
            MachineLacks: if there is no compiler.
        """
        key = module.key
        loaded = self._loaded.get(key)
        if loaded is not None:
            return loaded
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            loaded = self._loaded.get(key)
            if loaded is None:
                loaded = self._loaded[key] = self._load(module)
            return loaded

    def prepare(self, modules: Iterable[KernelModule], threads: int, progress: Progress | None = None) -> None:
        """Bring modules onto the device, compiling several at once; the slowest begin first.

        Raises:
            KernelCompileError, MachineLacks: as ``get``.
        """
        wanted = [module for module in modules if module.key not in self._loaded]
        report = progress or (lambda what, share: None)
        with ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="kernels") as pool:
            futures = [(module, pool.submit(self.get, module)) for module in wanted]
            for done, (module, future) in enumerate(futures):
                report(f"kernels: {module.name}", done / len(futures))
                future.result()

    def close(self) -> None:
        """Unload everything."""
        with self._lock:
            for loaded in self._loaded.values():
                self._driver.unload_module(loaded.handle)
            self._loaded.clear()

    def _load(self, module: KernelModule) -> LoadedModule:
        if self._compiler is None:
            self._compiler = self._driver.compiler()
        options = module.options(self.arch)
        image, record = self._cache.obtain(module.name, amalgamated(module.file), options, self._compiler)
        began = time.monotonic()
        handle = self._driver.load_module(image)
        self.records.append(ModuleRecord(record, time.monotonic() - began))
        return LoadedModule(self._driver, module, handle)


__all__ = [
    "KernelLibrary",
    "KernelModule",
    "LoadedModule",
    "ModuleRecord",
    "all_modules",
    "modules_of_proof",
    "modules_of_setup",
]
