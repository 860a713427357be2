"""The container of iden3's binary files (zkey, wtns, r1cs): a magic, a version and numbered sections, little-endian.

Layout: 4-byte magic, u32 version, u32 number of sections, then for each section u32 id, u64 size, data. The file is
mapped, never read whole; sections are views of the map. Nothing is allocated by a count that the file only claims.
"""

from __future__ import annotations

import mmap
import os
import stat

from prover import buffers
from prover.buffers import BufferLike
from prover.curves import CURVES, Curve
from prover.formats.errors import FormatError, StrPath
from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEADER = 12
_SECTION_HEADER = 12
MAX_SECTIONS = 64
MAX_ELEMENT_BYTES = 128


@dataclass(frozen=True, slots=True)
class Section:
    """One section: where it lies in the mapped file, and typed reads that stay inside it."""

    path: str
    name: str
    """For messages: ``section 4 (coefficients)``."""
    offset: int
    """Of the section's data in the file, in bytes."""
    data: memoryview

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    def error(self, what: str, at: int = 0, **kwargs: Any) -> FormatError:
        """An error at byte ``at`` of the section."""
        return FormatError(self.path, what, section=self.name, offset=self.offset + at, **kwargs)

    def rows(self, count: int, words: int, what: str) -> memoryview:
        """The whole section as ``count`` rows of 64-bit words, a read-only view of the map.

        It may be unaligned; the native library and numpy take it as it is.

        Raises:
            FormatError: if the section has another size; ``what`` says of what it should be full.
        """
        self.expect_size(count * words * buffers.WORD, f"{count} {what} of {words * buffers.WORD} bytes")
        return buffers.as_rows(self.data, words)

    def expect_size(self, size: int, why: str) -> None:
        """Refuse the section unless it has exactly this size."""
        if self.size != size:
            raise self.error(f"{self.size} bytes where {why} makes {size}")

    def bound(self, at: int, size: int) -> None:
        """Refuse a read of ``size`` bytes at ``at`` that goes beyond the section."""
        if at + size > self.size:
            raise self.error(f"section too short: {size} bytes wanted at {at}, it has {self.size}", min(at, self.size))


@dataclass(slots=True)
class Cursor:
    """Reads a header field by field."""

    section: Section
    at: int = 0

    def take(self, size: int) -> memoryview:
        """The next ``size`` bytes."""
        self.section.bound(self.at, size)
        self.at += size
        return self.section.data[self.at - size : self.at]

    def integer(self, size: int) -> int:
        """The next unsigned little-endian integer of ``size`` bytes."""
        return int.from_bytes(self.take(size), "little")

    def u32(self) -> int:
        """The next u32."""
        return self.integer(4)

    def u64(self) -> int:
        """The next u64."""
        return self.integer(8)

    def end(self) -> None:
        """Refuse bytes that no field accounts for."""
        if self.at != self.section.size:
            raise self.section.error(f"{self.section.size - self.at} bytes too many", self.at)


@dataclass(frozen=True, slots=True)
class Container:
    """A mapped file and its section table."""

    path: str
    version: int
    sections: dict[int, Section]
    data: memoryview
    """The whole file."""

    def section(self, number: int) -> Section:
        """The section with this number.

        Raises:
            FormatError: if the file has none.
        """
        try:
            return self.sections[number]
        except KeyError:
            raise FormatError(self.path, f"section {number} is missing") from None


def open_container(
    path: StrPath, magic: bytes, version: int, names: dict[int, str], *, mapped: bool = True
) -> Container:
    """Map ``path``, or copy it, and check its section table: every section inside the file, none twice, no bytes left
    over.

    ``names`` are the sections' names for messages. The map lives as long as views of it do. Its pages are those of the
    file: replace such a file by renaming, never by writing into it, or let it be copied (``mapped=False``).

    Raises:
        FormatError: unreadable file, wrong magic or version, a table that does not fit the file.
    """
    name = os.fspath(path)
    data = map_file(name, copied=not mapped)
    kind = magic.decode()
    if bytes(data[:4]) != magic:
        found = "empty file" if not data else f"magic {bytes(data[:4])!r}"
        raise FormatError(name, f"not a {kind} file ({found})", offset=0, fix=f"give a {kind} file")
    if len(data) < _HEADER:
        raise FormatError(name, "file truncated in its header", offset=len(data))
    found_version = int.from_bytes(data[4:8], "little")
    if found_version != version:
        raise FormatError(name, f"{kind} version {found_version}, not {version}", offset=4, fix="convert the file")
    count = int.from_bytes(data[8:12], "little")
    if count > MAX_SECTIONS:
        raise FormatError(name, f"{count} sections, at most {MAX_SECTIONS} are plausible", offset=8)
    return Container(name, version, _section_table(name, data, count, names), data)


