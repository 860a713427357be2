"""What the journal keeps, and what is written into it: frozen values. Times are Unix seconds, sizes bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from prover.errors import InputError
from prover.model import KnobValue


class Stage(StrEnum):
    """Where a journalled job stands. What is open is resumed after a restart."""

    ACCEPTED = "accepted"
    PROVED = "proved"
    """All its proofs are in the journal; nobody has them yet."""
    DELIVERING = "delivering"
    """Its files are staged and named in the journal; each is one rename from its reader."""
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (Stage.ACCEPTED, Stage.PROVED, Stage.DELIVERING)
ENDED = (Stage.DELIVERED, Stage.FAILED, Stage.CANCELLED)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file, with which content."""

    path: str
    size: int
    mtime_ns: int
    sha256: str

    def changed(self) -> str | None:
        """Why the file is not the same any more, in one line; None if it is. Reads the content only if the time of its
        change differs.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116 - the path is kept as text
            if status.st_size != self.size:
                return f"file changed: {self.path}: {status.st_size} bytes, was {self.size}"
            if status.st_mtime_ns != self.mtime_ns and _sha256(Path(self.path)) != self.sha256:
                return f"file changed: {self.path}: another content of the same size"
        except OSError as error:
            return f"file cannot be read: {self.path}: {error.strerror}"
        return None


KnownDigest = Callable[[str, int, int], str | None]
"""(path, size, mtime_ns) -> SHA-256 if it is known: a key of many GiB is not read again at every start."""


def identify(path: str | os.PathLike[str], known: KnownDigest | None = None) -> FileIdentity:
    """A file's identity; reads all of it unless its digest is known.

    Raises:
        InputError: if it cannot be read, or changes meanwhile.
    """
    file = Path(path).absolute()
    try:
        before = file.stat()
        digest = known(str(file), before.st_size, before.st_mtime_ns) if known is not None else None
        if digest is None:
            digest = _sha256(file)
            after = file.stat()
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise InputError("file changes while it is read", str(file), "wait until it is complete")
    except OSError as error:
        raise InputError("file cannot be read", str(file), error.strerror or "") from error
    return FileIdentity(str(file), before.st_size, before.st_mtime_ns, digest)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a job was submitted with."""

    role: str
    """``key``, ``witness``, ``input``."""
    position: int
    """The partition that it belongs to; 0 for a key."""
    identity: FileIdentity


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job as it was submitted."""

    id: str
    circuit: str
    partitions: int
    submitted: float
    priority: int = 2
    deadline: float | None = None
    request: Mapping[str, object] = field(default_factory=dict)
    """What the submitter needs to make the inputs again (JSON)."""
    files: tuple[InputFile, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file under way to its reader: complete under one name, then renamed to the other."""

    staged: str
    target: str
    sha256: str


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that has not ended: what was submitted and what is there of it."""

    entry: JobEntry
    stage: Stage
    proofs: Mapping[int, bytes]
    """By partition. Each was verified unless ``self_check`` was off."""
    verified: bool
    staged: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class KnobEntry:
    """A change of a knob that was accepted, or refused with a reason."""

    at: float
    name: str
    old: KnobValue | None
    new: KnobValue
    who: str
    why: str
    generation: int
    undo: bool = False
    reason: str | None = None
    """Why it was refused; None if it was accepted."""


@dataclass(frozen=True, slots=True)
class TimingEntry:
    """One phase of a slot."""

    job: str
    partitions: tuple[int, ...]
    phase: str
    began: float
    seconds: float
    device: str | None = None
    worker: str | None = None
    attempt: int = 0
    ok: bool = True


@dataclass(frozen=True, slots=True)
class DeviceTally:
    """How a device's proofs verified."""

    device: str
    """A GPU's UUID, or the name of another device."""
    good: int
    bad: int
    last_bad: float | None


@dataclass(frozen=True, slots=True)
class Durability:
    """The journal's answer to a write that was to be durable."""

    durable: bool
    reason: str | None = None
    """One line, if it is not."""
    refused: bool = False
    """The entry does not fit what the journal holds (a second hand-over): it will never be written."""


# What is written. One writer applies them in order, each whole or not at all.


@dataclass(frozen=True, slots=True)
class Submit:
    """A job was submitted."""

    entry: JobEntry
    acknowledged: bool = False
    """Its submitter goes on without waiting for the disk."""


@dataclass(frozen=True, slots=True)
class Proved:
    """A partition's proof."""

    job: str
    partition: int
    proof: bytes
    verified: bool
    device: str
    at: float


@dataclass(frozen=True, slots=True)
class Prioritised:
    """An open job has another priority."""

    job: str
    priority: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Proofs that were kept are no good after all: they are made again."""

    job: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A proof of this device did not verify."""

    device: str
    at: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A job's proofs are handed over from here on, by this way and no other."""

    job: str
    staged: tuple[StagedFile, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A job ended."""

    job: str
    stage: Stage
    error: str | None
    at: float


Write = Submit | Prioritised | Proved | Withdrawn | Rejected | Claim | Ended | KnobEntry | TimingEntry
