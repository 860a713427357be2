"""The registry of actions: one entry each, from which keys, footer, help, palette and docs are made.

Every action has an id under which its keys can be changed, and a sentence that says what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import Binding


class Scope(StrEnum):
    """Where an action works: everywhere, or while a panel has the focus."""

    CONSOLE = "Everywhere"
    KNOBS = "In the knobs"
    LOG = "In the log"
    REPLAY = "In a replay"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that the operator can do."""

    id: str
    keys: tuple[str, ...]
    shown: str
    """The key as help and footer write it."""
    label: str
    """A word or two for the footer."""
    description: str
    act: str
    """Textual's action string, without namespace: it runs on the console or on the focused panel."""
    scope: Scope = Scope.CONSOLE
    footer: bool = False
    priority: bool = False
    changes: bool = False
    """Whether it changes the engine: refused when read-only."""


ACTIONS: tuple[Action, ...] = (
    Action("help", ("question_mark", "f1"), "?", "help", "Show this help", "help", footer=True),
    Action(
        "palette", ("ctrl+p",), "^p", "commands", "Find and run any command by name", "command_palette", footer=True
    ),
    Action("knobs", ("k",), "k", "knobs", "Go to the knobs", "focus_knobs", footer=True),
    Action("log", ("l",), "l", "log", "Go to the log", "focus_log", footer=True),
    Action("freeze", ("space",), "space", "freeze", "Hold the picture still; proving goes on", "freeze", footer=True),
    Action("pause", ("p",), "p", "pause", "Begin nothing new; again: go on", "pause_engine", footer=True, changes=True),
    Action("undo", ("u",), "u", "undo", "Take back the last change of a knob", "undo", footer=True, changes=True),
    Action(
        "window-shorter",
        ("left_square_bracket",),
        "[",
        "zoom in",
        "Show a shorter stretch of time",
        "window(-1)",
        footer=True,
    ),
    Action(
        "window-longer",
        ("right_square_bracket",),
        "]",
        "zoom out",
        "Show a longer stretch of time",
        "window(1)",
        footer=True,
    ),
    Action("theme", ("t",), "t", "theme", "Next theme", "next_theme", footer=True),
    Action("next-panel", ("tab",), "tab", "next panel", "Go to the next panel", "next_panel"),
    Action("leave-panel", ("escape",), "esc", "leave panel", "Leave the panel, close a window", "leave_panel"),
    Action("picture", (), "", "picture", "Save a picture of the screen (SVG)", "save_picture"),
    Action("quit", ("q", "ctrl+c", "ctrl+q"), "q", "quit", "Stop proving and leave", "leave", footer=True),
    Action("knob-up", ("up",), "↑", "up", "The knob above", "move(-1)", Scope.KNOBS),
    Action("knob-down", ("down",), "↓", "down", "The knob below", "move(1)", Scope.KNOBS),
    Action("knob-less", ("left", "minus"), "←", "less", "Turn the knob down", "turn(-1)", Scope.KNOBS, changes=True),
    Action("knob-more", ("right", "plus"), "→", "more", "Turn the knob up", "turn(1)", Scope.KNOBS, changes=True),
    Action(
        "knob-set",
        ("enter",),
        "enter",
        "set",
        "Set the number that was typed; next choice",
        "commit",
        Scope.KNOBS,
        changes=True,
    ),
    Action("knob-erase", ("backspace",), "bksp", "erase digit", "Erase the last digit typed", "erase", Scope.KNOBS),
    Action(
        "knob-drop",
        ("escape",),
        "esc",
        "drop number",
        "Drop the number typed; else leave the panel",
        "drop",
        Scope.KNOBS,
    ),
    Action("log-up", ("up",), "↑", "up", "One line towards the past", "scroll_by(-1)", Scope.LOG),
    Action("log-down", ("down",), "↓", "down", "One line towards now", "scroll_by(1)", Scope.LOG),
    Action("log-page-up", ("pageup",), "pgup", "page up", "One page towards the past", "page_by(-1)", Scope.LOG),
    Action("log-page-down", ("pagedown",), "pgdn", "page down", "One page towards now", "page_by(1)", Scope.LOG),
    Action("log-left", ("left",), "←", "left", "Shift the view to the left", "sideways(-8)", Scope.LOG),
    Action("log-right", ("right",), "→", "right", "Shift the view to the right", "sideways(8)", Scope.LOG),
    Action(
        "log-begin", ("home", "g"), "home", "oldest", "The oldest line kept, from its beginning", "begin", Scope.LOG
    ),
    Action(
        "log-line-begin", ("0",), "0", "line begin", "Show lines from their beginning again", "line_begin", Scope.LOG
    ),
    Action("log-follow", ("end", "G"), "end", "follow", "The newest line, and follow", "follow", Scope.LOG),
)
"""All actions, in the order in which help and footer list them."""

