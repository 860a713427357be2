"""A screen as plain text, from the very widgets that draw it: what ``--once`` prints and what tests compare."""

from __future__ import annotations

from rich.cells import cell_len
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget


def screen_text(screen: Screen[object]) -> str:
    """The visible text of a screen, one line a row, trailing blanks removed."""
    width, height = screen.size
    rows = [[" "] * width for _ in range(height)]
    for widget in screen.walk_children(Widget, with_self=False):
        if not widget.display or widget.children or not widget.region.area:
            continue
        region = widget.region
        strips = widget.render_lines(Region(0, 0, region.width, region.height))
        for offset, strip in enumerate(strips):
            if 0 <= region.y + offset < height:
                _paste(rows[region.y + offset], region.x, strip.text, width)
    return "\n".join("".join(row).rstrip() for row in rows)


def _paste(row: list[str], x: int, text: str, width: int) -> None:
    for sign in text:
        cells = cell_len(sign)
        if cells and 0 <= x < width:
            row[x] = sign
            for empty in range(x + 1, min(width, x + cells)):
                row[empty] = ""
        x += cells
