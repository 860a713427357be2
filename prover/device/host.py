"""The host as a device: the native library behind the device protocol. Work runs in the calling thread, at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from prover import buffers, native
from prover.cancel import CancelToken
from prover.curves import Curve
from prover.device.errors import OutOfMemory, UnknownOperation, WrongDevice
from prover.device.values import Capability, MsmTerms, Step, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prover.device.protocol import Array, DeviceEvent, HostArray, PendingPoint, Progress, Stream

_SCALAR_WORDS = 4


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


class HostEvent:
    """A mark on the monotonic clock: on the host everything recorded before it is done."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = time.monotonic()

    @property
    def done(self) -> bool:
        """Always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_s(self, later: DeviceEvent) -> float:
        """Seconds to a later mark.

        Raises:
            WrongDevice: if the other event is not the host's.
        """
        if not isinstance(later, HostEvent):
            raise WrongDevice(later, "host")
        return later.at - self.at


class HostStream:
    """Names a caller, and holds what its operations may use: threads, and the token that stops them."""

    __slots__ = ("cancel", "name", "threads")

    def __init__(self, name: str, threads: int = 1, cancel: CancelToken | None = None) -> None:
        self.name = name
        self.threads = max(1, threads)
        self.cancel = cancel

    @property
    def active_s(self) -> None:
        """None: the host's clock tells work and waiting not apart."""
        return None

    def collect(self, before: DeviceEvent | None = None) -> None:
        """Nothing to account for."""

    def take_spans(self) -> None:
        """None, as ``active_s``."""
        return

    def record(self) -> HostEvent:
        """Now."""
        return HostEvent()

    def wait(self, event: DeviceEvent) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


class _Point:
    """A sum that was there at once."""

    __slots__ = ("_point",)

    def __init__(self, point: HostArray) -> None:
        self._point = point

    def wait_accumulated(self) -> None:
        """It is there."""

    def finish(self) -> HostArray:
        return self._point


class _Account:
    """Bytes that the device's own arrays hold."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.used = 0
        self.peak = 0

    def take(self, nbytes: int) -> Callable[[], None]:
        with self._lock:
            self.used += nbytes
            self.peak = max(self.peak, self.used)
        return lambda: self.give_back(nbytes)

    def give_back(self, nbytes: int) -> None:
        with self._lock:
            self.used -= nbytes


class HostDevice:
    """All cores and the memory of this machine.

    Its arrays are ``memoryview``; ``upload`` and ``download`` are views, so an operation in place changes what was
    uploaded. There are no streams that run aside: an operation has ended when it returns.
    """

    name = product = "host"
    uuid = ""

    def __init__(self, threads: int = 0, ordinal: int = 0) -> None:
        """``threads``: what a stream uses where it does not say; 0 = every core. ``ordinal``: its number among the
        devices of an engine.
        """
        self.ordinal = ordinal
        self.threads = threads or cores()
        page = os.sysconf("SC_PAGE_SIZE")
        self.capability = Capability(
            kind="host",
            arch=native.cpu_variant(),
            multiprocessors=cores(),
            memory_bytes=page * os.sysconf("SC_PHYS_PAGES"),
            has_timing_events=False,
        )
        self._account = _Account()

    @property
    def ops(self) -> Mapping[str, Any]:
        """Operation name -> callable with the common signature."""
        return _OPS

    def prepare(
        self, curve: Curve, threads: int = 0, progress: Progress | None = None, for_setup: bool = False
    ) -> None:
        """Nothing: the library is compiled."""

    def empty(self, n: int, words: int, stream: Stream) -> memoryview:
        """``n`` rows of ``words`` 64-bit words (zero, as it happens).

        Raises:
            OutOfMemory: if the system has not so much.
        """
        nbytes = n * words * buffers.WORD
        freed = self._account.take(nbytes)
        try:
            return buffers.zeros(n, words, freed)
        except MemoryError as error:
            freed()
            raise OutOfMemory(nbytes, self.memory().free, self.name) from error

    def write(self, array: Array, host: HostArray, stream: Stream) -> None:
        """Copy host bytes to the beginning of an array; the rest of it becomes zero.

        Raises:
            WrongDevice: if it is not the host's array.
            ValueError: if there are more bytes than it has.
        """
        if not isinstance(array, memoryview):
            raise WrongDevice(array, self.name)
        buffers.copy(host, array)

    def rows(self, array: Array, start: int, stop: int, words: int) -> memoryview:
        """The rows ``start <= i < stop`` of ``words`` 64-bit words, a view.

        Raises:
            IndexError: if they are not all there.
        """
        return buffers.rows(array, start, stop, words)

    def upload(self, host: HostArray, stream: Stream) -> memoryview:
        """A view of the same bytes."""
        return memoryview(host)

    def resident(self, host: HostArray, stream: Stream) -> memoryview:
        """A view of the same bytes."""
        return memoryview(host)

    def download(self, array: Array, stream: Stream) -> memoryview:
        """A view of the same bytes.

        Raises:
            WrongDevice: if it is not the host's array.
        """
        if not isinstance(array, memoryview):
            raise WrongDevice(array, self.name)
        return array

    def stream(self, name: str, threads: int = 0, cancel: CancelToken | None = None) -> HostStream:
        """A new stream; ``threads`` 0 = the device's."""
        return HostStream(name, threads or self.threads, cancel)

    def run(self, step: Step, stream: Stream) -> Any:
        """Run one step now.

        Raises:
            UnknownOperation: if the host has none of this name.
            Cancelled: if the stream's token asked for it.
            NativeError: if the host library refused or failed.
        """
        try:
            operation = _OPS[step.op]
        except KeyError:
            raise UnknownOperation(step.op, self.name) from None
        return operation(stream, **step.arguments)

    def memory(self) -> Usage:
        """What this device's arrays hold, what the system could still give."""
        return Usage(used=self._account.used, free=_available_bytes(), peak=self._account.peak)

    def close(self) -> None:
        """Nothing to give back: arrays free themselves."""


