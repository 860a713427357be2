"""Which key files had the subgroup of their points checked, remembered in the user's cache by the file's digest."""

from __future__ import annotations

import contextlib
import os
import threading
from _blake2 import blake2b  # not by way of hashlib, which loads OpenSSL first

from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.formats.atomic import write_files
from prover.formats.errors import WriteError
from prover.groth16.keys import ProvingKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_DIGEST_BYTES = 32
_CHECKED = b"cuzk-top: every point was found on its curve and in its subgroup (1)\n"


def cache_root() -> str:
    """``$XDG_CACHE_HOME/cuzk-top``, or ``~/.cache/cuzk-top``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = base if base.startswith("/") else os.path.expanduser("~/.cache")
    return os.path.join(root, "cuzk-top")


def digest(data: BufferLike) -> str:
    """BLAKE2b-256 in hexadecimal: a key file's identity."""
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


class DigestWriter:
    """A stream that learns the digest of what is written through it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = blake2b(digest_size=_DIGEST_BYTES)

    def write(self, data: BufferLike, /) -> int:
        """Write bytes."""
        self._hash.update(data)
        return self._stream.write(data)

    def hexdigest(self) -> str:
        """The digest so far, as :func:`digest` would give it."""
        return self._hash.hexdigest()


class CheckedKeys:
    """The digests of the files that passed."""

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        """``root``: the cache's directory; the user's by default."""
        self._directory = os.path.join(root or cache_root(), "keys", "checked")

    def __contains__(self, key_digest: str) -> bool:
        try:
            with open(os.path.join(self._directory, key_digest), "rb") as note:
                return note.read() == _CHECKED
        except OSError:
            return False

    def add(self, key_digest: str) -> None:
        """Remember a file. Where the cache cannot be written, the next run checks again."""
        with contextlib.suppress(OSError, WriteError):
            os.makedirs(self._directory, exist_ok=True)
            write_files({os.path.join(self._directory, key_digest): _CHECKED})


def check_key(
    key: ProvingKey,
    *,
    each: bool = False,
    threads: int = 1,
    cancel: CancelToken | None = None,
    checked: CheckedKeys | None = None,
) -> None:
    """The points of a key that came from a file: on the curve always, in the subgroup once a file.

    Args:
        key: the key, read from a file.
        each: check every point's subgroup by itself, whatever is remembered.
        threads: processor threads.
        cancel: asks to stop.
        checked: what is remembered; the user's cache by default.

    Raises:
        InputError: naming the first point, or the query, that is refused.
        Cancelled: if asked.
    """
    remembered = checked or CheckedKeys()
    identity: list[str] = []
    hashing = threading.Thread(target=lambda: identity.append(digest(key.source.data)), name="digest")
    hashing.start()
    try:
        if each:
            key.check_each(threads, cancel)
        else:
            key.check_curve(threads, cancel)
    finally:
        hashing.join()
    if identity[0] in remembered:
        return
    if not each:
        key.check_combined(threads, cancel)
    remembered.add(identity[0])


__all__ = ["CheckedKeys", "DigestWriter", "cache_root", "check_key", "digest"]
