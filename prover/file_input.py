"""A partition's input file, with what became known of it while it was proved."""

from __future__ import annotations

from pathlib import Path

from prover.lean_dataclass import dataclass


@dataclass(eq=False, slots=True)
class FileInput:
    """An item of a job's inputs, in place of a bare path: for those who need to know afterwards what was proved of the
    file, which may be replaced or gone by then, or why it could not be.
    """

    path: Path
    public: list[int] | None = None
    """The public inputs, of the content that was read last."""
    fault: str | None = None
    """What is wrong with the file, in one line, if something is."""


def path_of(item: Path | FileInput) -> Path:
    """Where the file lies."""
    return item.path if isinstance(item, FileInput) else item
