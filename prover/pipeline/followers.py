"""Who does not follow the wanted value of a knob yet. Called with the engine's lock held."""

from __future__ import annotations

from prover.pipeline.gpu_worker import GpuStage
from prover.pipeline.knobs import KnobSet
from prover.pipeline.line import Line
from prover.pipeline.workers import WorkerPool


class Followers:
    """Those that take knobs over: pools, workers, jobs, the channel, the memory budget."""

    def __init__(self, gpu: list[GpuStage]) -> None:
        """``gpu`` is the engine's own list: devices may be added."""
        self.running = False
        """Whether the engine runs: before and after, nobody lags."""
        self._gpu = gpu
        self._line: Line | None = None

    def attach(self, line: Line, synthesis: WorkerPool, finalizing: WorkerPool) -> None:
        """These follow too."""
        self._line = line
        self._synthesis = synthesis
        self._finalizing = finalizing

    def laggards(self, name: str, knobs: KnobSet) -> tuple[str, ...]:
        """Who does not follow the wanted value of a knob yet, in a word or two each."""
        line = self._line
        if not self.running or line is None:
            return ()
        if name == "synthesis_lookahead":
            queued = line.channel.queued
            return (f"queue {queued}",) if queued > line.channel.capacity else ()
        if name in ("synthesis_concurrency", "max_parallel_synthesis"):
            return _sizes([self._synthesis])
        if name == "gpu_devices":
            wrong = [stage.pool for stage in self._gpu if bool(stage.pool.members) != (stage.pool.target > 0)]
            return tuple(f"{pool.name} {len(pool.members)} of {pool.target}" for pool in wrong)
        if name == "gpu_workers_per_device":
            return self._workers(knobs.integer(name))
        if name in ("total_budget", "pinned_pool_bytes"):
            return line.admission.lagging()
        if name == "slot_size":
            running = [job for job in line.board.jobs if job.cut_under is not None]
            return tuple(f"job {job.id}" for job in running if job.cut_under != knobs[name])
        if name == "paused":
            return tuple(worker.name for pool in self._readers(name) for worker in pool.busy()) * knobs.flag(name)
        return tuple(
            worker.name
            for pool in self._readers(name)
            for worker in pool.busy()
            if worker.knobs is not None and worker.knobs[name] != knobs[name]
        )

    def _workers(self, wanted: int) -> tuple[str, ...]:
        """Devices without the wanted workers; one that has no memory for them says so."""
        limited = [stage for stage in self._gpu if stage.limit is not None and stage.limit < wanted]
        short = tuple(f"gpu{stage.record.ordinal} {stage.limit} of {wanted}: memory" for stage in limited)
        return short + _sizes([stage.pool for stage in self._gpu if stage not in limited])

    def _readers(self, name: str) -> list[WorkerPool]:
        """The pools whose workers read a knob at their hand-over points."""
        gpu = [stage.pool for stage in self._gpu]
        return {
            "gpu_lock": gpu,
            "split_prove": gpu,
            "gpu_threads": gpu,
            "threads": [self._synthesis],
            "self_check": [self._finalizing],
            "paused": [self._synthesis, *gpu],
        }.get(name, [])


def _sizes(pools: list[WorkerPool]) -> tuple[str, ...]:
    return tuple(
        f"{pool.name} {len(pool.members)} of {pool.target}" for pool in pools if len(pool.members) != pool.target
    )
