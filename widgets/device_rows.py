"""What a device's panel is made of: rows of figures, the chart, the lane with its letters, the axis, the gaps.

Chart, lane, letters and axis share one time grid. A lane cell fills from below with the share of its time in which the
device computed; what is left wears the colour of what was missing, and the row beneath names it by letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.cells import cell_len

from prover.model import Cause, DeviceState
from widgets.canvas import Canvas, Line, fit
from widgets.figures import ago
from widgets.glyphs import CAUSE_LETTER, Glyphs
from widgets.pens import STATE_OF_CAUSE, state_role
from widgets.timegrid import LaneCell, LaneSegment, Marker, Settled, TimeGrid

LEFT = 6
"""Cells left of the time grid."""
RIGHT = 11
"""Cells right of it, where a row has something to say there."""
WIDE = 100
_LOWEST_STEP = 1 / 8
_ASIDE = 12
"""Where on the axis an aside begins: right of how long ago the window began."""
_QUIET = state_role(DeviceState.IDLE)
"""Too dark a colour for a letter on the background."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its name; ``role`` colours the number. A number whose unit tells what it is needs no name."""

    name: str
    value: str
    role: str = "value"
    line: tuple[float, ...] = ()
    """How it went so far, drawn before the number in its own scale; nothing for fewer than two points."""


