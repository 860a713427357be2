"""A recording as a feed: the same fold, the same frames, at an instant that the operator moves about in."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from console.feeds.engine import EngineFeed
from console.feeds.nvml.card import GpuCard
from console.feeds.nvml.census import Census
from console.frame import Frame
from console.recording.reader import Group, Recording
from prover.model import DeviceSample, Event, KnobValue, Snapshot
from prover.pipeline.interfaces import Change, Receipt
from prover.pipeline.knobs import REGISTRY, KnobSpec
from prover.pipeline.log import LineFormat

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_HORIZON_S = 660.0
"""How far back is looked after a jump: as far as the longest window and the figures go."""
_MOST_EVENTS = 50_000
"""Of that, so that a jump takes a moment at most."""
_LEAP_S = 30.0
"""A leap forward by more begins anew; what is shorter is played through."""
_LINES = 400
_REASON = "a replay: what happened stays as it was"


class Playhead:
    """Where in a recording the replay is: it moves by itself, or where it is put."""

    def __init__(
        self, begin: float, end: float, speed: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.begin = begin
        self.end = end
        self.speed = speed
        self._clock = clock
        self._at = begin
        self._since: float | None = None
        """When it began to move from ``_at``; None while it stands."""
        self.leaps = 0
        """How often it was put where it would not have come to by itself."""

    @property
    def at(self) -> float:
        """The instant, on the session's clock."""
        if self._since is None:
            return self._at
        return min(self.end, self._at + (self._clock() - self._since) * self.speed)

    @property
    def playing(self) -> bool:
        """Whether it moves."""
        return self._since is not None and self.at < self.end

    def play(self) -> None:
        """Move, from the beginning if it is at the end."""
        if self.at >= self.end:
            self.seek(self.begin)
        self._hold()
        self._since = self._clock()

    def pause(self) -> None:
        """Stand still."""
        self._hold()

    def seek(self, at: float) -> None:
        """Go to an instant, or to the end that is nearest to it; it moves on if it moved."""
        moving = self._since is not None
        before = self.at
        self._at, self._since = max(self.begin, min(self.end, at)), None
        if self._at < before or self._at > before + _LEAP_S:
            self.leaps += 1
        if moving:
            self._since = self._clock()

    def faster(self, by: int) -> None:
        """The next speed of ``SPEEDS``, up or down."""
        place = bisect_right(SPEEDS, self.speed) if by > 0 else bisect_left(SPEEDS, self.speed) - 1
        moving = self._since is not None
        self._hold()
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, place))]
        if moving:
            self._since = self._clock()

    @property
    def words(self) -> str:
        """How it goes, for the first line of the screen: ``×4 31 %``, ``31 % paused``."""
        at, length = self.at, self.end - self.begin
        share = f"{100 * (at - self.begin) / length if length > 0 else 100:.0f} %"
        if at >= self.end:
            return f"{share} end"
        return f"×{self.speed:g} {share}" if self._since is not None else f"{share} paused"

    def _hold(self) -> None:
        self._at, self._since = self.at, None


class ReplayView:
    """``Hosted``: the recorded engine at the playhead, its events as they come by."""

    ready = True
    idle = True
    failure: BaseException | None = None
    trouble: str | None = None

    def __init__(self, recording: Recording, now: Callable[[], float]) -> None:
        self._recording = recording
        self._now = now
        self.at = now()
        """The instant of the picture that is being made."""
        self._last_seq: int | None = None
        """The newest event of a picture that was taken at just this instant."""
        self._group = _first_group(recording, self.at)
        self._next = 0

    def snapshot(self) -> Snapshot:
        """The picture that was recorded last before the playhead, at its instant."""
        at = self.at = self._now()
        for number in range(self._recording.place(at), -1, -1):
            pictures = self._recording.group(number).pictures
            place = bisect_right(pictures, at, key=lambda picture: picture.at)
            if place:
                picture = pictures[place - 1]
                self._last_seq = picture.last_seq if picture.at == at else None
                return replace(picture, at=at)
        return replace(self._recording.group(0).pictures[0], at=at)

    def events(self, since: int) -> Sequence[Event]:
        """What happened up to the playhead and was not asked for yet."""
        found: list[Event] = []
        while True:
            events = self._recording.group(self._group).events
            begin = self._next
            while self._next < len(events) and self._came(events[self._next]):
                self._next += 1
            found += events[begin : self._next]
            if self._next < len(events) or self._group + 1 >= self._recording.groups:
                return found
            self._group, self._next = self._group + 1, 0

    def _came(self, event: Event) -> bool:
        """Whether an event was there when the picture was taken; many share an instant."""
        return event.at < self.at or (event.at == self.at and (self._last_seq is None or event.seq <= self._last_seq))

    def propose(self, change: Change) -> Receipt:
        """Refused."""
        return Receipt(False, 0, reason=_REASON, change=change)

    def undo(self, who: str = "operator") -> Receipt:
        """Refused."""
        return Receipt(False, 0, reason=_REASON)

    def start(self) -> None:
        """Nothing to start."""

    def stop(self, timeout_s: float) -> bool:
        """Nothing to stop."""
        return True

    def drain(self, timeout_s: float) -> bool:
        """Nothing to wait for."""
        return True


