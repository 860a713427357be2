"""What a reader of a log knows of jobs, slots and workers, and the events that it makes of that."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from prover.model import Event, EventKind, FieldValue, Phase

_REMEMBERED = 512
"""Ended jobs that are remembered: lines about their partitions come late."""
_FAILED = 16
_MOST_PARTITIONS = 4096


@dataclass(slots=True)
class LiveSlot:
    """What flows through the pipeline together: a partition, or all of a job. Times are microseconds."""

    partitions: tuple[int, ...]
    synthesised: bool = False
    synth_ms: int | None = None
    synth_end_us: int | None = None
    queued_us: int | None = None
    picked_us: int | None = None
    split: bool = False
    """A line of its own will tell when the worker is free again."""
    timeline_pick_us: int | None = None
    worker: int | None = None
    device: int | None = None
    left_us: int | None = None
    """When it left the device."""
    done: bool = False

    @property
    def on_device(self) -> bool:
        """Whether a worker has it."""
        return self.picked_us is not None and self.left_us is None and not self.done


@dataclass(slots=True)
class LiveJob:
    """A job that the log told of."""

    id: str
    submitted_us: int
    circuit: str = ""
    priority: str | None = None
    adopted: bool = False
    """Its arrival was not in the log."""
    count: int | None = None
    """Its partitions, as far as the log told."""
    told: int = 0
    """As how many partitions it was last told."""
    slots: dict[int | None, LiveSlot] = field(default_factory=dict)
    """By first partition; None is all of it in one."""
    started_us: int | None = None
    failed: str | None = None
    assembled_us: int | None = None
    ended_us: int | None = None

    def slot(self, partition: int | None) -> LiveSlot:
        """A partition's slot, made at its first mention."""
        slot = self.slots.get(partition)
        if slot is None:
            whole = tuple(range(min(self.count or 1, _MOST_PARTITIONS)))
            slot = LiveSlot(whole if partition is None else (partition,))
            if len(self.slots) < _MOST_PARTITIONS:
                self.slots[partition] = slot
        return slot


class JobBook:
    """Jobs by id, and the events so far."""

    def __init__(self, epoch_us: int = 0) -> None:
        """``epoch_us``: the instant (since 1970) that events count their seconds from."""
        self.epoch_us = epoch_us
        self.live: dict[str, LiveJob] = {}
        self.adopted = 0
        self.duplicates: dict[str, None] = {}
        """Ids under which a job arrived while another was alive."""
        self.failed: OrderedDict[str, LiveJob] = OrderedDict()
        """The latest failed jobs: the daemon goes on with their other partitions."""
        self._ended: OrderedDict[str, LiveJob] = OrderedDict()
        self._seq = 0
        self._events: list[Event] = []

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def seconds(self, at_us: int) -> float:
        """An instant as events tell it."""
        return (at_us - self.epoch_us) / 1e6

    def tell(
        self,
        kind: EventKind,
        at_us: int,
        job: LiveJob | None = None,
        slot: LiveSlot | None = None,
        phase: Phase | None = None,
        start_us: int | None = None,
        **fields: FieldValue,
    ) -> None:
        """Add an event. A span that would end before it began (a clock was set) has no length."""
        self._seq += 1
        device = worker = None
        if slot is not None and slot.device is not None and phase not in _OFF_DEVICE:
            device = slot.device
            worker = None if slot.worker is None else f"gpu{device}-{slot.worker}"
        self._events.append(
            Event(
                self._seq,
                (at_us - self.epoch_us) / 1e6,
                kind,
                None if job is None else job.id,
                () if slot is None else slot.partitions,
                phase,
                None if start_us is None else (min(start_us, at_us) - self.epoch_us) / 1e6,
                device,
                worker,
                {key: value for key, value in fields.items() if value is not None} if fields else _NO_FIELDS,
            )
        )

    def submit(self, job_id: str, at_us: int, circuit: str = "", priority: str | None = None) -> LiveJob:
        """A job arrived. One of that id which is alive goes on as one and the same, and is noted."""
        job = self.live.get(job_id)
        if job is not None:
            self.duplicates[job_id] = None
            return job
        job = LiveJob(job_id, at_us, circuit, priority)
        self.live[job_id] = job
        self._ended.pop(job_id, None)
        self.tell_size(job, 1)
        return job

    def tell_size(self, job: LiveJob, count: int) -> None:
        """Tell a job's arrival, again once it is known how many partitions it has, until the first is synthesised."""
        count = min(count, _MOST_PARTITIONS)
        if count <= job.told or any(slot.synthesised for slot in job.slots.values()) or job.ended_us is not None:
            return
        job.told = count
        self.tell(
            EventKind.JOB_SUBMITTED,
            job.submitted_us,
            job,
            circuit=job.circuit or None,
            partitions=count,
            priority=job.priority,
            adopted=job.adopted or None,
        )

    def find(self, job_id: object, at_us: int | None = None) -> LiveJob | None:
        """A job alive or lately ended; one that the log never told of is adopted if ``at_us`` says when."""
        if not isinstance(job_id, str | int) or job_id == "":
            return None
        name = str(job_id)
        job = self.live.get(name) or self._ended.get(name)
        if job is None and at_us is not None:
            self.adopted += 1
            job = LiveJob(name, at_us, adopted=True)
            self.live[name] = job
            self.tell_size(job, 1)
        return job

    def end(
        self, job: LiveJob, kind: EventKind, at_us: int, error: FieldValue = None, derived: bool | None = None
    ) -> None:
        """A job ended; nothing happens if it had."""
        if job.ended_us is not None:
            return
        job.ended_us = at_us
        self.tell(kind, at_us, job, error=error, derived=derived)
        self.live.pop(job.id, None)
        self._ended[job.id] = job
        if job.failed is not None:
            self.failed[job.id] = job
            if len(self.failed) > _FAILED:
                self.failed.popitem(last=False)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def on_devices(self) -> list[tuple[LiveJob, LiveSlot]]:
        """Slots that a worker has."""
        jobs = [*self.live.values(), *self.failed.values()]
        return [(job, slot) for job in jobs for slot in job.slots.values() if slot.on_device]


_NO_FIELDS: dict[str, FieldValue] = {}
_OFF_DEVICE = frozenset({Phase.SYNTHESIS, Phase.QUEUED, Phase.FINALIZING})
