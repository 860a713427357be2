"""The engine with its journal, killed at random moments and started again (``bench/journal_kills.py`` does more)."""

import random
from pathlib import Path

from engine_survivor import EngineSurvivor


def test_every_acknowledged_job_ends_with_exactly_one_valid_proof(tmp_path: Path) -> None:
    survivor = EngineSurvivor(tmp_path)
    for kill in range(8):
        survivor.run(f"k{kill}", 100_000, random.uniform(0.3, 1.2))
    survivor.run("last", 2)
    assert survivor.check_all_is_done() > len(survivor.acknowledged) > 2
    assert {"last.files.0", "last.future.1"} <= set(survivor.acknowledged)