class ReplaySamples:
    """The machine's samples and the GPUs', as they were known at the playhead."""

    problem: str | None = None

    def __init__(self, recording: Recording, now: Callable[[], float]) -> None:
        self._recording = recording
        self._now = now

    def start(self) -> None:
        """Nothing to start."""

    def stop(self, timeout_s: float) -> None:
        """Nothing to stop."""

    def of(self, name: str, since: float) -> tuple[DeviceSample, ...]:
        """A source's samples after ``since``, oldest first."""
        now, found = self._now(), []
        recording = self._recording
        last = min(recording.place(now) + 1, recording.groups - 1)
        for number in range(max(0, recording.place(since) - 1), last + 1):
            samples = recording.group(number).samples.get(name, [])
            begin = bisect_right(samples, since, key=lambda known: known[1].at)
            end = bisect_right(samples, now, key=lambda known: known[0])
            found += [sample for _, sample in samples[begin:end]]
        return tuple(found)

    def samples(self, since: float) -> tuple[DeviceSample, ...]:
        """The machine's."""
        return self.of("machine", since)


class ReplayGpus(ReplaySamples):
    """``GpuSource``."""

    @property
    def census(self) -> Census | None:
        """GPUs counted three ways."""
        now = self._now()
        return next((census for at, census in reversed(self._group(now).census) if at <= now), None)

    def cards(self, now: float) -> tuple[GpuCard, ...]:
        """Every GPU as it stood."""
        return next((cards for at, cards in reversed(self._group(now).cards) if at <= now), ())

    def samples(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:  # type: ignore[override]
        """A GPU's samples after ``since``, oldest first."""
        return self.of(uuid, since)

    def driver(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:
        """The driver's own samples of it after ``since``."""
        return self.of(f"{uuid}/driver", since)

    def _group(self, now: float) -> Group:
        return self._recording.group(self._recording.place(now))


class ReplayFeed:
    """``Feed`` over a recording. After a leap everything is folded again from what lies before the playhead."""

    failure: BaseException | None = None
    log_problem: str | None = None
    ready = True
    idle = True

    def __init__(self, recording: Recording, playhead: Playhead) -> None:
        self.recording = recording
        self.playhead = playhead
        self._leaps = -1
        self._level = "info"
        self._fresh = True
        self._begin()

    @property
    def specs(self) -> Mapping[str, KnobSpec]:
        """The registry."""
        return REGISTRY

    @property
    def log_name(self) -> str:
        """Lines are made anew from the events."""
        return "replay"

    def start(self) -> None:
        """Play."""
        self.playhead.play()

    def poll(self, window: float) -> Frame:
        """The picture at the playhead."""
        if self._leaps != self.playhead.leaps:
            self._begin()
        frame = self._inner.poll(window)
        self._level = next((str(knob.in_force) for knob in frame.snapshot.knobs if knob.name == "log_level"), "info")
        return replace(frame, replay=self.playhead.words)

    def take_lines(self) -> list[str]:
        """Log lines that came since the last call; after a leap the last ones before the playhead."""
        self._log_view.at = self._view.at
        lines = [line for event in self._log_view.events(0) for line in self._format.lines(event, self._level)]
        if self._fresh:
            self._fresh = False
            stamp = time.strftime("%H:%M:%S", time.localtime(self._wall()))
            return [*lines[-_LINES:], f"-- replay: at {stamp} --"]
        return lines

    def propose(self, name: str, value: KnobValue) -> Receipt:
        """Refused."""
        return Receipt(False, 0, reason=_REASON)

    def undo(self) -> Receipt:
        """Refused."""
        return Receipt(False, 0, reason=_REASON)

    def stop(self, timeout_s: float) -> bool:
        """Stand still."""
        self.playhead.pause()
        return True

    def drain(self, timeout_s: float) -> bool:
        """Nothing to wait for."""
        return True

    def step(self, by: int) -> None:
        """To the next instant at which something happened (or to the one before), and stand there."""
        playhead = self.playhead
        playhead.pause()
        at = playhead.at
        moments = self._moments(at, by)
        playhead.seek(next(moments, playhead.end if by > 0 else playhead.begin))

    def _moments(self, at: float, by: int) -> Iterator[float]:
        """Instants of events after ``at`` (or before it, the nearest first)."""
        recording = self.recording
        place = recording.place(at)
        if by > 0:
            for number in range(place, recording.groups):
                yield from sorted(event.at for event in recording.group(number).events if event.at > at)
        else:
            for number in range(min(place + 1, recording.groups - 1), -1, -1):
                yield from sorted((event.at for event in recording.group(number).events if event.at < at), reverse=True)

    def _begin(self) -> None:
        """Fold anew."""
        self._leaps = self.playhead.leaps
        view = ReplayView(self.recording, lambda: self.playhead.at)
        self._log_view = ReplayView(self.recording, lambda: view.at)
        self._view = view
        offset = self.recording.wall_offset_s
        self._format = LineFormat(offset, bool(self.recording.header.get("simulated")))
        self._fresh = True
        now = lambda: view.at  # noqa: E731 - one picture is of one instant
        self._inner = EngineFeed(
            view,
            sampler=ReplaySamples(self.recording, now),
            gpus=ReplayGpus(self.recording, now) if self._has_gpus else None,
            clock=now,
            wall=self._wall,
            specs=self.specs,
            machine=str(self.recording.header.get("machine") or "host"),
        )

    @property
    def _has_gpus(self) -> bool:
        return not self.recording.header.get("simulated")

    def _wall(self) -> float:
        return self._view.at + self.recording.wall_offset_s


def _first_group(recording: Recording, at: float) -> int:
    """Where the fold begins, for a picture at this instant."""
    last = first = recording.place(at)
    count = 0
    while first > 0 and recording.group(first).begin > at - _HORIZON_S:
        count += len(recording.group(first).events)
        if count > _MOST_EVENTS and first < last:
            break
        first -= 1
    return first
