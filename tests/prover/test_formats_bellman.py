"""bellman's encodings against py_ecc's of the same form, and what the decoder refuses."""

import pytest
from format_samples import FOLDERS
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc.bls.point_compression import compress_G1, compress_G2, decompress_G1, decompress_G2
from py_ecc.optimized_bls12_381 import FQ, FQ2, G1, G2, Z1, Z2, multiply, normalize

from prover.curves import BLS12_381, BN254
from prover.formats.bellman import (
    compress_g1,
    compress_g2,
    decode_proof,
    decode_verifying_key,
    decompress_g1,
    decompress_g2,
    encode_proof,
    encode_verifying_key,
    fp2_sqrt,
    read_compressed_proof,
    sqrt,
    write_compressed_proof,
)
from prover.formats.errors import FormatError
from prover.formats.points import (
    fp2_mul,
    g1_bytes,
    g1_from_bytes,
    g1_on_curve,
    g2_bytes,
    g2_from_bytes,
    g2_on_curve,
)
from prover.formats.proof import Proof
from prover.formats.proof_json import read_verification_key
from prover.formats.zkey import read_verifying_key

P = BLS12_381.fp.modulus
FOLDER = FOLDERS[BLS12_381] / "pow_255"
PROOF = (FOLDER / "proof192.bin").read_bytes()
VK = (FOLDER / "vk.bin").read_bytes()
scalars = st.integers(1, BLS12_381.fr.modulus - 1) | st.sampled_from([1, 2, BLS12_381.fr.modulus - 1])
few = settings(max_examples=12, deadline=None)


def g1_of(point):
    x, y = normalize(point)
    return int(x), int(y)


def g2_of(point):
    x, y = normalize(point)
    return tuple(map(int, x.coeffs)), tuple(map(int, y.coeffs))


@given(scalars)
@few
def test_compressed_g1_is_py_eccs(scalar):
    theirs = multiply(G1, scalar)
    encoded = compress_G1(theirs).to_bytes(48, "big")
    assert compress_g1(g1_of(theirs)) == encoded
    assert decompress_g1(encoded) == g1_of(theirs)
    assert g1_of(decompress_G1(int.from_bytes(compress_g1(g1_of(theirs)), "big"))) == g1_of(theirs)


@given(scalars)
@few
def test_compressed_g2_is_py_eccs(scalar):
    theirs = multiply(G2, scalar)
    encoded = b"".join(part.to_bytes(48, "big") for part in compress_G2(theirs))
    assert compress_g2(g2_of(theirs)) == encoded
    assert decompress_g2(encoded) == g2_of(theirs)
    assert g2_of(decompress_G2(compress_G2(theirs))) == decompress_g2(encoded)


def test_infinity_is_py_eccs():
    assert compress_g1(None) == compress_G1(Z1).to_bytes(48, "big")
    assert compress_g2(None) == b"".join(part.to_bytes(48, "big") for part in compress_G2(Z2))
    assert decompress_g1(compress_g1(None)) is None
    assert decompress_g2(compress_g2(None)) is None


def patched(data, at, value):
    return data[:at] + bytes([value]) + data[at + 1 :]


def big(value):
    return value.to_bytes(48, "big")


NO_X1 = next(x for x in range(100) if sqrt(P, (x**3 + 4) % P) is None)
REFUSED = [
    (PROOF[:-1], "191 bytes, a proof has 192: proof"),
    (PROOF + b"\0", "193 bytes, a proof has 192: proof"),
    (b"", "0 bytes, a proof has 192: proof"),
    (patched(PROOF, 0, PROOF[0] & 0x7F), "point is not compressed: proof, A, byte 0"),
    (patched(PROOF, 48, PROOF[48] & 0x7F), "point is not compressed: proof, B, byte 48"),
    (patched(PROOF, 144, PROOF[144] & 0x7F), "point is not compressed: proof, C, byte 144"),
    (patched(PROOF, 0, PROOF[0] | 0x40), "wrong flags of a point at infinity: proof, A, byte 0"),
    (compress_g1(None) + PROOF[48:], "point at infinity: proof, A, byte 0"),
    (PROOF[:48] + compress_g2(None) + PROOF[144:], "point at infinity: proof, B, byte 48"),
    (PROOF[:144] + compress_g1(None), "point at infinity: proof, C, byte 144"),
    (patched(compress_g1(None), 0, 0xE0) + PROOF[48:], "wrong flags of a point at infinity: proof, A, byte 0"),
    (patched(compress_g1(None), 47, 1) + PROOF[48:], "wrong flags of a point at infinity: proof, A, byte 0"),
    (patched(big(P), 0, big(P)[0] | 0x80) + PROOF[48:], "coordinate not below the field modulus: proof, A, byte 0"),
    (b"\x9f" + b"\xff" * 47 + PROOF[48:], "coordinate not below the field modulus: proof, A, byte 0"),
    (PROOF[:96] + big(P) + PROOF[144:], "coordinate not below the field modulus: proof, B, byte 48"),
    (patched(big(NO_X1), 0, 0x80) + PROOF[48:], "no point of the curve has this x: proof, A, byte 0"),
]


