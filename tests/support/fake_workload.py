"""A workload that proves nothing, accounts for everything, and can be made to wait, fail or lie at any step."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from prover.cancel import CancelToken
from prover.device.errors import DeviceLost
from prover.pipeline.budget import Kind, Resident
from prover.pipeline.footprint import Footprint

STEPS = ("synthesize", "prover", "setup", "h2d", "ntt", "msm", "d2h", "release", "finish", "verify")
Step = Callable[[str, Any, tuple[int, ...], CancelToken | None], None]


def proof_of(inputs: Any, partition: int) -> bytes:
    """The one right proof of a partition: 192 bytes that nobody else's are."""
    if isinstance(inputs, tuple) and inputs and isinstance(inputs[0], tuple):  # of several jobs
        inputs, partition = inputs[partition]
    return hashlib.sha256(f"{inputs}/{partition}".encode()).digest() * 6


def fake_device(ordinal: int = 0) -> Any:
    """What the engine reads of a device."""
    capability = SimpleNamespace(kind="host", arch="fake", multiprocessors=1, memory_bytes=0, has_timing_events=False)
    name = f"fake {ordinal}"
    return SimpleNamespace(ordinal=ordinal, name=name, product=name, uuid="", capability=capability)


@dataclass
class FakeMemory:
    """A memory model of plain numbers, and a count of what a workload really holds by them."""

    vectors: int = 6
    """Bytes of a partition until its device has taken them; ``rest`` until it leaves the device."""
    rest: int = 4
    lasting: dict[Kind, int] = field(default_factory=dict)
    residents: tuple[Resident, ...] = ()

    def __post_init__(self) -> None:
        self.lock = threading.RLock()  # garbage may be collected anywhere
        self.held = 0
        self.most = 0
        self.uncovered = 0
        """The most that was held beyond what the budget counted at that instant."""
        self.counted: Callable[[], int] | None = None
        """What the budget counts now."""
        self.evicted: list[str] = []

    def fixed(self, device_is_host: bool) -> dict[Kind, int]:
        return self.lasting

    def slot(self, partitions: int, device_is_host: bool) -> Footprint:
        return Footprint(partitions * self.vectors, partitions * self.rest)

    def evict(self, name: str) -> None:
        self.evicted.append(name)

    def hold(self, nbytes: int) -> None:
        with self.lock:
            self.held += nbytes
            self.most = max(self.most, self.held)
            if self.counted is not None:  # what is given back is told to the budget after this lock is free
                self.uncovered = max(self.uncovered, self.held - self.counted())


class Buffers:
    """Something whose life can be watched."""

    def __init__(self, inputs: Any, partitions: tuple[int, ...]) -> None:
        self.inputs = inputs
        self.partitions = partitions
        self.freed: Callable[[], None] = lambda: None

    def __del__(self) -> None:
        self.freed()


