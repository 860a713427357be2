"""The pipeline in the direction in which work flows, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from widgets.canvas import Canvas, Line
from widgets.device import Figure

_GAUGE = 8
_ROOMY = 118
"""From this width stations have their full names."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A station of the pipeline: its name, a short name for narrow screens, its figure, a word after it, a gauge."""

    name: str
    short: str
    value: str
    word: str = ""
    role: str = "value"
    filled: int = 0
    capacity: int = 0
    """Places of the gauge; none is drawn for 0."""
    beside: bool = False
    """Stands beside the station before it: nothing flows from there to here."""


@dataclass(frozen=True, slots=True)
class PipelineData:
    """The stations, then what they deliver."""

    stops: tuple[Stop, ...] = ()
    results: tuple[Figure, ...] = ()
    totals: tuple[Figure, ...] = ()


class PipelinePanel(Canvas[PipelineData]):
    """Title, flow, throughput. A narrow screen gets the short names, and the totals in the title."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """Three lines."""
        yield self.rule(width, "Pipeline", self._row(self.data.totals, "  "))
        yield self._flow(short=width < _ROOMY)  # by the screen's width alone: a figure must not change the form
        line = self.line().add(" ").extend(self._row(self.data.results, "   "))
        yield line if line.width <= width else self.line().add(" ").extend(self._row(self.data.results, "  "))

    def _row(self, figures: tuple[Figure, ...], between: str) -> Line:
        line = self.line()
        for figure in figures:
            if line.width:
                line.add(between)
            if figure.name:
                line.add(f"{self.text(figure.name)} ", "label")
            line.add(self.text(figure.value), figure.role)
        return line

    def _flow(self, *, short: bool) -> Line:
        line = self.line()
        for index, stop in enumerate(self.data.stops):
            line.add("   " if stop.beside else f" {self.glyphs.flow} " if index else " ", "faint")
            line.add(f"{stop.short if short else stop.name} ", "label").add(self.text(stop.value), stop.role)
            if stop.word and not short:
                line.add(f" {stop.word}", "label")
            if 0 < stop.capacity <= _GAUGE:
                filled = min(stop.filled, stop.capacity)
                line.add(" ").add(self.glyphs.full * filled, stop.role)
                line.add(self.glyphs.empty * (stop.capacity - filled), "faint")
        return line
