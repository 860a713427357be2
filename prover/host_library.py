"""Where the host library lies, whether it is fresh, and how it is called: buffers in, status codes out as exceptions.

Loading happens at the first call. Importing this module loads neither numpy nor the library.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading

from prover import buffers
from prover.cancel import Cancelled, CancelToken
from prover.errors import MachineLacks, ProverError

LIBRARY = "libcuzk_top_host.so"
ABI_VERSION = 1
_KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BufferLike = buffers.BufferLike
"""A numpy array or another object with a C-contiguous buffer."""


class NativeError(ProverError):
    """The host library refused a call or failed in it."""


class NativeOutOfMemory(NativeError, MemoryError):
    """The host library could not allocate."""

    exit_code = 3


_P = ctypes.c_void_p
_I = ctypes.c_int32
_N = ctypes.c_uint64
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "field_op": (_I, _I, _P, _P, _P, _N),
    "field_op_shared": (_I, _I, _P, _P, _P, _N),
    "field_check": (_I, _P, _N, _P),
    "group_op": (_I, _I, _I, _P, _P, _P, _N),
    "group_mul": (_I, _I, _P, _P, _P, _N, _I, _P),
    "fixed_base_mul": (_I, _I, _P, _P, _P, _N, _I, _P),
    "points_check": (_I, _I, _P, _N, _I, _I, _P, _P, _P),
    "points_check_combined": (_I, _I, _P, _N, _P, _I, _P, _P),
    "msm": (_I, _I, _P, _P, _N, _I, _P, _P),
    "msm_combine": (_I, _I, _P, _P, _N, _P),
    "ntt": (_I, _P, ctypes.c_uint32, _I, _P, _P, _I, _P),
    "mul_sub": (_I, _P, _P, _P, _P, _N, _I, _I, _P),
    "spmv": (_I, _N, _P, _P, _P, _P, _N, _P, _N, _P, _I, _P),
    "first_unsatisfied": (_I, _P, _P, _P, _N, _P),
    "program_run": (_I, _P, _N, _P, _N, _P, _N, _P, _N, _N, _P, _P),
    "zkey_matrices": (_I, _P, _N, _N, _N, _N, _N, _P, _P, _P, _P, _P, _P, _P, _P),
    "pairing_check": (_I, _P, _P, _N, _I, _P),
    "pairing": (_I, _P, _P, _N, _P),
}

_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None


def library_path() -> str:
    """Where the host library lies. ``CUZK_TOP_LIBRARY`` names another.

    Raises:
        MachineLacks: if it is nowhere.
    """
    override = os.environ.get("CUZK_TOP_LIBRARY")
    if override:
        if os.path.isfile(override):
            return override
        raise MachineLacks("host library not found", override, "unset or correct CUZK_TOP_LIBRARY")
    beside = os.path.join(_KERNELS, LIBRARY)
    if os.path.isfile(beside):
        return beside
    import importlib.resources  # slow to import, and only an editable installation needs it

    path = str(importlib.resources.files("prover").joinpath("kernels", LIBRARY))
    if os.path.isfile(path):
        return path
    raise MachineLacks("host library not found", beside, "build it with: pip install -e . (needs a C++ compiler)")


def source_digest(kernels: str = "") -> str | None:
    """The digest of the library's sources, made as ``CMakeLists.txt`` makes it; None where the sources are not."""
    import hashlib

    files = _sources(kernels or _KERNELS)
    digests = []
    for path in sorted(files):
        with open(path, "rb") as source:
            digests.append(hashlib.sha256(source.read()).hexdigest() + "\n")
    return hashlib.sha256("".join(digests).encode()).hexdigest() if files else None


def _sources(kernels: str) -> list[str]:
    """The library's sources, none where they are not installed."""
    host = os.path.join(kernels, "host")
    if not os.path.isfile(os.path.join(host, "library.cpp")):
        return []
    found = [entry.path for entry in os.scandir(kernels) if entry.name.endswith((".cuh", ".h"))]
    return found + [entry.path for entry in os.scandir(host) if entry.name.endswith((".hpp", ".cpp"))]


def _is_stale(path: str, built_from: str) -> bool:
    """Whether the library was built from other sources than those beside this module.

    Only asked of the sources' digest where one of them changed after the library was built: reading them all takes as
    long as loading the library.
    """
    built = os.stat(path).st_mtime
    sources = _sources(_KERNELS)
    if all(os.stat(each).st_mtime < built for each in (*sources, *{os.path.dirname(each) for each in sources})):
        return False
    return source_digest() not in (None, built_from)


