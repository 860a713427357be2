"""Workloads as the engine uses them, and the cache of keys under corruption, staleness and company."""

import dataclasses
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from prover.cancel import Cancelled, CancelToken
from prover.circuits.builtin import builtin
from prover.curves import CURVES
from prover.device import open_device
from prover.errors import InputError
from prover.formats.zkey import write_zkey
from prover.groth16 import key_cache
from prover.groth16.checked_keys import CheckedKeys, cache_root, check_key, digest
from prover.groth16.key_cache import KeyCache
from prover.groth16.keys import ProvingKey
from prover.groth16.workload import CircuitWorkload, WitnessFiles

FIXTURES = Path(__file__).parent.parent / "fixtures" / "snark"
NAME = "poseidon-merkle-10"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def workload(cache):
    return CircuitWorkload.open(builtin(NAME), threads=2, cache=cache)


def run_slot(workload, inputs, partitions, device):
    token = CancelToken()
    synthesis = workload.synthesize(inputs, partitions, 1, token)
    slot = workload.prover(synthesis, device, 1, token)
    try:
        for step in (slot.setup, slot.h2d, slot.ntt, slot.msm):
            step()
        return workload.finish(slot.d2h())
    finally:
        slot.release()


def test_partitions_of_a_job_prove_and_verify(workload):
    device = open_device("host")
    inputs = workload.sample_inputs(0, 3)
    assert workload.constraints == builtin(NAME).n_constraints
    first = run_slot(workload, inputs, [0, 1], device)
    second = run_slot(workload, inputs, [2], device)
    assert [len(proof) for proof in first + second] == [192] * 3
    assert workload.verify(inputs, [0, 1, 2], first + second)
    assert workload.verify(inputs, [2], second)
    assert not workload.verify(inputs, [1, 0], first), "proofs belong to their partitions"
    assert device.memory().used == 0


def test_the_public_inputs_are_the_circuits_first_variables(workload):
    inputs = workload.sample_inputs(0, 2)
    witness = workload.synthesize(inputs, [1], 1, CancelToken())[0].witness
    n_public = workload.key.n_public
    public = [int.from_bytes(row.tobytes(), "little") for row in np.asarray(witness)[1 : n_public + 1]]
    assert workload.public_inputs(inputs, 1) == public


def test_inputs_of_a_job_do_not_depend_on_what_was_asked_for_before(workload, cache):
    before = workload.sample_inputs(3, 2)
    workload.sample_inputs(0, 6)
    other = CircuitWorkload.open(builtin(NAME), threads=2, cache=cache)
    for again in (workload.sample_inputs(3, 2), other.sample_inputs(3, 2)):
        assert [one.tobytes() for one in again] == [one.tobytes() for one in before]


def test_jobs_draw_different_inputs(workload):
    a, b = workload.sample_inputs(0, 4), workload.sample_inputs(1, 4)
    assert np.array_equal(a[1], b[0])
    assert not np.array_equal(a[0], b[0])


def test_inputs_without_a_witness_fail_in_synthesis(workload):
    inputs = [array.copy() for array in workload.sample_inputs(0, 1)]
    inputs[0][0, 0] ^= np.uint64(1)
    with pytest.raises(InputError) as caught:
        workload.synthesize(inputs, [0], 1, CancelToken())
    assert "\n" not in str(caught.value)


def test_cancelled_synthesis_raises(workload):
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        workload.synthesize(workload.sample_inputs(0, 1), [0], 1, token)


def test_a_cached_key_is_taken_and_a_spoilt_one_made_again(workload, cache, monkeypatch):
    made = []
    original = key_cache.write_zkey
    monkeypatch.setattr(key_cache, "write_zkey", lambda path, zkey: (made.append(path), original(path, zkey)))
    path = Path(workload.key.source.path)

    def reopened():
        made.clear()
        again = CircuitWorkload.open(builtin(NAME), threads=2, cache=cache)
        device = open_device("host")
        inputs = again.sample_inputs(0, 1)
        assert again.verify(inputs, [0], run_slot(again, inputs, [0], device))
        return len(made)

    assert reopened() == 0
    whole = path.read_bytes()
    for spoilt in (
        whole[:-1],
        whole[: len(whole) // 2],
        b"",
        whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:],
        whole + b"x",
    ):
        replacement = path.with_name("spoilt")
        replacement.write_bytes(spoilt)
        replacement.replace(path)  # never into the file: the workload of this module maps it
        assert reopened() == 1
    path.unlink()
    assert reopened() == 1
    path.with_suffix(".digest").write_text("0" * 64)
    assert reopened() == 1
    path.with_suffix(".digest").unlink()
    assert reopened() == 1
    assert not [p for p in path.parent.iterdir() if p.name.startswith(".")]


