"""What the log tells of a failure that nobody foresaw: where it was raised, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

from prover.errors import ProverError

MOST_CHARACTERS = 1500
"""Of a detail: the innermost frames are kept."""


def one_line_detail(error: BaseException) -> str | None:
    """Where an exception was raised, innermost frame first, then what it came from; None for an expected error, whose
    cause says all. It keeps no frame alive.
    """
    if isinstance(error, ProverError):
        return None
    parts = [_trail(error)]
    seen = {id(error)}
    origin = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while origin is not None and id(origin) not in seen:
        seen.add(id(origin))
        words = " ".join(f"{type(origin).__name__}: {origin}".split())
        parts.append(f"from {words} at {_trail(origin)}")
        origin = origin.__cause__ or (None if origin.__suppress_context__ else origin.__context__)
    text = " | ".join(parts)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _trail(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    shown = [f"{_brief(frame.filename)}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    return " < ".join(shown) or "nowhere"


def _brief(filename: str) -> str:
    """The last two parts of a file's name: which module, whoever installed it."""
    return "/".join(Path(filename).parts[-2:])
