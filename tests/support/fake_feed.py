"""The engine's feed over the modelled pipeline: the application's tests drive it by hand, on its own clock."""

from __future__ import annotations

import math

from fakes_console import FakeClock, FakeEngine

from console.feeds.engine import EngineFeed
from prover.model import DeviceSample, KnobValue
from prover.pipeline.interfaces import Receipt

WALL = 1_790_000_000.0


class FakeSampler:
    """CPU use that rises and falls."""

    problem: str | None = None

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine

    def start(self) -> None:
        pass

    def stop(self, timeout_s: float) -> None:
        pass

    def samples(self, since: float) -> tuple[DeviceSample, ...]:
        first = math.ceil(max(self.engine.started, since) * 4)
        return tuple(
            DeviceSample(
                at=tick / 4,
                ordinal=0,
                source="host",
                cpu=72 + 24 * math.sin(tick / 9) + 4 * math.sin(tick * 1.7),
                memory_used=6_200_000_000,
                memory_total=25_769_803_776,
            )
            for tick in range(first, math.floor(self.engine.clock.at * 4) + 1)
        )


class FakeFeed(EngineFeed):
    """``EngineFeed`` over ``FakeEngine``, with lines given by hand and calls remembered."""

    def __init__(self, engine: FakeEngine | None = None) -> None:
        self.engine = engine or FakeEngine(FakeClock())
        super().__init__(
            self.engine,
            sampler=FakeSampler(self.engine),
            clock=self.engine.clock,
            wall=lambda: WALL + self.engine.clock.at,
        )
        self.lines: list[str] = []
        self.problem: str | None = None
        self.calls: list[tuple[str, KnobValue | None]] = []

    @property
    def log_name(self) -> str:
        return "engine"

    @property
    def log_problem(self) -> str | None:
        return self.problem

    def take_lines(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def propose(self, name: str, value: KnobValue) -> Receipt:
        self.calls.append((name, value))
        return super().propose(name, value)

    def undo(self) -> Receipt:
        self.calls.append(("undo", None))
        return super().undo()
