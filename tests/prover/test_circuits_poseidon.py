from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import interpret, unsatisfied_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.circuits.builder import Builder
from prover.circuits.circuit import Circuit
from prover.circuits.poseidon import merkle_tag, permute, poseidon, poseidon_constraints, poseidon_gadget
from prover.circuits.poseidon_parameters import cauchy_matrix, poseidon_parameters, round_constants, round_numbers
from prover.curves import BLS12_381, CURVES, Curve
from prover.field import unpack

P = BLS12_381.fr.modulus

# Filecoin's published hashes of 0, 1, 2, ... arity-1, as least significant 64-bit limbs first.
PUBLISHED = {
    2: (0x2E203C369A02E7FF, 0xA6FBA9339D05A69D, 0x739E0FD902EFE161, 0x396508D75E76A56B),
    4: (0x019814FF6662075D, 0xFB6B4605BF1327EC, 0x00DB3C6579229399, 0x58A54B10A9E5848A),
    8: (0x2A9934F56D38A5E6, 0x4B682E9D9CC4AED9, 0x1201004211677077, 0x2394611DA3A5DE55),
    11: (0xCEE3BBC32B693163, 0x09F3DCD8CCB08FC1, 0x6CA537E232EBE87A, 0x0C0FC1B2E5227F28),
    16: (0x1291C74060266D37, 0x5B8DBC6D30680A6F, 0xC1C2FB5A6F871E63, 0x2D3AE2663381AE8A),
}


@pytest.mark.parametrize("arity", PUBLISHED)
def test_published_hashes(arity: int) -> None:
    expected = sum(limb << 64 * i for i, limb in enumerate(PUBLISHED[arity]))
    assert poseidon(BLS12_381.fr, list(range(arity))) == expected


@pytest.mark.parametrize(
    ("arity", "partial"), [(1, 55), (2, 55), (4, 56), (8, 57), (11, 57), (16, 59), (24, 59), (36, 60)]
)
@pytest.mark.parametrize("bits", [254, 255])
def test_published_round_numbers(arity: int, partial: int, bits: int) -> None:
    assert round_numbers(bits, arity + 1) == (8, partial)


def test_published_tag() -> None:
    assert merkle_tag(8) == 0xFF


def test_the_matrix_is_mds() -> None:
    """Every square submatrix is regular (width 4: all of them)."""
    from itertools import combinations

    def determinant(m: list[list[int]]) -> int:
        if len(m) == 1:
            return m[0][0]
        minors = ([row[:j] + row[j + 1 :] for row in m[1:]] for j in range(len(m)))
        return sum((-1) ** j * m[0][j] * determinant(minor) for j, minor in enumerate(minors)) % P

    matrix = cauchy_matrix(P, 4)
    for size in range(1, 5):
        for rows in combinations(range(4), size):
            for columns in combinations(range(4), size):
                assert determinant([[matrix[i][j] for j in columns] for i in rows])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_constants_depend_on_the_instance(curve: Curve) -> None:
    a, b = round_constants(curve.fr, 3, 8, 55), round_constants(curve.fr, 3, 8, 56)
    assert len(a) == 63
    assert {len(row) for row in a} == {3}
    assert all(0 <= x < curve.fr.modulus for row in a for x in row)
    assert a[0] != b[0]


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("arity", [1, 2, 4])
def test_the_sparse_form_is_the_same_permutation(curve: Curve, arity: int) -> None:
    """The partial rounds once by their definition and once through the sparse matrices, outside any circuit."""
    parameters = poseidon_parameters(curve.fr, arity)
    p, half = curve.fr.modulus, parameters.full // 2
    state = [pow(7, i + 1, p) for i in range(arity + 1)]  # behind the S-boxes of the last full round before
    plain = [sum(m * x for m, x in zip(row, state, strict=True)) % p for row in parameters.mds]
    for constants in parameters.constants[half : half + parameters.partial]:
        plain = [(x + c) % p for x, c in zip(plain, constants, strict=True)]
        plain[0] = pow(plain[0], 5, p)
        plain = [sum(m * x for m, x in zip(row, plain, strict=True)) % p for row in parameters.mds]
    plain = [(x + c) % p for x, c in zip(plain, parameters.constants[half + parameters.partial], strict=True)]
    sparse = [sum(m * x for m, x in zip(row, state, strict=True)) % p for row in parameters.dense]
    for layer in parameters.sparse:
        head = pow(sparse[0] + layer.constant, 5, p)
        first = sum(m * x for m, x in zip(layer.row, [head, *sparse[1:]], strict=True)) % p
        sparse = [first, *((x + c * head) % p for x, c in zip(sparse[1:], layer.column, strict=True))]
    assert [(x + c) % p for x, c in zip(sparse, parameters.residue, strict=True)] == plain


