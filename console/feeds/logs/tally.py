"""What a log tells of waits that are no phase: counted, so that they can be ruled out as what limits the box."""

from __future__ import annotations

from dataclasses import dataclass

from console.feeds.logs.record import LogRecord

_COUNTED = {
    "GPU_TIMING hot_path pre-prove overhead": (("total_overhead_ms", "tracker lock at pick-up"),),
    "GPU_TIMING spawn_blocking prove_start": (("spawn_to_enter_ms", "thread pool"),),
    "FIN_TIMING finalizer partition": (("lock_wait_ms", "tracker lock at the end"),),
    "FIN_TIMING malloc_trim (success path)": (("malloc_trim_ms", "malloc_trim"),),
    "partition GPU prove complete": (("gpu_ms", "gpu_ms"),),
}
_PINNED = ("partition synthesis complete", "SnapDeals partition synthesis complete")


@dataclass(slots=True)
class Count:
    """Milliseconds of one kind of wait."""

    count: int = 0
    total: int = 0
    most: int = 0

    def add(self, milliseconds: int) -> None:
        """One more."""
        self.count += 1
        self.total += milliseconds
        self.most = max(self.most, milliseconds)


class Tally:
    """Counts lines."""

    def __init__(self) -> None:
        self.waits: dict[str, Count] = {}
        self.pinned = 0
        self.pageable = 0

    def add(self, records: list[LogRecord]) -> None:
        """Count what records tell."""
        for record in records:
            message = record.message
            if message in _COUNTED:
                for key, name in _COUNTED[message]:
                    value = record.get(key)
                    if isinstance(value, int):
                        self.waits.setdefault(name, Count()).add(value)
            elif message in _PINNED:
                pinned = record.get("is_pinned")
                self.pinned += pinned is True
                self.pageable += pinned is False