def library() -> ctypes.CDLL:
    """The loaded host library.

    Raises:
        MachineLacks: if it is missing, cannot be loaded, or was built from other sources than those beside this module.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load(library_path())
    return _loaded


def _load(path: str) -> ctypes.CDLL:
    rebuild = "rebuild it with: pip install -e ."
    try:
        lib = ctypes.CDLL(path)
        lib.czk_abi_version.restype = _I
        version = lib.czk_abi_version()
    except (OSError, AttributeError) as error:
        raise MachineLacks("host library cannot be loaded", path, f"{error}; {rebuild}") from error
    if version != ABI_VERSION:
        raise MachineLacks(f"host library has interface {version}, not {ABI_VERSION}", path, rebuild)
    for name in ("source_digest", "last_error", "cpu_variant", "cpu_variants"):
        getattr(lib, f"czk_{name}").restype = ctypes.c_char_p
    lib.czk_select_variant.argtypes = (ctypes.c_char_p,)
    for name, arguments in _PROTOTYPES.items():
        function = getattr(lib, f"czk_{name}")
        function.argtypes = arguments
        function.restype = _I
    if _is_stale(path, lib.czk_source_digest().decode()):
        raise MachineLacks("host library is older than its sources", path, rebuild)
    return lib


def cpu_variant() -> str:
    """The variant of the hot loops in use: ``portable``, ``bmi2`` or ``ifma``."""
    name: str = library().czk_cpu_variant().decode()
    return name


def cpu_variants() -> tuple[str, ...]:
    """The variants that this processor runs, slowest first."""
    return tuple(library().czk_cpu_variants().decode().split(","))


def select_variant(name: str) -> None:
    """Use another variant, in the whole process (tests, benchmarks).

    Raises:
        NativeError: if this processor does not run it.
    """
    _check(library().czk_select_variant(name.encode()), "select_variant")


_CANCELLED, _NO_MEMORY = 2, 3
_INTEGER_FORMATS = frozenset("cbBhHiIlLqQ")


def _check(status: int, function: str) -> None:
    if status == 0:
        return
    text = library().czk_last_error().decode(errors="replace")
    if status == _CANCELLED:
        raise Cancelled(function)
    if status == _NO_MEMORY:
        raise NativeOutOfMemory("out of memory", function, "use smaller circuits or fewer workers")
    raise NativeError(text, function)


def call(function: str, *arguments: Any) -> None:
    """Call ``czk_<function>``; a bad status raises ``NativeError``, ``NativeOutOfMemory`` or ``Cancelled``."""
    _check(_function(function)(*arguments), function)


@functools.cache
def _function(name: str) -> Any:
    return getattr(library(), f"czk_{name}")


def cancel_address(token: CancelToken | None) -> int | None:
    """What C polls."""
    return None if token is None else token.address


def input_buffer(name: str, buffer: BufferLike, size: int) -> tuple[int, int]:
    """Address and number of elements of ``size`` bytes.

    Raises:
        TypeError: if there is no buffer, or one of floats or objects.
        ValueError: if it is not contiguous, not whole elements, or a table of another element's width.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError(f"{name} is not contiguous")
    if view.format.strip("<=@") not in _INTEGER_FORMATS:
        raise TypeError(f"{name} holds items of format {view.format!r}, not integers")
    if view.nbytes % size:
        raise ValueError(f"{name} has {view.nbytes} bytes, not a multiple of {size}")
    shape = view.shape
    if shape is not None and len(shape) == 2 and shape[1] * view.itemsize != size:
        raise ValueError(f"{name} has rows of {shape[1] * view.itemsize} bytes, not {size}")
    return _address(buffer, view), view.nbytes // size


def exact_buffer(name: str, buffer: BufferLike, n: int, size: int) -> int:
    """Address of a buffer that must hold n elements of ``size`` bytes."""
    address, got = input_buffer(name, buffer, size)
    if got != n:
        raise ValueError(f"{name} has {got} elements, not {n}")
    return address


def output_buffer(name: str, buffer: BufferLike, n: int, size: int) -> int:
    """Address of a writable buffer that must hold n elements of ``size`` bytes."""
    if memoryview(buffer).readonly:
        raise ValueError(f"{name} is read-only")
    return exact_buffer(name, buffer, n, size)


def _address(buffer: BufferLike, view: memoryview) -> int:
    return buffers.address(buffer) if view.nbytes else 0
