"""Keys, witnesses and proofs of snarkjs, and the same proofs judged by code that is not ours."""

from pathlib import Path

import independent_pairing
import pytest

from prover.curves import BLS12_381, CURVES
from prover.device import open_device
from prover.formats.bellman import read_compressed_proof
from prover.formats.proof import Proof
from prover.formats.proof_bytes import decode_proof, encode_proof
from prover.formats.proof_json import read_proof, read_public, read_verification_key
from prover.formats.wtns import read_wtns
from prover.formats.zkey import read_zkey
from prover.groth16.keys import ProvingKey, with_alphabeta
from prover.groth16.prove import finish, start
from prover.groth16.verify import Verifier, verify
from prover.groth16.witness import assign

FIXTURES = Path(__file__).parent.parent / "fixtures" / "snark"
FOLDERS = [FIXTURES / curve / name for curve in ("bls12-381", "bn128") for name in ("mix_8", "pow_255")]
IDS = [f"{folder.parent.name}-{folder.name}" for folder in FOLDERS]


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_own_proof_from_a_foreign_key_is_accepted_here_and_elsewhere(folder):
    key = ProvingKey.from_zkey(read_zkey(folder / "circuit.zkey"))
    key.check_curve()
    key.check_each()
    key.check_combined()
    witness = read_wtns(folder / "witness.wtns")
    device = open_device("host")
    proof = finish(start(key, assign(key, witness.values, device), device))
    vk = read_verification_key(folder / "verification_key.json")
    public = read_public(folder / "public.json", vk.curve, vk.n_public)
    assert witness.public_inputs(key.n_public) == public
    assert verify(vk, public, proof)
    assert independent_pairing.accepts(vk, public, proof)
    public[0] = (public[0] + 1) % vk.curve.fr.modulus
    assert not verify(vk, public, proof)
    assert not independent_pairing.accepts(vk, public, proof)
    assert decode_proof(key.curve, encode_proof(proof)) == proof


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_foreign_proofs_verify_and_their_swaps_do_not(folder):
    vk = read_verification_key(folder / "verification_key.json")
    public = read_public(folder / "public.json", vk.curve, vk.n_public)
    proof = read_proof(folder / "proof.json", vk.curve)
    verifier = Verifier(vk)
    assert verifier.verify(public, proof)
    assert not verifier.verify(public, Proof(proof.curve, proof.c, proof.b, proof.a))
    assert not verifier.verify(public, Proof(proof.curve, proof.a, vk.gamma_g2, proof.c))
    assert not verifier.verify(public, Proof(proof.curve, None, proof.b, proof.c))
    assert not verifier.verify(public[1:] + public[:1], proof)
    x, y = proof.a
    assert not verifier.verify(public, Proof(proof.curve, (x, vk.curve.fp.modulus - y), proof.b, proof.c))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_a_proof_under_another_circuits_key_does_not_verify(curve):
    folder = {"bls12-381": "bls12-381", "bn254": "bn128"}[curve.name]
    vk = read_verification_key(FIXTURES / folder / "mix_8" / "verification_key.json")
    other = read_proof(FIXTURES / folder / "pow_255" / "proof.json", curve)
    public = read_public(FIXTURES / folder / "mix_8" / "public.json", curve, vk.n_public)
    assert not verify(vk, public, other)


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_the_verifying_key_is_that_of_snarkjs_to_the_last_coordinate(folder):
    ours = with_alphabeta(read_zkey(folder / "circuit.zkey").verifying_key())
    theirs = read_verification_key(folder / "verification_key.json")
    assert ours.alphabeta == theirs.alphabeta
    assert (ours.alpha_g1, ours.beta_g2, ours.gamma_g2, ours.delta_g2, ours.ic) == (
        theirs.alpha_g1,
        theirs.beta_g2,
        theirs.gamma_g2,
        theirs.delta_g2,
        theirs.ic,
    )


@pytest.mark.parametrize("name", ["mix_8", "pow_255"])
def test_the_192_byte_proof_verifies(name):
    folder = FIXTURES / "bls12-381" / name
    vk = read_verification_key(folder / "verification_key.json")
    proof = read_compressed_proof(folder / "proof192.bin")
    assert proof.curve is BLS12_381
    assert verify(vk, read_public(folder / "public.json", vk.curve), proof)
