"""The frame as the contract's JSON document ``cuzk-top/frame/1``."""

from __future__ import annotations

from typing import Any

from console.feeds.nvml.card import GpuCard
from console.frame import DeviceFrame, Frame
from prover.model import DeviceSample, JobView, MemoryView, PacerView, PartitionView

SCHEMA = "cuzk-top/frame/1"


def frame_document(frame: Frame) -> dict[str, Any]:
    """The document. Times are seconds before the frame; undefined values are null."""
    snapshot = frame.snapshot
    counters = snapshot.counters
    output = frame.throughput
    return {
        "schema": SCHEMA,
        "simulated": snapshot.simulated,
        "replay": bool(frame.replay),
        "circuit": snapshot.circuit,
        "workload": snapshot.workload,
        "paused": snapshot.paused,
        "draining": snapshot.draining,
        "critical_wait_s": snapshot.critical_wait_s,
        "pacer": _pacer(snapshot.pacer),
        "activity": snapshot.activity,
        "window_s": frame.window,
        "feeds": [{"name": feed.name, "age_s": feed.age_s, "problem": feed.problem} for feed in frame.feeds],
        "devices": [_device(one, frame.at) for one in frame.devices],
        "gpus": _gpus(frame),
        "stages": [
            {
                "name": stage.name,
                "workers": stage.workers,
                "busy": stage.busy,
                "queued": stage.queued,
                "capacity": stage.capacity,
                "blocked": stage.blocked,
            }
            for stage in snapshot.stages
        ],
        "workers_replaced": counters.workers_replaced,
        "memory": _memory(snapshot.memory),
        "jobs": [_job(job, frame.at) for job in snapshot.jobs],
        "knobs": {
            knob.name: {"wanted": knob.wanted, "in_force": knob.in_force, "lagging": list(knob.lagging)}
            for knob in snapshot.knobs
        },
        "throughput": {
            "proofs": counters.jobs_done,
            "failed": counters.jobs_failed,
            "partitions": counters.partitions_done,
            "verified": counters.proofs_verified,
            "withheld": counters.proofs_withheld,
            "proofs_per_minute": output.proofs_per_minute,
            "steady_seconds_per_proof": output.seconds_per_proof,
            "steady_utilisation": output.steady_utilisation,
            "ceiling_proofs_per_minute": output.ceiling_proofs_per_minute,
        },
        "diagnosis": {
            "bottleneck": frame.diagnosis.bottleneck,
            "sentences": [remark.text for remark in frame.diagnosis.remarks],
        },
    }


def _memory(view: MemoryView | None) -> dict[str, Any] | None:
    """The memory budget; null where nothing is budgeted."""
    if view is None:
        return None
    return {
        "total_bytes": view.total,
        "used_bytes": view.used,
        "by_kind_bytes": dict(view.by_kind),
        "peak_bytes": view.peak,
        "kept_for_urgent_bytes": view.kept,
        "waits_for": view.waits_for,
    }


def _pacer(pacer: PacerView | None) -> dict[str, Any] | None:
    """The controller of ``max_gpu_queue_depth``; null while it is off."""
    if pacer is None or pacer.limit is None:
        return None
    return {
        "target": pacer.target,
        "waiting": pacer.waiting,
        "in_work": pacer.in_work,
        "limit": pacer.limit,
        "synthesis_s": pacer.synthesis_s,
        "device_s": pacer.device_s,
        "holding": pacer.holding,
    }


