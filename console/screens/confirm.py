"""Asking back before a change whose risk says so. The answer is no unless the operator says yes."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static


class ConfirmScreen(ModalScreen[bool]):
    """One question; ``y`` is yes, anything that closes it is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,enter,q", "answer(False)", "no"),
    ]

    def __init__(self, question: str, consequence: str) -> None:
        super().__init__()
        self._question = question
        self._consequence = consequence

    def compose(self) -> ComposeResult:
        """A box with the question, what it means, and the keys."""
        text = Text.assemble((self._question, "bold"), "\n\n", self._consequence, "\n\n", "y yes    n no (enter)")
        with Vertical(id="confirm-box"):
            yield Static(text, id="confirm-text", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
