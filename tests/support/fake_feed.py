"""A feed over the modelled pipeline: the application's tests drive it by hand, on its own clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from fakes_console import FakeClock, FakeEngine

from console.frame import (
    DeviceFrame,
    Diagnosis,
    FeedView,
    Frame,
    GapCluster,
    Headline,
    Remark,
    Throughput,
)
from prover.model import Cause, DeviceSample, EventKind, KnobValue
from prover.pipeline.interfaces import Change, Receipt
from prover.pipeline.knobs import REGISTRY, KnobSpec
from widgets.timegrid import LaneSegment, Marker

WALL = 1_790_000_000.0


class FakeFeed:
    """``Feed`` over ``FakeEngine``."""

    def __init__(self, engine: FakeEngine | None = None) -> None:
        self.engine = engine or FakeEngine(FakeClock())
        self.lines: list[str] = []
        self.failure: BaseException | None = None
        self.problem: str | None = None
        self.started = False
        self.calls: list[tuple[str, object]] = []

    @property
    def specs(self) -> Mapping[str, KnobSpec]:
        return REGISTRY

    @property
    def log_name(self) -> str:
        return "engine.log"

    @property
    def log_problem(self) -> str | None:
        return self.problem

    @property
    def ready(self) -> bool:
        return self.started

    def start(self) -> None:
        self.started = True

    def take_lines(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def propose(self, name: str, value: KnobValue) -> Receipt:
        self.calls.append((name, value))
        return self.engine.propose(Change(name, value))

    def undo(self) -> Receipt:
        self.calls.append(("undo", None))
        return self.engine.undo()

    def stop(self, timeout_s: float) -> bool:
        self.started = False
        return True

    def poll(self, window: float) -> Frame:
        engine, now = self.engine, self.engine.clock.at
        snapshot = engine.snapshot()
        view = snapshot.devices[0]
        pieces = [*engine.lane, (engine.since, now, *engine.state)]
        lane = tuple(LaneSegment(*piece) for piece in pieces)
        recent = [piece for piece in lane if piece.end > now - window]
        span = max(1e-9, min(window, now - engine.started))
        busy = sum(min(p.end, now) - max(p.start, now - window) for p in recent if p.cause is None) / span
        gaps = [piece for piece in lane if piece.cause is not None and piece.end - piece.start > 0.005]
        words = {Cause.SYNTHESIS: "nothing synthesised", Cause.TRANSFER: "moving data"}
        sentence = (
            view.state.value if view.cause is None else f"{view.state.value}: {words.get(view.cause, view.cause)}"
        )
        device = DeviceFrame(
            view=view,
            headline=Headline(view.state, sentence),
            utilisation_by={"kernels": busy, "lock": min(1.0, busy + 0.02), "timeline": min(1.0, busy + 0.06)},
            steady_utilisation=busy,
            lane=lane,
            samples=self._samples(now, window),
            gaps_in_window=sum(piece.cause is not None for piece in recent),
            clusters=_clusters(gaps),
        )
        markers = tuple(
            Marker(event.at, f"{event.fields['name']} → {event.fields['value']}")
            for event in engine.log
            if event.kind is EventKind.KNOB_APPLIED
        )
        done = snapshot.counters.jobs_done
        return Frame(
            at=now,
            wall=WALL + now,
            window=window,
            snapshot=snapshot,
            devices=(device,),
            throughput=Throughput(
                60 * done / (now - engine.started) if done else None,
                1 if done > 2 else 0,
                (now - engine.started) / done if done else None,
                busy,
                60 / 10.4,
            ),
            diagnosis=Diagnosis(
                "synthesis",
                (
                    Remark("Limited by synthesis: the queue was empty at 31 of the last 38 picks.", "warn"),
                    Remark("A partition takes 1.90 s to synthesise and 1.36 s on the device."),
                    Remark("Try synthesis_concurrency 1 → 2.", "good"),
                ),
            ),
            markers=markers,
            feeds=(FeedView("engine", 0.0),),
        )

    def _samples(self, now: float, window: float) -> tuple[DeviceSample, ...]:
        first = math.ceil(max(self.engine.started, now - window - 2) * 4)
        return tuple(
            DeviceSample(
                at=tick / 4,
                ordinal=0,
                source="host",
                cpu=72 + 24 * math.sin(tick / 9) + 4 * math.sin(tick * 1.7),
                memory_used=6_200_000_000,
                memory_total=25_769_803_776,
            )
            for tick in range(first, math.floor(now * 4) + 1)
        )


def _clusters(gaps: list[LaneSegment]) -> tuple[GapCluster, ...]:
    counts = Counter(piece.cause for piece in gaps)
    clusters = []
    for cause, count in counts.most_common():
        lengths = sorted(piece.end - piece.start for piece in gaps if piece.cause is cause)
        assert cause is not None
        clusters.append(GapCluster(cause, count, lengths[count // 2], lengths[0], lengths[-1]))
    return tuple(clusters)