@dataclass
class FakeWorkload:
    """``step`` is called inside every step: it may wait, sleep or raise. ``lies`` counts, per (inputs, first
    partition), how many attempts give a wrong proof.
    """

    step: Step | None = None
    lies: dict[tuple[Any, int], int] = field(default_factory=dict)
    name: str = "fake workload"
    circuit: str = "fake"
    constraints: int = 4
    footprint: FakeMemory | None = None

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.threads_given: dict[str, set[int]] = {"synthesize": set(), "prover": set()}
        self.kernels: Counter[int] = Counter()
        self.kernel_clash = False
        self.lost: set[int] = set()
        """Devices that answer no more: since a step on them raised ``DeviceLost``."""
        self.buffers: weakref.WeakSet[Buffers] = weakref.WeakSet()
        self.provers: list[FakeSlotProver] = []

    def enter(self, step: str, inputs: Any, partitions: tuple[int, ...], cancel: CancelToken | None) -> None:
        with self.lock:
            self.calls[step] += 1
            self.running[step] += 1
            self.most[step] = max(self.most[step], self.running[step])
        try:
            if self.step is not None:
                self.step(step, inputs, partitions, cancel)
        finally:
            with self.lock:
                self.running[step] -= 1

    def synthesize(self, inputs: Any, partitions: Sequence[int], threads: int, cancel: CancelToken) -> Buffers:
        self.threads_given["synthesize"].add(threads)
        made = Buffers(inputs, tuple(partitions))
        self.buffers.add(made)
        if self.footprint is not None:
            made.freed = partial(self.footprint.hold, -self.footprint.vectors * len(partitions))
            self.footprint.hold(self.footprint.vectors * len(partitions))
        self.enter("synthesize", inputs, made.partitions, cancel)
        return made

    def joined(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> Any:
        return tuple((inputs, partition) for inputs, partitions in parts for partition in partitions)

    def prover(self, synthesis: Buffers, device: Any, threads: int, cancel: CancelToken) -> FakeSlotProver:
        self.threads_given["prover"].add(threads)
        with self.losing(device.ordinal):
            self.enter("prover", synthesis.inputs, synthesis.partitions, cancel)
        prover = FakeSlotProver(self, synthesis, device, cancel)
        with self.lock:
            self.provers.append(prover)
        return prover

    @contextmanager
    def losing(self, device: int) -> Iterator[None]:
        """A step on a device, which is lost if the step says so."""
        try:
            yield
        except DeviceLost:
            self.lost.add(device)
            raise

    def finish(self, pending: tuple[Any, tuple[int, ...], bool]) -> list[bytes]:
        inputs, partitions, honest = pending
        self.enter("finish", inputs, partitions, None)
        return [proof_of(inputs, partition) if honest else bytes(192) for partition in partitions]

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        self.enter("verify", inputs, tuple(partitions), None)
        expected = [proof_of(inputs, partition) for partition in partitions]
        return list(proofs) == expected

    def take_lie(self, inputs: Any, partitions: tuple[int, ...]) -> bool:
        with self.lock:
            left = self.lies.get((inputs, partitions[0]), 0)
            if left:
                self.lies[inputs, partitions[0]] = left - 1
            return left > 0

    def assert_all_released(self) -> None:
        """Every prover was released exactly once, and nothing of a slot is alive."""
        import gc

        assert all(prover.releases == 1 for prover in self.provers), Counter(p.releases for p in self.provers)
        self.provers.clear()
        gc.collect()
        assert not list(self.buffers)


class FakeSlotProver:
    """Checks that the steps come in order, each once, and that kernels of one device never overlap."""

    def __init__(self, workload: FakeWorkload, synthesis: Buffers, device: Any, cancel: CancelToken) -> None:
        self._workload = workload
        self._synthesis: Buffers | None = synthesis
        self._device = device
        self._cancel = cancel
        self._slot = (synthesis.inputs, synthesis.partitions)
        self._at = "prover"
        self._taken = 0
        self.releases = 0

    def _step(self, step: str) -> None:
        assert STEPS.index(step) == STEPS.index(self._at) + 1, (self._at, step)
        self._at = step
        lost = self._workload.lost
        if self._device.ordinal in lost:
            raise DeviceLost("it failed before", self._device.name)
        with self._workload.losing(self._device.ordinal):
            self._workload.enter(step, *self._slot, self._cancel)

    def _kernel(self, step: str) -> None:
        ordinal = self._device.ordinal
        with self._workload.lock:
            self._workload.kernels[ordinal] += 1
            self._workload.kernel_clash |= self._workload.kernels[ordinal] > 1
        try:
            self._step(step)
        finally:
            with self._workload.lock:
                self._workload.kernels[ordinal] -= 1

    def setup(self) -> None:
        memory = self._workload.footprint
        if memory is not None:
            self._taken = memory.rest * len(self._slot[1])
            memory.hold(self._taken)
        self._step("setup")

    def h2d(self) -> None:
        self._step("h2d")
        self._synthesis = None

    def ntt(self) -> None:
        self._kernel("ntt")

    def msm(self) -> None:
        self._kernel("msm")

    def d2h(self) -> Any:
        self._step("d2h")
        return (*self._slot, not self._workload.take_lie(*self._slot))

    def release(self) -> None:
        self.releases += 1
        self._synthesis = None
        if self._workload.footprint is not None:
            self._workload.footprint.hold(-self._taken)
            self._taken = 0
        with self._workload.losing(self._device.ordinal):
            self._workload.enter("release", *self._slot, None)

    def kernel_spans(self) -> list[tuple[float, float]] | None:
        return None
