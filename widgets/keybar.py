"""The last line: the keys that work now, each of them clickable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from widgets.canvas import Canvas, Line, Zone


@dataclass(frozen=True, slots=True)
class Key:
    """A key, what it does in a word or two, and the action behind it."""

    key: str
    label: str
    action: str


class KeyBar(Canvas[tuple[Key, ...]]):
    """As many keys as fit, in order of importance; the last one stays at the right end."""

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """One line."""
        line = self.line()
        keys = self.data
        if not keys:
            return
        last = self._item(keys[-1])
        for key in keys[:-1]:
            item = self._item(key)
            if line.width + item.width + last.width > width:
                break
            self._place(line, item, key)
        line.to(width - last.width)
        self._place(line, last, keys[-1])
        yield line

    def _item(self, key: Key) -> Line:
        return self.line().add(" ").add(self.text(key.key), "key").add(f" {self.text(key.label)} ", "label")

    def _place(self, line: Line, item: Line, key: Key) -> None:
        self.zones.append(Zone(0, line.width, line.width + item.width, key.action))
        line.extend(item)

    def on_click(self, event: events.Click) -> None:
        """Do what the key does."""
        if (zone := self.zone_at(event.x, event.y)) is not None:
            self.post_message(self.Pressed(zone.action))
