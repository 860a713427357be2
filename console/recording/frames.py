"""The file of a recording: frames one after the other, each whole or not there. ``docs/recording.md`` has the layout.

A key frame needs nothing before it; the frames that follow continue its compressed stream and its tables. What a killed
process or a full disk cut off fails its checksum, and ends the file there.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO

from prover.errors import InputError

MAGIC = b"cuzk-top recording 1\n"
HEADER, KEY, MORE = b"H", b"K", b"M"
_HEAD = struct.Struct("<IIcd")
"""Length of the payload, CRC-32 of all that follows this number, kind, the instant after which its records came."""
_MOST = 1 << 28
LEVEL = 3


class Record(IntEnum):
    """What a record in a frame is."""

    EVENT = 1
    PICTURE = 2
    SAMPLE = 3
    CARDS = 4
    CENSUS = 5
    MOMENT = 6
    """When what follows was known: the driver tells of its samples later than it takes them."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame lies in its file."""

    kind: bytes
    at: float
    begin: int
    """Of its payload."""
    length: int
    crc: int


def pack(kind: bytes, at: float, payload: bytes) -> bytes:
    """A frame."""
    rest = _HEAD.pack(0, 0, kind, at)[8:]
    return struct.pack("<II", len(payload), zlib.crc32(payload, zlib.crc32(rest))) + rest + payload


def header(document: Mapping[str, Any]) -> bytes:
    """How a file begins."""
    return MAGIC + pack(HEADER, 0.0, json.dumps(document, separators=(",", ":")).encode())


def read_header(file: BinaryIO, path: Path) -> dict[str, Any]:
    """The header of an open file. Raises ``InputError``."""
    start = file.read(len(MAGIC))
    if start != MAGIC:
        what = "is of a later version" if start.startswith(MAGIC[:-2]) else "is no recording"
        raise InputError(f"file {what}", str(path), "give a file that --record wrote")
    found = next(scan(file), None)
    if found is None or found.kind != HEADER:
        raise InputError("recording is cut off", str(path), "its first block is missing")
    try:
        document = json.loads(load(file, found))
    except (ValueError, EOFError) as error:
        raise InputError("recording is damaged", str(path), "its first block cannot be read") from error
    if not isinstance(document, dict):
        raise InputError("recording is damaged", str(path), "its first block is no object")
    return document


def scan(file: BinaryIO) -> Iterator[Frame]:
    """The frames from here to the end, or to where the file is torn. Payloads are skipped, not read."""
    size = os.fstat(file.fileno()).st_size
    at = file.tell()
    while at + _HEAD.size <= size:
        file.seek(at)
        length, crc, kind, since = _HEAD.unpack(file.read(_HEAD.size))
        begin = at + _HEAD.size
        if kind not in (HEADER, KEY, MORE) or length > _MOST or begin + length > size:
            return
        yield Frame(kind, since, begin, length, crc)
        at = begin + length


def load(file: BinaryIO, frame: Frame) -> bytes:
    """A frame's payload. Raises ``EOFError`` if it is torn."""
    file.seek(frame.begin)
    payload = file.read(frame.length)
    rest = _HEAD.pack(0, 0, frame.kind, frame.at)[8:]
    if len(payload) != frame.length or zlib.crc32(payload, zlib.crc32(rest)) != frame.crc:
        raise EOFError
    return payload


class Packer:
    """Compresses the frames of one group."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
        self._first = True

    def pack(self, at: float, records: bytes) -> bytes:
        """The next frame."""
        kind, self._first = (KEY if self._first else MORE), False
        return pack(kind, at, self._stream.compress(records) + self._stream.flush(zlib.Z_SYNC_FLUSH))


class Unpacker:
    """Expands the frames of one group, in their order."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(-15)

    def unpack(self, payload: bytes) -> bytes:
        """The records. Raises ``zlib.error``."""
        return self._stream.decompress(payload)
