"""A storm over a running engine: knobs, cancellations, priorities, draining, devices, all at random and all the time;
then what must hold of it.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from prover.model import Event, EventKind, KnobValue, Phase, Priority
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import Change, JobRequest, JobResult
from prover.pipeline.records import Draining, Job, JobCancelled, Slot

HOT: dict[str, list[KnobValue]] = {
    "synthesis_lookahead": [0, 1, 2, 4],
    "synthesis_concurrency": [1, 2, 3],
    "max_parallel_synthesis": [1, 2, 18],
    "slot_size": [0, 1, 2, 3],
    "max_gpu_queue_depth": [0, 0, 1, 3],
    "gpu_workers_per_device": [1, 2, 3],
    "gpu_lock": ["narrow", "coarse"],
    "gpu_threads": [0, 1],
    "threads": [0, 1],
    "max_batch_size": [1, 1, 2, 4],
    "max_batch_wait_ms": [0, 5, 50],
    "sort_by_type": [True, False],
    "split_prove": [True, False],
    "self_check": [True, True, True, False],
    "on_device_lost": ["fail", "requeue"],
    "total_budget": ["auto", 16 << 20, 64 << 20],
    "pinned_pool_bytes": ["auto", 0],
    "drain_timeout_s": [0, 60],
    "log_level": ["info", "trace"],
    "paused": [False, False, True],
}


@dataclass
class _Asked:
    """A job of the storm's."""

    number: int
    partitions: int
    priority: Priority
    future: Future[JobResult]
    moved: bool = False
    """Its priority was changed."""
    cancelled: bool = False


