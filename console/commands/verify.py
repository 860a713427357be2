"""``cuzk-top verify``: whether a proof is valid. Exit 0 valid, 1 not valid, 2 unusable input."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``verify``: the three files, in snarkjs's order."""
    parser.add_argument("vkey", metavar="VKEY.json", help="verifying key")
    parser.add_argument("public", metavar="PUBLIC.json", help="public inputs")
    parser.add_argument("proof", metavar="PROOF.json", help="proof")


def run(args: argparse.Namespace) -> int:
    """Verify one proof and say the answer."""
    from prover.formats.proof_json import read_proof, read_public, read_verification_key
    from prover.groth16.verify import Verifier

    vk = read_verification_key(args.vkey)
    public = read_public(args.public, vk.curve, vk.n_public)
    proof = read_proof(args.proof, vk.curve)
    valid = Verifier(vk, args.vkey).verify(public, proof, where=args.proof)
    if args.json:
        from console.cli import print_json

        print_json({"schema": "cuzk-top/verify/1", "valid": valid})
    else:
        print("valid" if valid else "not valid")
    return 0 if valid else 1


__all__ = ["configure", "run"]