def hash_circuit(curve: Curve, arity: int) -> tuple[Circuit, int]:
    builder = Builder(curve)
    digest = poseidon_gadget(builder, [builder.variable(i) for i in builder.inputs("x", (arity,))])
    circuit = builder.finish("hash")
    return circuit, int(builder.columns(np.array([digest.variable]))[0])


CIRCUITS = {(curve, arity): hash_circuit(curve, arity) for curve in CURVES for arity in (1, 2, 4, 8, 11)}


@pytest.mark.parametrize(("arity", "published"), [(2, 311), (4, 377), (8, 505), (11, 598)])
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_published_constraint_counts(curve: Curve, arity: int, published: int) -> None:
    circuit, _ = CIRCUITS[curve, arity]
    assert circuit.n_constraints == poseidon_constraints(curve.fr, arity) == published
    assert circuit.n_variables == 1 + arity + published  # each constraint defines one variable


@pytest.mark.parametrize(("curve", "arity"), CIRCUITS, ids=str)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_the_gadget_computes_the_permutation(curve: Curve, arity: int, data: st.DataObject) -> None:
    p = curve.fr.modulus
    element = st.sampled_from([0, 1, p - 1]) | st.integers(0, p - 1)
    x = data.draw(st.lists(element, min_size=arity, max_size=arity))
    circuit, digest = CIRCUITS[curve, arity]
    witness = unpack(circuit.program.run(circuit.pack_inputs(x=x)), curve.fr, "canonical")
    assert witness[digest] == poseidon(curve.fr, x)
    assert unsatisfied_rows(circuit, witness) == []


@pytest.mark.parametrize("arity", [2, 8])
def test_native_and_interpreted_witness(arity: int) -> None:
    circuit, _ = CIRCUITS[BLS12_381, arity]
    x = list(range(arity))
    witness = unpack(circuit.program.run(circuit.pack_inputs(x=x)), BLS12_381.fr, "canonical")
    assert witness == interpret(circuit.program, x)


def test_every_variable_is_pinned() -> None:
    """No variable can change alone: each stands in a constraint that then fails."""
    circuit, _ = CIRCUITS[BLS12_381, 2]
    witness = unpack(circuit.program.run(circuit.pack_inputs(x=[3, P - 4])), BLS12_381.fr, "canonical")
    for i in range(1, circuit.n_variables, 7):
        changed = [*witness]
        changed[i] = (changed[i] + 1) % P
        assert unsatisfied_rows(circuit, changed)


def test_expressions_as_inputs_cost_their_allocation() -> None:
    builder = Builder(BLS12_381)
    x = builder.input("x")
    digest = poseidon_gadget(builder, [x, x * 2 + 1])
    circuit = builder.finish("hash")
    assert circuit.n_constraints == 312
    witness = unpack(circuit.program.run(circuit.pack_inputs(x=9)), BLS12_381.fr, "canonical")
    assert witness[int(builder.columns(np.array([digest.variable]))[0])] == poseidon(BLS12_381.fr, [9, 19])
    assert unsatisfied_rows(circuit, witness) == []


def test_the_digest_is_element_one_of_the_permutation() -> None:
    parameters = poseidon_parameters(BLS12_381.fr, 2)
    assert permute(parameters, [3, 10, 20])[1] == poseidon(BLS12_381.fr, [10, 20])
