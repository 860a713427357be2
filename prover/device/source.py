"""Kernel sources as one string each: a ``.cu`` file with our own headers put in where it includes them.

NVRTC then needs no include path, reports errors by file and line (``#line`` marks), and a digest of the string covers
every header: an edited one can never run stale.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from prover.errors import MachineLacks

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]+"([^"]+)"[ \t]*(?://.*)?')
_ONCE = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+once[ \t]*")


def kernel_folder() -> Path:
    """Where the kernels' sources lie.

    Raises:
        MachineLacks: if the installation has none.
    """
    beside = Path(__file__).parent.parent / "kernels"
    if (beside / "portable.cuh").is_file():
        return beside
    raise MachineLacks("kernel sources not found", str(beside), "reinstall cuzk-top")


@functools.cache
def amalgamated(name: str) -> str:
    """The text of a kernel source with its headers, each once.

    Args:
        name: a file of the kernels' folder, such as ``ntt.cu``.

    Raises:
        MachineLacks: if it or a header is missing.
    """
    lines: list[str] = []
    _append(kernel_folder(), name, lines, set())
    return "\n".join(lines) + "\n"


def digest(text: str) -> str:
    """SHA-256 of a source, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _append(folder: Path, name: str, lines: list[str], seen: set[str]) -> None:
    seen.add(name)
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise MachineLacks("kernel source not readable", str(folder / name), "reinstall cuzk-top") from error
    shown = f"prover/kernels/{name}"
    lines.append(f'#line 1 "{shown}"')
    for number, line in enumerate(text.splitlines(), 1):
        include = _INCLUDE.fullmatch(line)
        if include:
            if include[1] not in seen:
                _append(folder, include[1], lines, seen)
            lines.append(f'#line {number + 1} "{shown}"')
        else:
            lines.append("" if _ONCE.fullmatch(line) else line)


__all__ = ["amalgamated", "digest", "kernel_folder"]
