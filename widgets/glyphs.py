"""Glyph sets: every sign that a widget draws, in Unicode and in plain ASCII.

All glyphs are one cell wide, so that swapping the set never moves a column. A phase and a cause keep their hatch or
letter in every theme: colour repeats what they say and never says it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prover.model import Cause, Phase, Priority

CAUSE_LETTER: Mapping[Cause, str] = {
    Cause.REQUESTS: "i",
    Cause.PAUSED: "p",
    Cause.SYNTHESIS: "s",
    Cause.MEMORY: "m",
    Cause.LOCK: "l",
    Cause.TRANSFER: "c",
    Cause.WORKERS: "w",
    Cause.LOST: "x",
}
"""The letter under a gap in the lane (``i`` for idle: nothing was asked; ``c`` for copying)."""

PHASE_WORD: Mapping[Phase, str] = {
    Phase.SYNTHESIS: "synthesis",
    Phase.QUEUED: "wait",
    Phase.LOCK_WAIT: "lock",
    Phase.SETUP: "set-up",
    Phase.H2D: "copy",
    Phase.NTT: "NTT",
    Phase.MSM: "MSM",
    Phase.D2H: "copy",
    Phase.FINALIZING: "finish",
    Phase.GPU: "device",
}
"""The word of a phase on screen. The two copies share one, as they share a hatch."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of signs."""

    name: str
    rule: str
    divider: str
    tee_down: str
    axis_start: str
    axis_fill: str
    axis_edge: str
    marker: str
    flow: str
    less: str
    more: str
    state: str
    change: str
    dash: str
    dot: str
    ellipsis: str
    rising: str
    falling: str
    level: str
    cursor: str
    times: str
    full: str
    empty: str
    area: tuple[str, ...]
    """Fill of one cell of the usage chart, empty to full."""
    busy: tuple[str, ...]
    """Share of a lane cell in which the device computed, none to all."""
    hatch: Mapping[Phase, str]
    priority: Mapping[Priority, str]
    """Before a job's name: nothing where it is normal."""
    frozen: str
    paused: str

    def fill(self, share: float) -> str:
        """The chart glyph for a share of 0..1 of one cell."""
        return _step(self.area, share)

    def busy_cell(self, share: float) -> str:
        """The lane glyph for a busy share: a gap of any length keeps the cell from being full."""
        top = len(self.busy) - 1
        if share >= 0.999:
            return self.busy[top]
        if share <= 0.001:
            return self.busy[0]
        return self.busy[min(top - 1, max(1, round(share * top)))]


def _step(ramp: tuple[str, ...], share: float) -> str:
    top = len(ramp) - 1
    return ramp[min(top, max(0, round(share * top)))]


UNICODE = Glyphs(
    name="unicode",
    rule="─",
    divider="│",
    tee_down="┬",
    axis_start="└",
    axis_fill="─",
    axis_edge="│",
    marker="▲",
    flow="▸",
    less="◂",
    more="▸",
    state="◆",
    change="→",
    dash="–",
    dot="·",
    ellipsis="…",
    rising="↗",
    falling="↘",
    level="→",
    cursor="▌",
    times="×",
    full="▰",
    empty="▱",
    area=(" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"),
    busy=(" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"),
    hatch={
        Phase.SYNTHESIS: "░",
        Phase.QUEUED: "·",
        Phase.LOCK_WAIT: "▒",
        Phase.SETUP: "▏",
        Phase.H2D: "▚",
        Phase.NTT: "▓",
        Phase.MSM: "█",
        Phase.D2H: "▚",
        Phase.FINALIZING: "▕",
        Phase.GPU: "█",
    },
    priority={Priority.CRITICAL: "!", Priority.HIGH: "↑", Priority.NORMAL: " ", Priority.LOW: "↓"},
    frozen="❄",
    paused="‖",
)

ASCII = Glyphs(
    name="ascii",
    rule="-",
    divider="|",
    tee_down="+",
    axis_start="+",
    axis_fill="-",
    axis_edge="|",
    marker="^",
    flow=">",
    less="<",
    more=">",
    state="*",
    change=">",
    dash="-",
    dot=".",
    ellipsis="~",
    rising="^",
    falling="v",
    level="=",
    cursor=">",
    times="x",
    full="#",
    empty="-",
    area=(" ", ".", ":", "|"),
    busy=(" ", ".", "-", "=", "#"),
    hatch={
        Phase.SYNTHESIS: "s",
        Phase.QUEUED: ".",
        Phase.LOCK_WAIT: "l",
        Phase.SETUP: "u",
        Phase.H2D: "c",
        Phase.NTT: "n",
        Phase.MSM: "M",
        Phase.D2H: "c",
        Phase.FINALIZING: "f",
        Phase.GPU: "#",
    },
    priority={Priority.CRITICAL: "!", Priority.HIGH: "^", Priority.NORMAL: " ", Priority.LOW: "v"},
    frozen="*",
    paused="=",
)


def to_ascii(text: str) -> str:
    """``text`` with the few non-ASCII signs of our own sentences replaced, anything else as ``?``."""
    return text.translate(_ASCII_SIGNS).encode("ascii", "replace").decode("ascii")


_ASCII_SIGNS = str.maketrans(
    {
        "·": "-",
        "–": "-",
        "—": "-",
        "×": "x",
        "→": ">",
        "←": "<",
        "↑": "^",
        "↓": "v",
        "…": "~",
        "↗": "^",
        "↘": "v",
        "±": "~",
        "°": "d",
    }
    | {"▸": ">", "◂": "<", "’": "'", "“": '"', "”": '"'}
)
