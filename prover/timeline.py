"""The timeline: events in, intervals and questions out. What did a device do, why did it not compute?

Events are folded once, in any order of their times: everything is kept as sets of intervals, and a question is interval
arithmetic. Memory is bounded by the window. The definitions are the contract's ("Numbers", "Words").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from prover.figures import GapCluster, PhaseStatistics, ci95, gap_clusters, phase_statistics, stdev
from prover.intervals import (
    Interval,
    IntervalSet,
    Switch,
    clip_open,
    intersect,
    length,
    steady_utilisation,
    subtract,
)
from prover.model import KERNEL_PHASES, Cause, DeviceState, Event, EventKind, Phase
from prover.rests import Rests

PAUSE_S = 1.0
WINDOW_S = 900.0
_SETTLED_S = 2.0
_LEAST_GAP_S = 1e-3
_LATE = 64

Slot = tuple[str | None, tuple[int, ...]]


class Occupancy(NamedTuple):
    """What goes on around a device at one instant."""

    lost: bool = False
    """It answers no more."""
    kernel: bool = False
    """A kernel runs on it."""
    copy: bool = False
    """A slot on it is copied."""
    cpu: bool = False
    """A slot is on it but neither computes nor copies: set-up, or waiting for the lock."""
    paused: bool = False
    queued: bool = False
    """A finished slot waits for a worker."""
    memory: bool = False
    """The slot that is next to be synthesised waits for memory."""
    asked: bool = False
    """A partition waits for synthesis or is in it."""

    @classmethod
    def of(cls, phases: Iterable[Phase], **around: bool) -> Occupancy:
        """From the phases of the slots that are on the device, and the fields that are about what is around it."""
        present = set(phases)
        return cls(
            kernel=not present.isdisjoint(_KERNELS),
            copy=not present.isdisjoint(_COPY_PHASES),
            cpu=not present.isdisjoint(_CPU_PHASES),
            **around,
        )


_KERNELS = (*KERNEL_PHASES, Phase.GPU)
"""``gpu`` is all that a source tells which cannot divide it: an upper bound."""
_COPY_PHASES = (Phase.H2D, Phase.D2H)
_CPU_PHASES = (Phase.SETUP, Phase.LOCK_WAIT)
_STATES: tuple[tuple[DeviceState, Cause | None], ...] = (
    (DeviceState.LOST, Cause.LOST),
    (DeviceState.COMPUTING, None),
    (DeviceState.COPYING, Cause.TRANSFER),
    (DeviceState.LOCK_WAIT, Cause.LOCK),
    (DeviceState.IDLE, Cause.PAUSED),
    (DeviceState.NO_WORKER, Cause.WORKERS),
    (DeviceState.STARVED, Cause.MEMORY),
    (DeviceState.STARVED, Cause.SYNTHESIS),
)
"""What each field of ``Occupancy`` means for the device, the first that holds deciding."""
_NOTHING_ASKED = (DeviceState.IDLE, Cause.REQUESTS)


def device_state(occupancy: Occupancy) -> tuple[DeviceState, Cause | None]:
    """A device's state in words, and the cause if it does not compute."""
    for holds, words in zip(occupancy, _STATES, strict=True):
        if holds:
            return words
    return _NOTHING_ASKED


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one state on a device."""

    start: float
    end: float
    state: DeviceState
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Between the end of a busy interval and the start of the next. ``parts`` are seconds by cause, in order."""

    start: float
    end: float
    cause: Cause
    between_runs: bool
    parts: tuple[tuple[Cause, float], ...]

    @property
    def seconds(self) -> float:
        """Length."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Completion:
    """A job's end. ``picked`` is when a GPU worker first took one of its slots."""

    job: str
    submitted: float | None
    picked: float | None
    ended: float
    kind: EventKind


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """A device in a run. Undefined values are None."""

    ordinal: int
    busy_s: float
    gpu_active_s: float | None
    """``busy_s`` where it is by the device's own events; None where it is the union of the phases' wall times."""
    utilisation: float | None
    steady_utilisation: float | None
    utilisation_by: Mapping[str, float | None]
    """``kernels``, ``lock`` and ``timeline`` over the device window; ``sm`` and ``driver`` need a sampler."""
    idle_s_per_proof: float | None
    """(span - busy) a proof, ramp included: seconds a proof = busy a proof + this."""
    gaps: tuple[Gap, ...]
    clusters: tuple[GapCluster, ...]


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run: a stretch of requests without a pause. Spread is that of the times from one completion to the next."""

    start: float
    end: float
    proofs: int
    failed: int
    partitions: int
    seconds_per_proof: float | None
    stdev_s: float | None
    ci95_s: float | None
    steady_seconds_per_proof: float | None
    proofs_per_minute: float | None
    ceiling_proofs_per_minute: float | None
    devices: tuple[DeviceFigures, ...]


class _Open(NamedTuple):
    phase: Phase
    start: float
    worker: str | None


@dataclass(slots=True)
class _Lane:
    """One device."""

    kernels: IntervalSet = field(default_factory=IntervalSet)
    copies: IntervalSet = field(default_factory=IntervalSet)
    cpu: IntervalSet = field(default_factory=IntervalSet)
    locked: IntervalSet = field(default_factory=IntervalSet)
    sections: IntervalSet = field(default_factory=IntervalSet)
    by_events: bool = False
    """The device tells when its kernels ran: phases say nothing of that."""
    lost_since: float | None = None
    open: dict[Slot, _Open] = field(default_factory=dict)

    def layer(self, phase: Phase) -> IntervalSet:
        """Where a phase's intervals go; kernel phases are the host's work around them where events tell of these."""
        if phase in _KERNELS:
            return self.cpu if self.by_events else self.kernels
        return self.copies if phase in _COPY_PHASES else self.cpu

    def sets(self) -> tuple[IntervalSet, ...]:
        return (self.kernels, self.copies, self.cpu, self.locked, self.sections)


@dataclass(slots=True)
class _Request:
    """A job in flight."""

    submitted: float | None
    unsynthesised: int
    asked_since: float | None
    synthesised: float = float("-inf")
    """When the last synthesis ended."""
    picked: float | None = None
    reached: set[int] = field(default_factory=set)


_JOB_ENDS = (EventKind.JOB_DONE, EventKind.JOB_FAILED, EventKind.JOB_CANCELLED)


class Timeline:
    """Folds events; answers questions. Not thread-safe: one reader owns it."""

    def __init__(self, window_s: float | None = WINDOW_S, pause_s: float = PAUSE_S) -> None:
        self.window_s = window_s
        self.pause_s = pause_s
        self.last_seq = 0
        self.now = 0.0
        """The latest time that an event told."""
        self.missed = 0
        """Events that were overwritten before they were read."""
        self._lanes: dict[int, _Lane] = {}
        self._requests: dict[str, _Request] = {}
        self._late: dict[str, _Request] = {}
        """Failed jobs, the latest: a daemon goes on proving their other partitions."""
        self._in_flight = IntervalSet()
        self._asked = IntervalSet()
        self._queued = IntervalSet()
        self._queued_open: dict[Slot, float] = {}
        self._rests = Rests()
        self._memory = Switch()
        self._phases: dict[Phase, deque[tuple[float, float]]] = {phase: deque() for phase in Phase}
        self._active: dict[Phase, deque[tuple[float, float]]] = {phase: deque() for phase in KERNEL_PHASES}
        """Seconds of kernels in these phases, by the device's events."""
        self._completions: deque[Completion] = deque()
        self._reached: deque[tuple[float, int]] = deque()
        self._gaps: dict[tuple[int, float, float], Gap] = {}
        """Gaps that no late event can change any more."""

    # -- folding ------------------------------------------------------------------------------------------------------

    def fold(self, events: Iterable[Event]) -> None:
        """Take events in, each once, by rising ``seq``."""
        for event in events:
            if event.seq <= self.last_seq:
                continue
            if self.last_seq:
                self.missed += event.seq - self.last_seq - 1
            self.last_seq = event.seq
            self.now = max(self.now, event.at)
            self._fold(event)
        self._prune()

    def _fold(self, event: Event) -> None:
        kind = event.kind
        if "shared_with" in event.fields:
            self._fold_shared(event)
        elif kind is EventKind.SPAN:
            self._fold_span(event)
        elif kind is EventKind.PHASE_BEGAN:
            self._fold_began(event)
        elif kind is EventKind.JOB_SUBMITTED and event.job is not None:
            count = event.fields.get("partitions")
            partitions = int(count) if isinstance(count, int) else len(event.partitions)
            there = event.fields.get("resumed")  # proofs of an earlier session: nobody asks for them again
            partitions -= int(there) if isinstance(there, int) else 0
            self._requests[event.job] = _Request(event.at, partitions, event.at if partitions else None)
        elif kind in _JOB_ENDS:
            self._fold_job_end(event)
        elif kind is EventKind.KERNELS and event.device is not None and event.start is not None:
            lane = self._lanes.setdefault(event.device, _Lane())
            lane.by_events = True
            lane.kernels.add(event.start, event.at)
        elif kind is EventKind.PROOF_WITHHELD:
            self._fold_withheld(event)
        elif kind is EventKind.SLOT_REQUEUED:
            self._synthesised(event, len(event.partitions))
        elif kind is EventKind.DEVICE_LOST and event.device is not None:
            self._lanes.setdefault(event.device, _Lane()).lost_since = event.at
        elif kind is EventKind.PARTITION_FAILED:
            self._reach(event, event.at)
        elif kind is EventKind.PARTITION_CANCELLED:
            self._synthesised(event, -len(event.partitions))
        elif kind in (EventKind.KNOB_PROPOSED, EventKind.ENGINE_STARTED):
            self._rests.fold(event)
        elif kind is EventKind.MEMORY:
            self._memory.turn(bool(event.fields.get("waits")), event.at)

    def _fold_shared(self, event: Event) -> None:
        """A slot that was told already, by the first of the jobs that share it."""
        if event.kind is not EventKind.SPAN:
            return
        if event.phase is Phase.SYNTHESIS:
            self._synthesised(event, -len(event.partitions))
        elif event.phase is Phase.QUEUED and event.fields.get("ok") is not False:
            self._reach(event, event.at)

    def _fold_began(self, event: Event) -> None:
        slot = (event.job, event.partitions)
        if event.phase is Phase.QUEUED:
            self._queued_open[slot] = event.at
        elif event.device is not None and event.phase is not None:
            lane = self._lanes.setdefault(event.device, _Lane())
            # a worker has one slot at a time: one that it left without a word (a lost event) is no longer there
            for other in [key for key, was in lane.open.items() if was.worker == event.worker and key != slot]:
                del lane.open[other]
            lane.open[slot] = _Open(event.phase, event.at, event.worker)

    def _fold_span(self, event: Event) -> None:
        phase, start = event.phase, event.start
        if phase is None or start is None:
            return
        slot = (event.job, event.partitions)
        good = event.fields.get("ok") is not False
        if good and not event.fields.get("assumed"):
            self._phases[phase].append((event.at, event.at - start))
            active = event.fields.get("gpu_active_s")
            if isinstance(active, float) and phase in KERNEL_PHASES:
                self._active[phase].append((event.at, active))
        if phase is Phase.QUEUED:
            self._queued_open.pop(slot, None)
            self._queued.add(start, event.at)
            if good:
                self._reach(event, event.at)
        elif phase is Phase.SYNTHESIS:
            self._synthesised(event, -len(event.partitions))
        elif event.device is not None:
            lane = self._lanes.setdefault(event.device, _Lane())
            opened = lane.open.get(slot)
            if opened is not None and opened.phase is phase:
                del lane.open[slot]
            lane.layer(phase).add(start, event.at)
            lane.sections.add(start, event.at)
            if event.fields.get("locked"):
                lane.locked.add(start, event.at)

    def _synthesised(self, event: Event, change: int) -> None:
        request = self._requests.get(event.job or "")
        if request is None:
            return
        request.unsynthesised += change
        handed = event.fields.get("handed_over")  # later than its end, where the stage had more to do for it
        request.synthesised = max(request.synthesised, event.at, handed if isinstance(handed, float) else event.at)
        if request.unsynthesised > 0 and request.asked_since is None:
            request.asked_since = event.at
        elif request.unsynthesised <= 0 and request.asked_since is not None:
            self._asked.add(request.asked_since, request.synthesised)
            request.asked_since = None

    def _fold_withheld(self, event: Event) -> None:
        if event.fields.get("attempt") == 0:
            self._synthesised(event, len(event.partitions))

    def _reach(self, event: Event, at: float) -> None:
        request = self._requests.get(event.job or "") or self._late.get(event.job or "")
        if request is None:
            return
        if event.kind is EventKind.SPAN:
            request.picked = at if request.picked is None else min(request.picked, at)
        fresh = set(event.partitions) - request.reached
        if fresh:
            request.reached |= fresh
            self._reached.append((at, len(fresh)))

    def _fold_job_end(self, event: Event) -> None:
        job = event.job or ""
        request = self._requests.pop(job, None) or _Request(None, 0, None)
        if request.submitted is not None:
            # a job of no length still was there
            self._in_flight.add(request.submitted, max(event.at, request.submitted + 1e-9))
        if request.asked_since is not None:
            self._asked.add(request.asked_since, event.at)
        for slot in [slot for slot in self._queued_open if slot[0] == job]:
            self._queued.add(self._queued_open.pop(slot), event.at)
        if event.kind is EventKind.JOB_FAILED and job:
            self._late[job] = request
            if len(self._late) > _LATE:
                del self._late[next(iter(self._late))]
        self._completions.append(Completion(job, request.submitted, request.picked, event.at, event.kind))

    def _prune(self) -> None:
        if self.window_s is None:
            return
        horizon = self.now - self.window_s
        for lane in self._lanes.values():
            for intervals in lane.sets():
                intervals.prune(horizon)
        for intervals in (self._in_flight, self._asked, self._queued, self._memory.times):
            intervals.prune(horizon)
        self._rests.prune(horizon)
        for spans in (*self._phases.values(), *self._active.values()):
            while spans and spans[0][0] < horizon:
                spans.popleft()
        while self._completions and self._completions[0].ended < horizon:
            self._completions.popleft()
        while self._reached and self._reached[0][0] < horizon:
            self._reached.popleft()
        if len(self._gaps) > 4096:
            self._gaps = {key: gap for key, gap in self._gaps.items() if gap.end >= horizon}

    # -- questions ----------------------------------------------------------------------------------------------------

    @property
    def devices(self) -> tuple[int, ...]:
        """Ordinals of the devices that events told of."""
        return tuple(sorted(self._lanes))

    @property
    def completions(self) -> tuple[Completion, ...]:
        """Ended jobs in the window."""
        return tuple(self._completions)

    def busy(self, device: int, start: float, end: float) -> list[Interval]:
        """When at least one kernel ran on a device, within ``[start, end)``."""
        return self._layers(device, start, end)[1]

    def utilisation(self, device: int, start: float, end: float) -> float | None:
        """Busy share of ``[start, end)``; None if it is empty."""
        return length(self.busy(device, start, end)) / (end - start) if end > start else None

    def proofs_per_minute(self, start: float, end: float) -> float | None:
        """Jobs done in ``(start, end]``, a minute; None if it is empty."""
        if end <= start:
            return None
        done = sum(entry.kind is EventKind.JOB_DONE and start < entry.ended <= end for entry in self._completions)
        return 60 * done / (end - start)

    def segments(self, device: int, start: float, end: float) -> list[Segment]:
        """The states of a device over ``[start, end)``, in order and without holes: what a lane draws."""
        left: list[Interval] = [(start, end)] if start < end else []
        found: list[Segment] = []
        for intervals, words in zip(self._layers(device, start, end), _STATES, strict=True):
            found += [Segment(a, b, *words) for a, b in intersect(left, intervals)]
            left = subtract(left, intervals)
        found += [Segment(a, b, *_NOTHING_ASKED) for a, b in left]
        found.sort(key=lambda segment: segment.start)
        return found

    def state(self, device: int) -> tuple[DeviceState, Cause | None]:
        """What a device does as far as the events tell."""
        lane = self._lanes.get(device, _NO_LANE)
        return device_state(
            Occupancy.of(
                (opened.phase for opened in lane.open.values()),
                lost=lane.lost_since is not None,
                queued=bool(self._queued_open),
                asked=any(request.asked_since is not None for request in self._requests.values()),
                paused=self._rests.now(device),
                memory=self._memory.since is not None,
            )
        )

    def gaps(self, device: int, start: float, end: float) -> list[Gap]:
        """The gaps between the device's busy intervals within ``[start, end)``.

        Where events tell of kernels, what lies between two launches of one slot is no gap, though it is idle time.
        """
        busy = self.busy(device, start, end)
        least = _LEAST_GAP_S if self._lanes.get(device, _NO_LANE).by_events else 0.0
        pairs = ((before[1], after[0]) for before, after in pairwise(busy))
        return [self._gap(device, *pair) for pair in pairs if pair[1] - pair[0] >= least]

    def phase_statistics(self, start: float | None = None) -> dict[Phase, PhaseStatistics]:
        """Statistics of each phase that ended well (since ``start``); first-run costs are not among them."""
        return _statistics(self._phases, start)

    def active_statistics(self, start: float | None = None) -> dict[Phase, PhaseStatistics]:
        """Statistics of the seconds that kernels ran in each phase, by the device's events; empty without those."""
        return _statistics(self._active, start)

    def runs(self, now: float | None = None) -> list[RunFigures]:
        """The runs in the window, oldest first; one that goes on ends ``now``."""
        end = self.now if now is None else now
        joined: list[Interval] = []
        for interval in self._flights(float("-inf"), end):
            if joined and interval[0] - joined[-1][1] <= self.pause_s:
                joined[-1] = (joined[-1][0], interval[1])
            else:
                joined.append(interval)
        return [self.figures(*interval) for interval in joined]

    def figures(self, start: float, end: float) -> RunFigures:
        """The figures of a stretch, taken as one run."""
        ended = sorted(
            (entry for entry in self._completions if start <= entry.ended <= end), key=lambda entry: entry.ended
        )
        done = [entry for entry in ended if entry.kind is EventKind.JOB_DONE]
        proofs = len(done)
        ends = [start, *(entry.ended for entry in done)]
        between = [b - a for a, b in pairwise(ends)]
        picks = sorted(entry.picked for entry in done if entry.picked is not None)
        per_proof = (end - start) / proofs if proofs else None
        devices = tuple(self._device_figures(device, start, end, proofs) for device in self.devices)
        busy = max((device.busy_s for device in devices), default=0.0)
        return RunFigures(
            start=start,
            end=end,
            proofs=proofs,
            failed=sum(entry.kind is EventKind.JOB_FAILED for entry in ended),
            partitions=sum(count for at, count in self._reached if start <= at <= end),
            seconds_per_proof=per_proof,
            stdev_s=stdev(between),
            ci95_s=ci95(between),
            steady_seconds_per_proof=(picks[-1] - picks[0]) / (len(picks) - 1) if len(picks) > 1 else None,
            proofs_per_minute=60 / per_proof if per_proof else None,
            ceiling_proofs_per_minute=60 * proofs / busy if proofs and busy else None,
            devices=devices,
        )

    def _device_figures(self, device: int, start: float, end: float, proofs: int) -> DeviceFigures:
        busy = self.busy(device, start, end)
        busy_s, span = length(busy), end - start
        gaps = tuple(self.gaps(device, start, end))
        return DeviceFigures(
            ordinal=device,
            busy_s=busy_s,
            gpu_active_s=busy_s if self._lanes.get(device, _NO_LANE).by_events else None,
            utilisation=busy_s / span if span > 0 else None,
            steady_utilisation=steady_utilisation(busy),
            utilisation_by=self._utilisation_by(device, busy_s, start, end),
            idle_s_per_proof=(span - busy_s) / proofs if proofs else None,
            gaps=gaps,
            clusters=tuple(gap_clusters((gap.seconds, gap.cause) for gap in gaps if not gap.between_runs)),
        )

    def _utilisation_by(self, device: int, busy_s: float, start: float, end: float) -> dict[str, float | None]:
        figures: dict[str, float | None] = dict.fromkeys(("kernels", "sm", "driver", "lock", "timeline"))
        lane = self._lanes.get(device, _NO_LANE)
        # what goes on now belongs to all three, or one could be over 1; a kernel always runs under the lock
        open_ = lane.open.values()
        sections = clip_open(lane.sections, [was.start for was in open_], start, end)
        locked = clip_open(lane.locked, [was.start for was in open_ if was.phase in _KERNELS], start, end)
        if sections and sections[-1][1] > sections[0][0]:
            window = sections[-1][1] - sections[0][0]
            figures["kernels"] = busy_s / window
            figures["lock"] = length(locked) / window
            figures["timeline"] = length(sections) / window
        return figures

    def _gap(self, device: int, start: float, end: float) -> Gap:
        key = (device, start, end)
        gap = self._gaps.get(key)
        if gap is None:
            gap = self._judge(device, start, end)
            if self.now - end > _SETTLED_S:
                self._gaps[key] = gap
        return gap

    def _judge(self, device: int, start: float, end: float) -> Gap:
        parts: dict[Cause, float] = {}
        for segment in self.segments(device, start, end):
            if segment.cause is not None:
                parts[segment.cause] = parts.get(segment.cause, 0.0) + segment.end - segment.start
        longest = max(parts.values())
        cause = next(cause for cause, seconds in parts.items() if seconds == longest)  # the earliest of equals
        unasked = subtract([(start, end)], self._flights(start, end))
        between_runs = any(b - a > self.pause_s for a, b in unasked)
        return Gap(start, end, cause, between_runs, tuple(parts.items()))

    def _layers(self, device: int, start: float, end: float) -> list[list[Interval]]:
        """The intervals of each field of ``Occupancy``, in its order, what goes on now included."""
        lane = self._lanes.get(device, _NO_LANE)
        open_ = list(lane.open.values())
        asked = [request.asked_since for request in self._requests.values() if request.asked_since is not None]
        lost = lane.lost_since
        return [
            [] if lost is None or lost >= end else [(max(start, lost), end)],
            clip_open(lane.kernels, [was.start for was in open_ if was.phase in _KERNELS], start, end),
            clip_open(lane.copies, [was.start for was in open_ if was.phase in _COPY_PHASES], start, end),
            clip_open(lane.cpu, [was.start for was in open_ if was.phase in _CPU_PHASES], start, end),
            self._rests.clip(device, start, end),
            clip_open(self._queued, list(self._queued_open.values()), start, end),
            self._memory.clip(start, end),
            clip_open(self._asked, asked, start, end),
        ]

    def _flights(self, start: float, end: float) -> list[Interval]:
        """When any job was in flight, within ``[start, end)``."""
        starts = [request.submitted for request in self._requests.values() if request.submitted is not None]
        return clip_open(self._in_flight, starts, start, end)


_NO_LANE = _Lane()


def _statistics(
    spans: Mapping[Phase, Iterable[tuple[float, float]]], start: float | None
) -> dict[Phase, PhaseStatistics]:
    """Of the seconds of each phase's ``(when it ended, seconds)`` since ``start``; without the phases that had none."""
    found = {}
    for phase, ended in spans.items():
        statistics = phase_statistics(seconds for at, seconds in ended if start is None or at >= start)
        if statistics is not None:
            found[phase] = statistics
    return found
