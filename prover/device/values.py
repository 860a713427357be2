"""What plans and devices tell each other: a device's capability, its memory in use, one step of work."""

from __future__ import annotations

from collections.abc import Mapping

from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from prover.native import GroupId


@dataclass(frozen=True, slots=True)
class Capability:
    """What plans depend on; frozen, so that a plan for any device can be built and tested anywhere."""

    kind: str
    """``host`` or ``cuda``."""
    arch: str
    """``sm_90`` on CUDA; the host library's variant (``portable``, ``bmi2``, ``ifma``) on the host."""
    multiprocessors: int
    """Streaming multiprocessors, or cores."""
    memory_bytes: int
    has_timing_events: bool
    shared_bytes: int = 0
    """Shared memory that a block may have at most (CUDA)."""
    shared_bytes_per_multiprocessor: int = 0
    l2_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Device memory, in bytes."""

    used: int
    free: int
    peak: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operation for a device: its name and arguments. ``work`` predicts its cost (field multiplications, bytes)."""

    op: str
    arguments: Mapping[str, Any]
    multiplications: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class MsmTerms:
    """Bases of one of several multiplications that share their scalars."""

    group: GroupId
    bases: Any
    """Affine Montgomery points on the device."""
    absent: int = 0
    """So many scalars at the beginning have no base here; base 0 belongs to the scalar after them."""


__all__ = ["Capability", "MsmTerms", "Step", "Usage"]
