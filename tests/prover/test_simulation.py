"""The modelled box on virtual time: its parts against independent arithmetic, its presets against published figures."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.cancel import Cancelled, CancelToken
from prover.model import Cause, EventKind, JobState, KnobValue, Phase
from prover.pipeline.clock import VirtualClock
from prover.pipeline.feeder import Feeder
from prover.pipeline.interfaces import Change, JobRequest, JobResult
from prover.pipeline.knobs import REGISTRY
from prover.pipeline.sweep import Level, Sweep
from prover.simulation.box import ModelledEngine, modelled_knobs
from prover.simulation.contention import Machine, Slowdown
from prover.simulation.memory import Memory
from prover.simulation.model import GIB
from prover.simulation.model_file import parse_model
from prover.simulation.presets import preset, preset_names
from prover.simulation.spread import Spread, Timing, position
from prover.timeline import RunFigures, Timeline

QUANTILES = st.lists(st.floats(0.1, 10), min_size=1, max_size=9).map(lambda points: tuple(sorted(points)))


@contextmanager
def box(name: str, clock: VirtualClock | None = None, **knobs: KnobValue) -> Iterator[ModelledEngine]:
    """A preset that runs, on a clock in which the calling thread takes part."""
    time = clock or VirtualClock()
    model = preset(name, REGISTRY)
    with time.attending():
        values = modelled_knobs(model)
        for knob, value in knobs.items():
            values = values.replace(knob, value)
        engine = ModelledEngine(model, values, time)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop()


def bench(name: str, clients: list[int], count: int = 5, **knobs: KnobValue) -> list[tuple[Level, float]]:
    """Levels, and the most memory of each in GiB."""
    with box(name, **knobs) as engine:
        memory = engine.modelled.memory
        sweep = Sweep(
            lambda job: job,
            engine.model.partitions,
            count,
            clients,
            fold_s=2.0,
            forget_peak=memory.take_peak,
            peak_bytes=memory.take_peak,
        )
        levels = list(sweep.measure(engine, lambda *_: None, CancelToken()))
    return [(level, (level.peak_rss_bytes or 0) / GIB) for level in levels]


class Watched:
    """A preset fed without end, looked at in stretches."""

    def __init__(self, engine: ModelledEngine, clients: int) -> None:
        self.engine = engine
        self.timeline = Timeline(window_s=None)
        self.feeder = Feeder(engine, lambda job: job, engine.model.partitions, clients, clock=engine.clock)
        self.feeder.start()

    def stretch(self, seconds: float) -> RunFigures:
        """Let time pass; the figures of that time."""
        begin = self.engine.clock()
        for _ in range(int(seconds)):
            self.engine.clock.sleep(1.0)
            self.timeline.fold(self.engine.events(self.timeline.last_seq))
        assert not self.timeline.missed
        return self.timeline.figures(begin, self.engine.clock())

    def set(self, name: str, value: KnobValue) -> None:
        """Turn a knob while it runs."""
        receipt = self.engine.propose(Change(name, value))
        assert receipt.accepted, receipt.reason


@contextmanager
def watched(name: str, clients: int, **knobs: KnobValue) -> Iterator[Watched]:
    with box(name, **knobs) as engine:
        seen = Watched(engine, clients)
        try:
            yield seen
        finally:
            seen.feeder.stop()


def by(run: RunFigures, way: str) -> float:
    """How busy the device was, by this way of asking."""
    value = run.devices[0].utilisation_by[way]
    assert value is not None
    return value


# -- the parts --------------------------------------------------------------------------------------------------------


@given(QUANTILES, st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_a_spread_rises_from_its_least_to_its_most(points: tuple[float, ...], one: float, other: float) -> None:
    spread = Spread(points)
    low, high = sorted((one, other))
    assert points[0] - 1e-12 <= spread.at(low) <= spread.at(high) + 1e-12 <= points[-1] + 1e-9
    for index, point in enumerate(points[:-1]):
        assert spread.at(index / (len(points) - 1)) == pytest.approx(point)
    steps = 4000
    assert sum(spread.at((i + 0.5) / steps) for i in range(steps)) / steps == pytest.approx(spread.mean, rel=1e-2)


@given(st.integers(0, 2**63), st.sampled_from(["synthesis", "msm", "h2d"]), st.integers(0, 10**6))
def test_few_slots_in_a_row_cover_their_distribution(seed: int, step: str, first: int) -> None:
    """Of sixteen in a row none is further than a quarter from the next: the mean of few is that of many."""
    taken = sorted(position(seed, step, number) for number in range(first, first + 16))
    assert all(0 <= place < 1 for place in taken)
    assert max(b - a for a, b in zip(taken, [*taken[1:], taken[0] + 1], strict=True)) < 0.25
    assert taken == sorted(position(seed, step, number) for number in reversed(range(first, first + 16)))


def test_a_timing_counts_slot_and_partitions_once() -> None:
    timing = Timing(3.0, 0.5, Spread((1.0, 2.0)))
    assert timing.seconds(4, 0.0) == 5.0
    assert timing.seconds(4, 0.5) == 7.5


@pytest.mark.parametrize(
    ("load", "factor"), [(0, 1.0), (1, 1.0), (2, 1.2), (3, 1.4), (4, 1.7), (5, 2.0), (7, 2.6), (3.5, 1.55)]
)
def test_a_slowdown_is_linear_between_and_beyond_its_points(load: float, factor: float) -> None:
    assert Slowdown(((1, 1.0), (3, 1.4), (5, 2.0))).at(load) == pytest.approx(factor)
    assert Slowdown().at(load) == 1.0


def shared_processor(arrivals: list[tuple[float, float]], slowdown: Slowdown) -> list[float]:
    """When each of the works (start, seconds) ends, by small arithmetic on its own: from one event to the next."""
    now, left, ends = 0.0, {}, [0.0] * len(arrivals)
    coming = sorted((start, index) for index, (start, _) in enumerate(arrivals))
    while left or coming:
        rate = 1 / slowdown.at(len(left)) if left else 0.0
        next_end = min((now + rest / rate for rest in left.values()), default=float("inf"))
        next_start = coming[0][0] if coming else float("inf")
        then = min(next_end, next_start)
        left = {index: rest - (then - now) * rate for index, rest in left.items()}
        now = then
        while coming and coming[0][0] <= now:
            index = coming.pop(0)[1]
            left[index] = arrivals[index][1]
        for index in [index for index, rest in left.items() if rest <= 1e-9]:
            ends[index] = now
            del left[index]
    return ends


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=8),
    st.lists(st.integers(10, 40), min_size=1, max_size=4).map(sorted),
    st.integers(1, 5),
)
def test_work_that_slows_each_other_ends_when_it_must(
    works: list[tuple[int, int]], tenths: list[int], steps: int
) -> None:
    slowdown = Slowdown(tuple((load + 1.0, factor / 10) for load, factor in enumerate(tenths)))
    clock = VirtualClock()
    machine = Machine(clock)
    machine.add("work", lambda busy: slowdown.at(busy["work"]))
    ends = [0.0] * len(works)
    reached: list[list[float]] = [[] for _ in works]

    def body(index: int) -> None:
        clock.sleep(works[index][0])
        machine.work("work", works[index][1], None, reached[index].append, steps)
        ends[index] = clock()

    threads = [clock.thread(body, f"work-{index}", (index,)) for index in range(len(works))]
    with clock.attending():
        for thread in threads:
            thread.start()
        with clock.outside():
            for thread in threads:
                thread.join(30)
    assert ends == pytest.approx(shared_processor([(float(a), float(b)) for a, b in works], slowdown), abs=1e-6)
    assert reached == [[step / steps for step in range(1, steps + 1)]] * len(works)


def test_cancelled_work_stops_at_once_and_slows_nobody_any_more() -> None:
    clock, token = VirtualClock(), CancelToken()
    machine = Machine(clock)
    machine.add("work", lambda busy: float(max(1, busy["work"])))
    ends: dict[str, float] = {}

    def doomed() -> None:
        with pytest.raises(Cancelled):
            machine.work("work", 100.0, token)
        ends["doomed"] = clock()

    def other() -> None:
        machine.work("work", 10.0)
        ends["other"] = clock()

    def canceller() -> None:
        clock.sleep(4.0)
        token.cancel()

    with clock.attending():
        threads = [clock.thread(body, body.__name__) for body in (doomed, other, canceller)]
        for thread in threads:
            thread.start()
        with clock.outside():
            for thread in threads:
                thread.join(30)
    assert ends == pytest.approx({"doomed": 4.0, "other": 12.0})


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=10), st.integers(0, 200) | st.none())
def test_memory_counts_what_is_held_and_the_pool_is_never_overfull(
    sizes: list[tuple[int, int]], pool: int | None
) -> None:
    memory = Memory(50, 1000)
    held = [memory.take(size, pinned, pool) for size, pinned in sizes]
    assert memory.used == 50 + sum(size for size, _ in sizes)
    if pool is None:
        assert memory.pinned == sum(pinned for _, pinned in sizes)
    else:
        assert memory.pinned <= pool
    peak = memory.used
    for _ in range(2):
        for holding in held[::2]:
            holding.release()
    holding = None
    held.clear()  # nobody has the others any more
    assert (memory.used, memory.pinned) == (50, 0)
    assert memory.take_peak() == peak
    assert memory.take_peak() == 50


# -- the presets ------------------------------------------------------------------------------------------------------


def test_porep_standard_gives_the_published_sweep() -> None:
    """67, 46, 46 and 45 s a proof with 1, 2, 3 and 5 clients; gaps of 42 s alone and of 12 s behind synthesis."""
    levels = bench("porep-standard", [1, 2, 3, 5])
    seconds = [level.run.seconds_per_proof for level, _ in levels]
    assert seconds == [pytest.approx(figure, rel=0.03) for figure in (67, 46, 46, 45)]
    gaps = [level.run.devices[0].clusters[0] for level, _ in levels]
    assert [(gap.count, gap.cause) for gap in gaps] == [(4, Cause.SYNTHESIS)] * 4
    assert gaps[0].centre_s == pytest.approx(42, rel=0.03)
    assert [gap.centre_s for gap in gaps[1:]] == [pytest.approx(12, abs=0.6)] * 3
    for level, _ in levels:
        synthesis, busy = level.phases[Phase.SYNTHESIS], level.run.devices[0]
        assert 37.8 <= synthesis.min_s <= synthesis.max_s <= 42.6  # 35.8 to 40.6 s, and 2 s of serial work
        assert 25.4 <= (busy.busy_s + 5 * 0.45) / 5 <= 30.4
        assert (level.run.proofs, level.run.failed) == (5, 0)
    assert levels[1][1] == pytest.approx(228.5, abs=0.5)
    assert levels[0][1] < 228.5


def test_porep_standard_takes_one_batch_more_for_each_place_in_the_queue() -> None:
    """Where synthesis is fast enough to fill the queue, and the budget holds the machine's memory."""
    peaks = [
        bench("porep-standard", [10], 15, synthesis_concurrency=2, synthesis_lookahead=ahead, total_budget=1500 * GIB)
        for ahead in (1, 2, 3)
    ]
    gib = [peak for ((_, peak),) in peaks]
    assert [b - a for a, b in pairwise(gib)] == [pytest.approx(136, abs=1)] * 2
    ((_, bounded),) = bench("porep-standard", [10], 15, synthesis_concurrency=2, synthesis_lookahead=4)
    assert bounded < 755


