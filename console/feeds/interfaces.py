"""What the application asks of a feed, be it the hosted engine, a daemon or a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from console.feeds.nvml.card import GpuCard
from console.feeds.nvml.census import Census
from console.frame import Frame
from prover.model import DeviceSample, KnobValue
from prover.pipeline.interfaces import Receipt
from prover.pipeline.knobs import KnobSpec


class GpuSource(Protocol):
    """What is known of the machine's GPUs, sampled by threads of its own. Every call returns at once."""

    @property
    def problem(self) -> str | None:
        """Why no GPU is seen, if none is."""

    @property
    def census(self) -> Census | None:
        """GPUs counted three ways, once that is done."""

    def start(self) -> None:
        """Start sampling."""

    def stop(self, timeout_s: float) -> None:
        """Stop, waiting at most this long."""

    def cards(self, now: float) -> tuple[GpuCard, ...]:
        """Every GPU as it stands."""

    def samples(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:
        """A GPU's samples after ``since``, oldest first."""

    def driver(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:
        """The driver's own samples of it after ``since``."""


class Feed(Protocol):
    """One source of frames and of log lines. Every call returns at once; all come from the interface's thread."""

    @property
    def specs(self) -> Mapping[str, KnobSpec]:
        """The knobs that this feed knows."""

    @property
    def log_name(self) -> str:
        """What the log pane shows, in a word or a file's name."""

    @property
    def log_problem(self) -> str | None:
        """Why the log stands still, if it does."""

    @property
    def failure(self) -> BaseException | None:
        """What ended the feed for good, if anything did."""

    @property
    def ready(self) -> bool:
        """Whether the engine runs (before that, frames tell what it prepares)."""

    @property
    def idle(self) -> bool:
        """Whether nothing more will be proved unless somebody brings it."""

    def start(self) -> None:
        """Start what it reads from, in threads of their own."""

    def poll(self, window: float) -> Frame:
        """The picture now, its lane over the last ``window`` seconds."""

    def take_lines(self) -> list[str]:
        """Log lines that came since the last call."""

    def propose(self, name: str, value: KnobValue) -> Receipt:
        """Ask for a knob's value."""

    def undo(self) -> Receipt:
        """Take back the last change."""

    def stop(self, timeout_s: float) -> bool:
        """Stop everything; whether all threads ended in time."""

    def drain(self, timeout_s: float) -> bool:
        """Begin nothing new, let what was begun end; whether all of it did within ``timeout_s``. ``stop`` follows."""
