"""The vocabulary that every feed speaks and every screen reads: frozen values, no behaviour beyond simple arithmetic.

Times are seconds on one monotonic clock (``time.monotonic``); sizes are bytes. ``None`` means unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType

KnobValue = int | bool | str
FieldValue = int | float | str | bool | None
_NO_FIELDS: Mapping[str, FieldValue] = MappingProxyType({})


class Phase(StrEnum):
    """What a partition goes through, in order. ``GPU`` is for sources that cannot divide it."""

    SYNTHESIS = "synthesis"
    QUEUED = "queued"
    LOCK_WAIT = "lock_wait"
    SETUP = "setup"
    H2D = "h2d"
    NTT = "ntt"
    MSM = "msm"
    D2H = "d2h"
    FINALIZING = "finalizing"
    GPU = "gpu"


DEVICE_PHASES = (Phase.LOCK_WAIT, Phase.SETUP, Phase.H2D, Phase.NTT, Phase.MSM, Phase.D2H)
KERNEL_PHASES = (Phase.NTT, Phase.MSM)


class PartitionState(StrEnum):
    """A partition's state: one of the phases while it is worked on, or one of these."""

    PENDING = "pending"
    SYNTHESIS = "synthesis"
    QUEUED = "queued"
    LOCK_WAIT = "lock_wait"
    SETUP = "setup"
    H2D = "h2d"
    NTT = "ntt"
    MSM = "msm"
    D2H = "d2h"
    FINALIZING = "finalizing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Priority(IntEnum):
    """How much a job is in a hurry: lower goes first, as in the daemon."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


class JobState(StrEnum):
    """A job's state."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DeviceState(StrEnum):
    """What a device does, in the contract's words."""

    COMPUTING = "computing"
    COPYING = "copying"
    LOCK_WAIT = "lock-wait"
    STARVED = "starved"
    NO_WORKER = "no-worker"
    IDLE = "idle"
    LOST = "lost"


class Cause(StrEnum):
    """Why a device did not compute."""

    REQUESTS = "requests"
    PAUSED = "paused"
    SYNTHESIS = "synthesis"
    MEMORY = "memory"
    LOCK = "lock"
    TRANSFER = "transfer"
    WORKERS = "workers"
    LOST = "lost"


class EventKind(StrEnum):
    """What an event tells."""

    JOB_SUBMITTED = "job_submitted"
    JOB_STARTED = "job_started"
    JOB_DONE = "job_done"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    JOB_REPRIORITISED = "job_reprioritised"
    PHASE_BEGAN = "phase_began"
    SPAN = "span"
    PARTITION_DONE = "partition_done"
    PARTITION_FAILED = "partition_failed"
    PARTITION_CANCELLED = "partition_cancelled"
    PROOF_WITHHELD = "proof_withheld"
    """A proof did not verify: it is never delivered; the slot is made again once."""
    KNOB_PROPOSED = "knob_proposed"
    KNOB_APPLIED = "knob_applied"
    """In force everywhere."""
    KNOB_ACKNOWLEDGED = "knob_acknowledged"
    """One worker took a generation over."""
    KNOB_REFUSED = "knob_refused"
    WORKER_STARTED = "worker_started"
    WORKER_STOPPED = "worker_stopped"
    ENGINE_STARTED = "engine_started"
    ENGINE_STOPPED = "engine_stopped"
    ENGINE_DRAINING = "engine_draining"
    """It takes no more jobs; those that it has go on."""
    ENGINE_RESUMED = "engine_resumed"
    KERNELS = "kernels"
    """A stretch in which kernels of a slot ran, by the device's own events; told before the span of its phase."""
    DEVICE_LOST = "device_lost"
    """A device answers no more; its slots are made again elsewhere or fail."""
    SLOT_REQUEUED = "slot_requeued"
    """A device failed a slot that is no fault of the slot's: it is made again from synthesis on."""
    JOURNAL = "journal"
    """The journal cannot be written, or can be again, or jobs of an earlier session go on: ``line``, ``trouble``."""
    SPOOL = "spool"
    """What became of an input in the spool, or trouble with the folder: ``line``, ``trouble``."""
    MEMORY = "memory"
    """The slot that is next begins to wait for memory (``waits`` is true), or waits no more."""
    FIRST_RUN = "first_run"
    """A first-run cost (key loading, compilation): a span that never enters an average."""


