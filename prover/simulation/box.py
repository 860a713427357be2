"""A modelled box that runs: the engine over a model, with knobs that the model heeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from prover.memory_limits import MemoryLimits
from prover.model import KnobValue, Snapshot
from prover.pipeline.clock import EngineClock
from prover.pipeline.engine import Engine
from prover.pipeline.knobs import KnobSet, load_knobs
from prover.simulation.model import Model
from prover.simulation.workload import ModelledWorkload

if TYPE_CHECKING:
    from prover.pipeline.journal import Journal

NOTE = "SIMULATED: a modelled box, no proofs are made"


def modelled_knobs(
    model: Model,
    table: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
    base: Mapping[str, KnobValue] | None = None,
) -> KnobSet:
    """The knobs that a modelled box starts with: the model's own come before configuration and options."""
    return load_knobs(table, environment, assignments, {**(base or {}), **model.knobs})


class ModelledEngine(Engine):
    """The engine, whose picture says that it is simulated, and how much memory the model has in use."""

    def __init__(self, model: Model, knobs: KnobSet, clock: EngineClock, journal: Journal | None = None) -> None:
        self.model = model
        self.modelled = ModelledWorkload(model, clock, lambda: self.knobs)
        total = model.memory.total or None
        limits = MemoryLimits(total, None, total, 0)
        super().__init__(
            self.modelled, self.modelled.devices(), knobs, clock=clock, note=NOTE, journal=journal, limits=limits
        )

    def snapshot(self) -> Snapshot:
        """The picture now. Takes no lock and waits for nobody."""
        memory = self.modelled.memory
        return replace(super().snapshot(), simulated=True, memory_used=memory.used, memory_total=memory.total or None)
