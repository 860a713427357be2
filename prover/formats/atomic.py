"""Files that appear whole or not at all, alone or several together.

Content goes to a hidden temporary file beside the target and is renamed over it once it is on disk. A temporary file is
locked (``flock``) by its writer for as long as that lives, so what a killed process left behind is recognised by its
name and by the free lock, whatever process numbers have been reused, and removed by the next writer in that directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterator, Mapping

from prover.errors import InputError
from prover.formats.errors import StrPath, WriteError, printable
from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, BinaryIO

TEMPORARY_PREFIX = ".cuzk-top-"
TEMPORARY_SUFFIX = ".tmp"

_swept: set[tuple[int, int]] = set()


@dataclass(frozen=True, slots=True)
class _Pending:
    """A file under way: its name as given, where the rename will put it, and where its content is until then."""

    path: str
    target: str
    temporary: str | None
    """``None`` for a device or a pipe: the content waits in memory and is copied."""
    stream: BinaryIO
    descriptor: int | None = None
    """What to copy to where the name stands for a descriptor of this process."""


class _TargetFile(io.FileIO):
    """A temporary file whose writes fail in the name of its target, whenever the buffer is flushed."""

    def __init__(self, descriptor: int, target: str) -> None:
        super().__init__(descriptor, "wb")
        self._target = target

    def write(self, data: Any, /) -> int:
        """Write bytes.

        Raises:
            WriteError: for any operating system error.
        """
        with _reporting(self._target):
            return super().write(data)


class AtomicFiles:
    """Context manager: the files opened through it appear together on a clean exit, and none of them otherwise.

    Every file is complete on disk before the first rename. Should a later rename fail, the files that did not exist
    before are removed again; a file that was already replaced stays new. A device, a pipe or an open descriptor
    (``/dev/stdout``, ``/dev/fd/3``, whatever they are directed to) is written to, never replaced; a symbolic link is
    followed and stays.

    Raises:
        WriteError: from ``open``, from the streams or on exit, for any operating system error.
    """

    def __init__(self, *, new: bool = False) -> None:
        """With ``new``, a file that is there already is not replaced, even if it came meanwhile."""
        self._new = new
        self._pending: list[_Pending] = []

    def __enter__(self) -> AtomicFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._discard()

    def open(self, path: StrPath) -> BinaryIO:
        """A binary stream for the new content of ``path``."""
        name = os.fspath(path)
        try:
            pending = _open_pending(name)
        except OSError as error:
            raise WriteError(name, error) from error
        self._pending.append(pending)
        return pending.stream

    def _commit(self) -> None:
        for pending in self._pending:
            with _reporting(pending.path):
                pending.stream.flush()
                if pending.temporary is not None:
                    os.fsync(pending.stream.fileno())
        created: list[str] = []
        directories: set[str] = set()
        try:
            for pending in self._pending:
                with _reporting(pending.path):
                    if pending.temporary is None:
                        _copy_to_device(pending)
                        continue
                    existed = os.path.exists(pending.target)
                    self._put(pending.temporary, pending)
                    directories.add(os.path.dirname(pending.target))
                    if not existed:
                        created.append(pending.target)
        except BaseException:
            for target in created:
                with contextlib.suppress(OSError):
                    os.unlink(target)
            raise
        for directory in directories:
            _sync_directory(directory)

    def _put(self, temporary: str, pending: _Pending) -> None:
        """Give the file its name."""
        if not self._new:
            os.replace(temporary, pending.target)
            return
        there = False
        try:
            os.link(temporary, pending.target)  # fails where the name is taken, which a rename does not
        except FileExistsError:
            there = True
        except OSError:  # a file system without links
            there = os.path.exists(pending.target)
            if not there:
                os.replace(temporary, pending.target)
        if there:
            raise InputError("exists already", printable(pending.path), "give another name; nothing was replaced")

    def _discard(self) -> None:
        """Close everything; remove what was not renamed."""
        while self._pending:
            pending = self._pending.pop()
            if pending.temporary is not None:
                with contextlib.suppress(OSError):  # gone after the rename; else the next writer sweeps it
                    os.unlink(pending.temporary)
            with contextlib.suppress(OSError, WriteError):  # a flush that failed was reported already
                pending.stream.close()


@contextlib.contextmanager
def atomic_file(path: StrPath) -> Iterator[BinaryIO]:
    """One file through :class:`AtomicFiles`."""
    with AtomicFiles() as files:
        yield files.open(path)


def write_files(contents: Mapping[StrPath, bytes]) -> None:
    """Write several small files, all or none.

    Raises:
        WriteError: for any operating system error.
    """
    with AtomicFiles() as files:
        for path, content in contents.items():
            files.open(path).write(content)


def remove_stale(directory: StrPath) -> int:
    """Remove the temporary files in ``directory`` whose writers are dead; returns how many."""
    removed = 0
    try:
        candidates = [entry.path for entry in os.scandir(directory) if is_temporary(entry.name)]
    except OSError:
        return 0  # not listable: nothing to clean
    for candidate in candidates:
        with contextlib.suppress(OSError):
            removed += _remove_if_unlocked(candidate)
    return removed


def is_temporary(name: str) -> bool:
    """Whether a file name is one of our temporary files'."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