@dataclass(frozen=True, slots=True)
class Event:
    """One happening. ``SPAN``, ``KERNELS`` and ``FIRST_RUN`` carry ``start``; ``at`` is then the end.

    ``partitions`` are the partitions of the slot that the event is about (one in partitioned mode).
    """

    seq: int
    at: float
    kind: EventKind
    job: str | None = None
    partitions: tuple[int, ...] = ()
    phase: Phase | None = None
    start: float | None = None
    device: int | None = None
    worker: str | None = None
    fields: Mapping[str, FieldValue] = field(default_factory=lambda: _NO_FIELDS)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work or of waiting."""

    phase: Phase
    start: float
    end: float
    job: str | None = None
    partitions: tuple[int, ...] = ()
    device: int | None = None
    worker: str | None = None

    @property
    def seconds(self) -> float:
        """Length."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as it stands: finished spans in order, and the phase under way with its start."""

    index: int
    state: PartitionState
    spans: tuple[Span, ...] = ()
    phase_began: float | None = None
    progress: float | None = None
    """Share of the phase under way that is done, 0..1, where the stage can tell."""
    device: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as it stands."""

    id: str
    circuit: str
    state: JobState
    submitted: float
    started: float | None = None
    ended: float | None = None
    slot_size: int = 1
    partitions: tuple[PartitionView, ...] = ()
    error: str | None = None
    priority: Priority = Priority.NORMAL
    deadline: float | None = None
    """When it is to be done, on the engine's clock; ``None`` where nobody said."""

    @property
    def done(self) -> int:
        """Finished partitions."""
        return sum(p.state is PartitionState.DONE for p in self.partitions)


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage of the pipeline. ``queued`` counts slots waiting before it; capacities are ``None`` where unbounded."""

    name: str
    """``synthesis``, ``gpu`` or ``finalizing``."""
    workers: int
    busy: int
    queued: int
    capacity: int | None
    blocked: int = 0
    """Workers that hold a finished slot because the next queue is full."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device as it stands."""

    ordinal: int
    kind: str
    """``host`` or ``cuda``."""
    name: str
    state: DeviceState
    cause: Cause | None
    since: float
    """When the state began."""
    workers: int
    workers_busy: int
    lock_holder: str | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    uuid: str = ""
    """A GPU's UUID as the driver writes it: the one name that CUDA and NVML share."""
    proofs_good: int = 0
    """Proofs of it that verified, since the journal knows it (or the engine started, without one)."""
    proofs_bad: int = 0
    """Proofs of it that did not verify; none of them was delivered."""


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One sample of a device's counters; percentages are 0..100, ``None`` where the source has none."""

    at: float
    ordinal: int
    source: str
    """``host`` (CPU use of the machine), ``gpm`` or ``nvml``."""
    kernels: float | None = None
    sm: float | None = None
    driver: float | None = None
    lock: float | None = None
    occupancy: float | None = None
    integer_pipe: float | None = None
    fp64_pipe: float | None = None
    dram: float | None = None
    pcie_rx: float | None = None
    """Bytes a second to the device; ``pcie_tx`` from it."""
    pcie_tx: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    cpu: float | None = None
    """CPU use of all cores, 0..100 (host)."""


@dataclass(frozen=True, slots=True)
class KnobView:
    """A knob as it stands: what is wanted, what is in force, and who has not taken it over yet."""

    name: str
    wanted: KnobValue
    in_force: KnobValue
    lagging: tuple[str, ...] = ()
    changed: float | None = None
    """When the wanted value was accepted."""
    landed: float | None = None
    """When it came into force everywhere."""


@dataclass(frozen=True, slots=True)
class PacerView:
    """The controller of ``max_gpu_queue_depth`` as it stands. ``None`` where nothing was measured yet."""

    target: int
    """Finished syntheses that should wait; 0: off."""
    waiting: int
    in_work: int
    limit: int | None
    """The most that may be on their way; None while it is off."""
    synthesis_s: float | None
    """Seconds of a slot's synthesis, smoothed."""
    device_s: float | None
    """Seconds that all devices together are taken by a slot, smoothed."""
    holding: bool
    """Whether a synthesis that could begin is held back now."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the engine started."""

    jobs_submitted: int = 0
    jobs_done: int = 0
    jobs_failed: int = 0
    partitions_done: int = 0
    partitions_failed: int = 0
    proofs_verified: int = 0
    proofs_withheld: int = 0
    workers_replaced: int = 0
    """Worker threads that died and have a successor."""


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The memory budget as it stands, in bytes of the process (a GPU's own memory is not in it)."""

    total: int | None
    """None where nothing bounds it."""
    used: int
    by_kind: tuple[tuple[str, int], ...] = ()
    """``keys``, ``matrices``, ``working``, ``pinned``."""
    peak: int = 0
    """The most that was ever in use."""
    kept: int = 0
    """Kept free for urgent jobs."""
    waits_for: str | None = None
    """Which slot waits for memory, and for how much, in one line."""
    automatic: int | None = None
    """What ``total_budget`` ``auto`` stands for on this machine; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine's picture at one instant."""

    at: float
    started: float
    last_seq: int
    circuit: str
    workload: str
    paused: bool
    jobs: tuple[JobView, ...]
    """Waiting and running jobs in order, then the last few finished ones."""
    stages: tuple[StageView, ...]
    devices: tuple[DeviceView, ...]
    knobs: tuple[KnobView, ...]
    knob_generation: int
    counters: Counters
    activity: str | None = None
    """What the engine does before it can prove ("making the proving key 42 %"), or ``None``."""
    pacer: PacerView | None = None
    critical_wait_s: float | None = None
    """The longest that a synthesised slot of a critical job waits for a device: for one slot, as long as the longest of
    the latest. ``None`` before one was proved.
    """
    draining: bool = False
    """Whether it takes no more jobs until it is resumed."""
    memory_used: int | None = None
    memory_total: int | None = None
    simulated: bool = False
    """A modelled box: no proof was made."""
    memory: MemoryView | None = None
    """None where the feed has no budget, or the workload does not tell what it takes."""
    batch_waits: bool = False
    """A synthesiser is free and jobs wait, but for more jobs to fill their batch."""
