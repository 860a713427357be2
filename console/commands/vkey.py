"""``cuzk-top vkey``: the verifying key of a proving key, as snarkjs writes it."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``vkey``."""
    parser.add_argument("zkey", metavar="ZKEY", help="proving key (snarkjs .zkey)")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="verification_key.json")


def run(args: argparse.Namespace) -> int:
    """Read the key, check the verifying part, write it."""
    from console.commands.prove import check_outputs
    from prover.formats.proof_json import write_verification_key
    from prover.formats.zkey import read_verifying_key
    from prover.groth16.keys import check_verifying_key, with_alphabeta

    check_outputs({"-o": args.output}, {"ZKEY": args.zkey})
    vk = read_verifying_key(args.zkey)
    check_verifying_key(vk, args.zkey)
    write_verification_key(args.output, with_alphabeta(vk))
    if args.json:
        from console.cli import print_json

        print_json(
            {"schema": "cuzk-top/vkey/1", "curve": vk.curve.snarkjs_name, "public": vk.n_public, "vkey": args.output}
        )
    return 0


__all__ = ["configure", "run"]