REPLAY_ACTIONS: tuple[Action, ...] = (
    Action(
        "replay-pause",
        ("space",),
        "space",
        "pause",
        "Hold it, or let it go on",
        "play",
        Scope.REPLAY,
        footer=True,
    ),
    Action("replay-back", ("left",), "←", "-10 s", "Ten seconds back", "seek(-10)", Scope.REPLAY, footer=True),
    Action("replay-on", ("right",), "→", "+10 s", "Ten seconds on", "seek(10)", Scope.REPLAY, footer=True),
    Action("replay-far-back", ("shift+left", "pageup"), "pgup", "-5 min", "Five min back", "seek(-300)", Scope.REPLAY),
    Action("replay-far-on", ("shift+right", "pagedown"), "pgdn", "+5 min", "Five min on", "seek(300)", Scope.REPLAY),
    Action("replay-begin", ("home",), "home", "begin", "To the beginning", "seek_to(0)", Scope.REPLAY),
    Action("replay-end", ("end",), "end", "end", "To the end", "seek_to(1)", Scope.REPLAY),
    Action(
        "replay-step", ("full_stop",), ".", "step", "Stop at the next happening", "step(1)", Scope.REPLAY, footer=True
    ),
    Action("replay-step-back", ("comma",), ",", "step back", "Stop at the happening before", "step(-1)", Scope.REPLAY),
    Action("replay-faster", ("plus",), "+", "faster", "Play faster", "speed(1)", Scope.REPLAY, footer=True),
    Action("replay-slower", ("minus",), "-", "slower", "Play slower", "speed(-1)", Scope.REPLAY, footer=True),
)
"""What a replay adds."""

_NOT_IN_A_REPLAY = frozenset({"freeze"})


def offered(*, replay: bool) -> tuple[Action, ...]:
    """What help, footer and palette list: in a replay its own actions first, and none that would change an engine."""
    if not replay:
        return ACTIONS
    return REPLAY_ACTIONS + tuple(a for a in ACTIONS if not a.changes and a.id not in _NOT_IN_A_REPLAY)


BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}


def of(scope: Scope) -> tuple[Action, ...]:
    """The actions of one scope."""
    return tuple(action for action in (*ACTIONS, *REPLAY_ACTIONS) if action.scope is scope)


def bindings(scope: Scope) -> list[Binding]:
    """Textual bindings of one scope, each with its id."""
    from textual.binding import Binding

    return [
        Binding(
            ",".join(action.keys),
            action.act,
            action.description,
            show=action.footer,
            id=action.id,
            priority=action.priority,
            key_display=action.shown,
        )
        for action in of(scope)
        if action.keys
    ]


def digits() -> list[Binding]:
    """Bindings of the ten digits, which type a number into a knob.

    Bindings and not a key handler of the panel: a binding is looked up when its turn comes, a handler is chosen when
    the key arrives. Keys that come in one piece after the one that goes to the knobs belong to the knobs.
    """
    from textual.binding import Binding

    return [Binding(str(digit), f"digit({digit})", "Type a number", show=False) for digit in range(10)]


def clashes(actions: Iterable[Action] = ACTIONS) -> list[str]:
    """Keys that two actions of one scope claim, one line each."""
    seen: dict[tuple[Scope, str], str] = {}
    found: list[str] = []
    for action in actions:
        for key in action.keys:
            other = seen.setdefault((action.scope, key), action.id)
            if other != action.id:
                found.append(f"{key}: {other} and {action.id}")
    return found