def _device(one: DeviceFrame, now: float) -> dict[str, Any]:
    view = one.view
    newest = one.samples[-1] if one.samples else None
    return {
        "ordinal": view.ordinal,
        "kind": view.kind,
        "name": view.name,
        "state": view.state.value,
        "cause": view.cause.value if view.cause is not None else None,
        "state_s": now - view.since,
        "sentence": one.headline.sentence,
        "workers": view.workers,
        "workers_busy": view.workers_busy,
        "proofs_good": view.proofs_good,
        "proofs_bad": view.proofs_bad,
        "utilisation_by": {
            name: one.utilisation_by.get(name) for name in ("kernels", "sm", "driver", "lock", "timeline")
        },
        "steady_utilisation": one.steady_utilisation,
        "cpu_percent": newest.cpu if newest is not None else None,
        "gpu": _gpu(one.card, newest, now),
        "memory_used_bytes": view.memory_used,
        "memory_total_bytes": view.memory_total,
        "gaps": {
            "over_s": one.clusters_over_s,
            "clusters": [
                {
                    "count": cluster.count,
                    "centre_s": cluster.centre_s,
                    "low_s": cluster.low_s,
                    "high_s": cluster.high_s,
                    "cause": cluster.cause.value,
                }
                for cluster in one.clusters
            ],
        },
    }


def _gpus(frame: Frame) -> dict[str, Any] | None:
    """GPUs counted three ways, and why none can be used; null until that is known."""
    census = frame.census
    if census is None:
        return None
    return {
        "driver": census.driver,
        "cuda": census.cuda,
        "usable": census.usable,
        "why": census.why,
        "uuids": [card.identity.uuid for card in frame.cards],
    }


def _gpu(card: GpuCard | None, newest: DeviceSample | None, now: float) -> dict[str, Any] | None:
    """What NVML says of the GPU behind a device; percentages are 0..100, unknown is null."""
    if card is None:
        return None
    identity, state = card.identity, card.state
    sample: dict[str, Any] = {name: getattr(newest, field, None) for name, field in _SAMPLED.items()}
    return {
        "uuid": identity.uuid,
        "problem": card.problem,
        "lost": card.lost,
        "sample_age_s": now - card.at if card.at is not None else None,
        **sample,
        "memory_floor_bytes": card.memory_floor,
        "throttle": list(state.throttle),
        "pcie": {
            "generation": state.pcie_generation,
            "width": state.pcie_width,
            "generation_max": identity.pcie_generation_max,
            "width_max": identity.pcie_width_max,
        },
        "ecc": {"corrected": state.ecc_corrected, "uncorrected": state.ecc_uncorrected},
        "xids": [{"xid": event.xid, "age_s": now - event.at} for event in state.events],
        "processes": [
            {"pid": process.pid, "name": process.name, "memory_bytes": process.memory, "ours": process.ours}
            for process in state.processes
        ],
    }


_SAMPLED = {
    "sm_percent": "sm",
    "occupancy_percent": "occupancy",
    "integer_percent": "integer_pipe",
    "fp64_percent": "fp64_pipe",
    "dram_percent": "dram",
    "driver_percent": "driver",
    "pcie_rx_bytes_s": "pcie_rx",
    "pcie_tx_bytes_s": "pcie_tx",
    "memory_used_bytes": "memory_used",
    "memory_total_bytes": "memory_total",
    "power_w": "power_w",
    "power_limit_w": "power_limit_w",
    "temperature_c": "temperature_c",
    "sm_clock_mhz": "sm_clock_mhz",
}


def _job(job: JobView, now: float) -> dict[str, Any]:
    return {
        "id": job.id,
        "circuit": job.circuit,
        "state": job.state.value,
        "age_s": now - job.submitted,
        "done": job.done,
        "error": job.error,
        "priority": job.priority.name.lower(),
        "deadline_s": None if job.deadline is None else job.deadline - now,
        "partitions": [_partition(part, now) for part in job.partitions],
    }


def _partition(part: PartitionView, now: float) -> dict[str, Any]:
    phases: dict[str, float] = {}
    for span in part.spans:
        phases[span.phase.value] = phases.get(span.phase.value, 0.0) + span.seconds
    return {
        "index": part.index,
        "state": part.state.value,
        "phase_s": now - part.phase_began if part.phase_began is not None else None,
        "phases": phases,
        "error": part.error,
    }
