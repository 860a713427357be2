"""The timeline against an oracle that looks at every second of a story, whatever order the events come in."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.model import Cause, DeviceState, Event, EventKind, Phase
from prover.timeline import Timeline, steady_utilisation

PAUSE = 3
ORDERS = {
    "narrow": (Phase.SYNTHESIS, Phase.QUEUED, Phase.SETUP, Phase.H2D, Phase.LOCK_WAIT, Phase.NTT, Phase.MSM, Phase.D2H),
    "coarse": (Phase.SYNTHESIS, Phase.QUEUED, Phase.LOCK_WAIT, Phase.SETUP, Phase.H2D, Phase.NTT, Phase.MSM, Phase.D2H),
}
GLOBAL = (Phase.SYNTHESIS, Phase.QUEUED)
WORDS = {
    "kernel": (DeviceState.COMPUTING, None),
    "copy": (DeviceState.COPYING, Cause.TRANSFER),
    "cpu": (DeviceState.LOCK_WAIT, Cause.LOCK),
    "paused": (DeviceState.IDLE, Cause.PAUSED),
    "queued": (DeviceState.NO_WORKER, Cause.WORKERS),
    "asked": (DeviceState.STARVED, Cause.SYNTHESIS),
}
KIND = {
    Phase.NTT: "kernel",
    Phase.MSM: "kernel",
    Phase.H2D: "copy",
    Phase.D2H: "copy",
    Phase.SETUP: "cpu",
    Phase.LOCK_WAIT: "cpu",
}


@dataclass
class SlotStory:
    begins: int
    lengths: list[int]
    order: str
    device: int

    def phases(self) -> list[tuple[Phase, int, int]]:
        found, at = [], self.begins
        for phase, seconds in zip(ORDERS[self.order], self.lengths, strict=True):
            found.append((phase, at, at + seconds))
            at += seconds
        return found


@dataclass
class JobStory:
    submitted: int
    slots: list[SlotStory] = field(default_factory=list)
    tail: int = 1

    @property
    def synthesised(self) -> int:
        return max(slot.phases()[0][2] for slot in self.slots)

    @property
    def ended(self) -> int:
        return max(slot.phases()[-1][2] for slot in self.slots) + self.tail


@st.composite
def stories(draw: st.DrawFn) -> list[JobStory]:
    jobs = []
    for _ in range(draw(st.integers(1, 4))):
        job = JobStory(draw(st.integers(0, 30)), tail=draw(st.integers(1, 4)))
        for _ in range(draw(st.integers(1, 3))):
            job.slots.append(
                SlotStory(
                    job.submitted + draw(st.integers(0, 8)),
                    [draw(st.integers(0, 5)) for _ in range(8)],
                    draw(st.sampled_from(sorted(ORDERS))),
                    draw(st.integers(0, 1)),
                )
            )
        jobs.append(job)
    return jobs


def streams(jobs: list[JobStory]) -> list[list[Event]]:
    """The events of each slot, in order, each stream beginning and ending with its job's (told once)."""
    found = []
    for number, job in enumerate(jobs):
        name, count = f"job {number}", len(job.slots)
        whole = tuple(range(count))
        found.append([Event(0, job.submitted, EventKind.JOB_SUBMITTED, name, whole, fields={"partitions": count})])
        for index, slot in enumerate(job.slots):
            stream = []
            for phase, start, end in slot.phases():
                device = None if phase in GLOBAL else slot.device
                about = {"job": name, "partitions": (index,), "phase": phase, "device": device}
                worker = None if device is None else f"w{number}.{index}"
                stream.append(Event(0, start, EventKind.PHASE_BEGAN, worker=worker, **about))  # type: ignore[arg-type]
                stream.append(Event(0, end, EventKind.SPAN, start=start, worker=worker, **about))  # type: ignore[arg-type]
            found.append(stream)
        found.append([Event(0, job.ended, EventKind.JOB_DONE, name)])
    return found


def by_time(jobs: list[JobStory], until: int) -> list[Event]:
    """As an engine tells it, up to a moment."""
    events = [event for stream in streams(jobs) for event in stream]
    rank = {EventKind.JOB_SUBMITTED: 0, EventKind.JOB_DONE: 2}
    events.sort(key=lambda event: (event.at, rank.get(event.kind, 1)))
    return numbered([event for event in events if event.at <= until])


def numbered(events: list[Event]) -> list[Event]:
    return [replace(event, seq=number) for number, event in enumerate(events, 1)]


