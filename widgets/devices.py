"""Several devices on one time axis: each has its line of figures and its lane, and its chart where there is room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from widgets.canvas import Canvas, Line
from widgets.device_rows import LEFT, RIGHT, DeviceData, DeviceRows
from widgets.glyphs import UNICODE, Glyphs
from widgets.pens import state_role
from widgets.timegrid import TimeGrid

_FRAME = 2
"""The title and the axis."""
_BESIDE = 40
"""Cells for the figures of a device that has a single row."""
_MOST_ROWS = 7
_ALL_FIGURES = 140
"""Cells from which the line of a device holds all its figures."""


def rows_wanted(devices: int) -> int:
    """The least rows in which each device has one."""
    return devices + _FRAME


@dataclass(frozen=True, slots=True)
class DevicesData:
    """The devices in their order; ``notes`` as of a single one."""

    title: str = ""
    devices: tuple[DeviceData, ...] = ()
    notes: tuple[str, ...] = ()


class DevicesPanel(Canvas[DevicesData]):
    """One row a device: its lane with the figures beside it. Two: figures, lane. Then letters, then a chart."""

    def __init__(self, data: DevicesData, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(data, glyphs, id=id)
        self._rows: list[DeviceRows] = []

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """All devices, as high as there is room for each; those that have none are counted."""
        devices = self.data.devices
        if not devices:
            return
        while len(self._rows) < len(devices):
            self._rows.append(DeviceRows(self))
        room = max(1, height - _FRAME)
        shown = devices if len(devices) <= room else devices[: max(1, room - 1)]
        each = min(_MOST_ROWS, room // len(shown))
        notes = (note for note in map(self.text, self.data.notes) if len(note) <= width - len(self.data.title) - 8)
        yield self.rule(width, self.data.title, self.line().add(next(notes, ""), "label"))
        right = _BESIDE if each == 1 else RIGHT
        first = shown[0]
        grid = TimeGrid(first.now, first.window, max(10, width - LEFT - right))
        spare = room - each * len(shown) if 1 < each < _MOST_ROWS else 0
        for place, (data, rows) in enumerate(zip(shown, self._rows, strict=False)):
            yield from self._device(data, rows, grid, each + (place < spare), width)
        if len(shown) < len(devices):
            yield self.line().add(f" and {len(devices) - len(shown)} more", "label")
        yield self._rows[0].axis(first, grid)

    def _device(self, data: DeviceData, rows: DeviceRows, grid: TimeGrid, each: int, width: int) -> Iterable[Line]:
        name = data.title.split(" · ")[0]
        if each == 1:
            lane, _ = rows.lane(data, grid, name.split(" ")[-1], count=False)
            yield lane.add(" ").extend(self._figures(data, rows, width - lane.width - 1))
            return
        head = self.line().add(f" {self.text(name)}  ", "title")
        yield head.extend(self._figures(data, rows, width - head.width))
        if each > 3:
            yield from rows.chart(data, grid, each - 3)
        lane, letters = rows.lane(data, grid)
        yield lane
        if each > 2:
            yield letters

    def _figures(self, data: DeviceData, rows: DeviceRows, room: int) -> Line:
        """State, figures and alarms, each if it has room; the worst alarms before the figures."""
        line = self.line().add(self.text(data.state.value), state_role(data.state))
        figures = data.brief if room < _ALL_FIGURES else data.figures
        bad = [alarm for alarm in data.alarms if alarm.role == "bad"]
        for part, needed in ((bad, True), (figures, False), ([a for a in data.alarms if a not in bad], False)):
            left = room - line.width - 2
            if part and left > 0:
                more = rows.figures(part, left, at_least_one=needed)
                line.add("  " if more.width else "").extend(more)
        return line
