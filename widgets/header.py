"""The first line of the screen: what is proved and where, what the device does and why, the time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len

from prover.model import DeviceState
from widgets.canvas import Canvas, Line, fit
from widgets.pens import state_role

_NAME = " cuzk-top"


@dataclass(frozen=True, slots=True)
class HeaderData:
    """``subjects`` say what is proved and where, the longest first: the first that fits is shown. ``state`` colours the
    sentence; ``freeze`` is a note such as ``frozen 12 s`` or empty."""

    subjects: tuple[str, ...]
    state: DeviceState
    sentence: str
    clock: str
    freeze: str = ""


class HeaderLine(Canvas[HeaderData]):
    """One line; the sentence keeps its full length for as long as there is room, the subject gives way first."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The header."""
        data = self.data
        right = self.line()
        if data.freeze:
            right.add(f" {self.glyphs.frozen} {self.text(data.freeze)} ", "cursor").add("  ")
        right.add(f"{self.glyphs.state} ", state_role(data.state))
        room = width - len(_NAME) - right.width - len(data.clock) - 6
        sentence = self.text(data.sentence)
        right.add(fit(sentence, min(len(sentence), max(10, room)), self.glyphs.ellipsis), state_role(data.state))
        right.add(f"   {data.clock} ", "label")
        line = self.line().add(_NAME, "name").add("  ")
        room = width - line.width - right.width - 2
        subjects = (self.text(subject) for subject in self.data.subjects)
        line.add(next((subject for subject in subjects if cell_len(subject) <= room), ""), "label")
        yield line.to(width - right.width).extend(right)
