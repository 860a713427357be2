"""Lines a second from bytes to events, on one core: each sample log repeated, in CPU time of the process.

    python bench/log_grammar.py [--lines 40000] [--rounds 5]

On a machine that others use, many rounds of few lines come nearest to what it can do.
"""

import argparse
import json
import time
from pathlib import Path

from console.feeds.logs.stream import LogStream, RecordReader

LOGS = Path(__file__).parents[1] / "tests" / "fixtures" / "logs"
CHUNK = 128 * 1024


def measure(data: bytes, make: type) -> float:
    """CPU seconds to read ``data`` in chunks."""
    stream = make()
    begin = time.process_time()
    for at in range(0, len(data), CHUNK):
        stream.feed(data[at : at + CHUNK])
    stream.finish()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=40_000, help="about how many lines of each")
    parser.add_argument(
        "--rounds", type=int, default=5, help="the best of this many counts: others use the machine too"
    )
    options = parser.parse_args()
    results = []
    for path in sorted(LOGS.glob("*.log")):
        sample = path.read_bytes()
        repeats = max(1, options.lines // sample.count(b"\n"))
        data, lines = sample * repeats, sample.count(b"\n") * repeats
        best = {
            name: min(measure(data, make) for _ in range(options.rounds))
            for name, make in (("records", RecordReader), ("events", LogStream))
        }
        rates = {f"{name}_lines_per_s": round(lines / seconds) for name, seconds in best.items()}
        results.append({"log": path.name, "lines": lines, "megabytes": round(len(data) / 1e6, 1), **rates})
        print(json.dumps(results[-1]), flush=True)


if __name__ == "__main__":
    main()
