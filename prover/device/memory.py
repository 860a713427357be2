"""Memory of the host as the native library wants it: an address, a shape, and whoever keeps it alive.

numpy sees a ``HostArray`` through ``__array_interface__`` without copying, yet nothing here loads numpy: a single proof
on the command line never needs it, and loading it would take as long as proving a small circuit.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

_LARGE = 1 << 16
"""From here on memory comes as zero pages of its own, given back to the system at once when freed."""

_WIDTH = {"<u8": 8, "<u4": 4, "|u1": 1}


class _PyBuffer(ctypes.Structure):
    """``Py_buffer`` of CPython's stable ABI."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None


class _Export:
    """Holds a C-contiguous buffer of an object, so that memory stays put while an address is in use."""

    __slots__ = ("_view", "address", "nbytes", "readonly")

    def __init__(self, owner: Any) -> None:
        self._view = _PyBuffer()
        _get_buffer(owner, ctypes.byref(self._view), 0)  # PyBUF_SIMPLE: refuses anything not contiguous
        self.address = int(self._view.buf or 0)
        self.nbytes = int(self._view.len)
        self.readonly = bool(self._view.readonly)

    def __del__(self) -> None:
        if self._view.obj:  # stays NULL where the export was refused
            _release_buffer(ctypes.byref(self._view))


class HostArray:
    """A C-contiguous array in host memory: rows of limbs, mostly ``(n, limbs)`` of ``<u8``."""

    __slots__ = ("__weakref__", "_export", "address", "nbytes", "readonly", "shape", "typestr")

    def __init__(self, export: _Export, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self._export = export
        self.address = address
        self.shape = shape
        self.typestr = typestr
        self.nbytes = math.prod(shape) * _WIDTH[typestr]
        self.readonly = export.readonly

    @property
    def dtype(self) -> Any:
        """The element type, as numpy's ``dtype`` (loads numpy)."""
        import numpy as np

        return np.dtype(self.typestr)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.address, self.readonly),
        }

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, start: int, stop: int) -> HostArray:
        """The rows ``start <= i < stop``, a view.

        Raises:
            IndexError: if they are not all there.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"rows {start}..{stop} of {self.shape[0]}")
        pitch = self.nbytes // self.shape[0] if self.shape[0] else 0
        return HostArray(self._export, self.address + start * pitch, (stop - start, *self.shape[1:]), self.typestr)

    def reshape(self, *shape: int) -> HostArray:
        """The same bytes in another shape.

        Raises:
            ValueError: if the sizes differ.
        """
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"cannot view {self.shape} as {shape}")
        return HostArray(self._export, self.address, shape, self.typestr)

    def tobytes(self) -> bytes:
        """A copy of the bytes."""
        return ctypes.string_at(self.address, self.nbytes) if self.nbytes else b""

    def fill_from(self, other: HostArray) -> None:
        """Copy ``other`` over the first of these bytes.

        Raises:
            ValueError: if this array is read-only or smaller.
        """
        if self.readonly or other.nbytes > self.nbytes:
            raise ValueError(f"cannot copy {other.nbytes} bytes into {self.nbytes} (read-only: {self.readonly})")
        ctypes.memmove(self.address, other.address, other.nbytes)


def view(owner: Any, *row: int, typestr: str = "<u8") -> HostArray:
    """The bytes of any C-contiguous buffer (``bytes``, ``mmap``, ``memoryview``, ``ndarray``) as rows of shape ``row``.

    Raises:
        ValueError: if its length is no multiple of a row.
        BufferError: if it is not contiguous.
    """
    export = _Export(owner)
    pitch = math.prod(row) * _WIDTH[typestr]
    if export.nbytes % pitch:
        raise ValueError(f"{export.nbytes} bytes are no multiple of {pitch}")
    return HostArray(export, export.address, (export.nbytes // pitch, *row), typestr)


def zeros(shape: tuple[int, ...], typestr: str = "<u8") -> HostArray:
    """New memory, all zero.

    Raises:
        MemoryError: if there is not enough.
    """
    nbytes = math.prod(shape) * _WIDTH[typestr]
    if nbytes < _LARGE:
        owner: Any = bytearray(max(nbytes, 1))
    else:
        try:
            owner = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"{nbytes} bytes") from error
    export = _Export(owner)
    return HostArray(export, export.address, shape, typestr)


__all__ = ["HostArray", "view", "zeros"]
