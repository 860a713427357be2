"""What the spool keeps of its inputs, and the word that other threads leave with it."""

from __future__ import annotations

import enum
from concurrent.futures import Future
from dataclasses import dataclass, field

from prover.file_input import FileInput
from prover.formats.errors import printable
from prover.pipeline.interfaces import JobResult
from prover.pipeline.spool_files import Identity


class State(enum.Enum):
    """Where an input stands."""

    WAITING = "waiting"
    """It may still be written."""
    READY = "ready"
    RUNNING = "running"
    PROVED = "proved"
    """Its outputs could not be written yet."""
    OVER = "over"
    """Proved, or left where it is; nothing happens until it changes."""


@dataclass(eq=False, slots=True)
class Entry:
    """An input in the folder."""

    name: str
    stem: str
    identity: Identity
    changed: float
    """When it was last seen to change."""
    state: State = State.WAITING
    suspect: bool = False
    """It failed, and may be cut short."""
    job: str | None = None
    item: FileInput | None = None
    result: JobResult | None = None

    @property
    def shown(self) -> str:
        """Its name, for messages."""
        return printable(self.name, 80)


@dataclass(slots=True)
class Counts:
    """What became of the inputs in this session."""

    taken: int = 0
    delivered: int = 0
    rejected: int = 0
    cancelled: int = 0
    found: int = 0
    """That had their outputs already."""


Ended = tuple[str, str, Future[JobResult]]
"""The name of an input, its job, and what came of it."""


@dataclass(slots=True)
class News:
    """What other threads left word of."""

    everything: bool = True
    names: set[str] = field(default_factory=set)
    ended: list[Ended] = field(default_factory=list)