def test_porep_slotted_gives_72_s_a_proof_in_a_third_of_the_memory() -> None:
    ((level, peak),) = bench("porep-slotted", [1])
    assert level.run.seconds_per_proof == pytest.approx(72.0, rel=0.01)
    assert peak == pytest.approx(71.3, abs=0.3)


def test_snap_coarse_is_half_idle_under_a_lock_that_is_always_held() -> None:
    with watched("snap-coarse", 2) as seen:
        seen.stretch(120)
        run = seen.stretch(600)
        assert by(run, "kernels") == pytest.approx(0.46, abs=0.015)
        assert by(run, "lock") > 0.99 and by(run, "timeline") > 0.99
        phases = seen.timeline.phase_statistics(120)
        copies, kernels = phases[Phase.H2D], seen.timeline.active_statistics(120)
        assert copies.min_s >= 0.95 and copies.max_s < 7.1
        assert kernels[Phase.NTT].min_s + kernels[Phase.MSM].min_s >= 1.49
        assert kernels[Phase.NTT].max_s + kernels[Phase.MSM].max_s <= 2.0
        clusters = run.devices[0].clusters
        assert {cluster.cause for cluster in clusters} == {Cause.TRANSFER}


def test_snap_pinned_fills_the_gpu() -> None:
    with watched("snap-pinned", 3) as seen:
        seen.stretch(120)
        assert by(seen.stretch(600), "kernels") > 0.85


