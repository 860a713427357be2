"""Why the device is not busy, by rules: which cause cost the most time, the figures behind it, what to try.

The rules name a knob only where turning it can help; on a host whose cores are all busy they say that instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.frame import Diagnosis, Remark
from prover.figures import PhaseStatistics
from prover.model import KERNEL_PHASES, Cause, KnobValue, Phase
from widgets.figures import seconds as show_seconds

_BUSY_ENOUGH = 0.9
_FEW_GAPS = 3
_CORES_BUSY = 95.0
_CORES_TO_SPARE = 75.0


PAUSED = Diagnosis(Cause.PAUSED.value, (Remark("Paused: nothing new begins. p goes on.", "warn"),))
"""While the engine is paused, whatever the minutes before show."""


def none_selected(devices: str) -> Diagnosis:
    """While the knob ``gpu_devices`` has the value ``devices``, which leaves out every device that there is."""
    finding = Remark(f"No device is selected: gpu_devices is {devices}.", "warn")
    return Diagnosis(Cause.PAUSED.value, (finding, Remark(f"Try gpu_devices {devices} → all.", "good")))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a stretch of ``over_s`` seconds shows. ``lost_s``: seconds without a kernel by cause; means in seconds."""

    over_s: float
    busy_s: float
    lost_s: Mapping[Cause, float]
    gaps: int
    phases: Mapping[Phase, PhaseStatistics] = field(default_factory=dict)
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    host: bool = True
    cpu_percent: float | None = None
    """CPU use of the machine over the stretch."""
    cores: int = 1
    """Of this process."""
    batch_s: float = 0.0
    """Seconds in which jobs waited for their batch to fill and a synthesiser for them."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """The diagnosis in at most four sentences, of an engine that is not paused now."""
    lost = sum(evidence.lost_s.values())
    total = evidence.busy_s + lost
    if evidence.gaps < _FEW_GAPS or total <= 0:
        return Diagnosis("unknown", (Remark("Too little seen yet: the answer comes with the first proofs.", "label"),))
    device = "device" if evidence.host else "GPU"
    if evidence.busy_s >= _BUSY_ENOUGH * total:
        share = f"{100 * evidence.busy_s / total:.0f} %"
        first = Remark(f"It is: the {device} computed for {share} of the time and is itself the limit.", "good")
        return Diagnosis("gpu", (first, *_idle_cores(evidence), *_means(evidence, device)))
    filling = min(evidence.batch_s, evidence.lost_s.get(Cause.SYNTHESIS, 0.0))
    lost_s = {**evidence.lost_s, Cause.SYNTHESIS: evidence.lost_s.get(Cause.SYNTHESIS, 0.0) - filling}
    cause = max(lost_s, key=lambda one: lost_s[one])
    if filling > 0 and filling >= lost_s[cause]:
        return Diagnosis(Cause.REQUESTS.value, tuple(_batch(f"{100 * filling / total:.0f} %", evidence.knobs)))
    part = f"{100 * lost_s[cause] / total:.0f} %"
    remarks = [Remark(_FINDING[cause].format(part=part, device=device), "warn")]
    remarks += _advice(cause, evidence)  # before the figures: a low panel has no room for these
    remarks += _means(evidence, device)
    return Diagnosis(cause.value, tuple(remarks))


_FINDING: Mapping[Cause, str] = {
    Cause.REQUESTS: "Nothing is asked: for {part} of the time no request waited.",
    Cause.PAUSED: "It was paused for {part} of the time, and goes on now.",
    Cause.SYNTHESIS: "Limited by synthesis: for {part} of the time nothing was ready for the {device}.",
    Cause.MEMORY: "Limited by memory: for {part} of the time no further slot fitted.",
    Cause.LOCK: "Limited by the {device} lock: for {part} of the time its holder did CPU work.",
    Cause.TRANSFER: "Limited by copies: for {part} of the time data moved and nothing computed.",
    Cause.WORKERS: "Limited by workers: for {part} of the time work waited and none was free.",
    Cause.LOST: "The {device} did not answer for {part} of the time.",
}


def _batch(part: str, knobs: Mapping[str, KnobValue]) -> list[Remark]:
    """Jobs are there, and wait for others of their batch."""
    finding = Remark(f"Jobs wait for a batch: for {part} of the time it was not full.", "warn")
    wait, size = knobs.get("max_batch_wait_ms"), knobs.get("max_batch_size")
    if not isinstance(wait, int) or not isinstance(size, int) or size < 2:
        return [finding]
    advice = f"Try max_batch_wait_ms {wait} → {wait // 2} or max_batch_size {size} → {max(1, size // 2)}."
    return [finding, Remark(advice, "good")]


def _mean(evidence: Evidence, *phases: Phase) -> float | None:
    known = [evidence.phases[phase].mean_s for phase in phases if phase in evidence.phases]
    return sum(known) if known else None


def _means(evidence: Evidence, device: str) -> list[Remark]:
    synthesis, kernels = _mean(evidence, Phase.SYNTHESIS), _mean(evidence, *KERNEL_PHASES, Phase.GPU)
    if synthesis is None or kernels is None:
        return []
    text = f"A slot takes {show_seconds(synthesis)} to synthesise and {show_seconds(kernels)} on the {device}."
    return [Remark(text)]


def _idle_cores(evidence: Evidence) -> list[Remark]:
    """A host device that is the limit may be given the cores that nobody uses."""
    knob, cpu = evidence.knobs.get("gpu_threads"), evidence.cpu_percent
    if not evidence.host or not isinstance(knob, int) or cpu is None or cpu >= _CORES_TO_SPARE:
        return []
    if (knob or max(1, evidence.cores - 1)) >= evidence.cores:
        return []
    wanted = f"Try gpu_threads {knob or 'auto'} → {evidence.cores}"
    return [Remark(f"{wanted}: the processor is used to {cpu:.0f} %.", "good")]


def _advice(cause: Cause, evidence: Evidence) -> list[Remark]:
    knobs = evidence.knobs
    if cause is Cause.SYNTHESIS:
        if evidence.host and evidence.cpu_percent is not None and evidence.cpu_percent >= _CORES_BUSY:
            return [Remark("All cores are busy: more synthesis would take them from the device.", "label")]
        return _raise("synthesis_concurrency", evidence)
    if cause in (Cause.LOCK, Cause.TRANSFER):
        if knobs.get("gpu_lock") == "coarse":
            lock = Remark("Try gpu_lock coarse → narrow: set-up and copies then leave the lock.", "good")
            return [lock, *_pinned(evidence)]
        return [*_pinned(evidence), *_raise("gpu_workers_per_device", evidence, most=2)]
    if cause is Cause.WORKERS:
        return _raise("gpu_workers_per_device", evidence)
    if cause is Cause.REQUESTS:
        return [Remark("More clients (-j) would keep it busy.", "good")]
    return []


def _pinned(evidence: Evidence) -> list[Remark]:
    """Copies of a GPU without page-locked buffers are staged by the driver, and its workers wait for them."""
    if evidence.host or evidence.knobs.get("pinned_pool_bytes") != 0:
        return []
    return [Remark("Try pinned_pool_bytes 0 → auto: copies are then page-locked.", "good")]


def _raise(knob: str, evidence: Evidence, most: int = 64) -> list[Remark]:
    value = evidence.knobs.get(knob)
    if not isinstance(value, int) or isinstance(value, bool) or value >= most:
        return []
    return [Remark(f"Try {knob} {value} → {value + 1}.", "good")]
