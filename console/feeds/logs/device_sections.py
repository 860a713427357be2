"""From pick-up to release: what the log tells of slots on a device, and how the lock divides that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from console.feeds.logs.book import JobBook, LiveJob, LiveSlot
from console.feeds.logs.lock_owner import LockOwners, Ownership
from console.feeds.logs.record import LogRecord
from prover.model import DEVICE_PHASES, EventKind, Phase

_DIVIDED = {f"{phase.value}_ms": phase for phase in DEVICE_PHASES}
_SAME_MS = 5


def whole(value: object) -> int | None:
    """A field's whole number; None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def partition_of(record: LogRecord) -> int | None:
    """The first partition that a record is about; our own engine writes several as ``0-7``."""
    value = record.about("partition")
    if isinstance(value, str):
        first = value.partition("-")[0]
        return int(first) if first.isascii() and first.isdecimal() and len(first) < 10 else None
    return whole(value)


@dataclass(slots=True)
class _ProveStart:
    """A ``prove_start`` line, until the line that names the job."""

    at_us: int
    partition: int | None
    prove_start_ms: int
    owner: Ownership | None


class DeviceSections:
    """Keeps workers and the lock; tells picks and releases."""

    def __init__(self, book: JobBook) -> None:
        self.book = book
        self.owners = LockOwners()
        self.devices: dict[int, int] = {}
        """Worker -> its GPU."""
        self.unplaced = 0
        """Ends of GPU work that could not be joined to a slot."""
        self.locks_known = 0
        self.sections = 0
        self._starts: dict[int | None, _ProveStart] = {}
        self._own: tuple[LiveJob, LiveSlot, int, int] | None = None
        self.handlers: dict[str, Callable[[LogRecord, int], None]] = {
            "pipeline GPU worker started": self._worker,
            "monolithic GPU worker started": self._worker,
            "GPU_TIMING hot_path pre-prove overhead": self._pick,
            "GPU worker picked up synthesized proof": self._pick,
            "GPU worker processing job": self._pick,
            "processing job": self._pick,
            "processing job (monolithic)": self._pick,
            "GPU_TIMING spawn_blocking prove_start": self._prove_start,
            "GPU_TIMING prove_start returned": self._returned,
            "GPU prove complete": self._complete,
            "slot phases": self._slot_phases,
        }

    def restart(self) -> None:
        """The daemon began anew."""
        self.settle()
        self.devices.clear()
        self._starts.clear()

    def settle(self) -> None:
        """Tell the section that waits for the line that may divide it."""
        if self._own is not None:
            job, slot, start_us, end_us = self._own
            self._own = None
            self._section(job, slot, Phase.GPU, start_us, end_us)

    def timeline_pick(self, job: LiveJob, slot: LiveSlot, at_us: int, worker: int | None, alone: bool) -> None:
        """``GPU_PICKUP``: the pick itself if no other line will tell of it (``alone``), otherwise kept for later."""
        slot.timeline_pick_us = at_us
        if alone:
            self.pick(job, slot, at_us, worker, None)

    def timeline_end(self, job: LiveJob, slot: LiveSlot, at_us: int, worker: int | None, spent: int | None) -> None:
        """``GPU_END``: closes what no other line closed."""
        if slot.picked_us is None and (slot.timeline_pick_us is not None or spent is not None):
            began = slot.timeline_pick_us if slot.timeline_pick_us is not None else at_us - (spent or 0) * 1000
            self.pick(job, slot, began, worker, None)
        if slot.on_device and not slot.split:  # in a file of its own it may stand before that line
            self.leave(job, slot, at_us)

    # -- picks --------------------------------------------------------------------------------------------------------

    def _worker(self, record: LogRecord, at_us: int) -> None:
        worker, gpu = whole(record.get("worker_id")), whole(record.get("gpu"))
        if worker is not None and gpu is not None and len(self.devices) < 1024:
            self.devices[worker] = gpu

    def _pick(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"), at_us)
        if job is None:
            return
        slot = job.slot(partition_of(record))
        slot.split = record.message.startswith("GPU_TIMING")
        self.pick(job, slot, at_us, whole(record.about("worker_id")), whole(record.about("gpu")))

    def pick(
        self, job: LiveJob, slot: LiveSlot, at_us: int, worker: int | None, gpu: int | None, begins: bool = True
    ) -> None:
        """A worker took a slot; nothing happens if that was told. ``begins``: it still has it."""
        if slot.picked_us is not None and slot.left_us is None:
            return
        slot.picked_us, slot.left_us, slot.worker = at_us, None, worker
        slot.device = gpu if gpu is not None else self.devices.get(worker if worker is not None else -1, 0)
        if slot.queued_us is not None:
            self.book.tell(EventKind.SPAN, at_us, job, slot, Phase.QUEUED, slot.queued_us)
        else:
            self.book.tell(EventKind.SPAN, at_us, job, slot, Phase.QUEUED, at_us, assumed=True)
        if begins:
            self.book.tell(EventKind.PHASE_BEGAN, at_us, job, slot, Phase.GPU)

    # -- releases -----------------------------------------------------------------------------------------------------

    def _prove_start(self, record: LogRecord, at_us: int) -> None:
        spent = whole(record.get("prove_start_ms"))
        worker = whole(record.get("worker_id"))
        if spent is None:
            return
        if len(self._starts) > 1024:
            self._starts.clear()
        partition = whole(record.get("partition"))
        self._starts[worker] = _ProveStart(at_us, partition, spent, self.owners.claim(spent))

    def _returned(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"), at_us)
        if job is None:
            return
        worker, partition = whole(record.about("worker_id")), partition_of(record)
        slot = job.slot(partition)
        spent = whole(record.get("total_pre_prove_ms"))
        own = record.target.startswith("cuzk_top")
        if slot.picked_us is None or (own and slot.left_us is not None):
            began = slot.timeline_pick_us or at_us - (spent or 0) * 1000
            self.pick(job, slot, began, worker, whole(record.about("gpu")), begins=False)
        start = self._starts.pop(worker, None)
        if own:
            slot.left_us = at_us
            self._own = (job, slot, slot.picked_us or at_us, at_us)
            return
        self.leave(job, slot, at_us, start if start is not None and start.partition == partition else None)

    def leave(
        self, job: LiveJob, slot: LiveSlot, at_us: int, start: _ProveStart | None = None, ok: bool = True
    ) -> None:
        """A slot left the device."""
        if slot.picked_us is None or slot.left_us is not None:
            return
        slot.left_us = at_us
        owner = None if start is None else start.owner
        if start is None or owner is None:
            self._section(job, slot, Phase.GPU, slot.picked_us, at_us, ok=ok)
            return
        self.locks_known += 1
        unlocked = start.at_us - (start.prove_start_ms - owner.total_start_fn_ms) * 1000
        locked = unlocked - owner.mutex_held_ms * 1000
        asked = locked - owner.mutex_wait_ms * 1000
        tell = self.book.tell
        tell(EventKind.SPAN, asked, job, slot, Phase.SETUP, min(slot.picked_us, asked))
        tell(EventKind.SPAN, locked, job, slot, Phase.LOCK_WAIT, asked)
        told = {"locked": True, "prove_start_ms": start.prove_start_ms, **owner.parts}
        self._section(job, slot, Phase.GPU, locked, unlocked, told)

    def _section(
        self,
        job: LiveJob,
        slot: LiveSlot,
        phase: Phase,
        start_us: int,
        end_us: int,
        fields: Mapping[str, object] | None = None,
        ok: bool = True,
    ) -> None:
        self.sections += 1
        told = {key: value for key, value in (fields or {}).items() if isinstance(value, int | float | str)}
        self.book.tell(EventKind.SPAN, end_us, job, slot, phase, start_us, ok=None if ok else False, **told)

    def _complete(self, record: LogRecord, at_us: int) -> None:
        """``GPU prove complete`` of the synchronous path: whose it is, the span, the order or the time tells."""
        spent = whole(record.get("gpu_ms"))
        worker = whole(record.about("worker_id"))
        job = self.book.find(record.about("job_id"))
        found = [
            (other, slot)
            for other, slot in self.book.on_devices()
            if (job is None or other is job) and (worker is None or slot.worker == worker)
        ]
        if len(found) > 1 and spent is not None:
            found = [
                (other, slot)
                for other, slot in found
                if abs((at_us - (slot.picked_us or 0)) // 1000 - spent) <= _SAME_MS
            ]
        if len(found) == 1:
            other, slot = found[0]
            count = whole(record.get("proof_count"))
            if count is not None and other.slots.get(None) is slot and 0 < count <= 4096:
                slot.partitions = tuple(range(max(count, len(slot.partitions))))
            self.leave(other, slot, at_us)
        elif found:
            self.unplaced += 1

    # -- our own engine -----------------------------------------------------------------------------------------------

    def _slot_phases(self, record: LogRecord, at_us: int) -> None:
        """Our own engine at level debug: the section's phases, in order up to its end."""
        if self._own is None:
            return
        job, slot, start_us, end_us = self._own
        if record.get("job_id") != job.id:
            return
        self._own = None
        lengths = [
            (_DIVIDED[key], length)  # the line has them in the order in which they ended
            for key, value in record.fields.items()
            if key in _DIVIDED and (length := whole(value)) is not None
        ]
        begin = max(start_us, end_us - sum(length for _, length in lengths) * 1000)
        for phase, length in lengths:
            end = end_us if phase is Phase.D2H else min(end_us, begin + length * 1000)
            if end > begin:
                locked = {"locked": True} if phase in (Phase.NTT, Phase.MSM) else None
                self._section(job, slot, phase, begin, end, locked)
            begin = end
