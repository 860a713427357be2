"""What a partition costs in processor time beside the proof itself: the engine, the assembly, the self-check.

    python bench/engine_overhead.py [--partitions 4000] [--out FILE]

engine   partitions of a workload that does nothing go through the whole engine: what the process spends is the engine's
         own. Flat out, paced like a GPU's partitions, and with a journal on disk; by stage, from each thread's clock.
proofs   a built-in circuit's sums on both curves: seconds of one thread for assembly and for self-check, one proof and
         several at once, and what it takes to find a bad one among ten.

The target: 2 ms a partition for the engine, 6 ms on one thread for assembly and self-check.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reporting import cpu_model, write_report

from prover.cancel import CancelToken
from prover.circuits.builtin import builtin
from prover.curves import CURVES, Curve
from prover.device.host import HostDevice, cores
from prover.groth16.workload import CircuitWorkload
from prover.model import KnobValue
from prover.pipeline.engine import Engine
from prover.pipeline.feeder import Feeder
from prover.pipeline.journal import Journal
from prover.pipeline.knobs import KnobSet

Report = dict[str, Any]
BATCHES = (1, 8, 10, 16)
PROOF = bytes(192)


class NoProver:
    """A slot's way over a device that takes no time, or sleeps where a GPU would compute."""

    def __init__(self, partitions: int, nap_s: float) -> None:
        self._partitions = partitions
        self._nap_s = nap_s
        self._spans: list[tuple[float, float]] = []

    def setup(self) -> None:
        pass

    h2d = ntt = release = setup

    def msm(self) -> None:
        began = time.monotonic()
        if self._nap_s:
            time.sleep(self._nap_s)
        self._spans.append((began, time.monotonic()))

    def d2h(self) -> int:
        return self._partitions

    def kernel_spans(self) -> list[tuple[float, float]]:
        """As a GPU's: the engine tells them."""
        spans, self._spans = self._spans, []
        return spans


class NoWork:
    """A workload whose steps do nothing."""

    name = circuit = "nothing"
    constraints = 0

    def __init__(self, nap_s: float) -> None:
        self._nap_s = nap_s

    def synthesize(self, inputs: Any, partitions: Sequence[int], threads: int, cancel: CancelToken) -> int:
        return len(partitions)

    def joined(self, parts: Any) -> None:
        return None

    def prover(self, synthesis: int, device: Any, threads: int, cancel: CancelToken) -> NoProver:
        return NoProver(synthesis, self._nap_s)

    def finish(self, pending: int) -> list[bytes]:
        return [PROOF] * pending

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        return True


def cpu_by_stage() -> dict[str, float]:
    """Processor seconds of the living threads, by the first word of their names."""
    out: dict[str, float] = {}
    for thread in threading.enumerate():
        if thread.ident is not None:
            stage = thread.name.split("-")[0].rstrip("0123456789")
            seconds = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            out[stage] = out.get(stage, 0.0) + seconds
    return out


