"""One device: its figures, the history of its use, and the lane in which every gap shows with its cause."""

from __future__ import annotations

from collections.abc import Iterable

from widgets.canvas import Canvas, Line
from widgets.device_rows import LEFT, RIGHT, WIDE, DeviceData, DeviceRows, Figure, GapFigure
from widgets.glyphs import UNICODE, Glyphs
from widgets.timegrid import TimeGrid

__all__ = ["DeviceData", "DevicePanel", "Figure", "GapFigure"]

_LEAST_BAD, _LEAST_WARNING = 40, 24
"""Cells that an alarm gets beside the title, whatever else has to go."""


class DevicePanel(Canvas[DeviceData]):
    """Title, figures, chart, lane, causes, axis, gaps. With six lines the figures move into the title."""

    def __init__(self, data: DeviceData, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(data, glyphs, id=id)
        self._rows = DeviceRows(self)

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The panel at this height: the chart takes what the other rows leave."""
        data, rows = self.data, self._rows
        compact = height < 7
        title = data.title.split(" · ")[0] if compact and width < WIDE else data.title
        yield self.rule(width, title, self._beside(width - len(title) - 8, compact))
        left = height - (5 if compact else 6)
        if not compact:
            yield self.line().add(" ").extend(rows.figures(data.figures, width - 1))
        if not compact and data.health and left > 2:
            left -= 1
            yield self.line().add(" ").extend(rows.figures(data.health, width - 1))
        grid = TimeGrid(data.now, data.window, max(10, width - LEFT - RIGHT))
        yield from rows.chart(data, grid, max(1, left))
        yield from rows.lane(data, grid)
        yield rows.axis(data, grid, data.asides if compact else ())
        yield rows.gaps(data, width)

    def _beside(self, room: int, compact: bool) -> Line:
        """What stands beside the title: alarms, then the figures of a low panel or the note of a higher one."""
        data, rows = self.data, self._rows
        brief = data.brief or data.figures
        wanted = rows.figures(brief, room).width + 3 if compact else 12
        least = _LEAST_BAD if any(alarm.role == "bad" for alarm in data.alarms[:1]) else _LEAST_WARNING
        line = rows.figures(data.alarms, max(least, room - wanted), at_least_one=True)
        left = room - line.width - (3 if line.width else 0)
        if compact:
            rest = rows.figures(brief, left)
        else:
            rest = self.line().add(next((t for t in map(self.text, data.notes) if len(t) <= left), ""), "label")
        return line.add(" · " if line.width and rest.width else "", "faint").extend(rest)
