"""Slots that wait for a finalizer: who is foremost is asked when one is free, for priorities change meanwhile."""

from __future__ import annotations

from typing import Any

from prover.pipeline.records import Slot


class FinalizerQueue:
    """Slots with what their devices delivered. Methods are called with the engine's lock held."""

    def __init__(self) -> None:
        self._entries: list[tuple[Slot, Any]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, slot: Slot, pending: Any) -> None:
        """A slot waits."""
        self._entries.append((slot, pending))

    def take(self) -> tuple[Slot, Any] | None:
        """The foremost slot, or None if none waits."""
        if not self._entries:
            return None
        entry = min(self._entries, key=lambda entry: entry[0].key())
        self._entries.remove(entry)
        return entry

    def withdraw(self) -> list[Slot]:
        """Take out those that nobody wants any more."""
        gone = [slot for slot, _ in self._entries if slot.over]
        if gone:
            self._entries = [entry for entry in self._entries if not entry[0].over]
        return gone


__all__ = ["FinalizerQueue"]
