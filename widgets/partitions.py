"""The partitions of the running jobs: one bar each, divided by phase, growing while it is worked on.

All bars share one scale, so lengths compare. How much is shown depends on the room and on how many jobs run, never on
the phase that a partition happens to be in: rows do not jump while work goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prover.model import JobState, JobView, PartitionState, PartitionView, Phase, Priority
from widgets.canvas import Canvas, Line, fit
from widgets.figures import seconds
from widgets.glyphs import PHASE_WORD
from widgets.pens import phase_role

_LEFT = 19
_LABEL = 4
_RIGHT = 22
_LEGEND = (
    Phase.SYNTHESIS,
    Phase.QUEUED,
    Phase.LOCK_WAIT,
    Phase.SETUP,
    Phase.H2D,
    Phase.NTT,
    Phase.MSM,
    Phase.FINALIZING,
)
_TITLE = "Partitions · each a whole circuit"
"""Where there is room: a partition is no part of a circuit, but an instance of it with a proof of its own."""
_ENDED = (PartitionState.DONE, PartitionState.FAILED, PartitionState.CANCELLED)
_PRIORITY_ROLE = {Priority.CRITICAL: "bad", Priority.HIGH: "warn", Priority.LOW: "faint"}
_LIVE = (JobState.RUNNING, JobState.WAITING)


@dataclass(frozen=True, slots=True)
class PartitionsData:
    """The jobs to show, in order, at the instant ``now``; ``empty`` is said when there are none."""

    now: float
    jobs: tuple[JobView, ...] = ()
    empty: str = ""
    critical_wait: str = ""
    """How long a critical job waits for a device at most, in words; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the panel: a partition of a job, or (``partition`` is ``None``) the job as a whole."""

    job: JobView
    partition: PartitionView | None
    place: int
    """Place within the job's block: the first two lines carry the job's name and note."""
    text: str = ""


def arrange(jobs: Sequence[JobView], rows: int) -> list[Row]:
    """Which lines to show in ``rows`` lines: every partition; else a window of each running job; else a line a job."""
    if rows <= 0 or not jobs:
        return []
    running = [job for job in jobs if job.state is JobState.RUNNING]
    waiting = [job for job in jobs if job.state is not JobState.RUNNING]
    reserve = min(1, len(waiting)) if rows > 2 else 0
    wanted = [max(1, len(job.partitions)) for job in running]
    room = rows - reserve
    if sum(wanted) > room and running:
        share = room // len(running)
        spare = room - share * len(running)
        wanted = [min(want, share + (index < spare)) for index, want in enumerate(wanted)]
        if share < 2:
            wanted = [1] * len(running)
    lines: list[Row] = []
    for job, count in zip(running, wanted, strict=True):
        if count >= len(job.partitions) or count > 1:
            lines += [Row(job, part, place) for place, part in enumerate(_window(job.partitions, count))]
        else:
            lines.append(Row(job, None, 0))
    lines += [Row(job, None, 0) for job in waiting]
    if len(lines) > rows:
        hidden = len(lines) - rows + 1
        last = lines[rows - 1]
        lines = [*lines[: rows - 1], Row(last.job, None, 0, text=f"and {hidden} more")]
    return lines


def _window(partitions: Sequence[PartitionView], count: int) -> Sequence[PartitionView]:
    """``count`` neighbouring partitions around the work: one ended one above the first that has not."""
    first = next((i for i, part in enumerate(partitions) if part.state not in _ENDED), len(partitions))
    begin = max(0, min(first - 1, len(partitions) - count))
    return partitions[begin : begin + count]


def phases_of(partition: PartitionView, now: float) -> list[tuple[Phase, float]]:
    """The partition's phases so far, each with its length; the one under way grows to ``now``."""
    phases = [(span.phase, span.seconds) for span in partition.spans]
    if partition.phase_began is not None and partition.state.value in Phase._value2member_map_:
        phases.append((Phase(partition.state.value), max(0.0, now - partition.phase_began)))
    return phases


