"""NVRTC, NVIDIA's run-time compiler, through ctypes: a source string and options in, machine code and a log out.

It needs no GPU, no driver and no CuPy, so a machine without any compiles every kernel from the very strings and options
that the device uses. The library comes with the PyPI wheels ``nvidia-cuda-nvrtc`` (CUDA 13) and
``nvidia-cuda-nvrtc-cu12``, or with a CUDA toolkit. Calls leave the GIL.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prover.device.errors import KernelCompileError
from prover.errors import MachineLacks

MAJORS = (13, 12)
"""CUDA versions whose NVRTC we use, best first."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compilation delivered."""

    image: bytes
    """Machine code for one architecture (a cubin)."""
    log: str


class Nvrtc:
    """One loaded NVRTC library."""

    def __init__(self, path: str) -> None:
        """Load it.

        Raises:
            OSError: if it does not load.
        """
        self.path = path
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def compile(self, name: str, source: str, options: Sequence[str]) -> Compiled:
        """Compile one source for the real architecture (``sm_90``) that the options name.

        Raises:
            KernelCompileError: with the first error of the log.
        """
        program = ctypes.c_void_p()
        created = self._library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None
        )
        self._check(name, created, "")
        try:
            encoded = [option.encode() for option in options]
            array = (ctypes.c_char_p * len(encoded))(*encoded)
            status = self._library.nvrtcCompileProgram(program, len(encoded), array)
            log = self._text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
            self._check(name, status, log)
            return Compiled(self._bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"), log)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _check(self, name: str, status: int, log: str) -> None:
        if status:
            reason = self._library.nvrtcGetErrorString(status).decode(errors="replace")
            raise KernelCompileError(name, reason, log)

    def _bytes(self, program: ctypes.c_void_p, size_of: str, get: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(get, getattr(self._library, size_of)(program, ctypes.byref(size)), "")
        buffer = ctypes.create_string_buffer(size.value)
        self._check(get, getattr(self._library, get)(program, buffer), "")
        return buffer.raw

    def _text(self, program: ctypes.c_void_p, size_of: str, get: str) -> str:
        return self._bytes(program, size_of, get).rstrip(b"\0").decode(errors="replace")


def load(major: int | None = None) -> Nvrtc:
    """The best NVRTC of this machine; with ``major``, of that CUDA version only.

    Raises:
        MachineLacks: if there is none that loads.
    """
    for candidate in _candidates(MAJORS if major is None else (major,)):
        try:
            found = Nvrtc(candidate)
        except OSError:
            continue  # not here: the next place
        if major is None or found.version[0] == major:
            return found
    version = MAJORS[0] if major is None else major
    wheel = "nvidia-cuda-nvrtc-cu12" if version == 12 else "nvidia-cuda-nvrtc"
    raise MachineLacks(f"no NVRTC of CUDA {version}", "", f"pip install {wheel}")


def _candidates(majors: Sequence[int]) -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    toolkits = [os.environ.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME")] + ["/usr/local/cuda"]
    for major in majors:
        library = f"libnvrtc.so.{major}"
        yield library  # one that the process has loaded already (CuPy's), or the linker's
        for root in roots:
            yield from (str(root / folder / "lib" / library) for folder in (f"cu{major}", "cuda_nvrtc"))
        yield from (f"{toolkit}/lib64/{library}" for toolkit in toolkits if toolkit)


__all__ = ["MAJORS", "Compiled", "Nvrtc", "load"]