def scalar_field_curve(section: Section, n8: int, prime: int, at: int) -> Curve:
    """The curve whose Fr a header names by element size and prime.

    Raises:
        FormatError: if it is neither curve's, or the size is not that of its elements.
    """
    for candidate in CURVES:
        if candidate.fr.modulus == prime:
            if n8 != candidate.fr.bytes:
                raise section.error(f"scalars of {n8} bytes, {candidate.spelling} has {candidate.fr.bytes}", at)
            return candidate
    known = " and ".join(c.spelling for c in CURVES)
    raise section.error("unknown scalar field", at, fix=f"compile the circuit for one of the curves {known}")


def read_prime(cursor: Cursor) -> tuple[int, int]:
    """An element size and a prime of that size.

    Raises:
        FormatError: if the size is not a plausible multiple of 8.
    """
    at = cursor.at
    n8 = cursor.u32()
    if n8 % 8 or not 8 <= n8 <= MAX_ELEMENT_BYTES:
        raise cursor.section.error(f"field elements of {n8} bytes are not plausible", at)
    return n8, cursor.integer(n8)


def map_file(path: str, *, copied: bool = False) -> memoryview:
    """The bytes of a regular file, mapped read-only, or copied.

    Raises:
        FormatError: if it cannot be opened or is not a regular file.
    """
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FormatError(path, "not a regular file", fix="give the path of a file")
            if status.st_size == 0:
                return memoryview(b"")
            if copied:
                with os.fdopen(os.dup(descriptor), "rb") as stream:
                    return memoryview(stream.read())
            mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, or a file that shrank meanwhile
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(path, f"cannot read: {reason}", fix="check the path") from error
    mapped.madvise(mmap.MADV_WILLNEED)
    return memoryview(mapped)


def _section_table(path: str, data: memoryview, count: int, names: dict[int, str]) -> dict[int, Section]:
    sections: dict[int, Section] = {}
    position = _HEADER
    for index in range(count):
        if position + _SECTION_HEADER > len(data):
            raise FormatError(path, f"file truncated: {count} sections promised, {index} found", offset=len(data))
        number = int.from_bytes(data[position : position + 4], "little")
        size = int.from_bytes(data[position + 4 : position + 12], "little")
        start = position + _SECTION_HEADER
        label = f"section {number} ({names[number]})" if number in names else f"section {number}"
        if start + size > len(data):
            what = f"file truncated: section of {size} bytes, {len(data) - start} left"
            raise FormatError(path, what, section=label, offset=position + 4)
        if number in sections:
            raise FormatError(path, "section occurs twice", section=label, offset=position)
        sections[number] = Section(path, label, start, data[start : start + size])
        position = start + size
    if position != len(data):
        raise FormatError(path, f"{len(data) - position} bytes after the last section", offset=position)
    return sections


class ContainerWriter:
    """Writes the container to a stream, section by section."""

    def __init__(self, stream: Any, magic: bytes, version: int, count: int) -> None:
        self._stream = stream
        stream.write(magic + version.to_bytes(4, "little") + count.to_bytes(4, "little"))

    def section(self, number: int, *parts: BufferLike) -> None:
        """Write one section from its parts, contiguous buffers written as they lie in memory."""
        views = [memoryview(part) for part in parts]
        size = sum(view.nbytes for view in views)
        self._stream.write(number.to_bytes(4, "little") + size.to_bytes(8, "little"))
        for view in views:
            self._stream.write(view)
