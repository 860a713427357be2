"""What the CUDA device asks of the driver, as a short protocol: CuPy answers it on a GPU, an emulator in tests.

Handles and addresses are integers. Every call may come from any thread. Failures are ``DeviceLost`` where the context
is gone, ``CudaFailure`` otherwise; ``allocate`` alone says "no memory" by returning None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prover.device.errors import DeviceLost
    from prover.device.kernel_cache import Compiler


@dataclass(frozen=True, slots=True)
class Properties:
    """What a GPU is. Sizes in bytes."""

    name: str
    uuid: str
    """As NVML writes it: ``GPU-...``."""
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    shared_bytes: int
    """Shared memory that one block may have at most."""
    shared_bytes_per_multiprocessor: int
    l2_bytes: int
    cuda_major: int
    """CUDA version of the run-time library, which the kernels' compiler must match."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What a loaded kernel takes: registers and bytes of local memory (spills, arrays) of a thread."""

    registers: int
    local_bytes: int


class Driver(Protocol):
    """One GPU."""

    ordinal: int
    properties: Properties
    lost: DeviceLost | None
    """The first failure after which the context answered nothing any more."""

    def compiler(self) -> Compiler:
        """What compiles kernels for it."""

    def allocate(self, nbytes: int) -> int | None: ...
    def free(self, address: int) -> None: ...
    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the whole GPU."""

    def allocate_pinned(self, nbytes: int) -> int | None: ...
    def free_pinned(self, address: int) -> None: ...

    def copy_in(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Host to device, in stream order; asynchronous only from pinned memory."""

    def copy_out(self, target: int, source: int, nbytes: int, stream: int) -> None: ...
    def copy_within(self, target: int, source: int, nbytes: int, stream: int) -> None: ...
    def fill(self, target: int, byte: int, nbytes: int, stream: int) -> None: ...

    def synchronize_device(self) -> None: ...

    def create_stream(self, urgent: bool) -> int:
        """``urgent``: its kernels' blocks begin before those of other streams that wait."""

    def destroy_stream(self, stream: int) -> None: ...
    def synchronize_stream(self, stream: int) -> None: ...

    def create_event(self, timing: bool) -> int: ...
    def destroy_event(self, event: int) -> None: ...
    def record(self, event: int, stream: int) -> None: ...
    def wait(self, stream: int, event: int) -> None: ...
    def synchronize_event(self, event: int) -> None: ...
    def event_done(self, event: int) -> bool: ...
    def elapsed_s(self, first: int, second: int) -> float: ...

    def load_module(self, image: bytes) -> int: ...
    def unload_module(self, module: int) -> None: ...
    def function(self, module: int, name: str) -> int: ...
    def facts(self, function: int) -> KernelFacts: ...
    def allow_shared(self, function: int, nbytes: int) -> None:
        """Let a kernel have so much dynamic shared memory; above 48 KiB it must be asked for."""

    def launch(
        self, function: int, grid: int, block: int, shared: int, stream: int, arguments: Sequence[object]
    ) -> None:
        """``arguments`` are ctypes integers."""


__all__ = ["Driver", "KernelFacts", "Properties"]
