"""Records to events: the same vocabulary that our own engine speaks, from whatever period of the daemon a log is.

No version is asked for: every line that tells of a happening is understood wherever it appears, and of two lines that
tell of the same one the first counts. What a line does not tell stays unknown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from console.feeds.logs.book import JobBook, LiveJob, LiveSlot
from console.feeds.logs.device_sections import DeviceSections, partition_of, whole
from console.feeds.logs.record import Form, LogRecord
from console.feeds.logs.worker_proofs import WorkerProofs
from prover.model import Event, EventKind, Phase

Handler = Callable[[LogRecord, int], None]

TELL_TALES = {
    "GPU worker processing job": "2026-02, monolithic",
    "processing job (monolithic)": "pipeline off",
    "GPU worker picked up synthesized proof": "2026-02 to 03, synchronous prove",
    "CHAN_SEND": "2026-02 to 03, with timeline",
    "Phase 7: dispatching per-partition synthesis": "2026-02 to 03, partitions",
    "GPU_TIMING hot_path pre-prove overhead": "since 2026-03-13, split prove",
    "GPU pipeline semaphore enabled": "2026-03-13",
    "pacer: status": "since 2026-03-14, paced",
    "slot phases": "cuzk-top",
    "knob in force": "cuzk-top",
}
"""Lines that only one period of the daemon prints."""
_STEP_US = 2_000_000
_ASSEMBLED_WAIT_US = 120_000_000
_FAILURES_OF_DISPATCH = (
    "Phase 7: C1 parse/SRS load failed",
    "Phase 7: C1 parse task panicked",
    "SnapDeals parse/SRS load failed",
    "SnapDeals parse task panicked",
)


class Translator:
    """Folds records into events."""

    def __init__(self, epoch_us: int = 0) -> None:
        """``epoch_us``: the instant (since 1970) that events count their seconds from."""
        self.book = JobBook(epoch_us)
        self.sections = DeviceSections(self.book)
        self.workers = WorkerProofs(self.book)
        self.vocabulary: dict[str, None] = {}
        """What periods the lines are of, in order of appearance."""
        self.engines = 0
        """Starts of an engine."""
        self.levels: set[str] = set()
        self.unjoined: dict[str, int] = {}
        """Messages that could not be joined to a job, and how often."""
        self.clock_steps: list[tuple[int, float]] = []
        """When a stamp was before the one before it, and by how many seconds."""
        self.withheld = 0
        self._latest = 0
        self._daemon = False
        self._arrivals: OrderedDict[str, int] = OrderedDict()
        self._dequeued: LiveJob | None = None
        self._assembled: dict[str, LiveJob] = {}
        self._handlers = self._table()

    def _table(self) -> dict[str, Handler]:
        table: dict[str, Handler] = {
            "starting cuzk engine": self._engine_started,
            "cuzk engine stopped": self._engine_stopped,
            "cuzk-daemon stopped": self._engine_stopped,
            "shutting down cuzk engine": self._draining,
            "Prove": self._arrived,
            "SubmitProof": self._arrived,
            "job enqueued": self._enqueued,
            "job dequeued for proving": self._begun,
            "building circuits for all partitions (parallel)": self._circuits,
            "synthesizing all circuits": self._circuits,
            "building SnapDeals circuits": self._circuits,
            "synthesizing all circuits (multi-sector batch)": self._circuits,
            "synthesis complete, sending to GPU": self._sent,
            "partition GPU prove complete": self._proved,
            "Phase 7: all partitions complete, proof assembled": self._assembled_line,
            "sector proof delivered from batch": self._delivered,
            "proof completed successfully (pipeline)": self._monolithic_done,
            "proof completed successfully (monolithic)": self._monolithic_done,
            "proof completed successfully": self._monolithic_done,
            "PoRep proof self-check PASSED": self._checked,
            "Phase 7: PoRep proof self-check PASSED": self._checked,
            "proof self-check FAILED — proof is invalid": self._withheld,
            "job cancelled": self._cancelled,
            "knob proposed": self._knob,
            "device lost": self._device_lost,
        }
        for message in (
            "dispatching per-partition synthesis (budget-gated)",
            "dispatching per-partition SnapDeals synthesis (budget-gated)",
            "dispatching per-partition SnapDeals synthesis",
            "Phase 7: dispatching per-partition synthesis",
        ):
            table[message] = self._dispatched
        for message in (
            "partition synthesis complete, pushing to GPU queue",
            "partition synthesis complete, sending to GPU",
            "SnapDeals partition synthesis complete, sending to GPU",
        ):
            table[message] = self._synthesised
        for message in (
            "batch synthesis complete",
            "multi-sector batch synthesis complete",
            "WindowPoSt synthesis complete",
            "WinningPoSt synthesis complete",
            "SnapDeals synthesis complete",
        ):
            table[message] = self._whole_synthesised
        return table | self.sections.handlers

    def feed(self, records: list[LogRecord]) -> list[Event]:
        """The events that records give."""
        handlers, tales = self._handlers, TELL_TALES
        for record in records:
            at_us, message = record.at_us, record.message
            if at_us is None:
                continue
            form = record.form
            if form is Form.TRACING or form is Form.JSON:
                if at_us < self._latest - _STEP_US:
                    self._clock_step(at_us)
                self._latest = at_us
                handler = handlers.get(message)
                if handler is not None:
                    self._daemon = True
                    if message in tales:
                        self.vocabulary[tales[message]] = None
                    if message != "slot phases":
                        self.sections.settle()
                    handler(record, at_us)
                elif record.level == "ERROR":
                    self._error(record, at_us)
            elif form is Form.TIMING:
                self.sections.owners.timing(record)
            elif form is Form.TIMELINE:
                self._timeline(record, at_us)
            elif form is Form.WORKER:
                self.workers.line(record, at_us)
        if self._assembled:
            self._release_assembled(self._latest - _ASSEMBLED_WAIT_US)
        return self.book.take()

    def finish(self) -> list[Event]:
        """The events that waited for a line that may still have come."""
        self.sections.settle()
        self._release_assembled(None)
        if not self._daemon:
            self._end_by_timeline()
        return self.book.take()

    # -- engine -------------------------------------------------------------------------------------------------------

    def _clock_step(self, at_us: int) -> None:
        if len(self.clock_steps) < 64:
            self.clock_steps.append((at_us, (at_us - self._latest) / 1e6))

    def _engine_started(self, record: LogRecord, at_us: int) -> None:
        self.engines += 1
        for job in list(self.book.live.values()):
            self.book.end(job, EventKind.JOB_CANCELLED, at_us, error="the engine began anew before it ended")
        self.sections.restart()
        self._dequeued = None
        self.book.tell(EventKind.ENGINE_STARTED, at_us)

    def _engine_stopped(self, record: LogRecord, at_us: int) -> None:
        self.book.tell(EventKind.ENGINE_STOPPED, at_us)

    def _draining(self, record: LogRecord, at_us: int) -> None:
        self.book.tell(EventKind.ENGINE_DRAINING, at_us)

    def _knob(self, record: LogRecord, at_us: int) -> None:
        new = record.get("new")
        value = {"true": True, "false": False}.get(str(new).lower(), new)
        self.book.tell(EventKind.KNOB_PROPOSED, at_us, name=record.get("knob"), new=value)

    def _device_lost(self, record: LogRecord, at_us: int) -> None:
        slot = LiveSlot((), device=whole(record.get("gpu")))
        self.book.tell(EventKind.DEVICE_LOST, at_us, slot=slot, error=record.get("error"))

    # -- arrival ------------------------------------------------------------------------------------------------------

    def _arrived(self, record: LogRecord, at_us: int) -> None:
        self._arrivals[str(record.get("request_id"))] = at_us
        while len(self._arrivals) > 1024:
            self._arrivals.popitem(last=False)

    def _enqueued(self, record: LogRecord, at_us: int) -> None:
        job_id = record.get("job_id")
        if not isinstance(job_id, str) or not job_id:
            return
        arrived = self._arrivals.pop(job_id, at_us)
        circuit, priority = record.get("proof_kind"), record.get("priority")
        self.book.submit(job_id, arrived, str(circuit or ""), None if priority is None else str(priority).lower())

    def _begun(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.get("job_id"), at_us)
        if job is None:
            return
        self._dequeued = job
        job.circuit = job.circuit or str(record.get("proof_kind") or "")
        if job.started_us is None:
            job.started_us = at_us
            self.book.tell(EventKind.JOB_STARTED, at_us, job, circuit=job.circuit or None)

    def _dispatched(self, record: LogRecord, at_us: int) -> None:
        self._size(record, at_us, "num_partitions")
        if self._dequeued is not None and self._dequeued.id == record.get("job_id"):
            self._dequeued = None

    def _circuits(self, record: LogRecord, at_us: int) -> None:
        for key in ("num_partitions", "total_circuits", "num_circuits"):
            if record.get(key) is not None:
                self._size(record, at_us, key)

    def _size(self, record: LogRecord, at_us: int, key: str) -> None:
        count, job = whole(record.get(key)), self.book.find(record.about("job_id"), at_us)
        if job is not None and count is not None and count > 0:
            job.count = count
            self.book.tell_size(job, count)

    # -- synthesis ----------------------------------------------------------------------------------------------------

    def _synthesised(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"), at_us)
        if job is not None:
            slot = job.slot(partition_of(record))
            self._queue(job, slot, at_us, at_us, whole(record.get("synth_ms")))

    def _whole_synthesised(self, record: LogRecord, at_us: int) -> None:
        """A whole job's synthesis returned; it is handed over later (the key may have to be read first)."""
        job = self.book.find(record.about("job_id"), at_us)
        if job is None:
            return
        count = whole(record.get("num_circuits"))
        if count and job.count is None:
            job.count = count
            self.book.tell_size(job, count)
        slot = job.slot(None)
        slot.synth_end_us, slot.synth_ms = at_us, whole(record.get("synth_ms"))

    def _sent(self, record: LogRecord, at_us: int) -> None:
        spent, job_id = whole(record.get("synth_ms")), record.about("job_id")
        if job_id is not None:  # our own engine names it
            job = self.book.find(job_id, at_us)
            if job is not None:
                self._sent_by_us(job, at_us, spent, whole(record.get("batch_size")) or 1)
            return
        waiting = [
            (job, slot)
            for job in self.book.live.values()
            for slot in job.slots.values()
            if slot.synth_end_us is not None and not slot.synthesised and slot.synth_ms == spent
        ]
        if not waiting and self._dequeued is not None and self._dequeued.ended_us is None:
            slot = self._dequeued.slot(None)
            if not slot.synthesised:
                waiting = [(self._dequeued, slot)]
        if len(waiting) != 1:
            self._unjoined(record)
            return
        job, slot = waiting[0]
        self._queue(job, slot, slot.synth_end_us or at_us, at_us, spent)

    def _sent_by_us(self, job: LiveJob, at_us: int, spent: int | None, count: int) -> None:
        """Our own engine's slot of several partitions: they are cut in order, the line names none."""
        first = max((slot.partitions[-1] + 1 for slot in job.slots.values()), default=0)
        slot = job.slot(first)
        slot.partitions = tuple(range(first, first + min(count, 4096)))
        self._queue(job, slot, at_us, at_us, spent)

    def _queue(self, job: LiveJob, slot: LiveSlot, ended_us: int, at_us: int, spent: int | None) -> None:
        """A slot's synthesis ended and it was handed over at ``at_us``; nothing happens if that was told."""
        if slot.queued_us is not None and slot.left_us is None:
            return
        slot.queued_us, slot.left_us = at_us, None
        if slot.picked_us is not None:
            slot.picked_us = None  # it is made again
        start = ended_us - (spent or 0) * 1000
        handed = self.book.seconds(at_us) if at_us > ended_us else None
        self.book.tell(EventKind.SPAN, ended_us, job, slot, Phase.SYNTHESIS, start, handed_over=handed)
        slot.synthesised = True
        self.book.tell(EventKind.PHASE_BEGAN, at_us, job, slot, Phase.QUEUED)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _proved(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"), at_us)
        if job is None:
            return
        slot = job.slot(partition_of(record))
        spent = whole(record.get("gpu_ms"))
        if slot.picked_us is None and spent is not None:
            began = slot.timeline_pick_us or at_us - spent * 1000
            self.sections.pick(job, slot, began, whole(record.about("worker_id")), whole(record.about("gpu")))
        self.sections.leave(job, slot, at_us)
        self._slot_done(job, slot, at_us)

    def _slot_done(self, job: LiveJob, slot: LiveSlot, at_us: int) -> None:
        if slot.done:
            return
        slot.done = True
        if slot.left_us is not None and slot.left_us < at_us:
            self.book.tell(EventKind.SPAN, at_us, job, slot, Phase.FINALIZING, slot.left_us)
        self.book.tell(EventKind.PARTITION_DONE, at_us, job, slot)

    def _assembled_line(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"), at_us)
        if job is None or job.failed is not None:
            return
        job.assembled_us = at_us
        if job.circuit.startswith("porep") and not record.target.startswith("cuzk_top"):
            self._assembled[job.id] = job  # its self-check decides
        else:
            self.book.end(job, EventKind.JOB_DONE, at_us)

    def _checked(self, record: LogRecord, at_us: int) -> None:
        job = self._assembled.pop(str(record.about("job_id")), None)
        if job is not None and job.assembled_us is not None:
            self.book.end(job, EventKind.JOB_DONE, job.assembled_us)

    def _release_assembled(self, before_us: int | None) -> None:
        for job_id, job in list(self._assembled.items()):
            if job.assembled_us is not None and (before_us is None or job.assembled_us < before_us):
                del self._assembled[job_id]
                self.book.end(job, EventKind.JOB_DONE, job.assembled_us)

    def _delivered(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"), at_us)
        if job is not None:
            self._whole_done(job, at_us)

    def _monolithic_done(self, record: LogRecord, at_us: int) -> None:
        """The end of a job in one piece. Where the line names none, the time since it arrived tells which."""
        job = self.book.find(record.about("job_id"))
        if job is None:
            total = whole(record.get("total_ms"))
            waiting = [job for job in self.book.live.values() if None in job.slots]
            if total is not None:
                exact = [job for job in waiting if abs((at_us - job.submitted_us) // 1000 - total) <= 20]
                waiting = exact or waiting
            if len(waiting) != 1:
                self._unjoined(record)
                return
            job = waiting[0]
        slot = job.slot(None)
        spent = whole(record.get("gpu_ms")) or whole(record.get("prove_ms"))
        if slot.picked_us is None and spent is not None:
            worker, gpu = whole(record.about("worker_id")), whole(record.about("gpu"))
            self.sections.pick(job, slot, at_us - spent * 1000, worker, gpu)
        self._whole_done(job, at_us)

    def _whole_done(self, job: LiveJob, at_us: int) -> None:
        for slot in job.slots.values():
            self.sections.leave(job, slot, at_us)
            self._slot_done(job, slot, at_us)
        self.book.end(job, EventKind.JOB_DONE, at_us)

    # -- failures -----------------------------------------------------------------------------------------------------

    def _withheld(self, record: LogRecord, at_us: int) -> None:
        """Our own engine's: the slot is made again. The daemon's older ones delivered such a proof all the same."""
        self.withheld += 1
        job = self.book.find(record.about("job_id"), at_us)
        if job is not None and record.target.startswith("cuzk_top"):
            slot = job.slot(partition_of(record))
            self.book.tell(EventKind.PROOF_WITHHELD, at_us, job, slot)

    def _cancelled(self, record: LogRecord, at_us: int) -> None:
        job = self.book.find(record.about("job_id"))
        if job is not None:
            self.book.end(job, EventKind.JOB_CANCELLED, at_us, error=record.get("why"))

    def _error(self, record: LogRecord, at_us: int) -> None:
        """A line of level ERROR: the job that it names fails, or the one that its message can only be about."""
        job_id = record.about("job_id")
        job = self.book.find(job_id, at_us)
        if job is None:
            if record.message in _FAILURES_OF_DISPATCH:
                job = self._dequeued
            elif record.message in ("synthesis failed", "synthesis task panicked"):
                job = self._only([job for job in self.book.live.values() if job is self._dequeued])
            elif record.message in ("GPU proving failed", "GPU proving task panicked", "proof failed"):
                job = self._only([job for job, slot in self.book.on_devices() if job.slots.get(None) is slot])
            else:
                return
        if job is None or (job.ended_us is not None and job.failed is None):
            self._unjoined(record)
            return
        cause = str(record.get("error") or record.message)
        partition = partition_of(record)
        slot = job.slots.get(partition)
        if slot is None and partition is not None:
            slot = job.slot(partition)
        if slot is not None and not slot.done and "self-check" not in record.message:
            at_synthesis = "synthesis" in record.message
            self.sections.leave(job, slot, at_us, ok=False)
            slot.done = True
            phase = Phase.SYNTHESIS if at_synthesis else Phase.GPU
            self.book.tell(EventKind.PARTITION_FAILED, at_us, job, slot, phase, error=cause)
        if "self-check" in record.message:
            self.withheld += 1
            self.book.tell(EventKind.PROOF_WITHHELD, at_us, job, error=cause)
        self._assembled.pop(job.id, None)
        if job.failed is None:
            job.failed = cause
        self.book.end(job, EventKind.JOB_FAILED, at_us, error=cause)

    @staticmethod
    def _only(jobs: list[LiveJob]) -> LiveJob | None:
        return jobs[0] if len(jobs) == 1 else None

    def _unjoined(self, record: LogRecord) -> None:
        if record.message in self.unjoined or len(self.unjoined) < 64:
            self.unjoined[record.message] = self.unjoined.get(record.message, 0) + 1

    # -- TIMELINE -----------------------------------------------------------------------------------------------------

    def _timeline(self, record: LogRecord, at_us: int) -> None:
        event = record.message
        job = self.book.find(record.get("job_id"), at_us)
        if job is None:
            return
        if event in TELL_TALES:
            self.vocabulary[TELL_TALES[event]] = None
        partition, worker = partition_of(record), whole(record.get("worker"))
        slot = job.slot(partition)
        alone = not self._daemon
        if event == "SYNTH_START" and job.count is None and partition is not None:
            self.book.tell_size(job, partition + 1)
        elif event == "SYNTH_END" and alone:
            slot.synth_end_us, slot.synth_ms = at_us, whole(record.get("synth_ms"))
        elif event in ("GPU_QUEUE", "CHAN_SEND") and alone:
            self._queue(job, slot, slot.synth_end_us or at_us, at_us, slot.synth_ms)
        elif event == "GPU_PICKUP":
            self.sections.timeline_pick(job, slot, at_us, worker, alone)
        elif event == "GPU_END":
            self.sections.timeline_end(job, slot, at_us, worker, whole(record.get("gpu_ms")))
            if alone:
                self._slot_done(job, slot, at_us)
                if partition is None:
                    self.book.end(job, EventKind.JOB_DONE, at_us, derived=True)

    def _end_by_timeline(self) -> None:
        """A log of nothing but timeline lines has none for a job's end: it is the end of its last partition."""
        for job in list(self.book.live.values()):
            ends = [slot.left_us for slot in job.slots.values() if slot.done and slot.left_us is not None]
            if ends and len(ends) == len(job.slots):
                self.book.end(job, EventKind.JOB_DONE, max(ends), derived=True)
