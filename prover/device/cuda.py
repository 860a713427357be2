"""A GPU as a device: streams, memory, copies through pinned buffers, and the operations as kernels.

The driver behind it is CuPy's (``cuda_cupy``), or an emulator in tests. Arrays are ``CudaArray``. Operations are
asynchronous and in stream order, but for those that say otherwise; ``write`` and ``upload`` return when the host's
bytes have arrived, ``download`` when they are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prover import buffers
from prover.cancel import Cancelled, CancelToken
from prover.curves import Curve
from prover.device.cuda_clock import DeviceClock
from prover.device.cuda_copies import Copies, PinnedPool
from prover.device.cuda_fixed_base import FixedBases
from prover.device.cuda_kernels import KernelLibrary, modules_of_proof, modules_of_setup
from prover.device.cuda_memory import Arena, CudaArray, owned
from prover.device.cuda_msm import Multiplications
from prover.device.cuda_ntt import Transforms
from prover.device.cuda_ops import OPERATIONS
from prover.device.cuda_residents import Residents
from prover.device.cuda_stream import CudaStream, HandlePool
from prover.device.errors import CudaFailure, DeviceLost, NoCudaDevice, UnknownOperation, WrongDevice
from prover.device.host import cores
from prover.device.values import Capability, Step, Usage

if TYPE_CHECKING:
    from prover.device.cuda_driver import Driver
    from prover.device.kernel_cache import KernelCache
    from prover.device.protocol import Array, HostArray, Progress, Stream


class CudaDevice:
    """One GPU."""

    def __init__(self, driver: Driver, *, memory_cap: int | None = None, cache: KernelCache | None = None) -> None:
        """``memory_cap``: bytes of device memory that it may take. ``cache``: where compiled kernels lie."""
        properties = driver.properties
        major, minor = properties.compute_capability
        self.driver = driver
        self.ordinal = driver.ordinal
        self.name = f"cuda:{driver.ordinal}"
        self.product = properties.name
        self.uuid = properties.uuid
        self.capability = Capability(
            kind="cuda",
            arch=f"sm_{major}{minor}",
            multiprocessors=properties.multiprocessors,
            memory_bytes=properties.memory_bytes,
            has_timing_events=True,
            shared_bytes=properties.shared_bytes,
            shared_bytes_per_multiprocessor=properties.shared_bytes_per_multiprocessor,
            l2_bytes=properties.l2_bytes,
        )
        self.handles = HandlePool(driver)
        self.clock = DeviceClock(self.handles)
        self.arena = Arena(self.handles, self.name, memory_cap)
        self.copies = Copies(self.handles)
        self.kernels = KernelLibrary(driver, cache)
        self.transforms = Transforms(self)
        self.fixed_bases = FixedBases(self)
        self.multiplications = Multiplications(self)
        self._residents = Residents(self)
        self._prepared: set[tuple[int, bool]] = set()
        self.arena.on_shortage(self._residents.evict)

    @property
    def pinned(self) -> PinnedPool:
        """Its pinned buffers."""
        return self.copies.pinned

    @property
    def lost(self) -> DeviceLost | None:
        """Why nothing on it can be used any more; None as long as it can."""
        return self.driver.lost

    @property
    def ops(self) -> Mapping[str, Any]:
        """Operation name -> callable with the common signature."""
        return OPERATIONS

    def empty(self, n: int, words: int, stream: Stream) -> CudaArray:
        """``n`` rows of ``words`` 64-bit words; what is in them is undefined.

        Raises:
            OutOfMemory: with what was asked and what is free.
        """
        return self.arena.take(n * words * buffers.WORD, self._mine(stream))

    def write(self, array: Array, host: HostArray, stream: Stream) -> None:
        """Copy host bytes to the beginning of an array; the rest of it becomes zero.

        Raises:
            WrongDevice: if the array is not this device's.
            ValueError: if there are more bytes than it has.
        """
        target, own = owned(array, self.name), self._mine(stream)
        nbytes = memoryview(host).nbytes
        if nbytes > target.nbytes:
            raise ValueError(f"cannot copy {nbytes} bytes into {target.nbytes}")
        if target.nbytes > nbytes:
            own.submitted += 1
            self.driver.fill(target.address + nbytes, 0, target.nbytes - nbytes, own.handle)
        self.copies.to_device(target, host, own)

    def rows(self, array: Array, start: int, stop: int, words: int) -> CudaArray:
        """The rows ``start <= i < stop`` of ``words`` 64-bit words, a view.

        Raises:
            IndexError: if they are not all there.
        """
        whole, pitch = owned(array, self.name), words * buffers.WORD
        if not 0 <= start <= stop <= whole.nbytes // pitch:
            raise IndexError(f"rows {start}..{stop} of {whole.nbytes // pitch}")
        return whole.part(start * pitch, stop * pitch)

    def upload(self, host: HostArray, stream: Stream) -> CudaArray:
        """The bytes on the device.

        Raises:
            OutOfMemory: if they have no room.
        """
        own, nbytes = self._mine(stream), memoryview(host).nbytes
        array = self.arena.take(nbytes, own)
        self.copies.to_device(array, host, own)
        return array

    def resident(self, host: HostArray, stream: Stream) -> CudaArray:
        """The bytes on the device, kept there for as long as ``host`` lives and memory lasts; they must never change.

        Raises:
            OutOfMemory: if they have no room.
        """
        return self._residents.obtain(host, self._mine(stream))

    def download(self, array: Array, stream: Stream) -> memoryview:
        """The bytes in host memory, when everything submitted to the stream before is done.

        Raises:
            WrongDevice: if it is not this device's array.
        """
        source, own = owned(array, self.name), self._mine(stream)
        out = bytearray(source.nbytes)
        self.copies.to_host(out, source, own)
        return memoryview(out)

    def stream(self, name: str, threads: int = 1, cancel: CancelToken | None = None) -> CudaStream:
        """A new stream; ``threads`` is the host's matter."""
        self._alive()
        return CudaStream(self, name, cancel)

    def run(self, step: Step, stream: Stream) -> Any:
        """Enqueue one step.

        Raises:
            UnknownOperation: if there is none of this name.
            Cancelled: if the stream's token asked for it.
            DeviceLost: if the device no longer answers.
        """
        operation = OPERATIONS.get(step.op)
        if operation is None:
            raise UnknownOperation(step.op, self.name)
        own = self._mine(stream)
        if own.cancel is not None and own.cancel.cancelled:
            raise Cancelled
        return operation(own, **step.arguments)

    def prepare(
        self, curve: Curve, threads: int = 0, progress: Progress | None = None, for_setup: bool = False
    ) -> None:
        """Compile or load what a proof (or a setup) on this curve needs; nothing the next time.

        Raises:
            KernelCompileError, MachineLacks: if that fails.
        """
        if (curve.index, for_setup) not in self._prepared:
            modules = modules_of_setup(curve) if for_setup else modules_of_proof(curve)
            self.kernels.prepare(modules, threads or cores(), progress)
            self._prepared.add((curve.index, for_setup))

    def memory(self) -> Usage:
        """Bytes in arrays, bytes that could be had, the most that arrays ever took."""
        return self.arena.usage()

    def free_cached(self) -> int:
        """Return to the driver what no array uses; how many bytes that was."""
        return self.arena.trim()

    def close(self) -> None:
        """Give back everything. Arrays and streams still in use must not be used any more."""
        if self.lost is not None:
            return  # the context is gone, and everything with it
        self.driver.synchronize_device()
        self._residents.clear()
        self.transforms.clear()
        self.fixed_bases.clear()
        self.multiplications.clear()
        self.arena.trim()
        self.copies.close()
        self.kernels.close()
        self.clock.close()
        self.handles.close()

    def _mine(self, stream: Stream) -> CudaStream:
        self._alive()
        if not isinstance(stream, CudaStream) or stream.driver is not self.driver:
            raise WrongDevice(stream, self.name)
        return stream

    def _alive(self) -> None:
        if self.lost is not None:
            raise DeviceLost("it failed before", self.name) from self.lost


def open_cuda(spec: str) -> CudaDevice:
    """The GPU that ``cuda`` or ``cuda:N`` names.

    Raises:
        NoCudaDevice: in one line, why there is none.
    """
    from prover.device.cuda_probe import require

    ordinal = require(spec)
    try:
        from prover.device.cuda_cupy import CupyDriver

        driver = CupyDriver(ordinal)
    except ImportError as error:
        raise NoCudaDevice(f"CuPy does not load ({error})", spec, "reinstall it") from error
    except CudaFailure as error:
        raise NoCudaDevice(error.what, spec, "match driver and CuPy: cuzk-top[cuda12] or [cuda13]") from error
    return CudaDevice(driver)


__all__ = ["CudaDevice", "open_cuda"]