@dataclass
class Storm:
    """``inputs(number, partitions)`` makes a job's inputs, ``verify(number, proofs)`` checks what it delivered."""

    engine: Engine
    inputs: Callable[[int, int], Any]
    verify: Callable[[int, Sequence[bytes]], bool]
    seed: int = 0
    in_flight: int = 8
    asked: dict[str, _Asked] = field(default_factory=dict)
    deliveries: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)
    refused: int = 0
    largest: int = 5

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._lock = threading.Lock()

    def blow(self, actions: int, partitions: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Until so many actions were spread over so many partitions, and everything has ended."""
        done = asked = 0
        while done < actions or asked < partitions:
            if asked < partitions and self._living() < self.in_flight and not self.engine.snapshot().draining:
                asked += self._submit()
            ended = self._partitions_over()
            while done < actions and done * partitions <= actions * (ended + 1):
                self._act()
                done += 1
            if self.engine.snapshot().paused or self.engine.snapshot().draining or self._nobody_proves():
                self._act()
                done += 1
            self._read()
            if progress is not None:
                progress(done, ended)
            time.sleep(0.0005)
        self._calm()
        for each in self.asked.values():
            each.future.exception(120)
        self._read()

    def check(self) -> None:
        """Each job ended once: with all its proofs, right and in order, unless it was cancelled; in the order that was
        promised.
        """
        assert self.events[-1].seq == len(self.events), "events were lost"
        for name, each in self.asked.items():
            error = each.future.exception(0)
            if error is None:
                result = each.future.result()
                assert len(result.proofs) == each.partitions and self.verify(each.number, result.proofs), name
            else:
                assert isinstance(error, JobCancelled) and each.cancelled, (name, error)
        assert set(self.deliveries.values()) <= {1} and set(self.deliveries) == set(self.asked)
        endings = Counter(
            event.job
            for event in self.events
            if event.kind in (EventKind.JOB_DONE, EventKind.JOB_FAILED, EventKind.JOB_CANCELLED)
        )
        assert endings == Counter(list(self.asked))
        self._check_order()
        self._check_phases()

    @staticmethod
    def leftovers() -> dict[str, int]:
        """What is alive of a stopped engine's jobs and slots."""
        gc.collect()
        alive = Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, Slot | Job))
        return dict(alive)

    # -- what is done -------------------------------------------------------------------------------------------------

    def _submit(self) -> int:
        number = len(self.asked)
        partitions = self.chance.randint(1, self.largest)
        priority = self.chance.choice([Priority.NORMAL] * 4 + list(Priority))
        name = f"storm-{number}"
        try:
            future = self.engine.submit(
                JobRequest(self.inputs(number, partitions), partitions, name, priority=priority)
            )
        except Draining:
            return 0
        self.asked[name] = _Asked(number, partitions, priority, future)
        future.add_done_callback(lambda _: self._delivered(name))
        return partitions

    def _delivered(self, name: str) -> None:
        with self._lock:
            self.deliveries[name] += 1

    def _act(self) -> None:
        kind = self.chance.choices(["knob", "cancel", "trim", "priority", "drain", "device"], [80, 2, 2, 10, 2, 4])[0]
        self.actions[kind] += 1
        living = [name for name, each in self.asked.items() if not each.future.done()]
        if kind == "knob":
            name = self.chance.choice(sorted(HOT))
            if self.chance.random() < 0.1:
                self.engine.undo()
            else:
                self.refused += not self.engine.propose(Change(name, self.chance.choice(HOT[name]))).accepted
        elif kind == "device":
            self.engine.use_device(self.chance.choice(list(self.engine._board.devices)), self.chance.random() < 0.8)
        elif kind == "drain":
            self.engine.drain() if self.chance.random() < 0.3 else self.engine.resume()
        elif living:
            self._act_on(kind, self.chance.choice(living))

    def _act_on(self, kind: str, name: str) -> None:
        each = self.asked[name]
        if kind == "cancel":
            each.cancelled = True
            if not self.engine.cancel(name):
                each.cancelled = each.future.exception(10) is not None
        elif kind == "trim":
            each.cancelled = each.cancelled or self.engine.cancel_remaining(name) > 0
        else:
            each.moved = True
            self.engine.reprioritise(name, self.chance.choice(list(Priority)))

    def _calm(self) -> None:
        self.engine.resume()
        for name, value in (("paused", False), ("gpu_devices", "all"), ("max_batch_wait_ms", 0)):
            assert self.engine.propose(Change(name, value)).accepted

    def _read(self) -> None:
        self.events += self.engine.events(self.events[-1].seq if self.events else 0)

    def _living(self) -> int:
        return len(self.engine._board.jobs)

    def _partitions_over(self) -> int:
        return sum(each.partitions for each in self.asked.values() if each.future.done())

    def _nobody_proves(self) -> bool:
        return self.engine.knobs["gpu_devices"] == "none"

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _check_order(self) -> None:
        """Jobs of one class whose priority nobody changed start in the order in which they came."""
        started = [event.job or "" for event in self.events if event.kind is EventKind.JOB_STARTED]
        for priority in Priority:
            numbers = [
                self.asked[job].number
                for job in started
                if self.asked[job].priority is priority and not self.asked[job].moved
            ]
            assert numbers == sorted(numbers), (priority, numbers)

    def _check_phases(self) -> None:
        """Every phase that began ended once, and no two slots computed on one device at once."""
        open_phases: dict[tuple[str | None, tuple[int, ...]], Phase | None] = {}
        kernels: dict[int | None, list[tuple[float, float]]] = {}
        for event in self.events:
            key = (event.job, event.partitions)
            if event.kind is EventKind.PHASE_BEGAN:
                assert key not in open_phases, event
                open_phases[key] = event.phase
            elif event.kind is EventKind.SPAN:
                assert open_phases.pop(key) == event.phase, event
                if event.phase in (Phase.NTT, Phase.MSM) and "shared_with" not in event.fields:
                    assert event.start is not None
                    kernels.setdefault(event.device, []).append((event.start, event.at))
        assert not open_phases
        for spans in kernels.values():
            spans.sort()
            assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))
