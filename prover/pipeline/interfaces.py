"""The seams of the engine: what proves a slot (workload), and what a console may ask of the engine.

The engine knows neither circuits nor curves: it moves a workload's slots through its stages. The same engine therefore
runs the real prover, a modelled box, and the fakes of the tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from prover.cancel import Cancelled, CancelToken
from prover.model import Event, KnobValue, Priority, Snapshot

if TYPE_CHECKING:
    from prover.device.values import Capability
    from prover.pipeline.journal_records import InputFile


class SlotProver(Protocol):
    """One slot on one device: the engine calls the five steps in order, on one thread, and times each.

    With the narrow lock only ``ntt`` and ``msm`` run under the device's lock; what ``msm`` leaves to ``d2h`` may run
    beside the next slot's. A step that fails raises; the slot is then dropped through ``release``, which is always
    called once.
    """

    def setup(self) -> None:
        """Allocate workspaces and blinding."""

    def h2d(self) -> None:
        """Bring witness and a, b, c onto the device."""

    def ntt(self) -> None:
        """The scalars of H: inverse NTTs, coset NTTs, a*b - c."""

    def msm(self) -> None:
        """The five multi-scalar multiplications of each partition."""

    def d2h(self) -> Any:
        """Fetch the sums; returns the pending slot for ``Workload.finish``."""

    def release(self) -> None:
        """Free what the slot holds on the device. Idempotent."""

    def kernel_spans(self) -> Sequence[tuple[float, float]] | None:
        """When kernels ran for this slot, on ``time.monotonic``'s clock: what is known since the last call, in order.
        None where the device has no such events. Asked after each step, and not after ``release``.
        """


class Workload(Protocol):
    """A circuit with its keys, ready to prove."""

    name: str
    circuit: str
    constraints: int

    def synthesize(self, inputs: Any, partitions: Sequence[int], threads: int, cancel: CancelToken) -> Any:
        """Witness and a, b, c of these partitions of a job (one slot). Outside the GIL. Raises on a bad witness."""

    def joined(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> Any:
        """The inputs of a slot that holds these partitions of several jobs' inputs, numbered from 0 in this order."""

    def prover(self, synthesis: Any, device: Any, threads: int, cancel: CancelToken) -> SlotProver:
        """A prover for one synthesised slot. ``device`` is a ``prover.device.Device``."""

    def finish(self, pending: Any) -> list[bytes]:
        """Assemble the slot's proofs (192 bytes each on BLS12-381), in the order of its partitions. CPU only."""

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        """Whether all verify."""


def is_simulated(workload: Workload) -> bool:
    """Whether a workload is modelled: it proves nothing, and nothing of it ever counts as verified."""
    return bool(getattr(workload, "simulated", False))


class EngineDevice(Protocol):
    """What the engine itself reads of a ``prover.device.Device``; the rest is between it and the workload."""

    ordinal: int
    name: str
    product: str
    uuid: str
    capability: Capability


@runtime_checkable
class ChecksInputs(Protocol):
    """A workload that can tell at once that inputs are not those of so many partitions."""

    def refusal(self, inputs: Any, partitions: int) -> str | None:
        """What is wrong with them, in a few words."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One proof request."""

    inputs: Any
    partitions: int
    id: str | None = None
    """Given by the engine when ``None``."""
    circuit: str = ""
    """Which of the engine's circuits; it may be left out where there is but one."""
    priority: Priority = Priority.NORMAL
    deadline: float | None = None
    """When it is to be done, on the engine's clock. Orders jobs of one priority; it never fails a job."""
    origin: Mapping[str, object] = field(default_factory=dict)
    """What the submitter needs to make the inputs again (JSON), for the journal."""
    files: tuple[InputFile, ...] = ()
    """The files that the inputs are made of, with their identity, for the journal."""
    proofs: Mapping[int, bytes] = field(default_factory=dict)
    """Verified proofs that are there already, by partition (of a job that is resumed): they are not made again."""
    hands_over: bool = False
    """Whether the submitter hands the proofs over itself, with ``delivery.deliver``. Otherwise setting the future is
    the hand-over, and a journal counts the job as delivered from then on.
    """


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job delivered: its partitions' proofs in order."""

    id: str
    proofs: tuple[bytes, ...]
    submitted: float
    ended: float
    verified: bool = True
    """False only if ``self_check`` was off for any of its partitions, or if they are modelled and no proofs at all."""


@dataclass(frozen=True, slots=True)
class Change:
    """A proposal to change one knob."""

    name: str
    new: KnobValue
    old: KnobValue | None = None
    who: str = "operator"
    why: str = ""
    based_on: int | None = None
    """The generation that the proposer saw; a proposal on a stale one is refused if this knob changed since."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The engine's answer to a proposal. ``reason`` is one line when it was refused."""

    accepted: bool
    generation: int
    effect: str = "now"
    reason: str | None = None
    change: Change | None = field(default=None)
    note: str | None = None
    """A remark on an accepted change: it changes nothing, or another knob limits it."""


class EngineView(Protocol):
    """What the console needs of an engine, hosted, modelled or replayed."""

    def snapshot(self) -> Snapshot:
        """The picture now. Never waits for a worker."""

    def events(self, since: int) -> Sequence[Event]:
        """Events with ``seq > since``, oldest first, as far back as the ring holds."""

    def propose(self, change: Change) -> Receipt:
        """Validate, store, journal; never waits for workers."""

    def undo(self, who: str = "operator") -> Receipt:
        """Propose back the last accepted change that is not itself an undo."""


class EngineControl(EngineView, Protocol):
    """An engine that can also be fed and stopped."""

    def start(self) -> None:
        """Start the workers. Idempotent."""

    def submit(self, request: JobRequest) -> Future[JobResult]:
        """Queue a job. The future fails with the job's one-line cause."""

    @property
    def accepting(self) -> threading.Event:
        """Set but while the engine drains: ``submit`` then raises ``Draining``."""

    def cancel(self, job: str) -> bool:
        """Cancel a job; False if it is unknown or ended."""

    def cancel_remaining(self, job: str) -> int:
        """Cancel the partitions of a job that were not begun; how many."""

    def reprioritise(self, job: str, priority: Priority) -> bool:
        """Give a job another priority; False if it is unknown or ended."""

    def drain(self) -> None:
        """Take no more jobs; those that are here go on."""

    def resume(self) -> None:
        """Take jobs again after ``drain``."""

    def stop(self, drain_timeout_s: float = 0.0) -> None:
        """Stop: let running slots end for at most this long, then cancel them. Joins every thread."""


Progress = Callable[[str, float | None], None]
"""Called with what is being done, and the share done (0..1) or None."""

__all__ = [
    "CancelToken",
    "Cancelled",
    "Change",
    "EngineControl",
    "EngineDevice",
    "EngineView",
    "JobRequest",
    "JobResult",
    "Progress",
    "Receipt",
    "SlotProver",
    "Workload",
    "is_simulated",
]
