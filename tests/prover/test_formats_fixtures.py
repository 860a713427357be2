"""Files that snarkjs and circom made: what they hold agrees among themselves, and we write the same bytes."""

import dataclasses
import struct
import subprocess
import sys

import pytest
from format_samples import CASE_IDS, CASES, FOLDERS, dense_rows

from prover import native
from prover.curves import BLS12_381, BN254
from prover.formats.bellman import (
    encode_proof,
    encode_verifying_key,
    read_compressed_proof,
    read_verifying_key,
)
from prover.formats.container import open_container
from prover.formats.proof_json import (
    proof_json,
    public_json,
    read_proof,
    read_public,
    read_verification_key,
    verification_key_json,
)
from prover.formats.r1cs import read_r1cs, write_r1cs
from prover.formats.wtns import read_wtns, write_wtns
from prover.formats.zkey import read_verifying_key as read_zkey_verifying_key
from prover.formats.zkey import read_zkey, write_zkey

SHAPES = {"pow_255": (1023, 2, 1020, 10), "mix_8": (1410, 9, 1409, 11)}
each_case = pytest.mark.parametrize(("curve", "folder"), CASES, ids=CASE_IDS)


def sections(path, magic, version):
    return {n: bytes(s.data) for n, s in open_container(path, magic, version, {}).sections.items()}


def integers(rows):
    return [int.from_bytes(bytes(word for value in row for word in struct.pack("<Q", value)), "little") for row in rows]


@each_case
def test_zkey_holds_what_its_circuit_says(curve, folder):
    key = read_zkey(folder / "circuit.zkey")
    assert key.curve is curve
    assert (key.n_vars, key.n_public, key.n_constraints, key.log_n) == SHAPES[folder.name]
    assert key.rows == key.n_constraints + key.n_public + 1
    for _, group, points in key.queries():
        assert native.points_check(curve, group, points) is None
    infinities = sum(not any(row) for row in key.b_g1_query.tolist())
    assert infinities == {"pow_255": 511, "mix_8": 450}[folder.name]
    assert native.points_check(curve, 1, key.ic) is None


@each_case
def test_zkey_matrices_are_those_of_the_r1cs(curve, folder):
    key = read_zkey(folder / "circuit.zkey")
    r1cs = read_r1cs(folder / "circuit.r1cs")
    assert (r1cs.n_wires, r1cs.n_public, r1cs.n_constraints) == SHAPES[folder.name][:3]
    padding = key.domain_size - key.rows
    input_rows = [{s: 1} for s in range(key.n_public + 1)]
    assert dense_rows(curve, key.a) == dense_rows(curve, r1cs.a) + input_rows + [{}] * padding
    assert dense_rows(curve, key.b) == dense_rows(curve, r1cs.b) + [{}] * (len(input_rows) + padding)


@each_case
def test_witness_satisfies_the_r1cs_and_holds_the_public_inputs(curve, folder):
    witness = read_wtns(folder / "witness.wtns")
    r1cs = read_r1cs(folder / "circuit.r1cs")
    assert witness.curve is curve
    assert len(witness) == r1cs.n_wires
    w = integers(witness.values.tolist())
    for row_a, row_b, row_c in zip(*(dense_rows(curve, m) for m in (r1cs.a, r1cs.b, r1cs.c)), strict=True):
        a, b, c = (sum(v * w[i] for i, v in row.items()) for row in (row_a, row_b, row_c))
        assert (a * b - c) % curve.fr.modulus == 0
    assert witness.public_inputs(r1cs.n_public) == read_public(folder / "public.json", curve, r1cs.n_public)


@each_case
def test_json_files_are_reproduced_to_the_byte(curve, folder):
    proof = read_proof(folder / "proof.json", curve)
    key = read_verification_key(folder / "verification_key.json")
    public = read_public(folder / "public.json", curve, key.n_public)
    assert proof_json(proof) == (folder / "proof.json").read_bytes()
    assert public_json(public) == (folder / "public.json").read_bytes()
    assert verification_key_json(key) == (folder / "verification_key.json").read_bytes()


@each_case
def test_verifying_key_of_the_zkey_is_that_of_the_json(curve, folder):
    of_zkey = read_zkey(folder / "circuit.zkey").verifying_key()
    assert read_zkey_verifying_key(folder / "circuit.zkey") == of_zkey
    of_json = read_verification_key(folder / "verification_key.json")
    assert dataclasses.replace(of_zkey, beta_g1=None, delta_g1=None) == of_json


@pytest.mark.parametrize("name", ["pow_255", "mix_8"])
def test_bellman_encodings_are_those_of_another_program(name):
    folder = FOLDERS[BLS12_381] / name
    proof = read_proof(folder / "proof.json")
    key = read_zkey(folder / "circuit.zkey").verifying_key()
    assert encode_proof(proof) == (folder / "proof192.bin").read_bytes()
    assert read_compressed_proof(folder / "proof192.bin") == proof
    assert encode_verifying_key(key) == (folder / "vk.bin").read_bytes()
    assert read_verifying_key(folder / "vk.bin") == key


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=["bn128", "bls12-381"])
def test_verifying_key_begins_the_file_that_snarkjs_exports_for_bellman(curve):
    folder = FOLDERS[curve] / "pow_255"
    encoded = encode_verifying_key(read_zkey(folder / "circuit.zkey").verifying_key())
    assert (folder / "circuit.mpcparams").read_bytes().startswith(encoded)


@each_case
def test_binary_files_are_written_back_section_by_section(curve, folder, tmp_path):
    write_zkey(tmp_path / "a.zkey", read_zkey(folder / "circuit.zkey"))
    assert sections(tmp_path / "a.zkey", b"zkey", 1) == sections(folder / "circuit.zkey", b"zkey", 1)

    write_wtns(tmp_path / "a.wtns", curve, read_wtns(folder / "witness.wtns").values)
    assert (tmp_path / "a.wtns").read_bytes() == (folder / "witness.wtns").read_bytes()

    r1cs = read_r1cs(folder / "circuit.r1cs")
    write_r1cs(tmp_path / "a.r1cs", r1cs)
    ours, theirs = (sections(p, b"r1cs", 1) for p in (tmp_path / "a.r1cs", folder / "circuit.r1cs"))
    assert ours[2] == theirs[2]
    labels = struct.pack("<Q", r1cs.n_labels), struct.pack("<Q", r1cs.n_wires)
    assert ours[1] == theirs[1].replace(*labels)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.r1cs", "a.wtns", "a.zkey"]


def test_reading_for_a_proof_loads_no_numpy():
    folder = FOLDERS[BN254] / "pow_255"
    code = f"""
import sys
from prover.formats.zkey import read_zkey
from prover.formats.wtns import read_wtns
from prover.formats.proof_json import write_proof
read_zkey({str(folder / "circuit.zkey")!r}).verifying_key()
read_wtns({str(folder / "witness.wtns")!r})
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
