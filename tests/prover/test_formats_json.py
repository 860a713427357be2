"""Strict readings of snarkjs's JSON, each refusal one line that names the field."""

import dataclasses
import json
import sys

import pytest
from format_samples import FOLDERS

from prover.curves import BLS12_381, BN254, CURVES
from prover.formats.errors import FormatError
from prover.formats.proof import Proof
from prover.formats.proof_json import (
    proof_json,
    public_json,
    read_proof,
    read_public,
    read_verification_key,
    verification_key_json,
    write_proof,
    write_public,
    write_verification_key,
)

P, R = BN254.fp.modulus, BN254.fr.modulus
REMAKE = "make or copy the file again"
ORDER = "give verification_key.json, public.json, proof.json in this order, or make the file again"
FOLDER = FOLDERS[BN254] / "mix_8"


def message(tmp_path, reader, content, *arguments):
    path = tmp_path / "f.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(FormatError) as caught:
        reader(path, *arguments)
    text = str(caught.value)
    assert text.isprintable()
    return text.replace(str(path), "F")


def changed(name, path, value):
    """The fixture with one value changed (``...`` deletes it)."""
    document = json.loads((FOLDER / name).read_text())
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


NUMBER = "is not a string of decimal digits"
PROOF = [
    (["pi_a"], ..., "missing: F, pi_a"),
    (["pi_a"], [], "a list of 0, not a list of 3: F, pi_a"),
    (["pi_a"], "1", '"1", not a list of 3: F, pi_a'),
    (["pi_b", 1], ["1"], "a list of 1, not a list of 2: F, pi_b[1]"),
    (["pi_a", 0], 5, f"5 {NUMBER}: F, pi_a[0]"),
    (["pi_a", 0], True, f"true {NUMBER}: F, pi_a[0]"),
    (["pi_a", 0], None, f"nothing {NUMBER}: F, pi_a[0]"),
    (["pi_a", 0], {}, f"dict {NUMBER}: F, pi_a[0]"),
    (["pi_a", 0], "-1", f'"-1" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "+1", f'"+1" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "0x1", f'"0x1" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "1_0", f'"1_0" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], " 1", f'" 1" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "1\n", f'"1\\n" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "", f'"" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "1e3", f'"1e3" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "\u0663", f'"\\u0663" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "\u00b2", f'"\\u00b2" {NUMBER}: F, pi_a[0]'),
    (["pi_a", 0], "01", '"01" has leading zeros: F, pi_a[0]'),
    (["pi_a", 0], str(P), f'"{str(P)[:23]}... is not below the field modulus: F, pi_a[0]'),
    (["pi_a", 0], "9" * 10_000, f'"{"9" * 23}... is not below the field modulus: F, pi_a[0]'),
    (["pi_a", 0], "1", "point not on the curve: F, pi_a"),
    (["pi_a", 2], "2", "point is not affine (z is not 1): F, pi_a"),
    (["pi_a", 2], "0", "point is not affine (z is not 1): F, pi_a"),
    (["pi_b", 0, 1], "1", "point not on the curve: F, pi_b"),
    (["pi_b", 2, 1], "1", "point is not affine (z is not 1): F, pi_b"),
    (["pi_b", 2, 1], str(P), f'"{str(P)[:23]}... is not below the field modulus: F, pi_b[2][1]'),
    (["pi_c", 1], "1", "point not on the curve: F, pi_c"),
    (["protocol"], "plonk", 'protocol "plonk", only groth16 is known: F, protocol'),
    (["protocol"], ..., "protocol nothing, only groth16 is known: F, protocol"),
    (["curve"], "bn255", 'curve "bn255", not bls12-381 or bn128: F, curve'),
    (["curve"], ["bn128"], "curve list, not bls12-381 or bn128: F, curve"),
    (["curve"], "BLS12_381", "point not on the curve: F, pi_a"),
]


@pytest.mark.parametrize(("path", "value", "expected"), PROOF, ids=lambda v: str(v)[:30])
def test_proof(tmp_path, path, value, expected):
    assert message(tmp_path, read_proof, changed("proof.json", path, value)) == f"{expected}: {REMAKE}"


@pytest.mark.parametrize("name", ["bn128", "bn254", "BN254", "alt_bn128"])
def test_every_spelling_of_a_curve_is_read(tmp_path, name):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(changed("proof.json", ["curve"], name)))
    assert read_proof(path) == read_proof(FOLDER / "proof.json")


def test_proof_of_another_curve(tmp_path):
    with pytest.raises(
        FormatError, match=r"curve bn128, the verifying key has bls12-381: .*, curve: give files of one"
    ):
        read_proof(FOLDER / "proof.json", BLS12_381)


KEY = [
    (["nPublic"], ..., "missing: F, nPublic"),
    (["nPublic"], "9", "not a count: F, nPublic"),
    (["nPublic"], True, "not a count: F, nPublic"),
    (["nPublic"], -1, "not a count: F, nPublic"),
    (["nPublic"], 8, "10 points, 8 public inputs need 9: F, IC"),
    (["IC"], {}, "no list, 9 public inputs need 10: F, IC"),
    (["IC", 3, 0], "7", "point not on the curve: F, IC[3]"),
    (["vk_alpha_1"], ["0", "1", "0"], "point at infinity: F, vk_alpha_1"),
    (["vk_beta_2"], [["0", "0"], ["1", "0"], ["0", "0"]], "point at infinity: F, vk_beta_2"),
    (["vk_gamma_2"], [["0", "0"], ["1", "0"], ["0", "0"]], "point at infinity: F, vk_gamma_2"),
    (["vk_delta_2"], [["0", "0"], ["1", "0"], ["0", "0"]], "point at infinity: F, vk_delta_2"),
    (["vk_alphabeta_12", 1, 2, 0], "x", f'"x" {NUMBER}: F, vk_alphabeta_12[1][2][0]'),
    (["vk_alphabeta_12", 1], [], "a list of 0, not a list of 3: F, vk_alphabeta_12[1]"),
]


