"""snarkjs itself takes what we write. Needs ``snarkjs`` on the PATH, or its path in CUZK_TOP_SNARKJS."""

import dataclasses
import json
import os
import shutil
import subprocess

import pytest
from format_samples import FOLDERS

from prover.curves import BLS12_381, BN254
from prover.formats.atomic import write_files
from prover.formats.proof_json import (
    proof_json,
    public_json,
    read_proof,
    read_public,
    read_verification_key,
    verification_key_json,
    write_verification_key,
)
from prover.formats.r1cs import read_r1cs, write_r1cs
from prover.formats.wtns import read_wtns, write_wtns
from prover.formats.zkey import read_verifying_key, read_zkey, write_zkey

SNARKJS = os.environ.get("CUZK_TOP_SNARKJS") or shutil.which("snarkjs")

pytestmark = pytest.mark.skipif(SNARKJS is None, reason="snarkjs is not installed (npm install snarkjs)")
each_curve = pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda c: c.name)


def snarkjs(folder, *arguments):
    command = [SNARKJS, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, done.stdout + done.stderr


@each_curve
def test_key_witness_and_circuit(curve, tmp_path):
    source = FOLDERS[curve] / "mix_8"
    key = read_zkey(source / "circuit.zkey")
    write_zkey(tmp_path / "our.zkey", dataclasses.replace(key, contributions=bytes(4)))
    write_wtns(tmp_path / "our.wtns", curve, read_wtns(source / "witness.wtns").values)
    write_r1cs(tmp_path / "our.r1cs", read_r1cs(source / "circuit.r1cs"))

    code, text = snarkjs(tmp_path, "wtns", "check", "our.r1cs", "our.wtns")
    assert code == 0 and "WITNESS IS CORRECT" in text, text

    code, text = snarkjs(tmp_path, "zkey", "export", "verificationkey", "our.zkey", "vkey.json")
    assert code == 0, text
    assert (tmp_path / "vkey.json").read_bytes() == (source / "verification_key.json").read_bytes()

    code, text = snarkjs(tmp_path, "groth16", "prove", "our.zkey", "our.wtns", "proof.json", "public.json")
    assert code == 0, text
    assert (tmp_path / "public.json").read_bytes() == (source / "public.json").read_bytes()
    proof = read_proof(tmp_path / "proof.json", curve)
    assert proof_json(proof) == (tmp_path / "proof.json").read_bytes()
    assert proof != read_proof(source / "proof.json")

    code, text = snarkjs(tmp_path, "groth16", "verify", "vkey.json", "public.json", "proof.json")
    assert code == 0 and "OK!" in text, text


@each_curve
def test_proof_public_inputs_and_verifying_key(curve, tmp_path):
    source = FOLDERS[curve] / "pow_255"
    with_pairing = read_verification_key(source / "verification_key.json")
    public = read_public(source / "public.json", curve, with_pairing.n_public)
    write_verification_key(tmp_path / "vkey.json", read_verifying_key(source / "circuit.zkey"))
    assert "vk_alphabeta_12" not in json.loads((tmp_path / "vkey.json").read_text())
    write_files(
        {
            tmp_path / "proof.json": proof_json(read_proof(source / "proof.json")),
            tmp_path / "public.json": public_json(public),
            tmp_path / "other.json": public_json([public[0], public[1] + 1]),
            tmp_path / "full.json": verification_key_json(with_pairing),
        }
    )
    for key, inputs, good in (
        ("vkey.json", "public.json", True),
        ("full.json", "public.json", True),
        ("vkey.json", "other.json", False),
    ):
        code, text = snarkjs(tmp_path, "groth16", "verify", key, inputs, "proof.json")
        assert (code == 0 and "OK!" in text) == good, text
