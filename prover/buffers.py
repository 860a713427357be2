"""Host memory without numpy: rows of 64-bit words as ``memoryview``, which the native library and numpy take as is.

A single proof on the command line never needs numpy, and loading it takes as long as proving a small circuit; so what
lies on that path passes buffers, and only code that computes on vectors in Python loads numpy.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    BufferLike = Any
else:
    BufferLike = object
"""Anything with a C-contiguous buffer: ``bytes``, ``memoryview``, ``mmap``, ``ndarray``."""

WORD = 8
_LARGE = 1 << 16
"""From here on memory comes as zero pages of its own, given back to the system as soon as it is freed."""


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

_libc = ctypes.CDLL(None)
_libc.memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_libc.memmove.restype = None
_libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
_libc.memset.restype = None


def address(buffer: BufferLike) -> int:
    """Where a buffer's bytes lie. Valid for as long as the caller keeps the object.

    Raises:
        BufferError or ValueError: if it is not C-contiguous.
        TypeError: if the object has no buffer.
    """
    view = _PyBuffer()
    _get_buffer(buffer, ctypes.byref(view), 0)  # PyBUF_SIMPLE: contiguous bytes or an error
    try:
        return int(view.buf or 0)
    finally:
        _release_buffer(ctypes.byref(view))


class _Pages(mmap.mmap):
    """Zero pages that report when they are given back."""

    freed: Callable[[], None] | None = None

    def __del__(self) -> None:
        if self.freed is not None:
            self.freed()


class _Bytes(bytearray):
    """Few bytes that report when they are given back."""

    freed: Callable[[], None] | None = None

    def __del__(self) -> None:
        if self.freed is not None:
            self.freed()


def zeros(n: int, words: int, freed: Callable[[], None] | None = None) -> memoryview:
    """``n`` rows of ``words`` 64-bit words, all zero. ``freed`` is called when the memory is given back.

    Raises:
        MemoryError: if there is not enough.
    """
    nbytes = n * words * WORD
    if nbytes == 0:
        return memoryview(b"")
    owner: _Pages | _Bytes
    if nbytes < _LARGE:
        owner = _Bytes(nbytes)
    else:
        try:
            owner = _Pages(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"{nbytes} bytes") from error
    owner.freed = freed
    return memoryview(owner).cast("Q", (n, words))


def as_rows(buffer: BufferLike, words: int) -> memoryview:
    """Any contiguous buffer as rows of ``words`` 64-bit words; an empty one has no shape to speak of.

    Raises:
        ValueError: if its length is no multiple of a row.
        TypeError: if it is not contiguous or has no buffer.
    """
    flat = memoryview(buffer).cast("B")
    if flat.nbytes % (words * WORD):
        raise ValueError(f"{flat.nbytes} bytes are no multiple of {words * WORD}")
    return flat.cast("Q", (flat.nbytes // (words * WORD), words)) if flat.nbytes else flat


def row_count(array: BufferLike, words: int) -> int:
    """How many rows of ``words`` 64-bit words a buffer has."""
    return memoryview(array).nbytes // (words * WORD)


def rows(array: BufferLike, start: int, stop: int, words: int) -> memoryview:
    """The rows ``start <= i < stop`` as a view.

    Raises:
        IndexError: if they are not all there.
    """
    pitch = words * WORD
    flat = memoryview(array).cast("B")
    if not 0 <= start <= stop <= flat.nbytes // pitch:
        raise IndexError(f"rows {start}..{stop} of {flat.nbytes // pitch}")
    return as_rows(flat[start * pitch : stop * pitch], words)


def move(target: int, source: int, nbytes: int) -> None:
    """Copy bytes between two addresses. The GIL is free."""
    _libc.memmove(target, source, nbytes)


def copy(source: BufferLike, target: memoryview) -> None:
    """Copy all bytes of ``source`` to the beginning of ``target``; the rest of it becomes zero. The GIL is free.

    Raises:
        ValueError: if there are more than ``target`` has, or it is read-only.
    """
    nbytes = memoryview(source).nbytes
    if target.readonly or nbytes > target.nbytes:
        raise ValueError(f"cannot copy {nbytes} bytes into {target.nbytes} (read-only: {target.readonly})")
    at = address(target)
    if nbytes:
        _libc.memmove(at, address(source), nbytes)
    if target.nbytes > nbytes:
        _libc.memset(at + nbytes, 0, target.nbytes - nbytes)


__all__ = ["WORD", "BufferLike", "address", "as_rows", "copy", "move", "row_count", "rows", "zeros"]
