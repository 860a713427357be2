"""The main screen: header, device, pipeline, partitions, knobs beside the diagnosis, log, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from console.actions import ACTIONS, Action, Scope, bindings, digits
from console.frame import Frame
from console.screens import present
from console.screens.arrangement import Arrangement, arrange
from prover.model import DeviceState, JobState, Snapshot
from prover.pipeline.knobs import KnobSpec
from widgets.device import DeviceData, DevicePanel
from widgets.devices import DevicesData, DevicesPanel
from widgets.glyphs import Glyphs
from widgets.header import HeaderData, HeaderLine
from widgets.keybar import Key, KeyBar, KeyBarData
from widgets.knobs import KnobPanel, KnobsData
from widgets.logview import LogView
from widgets.partitions import PartitionsData, PartitionsPanel
from widgets.pipeline import PipelineData, PipelinePanel
from widgets.ruleline import RuleData, RuleLine
from widgets.sentences import SentencesData, SentencesPanel

_MOST_LINES = 18


class Knobs(KnobPanel):
    """The knobs panel with its keys from the registry."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.KNOBS), *digits()]


class Log(LogView):
    """The log with its keys from the registry."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.LOG)]


class OverviewScreen(Screen[None]):
    """One screen that answers the question; panels are assigned data, and nothing else."""

    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(
        self,
        glyphs: Glyphs,
        specs: Mapping[str, KnobSpec],
        *,
        read_only: bool,
        actions: Sequence[Action] = ACTIONS,
    ) -> None:
        super().__init__()
        self._specs = specs
        self._read_only = read_only
        self._lines_wanted = 0
        self._knob_count = len(present.PANEL_KNOBS)
        self._device_count = 1
        self._arranged: tuple[Arrangement, bool] | None = None
        self._log_title = ("Log", "")
        self.header = HeaderLine(HeaderData((), DeviceState.IDLE, "starting", ""), glyphs, id="header")
        self.device = DevicePanel(DeviceData("Device", 0.0, 60.0), glyphs, id="device")
        self.devices = DevicesPanel(DevicesData(), glyphs, id="devices")
        self.devices.display = False
        self.pipeline = PipelinePanel(PipelineData(), glyphs, id="pipeline")
        self.partitions = PartitionsPanel(PartitionsData(0.0), glyphs, id="partitions")
        self.knobs = Knobs(KnobsData(), glyphs, id="knobs")
        self.why = SentencesPanel(SentencesData("Why is the device not busy?"), glyphs, id="why")
        self.log_rule = RuleLine(RuleData("Log"), glyphs, id="log-rule")
        self.log_view = Log(glyphs, id="log")
        keys = tuple(Key(action.shown, action.label, action.act) for action in actions if action.footer)
        self.keys = KeyBar(KeyBarData(keys), glyphs, id="keys")

    def compose(self) -> ComposeResult:
        """All panels, top to bottom."""
        yield self.header
        yield self.device
        yield self.devices
        yield self.pipeline
        yield self.partitions
        with Horizontal(id="knobs-and-why"):
            yield self.knobs
            yield self.why
        yield self.log_rule
        yield self.log_view
        yield self.keys

    def show(self, frame: Frame, now: float, frozen_at: float | None = None) -> None:
        """Assign a frame to the panels."""
        self.header.data = present.header(frame, frozen_at, now)
        if len(frame.devices) > 1:
            self.devices.data = present.devices(frame)
        elif frame.devices:
            self.device.data = present.device(frame, frame.devices[0])
        self.pipeline.data = present.pipeline(frame)
        self.partitions.data = present.partitions(frame)
        self.why.data = present.why(frame)
        wanted = sum(len(job.partitions) for job in frame.snapshot.jobs if job.state is JobState.RUNNING)
        wanted = min(_MOST_LINES, max(wanted, self._lines_wanted))
        count = max(1, len(frame.devices))
        if (wanted, count) != (self._lines_wanted, self._device_count):
            self._lines_wanted, self._device_count = wanted, count
            self.rearrange()

    def show_frozen(self, frame: Frame, now: float, frozen_at: float) -> None:
        """Only the age of a frozen picture moves."""
        self.header.data = present.header(frame, frozen_at, now)

    def show_knobs(self, snapshot: Snapshot, now: float) -> None:
        """The knobs stay live in a frozen picture: turning one blind would be worse."""
        self.knobs.data = present.knobs(
            snapshot.knobs,
            now,
            self._specs,
            self._read_only,
            [device.ordinal for device in snapshot.devices],
            snapshot.pacer,
            snapshot.memory,
        )
        if len(self.knobs.data.rows) != self._knob_count and self.knobs.data.rows:
            self._knob_count = len(self.knobs.data.rows)
            self.rearrange()

    def show_log(self, lines: Sequence[str], name: str, problem: str | None) -> None:
        """Append to the log."""
        self.log_view.write(lines)
        self._log_title = (f"Log · {name}", problem or "")
        self._show_log_rule()

    def _show_log_rule(self) -> None:
        title, problem = self._log_title
        view = self.log_view
        if problem:
            note, role = problem, "warn"
        elif view.following:
            note, role = "following", "label"
        else:
            note, role = f"{view.below} lines below, end follows", "warn"
        if view.shifted:
            note, role = f"shifted by {view.shifted}, 0 shifts back · {note}", "warn"
        self.log_rule.data = RuleData(title, note, role, view.has_focus)

    def tell(self, notice: str, role: str = "value") -> None:
        """Put a notice in the last line; an empty one gives the line back to the keys."""
        self.keys.data = replace(self.keys.data, notice=notice, role=role)

    def reach(self, panel: KnobPanel | LogView) -> None:
        """Focus a panel. One that is hidden at this size gets its rows first."""
        if not panel.display:
            self.set_focus(None)
            panel.display = True
        self.set_focus(panel)  # at once: keys typed in the same breath belong to it

    def rearrange(self) -> None:
        """Give each panel its rows."""
        width, height = self.size
        if not width:
            return
        counts = self._knob_count, self._lines_wanted
        normal = arrange(width, height, *counts, devices=self._device_count)
        tall = self.log_view.has_focus and normal.log < 9
        made = arrange(width, height, *counts, log_tall=True, devices=self._device_count) if tall else normal
        several = self._device_count > 1
        if (made, several) == self._arranged:
            return
        self._arranged = made, several
        for panel, rows in (
            (self.device, 0 if several else made.device),
            (self.devices, made.device if several else 0),
            (self.pipeline, made.pipeline),
            (self.partitions, made.partitions),
            (self.knobs, made.knobs),
            (self.why, made.knobs),
        ):
            panel.display = rows > 0
            panel.styles.height = rows
        self.log_rule.display = self.log_view.display = made.log > 1
        self.knobs.styles.width = made.knobs_width

    def on_resize(self, event: events.Resize) -> None:
        """The terminal changed its size."""
        self.rearrange()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The log may grow when it has the focus."""
        self.rearrange()
        self._show_log_rule()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """And gives the room back."""
        self.call_after_refresh(self.rearrange)
        self._show_log_rule()

    def on_log_view_moved(self, event: LogView.Moved) -> None:
        """Say how far below the end is."""
        self._show_log_rule()
