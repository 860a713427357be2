"""The last line: the keys that work now, each of them clickable; for some seconds, what the console has to say.

A message stands here and not over a panel, because what it tells of is in a panel, and often under the cursor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message

from widgets.canvas import Canvas, Line, Zone, fit


@dataclass(frozen=True, slots=True)
class Key:
    """A key, what it does in a word or two, and the action behind it."""

    key: str
    label: str
    action: str


@dataclass(frozen=True, slots=True)
class KeyBarData:
    """The keys in order of importance; ``notice``, while there is one, takes the place of all but the last."""

    keys: tuple[Key, ...] = ()
    notice: str = ""
    role: str = "value"


class KeyBar(Canvas[KeyBarData]):
    """As many keys as fit; the last one stays at the right end. A click on a notice takes it away."""

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    class Dismissed(Message):
        """The notice was clicked."""

    def has_room_for(self, notice: str) -> bool:
        """Whether a notice can be read whole."""
        return 0 < cell_len(notice) <= self.size.width - self._last().width - 3

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """One line."""
        line = self.line()
        data = self.data
        last = self._last()
        if data.notice:
            room = width - last.width - 3
            line.add(f" {self.glyphs.state} ", data.role)
            line.add(fit(self.text(data.notice), room, self.glyphs.ellipsis), data.role)
        for key in () if data.notice else data.keys[:-1]:
            item = self._item(key)
            if line.width + item.width + last.width > width:
                break
            self._place(line, item, key)
        if data.keys:
            line.to(width - last.width)
            self._place(line, last, data.keys[-1])
        yield line

    def _last(self) -> Line:
        return self._item(self.data.keys[-1]) if self.data.keys else self.line()

    def _item(self, key: Key) -> Line:
        return self.line().add(" ").add(self.text(key.key), "key").add(f" {self.text(key.label)} ", "label")

    def _place(self, line: Line, item: Line, key: Key) -> None:
        self.zones.append(Zone(0, line.width, line.width + item.width, key.action))
        line.extend(item)

    def on_click(self, event: events.Click) -> None:
        """Do what the key does."""
        if (zone := self.zone_at(event.x, event.y)) is not None:
            self.post_message(self.Pressed(zone.action))
        elif self.data.notice:
            self.post_message(self.Dismissed())
