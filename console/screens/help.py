"""The help: all keys and how to read the screen, made from the registry of actions."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from console.actions import ACTIONS, Action, Scope
from prover.model import Phase
from widgets.glyphs import ASCII, PHASE_WORD, Glyphs, to_ascii

_READING = (
    (
        "lane",
        "one cell a stretch of time, filled from below by the share in which the device computed; then how many gaps",
    ),
    ("gap", "what was missing for the longest part of the cell:"),
    ("  s", "starved: nothing synthesised"),
    ("  m", "starved: no memory for another slot"),
    ("  l", "waiting for the device's lock"),
    ("  c", "copying"),
    ("  w", "work waits, no worker is free"),
    ("  i  p", "idle: nothing asked; paused"),
    ("  x", "the device is lost"),
    ("partition", "one whole instance of the circuit with a proof of its own; a job is several of them"),
    ("kernels", "share of the window in which a kernel (NTT, MSM) ran"),
    ("lock", "share in which a worker held the device"),
    ("timeline", "share in which a worker was anywhere between set-up and copy back"),
    ("driver", "share in which a kernel or a copy ran, as nvidia-smi counts it"),
    ("sm", "multiprocessors at work now, percent; occ their warps, int and fp64 their pipes, dram"),
    ("good, bad", "proofs of the device that verified, since ever; and that did not, none delivered"),
    ("steady", "use from first to last hand-over, start and end left out"),
    ("ceiling", "proofs a minute if the device never waited"),
    ("knobs", "the wanted value stands between the arrows; beside it what is in force, and until what"),
)
_INDENT, _WIDTH = 13, 72


def _reading(name: str, text: str) -> str:
    """One entry, wrapped under itself."""
    head = f"  {name:<{_INDENT - 3}} "
    return textwrap.fill(text, _WIDTH, initial_indent=head, subsequent_indent=" " * _INDENT)


def help_text(glyphs: Glyphs, actions: Sequence[Action] = ACTIONS) -> str:
    """The whole help as plain text."""
    lines: list[str] = []
    for scope in dict.fromkeys(action.scope for action in actions):
        lines.append(scope.value)
        for action in (action for action in actions if action.scope is scope):
            key = action.shown or "(palette)"
            lines.append(f"  {key:<10} {action.description}")
        lines.append("")
        if scope is Scope.KNOBS:
            lines[-1:] = [
                "  0-9        Type a number, enter sets it, esc drops it",
                "  wheel      Turns the chosen knob",
                "",
            ]
    lines.append("How to read it")
    lines += [_reading(name, text) for name, text in _READING]
    shown = [phase for phase in Phase if phase not in (Phase.GPU, Phase.D2H)]
    hatches = "   ".join(f"{glyphs.hatch[phase]} {PHASE_WORD[phase]}" for phase in shown)
    lines.append(_reading("bars", hatches))
    text = "\n".join(lines)
    return to_ascii(text) if glyphs is ASCII else text


class HelpScreen(ModalScreen[None]):
    """Keys and reading, over the screen that goes on living beneath."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,q,enter", "dismiss", "close"),
        Binding("down,j", "scroll(1)", "down", show=False),
        Binding("up", "scroll(-1)", "up", show=False),
    ]

    def __init__(self, glyphs: Glyphs, actions: Sequence[Action] = ACTIONS) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._actions = actions

    def compose(self) -> ComposeResult:
        """A box with text."""
        with VerticalScroll(id="help-box"):
            yield Static(Text(help_text(self._glyphs, self._actions)), id="help-text", markup=False)

    def on_mount(self) -> None:
        """Say how to leave."""
        box = self.query_one("#help-box")
        box.border_title = "Help"
        box.border_subtitle = "esc closes"

    def action_scroll(self, lines: int) -> None:
        """Scroll."""
        self.query_one("#help-box").scroll_relative(y=lines, animate=False)