def engine_cost(partitions: int, per_job: int, nap_s: float, journal: Path | None) -> Report:
    """Processor milliseconds a partition; two workers, two synthesisers."""
    capability = SimpleNamespace(kind="cuda", arch="none", multiprocessors=1, memory_bytes=0, has_timing_events=True)
    device: Any = SimpleNamespace(ordinal=0, name="cuda:0", product="none", uuid="", capability=capability)
    knobs: dict[str, KnobValue] = {"slot_size": 1, "synthesis_concurrency": 2, "gpu_workers_per_device": 2}
    kept = Journal.open(journal) if journal is not None else None
    engine = Engine(NoWork(nap_s), [device], KnobSet(knobs), journal=kept)
    engine.start()
    warm = Feeder(engine, lambda n: n, per_job, 3, 20)
    warm.start()
    while not warm.wait(1.0):
        pass
    cpu, wall, before = time.process_time(), time.monotonic(), cpu_by_stage()
    feeder = Feeder(engine, lambda n: n, per_job, 3, -(-partitions // per_job), first=20)
    feeder.start()
    while not feeder.wait(1.0):
        pass
    spent, wall, after = time.process_time() - cpu, time.monotonic() - wall, cpu_by_stage()
    done = feeder.done * per_job
    if feeder.trouble is not None or feeder.failed:
        raise SystemExit(f"the engine failed: {feeder.trouble or feeder.failure}")
    engine.stop(1.0)
    if kept is not None:
        kept.close()
    return {
        "partitions": done,
        "partitions_per_job": per_job,
        "nap_ms": 1e3 * nap_s,
        "journal": journal is not None,
        "partitions_per_s": done / wall,
        "cpu_ms_per_partition": 1e3 * spent / done,
        "by_stage_ms": {k: round(1e3 * (v - before.get(k, 0.0)) / done, 4) for k, v in sorted(after.items())},
    }


def thread_ms(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Milliseconds of this thread's processor time: median and least. Others on the same core lengthen the median."""
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        times.append(1e3 * (time.thread_time() - began))
    return statistics.median(times), min(times)


def proof_cost(on: Curve, repeats: int) -> Report:
    """Assembly and self-check of a curve's proofs, one thread."""
    workload = CircuitWorkload.open(builtin("poseidon-merkle-10", on), threads=cores())
    count, token = max(BATCHES), CancelToken()
    inputs = workload.sample_inputs(0, count)
    slot = workload.prover(workload.synthesize(inputs, range(count), 1, token), HostDevice(), 1, token)
    for step in (slot.setup, slot.h2d, slot.ntt, slot.msm):
        step()
    pending = slot.d2h()
    slot.release()
    proofs = workload.finish(pending)
    batches = []
    for n in BATCHES:
        if not workload.verify(inputs, range(n), proofs[:n]):
            raise SystemExit(f"proofs on {on.name} do not verify")
        assembly = thread_ms(lambda n=n: workload.finish(pending[:n]), repeats)  # type: ignore[misc]
        check = thread_ms(lambda n=n: workload.verify(inputs, range(n), proofs[:n]), repeats)  # type: ignore[misc]
        batches.append(
            {
                "proofs": n,
                "assembly_ms": assembly[0] / n,
                "self_check_ms": check[0] / n,
                "both_ms": (assembly[0] + check[0]) / n,
                "least_both_ms": (assembly[1] + check[1]) / n,
            }
        )
    return {"curve": on.name, "per_proof": batches, "one_bad_of_ten_ms": bad_cost(workload, inputs, proofs, repeats)}


def bad_cost(workload: CircuitWorkload, inputs: Any, proofs: Sequence[bytes], repeats: int) -> float:
    """Milliseconds to find the one bad proof among ten, which is the next one's."""
    verifier = workload._verifier
    made = [workload._made.get(proof) for proof in proofs]
    statements = [(workload.public_inputs(inputs, i), made[i if i != 6 else 10]) for i in range(10)]
    if verifier.faulty(statements) != [6]:  # type: ignore[arg-type]
        raise SystemExit("the bad proof was not found")
    return thread_ms(lambda: verifier.faulty(statements), repeats)[0]  # type: ignore[arg-type]


def show(report: Report) -> None:
    """A table for people."""
    for run in report["engine"]:
        how = f"{run['nap_ms']:.0f} ms of work" if run["nap_ms"] else "flat out"
        kept = ", journal" if run["journal"] else ""
        cost, rate = run["cpu_ms_per_partition"], run["partitions_per_s"]
        print(f"engine, {how}{kept}, {run['partitions_per_job']} a job: {cost:.3f} ms a partition at {rate:.0f}/s")
        print(f"    {run['by_stage_ms']}")
    for curve in report["proofs"]:
        for batch in curve["per_proof"]:
            assembly, check, both = batch["assembly_ms"], batch["self_check_ms"], batch["both_ms"]
            print(
                f"{curve['curve']:<10}{batch['proofs']:>3} proofs: assembly {assembly:.2f}, self-check {check:.2f}, "
                f"both {both:.2f} ms a proof (least {batch['least_both_ms']:.2f})"
            )
        print(f"{curve['curve']:<10} one bad proof of ten found in {curve['one_bad_of_ten_ms']:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=4000, help="of each run of the engine")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            engine_cost(args.partitions, 8, 0.0, None),
            engine_cost(args.partitions, 1, 0.0, None),
            engine_cost(args.partitions // 10, 1, 0.03, None),
            engine_cost(args.partitions, 8, 0.0, Path(folder) / "journal.sqlite3"),
            engine_cost(args.partitions // 10, 1, 0.03, Path(folder) / "other.sqlite3"),
        ]
    report: Report = {
        "schema": "cuzk-top/bench-overhead/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": cpu_model(),
        "cores": cores(),
        "engine": runs,
        "proofs": [proof_cost(curve, args.repeats) for curve in CURVES],
    }
    show(report)
    if args.out is not None:
        write_report(args.out, report)


if __name__ == "__main__":
    main()
