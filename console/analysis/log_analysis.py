"""What a timeline says about a box: runs, gaps, phases, what limits it, and what does not. Pure functions.

The definitions are the contract's ("Numbers"). Pauses between runs are the operator's and in no figure of a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from console.feeds.logs.tally import Count, Tally
from prover.figures import gap_clusters
from prover.intervals import length
from prover.model import Cause, Event, EventKind, Phase
from prover.timeline import Completion, Gap, RunFigures, Timeline

SCHEMA = "cuzk-top/analysis/1"
_LEAST_GAP_S = 1e-3
"""A log tells milliseconds: what is shorter between two stays on a device is rounding."""
_BUSY = 0.9
_FRESH_S = 0.05
"""A slot that was picked this soon found the queue empty."""
_WARNED_OF_BOUND = "a log cannot tell kernels from copies: busy times are upper bounds"


@dataclass(slots=True)
class _Device:
    """One device over all runs."""

    busy_s: float = 0.0
    span_s: float = 0.0
    steady: list[float] = field(default_factory=lambda: [0.0, 0.0])
    window_s: float = 0.0
    locked_s: float = 0.0
    sections_s: float = 0.0
    gaps: list[Gap] = field(default_factory=list)
    between: list[Gap] = field(default_factory=list)


class Analysis:
    """The figures of a log."""

    def __init__(self, events: Sequence[Event], pause_s: float, tally: Tally) -> None:
        self.timeline = Timeline(window_s=None, pause_s=pause_s)
        self.timeline.fold(events)
        self.events = events
        self.tally = tally
        self.runs = self.timeline.runs()
        self.locks = any(event.fields.get("locked") for event in events)
        self.devices = {ordinal: self._device(ordinal) for ordinal in self.timeline.devices}
        self.phases = self.timeline.phase_statistics()
        ended = [entry.kind for entry in self.timeline.completions]
        self.proofs = ended.count(EventKind.JOB_DONE)
        self.failed = ended.count(EventKind.JOB_FAILED)

    def _device(self, ordinal: int) -> _Device:
        device, timeline = _Device(), self.timeline
        for run in self.runs:
            figures = next(figures for figures in run.devices if figures.ordinal == ordinal)
            busy = timeline.busy(ordinal, run.start, run.end)
            device.busy_s += figures.busy_s
            device.span_s += run.end - run.start
            if len(busy) > 1:
                device.steady[0] += length(busy[:-1])
                device.steady[1] += busy[-1][0] - busy[0][0]
            by = figures.utilisation_by
            window = figures.busy_s / by["kernels"] if by["kernels"] else 0.0
            device.window_s += window
            device.locked_s += window * (by["lock"] or 0.0)
            device.sections_s += window * (by["timeline"] or 0.0)
            device.gaps += [gap for gap in figures.gaps if gap.seconds >= _LEAST_GAP_S]
        if self.runs:
            whole = timeline.gaps(ordinal, self.runs[0].start, self.runs[-1].end)
            device.between = [gap for gap in whole if gap.between_runs]
        return device

    @property
    def busy_s(self) -> float:
        """Of the device that was busy longest."""
        return max((device.busy_s for device in self.devices.values()), default=0.0)

    # -- what limits --------------------------------------------------------------------------------------------------

    def bottleneck(self) -> str:
        """A gap cause, ``gpu`` or ``unknown``."""
        device = max(self.devices.values(), key=lambda device: device.busy_s, default=None)
        if device is None or not device.busy_s:
            return "unknown"
        share = device.sections_s / device.window_s if device.window_s else 0.0
        waited = self.phases.get(Phase.LOCK_WAIT)
        if share >= _BUSY and device.steady[1] > 0:  # a single stay fills its own window, which says nothing
            return "lock" if self.locks and waited is not None and waited.mean_s > 0.1 * self._held_s() else "gpu"
        lost: dict[str, float] = {}
        for gap in device.gaps:
            for cause, seconds in gap.parts:
                lost[cause.value] = lost.get(cause.value, 0.0) + seconds
        if lost:
            return max(lost, key=lambda cause: lost[cause])
        starved = device.span_s > 0 and device.busy_s / device.span_s < 0.5 and Phase.SYNTHESIS in self.phases
        return Cause.SYNTHESIS.value if starved else "unknown"

    def _held_s(self) -> float:
        held = self.phases.get(Phase.GPU)
        return held.mean_s if held is not None else 0.0

    def evidence(self) -> list[str]:
        """What the judgement rests on, with times and ids."""
        said = [_WARNED_OF_BOUND] if self.devices else []
        for ordinal, device in self.devices.items():
            if device.gaps:
                longest = max(device.gaps, key=lambda gap: gap.seconds)
                total = sum(gap.seconds for gap in device.gaps)
                said.append(
                    f"device {ordinal} waited {total:.3f} s in {len(device.gaps)} gaps; the longest, "
                    f"{longest.seconds:.3f} s from {stamp(longest.start)}, for {longest.cause.value}"
                )
        queued = [e for e in self.events if e.kind is EventKind.SPAN and e.phase is Phase.QUEUED and not e.fields]
        fresh = sum(e.start is not None and e.at - e.start < _FRESH_S for e in queued)
        if queued:
            said.append(f"queue empty at {fresh} of {len(queued)} picks")
        waited = self.phases.get(Phase.LOCK_WAIT)
        if waited is not None:
            said.append(
                f"lock: waited for {waited.mean_s:.3f} s on average ({waited.count} times), then held for "
                f"{self._held_s():.3f} s"
            )
        stays = [e.fields.get("locked") for e in self.events if e.kind is EventKind.SPAN and e.phase is Phase.GPU]
        if self.locks and not all(stays):
            known = f"{sum(map(bool, stays))} of {len(stays)} stays"
            said.append(f"the lock is known of {known}: its figure is a lower bound")
        spent = self.tally.waits.get("gpu_ms")
        if spent is not None and spent.count:
            mean = spent.total / spent.count / 1000
            said.append(f"gpu_ms of the log is not GPU time: {mean:.3f} s on average, with the wait for the lock in it")
        if self.tally.pageable:
            of = self.tally.pageable + self.tally.pinned
            said.append(f"pageable memory in {self.tally.pageable} of {of} partitions: slow copies, under the lock")
        return said + self.failures()

    def failures(self) -> list[str]:
        """Each failed job with its partition and cause."""
        where = {e.job: e.partitions for e in self.events if e.kind is EventKind.PARTITION_FAILED}
        return [
            f"job {e.job} failed at {stamp(e.at)}"
            + (f", partition {where[e.job][0]}" if where.get(e.job) else "")
            + f": {e.fields.get('error')}"
            for e in self.events
            if e.kind is EventKind.JOB_FAILED
        ]

    def ruled_out(self) -> list[dict[str, str]]:
        """What does not limit the box, with the figure that says so."""
        said = []
        waited, queued = self.phases.get(Phase.LOCK_WAIT), self.phases.get(Phase.QUEUED)
        if waited is not None and waited.mean_s < 0.02 * max(self._held_s(), 1e-9):
            said.append({"what": "lock", "figure": f"waited for {waited.mean_s * 1000:.1f} ms on average"})
        if queued is not None and queued.max_s < _FRESH_S:
            said.append({"what": "workers", "figure": f"a finished slot waited {queued.max_s * 1000:.1f} ms at most"})
        busy_ms = self.busy_s * 1000
        for what in ("tracker lock at pick-up", "thread pool", "tracker lock at the end"):
            count = self.tally.waits.get(what)
            if count is not None and count.total < 0.01 * busy_ms:
                said.append({"what": what, "figure": _milliseconds(count)})
        trim = self.tally.waits.get("malloc_trim")
        if trim is not None:
            figure = f"{_milliseconds(trim)}, after the worker was free: off the device's path"
            said.append({"what": "malloc_trim", "figure": figure})
        return said


def _milliseconds(count: Count) -> str:
    return f"{count.total} ms in all, {count.most} ms at most, {count.count} times"


def document(analysis: Analysis, lines: int, understood: int, warnings: Sequence[str]) -> dict[str, Any]:
    """The contract's JSON."""
    runs = analysis.runs
    start, end = (runs[0].start, runs[-1].end) if runs else (0.0, 0.0)
    first = analysis.timeline.figures(start, max(end, analysis.timeline.now)) if runs else None
    return {
        "schema": SCHEMA,
        "lines": lines,
        "lines_understood": understood,
        "span_s": round(end - start, 6),
        "proofs": analysis.proofs,
        "partitions": first.partitions if first is not None else 0,
        "failed": analysis.failed,
        "devices": [_device(ordinal, device, analysis) for ordinal, device in analysis.devices.items()],
        "phases": {
            phase.value: {
                "count": figures.count,
                "mean_s": _round(figures.mean_s),
                "stdev_s": _round(figures.stdev_s),
                "p50_s": _round(figures.p50_s),
                "p95_s": _round(figures.p95_s),
                "min_s": _round(figures.min_s),
                "max_s": _round(figures.max_s),
            }
            for phase, figures in analysis.phases.items()
        },
        "runs": [_run(nth, run, analysis) for nth, run in enumerate(runs)],
        "bottleneck": analysis.bottleneck(),
        "evidence": analysis.evidence(),
        "ruled_out": analysis.ruled_out(),
        "ceiling_proofs_per_minute": _round(60 * analysis.proofs / analysis.busy_s) if analysis.busy_s else None,
        "projections": [],
        "warnings": list(warnings),
    }


