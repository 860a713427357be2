"""The engine with its journal, killed at random moments and started again (``bench/journal_kills.py`` does more)."""

import random
from pathlib import Path

from engine_survivor import EngineSurvivor


def test_every_acknowledged_job_ends_with_exactly_one_valid_proof(tmp_path: Path) -> None:
    survivor = EngineSurvivor(tmp_path)
    for kill in range(8):
        at_work = kill % 2 == 0  # the others may die while they start or resume
        survivor.run(f"k{kill}", 100_000, random.uniform(0.0 if at_work else 0.3, 0.8), at_work=at_work)
    survivor.run("last", 2)
    assert survivor.check_all_is_done() > len(survivor.acknowledged)
    assert {"last.files.0", "last.future.1"} <= set(survivor.acknowledged)
    assert {job.partition(".")[0] for job in survivor.acknowledged} >= {"k0", "k2", "k4", "k6"}