@dataclass(frozen=True, slots=True)
class GapFigure:
    """A cluster of gaps: its cause and its size in words (``38 × 1.2 s (1.0–1.5)``)."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class DeviceData:
    """Everything that is shown of a device. ``samples`` are ``(time, 0..100)`` pairs, oldest first."""

    title: str
    now: float
    window: float
    state: DeviceState = DeviceState.IDLE
    notes: tuple[str, ...] = ()
    """The same in ever fewer words: the first that fits is shown beside the title."""
    asides: tuple[str, ...] = ()
    """The same for the time axis, where the title has no room for a note."""
    alarms: tuple[Figure, ...] = ()
    """What must not be overlooked, the worst first; beside the title at every size."""
    figures: tuple[Figure, ...] = ()
    brief: tuple[Figure, ...] = ()
    """The figures of a panel with a single line for them; without any, ``figures``."""
    health: tuple[Figure, ...] = ()
    """A second line of figures, where there is room."""
    usage_name: str = "cpu"
    usage_now: str = ""
    samples: tuple[tuple[float, float], ...] = ()
    lowest: bool = False
    """Whether a column of the chart shows its lowest sample, and not the mean of them."""
    lane: tuple[LaneSegment, ...] = ()
    markers: tuple[Marker, ...] = ()
    gaps_title: str = "gaps"
    gaps: tuple[GapFigure, ...] = ()
    gaps_in_window: int = 0


@dataclass(frozen=True, slots=True)
class _LaneSign:
    """How a column of the lane is drawn."""

    sign: str = " "
    letter: str = " "
    role: str = ""
    ground: str = ""


def drawn_line(line: Sequence[float], glyphs: Glyphs) -> str:
    """From the lowest step at its least to the highest at its most; a line that does not rise stays at the lowest."""
    if len(line) < 2:
        return ""
    least, range_ = min(line), max(line) - min(line)
    return "".join(glyphs.fill(max(_LOWEST_STEP, (point - least) / range_ if range_ else 0.0)) for point in line)


class DeviceRows:
    """Draws the rows of one device on a panel; columns that no longer change are worked out once."""

    def __init__(self, panel: Canvas[Any]) -> None:
        self._panel = panel
        self._means: Settled[float | None] = Settled()
        self._lowest = False
        self._cells: Settled[_LaneSign] = Settled()

    def figures(self, figures: Sequence[Figure], room: int, *, at_least_one: bool = False) -> Line:
        """As many as have room; of the first what has, if one must be there. Closer together if that shows more."""
        if room >= WIDE:
            line, all_there = self._spaced(figures, room, "   ", at_least_one)
            if all_there:
                return line
        return self._spaced(figures, room, "  ", at_least_one)[0]

    def chart(self, data: DeviceData, grid: TimeGrid, rows: int) -> Iterable[Line]:
        """The history of its use."""
        samples, panel = data.samples, self._panel
        work_out = grid.lowest if data.lowest else grid.mean
        if self._lowest != data.lowest:
            self._lowest, self._means = data.lowest, Settled()
        means = self._means.columns(grid, lambda since: work_out(samples, since))
        for row in range(rows):
            floor = rows - 1 - row
            cells = "".join(
                " " if mean is None else panel.glyphs.fill(min(1.0, max(0.0, mean / 100 * rows - floor)))
                for mean in means
            )
            line = self.gutter(data.usage_name if row == 0 else "").add(cells, "usage")
            if row == 0:
                line.add(f" {panel.text(data.usage_now):>{RIGHT - 2}}", "value")
            elif row == rows - 1 and rows > 2:
                line.add(f" {panel.text('0–100'):>{RIGHT - 2}}", "faint")
            yield line

    def lane(self, data: DeviceData, grid: TimeGrid, name: str = "lane", *, count: bool = True) -> tuple[Line, Line]:
        """When it computed and in which colour it did not, with the number of gaps; what was missing, by letter."""
        segments = data.lane
        signs = self._cells.columns(grid, lambda since: [self._lane_sign(c) for c in grid.lane(segments, since)])
        lane = self.gutter(name)
        for (role, ground), run in groupby(signs, key=lambda cell: (cell.role, cell.ground)):
            lane.add("".join(cell.sign for cell in run), role, ground)
        gaps = data.gaps_in_window
        named = f"{gaps if gaps < 10_000 else f'{gaps // 1000}k'} gap{'' if gaps == 1 else 's'}"
        if count:
            lane.add(f" {named:>9} ", "value" if gaps else "faint")
        letters = self.gutter("gap")
        for ground, run in groupby(signs, key=lambda cell: cell.ground):
            letters.add("".join(cell.letter for cell in run), "label" if ground == _QUIET else ground)
        return lane, letters

    def gutter(self, name: str) -> Line:
        """What stands left of the grid."""
        line = self._panel.line().add(f" {self._panel.text(name):<{LEFT - 2}}", "label")
        return line.add(self._panel.glyphs.axis_edge, "rule")

    def gaps(self, data: DeviceData, width: int) -> Line:
        """The gaps of the window by length and cause."""
        if not data.gaps:
            return self._gaps_title(data).add("   none yet", "faint")
        line = self._gap_row(data, short=False)
        return line if line.width <= width else self._gap_row(data, short=True, room=width)

    def axis(self, data: DeviceData, grid: TimeGrid, asides: Sequence[str] = ()) -> Line:
        """The time axis: its ends, a sign for every change of a knob, and what is said aside where that has room."""
        panel, glyphs = self._panel, self._panel.glyphs
        cells = [glyphs.axis_fill] * grid.columns
        roles = ["rule"] * grid.columns

        def put(at: int, text: str, role: str) -> None:
            for place, sign in enumerate(text, start=at):
                if 0 <= place < grid.columns:
                    cells[place], roles[place] = sign, role

        def free(at: int, length: int) -> bool:
            return at >= 0 and at + length <= grid.columns and all(role == "rule" for role in roles[at : at + length])

        newest_first = sorted(data.markers, key=lambda m: -m.at)
        placed = [(marker, at) for marker in newest_first if (at := grid.column(marker.at)) is not None]
        for _, at in placed:
            put(at, glyphs.marker, "marker")  # a sign is never covered by a label
        begin, end = f" {ago(grid.window)} ", " now "
        if free(1, len(begin)):
            put(1, begin, "label")
        named: set[int] = set()
        for marker, at in placed:
            if at in named:
                continue  # the newest of several in one cell names it
            named.add(at)
            text = panel.text(marker.text)
            if free(at + 1, len(text) + 3):
                put(at + 1, f" {text} ", "marker")
            elif free(at - len(text) - 3, len(text) + 3):
                put(at - len(text) - 2, f" {text} ", "marker")
        aside = next((t for t in map(panel.text, asides) if free(_ASIDE, len(t) + 2)), "")  # what is left is for it
        for at, text in ((_ASIDE, f" {aside} " if aside else ""), (grid.columns - len(end), end)):
            if free(at, len(text)):
                put(at, text, "label")
        line = panel.line().add(" " * (LEFT - 1)).add(glyphs.axis_start, "rule")
        start = 0
        for column in range(1, grid.columns + 1):
            if column == grid.columns or roles[column] != roles[start]:
                line.add("".join(cells[start:column]), roles[start])
                start = column
        return line

    def _spaced(self, figures: Sequence[Figure], room: int, between: str, at_least_one: bool) -> tuple[Line, bool]:
        panel = self._panel
        line = panel.line()
        for figure in figures:
            item = panel.line().add(between if line.width else "")
            if figure.name:
                item.add(panel.text(figure.name), "label").add(" ")
            item.add(drawn_line(figure.line, panel.glyphs), figure.role).add(" " if len(figure.line) > 1 else "")
            value = panel.text(figure.value)
            if at_least_one and not line.width:
                value = fit(value, min(cell_len(value), max(0, room - item.width)), panel.text("…"))
            item.add(value, figure.role)
            if line.width + item.width > room:
                return line, False
            line.extend(item)
        return line, True

    def _lane_sign(self, cell: LaneCell) -> _LaneSign:
        share, gap, glyphs = cell.share, cell.gap, self._panel.glyphs
        if share is None:
            return _LaneSign()
        computing = state_role(DeviceState.COMPUTING)
        if gap is None or share >= 0.999:
            return _LaneSign(glyphs.busy_cell(1.0), " ", computing, "")
        letter = CAUSE_LETTER[gap[1]] if gap[1] is not None else " "
        return _LaneSign(glyphs.busy_cell(share), letter, computing, state_role(gap[0]))

    def _gaps_title(self, data: DeviceData) -> Line:
        return self._panel.line().add(f" {self._panel.text(data.gaps_title)}", "label")

    def _gap_row(self, data: DeviceData, *, short: bool, room: int = 1000) -> Line:
        line = self._gaps_title(data)
        for gap in data.gaps:
            state = STATE_OF_CAUSE[gap.cause]
            words = gap.cause.value
            if not short and words not in state.value:
                words = f"{state.value} ({words})"
            item = self._panel.line().add("   ").add(CAUSE_LETTER[gap.cause], state_role(state))
            item.add(f" {words} ", "label").add(self._panel.text(gap.text), "value")
            if line.width + item.width > room:
                break
            line.extend(item)
        return line