@pytest.mark.parametrize(
    ("workers", "gpu_workers", "published"),
    [
        (1, 1, 290),
        (2, 1, 152.0),
        (5, 1, 68.4),
        (5, 2, 68.6),
        (7, 1, 53.3),
        (7, 2, 51.2),
        (10, 1, 45.4),
        (10, 2, 42.5),
        (12, 2, 42.5),
    ],
)
def test_porep_partitions_gives_the_table_by_partition_workers(
    workers: int, gpu_workers: int, published: float
) -> None:
    ((level, peak),) = bench("porep-partitions", [5], synthesis_concurrency=workers, gpu_workers_per_device=gpu_workers)
    assert level.run.seconds_per_proof == pytest.approx(published, rel=0.04)
    assert peak == pytest.approx(69 + 20 * workers, abs=1)


@pytest.mark.parametrize(
    ("workers", "published"), [(10, 43.5), (12, 43.5), (15, 44.8), (18, 43.8), (20, 44.9), (30, 60.4)]
)
def test_more_partition_workers_than_memory_can_feed_bring_nothing(workers: int, published: float) -> None:
    ((level, _),) = bench("porep-partitions", [3], synthesis_concurrency=workers)
    assert level.run.seconds_per_proof == pytest.approx(published, rel=0.04)