@contextlib.contextmanager
def _reporting(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(path, error) from error


def _open_pending(name: str) -> _Pending:
    mode = None
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(name).st_mode
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if mode is not None and (descriptor := _descriptor_of(name)) is not None:
        return _Pending(name, name, None, io.BytesIO(), descriptor)
    if mode is not None and not stat.S_ISREG(mode):
        return _Pending(name, name, None, io.BytesIO())
    if not name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if name.endswith("/"):  # a directory is meant, and realpath would drop the slash
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    target = os.path.realpath(name)
    folder = os.path.dirname(target)
    _sweep_once(folder)
    descriptor, temporary = _create_locked(folder)
    pending = _Pending(name, target, temporary, io.BufferedWriter(_TargetFile(descriptor, name)))
    if mode is not None:
        with contextlib.suppress(OSError):  # a file system without modes
            os.fchmod(descriptor, stat.S_IMODE(mode))
    return pending


def _descriptor_of(name: str) -> int | None:
    """The descriptor that ``/dev/stdout``, ``/dev/stderr`` or ``/dev/fd/3`` stands for. Opened anew, the file it is
    directed to would be written from its beginning, and a file renamed over that would not be the one that is open."""
    standard = {"/dev/stdout": 1, "/dev/stderr": 2}.get(name)
    if standard is not None:
        return standard
    folder, number = os.path.split(name)
    if number.isascii() and number.isdigit() and os.path.realpath(folder) == os.path.realpath("/proc/self/fd"):
        return int(number)
    return None


def _create_locked(directory: str) -> tuple[int, str]:
    while True:
        path = os.path.join(directory, f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                return descriptor, path  # a file system without locks: nothing is swept there either
        else:
            # A sweeper may have seen the file before it was locked; then the name is gone.
            if _names(path, descriptor):
                return descriptor, path
        os.close(descriptor)


def _remove_if_unlocked(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return 0
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _names(path, descriptor):
            return 0
        os.unlink(path)
        return 1
    finally:
        os.close(descriptor)


def _names(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sweep_once(directory: str) -> None:
    """Sweep each directory once a process: a spool may hold very many files."""
    status = os.stat(directory)
    key = (status.st_dev, status.st_ino)
    if key not in _swept:
        _swept.add(key)
        remove_stale(directory)


def _copy_to_device(pending: _Pending) -> None:
    assert isinstance(pending.stream, io.BytesIO)
    target = pending.target if pending.descriptor is None else os.dup(pending.descriptor)
    with open(target, "wb") as device:
        device.write(pending.stream.getbuffer())


def _sync_directory(directory: str) -> None:
    """Make renames durable where the file system can; the files are complete either way."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
