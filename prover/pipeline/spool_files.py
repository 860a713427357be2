"""The files of a spool folder: which are jobs, whether one is whole, what becomes of it. No state, no threads.

Names are what the system gives, undecodable bytes as surrogates (``os.fsdecode``); messages go through ``printable``.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from prover.formats.atomic import is_temporary, write_files
from prover.formats.errors import FormatError, WriteError, printable
from prover.formats.small_file import read_small_file

PROOF = ".proof.json"
PUBLIC = ".public.json"
REASON = ".reason.txt"
REJECTED = "rejected"
_MAX_NAME = 255
_MAX_JSON = 1 << 28
_WTNS_MAGIC = b"wtns"
_MAX_SECTIONS = 64


@dataclass(frozen=True, slots=True)
class Identity:
    """Which content a name stands for, as far as that can be told without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Kind:
    """What is a job in this folder."""

    suffix: str
    """``.wtns`` or ``.json``."""

    def stem(self, name: str) -> str | None:
        """``NAME`` of a job's file; None for all other files."""
        if not name.endswith(self.suffix) or name.startswith(".") or is_temporary(name):
            return None
        if name.endswith((PROOF, PUBLIC)):
            return None
        return name.removesuffix(self.suffix) or None

    def plausible(self, path: Path) -> bool:
        """Whether a file looks complete at a glance. What cannot be read does not."""
        try:
            return _whole_wtns(path) if self.suffix == WTNS.suffix else _ends_as_json(path)
        except OSError:
            return False

    def whole(self, path: Path) -> bool:
        """Whether a file that turned out bad is at least complete: one that is cut short may still be written."""
        try:
            return _whole_wtns(path) if self.suffix == WTNS.suffix else _whole_json(path)
        except OSError:
            return False


WTNS = Kind(".wtns")
JSON = Kind(".json")


def identity_of(path: Path) -> Identity | None:
    """The identity of a regular file (or of the one a link leads to); None if there is none.

    Raises:
        OSError: if that cannot be told.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def job_id(path: Path, stem: str, identity: Identity) -> str:
    """A job's printable id: the same for the same content of the same file, which is so proved once across restarts."""
    text = f"{path}\0{identity.size}\0{identity.mtime_ns}".encode("utf-8", "surrogateescape")
    return f"{printable(stem, 40)}-{hashlib.sha256(text).hexdigest()[:10]}"


def outputs(folder: Path, stem: str) -> tuple[Path, Path]:
    """Where a job's proof and public inputs go."""
    return folder / f"{stem}{PROOF}", folder / f"{stem}{PUBLIC}"


def outputs_fit(stem: str) -> bool:
    """Whether the outputs' names are not too long for a file system."""
    return len(os.fsencode(stem + PUBLIC)) <= _MAX_NAME


def answered(folder: Path, stem: str, identity: Identity) -> bool:
    """Whether both outputs are there and not older than the input."""
    for path in outputs(folder, stem):
        try:
            if path.stat().st_mtime_ns < identity.mtime_ns:
                return False
        except OSError:
            return False
    return True


def reject(path: Path, stem: str, reason: str) -> str:
    """Move a bad input to ``rejected/``, beside its reason. What was rejected under its name before is replaced.

    Returns the reason, which names the file where it lies now.

    Raises:
        WriteError: if that cannot be done; the input then lies where it was.
    """
    folder = path.parent / REJECTED
    reason = reason.replace(printable(str(path)), printable(str(folder / path.name)))
    try:
        folder.mkdir(exist_ok=True)
        write_files({folder / f"{_shortened(stem, REASON)}{REASON}": f"{reason}\n".encode("utf-8", "backslashreplace")})
        path.replace(folder / path.name)
    except OSError as error:
        raise WriteError(folder, error) from error
    return reason


def _shortened(stem: str, suffix: str) -> str:
    """A stem to which the suffix can be added."""
    data = os.fsencode(stem)
    return os.fsdecode(data[: _MAX_NAME - len(suffix)])


def _whole_wtns(path: Path) -> bool:
    """Its section table ends within the file. Another magic is no reason to wait, unless nothing is written yet."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(12)
        if len(head) < 12 or not head.strip(b"\0"):
            return False
        if head[:4] != _WTNS_MAGIC:
            return True
        at = 12
        for _ in range(min(int.from_bytes(head[8:12], "little"), _MAX_SECTIONS)):
            stream.seek(at)
            section = stream.read(12)
            if len(section) < 12:
                return False
            at += 12 + int.from_bytes(section[4:12], "little")
            if at > size:
                return False
    return True


def _ends_as_json(path: Path) -> bool:
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 64))
        return stream.read(64).rstrip().endswith(b"}")


def _whole_json(path: Path) -> bool:
    """It is JSON: what is cut short is not."""
    try:
        json.loads(read_small_file(path, _MAX_JSON))
    except FormatError:
        return False
    except (ValueError, RecursionError) as error:
        return isinstance(error, RecursionError)
    return True