def nice_step(value: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below ``value``."""
    if value <= 0:
        return 0.001
    power = 10.0 ** len(f"{int(value)}") if value >= 1 else 1.0
    while power / 10 >= value:
        power /= 10
    for part in (0.2, 0.5, 1.0):
        if part * power >= value * (1 - 1e-9):
            return part * power
    return power


def bar_cells(phases: Sequence[tuple[Phase, float]], scale: float, width: int) -> list[Phase]:
    """The phase of each cell of a bar at ``scale`` seconds a cell: whichever fills the most of it."""
    ends: list[float] = []
    total = 0.0
    for _, length in phases:
        total += length
        ends.append(total)
    cells: list[Phase] = []
    index = 0
    for cell in range(min(width, max(1 if total > 0 else 0, round(total / scale)))):
        left, right = cell * scale, min(total, (cell + 1) * scale)
        while index < len(ends) - 1 and ends[index] <= left:
            index += 1
        best, best_length = phases[index][0], 0.0
        for number in range(index, len(phases)):
            begin = ends[number - 1] if number else 0.0
            if begin >= right:
                break
            length = min(right, ends[number]) - max(left, begin)
            if length > best_length:
                best, best_length = phases[number][0], length
        cells.append(best)
    return cells


class PartitionsPanel(Canvas[PartitionsData]):
    """Title with the legend, then the lines of ``arrange``."""

    _scale = 0.0

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The panel."""
        yield self._title(width)
        data = self.data
        rows = arrange(data.jobs, height - 1)
        if not rows:
            yield self.line().add(" ").add(self.text(data.empty), "faint")
            return
        bar_width = max(8, width - _LEFT - _LABEL - _RIGHT - 1)
        self._rescale(rows, bar_width)
        ahead = 0
        for row in rows:
            if row.job.state is JobState.WAITING:
                ahead += 1
            yield self._row(row, bar_width, ahead)

    def _title(self, width: int) -> Line:
        legend = self.line()
        for phase in _LEGEND:
            item = self.line().add(self.glyphs.hatch[phase], phase_role(phase)).add(f" {PHASE_WORD[phase]}", "label")
            if legend.width + item.width + 22 > width:
                break
            if legend.width:
                legend.add("  ")
            legend.extend(item)
        said = _TITLE if legend.width + len(_TITLE) + 7 <= width else "Partitions"
        return self.rule(width, said, legend)

    def _rescale(self, rows: Sequence[Row], width: int) -> None:
        now = self.data.now
        longest = max(
            (sum(length for _, length in phases_of(row.partition, now)) for row in rows if row.partition is not None),
            default=0.0,
        )
        needed = longest / width
        if not self._scale or needed > self._scale or needed < self._scale / 3:
            self._scale = nice_step(needed)

    def _row(self, row: Row, width: int, ahead: int) -> Line:
        line = self._side(row)
        if row.text:
            return line.add(row.text, "faint")
        if row.partition is None:
            return self._job_bar(line, row.job, width, ahead)
        part = row.partition
        line.add(f"P{part.index:02d} ", "label")
        phases = phases_of(part, self.data.now)
        self._cells(line, bar_cells(phases, self._scale, width))
        line.to(_LEFT + _LABEL + width + 1)
        total = sum(length for _, length in phases)
        took = seconds(total, 7) if phases else " " * 7
        return line.add(took, "value").add("  ").extend(self._state(part))

    def _side(self, row: Row) -> Line:
        line = self.line()
        job = row.job
        if row.text or row.place > 2:
            pass
        elif row.place == 0:
            line.add(self.glyphs.priority[job.priority], _PRIORITY_ROLE.get(job.priority, ""))
            line.add(fit(self.text(job.id), 9, self.glyphs.ellipsis), "value")
            line.add(f"{job.done:>3}/{len(job.partitions)}", "label")
        elif row.place == 1 and job.started is not None:
            line.add(f"  {seconds(self.data.now - job.started)}", "faint")
        elif row.place == 2:
            line.add("  ").extend(self._due(job) or self._class(job))
        return line.to(_LEFT - 2).add(f"{self.glyphs.divider} ", "rule")

    def _due(self, job: JobView) -> Line | None:
        """When the job is to be done, if anybody said."""
        if job.deadline is None:
            return None
        left = job.deadline - self.data.now
        if left < 0:
            return self.line().add(f"late {seconds(-left)}", "bad")
        taken = self.data.now - job.submitted
        return self.line().add(f"due {seconds(left)}", "warn" if left < taken else "label")

    def _class(self, job: JobView) -> Line:
        line = self.line()
        return line if job.priority is Priority.NORMAL else line.add(job.priority.name.lower(), "label")

    def _cells(self, line: Line, cells: Sequence[Phase]) -> None:
        start = 0
        for index in range(1, len(cells) + 1):
            if index == len(cells) or cells[index] is not cells[start]:
                phase = cells[start]
                line.add(self.glyphs.hatch[phase] * (index - start), phase_role(phase))
                start = index

    def _state(self, part: PartitionView) -> Line:
        line = self.line()
        if part.state is PartitionState.DONE:
            return line.add("done", "good")
        if part.state is PartitionState.FAILED:
            return line.add("failed", "bad")
        if part.state in (PartitionState.PENDING, PartitionState.CANCELLED):
            return line.add(part.state.value, "faint")
        word = PHASE_WORD.get(Phase(part.state.value), part.state.value)
        if part.progress is not None:
            word += f" {part.progress * 100:.0f} %"
        return line.add(word, f"phase-{part.state.value}")

    def _job_bar(self, line: Line, job: JobView, width: int, ahead: int) -> Line:
        """The job as one line: a cell or more for each partition, hatched by where it stands."""
        if job.state not in _LIVE:
            role = "bad" if job.state is JobState.FAILED else "faint"
            return line.add(f"{job.state.value} {self.text(job.error or '')}".rstrip(), role)
        if job.state is JobState.WAITING:
            place = "next" if ahead == 1 else f"{_ordinal(ahead)} in line"
            line.add(f"({len(job.partitions)} pending, {place})", "faint")
            if job.priority is not Priority.NORMAL:
                line.add("  ").extend(self._class(job))
            if (due := self._due(job)) is not None:
                line.add("  ").extend(due)
            if job.priority is Priority.CRITICAL and self.data.critical_wait:
                line.add(f"  {self.data.critical_wait}", "faint")
            return line
        cell = max(1, min(4, (width + _LABEL) // max(1, len(job.partitions))))
        for part in job.partitions[: width + _LABEL]:
            if part.state is PartitionState.DONE:
                line.add(self.glyphs.hatch[Phase.MSM] * cell, "good")
            elif part.state.value in Phase._value2member_map_:
                phase = Phase(part.state.value)
                line.add(self.glyphs.hatch[phase] * cell, phase_role(phase))
            elif part.state is PartitionState.FAILED:
                line.add("!" * cell, "bad")
            else:
                line.add(self.glyphs.dot * cell, "faint")
        line.to(_LEFT + _LABEL + width + 1)
        busy = [part for part in job.partitions if part.state.value in Phase._value2member_map_]
        words = PHASE_WORD[Phase(busy[0].state.value)] if busy else ""
        took = seconds(self.data.now - job.started, 7) if job.started is not None else " " * 7
        return line.add(took, "value").add("  ").add(words, "label")


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
