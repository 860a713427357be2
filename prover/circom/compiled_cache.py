"""Compiled generators, kept in the user's cache: a large circuit's takes minutes to compile.

A file is the digest of its content and the content, wasmtime's own format. A content that is not what was written is
not used: loading it is as good as running it. The name tells the module and the version of wasmtime; what was made for
another processor wasmtime refuses, and it is made again.
"""

from __future__ import annotations

import contextlib
import os
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

from prover.formats.atomic import write_files
from prover.formats.errors import WriteError
from prover.groth16.checked_keys import cache_root

MOST_KEPT = 16
"""Files; those that were used least recently go."""
_DIGEST_BYTES = 32


class CompiledCache:
    """Compiled modules by their WebAssembly code."""

    def __init__(self, root: Path | None = None) -> None:
        self.directory = Path(root or cache_root()) / "generators"

    def path(self, code: bytes) -> Path:
        """Where the compiled form of ``code`` lies, if it was kept."""
        name = blake2b(metadata.version("wasmtime").encode() + b"\0" + code, digest_size=16).hexdigest()
        return self.directory / f"{name}.cwasm"

    def find(self, code: bytes) -> bytes | None:
        """The compiled form, or None if there is none or it is not what was written."""
        path = self.path(code)
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        noted, compiled = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return compiled if _digest(compiled) == noted else None

    def keep(self, code: bytes, compiled: bytes) -> None:
        """Keep a compiled form; where the cache cannot be written, it is made again next time."""
        with contextlib.suppress(OSError, WriteError):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_files({self.path(code): _digest(compiled) + compiled})
            files = sorted(self.directory.glob("*.cwasm"), key=lambda path: path.stat().st_mtime_ns)
            for path in files[:-MOST_KEPT]:
                path.unlink()


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


__all__ = ["CompiledCache"]