# -- turned live ------------------------------------------------------------------------------------------------------


def test_two_syntheses_make_the_gpu_the_limit() -> None:
    """First a proof takes as long as its synthesis, then as its GPU call, which the second synthesis slows."""
    with watched("porep-standard", 5) as seen:
        seen.stretch(400)
        before = seen.stretch(1200)
        assert before.seconds_per_proof == pytest.approx(40.2, rel=0.03)
        assert by(before, "kernels") == pytest.approx(27.7 / 40.2, abs=0.03)
        seen.set("synthesis_concurrency", 2)
        seen.stretch(400)
        after = seen.stretch(1200)
        device = after.devices[0]
        assert device.steady_utilisation is not None and device.steady_utilisation > 0.97
        assert after.seconds_per_proof == pytest.approx(device.busy_s / after.proofs, rel=0.05)
        assert after.seconds_per_proof is not None and before.seconds_per_proof is not None
        assert after.seconds_per_proof < 0.85 * before.seconds_per_proof
        assert {cluster.cause for cluster in device.clusters} == {Cause.TRANSFER}  # between two calls, copies alone


def test_pinned_copies_turned_on_and_off_live() -> None:
    with watched("snap-coarse", 3) as seen:
        seen.stretch(120)
        pageable = seen.stretch(600)
        seen.set("pinned_pool_bytes", "auto")
        seen.stretch(120)
        pinned = seen.stretch(600)
        # a partition holds the lock for copies and kernels: what the copies lose, the throughput wins
        held = {kind: sum(t.seconds(1, 0.5) for t in times) for kind, times in _held(seen.engine).items()}
        assert _per_partition(pageable) == pytest.approx(3.56, rel=0.03)
        assert _per_partition(pinned) == pytest.approx(held["pinned"], rel=0.03)
        assert by(pinned, "kernels") == pytest.approx(1.66 / held["pinned"], abs=0.03)
        seen.set("pinned_pool_bytes", 0)
        seen.stretch(120)
        assert _per_partition(seen.stretch(600)) == pytest.approx(3.56, rel=0.03)


def test_a_pool_of_half_the_syntheses_pins_about_half_the_copies() -> None:
    with watched("snap-coarse", 3, pinned_pool_bytes=8 * 8 * GIB) as seen:
        seen.stretch(200)
        assert seen.engine.modelled.memory.pinned <= 8 * 8 * GIB
        half = _per_partition(seen.stretch(900))
    assert 1.9 < half < 3.4


def test_the_narrow_lock_lets_copies_overlap_kernels() -> None:
    """Two workers, each a third of its time in kernels: nearly twice the throughput, and the lock is free at times."""
    with watched("snap-coarse", 3) as seen:
        seen.stretch(120)
        coarse = seen.stretch(600)
        seen.set("gpu_lock", "narrow")
        seen.stretch(120)
        narrow = seen.stretch(600)
        assert by(narrow, "kernels") > 1.4 * by(coarse, "kernels")
        assert by(narrow, "lock") == pytest.approx(by(narrow, "kernels"), abs=0.01)  # held for kernels and no more
        seen.set("pinned_pool_bytes", "auto")
        for knob in ("max_parallel_synthesis", "synthesis_concurrency"):  # or synthesis is the limit
            seen.set(knob, 24)
        seen.stretch(120)
        both = seen.stretch(600)
        assert by(both, "kernels") > 0.97
        seen.set("gpu_workers_per_device", 1)
        seen.stretch(120)
        alone = seen.stretch(600)
        assert by(alone, "kernels") == pytest.approx(1.66 / _per_partition(alone), abs=0.03)
        assert by(alone, "kernels") < by(both, "kernels")


