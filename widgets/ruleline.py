"""A title on a rule, for panels that are scroll views and cannot draw their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len

from widgets.canvas import Canvas, Line, fit


@dataclass(frozen=True, slots=True)
class RuleData:
    """Title, a note at the right with its role, and whether the panel beneath has the focus."""

    title: str
    note: str = ""
    role: str = "label"
    focused: bool = False


class RuleLine(Canvas[RuleData]):
    """One line."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The rule."""
        data = self.data
        text = self.text(data.note)
        room = max(0, width - cell_len(self.text(data.title)) - 9)
        note = self.line().add(fit(text, min(cell_len(text), room), self.glyphs.ellipsis), data.role)
        yield self.rule(width, data.title, note, role="accent" if data.focused else "title")
