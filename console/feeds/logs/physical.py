"""Bytes to physical lines: any chunks in, clean text with its offset out, in bounded memory.

Colours and NUL bytes are taken out, bytes that are no UTF-8 become U+FFFD, a line longer than the limit is cut. What
comes out does not depend on where the chunks were cut.
"""

from __future__ import annotations

import re
from itertools import accumulate

LONGEST = 64 * 1024
"""Bytes of a line that are kept."""
Line = tuple[int, str]
"""Offset of a line's first byte in its source, and its text."""

# Nearly all escapes of a log are these; replacing each in turn is several times as fast as a regular expression.
_COMMON_ESCAPES = tuple(b"\x1b[%dm" % number for number in (0, 2, 3, 32, 1, 33, 31, 34, 35))
_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\)?|[@-Z\\^_])")


def without_escapes(blob: bytes) -> bytes:
    """Bytes without terminal escape sequences; none of them reaches over a line's end."""
    for escape in _COMMON_ESCAPES:
        if b"\x1b" not in blob:
            return blob
        blob = blob.replace(escape, b"")
    return _ESCAPE.sub(b"", blob)


class PhysicalLines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, offset: int = 0) -> None:
        """``offset``: where in its source the stream begins."""
        self.cut = 0
        """Lines that were longer than the limit."""
        self._begin = offset
        self._offset = offset
        self._parts: list[bytes] = []
        self._kept = 0
        self._overlong = False

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that a chunk completes."""
        last = chunk.rfind(b"\n")
        if last < 0:
            self._keep(chunk)
            self._offset += len(chunk)
            return []
        lengths = list(map(len, chunk[:last].split(b"\n")))
        offsets = [end + nth for nth, end in enumerate(accumulate(lengths), self._offset + 1)]
        offsets.insert(0, self._begin)  # it may have begun in an earlier chunk
        found = self._clean(chunk[: last + 1], max(lengths))
        self._begin = offsets.pop()
        self._offset += len(chunk)
        self._keep(chunk[last + 1 :])
        return list(zip(offsets, found, strict=True))

    def finish(self) -> list[Line]:
        """The last line, if it has no end."""
        if self._begin == self._offset:
            return []
        found = [(self._begin, self._clean(b"\n", 0)[0])]
        self._begin = self._offset
        return found

    def _keep(self, piece: bytes) -> None:
        if b"\0" in piece:
            piece = piece.replace(b"\0", b"")
        room = LONGEST - self._kept
        if len(piece) > room:
            piece, self._overlong = piece[:room], True
        if piece:
            self._parts.append(piece)
            self._kept += len(piece)
            if len(self._parts) > 256:
                self._parts = [b"".join(self._parts)]

    def _clean(self, body: bytes, longest: int) -> list[str]:
        """The lines of a body that ends with a line's end, what was kept before it included.

        ``longest``: the most bytes of a line in the body.
        """
        longest += self._kept
        if b"\0" in body:
            body = body.replace(b"\0", b"")
        if self._overlong:  # what is beyond the limit of the line that goes on
            body = body[body.index(b"\n") :]
            self.cut += 1
        blob = b"".join([*self._parts, body])
        self._parts, self._kept, self._overlong = [], 0, False
        if longest > LONGEST:
            lines = blob.split(b"\n")
            self.cut += sum(len(line) > LONGEST for line in lines)
            blob = b"\n".join([line[:LONGEST] for line in lines])
        if b"\x1b" in blob:
            blob = without_escapes(blob)
        texts = blob.decode("utf-8", "replace").split("\n")
        texts.pop()
        return [text.rstrip("\r") for text in texts] if b"\r" in blob else texts
