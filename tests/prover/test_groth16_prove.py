"""Proofs against the model with a known trapdoor: each point is the generator times the exponent the paper gives."""

import random
import threading

import groth16_files as files
import groth16_model as model
import pytest

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.curves import BLS12_381, BN254, CURVES
from prover.device import open_device
from prover.errors import InputError
from prover.field import pack, pack_points, unpack_points
from prover.formats.zkey import read_zkey, write_zkey
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Assignment, Blinding, ProvePlan, SlotProof, finish, start
from prover.groth16.setup import Trapdoor, setup
from prover.groth16.verify import Verifier
from prover.groth16.witness import assign

ENTROPY = b"tests"
BLINDING = Blinding(0x1234567890ABCDEF << 100, 0xFEDCBA0987654321 << 120)


def case(curve, n_constraints, n_public=2, seed=0):
    rng = random.Random(f"{curve.name} {n_constraints} {n_public} {seed}")
    circuit, values = model.sample(curve, rng, n_constraints, n_public, n_constraints + n_public + 3)
    key = ProvingKey.from_zkey(setup(files.system(circuit), entropy=ENTROPY))
    t = Trapdoor.draw(curve, circuit.log_n, ENTROPY)
    return circuit, values, key, model.Trapdoor(t.tau, t.alpha, t.beta, t.gamma, t.delta)


def prove(key, circuit, values, device, threads=1, blinding=BLINDING):
    assignment = assign(key, files.witness(circuit, values), device, threads)
    return finish(start(key, assignment, device, threads, blinding=blinding))


def times_generator(curve, group, exponent):
    base = pack_points([curve.g1 if group == 1 else curve.g2], curve, group)
    product = native.group_mul(curve, group, base, pack([exponent], curve.fr, "canonical"))
    return unpack_points(product, curve, group)[0]


def check_against_model(curve, n_constraints, n_public):
    circuit, values, key, secrets = case(curve, n_constraints, n_public)
    proof = prove(key, circuit, values, open_device("host", 1))
    a, b, c = model.prove(circuit, secrets, values, BLINDING.r, BLINDING.s)
    assert proof.a == times_generator(curve, 1, a)
    assert proof.b == times_generator(curve, 2, b)
    assert proof.c == times_generator(curve, 1, c)
    public = values[1 : n_public + 1]
    verifier = Verifier(key.verifying)
    assert verifier.verify(public, proof)
    if public:
        public[-1] = (public[-1] + 1) % circuit.r
        assert not verifier.verify(public, proof)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("n_constraints", range(1, 41))
def test_every_small_circuit(curve, n_constraints):
    check_against_model(curve, n_constraints, n_public=n_constraints % 4)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("constraints", [(), (({}, {}, {}),), (({0: 1}, {}, {}),), (({1: 1}, {0: 1}, {1: 1}),)])
@pytest.mark.parametrize(("n_public", "n_wires"), [(0, 2), (1, 2), (2, 5)])
def test_degenerate_circuits(curve, constraints, n_public, n_wires):
    circuit, values = model.Model(curve, n_wires, n_public, constraints), [1] + [5] * (n_wires - 1)
    key = ProvingKey.from_zkey(setup(files.system(circuit), entropy=ENTROPY))
    assert Verifier(key.verifying).verify(values[1 : n_public + 1], prove(key, circuit, values, open_device("host")))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("log_n", [6, 7, 8])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_around_powers_of_two(curve, log_n, beside):
    n_public = 2
    check_against_model(curve, (1 << log_n) - n_public - 1 + beside, n_public)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_same_blinding_gives_the_same_proof_on_every_variant_and_with_any_threads(curve):
    circuit, values, key, _ = case(curve, 70)
    active = native.cpu_variant()
    proofs = set()
    try:
        for variant in native.cpu_variants():
            native.select_variant(variant)
            for threads in (1, 2, 3, 7):
                proofs.add(prove(key, circuit, values, open_device("host", threads), threads))
    finally:
        native.select_variant(active)
    assert len(proofs) == 1


