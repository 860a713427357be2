from __future__ import annotations

import random

import numpy as np
import pytest
from circuit_oracle import interpret, unsatisfied_rows

from prover.cancel import Cancelled, CancelToken
from prover.circuits.circuit import Circuit, U64Array
from prover.circuits.merkle import MerkleShape, hash_nodes, merkle_circuit, random_inputs
from prover.circuits.poseidon import poseidon
from prover.curves import BLS12_381, BN254, CURVES, Curve
from prover.field import pack, unpack

P = BLS12_381.fr.modulus

SHAPES = [
    MerkleShape(BLS12_381, 2, 3, 2),
    MerkleShape(BLS12_381, 4, 2, 1),
    MerkleShape(BLS12_381, 8, 1, 3),
    MerkleShape(BN254, 2, 2, 1),
]
CIRCUITS = {shape: merkle_circuit(shape) for shape in SHAPES}
each_shape = pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda s: f"{s.curve.name}-{s.arity}-{s.depth}-{s.challenges}"
)


def witness_of(circuit: Circuit, inputs: U64Array) -> list[int]:
    return unpack(circuit.program.run(inputs), circuit.curve.fr, "canonical")


def climb(curve: Curve, arity: int, leaf: int, index: int, siblings: list[list[int]]) -> int:
    """The root of a path, by the hash's definition."""
    node = leaf
    for level in siblings:
        index, own = divmod(index, arity)
        node = poseidon(curve.fr, [*level[:own], node, *level[own:]])
    return node


def fields(shape: MerkleShape, circuit: Circuit, inputs: U64Array) -> dict[str, list[int]]:
    return {f.name: circuit.unpack(inputs, f.name) for f in circuit.inputs}


def paths(shape: MerkleShape, siblings: list[int]) -> list[list[list[int]]]:
    """Challenge, level, place."""
    table = np.array(siblings, dtype=object).reshape(shape.challenges, shape.depth, shape.arity - 1)
    result: list[list[list[int]]] = table.tolist()
    return result


@each_shape
def test_counts_need_no_matrices(shape: MerkleShape) -> None:
    circuit = CIRCUITS[shape]
    counted = (shape.n_constraints, shape.n_public, shape.n_variables)
    assert counted == (circuit.n_constraints, circuit.n_public, circuit.n_variables)


@pytest.mark.parametrize(("arity", "depth", "published"), [(2, 6, 1887), (4, 3, 1164), (8, 2, 1063)])
def test_published_proofs_of_inclusion(arity: int, depth: int, published: int) -> None:
    """Filecoin's proof of inclusion in a tree of 64 leaves has one constraint more: it allocates its root again."""
    assert MerkleShape(BLS12_381, arity, depth, 1).n_constraints + 1 == published


@each_shape
@pytest.mark.parametrize("seed", [0, 1])
def test_random_inputs_are_paths_of_one_tree(shape: MerkleShape, seed: int) -> None:
    circuit = CIRCUITS[shape]
    inputs = random_inputs(circuit, shape, seed)
    values = fields(shape, circuit, inputs)
    for leaf, index, path in zip(values["leaf"], values["index"], paths(shape, values["siblings"]), strict=True):
        assert 0 <= index < shape.arity**shape.depth
        assert [climb(shape.curve, shape.arity, leaf, index, path)] == values["root"]
    assert np.array_equal(random_inputs(circuit, shape, seed), inputs)
    assert not np.array_equal(random_inputs(circuit, shape, seed + 2), inputs)


def test_paths_that_meet_agree() -> None:
    """Four challenges in a tree of four leaves must share nodes."""
    shape = MerkleShape(BLS12_381, 2, 2, 4)
    circuit = merkle_circuit(shape)
    for seed in range(4):
        inputs = random_inputs(circuit, shape, seed)
        values = fields(shape, circuit, inputs)
        known = dict(zip(values["index"], values["leaf"], strict=True))
        for index, path in zip(values["index"], paths(shape, values["siblings"]), strict=True):
            assert known.get(index ^ 1, path[0][0]) == path[0][0]
        assert unsatisfied_rows(circuit, witness_of(circuit, inputs)) == []


@each_shape
def test_satisfied(shape: MerkleShape) -> None:
    circuit = CIRCUITS[shape]
    inputs = random_inputs(circuit, shape, 5)
    witness = witness_of(circuit, inputs)
    assert unsatisfied_rows(circuit, witness) == []
    assert witness == interpret(circuit.program, unpack(inputs, shape.curve.fr, "canonical"))
    public = unpack(circuit.public_inputs(inputs), shape.curve.fr, "canonical")
    assert witness[: circuit.n_public + 1] == [1, *public]
    assert public == [*circuit.unpack(inputs, "root"), *circuit.unpack(inputs, "index")]


