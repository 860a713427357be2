"""Compiled kernels on disk: compiled once for a source, its options, an architecture and a compiler.

An entry is a file of a header line (schema, digest of the content) and the machine code. What does not read back whole
is compiled again; a folder that cannot be written costs the time of compiling, never the proof.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prover.device.nvrtc import Compiled
from prover.formats.atomic import write_files
from prover.formats.errors import WriteError

SCHEMA = 1
_MAGIC = f"cuzk-top kernel {SCHEMA} ".encode()


class Compiler(Protocol):
    """Turns a source into machine code; see ``prover.device.nvrtc.Nvrtc``."""

    version: tuple[int, int]

    def compile(self, name: str, source: str, options: Sequence[str]) -> Compiled: ...


@dataclass(frozen=True, slots=True)
class CacheRecord:
    """How one module was obtained."""

    name: str
    key: str
    seconds: float
    image_bytes: int
    cached: bool
    """Read from disk, not compiled."""
    stored: bool
    """On disk now."""
    log: str = ""
    """The compiler's remarks."""


class KernelCache:
    """A folder of compiled modules. Safe for threads and processes: files appear whole or not at all."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: the user's cache by default."""
        self.folder = folder or default_folder()

    def obtain(self, name: str, source: str, options: Sequence[str], compiler: Compiler) -> tuple[bytes, CacheRecord]:
        """Machine code for a source, from disk or compiled now.

        Args:
            name: of the module, for messages and the file's name.
            source: all of it (no includes).
            options: the compiler's, the architecture among them.
            compiler: called where the disk has nothing.

        Raises:
            KernelCompileError: if the source does not compile.
        """
        began = time.monotonic()
        key = cache_key(source, options, compiler.version)
        path = self.folder / f"{name}-{key[:24]}.cubin"
        image = _read(path)
        if image is not None:
            return image, CacheRecord(name, key, time.monotonic() - began, len(image), cached=True, stored=True)
        compiled = compiler.compile(name, source, options)
        stored = _write(path, compiled.image)
        seconds = time.monotonic() - began
        record = CacheRecord(name, key, seconds, len(compiled.image), cached=False, stored=stored, log=compiled.log)
        return compiled.image, record


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/cuzk-top/kernels``."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - "~" may not resolve
    return Path(base) / "cuzk-top" / "kernels"


def cache_key(source: str, options: Sequence[str], version: tuple[int, int]) -> str:
    """SHA-256 over everything that decides the machine code."""
    parts = [str(SCHEMA), f"{version[0]}.{version[1]}", *sorted(options), source]
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()


def _read(path: Path) -> bytes | None:
    """The entry's machine code, or None if there is none or it is not whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    header, found, image = data.partition(b"\n")
    if not found or header != _MAGIC + hashlib.sha256(image).hexdigest().encode():
        return None
    return image


def _write(path: Path, image: bytes) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: _MAGIC + hashlib.sha256(image).hexdigest().encode() + b"\n" + image})
    except (OSError, WriteError):
        return False  # a full or read-only disk: the kernel runs all the same
    return True


__all__ = ["SCHEMA", "CacheRecord", "Compiler", "KernelCache", "cache_key", "default_folder"]
