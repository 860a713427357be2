"""A process that writes numbered lines to a log and rotates it, as fast as it is told: FOLDER WAY ROTATIONS LINES KEEP.

``WAY`` is ``rename`` (a.log, a.log.1, ... shifted), ``dated`` (never shifted), ``copy`` (copytruncate) or ``switch`` (a
link that is switched to the next file).
"""

import shutil
import sys
import time
from pathlib import Path


def line(number: int) -> bytes:
    """The line of this number, of the usual length."""
    return b"2026-03-13T18:%02d:%02d.%06dZ  INFO storm: line %09d, padded to what a daemon's lines are like\n" % (
        number // 6_000_000 % 60,
        number // 100_000 % 60,
        number % 100_000 * 10,
        number,
    )


class Writer:
    """One log."""

    def __init__(self, folder: Path, way: str, keep: int) -> None:
        self.path = folder / "a.log"
        self.way = way
        self.keep = keep
        self.rotations = 0
        self._open()

    def _open(self) -> None:
        if self.way == "switch":
            target = self.path.with_name(f"run-{self.rotations:06d}.txt")
            target.touch()
            link = self.path.with_name("next")
            link.symlink_to(target.name)
            link.rename(self.path)
        self.file = self.path.open("ab", buffering=0)

    def rotate(self) -> None:
        """Begin the next file."""
        self.rotations += 1
        if self.way == "copy":
            shutil.copy2(self.path, self._shifted())
            self.file.truncate(0)
            return
        self.file.close()
        if self.way == "rename":
            self.path.rename(self._shifted())
        elif self.way == "dated":
            self.path.rename(self.path.with_name(f"a.log-20260313.{self.rotations:06d}"))
        self._open()

    def _shifted(self) -> Path:
        first = self.path.with_name("a.log.1")
        for number in range(min(self.rotations, self.keep) - 1, 0, -1):
            source = self.path.with_name(f"a.log.{number}")
            if source.exists():
                source.rename(self.path.with_name(f"a.log.{number + 1}"))
        return first


def main() -> None:
    """Write ``LINES`` lines with ``ROTATIONS`` rotations among them, at ``RATE`` lines a second."""
    folder, way, rotations, lines, keep, rate = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:7])
    writer = Writer(folder, way, keep)
    each = lines // (rotations + 1)
    began, written = time.monotonic(), 0
    while written < lines:
        allowed = min(lines, int((time.monotonic() - began) * rate) + 1)
        while written < allowed:
            count = min(allowed - written, 64, each - written % each)
            writer.file.write(b"".join(map(line, range(written, written + count))))
            written += count
            if written % each == 0 and writer.rotations < rotations:
                writer.rotate()
        time.sleep(0.001)
    print(f"{time.monotonic() - began:.3f}")


if __name__ == "__main__":
    main()