def test_random_blinding_makes_every_proof_another_one():
    circuit, values, key, _ = case(BN254, 5)
    device = open_device("host")
    proofs = [prove(key, circuit, values, device, blinding=None) for _ in range(3)]
    assert len({p.a for p in proofs}) == len({p.b for p in proofs}) == len({p.c for p in proofs}) == 3
    assert all(Verifier(key.verifying).verify(values[1:3], p) for p in proofs)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_given_c_and_implied_c_agree_and_short_vectors_are_padded(curve):
    circuit, values, key, _ = case(curve, 21)
    device = open_device("host")
    implied = assign(key, files.witness(circuit, values), device)
    rows = circuit.n_public + 1 + len(circuit.constraints)
    dots = []
    for which in range(3):
        dots.append([sum(v * values[w] for w, v in row[which].items()) % circuit.r for row in circuit.rows])
    a, b, c = (pack(dot, curve.fr) for dot in dots)
    assert len(a) == rows < key.domain_size
    given = Assignment(implied.witness, a, b, c)
    assert finish(start(key, given, device, blinding=BLINDING)) == finish(
        start(key, implied, device, blinding=BLINDING)
    )
    again = finish(start(key, given, device, blinding=BLINDING))
    assert again == finish(start(key, implied, device, blinding=BLINDING)), "an assignment is not consumed"


def test_slot_of_partitions_proves_each_and_releases_all_memory():
    circuit, values, key, _ = case(BLS12_381, 20)
    device = open_device("host")
    assignments = [assign(key, files.witness(circuit, values), device) for _ in range(3)]
    before = device.memory().used
    slot = SlotProof(key, assignments, device, threads=2)
    slot.setup()
    assert device.memory().used > before
    slot.h2d()
    slot.ntt()
    slot.msm()
    pending = slot.d2h()
    slot.release()
    slot.release()
    assert device.memory().used == before
    assert len(pending) == 3
    proofs = [finish(each) for each in pending]
    public = values[1:3]
    assert Verifier(key.verifying).verify_batch([(public, proof) for proof in proofs])
    assert slot.gpu_active_s is None
    with pytest.raises(RuntimeError, match="not set up, or was released"):
        slot.msm()


@pytest.mark.parametrize("step", ["ntt", "msm"])
def test_cancel_raises_and_frees_everything(step):
    circuit, values, key, _ = case(BLS12_381, 40)
    device = open_device("host")
    assignment = assign(key, files.witness(circuit, values), device)
    before = device.memory().used
    token = CancelToken()
    slot = SlotProof(key, [assignment], device, cancel=token)
    slot.setup()
    slot.h2d()
    if step == "msm":
        slot.ntt()
    token.cancel()
    with pytest.raises(Cancelled):
        getattr(slot, step)()
    slot.release()
    assert device.memory().used == before


def test_slots_prove_side_by_side_in_threads():
    circuit, values, key, _ = case(BN254, 30)
    device = open_device("host")
    proofs = []

    def one():
        proofs.append(prove(key, circuit, values, device))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(proofs) == 4
    assert len(set(proofs)) == 1


def test_what_does_not_fit_is_refused():
    circuit, values, key, _ = case(BN254, 6)
    device = open_device("host")
    good = assign(key, files.witness(circuit, values), device)
    short = Assignment(good.witness[:-1], good.a, good.b)
    with pytest.raises(InputError, match="witness of 10 values, the key wants 11"):
        SlotProof(key, [short], device)
    long = Assignment(good.witness, bytes(32 * (key.domain_size + 1)), good.b)
    with pytest.raises(InputError, match="a has 17 rows, the domain 16"):
        SlotProof(key, [long], device)


def test_a_wrong_witness_gives_a_proof_that_does_not_verify():
    circuit, values, key, _ = case(BLS12_381, 10)
    device = open_device("host")
    used = next(w for row in circuit.constraints for w in row[0] if w > circuit.n_public)
    values[used] = (values[used] + 1) % circuit.r
    assert not Verifier(key.verifying).verify(values[1:3], prove(key, circuit, values, device))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_a_key_is_the_same_after_the_file(curve, tmp_path):
    circuit, values, key, _ = case(curve, 11)
    write_zkey(tmp_path / "key.zkey", key.source)
    mapped = ProvingKey.from_zkey(read_zkey(tmp_path / "key.zkey"))
    assert mapped.verifying == key.verifying
    device = open_device("host")
    assert prove(mapped, circuit, values, device) == prove(key, circuit, values, device)


def test_the_plan_predicts_more_work_for_a_larger_key():
    device = open_device("host")
    small, large = (ProvePlan.build(case(BN254, n)[2], device.capability) for n in (10, 100))
    assert 0 < small.multiplications < large.multiplications
