"""A log that is followed: a scrolling view over a bounded list of lines, painted a screenful at a time.

Lines are kept as plain text and become strips only when they are on screen. A reader who has scrolled up keeps the
line in sight: when old lines are dropped at the top, the offset moves with them. New lines pull the view along only
while it stands at the end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.glyphs import ASCII, UNICODE, Glyphs, to_ascii
from widgets.pens import Pens

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_].*?\x1b\\|[@-Z\\-_])")
_PARTS = re.compile(
    r"(?P<time>^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?|^\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    r"|(?P<error>\b(?:ERROR|FATAL|CRITICAL)\b)|(?P<warn>\bWARN(?:ING)?\b)|(?P<info>\bINFO\b)"
    r"|(?P<debug>\b(?:DEBUG|TRACE)\b)|(?P<field>(?<=\s)[A-Za-z_][\w.]*=)"
)


def printable(text: str) -> str:
    """A foreign line made safe to draw: colour codes removed, tabs widened, control characters shown as ``?``."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\t" in text:
        text = text.expandtabs(4)
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class LogView(ScrollView, can_focus=True):
    """The lines of one log, the newest ``limit`` of them."""

    DEFAULT_CSS = """
    LogView { width: 1fr; height: 1fr; scrollbar-size: 0 0; overflow: hidden hidden; }
    """
    HELP: ClassVar[str] = "Arrows, page up and page down scroll; end follows the newest line again."

    class Moved(Message):
        """The reader scrolled up, down or sideways, or new lines came in below the view."""

    def __init__(self, glyphs: Glyphs = UNICODE, *, limit: int = 5000, id: str | None = None) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self.pens = Pens(self)
        self.limit = limit
        self.lines: deque[str] = deque()
        self.dropped = 0
        self.following = True
        self._widest = 0
        self._strips: LRUCache[int, Strip] = LRUCache(512)

    @property
    def below(self) -> int:
        """Lines beneath the last visible one."""
        return max(0, len(self.lines) - int(self.scroll_offset.y) - self.size.height)

    @property
    def shifted(self) -> int:
        """Cells by which the view stands to the right of the lines' beginnings."""
        return int(self.scroll_offset.x)

    def write(self, lines: Iterable[str]) -> None:
        """Append lines (one refresh however many)."""
        fresh = [printable(line) for line in lines]
        if not fresh:
            return
        if self.glyphs is ASCII:
            fresh = [to_ascii(line) for line in fresh]
        self._widest = max(self._widest, *(1 + cell_len(line) for line in fresh))
        self.lines.extend(fresh)
        excess = len(self.lines) - self.limit
        for _ in range(max(0, excess)):
            self.lines.popleft()
        self.dropped += max(0, excess)
        self.virtual_size = Size(self._widest, len(self.lines))
        if self.following:
            self._to_end()
        elif excess > 0:
            self.scroll_to(y=max(0, self.scroll_offset.y - excess), animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def clear(self) -> None:
        """Forget all lines."""
        self.lines.clear()
        self._strips.clear()
        self._widest = self.dropped = 0
        self.virtual_size = Size(0, 0)
        self.following = True
        self.scroll_to(0, 0, animate=False, immediate=True, force=True)
        self.refresh()

    # -- what keys do --

    def action_scroll_by(self, lines: int) -> None:
        """Scroll by lines (negative: towards the past)."""
        self._go(self.scroll_offset.y + lines)

    def action_page_by(self, pages: int) -> None:
        """Scroll by screenfuls."""
        self._go(self.scroll_offset.y + pages * max(1, self.size.height - 1))

    def action_sideways(self, cells: int) -> None:
        """Scroll sideways."""
        self._shift(self.shifted + cells)

    def action_line_begin(self) -> None:
        """Show the lines from their beginnings again."""
        self._shift(0)

    def _shift(self, x: int) -> None:
        self.scroll_to(x=max(0, x), animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_begin(self) -> None:
        """Go to the oldest line, and to its beginning."""
        self._shift(0)
        self._go(0)

    def action_follow(self) -> None:
        """Go to the newest line and stay there."""
        self.following = True
        self._to_end()
        self.refresh()
        self.post_message(self.Moved())

    def _go(self, y: float) -> None:
        last = max(0, len(self.lines) - self.size.height)
        y = max(0, min(last, int(y)))
        self.following = y >= last
        self.scroll_to(y=y, animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def _to_end(self) -> None:
        last = max(0, len(self.lines) - self.size.height)
        self.scroll_to(y=last, animate=False, immediate=True, force=True)

    def on_mouse_scroll_up(self) -> None:
        """The wheel."""
        self.action_scroll_by(-3)

    def on_mouse_scroll_down(self) -> None:
        """The wheel."""
        self.action_scroll_by(3)

    def on_resize(self) -> None:
        """Stay at the end, or keep the line in sight."""
        if self.following:
            self._to_end()
        self._strips.clear()

    def notify_style_update(self) -> None:
        """The theme changed."""
        super().notify_style_update()
        self.pens.clear()
        self._strips.clear()

    # -- drawing --

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        scroll_x, scroll_y = self.scroll_offset
        width = self.size.width
        index = int(scroll_y) + y
        if index >= len(self.lines):
            return Strip.blank(width, self.pens[""])
        number = self.dropped + index
        strip = self._strips.get(number)
        if strip is None:
            strip = self._strips[number] = self._styled(next(islice(self.lines, index, index + 1)))
        left = int(scroll_x)
        return strip.crop_extend(left, left + width, self.pens[""])

    def _styled(self, text: str) -> Strip:
        segments = [Segment(" ", self.pens[""])]
        at = 0
        for match in _PARTS.finditer(text):
            if match.start() > at:
                segments.append(Segment(text[at : match.start()], self.pens[""]))
            segments.append(Segment(match.group(), self.pens[f"log-{match.lastgroup}"]))
            at = match.end()
        segments.append(Segment(text[at:], self.pens[""]))
        return Strip(segments)

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Refresh lines given by their number in the log."""
        self.refresh(Region(0, y_start - int(self.scroll_offset.y), self.size.width, line_count))
