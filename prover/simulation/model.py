"""A modelled box: what a job is, how long each step takes, what slows what, and how much memory it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prover.model import KnobValue
from prover.simulation.contention import FREE, Slowdown
from prover.simulation.spread import NO_TIME, Timing

GIB = 2**30


@dataclass(frozen=True, slots=True)
class SynthesisModel:
    """Making witness and a, b, c of a slot."""

    time: Timing = NO_TIME
    tail: Timing = NO_TIME
    """Work of a single thread at the end of it, which slows nobody and is slowed by nobody."""
    slowdown: Slowdown = FREE
    """By how many syntheses run at once, itself included."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The device, and a slot's way over it."""

    name: str = "modelled GPU"
    count: int = 1
    memory: int = 0
    """Bytes; 0 where the model does not say."""
    slowdown: Slowdown = FREE
    """By how many syntheses run beside it."""
    setup: Timing = NO_TIME
    pageable: Timing = NO_TIME
    """Copies to the device from ordinary memory."""
    pinned: Timing = NO_TIME
    """The same from pinned memory."""
    ntt: Timing = NO_TIME
    msm: Timing = NO_TIME
    d2h: Timing = NO_TIME
    ntt_kernels: float = 1.0
    """The share of that step in which kernels run, from its start on; ``msm_kernels`` likewise."""
    msm_kernels: float = 1.0


@dataclass(frozen=True, slots=True)
class FinalizingModel:
    """After the device: assembly, and the self-check's time (there is no proof to check)."""

    assembly: Timing = NO_TIME
    check: Timing = NO_TIME


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """Bytes of the machine's memory."""

    total: int = 0
    fixed: int = 0
    """Keys, matrices and the rest that is always there."""
    synthesis: int = 0
    """A partition, from the start of its synthesis until its copies are on the device."""
    filled: float = 1.0
    """The share of a synthesis after which its memory is full; until then it grows evenly."""
    device: int = 0
    """A partition from then on until it leaves the device."""
    pinned: int = 0
    """What of ``synthesis`` is a, b, c: it can lie in the pinned pool."""


@dataclass(frozen=True, slots=True)
class Model:
    """One modelled box."""

    name: str
    about: str = ""
    circuit: str = "modelled"
    constraints: int = 0
    partitions: int = 1
    clients: int = 2
    seed: int = 1
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    """The values that it starts with."""
    synthesis: SynthesisModel = SynthesisModel()
    device: DeviceModel = DeviceModel()
    finalizing: FinalizingModel = FinalizingModel()
    memory: MemoryModel = MemoryModel()
