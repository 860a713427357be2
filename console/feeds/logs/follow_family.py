"""What came and went under a log's name between two looks, found among the files of its family.

A stranger is a family file written to since the last look that was not there when following began and is not read yet,
or holds another text than the one that was (inodes are used again). Files are told by what is opened, never by a name
read a moment ago: while a storm of rotations renames them, names are read until nothing new appears.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from console.feeds.logs.follow_stamps import first_stamp
from console.feeds.logs.sources import HEAD, OpenFile
from console.feeds.logs.sources_family import members, rotation_number
from console.feeds.logs.sources_packed import PackedFile, is_packed

Same = tuple[int, int]
"""Device and inode."""
Key = tuple[int, float, int]
"""Orders a family: last write, first stamp, rotation number; the later ones only where the clock was too coarse."""
_MOST_KNOWN = 20_000
_SCANS = 16
_SETTLED_NS = 20_000_000
_HEAD_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Stranger:
    """An opened family file."""

    file: OpenFile | PackedFile
    key: Key
    size: int

    @property
    def same(self) -> Same:
        """Device and inode."""
        return self.file.id.device, self.file.id.inode

    def head(self) -> bytes:
        """The first bytes of its content."""
        return self.file.peek_head() if isinstance(self.file, OpenFile) else self.file.peek_head(HEAD)


def key_of(file: OpenFile) -> Key:
    """Where a file held open stands in its family, as the newest of it."""
    found = os.fstat(file.fd)
    stamp = first_stamp(file.fd, 0, min(found.st_size, _HEAD_BLOCK), at_line=True)
    return found.st_mtime_ns, stamp[1] if stamp else float("inf"), 0


class Family:
    """The files that rotation makes of one path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: OrderedDict[Same, tuple[bytes, int]] = OrderedDict()
        self._folder_mtime = -1

    def folder_changed(self) -> bool:
        """Whether names came or went since the last call."""
        try:
            mtime = self.path.parent.stat().st_mtime_ns
        except OSError:
            return False
        changed, self._folder_mtime = mtime != self._folder_mtime, mtime
        return changed

    def remember(self, same: Same, head: bytes, read_to: int) -> None:
        """A file is read up to a place."""
        self._known[same] = head, read_to
        self._known.move_to_end(same)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def remember_all(self, but: Same | None) -> None:
        """All that is there now is none of ours."""
        for stranger in self.strangers(0, {but} if but else ()):
            self.remember(stranger.same, stranger.head() if isinstance(stranger.file, OpenFile) else b"", stranger.size)
            stranger.file.close()

    def read_to(self, stranger: Stranger, head: bytes) -> int:
        """How far a file has been read already; 0 if it is new, or its inode was another file's."""
        known = self._known.get(stranger.same)
        return known[1] if known is not None and head.startswith(known[0]) else 0

    def strangers(self, since_mtime: int, taken: Collection[Same], most: int = _MOST_KNOWN) -> list[Stranger]:
        """Files written to at ``since_mtime`` (ns) or later and not ``taken``, oldest first; the newest ``most``."""
        found: dict[Same, Stranger] = {}
        met: set[int] = {same[1] for same in taken}
        quiet = 0
        for _ in range(_SCANS):
            fresh = False
            for name, inode in members(self.path):
                if inode in met:
                    continue
                fresh = True
                try:
                    there = os.stat(name)  # noqa: PTH116 - where a thousand files are kept, a Path for each is felt
                    stranger = _opened(Path(name)) if there.st_mtime_ns >= since_mtime else None
                except FileNotFoundError:
                    continue  # it has moved on, and is met under its next name
                except OSError:
                    met.add(inode)  # no file, or not ours to read
                    continue
                if stranger is None:
                    met.add(there.st_ino)
                elif stranger.same in found or stranger.same in taken:
                    stranger.file.close()  # the name had moved on
                else:
                    found[stranger.same] = stranger
                    met.add(stranger.same[1])
            # Names that are being moved while they are listed may be left out.
            quiet = 0 if fresh else quiet + 1
            if quiet and (quiet > 2 or not self._being_renamed()):
                break
        ordered = sorted(found.values(), key=lambda stranger: stranger.key)
        for stranger in ordered[:-most]:
            stranger.file.close()
        return ordered[-most:]

    def _being_renamed(self) -> bool:
        try:
            return time.time_ns() - self.path.parent.stat().st_mtime_ns < _SETTLED_NS
        except OSError:
            return False


def _opened(path: Path) -> Stranger:
    file = PackedFile(path) if is_packed(path) else OpenFile(path)
    if isinstance(file, PackedFile):
        return Stranger(file, (file.mtime, float("inf"), -rotation_number(path.name)), file.size)
    mtime, stamp, _ = key_of(file)
    return Stranger(file, (mtime, stamp, -rotation_number(path.name)), file.size)