def test_one_process_makes_a_key_and_the_others_take_it(workload, tmp_path):
    made, keys = [], []
    entered, go = threading.Event(), threading.Event()

    def make():
        made.append(1)
        entered.set()
        assert go.wait(20)
        return workload.key.source

    told = threading.Event()

    def obtain():
        keys.append(KeyCache(tmp_path).obtain("circuit", make, progress=lambda what, share: told.set()))

    threads = [threading.Thread(target=obtain) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert entered.wait(20)
    assert told.wait(20), "who waits says so"
    go.set()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len({key.path for key in keys}) == 1
    assert len(keys) == 3


def test_waiting_for_another_process_can_be_cancelled(workload, tmp_path):
    token = CancelToken()
    inside = threading.Event()

    def make():
        inside.set()
        with pytest.raises(Cancelled):
            KeyCache(tmp_path).obtain("circuit", lambda: None, progress=lambda *_: token.cancel(), cancel=token)
        return workload.key.source

    KeyCache(tmp_path).obtain("circuit", make)
    assert inside.is_set()


def test_a_failing_setup_leaves_no_key_and_no_lock(workload, tmp_path):
    def fail():
        raise Cancelled("setup")

    with pytest.raises(Cancelled):
        KeyCache(tmp_path).obtain("circuit", fail)
    assert KeyCache(tmp_path).find("circuit") is None
    assert KeyCache(tmp_path).obtain("circuit", lambda: workload.key.source).n_vars == workload.key.n_wires


def key_file(workload, path, **changes):
    write_zkey(path, dataclasses.replace(workload.key.source, **changes))
    return WitnessFiles.open(path, cache=path.parent / "cache").key


def test_a_checked_key_is_remembered_by_its_bytes(workload, tmp_path, monkeypatch):
    checks = []
    original = ProvingKey.check_combined
    monkeypatch.setattr(ProvingKey, "check_combined", lambda *a: (checks.append(1), original(*a)))
    key = key_file(workload, tmp_path / "a.zkey")
    assert digest(key.source.data) in CheckedKeys(tmp_path / "cache")
    key_file(workload, tmp_path / "copy.zkey")
    assert checks == [1]
    spoilt = tmp_path / "cache" / "keys" / "checked" / digest(key.source.data)
    spoilt.write_bytes(b"")
    key_file(workload, tmp_path / "copy.zkey")
    assert checks == [1, 1]


def test_keys_with_bad_points_are_refused_by_name(workload, tmp_path):
    g1 = np.array(workload.key.a).copy()
    g1[3, 0] ^= np.uint64(1)
    with pytest.raises(InputError, match=r"A query: point 3 is not on the curve: .*bad\.zkey"):
        key_file(workload, tmp_path / "bad.zkey", a_query=g1)
    with pytest.raises(InputError, match="L query: a point is not in the subgroup"):
        key_file(workload, tmp_path / "stray.zkey", l_query=with_stray(workload, workload.key.l, 5))
    key = ProvingKey.from_zkey(
        dataclasses.replace(workload.key.source, h_query=with_stray(workload, workload.key.h, 7))
    )
    with pytest.raises(InputError, match="H query: point 7 is not in the subgroup"):
        check_key(key, each=True, checked=CheckedKeys(tmp_path))


def with_stray(workload, query, index):
    """A query with a point on the curve and outside the subgroup in one place."""
    curve = workload.key.curve
    p, x = curve.fp.modulus, 1
    while True:
        y = pow((x**3 + curve.b) % p, (p + 1) // 4, p)
        if y * y % p == (x**3 + curve.b) % p:
            break
        x += 1
    out = np.array(query).copy()
    encoded = b"".join(curve.fp.to_montgomery(c).to_bytes(curve.fp.bytes, "little") for c in (x, y))
    out[index] = np.frombuffer(encoded, dtype=np.uint64)
    return out


def test_witness_files_prove(tmp_path):
    folder = FIXTURES / "bn128" / "mix_8"
    workload = WitnessFiles.open(folder / "circuit.zkey", threads=2, cache=tmp_path)
    inputs = [folder / "witness.wtns"] * 2
    device = open_device("host")
    proofs = run_slot(workload, inputs, [0, 1], device)
    assert [len(proof) for proof in proofs] == [256, 256]
    assert workload.verify(inputs, [0, 1], proofs)
    with pytest.raises(InputError, match="the key wants"):
        workload.synthesize([FIXTURES / "bn128" / "pow_255" / "witness.wtns"], [0], 1, CancelToken())
    with pytest.raises(InputError, match="witness over bls12-381"):
        workload.synthesize([FIXTURES / "bls12-381" / "mix_8" / "witness.wtns"], [0], 1, CancelToken())


def test_the_cache_lies_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    assert cache_root() == os.fspath(tmp_path / "cuzk-top")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == os.fspath(Path.home() / ".cache" / "cuzk-top")


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_sums_of_a_broken_device_make_no_proof_that_verifies_and_raise_nothing(cache, curve):
    """Garbage that is no point, a point of another proof, no point at all: each is a bad proof, not a failure."""
    made = CircuitWorkload.open(builtin(NAME, curve), threads=2, cache=cache)
    inputs, token, device = made.sample_inputs(0, 2), CancelToken(), open_device("host")
    slot = made.prover(made.synthesize(inputs, [0, 1], 1, token), device, 1, token)
    for step in (slot.setup, slot.h2d, slot.ntt, slot.msm):
        step()
    one, other = slot.d2h()
    slot.release()
    assert made.verify(inputs, [0, 1], made.finish([one, other]))
    for name in ("a", "b_g2", "l", "h"):
        sound = getattr(one.sums, name)
        for broken in (sound[::-1], bytes(len(sound)), getattr(other.sums, name)):
            bad = dataclasses.replace(one, sums=dataclasses.replace(one.sums, **{name: broken}))
            proofs = made.finish([bad, other])
            assert not made.verify(inputs, [0, 1], proofs), (name, broken)
            assert made.verify(inputs, [1], proofs[1:])


def test_bytes_that_this_process_did_not_make_are_decoded(workload):
    """What came from a journal, or was altered on its way."""
    inputs = workload.sample_inputs(0, 1)
    (proof,) = run_slot(workload, inputs, [0], open_device("host"))
    for altered in (proof[:-1] + bytes([proof[-1] ^ 1]), bytes([proof[0] ^ 0x20]) + proof[1:], proof[:-1], b""):
        assert not workload.verify(inputs, [0], [altered])
    workload._made._proofs.clear()
    assert workload.verify(inputs, [0], [proof])
