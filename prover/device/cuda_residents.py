"""Arrays that stay on a GPU beside host buffers that do not change: keys, matrices."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_memory import CudaArray
    from prover.device.cuda_stream import CudaStream
    from prover.device.protocol import HostArray


class Residents:
    """The resident arrays of one device, each gone with its host buffer; used last, let go last."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[weakref.ref[Any], CudaArray]] = OrderedDict()
        self._dead: list[int] = []
        self._bringing: dict[int, threading.Lock] = {}

    def obtain(self, host: HostArray, stream: CudaStream) -> CudaArray:
        """The array of a host buffer, brought there if need be."""
        key = id(host)
        try:
            alive = weakref.ref(host, lambda _: self._dead.append(key))
        except TypeError:
            return self._device.upload(host, stream)  # such as bytes: nobody tells when they are gone
        with self._lock:
            bringing = self._bringing.setdefault(key, threading.Lock())
        with bringing:
            array = self._find(key, host)
            if array is None:
                array = self._device.upload(host, stream)
                stream.synchronize()  # other streams use it without waiting for this one
                with self._lock:
                    self._kept[key] = (alive, array)
        return array

    def _find(self, key: int, host: HostArray) -> CudaArray | None:
        with self._lock:
            self._sweep()
            found = self._kept.get(key)
            if found is None or found[0]() is not host:
                return None
            self._kept.move_to_end(key)
            return found[1]

    def evict(self, nbytes: int) -> bool:
        """Let go of what was used longest ago until so many bytes are free; False if there is nothing."""
        with self._lock:
            self._sweep()
            if not self._kept:
                return False
            self._device.driver.synchronize_device()
            freed = 0
            while self._kept and freed < nbytes:
                _, (_, array) = self._kept.popitem(last=False)
                freed += array.nbytes
        return True

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._kept.clear()

    def _sweep(self) -> None:
        while self._dead:
            key = self._dead.pop()
            found = self._kept.get(key)
            if found is not None and found[0]() is None:
                self._device.driver.synchronize_device()  # a stream may still be using it
                del self._kept[key]
                self._bringing.pop(key, None)


__all__ = ["Residents"]
