"""The seam between the memory budget and what is proved: how many bytes of this process a slot takes, and what lies
there for as long as the workload is loaded.

A workload that tells has an attribute ``footprint``; one without is not budgeted. A circuit answers from its counts
(``forecast.py``), a modelled box from its model, a test with numbers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from prover.pipeline.budget import Kind, Resident


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a slot takes at most, from the start of its synthesis to its release from the device."""

    vectors: int
    """Free once the device has taken what synthesis made."""
    rest: int
    """Free at the end."""


class FootprintModel(Protocol):
    """What a workload takes of this process's memory. All answers are instant: the engine asks under its lock."""

    def fixed(self, device_is_host: bool) -> Mapping[Kind, int]:
        """Bytes that are taken as long as the workload is loaded. ``device_is_host``: a device's memory is this
        process's too.
        """

    @property
    def residents(self) -> Sequence[Resident]:
        """What every slot reads, and what may go while none does: it comes back by itself when it is read again."""

    def slot(self, partitions: int, device_is_host: bool) -> Footprint:
        """What a slot of so many partitions takes."""

    def evict(self, name: str) -> None:
        """Free a resident. Called on a thread of its own, while no slot reads it; must not fail."""


@runtime_checkable
class Budgeted(Protocol):
    """A workload that tells what it takes."""

    footprint: FootprintModel | None


def footprint_of(workload: object) -> FootprintModel | None:
    """What a workload tells of its memory, or None."""
    return workload.footprint if isinstance(workload, Budgeted) else None


__all__ = ["Budgeted", "Footprint", "FootprintModel", "footprint_of"]
