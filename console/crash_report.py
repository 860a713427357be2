"""A defect of ours: one line for the person, the traceback in a file that can be sent to us."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h: neither "no" (1) nor "your input" (2)."""


def write(error: BaseException, arguments: Sequence[str]) -> int:
    """Leave a report in the state folder, say where it is, and return the exit code."""
    text = "\n".join(
        [
            f"cuzk-top {' '.join(arguments)}",
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            f"Python {platform.python_version()}, {platform.platform()}",
            "".join(traceback.format_exception(error)),
        ]
    )
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cuzk-top" / "crashes"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.txt"
        path.write_text(text)
        where = f"the report is {path}"
    except OSError:
        where = f"no report could be written\n{text}"
    print(f"cuzk-top: internal error: {summary}: {where}", file=sys.stderr)
    return EXIT_CODE
