"""Files that are read whole: JSON and bellman's encodings, with a limit on their size."""

from __future__ import annotations

from prover.formats.errors import FormatError, StrPath

_CHUNK = 1 << 20


def read_small_file(path: StrPath, limit: int) -> bytes:
    """The content of a file or a pipe of at most ``limit`` bytes; takes no more memory than there is content.

    Raises:
        FormatError: if it cannot be read or is longer.
    """
    chunks, size = [], 0
    try:
        with open(path, "rb") as stream:
            while chunk := stream.read(_CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise FormatError(path, f"more than {limit} bytes", fix="give the file that is meant")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(path, f"cannot read: {reason}", fix="check the path") from error
    return b"".join(chunks)
