"""Keys of built-in circuits, made on first use and kept in the user's cache.

Nothing in it is trusted as found. A key is used only if the digest noted beside it is that of its bytes, else it is
made again. A file is complete or absent: it is written under another name and renamed, and the digest comes after it.
One process makes a key at a time, behind a file lock that the system drops with the process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from prover.cancel import Cancelled, CancelToken
from prover.formats.atomic import write_files
from prover.formats.errors import FormatError, WriteError
from prover.formats.zkey import Zkey, read_zkey, write_zkey
from prover.groth16.checked_keys import CheckedKeys, cache_root, digest

Progress = Callable[[str, float | None], None]

KEY_FORMAT = 1
"""Part of a cached key's name: raise it when the setup changes what it makes."""
_POLL_S = 0.2


class KeyCache:
    """Keys of built-in circuits, by the circuit's digest."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = Path(root or cache_root())
        self.directory = self._root / "keys"

    def path(self, circuit_digest: str) -> Path:
        """Where the key of this circuit lies, if it was made."""
        return self.directory / f"{circuit_digest[:32]}-{KEY_FORMAT}.zkey"

    def find(self, circuit_digest: str) -> Zkey | None:
        """The cached key, or None if there is none or it is not what was written."""
        path = self.path(circuit_digest)
        try:
            noted = path.with_suffix(".digest").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        if not path.is_file():
            return None
        try:
            zkey = read_zkey(path)
        except FormatError:
            return None
        return zkey if digest(zkey.data) == noted else None

    def obtain(
        self,
        circuit_digest: str,
        make: Callable[[], Zkey],
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Zkey:
        """The cached key, or a new one of our own setup, written to the cache before it is returned. Where the cache
        cannot be written, the key is this process's alone.

        Args:
            circuit_digest: names the circuit.
            make: makes the key; called by one process at a time.
            progress: told when this process waits for another.
            cancel: asks to stop waiting.

        Raises:
            WriteError: if there is no room for the key anywhere.
            Cancelled: if asked.
        """
        found = self.find(circuit_digest)
        if found is not None:
            return found
        path = self.path(circuit_digest)
        made: list[Zkey] = []
        try:
            with self._lock(path.with_suffix(".lock"), progress, cancel):
                found = self.find(circuit_digest)  # another process may have made it meanwhile
                if found is not None:
                    return found
                made.append(make())
                return self._keep(path, made[0])
        except WriteError:
            return _for_this_process(made[0] if made else make())

    def _keep(self, path: Path, zkey: Zkey) -> Zkey:
        noted = path.with_suffix(".digest")
        try:
            with contextlib.suppress(FileNotFoundError):
                noted.unlink()
        except OSError as error:
            raise WriteError(noted, error) from error
        write_zkey(path, zkey)
        written = read_zkey(path)
        identity = digest(written.data)
        write_files({noted: identity.encode() + b"\n"})
        CheckedKeys(self._root).add(identity)  # its points are multiples of the generators
        return written

    @contextlib.contextmanager
    def _lock(self, path: Path, progress: Progress | None, cancel: CancelToken | None) -> Iterator[None]:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise WriteError(path, error) from error
        try:
            waiting = cancel or CancelToken()
            while not _try_lock(descriptor):
                if progress is not None:
                    progress("waiting for another process to make the proving key", None)
                if waiting.wait(_POLL_S):
                    raise Cancelled("waiting for the proving key")
            yield
        finally:
            os.close(descriptor)  # and with it the lock; the file stays, or two processes could lock two files


def _for_this_process(zkey: Zkey) -> Zkey:
    """The key as read from a file that is gone at once."""
    import tempfile  # rarely needed, and slow to load

    try:
        with tempfile.TemporaryDirectory(prefix="cuzk-top-") as folder:
            path = Path(folder) / "key.zkey"
            write_zkey(path, zkey)
            return read_zkey(path)
    except OSError as error:
        raise WriteError(tempfile.gettempdir(), error) from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        if error.errno in (errno.ENOLCK, errno.ENOTSUP):
            return True  # a file system without locks: keys may be made twice, each is whole
        raise
    return True


__all__ = ["KeyCache"]
