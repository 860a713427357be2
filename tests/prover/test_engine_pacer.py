"""The controller of ``max_gpu_queue_depth``: in numbers by itself, and in an engine on virtual time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from engine_rig import Rig, rig
from hypothesis import given
from hypothesis import strategies as st

from prover.model import EventKind, Phase
from prover.pipeline.pacer import Pacer

FAST_DEVICE = {"synthesize": 6.0, "setup": 0.05, "h2d": 0.05, "ntt": 0.3, "msm": 0.6, "d2h": 0.05, "finish": 0.01}
"""A synthesis lasts 6 s, a device takes a slot every 0.9 s: seven syntheses must be on their way to feed it."""


def paced(target: int, durations: dict[str, float] | None = None, **knobs: int) -> Any:
    wanted = {"synthesis_lookahead": 64, "synthesis_concurrency": 16, "max_gpu_queue_depth": target, **knobs}
    return rig(wanted, FAST_DEVICE if durations is None else durations)


def waiting(made: Rig, since: float, until: float) -> list[tuple[float, int]]:
    """(seconds, finished syntheses that waited) from one time to another."""
    changes: list[tuple[float, int]] = []
    for span in made.spans(Phase.QUEUED, good=False):
        if span.at > span.start:
            changes += [(span.start, 1), (span.at, -1)]
    depth, last, found = 0, since, []
    for at, change in sorted(changes):
        if at > since:
            found.append((min(at, until) - last, depth))
            last = min(at, until)
        depth += change
        if at >= until:
            break
    return [(seconds, count) for seconds, count in found if seconds > 0]


def mean_and_spread(depths: list[tuple[float, int]]) -> tuple[float, float]:
    whole = sum(seconds for seconds, _ in depths)
    mean = sum(seconds * depth for seconds, depth in depths) / whole
    return mean, (sum(seconds * (depth - mean) ** 2 for seconds, depth in depths) / whole) ** 0.5


def busy(made: Rig, since: float, until: float) -> float:
    kernels = [(max(s.start, since), min(s.at, until)) for s in made.spans(Phase.NTT, Phase.MSM)]
    return sum(max(0.0, end - start) for start, end in kernels) / (until - since)


@pytest.mark.parametrize("target", [1, 2, 4, 8])
def test_it_keeps_its_target_without_swinging_and_without_starving_the_device(target: int) -> None:
    with paced(target) as made:
        made.submit("x", 120)
        made.run()
        since, until = 130.0, 190.0
        mean, spread = mean_and_spread(waiting(made, since, until))
        assert abs(mean - target) <= 1.0, mean
        assert spread <= 1.0, spread
        assert busy(made, since, until) > 0.999
        seen = made.engine.snapshot().pacer
        assert seen is not None and seen.target == target and seen.limit is not None
        assert seen.synthesis_s == pytest.approx(6.0) and seen.device_s == pytest.approx(0.9, abs=0.05)


def test_without_it_the_queue_takes_all_that_the_bound_allows() -> None:
    with paced(0) as made:
        made.submit("x", 120)
        made.run()
        assert mean_and_spread(waiting(made, 130.0, 160.0))[0] > 20
        assert made.engine.snapshot().pacer.limit is None


def test_a_cold_start_and_one_after_a_drain_do_not_overshoot() -> None:
    with paced(2) as made:
        for round_ in range(2):
            began = made.time()
            made.submit(f"round {round_}", 60)
            made.run()
            depths = waiting(made, began, made.time())
            assert max(depth for _, depth in depths) <= 2 + 2, depths
            made.time.pass_(500.0)


def test_failures_on_the_way_leave_it_where_it_was() -> None:
    """A third of the jobs fail, in synthesis or on the device; nothing drifts, and the device is never left waiting
    for syntheses that are thought to be on their way.
    """
    seeded = random.Random(7)
    with paced(3) as made:
        for number in range(150):
            made.submit(number, 1)
            if seeded.random() < 1 / 3:
                made.faults[seeded.choice(["synthesize", "ntt", "finish"]), number, 0] = RuntimeError("no")
        made.run()
        assert made.events(EventKind.JOB_FAILED)
        mean, spread = mean_and_spread(waiting(made, 140.0, 180.0))
        assert abs(mean - 3) <= 1.5 and spread <= 1.6, (mean, spread)
        assert busy(made, 140.0, 180.0) > 0.9  # what fails on the device leaves it early


def test_it_holds_nothing_back_where_synthesis_is_the_limit() -> None:
    took = []
    for target in (2, 0):
        with paced(target, synthesis_concurrency=3) as made:
            made.submit("x", 30)
            made.run()
            took.append(made.time())
    assert took[0] <= took[1] + 0.9, took  # the first starts lie apart


def test_the_target_changes_while_it_runs() -> None:
    with paced(1) as made:
        made.submit("x", 220)
        made.run_for(60.0)
        made.set("max_gpu_queue_depth", 6)
        changed = made.time()
        made.run_for(60.0)
        made.set("max_gpu_queue_depth", 0)
        made.run()
        low, _ = mean_and_spread(waiting(made, 130.0, changed))
        high, spread = mean_and_spread(waiting(made, changed + 25.0, changed + 60.0))
        assert abs(low - 1) <= 1 and abs(high - 6) <= 1 and spread <= 1, (low, high, spread)


def test_a_slow_circuit_after_a_quick_one() -> None:
    """The measurements are of another circuit: it finds its way within a few slots."""
    with paced(2) as made:
        made.submit("quick", 40)
        made.run()
        made.time.durations = {**FAST_DEVICE, "synthesize": 12.0}
        began = made.time()
        made.submit("slow", 150)
        made.run_for(140.0)
        made.engine.cancel("job-slow")
        made.run()
        mean, spread = mean_and_spread(waiting(made, began + 100.0, began + 140.0))
        assert mean <= 3 and spread <= 1.5, (mean, spread)


@given(
    st.integers(0, 20),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 8),
    st.lists(st.floats(0, 100), max_size=5),
    st.lists(st.floats(0, 100), max_size=5),
)
def test_it_never_holds_back_the_last(
    target: int, waits: int, in_work: int, idle: int, syntheses: list[float], devices: list[float]
) -> None:
    """With fewer on their way than the target, or nothing at all, one more may always begin."""
    pacer = Pacer()
    for seconds in syntheses:
        pacer.synthesised(seconds)
    for seconds in devices:
        pacer.proved(seconds, seconds, 2, 1)
    may = pacer.may_begin(target, waits, in_work, idle, 0.0)
    assert may or (target and waits + in_work >= max(target, 1))
    assert pacer.view.holding is not may
