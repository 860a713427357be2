"""Writers and engines on one journal, killed at random moments (SIGKILL) and started again.

    python bench/journal_kills.py [--kills 50] [--seed N] [--circuit range-check-10] [--report PATH]

Three runs: a bare writer of the journal; an engine over a fake workload of a few milliseconds a partition, whose knobs
are turned meanwhile; an engine that proves a built-in circuit on the host. Afterwards every acknowledged job must have
been handed over exactly once, its files though their reader takes them away at once, with one valid proof for each
partition.

A kill loses nothing that the system holds in its page cache: that a commit also reaches the disk is SQLite's
``synchronous = FULL``, which the tests check apart.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from engine_survivor import EngineSurvivor, Verify, verify_fakes
from journal_writer import Survivor
from reporting import cpu_model, write_report

ROOT = Path(__file__).parents[1]
MANY = 100_000
WRITER_S = (0.1, 0.8)
ENGINE_S = (0.2, 1.5)
CIRCUIT_S = (0.4, 4.0)
"""Shortest and longest life of each, from the start of its process."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of each run")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--circuit", default="range-check-10", help="built-in circuit of the third run; none leaves it out"
    )
    parser.add_argument("--report", type=Path, help="where the report goes (bench/results)")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    runs = [writer(args.kills, chance), engine(args.kills, chance, None)]
    if args.circuit != "none":
        runs.append(engine(args.kills, chance, args.circuit))
    now = datetime.now(UTC)
    report: dict[str, Any] = {
        "when": now.isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "seed": args.seed,
        "runs": runs,
    }
    write_report(args.report or ROOT / "bench" / "results" / f"journal_kills_{now:%Y-%m-%d}.json", report)


def writer(kills: int, chance: random.Random) -> dict[str, Any]:
    """The journal alone."""
    with tempfile.TemporaryDirectory() as folder:
        survivor = Survivor(Path(folder))
        for kill in range(kills):
            survivor.run(f"w{kill}", MANY, chance.uniform(*WRITER_S))
            survivor.check_nothing_is_lost()
        survivor.run("last", 1)
        survivor.check_all_is_done()
        return {"what": "writer", "kills": kills, "jobs": len(survivor.jobs())}


def engine(kills: int, chance: random.Random, circuit: str | None) -> dict[str, Any]:
    """The engine, over a fake workload or a circuit."""
    with tempfile.TemporaryDirectory() as folder:
        verify = verify_fakes if circuit is None else _verifier(circuit)  # makes the key, so that no life has to
        survivor = EngineSurvivor(Path(folder), circuit)
        for kill in range(kills):
            survivor.run(f"k{kill}", MANY, chance.uniform(*(ENGINE_S if circuit is None else CIRCUIT_S)))
        survivor.run("last", 2)
        jobs = survivor.check_all_is_done(verify)
        ((proofs,),) = survivor.rows("SELECT count(*) FROM proofs")
        return {
            "what": "engine" if circuit is None else f"engine, {circuit}",
            "kills": kills,
            "jobs": jobs,
            "acknowledged": len(survivor.acknowledged),
            "proofs": proofs,
            "handed_over": {"futures": len(survivor.got), "files": len(survivor.files)},
            "bad_proofs_withheld": sum(bad for (bad,) in survivor.rows("SELECT bad FROM devices")),
        }


def _verifier(circuit: str) -> Verify:
    from prover.circuits.builtin import builtin
    from prover.groth16.workload import CircuitWorkload

    workload = CircuitWorkload.open(builtin(circuit), threads=2)

    def verify(number: int, partitions: int, proofs: Sequence[bytes]) -> bool:
        return workload.verify(workload.sample_inputs(number, partitions), range(partitions), proofs)

    return verify


if __name__ == "__main__":
    main()