def _device(ordinal: int, device: _Device, analysis: Analysis) -> dict[str, Any]:
    window = device.window_s
    clusters = gap_clusters((gap.seconds, gap.cause) for gap in device.gaps)
    return {
        "ordinal": ordinal,
        "busy_s": _round(device.busy_s),
        "utilisation": _ratio(device.busy_s, device.span_s),
        "steady_utilisation": _ratio(*device.steady),
        "utilisation_by": {
            "kernels": None,
            "sm": None,
            "driver": None,
            "lock": _ratio(device.locked_s, window) if analysis.locks else None,
            "timeline": _ratio(device.sections_s, window),
        },
        "gaps": {
            "count": len(device.gaps),
            "total_s": _round(sum(gap.seconds for gap in device.gaps)),
            "between_runs": {
                "count": len(device.between),
                "total_s": _round(sum(gap.seconds for gap in device.between)),
            },
            "clusters": [
                {
                    "count": cluster.count,
                    "centre_s": _round(cluster.centre_s),
                    "low_s": _round(cluster.low_s),
                    "high_s": _round(cluster.high_s),
                    "cause": cluster.cause.value,
                }
                for cluster in clusters
            ],
        },
    }


def _run(nth: int, run: RunFigures, analysis: Analysis) -> dict[str, Any]:
    device = max(run.devices, key=lambda device: device.busy_s, default=None)
    gaps = [(gap.seconds, gap.cause) for gap in device.gaps if gap.seconds >= _LEAST_GAP_S] if device else []
    clusters = gap_clusters(gaps)
    return {
        "concurrency": _concurrency(run, analysis.timeline.completions),
        "proofs": run.proofs,
        "warmup": nth == 0 and run.proofs == 1 and not run.failed and len(analysis.runs) > 1,
        "seconds_per_proof": _round(run.seconds_per_proof),
        "ci95_s": _round(run.ci95_s),
        "steady_seconds_per_proof": _round(run.steady_seconds_per_proof),
        "proofs_per_minute": _round(run.proofs_per_minute),
        "utilisation": _round(device.utilisation) if device else None,
        "steady_utilisation": _round(device.steady_utilisation) if device else None,
        "gap_centre_s": _round(clusters[0].centre_s) if clusters else None,
    }


def _concurrency(run: RunFigures, completions: Sequence[Completion]) -> int | None:
    """The most requests in flight at once; None where none of them ended."""
    changes = []
    for entry in completions:
        if entry.submitted is not None and run.start <= entry.submitted <= run.end:
            changes += [(entry.submitted, 1), (entry.ended, -1)]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most or None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole > 0 else None


def stamp(at: float) -> str:
    """A time as RFC 3339, UTC."""
    return datetime.fromtimestamp(round(at, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
