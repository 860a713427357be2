"""What this process takes of its machine."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path

_MMAP_THRESHOLD = -3
"""``M_MMAP_THRESHOLD`` of glibc's ``mallopt``."""
_OWN_PAGES = 1 << 20
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


def give_back_what_is_freed() -> None:
    """Let the C library give every large buffer pages of its own, which the system gets back as soon as it is freed.

    By itself glibc raises the size from which it does so to that of the largest buffer that was ever freed, and keeps
    vectors of ended proofs for later: memory that was given back would still be taken. Elsewhere nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _OWN_PAGES)
