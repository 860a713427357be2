"""The first line of the screen: what is proved and where, what the device does and why, the time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len

from prover.model import DeviceState
from widgets.canvas import Canvas, Line, fit
from widgets.pens import state_role

_NAME = " cuzk-top"
_ROOMY = 100
"""From this width there is room for seconds and for a sentence with its reason."""
_SENTENCE, _SHORT = 47, 30
"""Cells kept for the sentence: ``computing 61 %, starved 36 %: nothing synthesised``, and that without its reason."""


@dataclass(frozen=True, slots=True)
class HeaderData:
    """``subjects`` are pairs of what is proved and on what, the longest first. ``state`` colours the sentence, of which
    ``short`` is a form without its reason; ``clock`` is hours, minutes, seconds; ``freeze`` is a note such as
    ``frozen 12 s`` or empty; ``mark`` is a word that must not be missed, such as ``SIMULATED``."""

    subjects: tuple[tuple[str, str], ...]
    state: DeviceState
    sentence: str
    clock: str
    short: str = ""
    freeze: str = ""
    mark: str = ""


class HeaderLine(Canvas[HeaderData]):
    """One line. How long a form the subject has is decided by the width alone, so that it does not change from tick to
    tick; the sentence then has the rest, whole where that is enough, else in short. Both are always there.
    """

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The header."""
        data = self.data
        clock = data.clock if width >= _ROOMY else data.clock[:5]
        room = width - len(_NAME) - len(clock) - 9  # the signs and spaces between the parts
        line = self.line().add(_NAME, "name").add("  ")
        if data.mark:
            line.add(f" {self.text(data.mark)} ", "cursor").add("  ")
            room -= cell_len(data.mark) + 4
        line.add(self._subject(room - (_SENTENCE if width >= _ROOMY else _SHORT)), "label")
        right = self.line()
        if data.freeze:
            right.add(f" {self.glyphs.frozen} {self.text(data.freeze)} ", "cursor").add("  ")
        right.add(f"{self.glyphs.state} ", state_role(data.state))
        room = width - line.width - right.width - len(clock) - 6
        sentence = self.text(data.sentence)
        if cell_len(sentence) > room and data.short:
            sentence = self.text(data.short)
        right.add(fit(sentence, min(cell_len(sentence), max(10, room)), self.glyphs.ellipsis), state_role(data.state))
        right.add(f"   {clock} ", "label")
        yield line.to(width - right.width).extend(right)

    def _subject(self, room: int) -> str:
        """The longest form that fits; of the shortest, what is proved is cut and on what is kept."""
        between = self.text(" · ")
        what = where = ""
        for what, where in self.data.subjects:
            text = between.join(self.text(part) for part in (what, where) if part)
            if cell_len(text) <= room:
                return text
        if not where:
            return fit(self.text(what), max(0, room), self.glyphs.ellipsis)
        end = between + self.text(where)
        return fit(self.text(what), max(4, room - cell_len(end)), self.glyphs.ellipsis) + end