@pytest.mark.parametrize(("data", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_refused_proofs(data, expected):
    with pytest.raises(FormatError) as caught:
        decode_proof(data)
    assert str(caught.value) == f"{expected}: make or copy the file again"


def test_the_sign_bit_selects_the_root():
    proof = decode_proof(PROOF)
    negated = decode_proof(patched(patched(PROOF, 0, PROOF[0] ^ 0x20), 48, PROOF[48] ^ 0x20))
    assert negated.a == (proof.a[0], P - proof.a[1])
    assert negated.b == (proof.b[0], tuple(P - c for c in proof.b[1]))
    assert encode_proof(proof) == PROOF


@given(st.integers(0, 191), st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_gives_another_proof_or_is_refused(at, bit):
    flipped = patched(PROOF, at, PROOF[at] ^ 1 << bit)
    try:
        proof = decode_proof(flipped)
    except FormatError:
        return
    assert encode_proof(proof) == flipped


def test_files(tmp_path):
    proof = read_compressed_proof(FOLDER / "proof192.bin")
    write_compressed_proof(tmp_path / "p", proof)
    assert (tmp_path / "p").read_bytes() == PROOF
    with pytest.raises(FormatError, match="cannot read: No such file or directory"):
        read_compressed_proof(tmp_path / "none")
    (tmp_path / "long").write_bytes(PROOF * 2)
    with pytest.raises(FormatError, match="more than 192 bytes"):
        read_compressed_proof(tmp_path / "long")


def test_what_has_no_such_encoding():
    with pytest.raises(ValueError, match="bls12-381, not bn128"):
        encode_proof(Proof(BN254, BN254.g1, BN254.g2, BN254.g1))
    with pytest.raises(ValueError, match="beta_g1"):
        encode_verifying_key(read_verification_key(FOLDER / "verification_key.json"))


IC = 864
INFINITE = b"\x40" + bytes(95)
REFUSED_VK = [
    (VK[:-1], "file truncated: verifying key, ic[2], byte 1155"),
    (VK[:100], "file truncated: verifying key, beta_g1, byte 100"),
    (VK + b"\0", "1 bytes after the last point: verifying key, byte 1156"),
    (VK[:IC] + bytes(4), "0 points are not plausible: verifying key, ic, byte 864"),
    (VK[:IC] + b"\xff" * 4, "4294967295 points are not plausible: verifying key, ic, byte 864"),
    (patched(VK, 0, VK[0] | 0x80), "coordinate not below the field modulus: verifying key, alpha_g1, byte 0"),
    (INFINITE + VK[96:], "point at infinity: verifying key, alpha_g1, byte 0"),
    (patched(INFINITE, 95, 1) + VK[96:], "wrong flags: verifying key, alpha_g1, byte 0"),
    (big(P) + VK[48:], "coordinate not below the field modulus: verifying key, alpha_g1, byte 0"),
    (patched(VK, 95, VK[95] ^ 1), "point not on the curve: verifying key, alpha_g1, byte 0"),
    (patched(VK, 383, VK[383] ^ 1), "point not on the curve: verifying key, beta_g2, byte 192"),
]


@pytest.mark.parametrize(("data", "expected"), REFUSED_VK, ids=range(len(REFUSED_VK)))
def test_refused_verifying_keys(data, expected):
    with pytest.raises(FormatError) as caught:
        decode_verifying_key(data)
    assert str(caught.value) == f"{expected}: make or copy the file again"


def test_infinity_among_ic_is_taken():
    data = VK[: IC + 4] + INFINITE + VK[IC + 100 :]
    key = decode_verifying_key(data)
    assert key.ic[0] is None
    assert encode_verifying_key(key) == data


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda c: c.name)
def test_verifying_key_round_trip(curve):
    key = read_verifying_key(FOLDERS[curve] / "mix_8" / "circuit.zkey")
    assert decode_verifying_key(encode_verifying_key(key), curve=curve) == key


fp2 = st.tuples(*[st.integers(0, P - 1) | st.sampled_from([0, 1, P - 1])] * 2)


@given(fp2)
@settings(max_examples=60, deadline=None)
def test_square_roots_in_fp2(a):
    square = fp2_mul(P, a, a)
    assert FQ2(square) == FQ2(a) * FQ2(a)
    root = fp2_sqrt(P, square)
    assert root in (a, (-a[0] % P, -a[1] % P))
    other = fp2_sqrt(P, a)
    is_square = FQ2(a) ** ((P * P - 1) // 2) in (FQ2.one(), FQ2.zero())
    assert (other is not None) == is_square
    assert other is None or fp2_mul(P, other, other) == a


@given(st.integers(0, P - 1))
@settings(max_examples=30, deadline=None)
def test_square_roots_in_fp(a):
    assert sqrt(P, a * a % P) in (a, -a % P)
    assert (sqrt(P, a) is not None) == (FQ(a) ** ((P - 1) // 2) in (FQ.one(), FQ.zero()))


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda c: c.name)
def test_montgomery_bytes(curve):
    size = curve.fp.bytes
    assert g1_from_bytes(curve, g1_bytes(curve, curve.g1)) == curve.g1
    assert g2_from_bytes(curve, g2_bytes(curve, curve.g2)) == curve.g2
    assert g1_bytes(curve, None) == bytes(2 * size) and g1_from_bytes(curve, bytes(2 * size)) is None
    assert g2_bytes(curve, None) == bytes(4 * size) and g2_from_bytes(curve, bytes(4 * size)) is None
    one = curve.fp.r.to_bytes(size, "little")
    assert g1_bytes(curve, (1, 2))[:size] == one
    with pytest.raises(ValueError, match="not below the field modulus"):
        g1_from_bytes(curve, curve.fp.modulus.to_bytes(size, "little") + bytes(size))
    with pytest.raises(ValueError, match="was expected"):
        g2_from_bytes(curve, bytes(2 * size))


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda c: c.name)
def test_curve_equations(curve):
    (x, y), (x2, y2) = curve.g1, curve.g2
    assert g1_on_curve(curve, curve.g1) and g1_on_curve(curve, None) and not g1_on_curve(curve, (x, y + 1))
    assert g2_on_curve(curve, curve.g2) and g2_on_curve(curve, None)
    assert not g2_on_curve(curve, (x2, (y2[0], y2[1] ^ 1))) and not g2_on_curve(curve, (y2, x2))
