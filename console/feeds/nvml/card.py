"""What is known of a GPU besides its samples: who it is, its health, who else is on it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardIdentity:
    """What does not change while the console runs. ``index`` is the driver's, which need not be CUDA's."""

    index: int
    uuid: str
    name: str
    memory_total: int | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    sm_clock_max_mhz: int | None = None
    mig: bool = False
    """Whether this is a slice of a GPU in MIG mode."""
    gpm: bool = False
    """Whether the GPU counts what its multiprocessors really do (Hopper and newer)."""


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process on the GPU; ``memory`` in bytes where the driver tells."""

    pid: int
    name: str
    memory: int | None
    ours: bool


@dataclass(frozen=True, slots=True)
class CardEvent:
    """An Xid that the driver reported; ``at`` is monotonic."""

    at: float
    xid: int


@dataclass(frozen=True, slots=True)
class CardState:
    """What is looked at once a second. ``None`` where the driver does not tell."""

    throttle: tuple[str, ...] = ()
    """Why the clocks are held down, in words; idling is no reason."""
    pcie_generation: int | None = None
    pcie_width: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    rows_pending: bool = False
    """A memory row waits for the next reset to be replaced."""
    rows_failed: bool = False
    """A memory row could not be replaced."""
    processes: tuple[CardProcess, ...] = ()
    events: tuple[CardEvent, ...] = ()
    refused: tuple[str, ...] = ()
    """What this user may not ask, in words."""


@dataclass(frozen=True, slots=True)
class GpuCard:
    """A GPU as it stands."""

    identity: CardIdentity
    state: CardState = CardState()
    at: float | None = None
    """When it was sampled last."""
    lost: bool = False
    """The driver said that the GPU is gone."""
    problem: str | None = None
    """In one line, why there are no fresh figures."""
    memory_floor: int | None = None
    """The least memory in use during the last minutes: what stays when a proof has ended."""
    memory_floor_line: tuple[int, ...] = ()
    """That floor since the console runs, a few figures, oldest first."""
    memory_floor_rise: float | None = None
    """How fast that rises, bytes an hour; ``None`` while too little was seen."""


def same_gpu(one: str, other: str) -> bool:
    """Whether two UUIDs name the same device, be they written by CUDA or by NVML (``GPU-…``, ``MIG-…``)."""
    return bool(one) and _digits(one) == _digits(other)


def _digits(uuid: str) -> str:
    return uuid.lower().removeprefix("mig-").removeprefix("gpu-")
