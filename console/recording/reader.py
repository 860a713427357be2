"""A recording as one stretch of time, read group by group: what was written last is all that a torn file loses."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from console.feeds.nvml.card import GpuCard
from console.feeds.nvml.census import Census
from console.recording import frames
from console.recording.frames import Record
from console.recording.segments import numbered
from console.recording.values import Decoder
from prover.errors import InputError
from prover.model import DeviceSample, Event, Snapshot

_KEPT_GROUPS = 48


@dataclass(slots=True)
class Group:
    """What was recorded between two key frames, each kind by rising time."""

    begin: float
    events: list[Event] = field(default_factory=list)
    pictures: list[Snapshot] = field(default_factory=list)
    samples: dict[str, list[tuple[float, DeviceSample]]] = field(default_factory=dict)
    """By source (``machine``, a GPU's UUID, that with ``/driver``), each with the instant at which it was known."""
    cards: list[tuple[float, tuple[GpuCard, ...]]] = field(default_factory=list)
    census: list[tuple[float, Census]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a group lies: its file and its frames."""

    file: int
    at: float
    frames: tuple[frames.Frame, ...]


class Recording:
    """An open recording: the file, and the older ones of its session beside it.

    Raises:
        InputError: if ``path`` is no recording, or holds nothing that can be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[BinaryIO] = []
        self._groups: OrderedDict[int, Group] = OrderedDict()
        try:
            self.header = self._gather(path)
        except OSError as error:
            raise InputError("recording cannot be read", str(path), error.strerror or "check the file") from error
        self._places = [place for number in range(len(self._files)) for place in self._scan(number)]
        while self._places and not self.group(len(self._places) - 1).pictures:
            self._places.pop()  # torn off right behind its beginning
        if not self._places:
            raise InputError("recording holds nothing", str(path), "its session ended before anything was written")
        self._starts = [place.at for place in self._places]
        first = self.group(0)
        self.begin = min([first.pictures[0].at, *(event.at for event in first.events[:1])])
        self.end = self.group(len(self._places) - 1).pictures[-1].at

    @property
    def wall_offset_s(self) -> float:
        """The session's clock at 0, in seconds since 1970."""
        return float(self.header.get("wall_offset_s") or 0.0)

    @property
    def groups(self) -> int:
        """How many stretches it has."""
        return len(self._places)

    def place(self, at: float) -> int:
        """The number of the group that an instant lies in."""
        return max(0, bisect_right(self._starts, at) - 1)

    def group(self, number: int) -> Group:
        """A group's content; what is damaged in it ends it."""
        found = self._groups.get(number)
        if found is None:
            found = self._groups[number] = self._read(self._places[number])
            while len(self._groups) > _KEPT_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(number)
        return found

    def events(self) -> Iterator[Event]:
        """Every event, in order; nothing is kept."""
        for place in self._places:
            yield from self._read(place).events

    def close(self) -> None:
        """Close its files."""
        for file in self._files:
            file.close()
        self._files = []

    def _gather(self, path: Path) -> dict[str, Any]:
        """Open the session's files, the oldest first; the newest one's header."""
        newest = path.open("rb")
        self._files = [newest]
        header = frames.read_header(newest, path)
        number = 1
        while (older := numbered(path, number)).exists():
            file = older.open("rb")
            try:
                same = frames.read_header(file, older).get("session") == header.get("session")
            except InputError:
                same = False
            if not same:
                file.close()
                break
            self._files.insert(0, file)
            number += 1
        return header

    def _scan(self, number: int) -> Iterator[_Place]:
        """The groups of a file. Its first frame was read as the header."""
        found: list[frames.Frame] = []
        for frame in frames.scan(self._files[number]):
            if frame.kind == frames.KEY and found:
                yield _Place(number, found[0].at, tuple(found))
                found = []
            if found or frame.kind == frames.KEY:
                found.append(frame)
        if found:
            yield _Place(number, found[0].at, tuple(found))

    def _read(self, place: _Place) -> Group:
        group = Group(place.at)
        file, unpacker, decoder = self._files[place.file], frames.Unpacker(), Decoder()
        before: dict[str, Any] = {}
        for frame in place.frames:
            try:
                decoder.feed(unpacker.unpack(frames.load(file, frame)))
                while decoder.more:
                    _take(decoder, before, group)
            except (EOFError, IndexError, KeyError, TypeError, ValueError, zlib.error):
                break
        group.pictures.sort(key=lambda picture: picture.at)
        return group


def _take(decoder: Decoder, before: dict[str, Any], group: Group) -> None:
    """One record."""
    kind = Record(decoder.byte())
    if kind is Record.MOMENT:
        before["known"] = decoder.read(None)
        return
    name = decoder.read(None) if kind is Record.SAMPLE else ""
    key = f"{kind}{name}"
    value = before[key] = decoder.read(before.get(key))
    if kind is Record.EVENT:
        group.events.append(value)
    elif kind is Record.PICTURE:
        group.pictures.append(value)
    elif kind is Record.SAMPLE:
        group.samples.setdefault(name, []).append((before["known"], value))
    elif kind is Record.CARDS:
        group.cards.append((before["known"], value))
    elif kind is Record.CENSUS:
        group.census.append((before["known"], value))