def _available_bytes() -> int:
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # no procfs: the coarser figure below
    return page * os.sysconf("SC_AVPHYS_PAGES")


def _ntt(stream: HostStream, *, curve: Curve, data: Array, root: bytes, inverse: bool, shift: bytes | None) -> None:
    native.ntt(curve, data, root, inverse, shift, stream.threads, stream.cancel)


def _msm(stream: HostStream, *, curve: Curve, group: native.GroupId, bases: Array, scalars: Array, out: Array) -> None:
    native.msm(curve, group, bases, scalars, out, stream.threads, stream.cancel)


def _msm_many(stream: HostStream, *, curve: Curve, operands: Sequence[MsmTerms], scalars: Array) -> list[PendingPoint]:
    points: list[PendingPoint] = []
    count = buffers.row_count(scalars, _SCALAR_WORDS)
    for terms in operands:
        own = buffers.rows(scalars, terms.absent, count, _SCALAR_WORDS)
        point = buffers.zeros(1, native.point_words(curve, terms.group))
        native.msm(curve, terms.group, terms.bases, own, point, stream.threads, stream.cancel)
        points.append(_Point(point))
    return points


def _spmv(
    stream: HostStream,
    *,
    curve: Curve,
    row_ptr: Array,
    col: Array,
    coef: Array,
    table: Array,
    vector: Array,
    out: Array,
) -> None:
    native.spmv(curve, row_ptr, col, coef, table, vector, out, stream.threads, stream.cancel)


def _mul_sub(
    stream: HostStream, *, curve: Curve, a: Array, b: Array, c: Array, out: Array, canonical_out: bool
) -> None:
    native.mul_sub(curve, a, b, c, out, canonical_out, stream.threads, stream.cancel)


def _fixed_base(
    stream: HostStream, *, curve: Curve, group: native.GroupId, base: bytes, scalars: Array, out: Array
) -> None:
    native.fixed_base_mul(curve, group, base, scalars, out, stream.threads, stream.cancel)


_OPS: Mapping[str, Any] = MappingProxyType(
    {
        "ntt": _ntt,
        "msm": _msm,
        "msm_many": _msm_many,
        "spmv": _spmv,
        "mul_sub": _mul_sub,
        "fixed_base": _fixed_base,
    }
)

__all__ = ["HostDevice", "HostEvent", "HostStream", "cores"]