@st.composite
def interleaved(draw: st.DrawFn, jobs: list[JobStory]) -> list[Event]:
    """Slots' events in any order among each other: only a job's first and last are first and last of its own."""
    pending: dict[str, list[list[list[Event]]]] = {}
    for stream in streams(jobs):
        stages = pending.setdefault(str(stream[0].job), [[], [], []])
        kind = stream[0].kind
        stages[{EventKind.JOB_SUBMITTED: 0, EventKind.JOB_DONE: 2}.get(kind, 1)].append(list(stream))
    events = []
    while True:
        ready = [stream for stages in pending.values() for stream in next((s for s in stages if any(s)), []) if stream]
        if not ready:
            return numbered(events)
        events.append(draw(st.sampled_from(ready)).pop(0))


class Oracle:
    """Every second on its own."""

    def __init__(self, jobs: list[JobStory], device: int, until: int) -> None:
        self.jobs, self.device, self.until = jobs, device, until

    def holds(self, second: int) -> set[str]:
        found = set()
        for job in self.jobs:
            if job.submitted <= second < job.synthesised:
                found.add("asked")
            for slot in job.slots:
                for phase, start, end in slot.phases():
                    if start <= second < end:
                        if phase is Phase.QUEUED:
                            found.add("queued")
                        elif slot.device == self.device and phase in KIND:
                            found.add(KIND[phase])
        return found

    def words(self, second: int) -> tuple[DeviceState, Cause | None]:
        holds = self.holds(second)
        return next((words for kind, words in WORDS.items() if kind in holds), (DeviceState.IDLE, Cause.REQUESTS))

    def gaps(self) -> list[tuple[int, int, Cause, bool]]:
        busy = [second for second in range(self.until) if "kernel" in self.holds(second)]
        found = []
        for before, after in itertools.pairwise(busy):
            if after == before + 1:
                continue
            seconds = range(before + 1, after)
            causes = [self.words(second)[1] for second in seconds]
            cause = max(dict.fromkeys(causes), key=causes.count)  # the first of equals, as max does
            assert cause is not None
            found.append((before + 1, after, cause, self._paused(seconds)))
        return found

    def _paused(self, seconds: range) -> bool:
        longest = run = 0
        for second in seconds:
            run = 0 if self.in_flight(second) else run + 1
            longest = max(longest, run)
        return longest > PAUSE

    def in_flight(self, second: int) -> bool:
        return any(job.submitted <= second < job.ended for job in self.jobs)

    def runs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for second in range(self.until):
            if self.in_flight(second):
                if found and second - found[-1][1] <= PAUSE:
                    found[-1] = (found[-1][0], second + 1)
                else:
                    found.append((second, second + 1))
        return found


def check(timeline: Timeline, jobs: list[JobStory], until: int) -> None:
    for device in (0, 1):
        oracle = Oracle(jobs, device, until)
        told = [
            (segment.state, segment.cause)
            for segment in timeline.segments(device, 0, until)
            for _ in range(int(segment.start), int(segment.end))
        ]
        assert told == [oracle.words(second) for second in range(until)]
        gaps = [(gap.start, gap.end, gap.cause, gap.between_runs) for gap in timeline.gaps(device, 0, until)]
        assert gaps == oracle.gaps()
        busy = sum("kernel" in oracle.holds(second) for second in range(until))
        assert timeline.utilisation(device, 0, until) == pytest.approx(busy / until)
    assert [(run.start, run.end) for run in timeline.runs(until)] == Oracle(jobs, 0, until).runs()


@settings(deadline=None, max_examples=60)
@given(stories(), st.integers(1, 80))
def test_agrees_with_the_oracle_at_any_moment(jobs: list[JobStory], until: int) -> None:
    timeline = Timeline(window_s=None, pause_s=PAUSE)
    timeline.fold(by_time(jobs, until))
    check(timeline, jobs, until)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_the_order_of_events_does_not_matter(data: st.DataObject) -> None:
    jobs = data.draw(stories())
    until = max(job.ended for job in jobs)
    timeline = Timeline(window_s=None, pause_s=PAUSE)
    events = data.draw(interleaved(jobs))
    cut = data.draw(st.integers(0, len(events)))
    timeline.fold(events[:cut])
    timeline.fold(events)  # those that were folded are not folded again
    assert timeline.missed == 0
    check(timeline, jobs, until)
    counts = {phase: statistics.count for phase, statistics in timeline.phase_statistics().items()}
    assert set(counts.values()) == {sum(len(job.slots) for job in jobs)}


def story() -> list[Event]:
    """Two jobs of one slot, one after the other on one device: kernels 10..20 and 26..36."""
    jobs = [
        JobStory(0, [SlotStory(0, [8, 0, 1, 1, 0, 4, 6, 1], "narrow", 0)], tail=1),
        JobStory(20, [SlotStory(20, [4, 0, 1, 1, 0, 4, 6, 1], "narrow", 0)], tail=1),
    ]
    return by_time(jobs, 100)


