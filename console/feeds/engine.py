"""The feed of the engine in this process: polls it, folds its events, and makes one frame a tick.

Cheap things (states, lane, partitions) are looked at every tick; figures over minutes and the sentences once a second,
so that they can be read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from console.analysis.diagnosis import PAUSED, Evidence, diagnose, none_selected
from console.analysis.headline import LASTING_S, STRETCH_S, headline
from console.analysis.throughput import throughput
from console.feeds.interfaces import GpuSource
from console.feeds.lane import LaneHistory
from console.feeds.logs.follow_lines import LogFollower
from console.feeds.nvml.card import GpuCard, same_gpu
from console.frame import DeviceFrame, Diagnosis, FeedView, Frame, Headline, Notice, Throughput
from prover.intervals import Switch, length
from prover.model import Cause, DeviceSample, DeviceState, DeviceView, Event, EventKind, KnobValue, Snapshot
from prover.pipeline.interfaces import Change, EngineView, Receipt
from prover.pipeline.knobs import REGISTRY, KnobSpec, available_cores
from prover.rests import names_device
from prover.timeline import DeviceFigures, Timeline
from widgets.timegrid import LaneSegment, Marker

if TYPE_CHECKING:
    from console.recording.recorder import Recorder

HORIZON_S = 600.0
"""How far back figures and gaps look, unless a knob changed since: then they tell of the time after it."""
_SLOW_S = 1.0
_MARGIN_S = 2.0
"""Samples from before the window that its first column needs."""
_HOLD_S = 3.0
"""A sample of a GPU stands for no more than this."""
_LEAST_S = 15.0
"""A change is looked at apart once it is this old."""
_LEAST_GAP_S = 1e-3
"""On a GPU, whose events tell one launch from the next: what is shorter lies between two launches of one slot."""
_NOTICES = 8
_QUIET_KNOBS = frozenset({"log_level", "drain_timeout_s"})


class Hosted(EngineView, Protocol):
    """An engine view that can be started, watched and stopped."""

    @property
    def ready(self) -> bool:
        """Whether it runs."""

    @property
    def failure(self) -> BaseException | None:
        """What ended it."""

    @property
    def trouble(self) -> str | None:
        """What is wrong with it while it runs."""

    @property
    def idle(self) -> bool:
        """Whether nothing more will be proved unless somebody brings it."""

    def start(self) -> None:
        """Start it."""

    def stop(self, timeout_s: float) -> bool:
        """Stop it; whether it ended in time."""

    def drain(self, timeout_s: float) -> bool:
        """Let what was begun end, and nothing else begin; whether all of it ended in time."""


class Sampler(Protocol):
    """Counters of the machine, sampled by a thread of its own."""

    @property
    def problem(self) -> str | None:
        """Why there are no samples, if there are none."""

    def start(self) -> None:
        """Start sampling."""

    def stop(self, timeout_s: float) -> None:
        """Stop, waiting at most this long."""

    def samples(self, since: float) -> tuple[DeviceSample, ...]:
        """Samples after ``since``, oldest first."""


@dataclass(slots=True)
class _Slow:
    """What is worked out once a second."""

    at: float = float("-inf")
    window: float = 0.0
    over_s: float = 0.0
    throughput: Throughput = field(default_factory=Throughput)
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    headlines: dict[int, Headline] = field(default_factory=dict)
    figures: dict[int, DeviceFigures] = field(default_factory=dict)
    """Since ``at - over_s``: what the diagnosis and the throughput rest on."""
    shown: dict[int, DeviceFigures] = field(default_factory=dict)
    """Over the ``window`` that the lane shows."""
    asked: dict[int, Mapping[str, float | None]] = field(default_factory=dict)
    """How busy the GPUs were over that window by ``sm`` and ``driver``."""


class EngineFeed:
    """``Feed`` over a hosted engine."""

    def __init__(
        self,
        engine: Hosted,
        *,
        log_path: Path | None = None,
        log_name: str = "engine",
        sampler: Sampler | None = None,
        gpus: GpuSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        specs: Mapping[str, KnobSpec] | None = None,
        machine: str = "host",
        recorder: Recorder | None = None,
    ) -> None:
        """``sampler`` samples the machine that is called ``machine``; ``specs`` are the engine's knobs (None: the
        registry's); ``recorder`` writes all of it down.
        """
        self._specs = REGISTRY if specs is None else specs
        self._recorder = recorder
        self._machine = machine
        self._engine = engine
        self._sampler = sampler
        self._gpus = gpus
        self._log_name = log_name
        self._follower = LogFollower(log_path) if log_path is not None else None
        self._clock = clock
        self._wall = wall
        self._timeline = Timeline()
        self._markers: list[Marker] = []
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._changed_at = float("-inf")
        self._batch_waits = Switch()
        self._slow = _Slow()
        self._lanes: dict[int, LaneHistory] = {}
        self._ready = False

    # -- what the application asks --

    @property
    def specs(self) -> Mapping[str, KnobSpec]:
        """The registry."""
        return self._specs

    @property
    def log_name(self) -> str:
        """What is followed."""
        return self._log_name

    @property
    def log_problem(self) -> str | None:
        """What is wrong with the session or with the log."""
        if self._engine.trouble is not None:
            return self._engine.trouble
        if self._recorder is not None and self._recorder.trouble is not None:
            return self._recorder.trouble
        if self._follower is None:
            return "no log is kept"
        return self._follower.problem

    @property
    def failure(self) -> BaseException | None:
        """What ended the engine."""
        return self._engine.failure

    @property
    def ready(self) -> bool:
        """Whether the engine runs and has its workload."""
        return self._ready

    @property
    def idle(self) -> bool:
        """Whether nothing more will be proved unless somebody brings it."""
        return self._engine.idle

    def start(self) -> None:
        """Start engine, samplers and log."""
        if self._sampler is not None:
            self._sampler.start()
        if self._gpus is not None:
            self._gpus.start()
        if self._follower is not None:
            self._follower.start()
        if self._recorder is not None:
            self._recorder.start()
        self._engine.start()

    def stop(self, timeout_s: float) -> bool:
        """Stop all of them; whether the engine ended in time. With 0 they are only asked."""
        rest = min(timeout_s, 0.1)
        if self._follower is not None:
            self._follower.stop(rest)
        if self._sampler is not None:
            self._sampler.stop(rest)
        if self._gpus is not None:
            self._gpus.stop(rest)
        ended = self._engine.stop(timeout_s)
        if timeout_s > 0 and self._recorder is not None:
            self._recorder.stop()
        return ended

    def drain(self, timeout_s: float) -> bool:
        """Let the engine end what it began; whether it did within ``timeout_s``. ``stop`` cuts that short."""
        return self._engine.drain(timeout_s)

    def take_lines(self) -> list[str]:
        """New log lines."""
        return self._follower.take() if self._follower is not None else []

    def propose(self, name: str, value: KnobValue) -> Receipt:
        """Propose a value; stale proposals are refused by the engine."""
        snapshot = self._engine.snapshot()
        return self._engine.propose(Change(name, value, why="console", based_on=snapshot.knob_generation))

    def undo(self) -> Receipt:
        """Take back the last change."""
        return self._engine.undo()

    def poll(self, window: float) -> Frame:
        """Fold what is new; the picture now."""
        snapshot = self._engine.snapshot()
        if self._recorder is not None:
            self._recorder.show(snapshot)
        events = self._engine.events(self._timeline.last_seq)
        if events:
            self._timeline.fold(events)
            self._mark(events)
        now = max(snapshot.at, self._timeline.now)
        self._batch_waits.turn(snapshot.batch_waits, now)
        self._batch_waits.times.prune(now - HORIZON_S)
        self._ready = self._engine.ready and snapshot.activity is None
        slow = self._slow
        if now - slow.at >= _SLOW_S:
            slow = self._slow = self._work_out(snapshot, now)
        begin = max(snapshot.started, now - window)
        if slow.window != window:  # a change of the window looks again at what depends on it, and at no more
            slow.window, slow.shown = window, self._by_device(begin, now)
            slow.asked = self._asked(snapshot, begin)
        samples = self._sampler.samples(now - window - _MARGIN_S) if self._sampler is not None else ()
        cards = self._gpus.cards(now) if self._gpus is not None else ()
        devices = tuple(self._device(view, samples, cards, begin, now, slow) for view in snapshot.devices)
        return Frame(
            at=now,
            wall=self._wall(),
            window=window,
            snapshot=snapshot,
            devices=devices,
            throughput=slow.throughput,
            diagnosis=slow.diagnosis,
            markers=tuple(marker for marker in self._markers if marker.at > now - window),
            feeds=self._feeds(samples, cards, now),
            notices=tuple(self._notices),
            cards=cards,
            census=self._gpus.census if self._gpus is not None else None,
        )

    # -- folding --

    def _mark(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind in (EventKind.JOURNAL, EventKind.SPOOL):
                self._notices.append(Notice(event.seq, str(event.fields["line"]), bool(event.fields["trouble"])))
            if event.kind is not EventKind.KNOB_APPLIED:
                continue
            name = str(event.fields.get("name"))
            value = event.fields.get("value")
            if name in self._specs and isinstance(value, (int, str)):
                word = {True: "yes", False: "no"}[value] if isinstance(value, bool) else self._specs[name].show(value)
                self._markers.append(Marker(event.at, f"{name} → {word}"))
            if name not in _QUIET_KNOBS:
                self._changed_at = event.at
        del self._markers[:-200]

    def _device(
        self,
        view: DeviceView,
        host: Sequence[DeviceSample],
        cards: Sequence[GpuCard],
        begin: float,
        now: float,
        slow: _Slow,
    ) -> DeviceFrame:
        since = now - slow.window - _MARGIN_S
        # A host's samples are the machine's; a GPU's are found by its UUID, the one name that CUDA and NVML share.
        gpus = self._gpus if view.kind == "cuda" else None
        samples = gpus.samples(view.uuid, since) if gpus is not None else tuple(() if view.kind == "cuda" else host)
        history = self._lanes.setdefault(view.ordinal, LaneHistory(view.ordinal))
        lane = history.segments(self._timeline, begin, now)
        figures, shown = slow.figures.get(view.ordinal), slow.shown.get(view.ordinal)
        fresh = headline(view, (), now)
        # A state that lasts is told at once; shares of the last seconds wait for the next second.
        lasting = now - view.since >= LASTING_S or view.cause is Cause.PAUSED
        told = fresh if lasting else slow.headlines.get(view.ordinal, fresh)
        return DeviceFrame(
            view=view,
            headline=told,
            utilisation_by={
                **(shown.utilisation_by if shown is not None else {}),
                **slow.asked.get(view.ordinal, {}),
            },
            steady_utilisation=figures.steady_utilisation if figures is not None else None,
            lane=lane,
            samples=samples,
            driver=gpus.driver(view.uuid, since) if gpus is not None else (),
            card=next((card for card in cards if same_gpu(view.uuid, card.identity.uuid)), None),
            gaps_in_window=_count_gaps(lane, 0.0 if view.kind == "host" else _LEAST_GAP_S),
            clusters=shown.clusters if shown is not None else (),
            clusters_over_s=now - begin,
        )

    def _horizon(self, snapshot: Snapshot, now: float) -> float:
        """Where figures begin: at most ten minutes ago, after the start, and after the last change of a knob."""
        begin = max(snapshot.started, now - HORIZON_S)
        if self._changed_at > begin and now - self._changed_at >= _LEAST_S:
            begin = self._changed_at
        return begin

    def _work_out(self, snapshot: Snapshot, now: float) -> _Slow:
        timeline = self._timeline
        begin = self._horizon(snapshot, now)
        slow = _Slow(at=now, over_s=now - begin)
        whole = timeline.figures(begin, now)
        slow.figures = {device.ordinal: device for device in whole.devices}
        for view in snapshot.devices:
            last = timeline.segments(view.ordinal, max(snapshot.started, now - STRETCH_S), now)
            slow.headlines[view.ordinal] = headline(view, last, now)
        slow.throughput = throughput(whole, timeline.completions, begin, now, self._busiest)
        if snapshot.devices:
            slow.diagnosis = self._diagnose(snapshot, slow, begin, now)
        return slow

    def _busiest(self, start: float, end: float) -> float:
        """Busy seconds of the device that computed most."""
        timeline = self._timeline
        return max((length(timeline.busy(device, start, end)) for device in timeline.devices), default=0.0)

    def _by_device(self, begin: float, now: float) -> dict[int, DeviceFigures]:
        return {device.ordinal: device for device in self._timeline.figures(begin, now).devices}

    def _asked(self, snapshot: Snapshot, begin: float) -> dict[int, Mapping[str, float | None]]:
        """How busy the GPUs were since ``begin`` by their own counters and by the driver."""
        gpus = self._gpus
        return {
            view.ordinal: {
                "sm": _share([(sample.at, sample.sm) for sample in gpus.samples(view.uuid, begin)]),
                "driver": _share([(sample.at, sample.driver) for sample in gpus.driver(view.uuid, begin)]),
            }
            for view in snapshot.devices
            if gpus is not None and view.kind != "host"
        }

    def _diagnose(self, snapshot: Snapshot, slow: _Slow, begin: float, now: float) -> Diagnosis:
        if snapshot.paused:
            return PAUSED
        answering = [view for view in snapshot.devices if view.state is not DeviceState.LOST]
        wanted = next((str(knob.wanted) for knob in snapshot.knobs if knob.name == "gpu_devices"), "all")
        selected = [view for view in answering if names_device(wanted, view.ordinal)]
        if answering and not selected:
            return none_selected(wanted)
        view = (selected or snapshot.devices)[0]
        figures = slow.figures.get(view.ordinal)
        lost: dict[Cause, float] = {}
        gaps = figures.gaps if figures is not None else ()
        for gap in gaps:
            for cause, seconds in () if gap.between_runs else gap.parts:
                lost[cause] = lost.get(cause, 0.0) + seconds
        samples = self._sampler.samples(begin) if self._sampler is not None else ()
        cpu = [sample.cpu for sample in samples if sample.cpu is not None]
        return diagnose(
            Evidence(
                over_s=now - begin,
                busy_s=figures.busy_s if figures is not None else 0.0,
                lost_s=lost,
                gaps=len(gaps),
                phases=self._timeline.phase_statistics(begin),
                knobs={knob.name: knob.in_force for knob in snapshot.knobs},
                host=view.kind == "host",
                cpu_percent=sum(cpu) / len(cpu) if cpu else None,
                cores=available_cores(),
                batch_s=length(self._batch_waits.clip(begin, now)),
            )
        )

    def _feeds(self, samples: Sequence[DeviceSample], cards: Sequence[GpuCard], now: float) -> tuple[FeedView, ...]:
        feeds = [FeedView("engine", 0.0, self._engine.trouble)]
        if self._sampler is not None:
            age = now - samples[-1].at if samples else None
            feeds.append(FeedView(self._machine, age, self._sampler.problem))
        if self._gpus is not None:
            newest = max((card.at for card in cards if card.at is not None), default=None)
            problem = self._gpus.problem or next((card.problem for card in cards if card.problem), None)
            feeds.append(FeedView("nvml", now - newest if newest is not None else None, problem))
        if self._follower is not None:
            feeds.append(FeedView("log", None, self.log_problem))
        if self._recorder is not None:
            feeds.append(FeedView("recording", None, self._recorder.trouble))
        return tuple(feeds)


def _share(samples: Sequence[tuple[float, float | None]]) -> float | None:
    """The mean of percentages as a share, each for the time since the one before; ``None`` where none was measured."""
    total = weight = 0.0
    for (before, _), (at, value) in pairwise(samples):
        if value is not None:
            seconds = min(at - before, _HOLD_S)
            total += value * seconds
            weight += seconds
    return total / weight / 100 if weight > 0 else None


def _count_gaps(segments: Sequence[LaneSegment], least: float = 0.0) -> int:
    """Stretches without a kernel, of at least so many seconds, between two with one."""
    stretches = [(key, list(own)) for key, own in groupby(segments, key=lambda segment: segment.cause is None)]
    inner = stretches[1:-1]
    return sum(not computing and own[-1].end - own[0].start >= least for computing, own in inner)
