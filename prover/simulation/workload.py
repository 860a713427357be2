"""The modelled box behind the engine's seams: a workload whose steps take their time and make nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prover.cancel import CancelToken
from prover.device.values import Capability, Usage
from prover.model import KnobValue
from prover.pipeline.budget import Kind, Resident
from prover.pipeline.clock import EngineClock
from prover.pipeline.footprint import Footprint
from prover.simulation.contention import Machine, Slowdown
from prover.simulation.memory import Holding, Memory
from prover.simulation.model import MemoryModel, Model
from prover.simulation.spread import Timing, position

_STEPS = 16
"""A synthesis fills its memory in so many steps."""
SYNTHESIS = "synthesis"
DEVICE = "device"
Settings = Callable[[], Mapping[str, KnobValue]]


@dataclass(frozen=True, slots=True)
class ModelledSlot:
    """Which slot of the run this is."""

    number: int
    """Counts slots of this size over all jobs: where in each distribution the slot falls."""
    partitions: int


@dataclass(eq=False, slots=True)
class ModelledSynthesis:
    """What a modelled synthesis leaves: memory in use."""

    slot: ModelledSlot
    holding: Holding


class ModelledFootprint:
    """What the model's slots take of the modelled machine's memory (``prover.pipeline.footprint.FootprintModel``)."""

    residents: Sequence[Resident] = ()

    def __init__(self, memory: MemoryModel) -> None:
        self._memory = memory

    def fixed(self, device_is_host: bool) -> Mapping[Kind, int]:
        """Keys, matrices and the rest that is always there."""
        return {Kind.KEYS: self._memory.fixed}

    def slot(self, partitions: int, device_is_host: bool) -> Footprint:
        """Full from the start of its synthesis; what the device leaves on the host stays to its end."""
        until, after = partitions * self._memory.synthesis, partitions * self._memory.device
        return Footprint(max(until - after, 0), after)

    def evict(self, name: str) -> None:
        """Nothing can go."""


class ModelledWorkload:
    """``Workload``: inputs are the numbers of jobs, proofs are empty, nothing ever counts as verified."""

    simulated = True

    def __init__(self, model: Model, clock: EngineClock, settings: Settings) -> None:
        """``settings`` gives the knobs as they are now: the pinned pool's size is read at each synthesis."""
        self.model = model
        self.name = f"{model.name}, {model.partitions} partitions"
        self.circuit = model.circuit
        self.constraints = model.constraints
        self.clock = clock
        self.memory = Memory(model.memory.fixed, model.memory.total)
        self.footprint = ModelledFootprint(model.memory)
        self.machine = Machine(clock)
        self.machine.add(SYNTHESIS, _by_syntheses(model.synthesis.slowdown))
        self.machine.add(DEVICE, _by_syntheses(model.device.slowdown))
        for ordinal in range(model.device.count):
            self.machine.add(_link(ordinal), _shared_link(_link(ordinal), model.device.slowdown))
        self._settings = settings

    def devices(self) -> list[ModelledDevice]:
        """The devices of the box."""
        return [ModelledDevice(ordinal, self.model) for ordinal in range(self.model.device.count)]

    def seconds(self, step: str, timing: Timing, slot: ModelledSlot) -> float:
        """How long a step of this slot takes if nothing slows it."""
        return timing.seconds(slot.partitions, position(self.model.seed, step, slot.number))

    def synthesize(
        self, inputs: Any, partitions: Sequence[int], threads: int, cancel: CancelToken
    ) -> ModelledSynthesis:
        """Take memory, and the time of a synthesis and its tail."""
        count = len(partitions)
        slot = ModelledSlot((int(inputs) * self.model.partitions + partitions[0]) // count, count)
        model, sizes = self.model.synthesis, self.model.memory
        pool = self._settings()["pinned_pool_bytes"]
        holding = self.memory.take(0, count * sizes.pinned, pool if isinstance(pool, int) else None)
        seconds = self.seconds("synthesis", model.time, slot)

        def reached(share: float) -> None:
            holding.grow(round(count * sizes.synthesis * min(1.0, share / sizes.filled)))

        self.machine.work(SYNTHESIS, seconds, cancel, reached, _STEPS)
        self.clock.sleep(self.seconds("tail", model.tail, slot), cancel)
        return ModelledSynthesis(slot, holding)

    def joined(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> Any:
        """A slot of several jobs falls where one of the first job would."""
        return parts[0][0]

    def prover(self, synthesis: ModelledSynthesis, device: Any, threads: int, cancel: CancelToken) -> ModelledProver:
        """A slot on its way over a device."""
        return ModelledProver(self, synthesis, device.ordinal, cancel)

    def finish(self, pending: ModelledSlot) -> list[bytes]:
        """Take the time of the assembly. What comes out cannot be taken for proofs."""
        self.clock.sleep(self.seconds("assembly", self.model.finalizing.assembly, pending))
        return [b""] * pending.partitions

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        """Take the time of the self-check. True lets the job end; the engine marks nothing of a model as verified."""
        slot = ModelledSlot(int(inputs), len(partitions))
        self.clock.sleep(self.seconds("check", self.model.finalizing.check, slot))
        return True


class ModelledProver:
    """``SlotProver``: each step takes its time."""

    def __init__(self, workload: ModelledWorkload, made: ModelledSynthesis, ordinal: int, cancel: CancelToken) -> None:
        self._workload = workload
        self._slot = made.slot
        self._holding = made.holding
        self._link = _link(ordinal)
        self._cancel = cancel
        self._spans: list[tuple[float, float]] = []

    def setup(self) -> None:
        """Preparation on the host."""
        self._work(DEVICE, "setup", self._workload.model.device.setup)

    def h2d(self) -> None:
        """Copies to the device, by where synthesis put a, b, c; their memory is free afterwards."""
        device, sizes = self._workload.model.device, self._workload.model.memory
        self._work(self._link, "h2d", device.pinned if self._holding.pinned else device.pageable)
        self._holding.resize(self._slot.partitions * sizes.device)

    def ntt(self) -> None:
        """Kernels."""
        device = self._workload.model.device
        self._kernels("ntt", device.ntt, device.ntt_kernels)

    def msm(self) -> None:
        """Kernels."""
        device = self._workload.model.device
        self._kernels("msm", device.msm, device.msm_kernels)

    def d2h(self) -> ModelledSlot:
        """Copies from the device."""
        self._work(self._link, "d2h", self._workload.model.device.d2h)
        return self._slot

    def release(self) -> None:
        """Give the slot's memory back."""
        self._holding.release()

    def kernel_spans(self) -> list[tuple[float, float]]:
        """When kernels ran since the last call."""
        spans, self._spans = self._spans, []
        return spans

    def _work(self, kind: str, step: str, timing: Timing) -> None:
        workload = self._workload
        workload.machine.work(kind, workload.seconds(step, timing, self._slot), self._cancel)

    def _kernels(self, step: str, timing: Timing, share: float) -> None:
        clock = self._workload.clock
        start = clock()
        try:
            self._work(DEVICE, step, timing)
        finally:
            if share > 0:
                self._spans.append((start, start + share * (clock() - start)))


class ModelledDevice:
    """What the engine and its reports read of a device."""

    uuid = ""

    def __init__(self, ordinal: int, model: Model) -> None:
        self.ordinal = ordinal
        self.name = f"model:{ordinal}"
        self.product = model.device.name
        self.capability = Capability("model", "modelled", 0, model.device.memory, True)
        self._memory = model.device.memory

    def memory(self) -> Usage:
        """Unknown: the model has the machine's memory alone."""
        return Usage(0, self._memory, 0)


def _link(ordinal: int) -> str:
    return f"copies {ordinal}"


def _by_syntheses(slowdown: Slowdown) -> Callable[[Counter[str]], float]:
    return lambda busy: slowdown.at(busy[SYNTHESIS])


def _shared_link(name: str, slowdown: Slowdown) -> Callable[[Counter[str]], float]:
    """Copies of one device share its link, and the machine's memory with the syntheses."""
    return lambda busy: max(1, busy[name]) * slowdown.at(busy[SYNTHESIS])
