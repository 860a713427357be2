"""How tall each panel is at a given size: a pure function, so that every size can be looked at in a test.

Order of care when rows are few: the device and its lane, the pipeline, partitions, knobs; the log gives way first.
"""

from __future__ import annotations

from dataclasses import dataclass

from widgets.devices import rows_wanted

LEAST_WIDTH, LEAST_HEIGHT = 80, 24
_WIDE = 110
"""From this width the diagnosis stands beside the knobs with room to speak."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Rows of each panel, titles included; 0 hides it. The log takes what is left."""

    device: int
    pipeline: int
    partitions: int
    knobs: int
    log: int
    knobs_width: int

    @property
    def total(self) -> int:
        """All rows: header and key bar besides the panels."""
        return 2 + self.device + self.pipeline + self.partitions + self.knobs + self.log


def arrange(
    width: int, height: int, knobs: int, lines_wanted: int, log_tall: bool = False, devices: int = 1
) -> Arrangement:
    """The arrangement of ``width`` x ``height`` cells.

    ``knobs``: how many there are; ``lines_wanted``: partition lines that would be used (partitions of running jobs);
    ``log_tall``: the log has the focus and is given the room of partitions and knobs; ``devices``: how many share
    the device rows.
    """
    rows = max(LEAST_HEIGHT, height) - 2
    device, pipeline = max(6, min(rows_wanted(devices), rows - 12)) if devices > 1 else 6, 3
    left = rows - device - pipeline
    if log_tall:
        partitions = 3 if left >= 16 else 0
        return _made(width, device, pipeline, partitions, 0, left - partitions)
    knob_rows = 1 + min(max(1, knobs), 5)
    partitions = 5
    short = max(0, knob_rows + partitions + 2 - left)
    partitions -= min(2, short)
    knob_rows -= max(0, short - 2)
    log = left - knob_rows - partitions
    spare, log = max(0, log - 2), min(log, 2)
    # Each further row goes where it helps most, in this order, up to what each can use.
    grow = _Growth(spare)
    if devices > 1:
        device += grow.take(max(0, 2 * devices + 2 - device))  # figures apart from the lane
        device += grow.take(devices)  # letters
    else:
        device += grow.take(1)  # the figures leave the title
        device += grow.take(2)  # a chart of three rows
    partitions += grow.take(min(4, max(0, lines_wanted + 1 - partitions)))
    knob_rows += grow.take(max(0, min(knobs, 8) + 1 - knob_rows))
    log += grow.take(3)
    partitions += grow.take(max(0, min(lines_wanted + 1, 18) - partitions))
    log += grow.take(3)
    device += grow.take(3 if devices == 1 else 2 * devices)
    knob_rows += grow.take(max(0, min(knobs, 12) + 1 - knob_rows))
    log += grow.left
    return _made(width, device, pipeline, partitions, knob_rows, log)


class _Growth:
    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, rows: int) -> int:
        taken = max(0, min(rows, self.left))
        self.left -= taken
        return taken


def _made(width: int, device: int, pipeline: int, partitions: int, knobs: int, log: int) -> Arrangement:
    width = max(LEAST_WIDTH, width)
    knobs_width = 46 if width < _WIDE else min(72, width // 2)
    return Arrangement(device, pipeline, partitions, knobs, log, knobs_width)
