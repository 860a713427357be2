"""Products and sparse products on the GPU: the same bytes as the host's, rows of every length."""

import random

import numpy as np
import pytest
from emulated_gpu import KINDS, cuda_device, emulated
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.csr import CsrMatrix, coefficient_table
from prover.curves import BLS12_381, BN254
from prover.device.host import HostDevice
from prover.device.values import Step
from prover.field import pack, unpack
from prover.spmv import SpmvPlan

CURVES = pytest.mark.parametrize("curve", [BLS12_381, BN254], ids=lambda c: c.name)


def edges(field):
    return [0, 1, 2, field.modulus - 1, field.modulus - 2, field.r, field.r2, (field.modulus + 1) // 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("canonical", [False, True])
@CURVES
def test_mul_sub(kind, curve, canonical):
    device, field = cuda_device(kind), curve.fr
    some = edges(field)
    triples = [(a, b, c) for a in some for b in some for c in some[:5]]
    rng = random.Random(1)
    triples += [tuple(rng.randrange(field.modulus) for _ in range(3)) for _ in range(57)]
    stream = device.stream("test")
    a, b, c = (device.upload(pack(values, field), stream) for values in zip(*triples, strict=True))
    for out in (device.empty(len(triples), 4, stream), a):
        arguments = {"curve": curve, "a": a, "b": b, "c": c, "out": out, "canonical_out": canonical}
        device.run(Step("mul_sub", arguments), stream)
        got = unpack(
            np.frombuffer(device.download(out, stream), np.uint64), field, "canonical" if canonical else "montgomery"
        )
        assert got == [(x * y - z) % field.modulus for x, y, z in triples]


def test_mul_sub_of_nothing_and_of_other_lengths():
    device = emulated()
    stream = device.stream("test")
    empty = device.empty(0, 4, stream)
    arguments = {"curve": BN254, "a": empty, "b": empty, "c": empty, "out": empty, "canonical_out": True}
    device.run(Step("mul_sub", arguments), stream)
    with pytest.raises(ValueError, match="b has 32 bytes, a has 0"):
        device.run(Step("mul_sub", arguments | {"b": device.empty(1, 4, stream)}), stream)


def matrix_of(curve, lengths, columns, seed):
    """Rows of these lengths; half of the coefficients +1 or -1."""
    rng = random.Random(seed)
    table = coefficient_table(curve.fr, [rng.randrange(curve.fr.modulus) for _ in range(5)])
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    nnz = int(row_ptr[-1])
    col = np.array([rng.randrange(columns) for _ in range(nnz)], dtype=np.uint32)
    coef = np.array([rng.choice([0, 1, 0, 1, *range(2, 7)]) for _ in range(nnz)], dtype=np.uint32)
    return CsrMatrix(row_ptr, col, coef, table)


def product(device, curve, matrix, vector):
    stream = device.stream("test")
    plan = SpmvPlan.build(curve, matrix, device.capability)
    out = device.empty(matrix.rows, 4, stream)
    plan.run(device, plan.load(device, matrix, stream), device.upload(vector, stream), out, stream)
    return bytes(device.download(out, stream))


@pytest.mark.parametrize("kind", KINDS)
@CURVES
def test_sparse_products_of_short_long_and_very_long_rows(kind, curve):
    rng = random.Random(2)
    field = curve.fr
    values = [*edges(field), *(rng.randrange(field.modulus) for _ in range(92))]
    vector = pack(values, field, "canonical")
    lengths = [0, 1, 2, 24, 25, 31, 32, 33, 100, 2048, 2049, 3, *([5] * 240), 40, 7, 2500, 0, 64, 1]
    matrix = matrix_of(curve, lengths, len(values), 3)
    assert product(cuda_device(kind), curve, matrix, vector) == product(HostDevice(1), curve, matrix, vector)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([0, 0, 1, 2, 5, 24, 25, 60]), min_size=1, max_size=300), seed=st.integers(0, 99)
)
def test_sparse_products_of_any_shape(lengths, seed):
    matrix = matrix_of(BN254, lengths, 11, seed)
    vector = pack([random.Random(seed).randrange(BN254.fr.modulus) for _ in range(11)], BN254.fr, "canonical")
    assert product(_SHARED, BN254, matrix, vector) == product(HostDevice(1), BN254, matrix, vector)


_SHARED = emulated()


def test_lengths_are_checked():
    device = emulated()
    stream = device.stream("test")
    matrix = matrix_of(BN254, [1, 2], 4, 0)
    plan = SpmvPlan.build(BN254, matrix, device.capability)
    loaded, vector = plan.load(device, matrix, stream), device.empty(4, 4, stream)
    with pytest.raises(ValueError, match="out has 3 elements, the matrix 2 rows"):
        plan.run(device, loaded, vector, device.empty(3, 4, stream), stream)
