"""The knobs: what is wanted, what is in force, who still lags; arrows, digits and the mouse change a value.

The panel shows a wanted value at once and proposes it a moment later, so that a run of key presses becomes one change.
It never applies anything: it posts ``Proposed`` and shows whatever it is given next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.timer import Timer

from prover.model import KnobValue
from widgets.canvas import Canvas, Line, Zone, fit
from widgets.glyphs import UNICODE, Glyphs

MERGE_S = 0.15
"""Presses closer together than this become one proposal."""
_NAME = 23
_VALUE = 6


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One knob. ``choices`` are given for all but integers; ``locked`` says why it cannot be turned here."""

    name: str
    value: KnobValue
    choices: tuple[KnobValue, ...] = ()
    minimum: int = 0
    maximum: int = 0
    step: int = 1
    zero: str = ""
    """The word for the value 0 (``auto``), if there is one."""
    size: bool = False
    """A size in bytes: what is typed are GiB, and the choices have ends."""
    status: str = "in force"
    status_role: str = "faint"
    short_status: str = ""
    """For narrow panels; the whole status then stands in the title while the cursor is on the row."""
    hint: str = ""
    locked: str = ""


@dataclass(frozen=True, slots=True)
class KnobsData:
    """The knobs in order, and a note for the title (``read-only``)."""

    rows: tuple[KnobRow, ...] = ()
    note: str = ""


