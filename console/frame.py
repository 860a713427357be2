"""The frame: everything that one screenful shows, immutable, made by the feed loop and read by screens and exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.feeds.nvml.card import GpuCard
from console.feeds.nvml.census import Census
from prover.figures import GapCluster
from prover.model import DeviceSample, DeviceState, DeviceView, Snapshot
from widgets.timegrid import LaneSegment, Marker


@dataclass(frozen=True, slots=True)
class FeedView:
    """A source of the picture: how old its newest word is, and what is wrong with it, if anything is."""

    name: str
    age_s: float | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """What the device does and why, as a sentence; ``short`` is one without the reason, where there is one."""

    state: DeviceState
    sentence: str
    short: str = ""


@dataclass(frozen=True, slots=True)
class DeviceFrame:
    """One device: its view, its use by each way of asking (0..1, ``None`` unknown), its lane and its gaps."""

    view: DeviceView
    headline: Headline
    utilisation_by: Mapping[str, float | None] = field(default_factory=dict)
    """``kernels``, ``sm``, ``driver``, ``lock``, ``timeline`` over the window."""
    steady_utilisation: float | None = None
    lane: tuple[LaneSegment, ...] = ()
    samples: tuple[DeviceSample, ...] = ()
    driver: tuple[DeviceSample, ...] = ()
    """What the driver's own buffer says: a kernel or a copy ran."""
    card: GpuCard | None = None
    """The GPU behind the device, where NVML shows it."""
    gaps_in_window: int = 0
    clusters: tuple[GapCluster, ...] = ()
    clusters_over_s: float = 600.0
    """What the clusters look back: the window, or since the start."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What comes out: of the last minutes, and without ramp. ``None`` where nothing can be said yet."""

    proofs_per_minute: float | None = None
    trend: int = 0
    """1 rising, -1 falling, 0 level or unknown, against the stretch before."""
    seconds_per_proof: float | None = None
    steady_utilisation: float | None = None
    ceiling_proofs_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence of the diagnosis and what kind it is (``""``, ``good``, ``warn``, ``bad``, ``label``)."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why the device is not busy. ``bottleneck`` is a gap cause, ``gpu`` or ``unknown``."""

    bottleneck: str = "unknown"
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling once."""

    number: int
    """Rises; no two have the same."""
    text: str
    trouble: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture. ``at`` is monotonic, ``wall`` seconds since 1970; ``window`` the seconds that the lane covers."""

    at: float
    wall: float
    window: float
    snapshot: Snapshot
    devices: tuple[DeviceFrame, ...] = ()
    throughput: Throughput = Throughput()
    diagnosis: Diagnosis = Diagnosis()
    markers: tuple[Marker, ...] = ()
    feeds: tuple[FeedView, ...] = ()
    replay: str = ""
    """How a replay goes (``×4 31 %``); empty while the picture is live."""
    notices: tuple[Notice, ...] = ()
    """The latest happenings that are worth telling once, oldest first."""
    cards: tuple[GpuCard, ...] = ()
    """Every GPU of the machine, in use or not."""
    census: Census | None = None
    """GPUs counted three ways, once that is known."""
