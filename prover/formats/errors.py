"""What a reader raises: the file, the section, the byte, what is wrong and what to do, on one line."""

from __future__ import annotations

import errno
from os import PathLike, fspath

from prover.errors import InputError, MachineLacks

StrPath = str | PathLike[str]

_REMAKE = "make or copy the file again"


def printable(text: str, limit: int = 200) -> str:
    """``text`` on one line: control characters escaped, the middle left out if it is long."""
    line = "".join(ch if ch.isprintable() else ch.encode("unicode_escape", "backslashreplace").decode() for ch in text)
    return line if len(line) <= limit else f"{line[: limit // 2]}...{line[-limit // 2 :]}"


class FormatError(InputError):
    """A file that is not what its format says.

    Attributes:
        path: the file.
        section: the section or field, ``""`` where the whole file is meant.
        offset: byte offset in the file, or ``None``.
    """

    def __init__(
        self, path: StrPath, what: str, *, section: str = "", offset: int | None = None, fix: str = _REMAKE
    ) -> None:
        self.path = fspath(path)
        self.section = section
        self.offset = offset
        where = [printable(self.path)]
        if section:
            where.append(printable(section))
        if offset is not None:
            where.append(f"byte {offset}")
        super().__init__(printable(what, 400), ", ".join(where), fix)


class WriteError(InputError):
    """A file that cannot be written; nothing of it was left behind."""

    def __init__(self, path: StrPath, error: OSError) -> None:
        self.path = fspath(path)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        super().__init__(
            "cannot write",
            printable(self.path),
            f"{error.strerror or type(error).__name__}: {'free some space' if full else 'choose another place'}",
        )
        if full:
            self.exit_code = MachineLacks.exit_code