@each_shape
@pytest.mark.parametrize("value", [0, 1, -1])
@pytest.mark.parametrize("last", [False, True])
def test_edge_values_in_every_place(shape: MerkleShape, value: int, last: bool) -> None:
    value %= shape.curve.fr.modulus
    circuit, n = CIRCUITS[shape], shape.challenges
    path = [[value] * (shape.arity - 1)] * shape.depth
    index = shape.arity**shape.depth - 1 if last else 0
    root = climb(shape.curve, shape.arity, value, index, path)
    inputs = circuit.pack_inputs(root=[root], index=[index] * n, leaf=[value] * n, siblings=[path] * n)
    assert unsatisfied_rows(circuit, witness_of(circuit, inputs)) == []


@each_shape
@pytest.mark.parametrize("name", ["root", "leaf", "siblings", "index"])
def test_a_wrong_input_fails_where_it_must(shape: MerkleShape, name: str) -> None:
    """The root of each challenge that the value belongs to, and nothing else (a position may also fail in its bits)."""
    circuit, rng = CIRCUITS[shape], random.Random(name)
    right = random_inputs(circuit, shape, 9)
    field = circuit.field(name)
    for _ in range(4):
        at = rng.randrange(field.count)
        wrong = right.copy()
        value = unpack(wrong[field.offset + at], shape.curve.fr, "canonical")[0]
        change = (value + 1) % shape.curve.fr.modulus if name != "index" else value ^ 1
        wrong[field.offset + at] = pack([change], shape.curve.fr, "canonical")[0]
        rows = unsatisfied_rows(circuit, witness_of(circuit, wrong))
        per_challenge = field.count // shape.challenges
        challenges = range(shape.challenges) if name == "root" else [at // per_challenge]
        assert rows == [(i + 1) * shape.path_constraints - 1 for i in challenges]
        assert all(circuit.gadget(row).endswith("/ root") for row in rows)


@each_shape
@pytest.mark.parametrize("beyond", [0, 5, -1])
def test_a_position_outside_the_tree_does_not_fit_its_bits(shape: MerkleShape, beyond: int) -> None:
    circuit = CIRCUITS[shape]
    inputs = random_inputs(circuit, shape, 1)
    limit = shape.arity**shape.depth
    value = limit * 2 + beyond if beyond >= 0 else shape.curve.fr.modulus - 1
    inputs[circuit.field("index").offset] = pack([value], shape.curve.fr, "canonical")[0]
    rows = unsatisfied_rows(circuit, witness_of(circuit, inputs))
    assert rows[0] == shape.index_bits
    assert circuit.gadget(rows[0]).endswith("/ index")


def test_the_matrices_do_not_depend_on_inputs_or_names() -> None:
    shape = SHAPES[0]
    before = CIRCUITS[shape].digest
    random_inputs(CIRCUITS[shape], shape, 3)
    again = merkle_circuit(shape, "another name")
    assert again.digest == before
    assert len({circuit.digest for circuit in CIRCUITS.values()}) == len(CIRCUITS)


def test_digests_are_stable() -> None:
    """Cached keys are found by these: a change here throws every user's keys away, so it must be meant."""
    assert CIRCUITS[SHAPES[0]].digest == "c8d9f0e77698d199294992a1a57b4c3a76ac72532409047c454e3ea7e2b8a7e4"
    assert CIRCUITS[SHAPES[3]].digest == "2a666924237a76dd3ff9a710b9f63fd75985d8f25bddcb3cf3958ad33079251b"


@pytest.mark.parametrize("arity", [2, 4, 8])
@pytest.mark.parametrize("count", [1, 3])
def test_native_hashes(arity: int, count: int) -> None:
    rng = random.Random(arity)
    for curve in CURVES:
        children = [[rng.randrange(curve.fr.modulus) for _ in range(arity)] for _ in range(count)]
        packed = pack([x for family in children for x in family], curve.fr, "canonical").reshape(count, arity, 4)
        hashed = unpack(hash_nodes(curve, packed), curve.fr, "canonical")
        assert hashed == [poseidon(curve.fr, family) for family in children]


def test_hashing_can_be_cancelled() -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        hash_nodes(BLS12_381, np.zeros((1, 2, 4), np.uint64), token)


@pytest.mark.parametrize(("arity", "depth", "challenges"), [(3, 1, 1), (2, 0, 1), (2, 1, 0), (2, 255, 1), (8, 85, 1)])
def test_impossible_shapes(arity: int, depth: int, challenges: int) -> None:
    with pytest.raises(ValueError, match=r"arity 3|no tree"):
        MerkleShape(BLS12_381, arity, depth, challenges)
