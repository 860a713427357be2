"""The seam between proving and hardware: a short list of verbs, no global state, the stream always an argument.

Operations are named (``ntt``, ``msm``, ...) and have one signature on every device; a contract test compares them.
Plans (``prover.ntt``, ``prover.msm``, ``prover.spmv``) turn an algorithm into steps for a device's capability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from prover.buffers import BufferLike
from prover.device.values import Capability, MsmTerms, Step, Usage

if TYPE_CHECKING:
    from prover.cancel import CancelToken
    from prover.curves import Curve

HostArray = BufferLike
"""Bytes in host memory: an ``ndarray``, a ``memoryview``, a memory map."""


Progress = Callable[[str, "float | None"], None]
"""Told what is being done, and the share done."""


class Array(Protocol):
    """A buffer that belongs to one device. Mixing two devices raises ``WrongDevice``."""

    @property
    def nbytes(self) -> int: ...


class DeviceEvent(Protocol):
    """A point in a stream."""

    @property
    def done(self) -> bool: ...
    def synchronize(self) -> None:
        """Wait until the stream has passed it."""

    def elapsed_s(self, later: DeviceEvent) -> float:
        """Seconds from this event to a later one; both must be done."""


class Stream(Protocol):
    """An ordered queue of work. On the host, work runs in the calling thread at once."""

    name: str

    @property
    def active_s(self) -> float | None:
        """Seconds that kernels ran in it, as far as accounted for; None where there is no clock of that kind."""

    def collect(self, before: DeviceEvent | None = None) -> None:
        """Account for kernels whose end is known, or for those of them that ended before an event of this stream, which
        is done; ``synchronize`` accounts for all.
        """

    def take_spans(self) -> list[tuple[float, float]] | None:
        """When kernels ran in it, on the monotonic clock: what was accounted for since the last call, each instant
        once. None where there is no clock of that kind.
        """

    def record(self) -> DeviceEvent: ...
    def wait(self, event: DeviceEvent) -> None: ...
    def synchronize(self) -> None: ...


class PendingPoint(Protocol):
    """A multiplication that was begun (``msm_many``). Its stream belongs to the caller until ``finish`` returned."""

    def wait_accumulated(self) -> None:
        """Wait until its buckets are full. Adding them up takes little of the device: another's work fits beside it."""

    def finish(self) -> HostArray:
        """Wait for it; the sum as an affine Montgomery point."""


class Device(Protocol):
    """A device that proves."""

    ordinal: int
    name: str
    """As ``--device`` names it: ``cuda:0``."""
    product: str
    """As people call it: ``NVIDIA H200``."""
    uuid: str
    """As the driver writes it, the one name that CUDA and NVML share; empty for the host."""
    capability: Capability

    @property
    def ops(self) -> Mapping[str, Any]:
        """Operation name -> callable with the common signature."""

    def prepare(
        self, curve: Curve, threads: int = 0, progress: Progress | None = None, for_setup: bool = False
    ) -> None:
        """Have ready what a proof on this curve runs (or a setup), which takes long the first time on a GPU.
        ``threads`` 0 = all.
        """

    def empty(self, n: int, words: int, stream: Stream) -> Array:
        """``n`` rows of ``words`` 64-bit words; what is in them is undefined."""

    def write(self, array: Array, host: HostArray, stream: Stream) -> None:
        """Copy host bytes to the beginning of an array; the rest of it becomes zero."""

    def rows(self, array: Array, start: int, stop: int, words: int) -> Array:
        """The rows ``start <= i < stop`` of ``words`` 64-bit words, a view."""

    def upload(self, host: HostArray, stream: Stream) -> Array:
        """The bytes on the device. On the host a view: what an operation changes in place changes there too."""

    def resident(self, host: HostArray, stream: Stream) -> Array:
        """The bytes on the device, for as long as ``host`` lives: for keys and matrices, which never change."""

    def download(self, array: Array, stream: Stream) -> HostArray:
        """The bytes in host memory."""

    def stream(self, name: str, threads: int = 1, cancel: CancelToken | None = None) -> Stream:
        """A new stream. ``threads``: processor threads that its operations may use (host). ``cancel``: stops them."""

    def run(self, step: Step, stream: Stream) -> Any:
        """Run one step in stream order."""

    def memory(self) -> Usage: ...
    def close(self) -> None: ...


__all__ = [
    "Array",
    "Capability",
    "Device",
    "DeviceEvent",
    "HostArray",
    "MsmTerms",
    "PendingPoint",
    "Step",
    "Stream",
    "Usage",
]