@pytest.mark.parametrize(("path", "value", "expected"), KEY, ids=lambda v: str(v)[:30])
def test_verification_key(tmp_path, path, value, expected):
    assert message(tmp_path, read_verification_key, changed("verification_key.json", path, value)) == (
        f"{expected}: {REMAKE}"
    )


PUBLIC = [
    ({}, "not a list of public inputs: F: give the public.json of the proof"),
    (["1"], "1 public inputs, the verifying key has 2: F: give the public.json of the proof"),
    (["1", "2", "3"], "3 public inputs, the verifying key has 2: F: give the public.json of the proof"),
    (["1", 2], f"2 {NUMBER}: F, [1]: {REMAKE}"),
    (["1", str(R)], f'"{str(R)[:23]}... is not below the field modulus: F, [1]: {REMAKE}'),
]


@pytest.mark.parametrize(("content", "expected"), PUBLIC, ids=lambda v: str(v)[:30])
def test_public(tmp_path, content, expected):
    assert message(tmp_path, read_public, content, BN254, 2) == expected


TEXT = [
    (b"", "not JSON: Expecting value: F, byte 0"),
    (b"{", "not JSON: Expecting property name enclosed in double quotes: F, byte 1"),
    (b"\xff{}", "not UTF-8 text: F, byte 0"),
    (b"\xef\xbb\xbf{}", None),
    (b"[] []", "not JSON: Extra data: F, byte 3"),
    (b"[]", f"not a JSON object: F: {ORDER}"),
    (b'{"protocol": "groth16", "protocol": "groth16"}', 'key "protocol" occurs twice: F'),
    (b'{"nPublic": 1.5}', "number 1.5 is not an integer: F"),
    (b'{"nPublic": NaN}', "number NaN is not an integer: F"),
    (b'{"nPublic": -Infinity}', "number -Infinity is not an integer: F"),
    (b'{"nPublic": ' + b"1" * 5000 + b"}", f"integer {'1' * 24}... is too long: F"),
    (b" " * (1 << 16) + b"{}", f"more than {1 << 16} bytes: F: give the file that is meant"),
]


@pytest.mark.parametrize(("content", "expected"), TEXT, ids=lambda v: str(v)[:24])
def test_text(tmp_path, content, expected):
    got = message(tmp_path, read_proof, content)
    if expected is not None:
        assert got in (expected, f"{expected}: {REMAKE}")


def test_nesting_beyond_the_interpreters_limit(tmp_path):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # py_ecc raises it
    try:
        assert message(tmp_path, read_proof, b"[" * 20_000) == f"nested too deeply: F: {REMAKE}"
    finally:
        sys.setrecursionlimit(before)


def test_unknown_fields_and_order_do_not_matter(tmp_path):
    document = json.loads((FOLDER / "proof.json").read_text())
    document = dict(reversed([*document.items(), ("more", {"x": [1, None]})]))
    (tmp_path / "f").write_text(json.dumps(document))
    assert read_proof(tmp_path / "f") == read_proof(FOLDER / "proof.json")


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_infinity_is_written_as_snarkjs_does_and_read_back(tmp_path, curve):
    proof = Proof(curve, None, None, curve.g1)
    write_proof(tmp_path / "p", proof)
    document = json.loads((tmp_path / "p").read_text())
    assert document["pi_a"] == ["0", "1", "0"]
    assert document["pi_b"] == [["0", "0"], ["1", "0"], ["0", "0"]]
    assert read_proof(tmp_path / "p", curve) == proof


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_edge_values_round_trip(tmp_path, curve):
    values = [0, 1, curve.fr.modulus - 1]
    write_public(tmp_path / "p", values)
    assert read_public(tmp_path / "p", curve, 3) == values
    key = read_verification_key(FOLDERS[curve] / "pow_255" / "verification_key.json")
    without = dataclasses.replace(key, alphabeta=None, ic=(None, *key.ic[1:]))
    write_verification_key(tmp_path / "k", without)
    assert read_verification_key(tmp_path / "k") == without
    assert b"vk_alphabeta_12" not in (tmp_path / "k").read_bytes()


def test_no_public_inputs_are_written_as_snarkjs_does(tmp_path):
    assert public_json([]) == b"[\n]"
    write_public(tmp_path / "p", [])
    assert read_public(tmp_path / "p", BN254, 0) == []


def test_texts_end_without_a_newline_as_those_of_snarkjs():
    key = read_verification_key(FOLDER / "verification_key.json")
    proof = read_proof(FOLDER / "proof.json")
    assert all(text[-1:] in b"]}" for text in (verification_key_json(key), proof_json(proof), public_json([1])))


def test_a_pipe_is_read(tmp_path):
    import os
    import threading

    os.mkfifo(tmp_path / "pipe")
    content = (FOLDER / "proof.json").read_bytes()
    thread = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(content))
    thread.start()
    proof = read_proof(tmp_path / "pipe")
    thread.join()
    assert proof == read_proof(FOLDER / "proof.json")
