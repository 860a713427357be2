"""What this process takes of its machine."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def peak_rss_bytes() -> int | None:
    """The most resident memory since the start, or since ``reset_peak_rss``; None where the system does not tell."""
    try:
        match = _PEAK.search(_STATUS.read_text(encoding="ascii"))
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def reset_peak_rss() -> None:
    """Begin to look for a new peak. Where the system does not allow it, the old one stays."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5", encoding="ascii")
