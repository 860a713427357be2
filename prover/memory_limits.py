"""How much memory this process may take: the machine's, and what its control groups (v1 and v2) leave of it.

Kernel documentation: ``admin-guide/cgroup-v2`` (``memory.max``, ``memory.high``), ``admin-guide/cgroup-v1/memory``
(``memory.limit_in_bytes``), ``proc_pid_mountinfo(5)``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as the largest multiple of a page below 2^63."""
LEAST_MARGIN = 512 << 20
MOST_MARGIN = 5 << 30


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What was found, in bytes. ``None`` where the system does not tell."""

    total: int | None
    """Of the machine."""
    limit: int | None
    """The lowest limit of the process's control groups, if there is any."""
    available: int | None
    """What could be taken now without pushing anything out: of the machine and of the tightest group."""
    resident: int
    """What this process holds now."""

    @property
    def ceiling(self) -> int | None:
        """The most that this process could ever take."""
        known = [bound for bound in (self.total, self.limit) if bound is not None]
        return min(known) if known else None

    @property
    def source(self) -> str:
        """What bounds it, in words."""
        if self.ceiling is None:
            return "unknown"
        return "control group" if self.ceiling != self.total else "machine"

    def automatic(self) -> int | None:
        """The budget that ``auto`` stands for: what this process could hold, less a margin for everything that no
        budget counts (interpreter, libraries, allocator, page tables): an eighth of the ceiling, at least 512 MiB, at
        most 5 GiB. What other processes hold now is not counted as ours. None where nothing is known.
        """
        ceiling = self.ceiling
        if ceiling is None:
            return None
        reach = ceiling if self.available is None else min(ceiling, self.available + self.resident)
        return max(reach - margin(ceiling), reach // 4)


def margin(ceiling: int) -> int:
    """What ``auto`` leaves free below a ceiling."""
    return min(MOST_MARGIN, max(LEAST_MARGIN, ceiling // 8))


def memory_limits(root: Path = Path("/")) -> MemoryLimits:
    """Read the limits; a figure that cannot be read is ``None``. ``root`` holds ``proc`` and the mounted groups."""
    machine = _meminfo(root)
    total, available = machine.get("MemTotal"), machine.get("MemAvailable")
    limit = None
    for bound, used in _group_bounds(root):
        limit = bound if limit is None else min(limit, bound)
        if used is not None:
            left = max(bound - used, 0)
            available = left if available is None else min(available, left)
    return MemoryLimits(total, limit, available, _resident(root))


def _meminfo(root: Path) -> dict[str, int]:
    values = {}
    for line in _lines(root / "proc/meminfo"):
        name, _, rest = line.partition(":")
        number = rest.split()
        if number and number[0].isdigit():
            values[name] = int(number[0]) * 1024
    return values


def _resident(root: Path) -> int:
    for line in _lines(root / "proc/self/status"):
        name, _, rest = line.partition(":")
        if name == "VmRSS":
            return int(rest.split()[0]) * 1024
    return 0


def _group_bounds(root: Path) -> Iterator[tuple[int, int | None]]:
    """Limit and present use of every limited group from the process's own up to the mount's root."""
    paths = dict(_memberships(root))
    for version, mount, mounted in _memory_mounts(root):
        own = paths.get(version)
        if own is None:
            continue
        for folder in _ancestors(root, mount, mounted, own):
            bounds = [bound for name in _LIMITS[version] if (bound := _number(folder / name)) is not None]
            if bounds:
                yield min(bounds), _in_use(folder, version)


_LIMITS = {1: ("memory.limit_in_bytes",), 2: ("memory.max", "memory.high")}
_USAGE = {1: "memory.usage_in_bytes", 2: "memory.current"}
_IDLE_CACHE = {1: "total_inactive_file", 2: "inactive_file"}


def _memberships(root: Path) -> Iterator[tuple[int, str]]:
    """(version, path) of ``/proc/self/cgroup`` where it concerns memory."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            yield 2, path
        elif "memory" in controllers.split(","):
            yield 1, path


def _memory_mounts(root: Path) -> Iterator[tuple[int, str, str]]:
    """(version, mount point, what of the hierarchy is mounted there)."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            yield 2, fields[4], fields[3]
        elif kind[0] == "cgroup" and "memory" in kind[-1].split(","):
            yield 1, fields[4], fields[3]


def _ancestors(root: Path, mount: str, mounted: str, own: str) -> Iterator[Path]:
    """The folders of a group and of all above it that the mount shows."""
    top = root / mount.lstrip("/")
    inside = own.removeprefix(mounted.rstrip("/")) if own.startswith(mounted) else "/"
    folder = top / inside.lstrip("/")
    if ".." in folder.parts or not folder.is_dir():
        folder = top  # a container that sees its own group at the mount's root
    while True:
        yield folder
        if folder == top:
            return
        folder = folder.parent


def _in_use(folder: Path, version: int) -> int | None:
    """What a group holds, less the file cache that the kernel gives back first."""
    usage = _number(folder / _USAGE[version])
    if usage is None:
        return None
    for line in _lines(folder / "memory.stat"):
        name, _, value = line.partition(" ")
        if name == _IDLE_CACHE[version] and value.strip().isdigit():
            return max(usage - int(value), 0)
    return usage


def _number(path: Path) -> int | None:
    """The size in a file; ``None`` for "max", for the largest number and for what cannot be read."""
    for line in _lines(path):
        if line.strip().isdigit() and int(line) < _UNLIMITED:
            return int(line)
        break
    return None


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8").splitlines()
    return []


__all__ = ["MemoryLimits", "margin", "memory_limits"]