def test_the_figures_of_a_run_by_hand() -> None:
    timeline = Timeline(window_s=None)
    timeline.fold(story())
    (run,) = timeline.runs()
    (device,) = run.devices
    assert (run.start, run.end, run.proofs, run.failed, run.partitions) == (0, 38, 2, 0, 2)
    assert run.seconds_per_proof == 19
    assert run.stdev_s == pytest.approx(((22 - 19) ** 2 + (16 - 19) ** 2) ** 0.5)
    assert run.steady_seconds_per_proof == 24 - 8
    assert run.proofs_per_minute == pytest.approx(60 / 19)
    assert run.ceiling_proofs_per_minute == pytest.approx(60 / 10)
    assert (device.busy_s, device.utilisation) == (20, pytest.approx(20 / 38))
    assert device.steady_utilisation == pytest.approx(10 / 16)
    assert device.idle_s_per_proof == pytest.approx(9)
    window = 37 - 8
    assert device.utilisation_by["kernels"] == pytest.approx(20 / window)
    assert device.utilisation_by["timeline"] == pytest.approx((13 + 13) / window)
    assert device.utilisation_by["lock"] == 0  # no span said that it held the lock
    assert device.utilisation_by["sm"] is None and device.utilisation_by["driver"] is None
    (gap,) = device.gaps
    assert (gap.start, gap.end, gap.cause) == (20, 26, Cause.SYNTHESIS)
    assert gap.parts == ((Cause.TRANSFER, 2.0), (Cause.SYNTHESIS, 3.0), (Cause.LOCK, 1.0))
    assert [(c.count, c.centre_s, c.cause) for c in device.clusters] == [(1, 6, Cause.SYNTHESIS)]


def test_what_is_undefined_is_none() -> None:
    timeline = Timeline()
    assert timeline.runs() == [] and timeline.phase_statistics() == {} and timeline.gaps(0, 0, 10) == []
    assert timeline.state(0) == (DeviceState.IDLE, Cause.REQUESTS)
    assert timeline.utilisation(0, 5, 5) is None
    assert timeline.proofs_per_minute(5, 5) is None
    run = timeline.figures(0, 10)
    assert (run.proofs, run.seconds_per_proof, run.steady_seconds_per_proof, run.stdev_s) == (0, None, None, None)
    assert steady_utilisation([(0, 1)]) is None
    timeline.fold(story()[:20])
    (run,) = timeline.runs()
    assert run.devices[0].steady_utilisation is None


def test_there_is_no_ceiling_before_a_proof_and_none_without_work_on_the_device() -> None:
    timeline = Timeline(window_s=None)
    timeline.fold(story())
    before = timeline.figures(0, 12)
    assert (before.proofs, before.ceiling_proofs_per_minute) == (0, None) and before.devices[0].busy_s > 0
    after = timeline.figures(37, 38)
    assert (after.proofs, after.ceiling_proofs_per_minute) == (1, None) and after.devices[0].busy_s == 0


def test_ties_go_to_the_earlier_cause() -> None:
    jobs = [
        JobStory(0, [SlotStory(0, [1, 0, 0, 0, 0, 1, 1, 2], "narrow", 0)]),
        JobStory(5, [SlotStory(5, [2, 0, 0, 0, 0, 1, 1, 0], "narrow", 0)]),
    ]
    timeline = Timeline(window_s=None)
    timeline.fold(by_time(jobs, 100))
    (gap,) = timeline.gaps(0, 0, 100)
    assert gap.parts == ((Cause.TRANSFER, 2.0), (Cause.SYNTHESIS, 2.0))
    assert gap.cause is Cause.TRANSFER


def test_failed_spans_keep_the_device_busy_and_stay_out_of_the_statistics() -> None:
    events = [
        Event(1, 0.0, EventKind.JOB_SUBMITTED, "a", (0,), fields={"partitions": 1}),
        Event(2, 5.0, EventKind.SPAN, "a", (0,), Phase.NTT, 1.0, 0, "w", {"ok": False, "locked": True}),
        Event(3, 9.0, EventKind.FIRST_RUN, start=0.0, fields={"what": "load"}),
        Event(4, 10.0, EventKind.JOB_FAILED, "a"),
    ]
    timeline = Timeline()
    timeline.fold(events)
    (run,) = timeline.runs()
    assert (run.devices[0].busy_s, run.failed, run.proofs) == (4, 1, 0)
    assert run.devices[0].utilisation_by["lock"] == 1.0
    assert timeline.phase_statistics() == {}


