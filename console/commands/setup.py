"""``cuzk-top setup``: a proving key by one party, for development."""

from __future__ import annotations

import argparse
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from console.progress import ProgressLine
    from prover.cancel import CancelToken

WARNING = (
    "NOT FOR PRODUCTION: this key was made by one party. Whoever ran this command could forge proofs under it; "
    "use a ceremony's key for anything of value."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``setup``."""
    parser.add_argument("r1cs", metavar="R1CS", help="circuit (circom .r1cs)")
    parser.add_argument("-o", "--output", required=True, metavar="ZKEY", help="proving key")
    parser.add_argument("--vkey", metavar="FILE", help="also write the verifying key (JSON)")
    parser.add_argument("--force", action="store_true", help="replace keys that are there already")


def run(args: argparse.Namespace) -> int:
    """Make the key and write it; on any failure nothing is left behind."""
    from console.commands.prove import check_outputs
    from console.interrupts import run_interruptibly
    from console.progress import ProgressLine

    check_outputs({"-o": args.output, "--vkey": args.vkey}, {"R1CS": args.r1cs})
    if not args.force:
        refuse_existing(args.output, args.vkey)
    with ProgressLine() as progress:
        report = run_interruptibly(lambda cancel: _make(args, progress, cancel))
    print(f"cuzk-top: {WARNING}", file=sys.stderr)
    if args.json:
        from console.cli import print_json

        print_json(report)
    return 0


def refuse_existing(*outputs: str | None) -> None:
    """A key that is replaced is gone, and with it the use of every proof and verifying key that belongs to it.

    Raises:
        InputError: if one of the files is there. (Devices and pipes hold nothing that could be lost.)
    """
    from pathlib import Path

    from prover.errors import InputError
    from prover.formats.errors import printable

    for path in outputs:
        if path and Path(path).is_file():
            raise InputError("key exists already", printable(path), "give another name, or --force to replace it")


def _make(args: argparse.Namespace, progress: ProgressLine, cancel: CancelToken) -> dict[str, object]:
    from console.commands.prove import device_threads
    from prover.device import open_device
    from prover.formats.atomic import AtomicFiles
    from prover.formats.proof_json import verification_key_json
    from prover.formats.r1cs import read_r1cs
    from prover.formats.zkey import write_zkey_to
    from prover.groth16.checked_keys import CheckedKeys, DigestWriter
    from prover.groth16.keys import with_alphabeta
    from prover.groth16.setup import ConstraintSystem, setup

    began = time.monotonic()
    threads = device_threads(args)
    progress("reading the circuit")
    r1cs = read_r1cs(args.r1cs)
    with AtomicFiles(new=not args.force) as files:
        key_file = files.open(args.output)  # first, so that a place that cannot be written is known before the work
        vkey_file = files.open(args.vkey) if args.vkey else None
        device = open_device(args.device, threads)
        device.prepare(r1cs.curve, threads, progress, for_setup=True)
        zkey = setup(ConstraintSystem.of_r1cs(r1cs), threads=threads, progress=progress, cancel=cancel, device=device)
        digest = DigestWriter(key_file)
        write_zkey_to(digest, zkey)
        if vkey_file is not None:
            vkey_file.write(verification_key_json(with_alphabeta(zkey.verifying_key())))
    CheckedKeys().add(digest.hexdigest())  # its points are multiples of the generators
    return {
        "schema": "cuzk-top/setup/1",
        "curve": r1cs.curve.snarkjs_name,
        "constraints": r1cs.n_constraints,
        "domain": zkey.domain_size,
        "zkey": args.output,
        "vkey": args.vkey,
        "production": False,
        "seconds": time.monotonic() - began,
    }


__all__ = ["WARNING", "configure", "refuse_existing", "run"]
