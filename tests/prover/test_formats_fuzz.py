"""Any bytes whatever: a reader returns a valid object or raises one clear line, and takes little memory for it."""

import contextlib
import resource
import struct
from pathlib import Path

import pytest
from format_samples import CASES, dense_rows, random_csr, write_small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover.curves import BLS12_381, BN254, CURVES
from prover.formats.bellman import read_compressed_proof, read_verifying_key, write_verifying_key
from prover.formats.errors import FormatError
from prover.formats.proof_json import read_proof, read_public, read_verification_key
from prover.formats.r1cs import R1cs, read_r1cs, write_r1cs
from prover.formats.wtns import read_wtns
from prover.formats.zkey import read_zkey

READERS = {
    "zkey": read_zkey,
    "wtns": read_wtns,
    "r1cs": read_r1cs,
    "proof": read_proof,
    "vkey": read_verification_key,
    "public": lambda path: read_public(path, BN254, 9),
    "proof192": read_compressed_proof,
    "vk": read_verifying_key,
}
EXTREME = (0, 1, 2, 3, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
ROOM = 256 << 20
FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextlib.contextmanager
def little_memory():
    """The address space may grow by ROOM; an allocation that a file only claims would be refused."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Samples(dict):
    """A short representation in Hypothesis's reports."""

    def __repr__(self):
        return "samples"


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    out = Samples()
    for curve in CURVES:
        for kind, path in write_small(folder, curve).items():
            out[kind, curve.name] = path.read_bytes()
    for curve, case in CASES:
        if case.name == "mix_8":
            out["proof", curve.name] = (case / "proof.json").read_bytes()
            out["vkey", curve.name] = (case / "verification_key.json").read_bytes()
            out["public", curve.name] = (case / "public.json").read_bytes()
    bls = next(case for curve, case in CASES if curve is BLS12_381)
    out["proof192", "bls12-381"] = (bls / "proof192.bin").read_bytes()
    key = read_zkey(bls / "circuit.zkey").verifying_key()
    write_verifying_key(folder / "vk.bin", key)
    out["vk", "bls12-381"] = (folder / "vk.bin").read_bytes()
    return out


def attempt(kind, path):
    """Read; an error must be one line that names the file."""
    try:
        with little_memory():
            READERS[kind](path)
    except FormatError as error:
        text = str(error)
        assert "\n" not in text and text.isprintable()
        assert path.name in text
        assert text.count(": ") >= 2, text
        assert error.exit_code == 2
        return text
    return None


@st.composite
def damage(draw, size):
    """A function of bytes."""
    at = draw(st.integers(0, size))
    kind = draw(st.sampled_from(["cut", "flip", "word", "long", "insert", "delete", "repeat", "append"]))
    if kind == "cut":
        return lambda d: d[:at]
    if kind == "flip":
        bit = draw(st.integers(0, 7))
        return lambda d: d[:at] + bytes([d[at] ^ (1 << bit)]) + d[at + 1 :] if at < len(d) else d
    if kind in ("word", "long"):
        length = 4 if kind == "word" else 8
        value = draw(st.sampled_from(EXTREME) | st.integers(0, 2**32 - 1)) * (1 if kind == "word" else 0x100000001)
        place = at - at % 4
        return lambda d: d[:place] + value.to_bytes(length, "little")[: len(d) - place] + d[place + length :]
    length = draw(st.integers(1, 64))
    if kind == "insert":
        extra = draw(st.binary(min_size=length, max_size=length))
        return lambda d: d[:at] + extra + d[at:]
    if kind == "delete":
        return lambda d: d[:at] + d[at + length :]
    if kind == "repeat":
        return lambda d: d[: at + length] + d[at:]
    return lambda d: d + bytes(length)


@pytest.mark.parametrize("curve", ["bn254", "bls12-381"])
@pytest.mark.parametrize("kind", ["zkey", "wtns", "r1cs", "proof", "vkey", "public"])
@given(data=st.data())
@FUZZ
def test_damaged_files(samples, tmp_path, kind, curve, data):
    original = samples[kind, curve]
    broken = original
    for _ in range(data.draw(st.integers(1, 2))):
        broken = data.draw(damage(len(original)))(broken)
    path = tmp_path / f"broken.{kind}"
    path.write_bytes(broken)
    attempt(kind, path)


@pytest.mark.parametrize("kind", ["proof192", "vk"])
@given(data=st.data())
@FUZZ
def test_damaged_bellman_files(samples, tmp_path, kind, data):
    original = samples[kind, "bls12-381"]
    path = tmp_path / f"broken.{kind}"
    path.write_bytes(data.draw(damage(len(original)))(original))
    attempt(kind, path)


@pytest.mark.parametrize("curve", ["bn254", "bls12-381"])
@pytest.mark.parametrize("kind", ["zkey", "wtns", "r1cs"])
def test_every_truncation_is_refused(samples, tmp_path, kind, curve):
    original = samples[kind, curve]
    assert attempt_bytes(tmp_path, kind, original) is None
    for size in range(len(original)):
        assert attempt_bytes(tmp_path, kind, original[:size]), size


@pytest.mark.parametrize("kind", ["zkey", "wtns", "r1cs"])
def test_truncation_at_every_section_boundary_says_so(samples, tmp_path, kind):
    original = samples[kind, "bn254"]
    position, count = 12, struct.unpack_from("<I", original, 8)[0]
    for _ in range(count):
        for cut in (position, position + 4, position + 12):
            assert "truncated" in attempt_bytes(tmp_path, kind, original[:cut])
        position += 12 + struct.unpack_from("<Q", original, position + 4)[0]
    assert position == len(original)


@pytest.mark.parametrize("kind", ["zkey", "wtns", "r1cs"])
@pytest.mark.parametrize("value", EXTREME)
def test_every_word_of_the_headers_with_absurd_values(samples, tmp_path, kind, value):
    original = samples[kind, "bls12-381"]
    for at in range(0, min(len(original) - 4, 300), 4):
        attempt_bytes(tmp_path, kind, original[:at] + value.to_bytes(4, "little") + original[at + 4 :])


@pytest.mark.parametrize("kind", list(READERS))
@given(content=st.binary(max_size=300))
@settings(FUZZ, max_examples=60)
def test_arbitrary_bytes(tmp_path, kind, content):
    assert attempt_bytes(tmp_path, kind, content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["0", "1", "-1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("kind", ["proof", "vkey"])
@given(data=st.data())
@FUZZ
def test_json_of_any_shape(samples, tmp_path, kind, data):
    import json

    document = json.loads(samples[kind, "bn254"])
    holder = document
    field = data.draw(st.sampled_from(sorted(document)))
    while isinstance(holder[field], list) and holder[field] and data.draw(st.booleans()):
        holder, field = holder[field], data.draw(st.integers(0, len(holder[field]) - 1))
    holder[field] = data.draw(JSON)
    attempt_bytes(tmp_path, kind, json.dumps(document).encode())


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@given(shape=st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(0, 10**6)))
@settings(FUZZ, max_examples=60)
def test_r1cs_round_trip(tmp_path, curve, shape):
    n_rows, n_wires, seed = shape
    matrices = [random_csr(curve, n_rows, n_wires, seed + i) for i in range(3)]
    original = R1cs(curve, n_wires, min(1, n_wires - 1), 0, 0, *matrices)
    write_r1cs(tmp_path / "a.r1cs", original)
    again = read_r1cs(tmp_path / "a.r1cs")
    assert (again.n_wires, again.n_outputs, again.n_constraints) == (n_wires, original.n_outputs, n_rows)
    for before, after in zip(matrices, (again.a, again.b, again.c), strict=True):
        assert dense_rows(curve, before) == dense_rows(curve, after)


def attempt_bytes(folder, kind, content):
    path = folder / f"broken.{kind}"
    path.write_bytes(content)
    return attempt(kind, path)
