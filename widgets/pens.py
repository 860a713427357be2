"""Roles and their styles: what a cell means, and how the theme in use draws it.

A theme gives each role a colour as its variable ``pen-ROLE``. Weight and reversal are set here, once for colour and
once for terminals without: there the roles that must stand out do so by bold, underline or reverse.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from prover.model import Cause, DeviceState, Phase

DEFAULT_COLOURS: Mapping[str, str] = {
    "name": "#e6edf3",
    "title": "#a9bccd",
    "rule": "#2e3943",
    "label": "#7f8e9b",
    "value": "#d8e1e8",
    "faint": "#566370",
    "good": "#74b88a",
    "warn": "#d9a854",
    "bad": "#e5746c",
    "accent": "#6cb0f0",
    "cursor": "#6cb0f0",
    "pending": "#d9a854",
    "marker": "#c49bea",
    "usage": "#2f5876",
    "key": "#6cb0f0",
    "state-computing": "#5fa57a",
    "state-copying": "#4c9b9e",
    "state-lock-wait": "#a874b8",
    "state-starved": "#c08438",
    "state-no-worker": "#a8973f",
    "state-idle": "#46525e",
    "state-lost": "#d6524d",
    "phase-synthesis": "#5485c4",
    "phase-queued": "#5c6a77",
    "phase-lock_wait": "#a874b8",
    "phase-setup": "#8d99a3",
    "phase-h2d": "#4c9b9e",
    "phase-ntt": "#8fba72",
    "phase-msm": "#5fa57a",
    "phase-d2h": "#4c9b9e",
    "phase-finalizing": "#c2a95e",
    "phase-gpu": "#5fa57a",
    "log-time": "#566370",
    "log-error": "#e5746c",
    "log-warn": "#d9a854",
    "log-info": "#74b88a",
    "log-debug": "#7f8e9b",
    "log-field": "#7f8e9b",
}
"""Every role, with the colour that it has where a theme says nothing."""

ROLES = tuple(DEFAULT_COLOURS)

_WEIGHT: Mapping[str, Style] = {
    "name": Style(bold=True),
    "title": Style(bold=True),
    "accent": Style(bold=True),
    "bad": Style(bold=True),
    "log-error": Style(bold=True),
    "key": Style(bold=True),
    "cursor": Style(bold=True),
}
_PLAIN_WEIGHT: Mapping[str, Style] = {
    **_WEIGHT,
    "faint": Style(dim=True),
    "rule": Style(dim=True),
    "bad": Style(bold=True, underline=True),
    "warn": Style(bold=True),
    "pending": Style(bold=True, underline=True),
    "marker": Style(bold=True),
    "cursor": Style(bold=True, reverse=True),
    "key": Style(reverse=True),
    "state-lost": Style(bold=True, reverse=True),
}
_FILLED = frozenset({"cursor"})
"""Roles that colour the ground and write on it in the background's colour."""

STATE_OF_CAUSE: Mapping[Cause, DeviceState] = {
    Cause.REQUESTS: DeviceState.IDLE,
    Cause.PAUSED: DeviceState.IDLE,
    Cause.SYNTHESIS: DeviceState.STARVED,
    Cause.MEMORY: DeviceState.STARVED,
    Cause.LOCK: DeviceState.LOCK_WAIT,
    Cause.TRANSFER: DeviceState.COPYING,
    Cause.WORKERS: DeviceState.NO_WORKER,
    Cause.LOST: DeviceState.LOST,
}
"""The state that stands behind a cause, whose colour the cause wears."""


def state_role(state: DeviceState) -> str:
    """The role of a device state."""
    return f"state-{state.value}"


def phase_role(phase: Phase) -> str:
    """The role of a phase."""
    return f"phase-{phase.value}"


class Pens:
    """The styles of one widget's roles, resolved when first used and forgotten when the theme changes."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[tuple[str, str], Style] = {}

    def __getitem__(self, role: str) -> Style:
        return self.on(role, "")

    def on(self, role: str, ground: str) -> Style:
        """The style of ``role``, over the colour of the role ``ground`` where that is given."""
        style = self._styles.get((role, ground))
        if style is None:
            style = self._styles[role, ground] = self._resolve(role, ground)
        return style

    def clear(self) -> None:
        """Forget everything."""
        self._styles.clear()

    def _resolve(self, role: str, ground: str) -> Style:
        style = self._widget.rich_style
        plain = self._widget.app.no_color
        if role:
            style += (_PLAIN_WEIGHT if plain else _WEIGHT).get(role, Style.null())
            colour = self._colour(role)
            if role in _FILLED and not plain:
                style += Style(color=self._widget.rich_style.bgcolor, bgcolor=colour)
            else:
                style += Style(color=colour)
        if ground:
            style += Style(bgcolor=self._colour(ground))
        return style

    def _colour(self, role: str) -> RichColor:
        name = self._widget.app.theme_variables.get(f"pen-{role}", DEFAULT_COLOURS[role])
        return Color.parse(name).rich_color
