"""One device: its figures, the history of its use, and the lane in which every gap shows with its cause.

Chart, lane, letters and axis share one time grid. A lane cell fills from below with the share of its time in which the
device computed; what is left wears the colour of what was missing, and the row beneath names it by letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len

from prover.model import Cause, DeviceState
from widgets.canvas import Canvas, Line, fit
from widgets.figures import ago
from widgets.glyphs import CAUSE_LETTER, UNICODE, Glyphs
from widgets.pens import STATE_OF_CAUSE, state_role
from widgets.timegrid import LaneCell, LaneSegment, Marker, Settled, TimeGrid

_LEFT = 6
_RIGHT = 11
_WIDE = 100
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


@dataclass(frozen=True, slots=True)
class GapFigure:
    """A cluster of gaps: its cause and its size in words (``38 × 1.2 s (1.0–1.5 s)``)."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True)
class DeviceData:
    """Everything the panel shows. ``samples`` are ``(time, 0..100)`` pairs, oldest first."""

    title: str
    now: float
    window: float
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


class DevicePanel(Canvas[DeviceData]):
    """Title, figures, chart, lane, causes, axis, gaps. With six lines the figures move into the title."""

    def __init__(self, data: DeviceData, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(data, glyphs, id=id)
        self._means: Settled[float | None] = Settled()
        self._lowest = False
        self._cells: Settled[_LaneSign] = Settled()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The panel at this height: the chart takes what the other rows leave."""
        data = self.data
        compact = height < 7
        title = data.title.split(" · ")[0] if compact and width < _WIDE else data.title
        yield self.rule(width, title, self._beside(width - len(title) - 8, compact))
        rows = height - (5 if compact else 6)
        if not compact:
            yield self.line().add(" ").extend(self._figures(data.figures, width - 1))
        if not compact and data.health and rows > 2:
            rows -= 1
            yield self.line().add(" ").extend(self._figures(data.health, width - 1))
        grid = TimeGrid(data.now, data.window, max(10, width - _LEFT - _RIGHT))
        yield from self._chart(grid, max(1, rows))
        yield from self._lane(grid)
        yield self._axis(grid, data.asides if compact else ())
        yield self._gaps(width)

    def _beside(self, room: int, compact: bool) -> Line:
        """What stands beside the title: alarms, then the figures of a low panel or the note of a higher one."""
        data = self.data
        line = self._figures(data.alarms, room // 2 if compact else room - 12, at_least_one=True)
        left = room - line.width - (3 if line.width else 0)
        if compact:
            rest = self._figures(data.brief or data.figures, left)
        else:
            rest = self.line().add(next((t for t in map(self.text, data.notes) if len(t) <= left), ""), "label")
        return line.add(" · " if line.width and rest.width else "", "faint").extend(rest)

    def _figures(self, figures: Sequence[Figure], room: int, *, at_least_one: bool = False) -> Line:
        """As many as have room; of the first what has, if one must be there."""
        line = self.line()
        between = "  " if room < _WIDE else "   "
        for figure in figures:
            item = self.line().add(between if line.width else "")
            if figure.name:
                item.add(self.text(figure.name), "label").add(" ")
            value = self.text(figure.value)
            if at_least_one and not line.width:
                value = fit(value, min(cell_len(value), max(0, room - item.width)), self.text("…"))
            item.add(value, figure.role)
            if line.width + item.width > room:
                break
            line.extend(item)
        return line

    def _gutter(self, name: str, edge: str) -> Line:
        return self.line().add(f" {name:<{_LEFT - 2}}", "label").add(edge, "rule")

    def _chart(self, grid: TimeGrid, rows: int) -> Iterable[Line]:
        samples = self.data.samples
        work_out = grid.lowest if self.data.lowest else grid.mean
        if self._lowest != self.data.lowest:
            self._lowest, self._means = self.data.lowest, Settled()
        means = self._means.columns(grid, lambda since: work_out(samples, since))
        for row in range(rows):
            floor = rows - 1 - row
            cells = "".join(
                " " if mean is None else self.glyphs.fill(min(1.0, max(0.0, mean / 100 * rows - floor)))
                for mean in means
            )
            line = self._gutter(self.data.usage_name if row == 0 else "", self.glyphs.axis_edge).add(cells, "usage")
            if row == 0:
                line.add(f" {self.text(self.data.usage_now):>{_RIGHT - 2}}", "value")
            elif row == rows - 1 and rows > 2:
                line.add(f" {self.text('0–100'):>{_RIGHT - 2}}", "faint")
            yield line

    def _lane(self, grid: TimeGrid) -> Iterable[Line]:
        segments = self.data.lane
        cells = self._cells.columns(grid, lambda since: [self._lane_cell(c) for c in grid.lane(segments, since)])
        count = self.data.gaps_in_window
        lane = self._gutter("lane", self.glyphs.axis_edge)
        for (role, ground), run in groupby(cells, key=lambda cell: (cell.role, cell.ground)):
            lane.add("".join(cell.sign for cell in run), role, ground)
        named = f"{count if count < 10_000 else f'{count // 1000}k'} gap{'' if count == 1 else 's'}"
        yield lane.add(f" {named:>9} ", "value" if count else "faint")
        letters = self._gutter("gap", self.glyphs.axis_edge)
        for ground, run in groupby(cells, key=lambda cell: cell.ground):
            letters.add("".join(cell.letter for cell in run), "label" if ground == _QUIET else ground)
        yield letters

    def _lane_cell(self, cell: LaneCell) -> _LaneSign:
        share, gap = cell.share, cell.gap
        if share is None:
            return _LaneSign()
        computing = state_role(DeviceState.COMPUTING)
        if gap is None or share >= 0.999:
            return _LaneSign(self.glyphs.busy_cell(1.0), " ", computing, "")
        letter = CAUSE_LETTER[gap[1]] if gap[1] is not None else " "
        return _LaneSign(self.glyphs.busy_cell(share), letter, computing, state_role(gap[0]))

    def _axis(self, grid: TimeGrid, asides: Sequence[str] = ()) -> Line:
        glyphs = self.glyphs
        cells = [glyphs.axis_fill] * grid.columns
        roles = ["rule"] * grid.columns

        def put(at: int, text: str, role: str) -> None:
            for place, sign in enumerate(text, start=at):
                if 0 <= place < grid.columns:
                    cells[place], roles[place] = sign, role

        def free(at: int, length: int) -> bool:
            return at >= 0 and at + length <= grid.columns and all(role == "rule" for role in roles[at : at + length])

        newest_first = sorted(self.data.markers, key=lambda m: -m.at)
        placed = [(marker, at) for marker in newest_first if (at := grid.column(marker.at)) is not None]
        for _, at in placed:
            put(at, glyphs.marker, "marker")  # a sign is never covered by a label
        for at, text in ((1, f" {ago(grid.window)} "), (grid.columns - 5, " now ")):
            if free(at, len(text)):
                put(at, text, "label")
        named: set[int] = set()
        for marker, at in placed:
            if at in named:
                continue  # the newest of several in one cell names it
            named.add(at)
            text = self.text(marker.text)
            if free(at + 1, len(text) + 3):
                put(at + 1, f" {text} ", "marker")
            elif free(at - len(text) - 3, len(text) + 3):
                put(at - len(text) - 2, f" {text} ", "marker")
        aside = next((t for t in map(self.text, asides) if free(_ASIDE, len(t) + 2)), "")
        put(_ASIDE, f" {aside} " if aside else "", "label")
        line = self.line().add(" " * (_LEFT - 1)).add(glyphs.axis_start, "rule")
        start = 0
        for column in range(1, grid.columns + 1):
            if column == grid.columns or roles[column] != roles[start]:
                line.add("".join(cells[start:column]), roles[start])
                start = column
        return line

    def _gaps(self, width: int) -> Line:
        if not self.data.gaps:
            return self._gaps_title().add("   none yet", "faint")
        line = self._gap_row(short=False)
        return line if line.width <= width else self._gap_row(short=True, room=width)

    def _gaps_title(self) -> Line:
        return self.line().add(f" {self.text(self.data.gaps_title)}", "label")

    def _gap_row(self, *, short: bool, room: int = 1000) -> Line:
        line = self._gaps_title()
        for gap in self.data.gaps:
            state = STATE_OF_CAUSE[gap.cause]
            words = gap.cause.value
            if not short and words not in state.value:
                words = f"{state.value} ({words})"
            item = self.line().add("   ").add(CAUSE_LETTER[gap.cause], state_role(state))
            item.add(f" {words} ", "label").add(self.text(gap.text), "value")
            if line.width + item.width > room:
                break
            line.extend(item)
        return line
