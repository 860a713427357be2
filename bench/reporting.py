"""What the benchmarks say of the machine, and how they write what they measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def integers(text: str) -> list[int]:
    """``10-12,15`` as 10, 11, 12, 15."""
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write it as JSON, and say where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(path)