def show(value: KnobValue, zero: str = "") -> str:
    """A knob's value as a word."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1 << 20:  # only sizes in bytes are as large
        unit = next(unit for unit in (40, 30, 20) if value >= 1 << unit)
        amount = value / (1 << unit)
        return f"{amount:.3g}{'MGT'[unit // 10 - 2]}" if amount < 999.5 else f"{amount:.0f}{'MGT'[unit // 10 - 2]}"
    return zero if zero and value == 0 else str(value)


def turned(row: KnobRow, value: KnobValue, by: int) -> KnobValue:
    """The value ``by`` steps further, held inside the range; choices wrap round, but not those of sizes."""
    if row.choices:
        place = row.choices.index(value) if value in row.choices else 0
        place += by
        return row.choices[max(0, min(len(row.choices) - 1, place)) if row.size else place % len(row.choices)]
    if isinstance(value, str):
        return value
    return max(row.minimum, min(row.maximum, int(value) + by * row.step))


class KnobPanel(Canvas[KnobsData], can_focus=True):
    """Title and one line a knob, scrolled so that the cursor stays in sight."""

    HELP: ClassVar[str] = (
        "Arrows choose and turn a knob; digits type a value (sizes in GiB), enter sets it, escape drops it."
    )

    class Proposed(Message):
        """The operator wants ``value`` for the knob ``name``."""

        def __init__(self, name: str, value: KnobValue) -> None:
            super().__init__()
            self.name = name
            self.value = value

    class Refused(Message):
        """A key did nothing, and why."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, data: KnobsData, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(data, glyphs, id=id)
        self.cursor = 0
        self._top = 0
        self._typed: str | None = None
        self._refused = False
        self._wanted: dict[str, KnobValue] = {}
        self._merging: dict[str, Timer] = {}

    @property
    def row(self) -> KnobRow | None:
        """The knob under the cursor."""
        rows = self.data.rows
        return rows[min(self.cursor, len(rows) - 1)] if rows else None

    def _choose(self, place: int) -> None:
        """Put the cursor on a row; what was typed on another is forgotten."""
        self.cursor, self._typed, self._refused = place, None, False

    def value_of(self, row: KnobRow) -> KnobValue:
        """The value shown: the one about to be proposed, or the one that the engine wants."""
        return self._wanted.get(row.name, row.value)

    # -- what keys do (the registry of actions binds them) --

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        if self.data.rows:
            self._choose(max(0, min(len(self.data.rows) - 1, self.cursor + by)))
            self.redraw()

    def action_turn(self, by: int) -> None:
        """Turn the knob under the cursor."""
        if (row := self.row) is not None:
            self._typed, self._refused = None, False
            self.turn(row, by)

    def action_commit(self) -> None:
        """Propose the typed number; where nothing was typed, turn a choice."""
        row, typed, self._typed = self.row, self._typed, None
        if row is None:
            return
        if typed:
            number = int(typed)
            if row.size:
                self.want(row, number << 30)
            elif row.minimum <= number <= row.maximum:
                self.want(row, number)
            else:
                self.post_message(self.Refused(f"{row.name}: {number} is outside {row.minimum} to {row.maximum}"))
        elif row.choices and not row.size and not self._refused:
            self.turn(row, 1)
        self.redraw()

    def action_drop(self) -> None:
        """Forget what was typed; with nothing typed, leave the panel."""
        if self._typed is None:
            self.screen.set_focus(None)
        self._typed, self._refused = None, False
        self.redraw()

    def action_erase(self) -> None:
        """Take back the last typed digit."""
        if self._typed is not None:
            self._typed = self._typed[:-1] or None
            self.redraw()

    def action_digit(self, digit: int) -> None:
        """Append a digit to the number being typed."""
        row = self.row
        if row is None:
            return
        if row.locked or (row.choices and not row.size):
            self._refused = True  # enter after it must not do something else
            self.post_message(self.Refused(f"{row.name}: {row.locked or 'takes a choice: use the arrows'}"))
            return
        if len(self._typed or "") < _VALUE - 1:
            self._typed = f"{self._typed or ''}{digit}"
            self.redraw()

    def turn(self, row: KnobRow, by: int) -> None:
        """Turn a knob by steps."""
        value = self.value_of(row)
        new = turned(row, value, by)
        if new == value:
            end = f"{show(value, row.zero)} is the end of its {'steps: digits give GiB' if row.size else 'range'}"
            self.post_message(self.Refused(f"{row.name}: {row.locked or end}"))
        else:
            self.want(row, new)

    def want(self, row: KnobRow, value: KnobValue) -> None:
        """Show ``value`` at once and propose it when the presses pause."""
        if row.locked:
            self.post_message(self.Refused(f"{row.name}: {row.locked}"))
            return
        self._wanted[row.name] = value
        if (timer := self._merging.pop(row.name, None)) is not None:
            timer.stop()
        self._merging[row.name] = self.set_timer(MERGE_S, lambda: self._propose(row.name))
        self.redraw()

    def _propose(self, name: str) -> None:
        self._merging.pop(name, None)
        value = self._wanted.pop(name, None)
        row = next((row for row in self.data.rows if row.name == name), None)
        if value is None or row is None:
            return
        if value != row.value:
            self.post_message(self.Proposed(name, value))
        self.redraw()

    # -- events --

    def on_blur(self) -> None:
        """A number that was being typed is dropped."""
        self._typed, self._refused = None, False
        self.redraw()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Choose the row; on an arrow, turn the knob."""
        zone = self.zone_at(event.x, event.y)
        if zone is None:
            return
        index = next((i for i, row in enumerate(self.data.rows) if row.name == zone.target), None)
        if index is None:
            return
        self._choose(index)
        if zone.action == "turn-down":
            self.turn(self.data.rows[index], -1)
        elif zone.action == "turn-up":
            self.turn(self.data.rows[index], 1)
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel turns the chosen knob up; elsewhere it moves the cursor."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel turns the chosen knob down; elsewhere it moves the cursor."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        event.stop()
        zone = self.zone_at(event.x, event.y)
        row = self.row
        if self.has_focus and zone is not None and row is not None and zone.target == row.name:
            self.turn(row, by)
        else:
            self.action_move(-by)

    # -- drawing --

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The panel."""
        rows = self.data.rows
        room = max(1, height - 1)
        self._top = max(0, min(self._top, len(rows) - room, self.cursor), self.cursor - room + 1)
        yield self._title(width, room)
        for place, index in enumerate(range(self._top, min(len(rows), self._top + room)), start=1):
            yield self._row(rows[index], width, place, chosen=index == self.cursor and self.has_focus)

    def _title(self, width: int, room: int) -> Line:
        rows, row = self.data.rows, self.row
        note = self.line()
        if self.data.note:
            note.add(self.text(self.data.note), "warn")
        elif self.has_focus and row is not None and row.hint:
            text, role = (row.status, row.status_role) if row.status_role != "faint" else (row.hint, "label")
            note.add(fit(self.text(text), min(len(text), width - 12), self.glyphs.ellipsis), role)
        elif len(rows) > room:
            note.add(f"{self._top + 1}-{min(len(rows), self._top + room)} of {len(rows)}", "faint")
        return self.rule(width, "Knobs", note, role="accent" if self.has_focus else "title")

    def _row(self, row: KnobRow, width: int, y: int, *, chosen: bool) -> Line:
        value = self.value_of(row)
        pending = value != row.value
        name_width = min(_NAME, max(12, width - _VALUE - 17))
        line = self.line().add(self.glyphs.cursor if chosen else " ", "accent")
        line.add(fit(row.name, name_width, self.glyphs.ellipsis), "value" if chosen else "label")
        arrow = "faint" if row.locked else ("accent" if chosen else "label")
        left = line.width
        line.add(f" {self.glyphs.less} ", arrow)
        middle = line.width
        if chosen and self._typed is not None:
            line.add(f"{self._typed + '_':^{_VALUE}}", "cursor")
        else:
            line.add(f"{show(value, row.zero):^{_VALUE}}", "pending" if pending else "value")
        right = line.width
        line.add(f" {self.glyphs.more} ", arrow)
        self.zones += [
            Zone(y, left, middle, "turn-down", row.name),
            Zone(y, right, line.width, "turn-up", row.name),
            Zone(y, 0, width, "choose", row.name),
        ]
        status, role = ("asking", "pending") if pending else (row.status, row.status_role)
        room = width - line.width - 2
        if len(status) > room and row.short_status and not pending:
            status = row.short_status
        return line.add(" ").add(fit(self.text(status), min(len(status), room), self.glyphs.ellipsis), role)
