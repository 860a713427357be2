"""The ground of every panel: lines drawn once per change of data, and only the cells that changed sent out.

A panel gets plain data through ``Canvas.data`` and turns it into ``Strip`` lines in ``draw``. Assigning data draws all
lines (microseconds each), compares them with the ones on screen and refreshes only the differing span of each line:
a panel whose clock ticks writes a few bytes, not its whole area.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from widgets.glyphs import ASCII, UNICODE, Glyphs, to_ascii
from widgets.pens import Pens


class Line:
    """One line under construction."""

    __slots__ = ("_pens", "segments", "width")

    def __init__(self, pens: Pens) -> None:
        self._pens = pens
        self.segments: list[Segment] = []
        self.width = 0

    def add(self, text: str, role: str = "", ground: str = "") -> Line:
        """Append text in the style of a role."""
        if text:
            self.segments.append(Segment(text, self._pens.on(role, ground)))
            self.width += len(text) if text.isascii() else cell_len(text)
        return self

    def to(self, column: int, fill: str = " ", role: str = "") -> Line:
        """Fill up to a column; text that is already beyond it is left alone."""
        if column > self.width:
            self.add(fill * (column - self.width), role)
        return self

    def extend(self, other: Line) -> Line:
        """Append another line."""
        self.segments.extend(other.segments)
        self.width += other.width
        return self

    def strip(self, width: int) -> Strip:
        """The line as a strip of exactly ``width`` cells."""
        return Strip(self.segments, self.width).adjust_cell_length(width, self._pens[""])


@dataclass(frozen=True, slots=True)
class Zone:
    """A place that answers the mouse: cells ``left`` to ``right`` (exclusive) of line ``y``."""

    y: int
    left: int
    right: int
    action: str
    target: str = ""


Data = TypeVar("Data")


class Canvas(Widget, Generic[Data]):
    """A panel that draws lines from one value."""

    DEFAULT_CSS = "Canvas { width: 1fr; height: 1; }"
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, data: Data, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self.pens = Pens(self)
        self.zones: list[Zone] = []
        self._data = data
        self._strips: list[Strip] | None = None

    @property
    def data(self) -> Data:
        """What is shown."""
        return self._data

    @data.setter
    def data(self, data: Data) -> None:
        if data != self._data:
            self._data = data
            self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The lines, top to bottom; missing ones stay blank, further ones are cut."""
        raise NotImplementedError

    def line(self) -> Line:
        """A fresh line."""
        return Line(self.pens)

    def text(self, text: str) -> str:
        """Text as the glyph set can show it, control characters made harmless."""
        clean = text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
        return to_ascii(clean) if self.glyphs is ASCII else clean

    def rule(self, width: int, title: str, note: Line | None = None, *, role: str = "title") -> Line:
        """A panel's first line: a rule with the title near its left end and a note near its right end."""
        line = self.line().add(f"{self.glyphs.rule} ", "rule").add(self.text(title), role).add(" ")
        if note is not None and note.width:
            line.to(width - note.width - 3, self.glyphs.rule, "rule")
            return line.add(" ").extend(note).add(" ").add(self.glyphs.rule, "rule")
        return line.to(width, self.glyphs.rule, "rule")

    def redraw(self) -> None:
        """Draw again and refresh what differs."""
        old = self._strips
        if old is None or not self.is_mounted or not self.size.area:
            self._strips = None
            self.refresh()
            return
        new = self._drawn()
        self._strips = new
        if len(new) != len(old):
            self.refresh()
            return
        gutter = self.gutter
        regions = [
            Region(span[0] + gutter.left, y + gutter.top, span[1] - span[0], 1)
            for y, (before, after) in enumerate(zip(old, new, strict=True))
            if (span := changed_span(before, after)) is not None
        ]
        if regions:
            self.refresh(*regions)

    def _drawn(self) -> list[Strip]:
        width, height = self.size
        self.zones = []
        strips = [line.strip(width) for line, _ in zip(self.draw(width, height), range(height), strict=False)]
        blank = self.line().strip(width)
        return strips + [blank] * (height - len(strips))

    def render_line(self, y: int) -> Strip:
        """One line for the compositor."""
        strips = self._strips
        if strips is None or len(strips) != self.size.height or (strips and strips[0].cell_length != self.size.width):
            strips = self._strips = self._drawn()
        return strips[y] if y < len(strips) else Strip.blank(self.size.width)

    def notify_style_update(self) -> None:
        """The theme or a pseudo-class changed."""
        super().notify_style_update()
        self.pens.clear()
        self._strips = None

    def zone_at(self, x: int, y: int) -> Zone | None:
        """The zone under a cell."""
        return next((z for z in self.zones if z.y == y and z.left <= x < z.right), None)


def changed_span(before: Strip, after: Strip) -> tuple[int, int] | None:
    """The cells ``[left, right)`` in which two strips differ, or ``None`` if they are equal."""
    if before is after:
        return None
    old, new = list(before), list(after)
    if old == new:
        return None
    left = _common_cells(old, new)
    right = after.cell_length - _common_cells(old[::-1], new[::-1])
    return (left, right) if left < right else (0, after.cell_length)


def _common_cells(old: Sequence[Segment], new: Sequence[Segment]) -> int:
    cells = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        cells += a.cell_length
    return cells


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """``text`` cut to ``width`` cells (with an ellipsis) or padded to it."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + ellipsis
