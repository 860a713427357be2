"""Whole partitions on the GPU: the built-in circuit, its key made there, proofs timed phase by phase and verified.

    python bench/gpu_proof.py [--device cuda] [--out FOLDER] [--sizes 16,18,20] [--curve bls12-381] [--partitions 5]

Prints a table, writes one JSON line for each size to FOLDER/proofs.jsonl, and the last proof with its key for another
verifier to FOLDER/proofs. Wall time of the phases of one worker,
one partition after the other; ``gpu_active`` is the time that kernels ran, by device events. The first partition is
told apart: it brings the key onto the device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

from prover.circuits.builtin import builtin
from prover.circuits.evaluator import evaluate
from prover.curves import Curve, curve
from prover.device import open_device
from prover.device.cuda import CudaDevice
from prover.device.host import cores
from prover.device.protocol import Device
from prover.field import unpack
from prover.formats.proof import Proof
from prover.formats.proof_json import write_proof, write_public, write_verification_key
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Assignment, Pending, SlotProof, finish
from prover.groth16.setup import ConstraintSystem, setup
from prover.groth16.verify import Verifier

PHASES = ("setup", "h2d", "ntt", "msm", "d2h")


def partition(key: ProvingKey, assignment: Assignment, device: Device) -> tuple[Pending, dict[str, float]]:
    """One proof's device work: what it delivered, seconds of each phase and of kernels."""
    slot = SlotProof(key, [assignment], device)
    seconds: dict[str, float] = {}
    delivered: list[Pending] = []
    for phase in PHASES:
        began = time.monotonic()
        result = getattr(slot, phase)()
        seconds[phase] = time.monotonic() - began
        delivered = result or delivered
    seconds["gpu_active"] = slot.gpu_active_s or 0.0
    slot.release()
    return delivered[0], seconds


def keep(folder: Path, key: ProvingKey, public: list[int], proof: Proof) -> None:
    """Files for another implementation's verifier."""
    folder.mkdir(parents=True, exist_ok=True)
    write_verification_key(folder / "verification_key.json", key.verifying)
    write_public(folder / "public.json", public)
    write_proof(folder / "proof.json", proof)


def measure(device: Device, on: Curve, log_n: int, partitions: int, out: Path) -> dict[str, object]:
    """All figures of one size; the last proof goes to ``out``."""
    began = time.monotonic()
    definition = builtin(f"poseidon-merkle-{log_n}", on)
    circuit = definition.build()
    made = evaluate(circuit, definition.random_inputs(circuit, 1), cores())
    built = time.monotonic()
    key = ProvingKey.from_zkey(setup(ConstraintSystem.of_circuit(circuit), threads=cores(), device=device))
    key_s = time.monotonic() - built
    assignment = Assignment(made.witness, made.a, made.b, made.c)
    _, first = partition(key, assignment, device)
    runs = [partition(key, assignment, device) for _ in range(partitions)]
    verifier = Verifier(key.verifying)
    public = unpack(made.witness[1 : circuit.n_public + 1], on.fr, "canonical")
    if not all(verifier.verify(public, finish(pending)) for pending, _ in runs):
        raise SystemExit(f"a proof at 2^{log_n} does not verify")
    keep(out / f"{definition.name}-{on.name}", key, public, finish(runs[-1][0]))
    return {
        "schema": "cuzk-top/bench-proof/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device.name,
        "gpu": device.product if isinstance(device, CudaDevice) else None,
        "curve": on.name,
        "circuit": definition.name,
        "constraints": circuit.n_constraints,
        "log_n": log_n,
        "circuit_s": built - began,
        "key_s": key_s,
        "first_s": first,
        "median_s": {name: statistics.median(seconds[name] for _, seconds in runs) for name in first},
        "verified": len(runs),
        "memory_peak_bytes": device.memory().peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    parser.add_argument("--sizes", default="16,18,20", help="logarithms of the domains")
    parser.add_argument("--curve", default="bls12-381")
    parser.add_argument("--partitions", type=int, default=5)
    args = parser.parse_args()
    device, on = open_device(args.device), curve(args.curve)
    began = time.monotonic()
    device.prepare(on)
    print(f"kernels ready in {time.monotonic() - began:.2f} s")
    if isinstance(device, CudaDevice):
        for record in device.kernels.records:
            print(f"  {record.cache.name:32} {record.cache.seconds:6.2f} s{' from disk' * record.cache.cached}")
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "proofs.jsonl").open("a", encoding="utf-8") as out:
        for size in args.sizes.split(","):
            line = measure(device, on, int(size), args.partitions, args.out / "proofs")
            out.write(json.dumps(line) + "\n")
            median, first = line["median_s"], line["first_s"]
            assert isinstance(median, dict) and isinstance(first, dict)
            shown = "  ".join(f"{name} {seconds * 1e3:.1f}" for name, seconds in median.items())
            total = sum(median[phase] for phase in PHASES) * 1e3
            begun = f"key {line['key_s']:.2f} s, first {sum(first[phase] for phase in PHASES):.2f} s"
            print(f"2^{size} {begun}, then {total:.1f} ms: {shown}", flush=True)


if __name__ == "__main__":
    main()