def _held(engine: ModelledEngine) -> dict[str, list[Timing]]:
    device = engine.model.device
    kernels = [device.setup, device.ntt, device.msm, device.d2h]
    return {"pageable": [device.pageable, *kernels], "pinned": [device.pinned, *kernels]}


def _per_partition(run: RunFigures) -> float:
    return (run.end - run.start) / run.partitions


# -- what it is not ---------------------------------------------------------------------------------------------------


def test_nothing_of_a_model_is_a_proof_or_counts_as_verified() -> None:
    with box("snap-pinned", self_check=True) as engine:
        future: Future[JobResult] = engine.submit(JobRequest(0, engine.model.partitions))
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        while not done.is_set():
            engine.clock.sleep(10.0)
        result = future.result(0)
        assert result.proofs == (b"",) * 16
        assert not result.verified
        counters = engine.snapshot().counters
        assert (counters.jobs_done, counters.partitions_done, counters.proofs_verified) == (1, 16, 0)
        assert engine.snapshot().simulated
        spans = [e for e in engine.events(0) if e.kind is EventKind.SPAN and e.phase is Phase.FINALIZING]
        assert spans and not any(span.fields.get("verified") for span in spans)
        note = next(e for e in engine.events(0) if e.kind is EventKind.ENGINE_STARTED).fields["note"]
        assert str(note).startswith("SIMULATED")


def test_a_sweep_over_a_model_verifies_nothing() -> None:
    assert [level.verified for level, _ in bench("porep-slotted", [1, 2], 2)] == [0, 0]


@pytest.mark.parametrize("name", preset_names())
def test_the_same_preset_gives_the_same_figures_to_the_last_digit(name: str) -> None:
    first, second = (bench(name, [1, 3], 3) for _ in range(2))
    assert [level.run for level, _ in first] == [level.run for level, _ in second]
    assert [peak for _, peak in first] == [peak for _, peak in second]


@pytest.mark.parametrize("after", [0.5, 20.0, 33.0, 36.0, 38.0, 42.0])
def test_a_cancelled_job_gives_its_memory_back(after: float) -> None:
    with box("snap-coarse") as engine:
        fixed = engine.modelled.memory.used
        engine.submit(JobRequest(0, 16, id="doomed"))
        engine.clock.sleep(after)
        assert engine.modelled.memory.used > fixed or after < 1
        assert engine.cancel("doomed")
        engine.clock.sleep(0.001)
        job = next(job for job in engine.snapshot().jobs if job.id == "doomed")
        assert job.state is JobState.CANCELLED
        gc.collect()
        assert (engine.modelled.memory.used, engine.modelled.memory.pinned) == (fixed, 0)


def test_a_stopped_box_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with watched("porep-partitions", 5) as seen:
        seen.stretch(100)
    assert set(threading.enumerate()) <= before


def test_draining_and_resuming_stand_still_and_go_on() -> None:
    with watched("porep-partitions", 5) as seen:
        seen.stretch(200)
        seen.engine.drain()
        seen.stretch(300)
        idle = seen.stretch(100)
        assert (idle.proofs, idle.partitions, idle.devices[0].busy_s) == (0, 0, 0.0)
        assert seen.engine.modelled.memory.used == 69 * GIB
        seen.engine.resume()
        assert seen.stretch(300).proofs >= 5


def test_a_model_of_two_devices_uses_both() -> None:
    text = "knobs.synthesis_concurrency = 8\nsynthesis.partition_s = 4\ndevice = { count = 2, msm.partition_s = 2 }\n"
    model = parse_model(text, "two", "two", REGISTRY)
    clock = VirtualClock()
    with clock.attending():
        engine = ModelledEngine(model, modelled_knobs(model), clock)
        engine.start()
        sweep = Sweep(lambda job: job, 1, 40, [16], fold_s=2.0)
        (level,) = sweep.measure(engine, lambda *_: None, CancelToken())
        engine.stop()
    assert level.run.seconds_per_proof == pytest.approx(44 / 40)  # a synthesis, then twenty proofs on each device
    assert [device.busy_s for device in level.run.devices] == pytest.approx([40.0, 40.0])
