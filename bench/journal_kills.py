"""A writer of the journal killed at random moments (SIGKILL) and started again, on one journal.

    python bench/journal_kills.py [--kills 50] [--seed N]

Afterwards every acknowledged job must have been delivered exactly once, though its reader takes every file away at
once. A kill loses nothing that the system holds in its page cache: that a commit also reaches the disk is SQLite's
``synchronous = FULL``, which the tests check apart.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from journal_writer import Survivor

MANY = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--longest", type=float, default=0.8, help="seconds that a writer lives at most")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        survivor = Survivor(Path(folder))
        for kill in range(args.kills):
            survivor.run(f"w{kill}", MANY, chance.uniform(0.1, args.longest))
            survivor.check_nothing_is_lost()
        survivor.run("last", 1)
        survivor.check_all_is_done()
        print(json.dumps({"kills": args.kills, "seed": args.seed, "jobs": len(survivor.jobs())}))


if __name__ == "__main__":
    main()
