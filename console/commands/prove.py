"""``cuzk-top prove``: one proof from a snarkjs key and a witness, verified before anything is written."""

from __future__ import annotations

import argparse
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.progress import ProgressLine
    from prover.cancel import CancelToken
    from prover.device.protocol import Device
    from prover.formats.proof import Proof
    from prover.formats.wtns import Wtns
    from prover.groth16.keys import ProvingKey
    from prover.groth16.prove import Pending

NOT_VALID = "proof does not verify: the witness or the key is wrong"
STAGES = ("load", "synthesis", "ntt", "msm", "finalizing", "total")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``prove``."""
    parser.add_argument("zkey", metavar="ZKEY", help="proving key (snarkjs .zkey)")
    parser.add_argument("wtns", metavar="WTNS", help="witness (snarkjs .wtns)")
    parser.add_argument("--proof", default="proof.json", metavar="FILE", help="where the proof goes (proof.json)")
    parser.add_argument(
        "--public", default="public.json", metavar="FILE", help="where the public inputs go (public.json)"
    )
    parser.add_argument("--r1cs", metavar="FILE", help="the circuit, to name the row that a wrong witness breaks")
    parser.add_argument("--check-key", action="store_true", help="check every point of the key, one by one")


def run(args: argparse.Namespace) -> int:
    """Prove, verify, write both files."""
    from console.interrupts import run_interruptibly
    from console.progress import ProgressLine

    check_outputs(
        {"--proof": args.proof, "--public": args.public}, {"ZKEY": args.zkey, "WTNS": args.wtns, "--r1cs": args.r1cs}
    )
    with ProgressLine() as progress:
        job = _Job(args, progress)
        run_interruptibly(job.work)
    if args.json:
        from console.cli import print_json

        print_json(job.report)
    return 0


def check_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Each output goes to a file of its own, and none over an input. Paths by the names of their options.

    Raises:
        InputError: if two are the same file.
    """
    from prover.errors import InputError
    from prover.formats.errors import printable

    taken = {os.path.realpath(path): name for name, path in inputs.items() if path}
    for name, path in outputs.items():
        if not path:
            continue
        first = taken.setdefault(os.path.realpath(path), name)
        if first is not name:
            raise InputError(f"{first} and {name} name the same file", printable(path), "give two names")


def device_threads(args: argparse.Namespace) -> int:
    """Processor threads of a command that has the machine to itself: every core, or what ``gpu_threads`` says.

    Raises:
        KnobError: if an assignment cannot be used.
    """
    from prover.device.host import cores

    if not args.knobs and "CUZK_TOP_GPU_THREADS" not in os.environ:
        return cores()
    from prover.pipeline.knobs import load_knobs

    return load_knobs(environment=os.environ, assignments=args.knobs).integer("gpu_threads") or cores()


class _Job:
    """The command's work, and where its time went."""

    def __init__(self, args: argparse.Namespace, progress: ProgressLine) -> None:
        self.report: dict[str, object] = {}
        self._args = args
        self._progress = progress
        self._began = self._mark = time.monotonic()
        self._seconds = dict.fromkeys(STAGES, 0.0)

    def work(self, cancel: CancelToken) -> None:
        """All of it; runs in a thread of its own."""
        from prover.device import open_device
        from prover.formats.atomic import write_files
        from prover.formats.proof_json import proof_json, public_json

        threads = device_threads(self._args)
        device = open_device(self._args.device, threads)
        key, witness = self._load(threads, cancel)
        pending = self._prove(key, witness, device, cancel)
        public = witness.public_inputs(key.n_public)
        proof = self._finish(pending, public)
        write_files({self._args.proof: proof_json(proof), self._args.public: public_json(public)})
        self._lap("finalizing")
        self._seconds["total"] = self._mark - self._began
        self.report = {
            "schema": "cuzk-top/prove/1",
            "curve": key.curve.snarkjs_name,
            "constraints": key.n_constraints,
            "device": device.name,
            "seconds": self._seconds,
            "verified": True,
        }

    def _load(self, threads: int, cancel: CancelToken) -> tuple[ProvingKey, Wtns]:
        from prover.formats.wtns import read_wtns
        from prover.formats.zkey import read_zkey
        from prover.groth16.checked_keys import check_key
        from prover.groth16.keys import ProvingKey
        from prover.groth16.witness import check_fits

        key = ProvingKey.from_zkey(read_zkey(self._args.zkey))
        witness = read_wtns(self._args.wtns)
        check_fits(key, witness)
        self._progress("checking the key")
        check_key(key, each=self._args.check_key, threads=threads, cancel=cancel)
        if self._args.r1cs:
            from prover.formats.r1cs import read_r1cs
            from prover.groth16.witness import check_satisfied

            self._progress("checking the witness")
            check_satisfied(read_r1cs(self._args.r1cs), key, witness, NOT_VALID)
        self._lap("load")
        return key, witness

    def _prove(self, key: ProvingKey, witness: Wtns, device: Device, cancel: CancelToken) -> Pending:
        from prover.groth16.prove import SlotProof
        from prover.groth16.witness import assign

        device.prepare(key.curve, progress=self._progress)
        self._progress("multiplying the matrices", 0.0)
        assignment = assign(key, witness.values, device, cancel=cancel)
        self._lap("synthesis")
        slot = SlotProof(key, [assignment], device, cancel=cancel)
        try:
            slot.setup()
            slot.h2d()
            self._progress("transforming", 0.1)
            slot.ntt()
            self._lap("ntt")
            self._progress("summing", 0.2)
            slot.msm()
            pending = slot.d2h()[0]
            self._lap("msm")
            return pending
        finally:
            slot.release()

    def _finish(self, pending: Pending, public: list[int]) -> Proof:
        from prover.errors import InputError
        from prover.groth16.prove import finish
        from prover.groth16.verify import Verifier

        proof = finish(pending)
        if not Verifier(pending.key.verifying, pending.key.where).verify(public, proof):
            if self._args.r1cs:
                raise InputError(NOT_VALID, self._args.zkey, "every row of the circuit is satisfied: use its own key")
            raise InputError(NOT_VALID, self._args.wtns, "give --r1cs FILE to name the row")
        return proof

    def _lap(self, stage: str) -> None:
        now = time.monotonic()
        self._seconds[stage] += now - self._mark
        self._mark = now


__all__ = ["NOT_VALID", "check_outputs", "configure", "device_threads", "run"]