def test_a_pause_is_the_operators() -> None:
    events = [
        Event(1, 0.0, EventKind.ENGINE_STARTED, fields={"paused": True}),
        Event(2, 1.0, EventKind.JOB_SUBMITTED, "a", (0,), fields={"partitions": 1}),
        Event(3, 4.0, EventKind.KNOB_PROPOSED, fields={"name": "paused", "new": False}),
        Event(4, 6.0, EventKind.KNOB_PROPOSED, fields={"name": "slot_size", "new": 0}),
    ]
    timeline = Timeline()
    timeline.fold(events)
    assert [(s.start, s.end, s.cause) for s in timeline.segments(0, 0.0, 6.0)] == [
        (0.0, 4.0, Cause.PAUSED),
        (4.0, 6.0, Cause.SYNTHESIS),
    ]
    assert timeline.state(0) == (DeviceState.STARVED, Cause.SYNTHESIS)


def test_a_device_that_is_left_out_rests_by_the_operators_will() -> None:
    events = [
        Event(1, 0.0, EventKind.ENGINE_STARTED, fields={"gpu_devices": "0"}),
        Event(2, 0.0, EventKind.JOB_SUBMITTED, "a", (0,), fields={"partitions": 1}),
        Event(3, 4.0, EventKind.KNOB_PROPOSED, fields={"name": "gpu_devices", "new": "none"}),
        Event(4, 6.0, EventKind.KNOB_PROPOSED, fields={"name": "gpu_devices", "new": "all"}),
        Event(5, 9.0, EventKind.KNOB_PROPOSED, fields={"name": "slot_size", "new": 0}),
    ]
    timeline = Timeline()
    timeline.fold(events[:3])
    assert timeline.state(0) == timeline.state(1) == (DeviceState.IDLE, Cause.PAUSED)
    timeline.fold(events)
    asked = {
        device: [(s.start, s.end) for s in timeline.segments(device, 0.0, 9.0) if s.cause is Cause.PAUSED]
        for device in (0, 1)
    }
    assert asked == {0: [(4.0, 6.0)], 1: [(0.0, 6.0)]}
    assert timeline.state(1) == (DeviceState.STARVED, Cause.SYNTHESIS)


def test_a_withheld_proof_asks_for_synthesis_again() -> None:
    timeline = Timeline()
    timeline.fold(
        [
            Event(1, 0.0, EventKind.JOB_SUBMITTED, "a", (0,), fields={"partitions": 1}),
            Event(2, 2.0, EventKind.SPAN, "a", (0,), Phase.SYNTHESIS, 0.0),
            Event(3, 5.0, EventKind.PROOF_WITHHELD, "a", (0,), fields={"attempt": 0}),
        ]
    )
    assert timeline.state(0) == (DeviceState.STARVED, Cause.SYNTHESIS)
    assert [s.cause for s in timeline.segments(0, 0.0, 6.0)] == [Cause.SYNTHESIS, Cause.REQUESTS, Cause.SYNTHESIS]


def test_lost_events_are_counted_and_leave_no_ghosts() -> None:
    timeline = Timeline()
    about = {"worker": "gpu0-0", "device": 0}
    timeline.fold([Event(3, 1.0, EventKind.PHASE_BEGAN, "a", (0,), Phase.NTT, **about)])  # type: ignore[arg-type]
    timeline.fold([Event(9, 5.0, EventKind.PHASE_BEGAN, "b", (0,), Phase.SETUP, **about)])  # type: ignore[arg-type]
    assert timeline.missed == 5
    assert timeline.state(0) == (DeviceState.LOCK_WAIT, Cause.LOCK)


def test_the_window_bounds_memory_and_keeps_what_is_inside() -> None:
    timeline = Timeline(window_s=100.0)
    seq = 0
    for round_ in range(2000):
        at = 10.0 * round_
        job = f"j{round_}"
        batch = [
            Event(0, at, EventKind.JOB_SUBMITTED, job, (0,), fields={"partitions": 1}),
            Event(0, at + 3, EventKind.SPAN, job, (0,), Phase.SYNTHESIS, at),
            Event(0, at + 3, EventKind.SPAN, job, (0,), Phase.QUEUED, at + 3),
            Event(0, at + 8, EventKind.SPAN, job, (0,), Phase.MSM, at + 4, 0, "w"),
            Event(0, at + 9, EventKind.JOB_DONE, job),
        ]
        timeline.fold([replace(event, seq=(seq := seq + 1)) for event in batch])
        timeline.gaps(0, at - 100, at)
    assert timeline.missed == 0
    lane = timeline._lanes[0]
    assert max(map(len, (*lane.sets(), timeline._in_flight, timeline._asked))) < 200
    assert len(timeline.completions) <= 11 and len(timeline._gaps) <= 4200
    assert timeline.utilisation(0, timeline.now - 90, timeline.now) == pytest.approx(0.4)
    assert timeline.phase_statistics()[Phase.MSM].count <= 11
