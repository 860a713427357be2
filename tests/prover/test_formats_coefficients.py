"""A zkey's coefficient section and the matrices that it stands for."""

import dataclasses
import random

import numpy as np
import pytest
from format_samples import dense_rows, matrix, random_csr, rows, small_zkey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover import native
from prover.csr import CsrMatrix, coefficient_table
from prover.curves import BN254, CURVES
from prover.formats.coefficients import entries
from prover.formats.zkey import read_zkey, write_zkey
from prover.native import BadEntry, EntryFault

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
LIGHT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_inputs(m, inputs, in_a):
    tail = [[(s, 0)] for s in range(inputs)] if in_a else [[]] * inputs
    return matrix([*rows(m), *tail], m.table)


@each_curve
@given(shape=st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9), st.integers(0, 10**6)))
@LIGHT
def test_matrices_survive_a_file(curve, tmp_path, shape):
    n_constraints, n_public, more, seed = shape
    n_vars = n_public + 1 + more
    log_n = max(n_constraints + n_public, 0).bit_length()
    a, b = (random_csr(curve, n_constraints, n_vars, seed + i) for i in range(2))
    g1, g2 = 16 * curve.fp.limbs, 32 * curve.fp.limbs
    key = dataclasses.replace(
        small_zkey(curve),
        n_vars=n_vars,
        n_public=n_public,
        n_constraints=n_constraints,
        log_n=log_n,
        ic=bytes(g1 * (n_public + 1)),
        a_query=bytes(g1 * n_vars),
        b_g1_query=bytes(g1 * n_vars),
        b_g2_query=bytes(g2 * n_vars),
        l_query=bytes(g1 * more),
        h_query=bytes(g1 << log_n),
        a=with_inputs(a, n_public + 1, True),
        b=with_inputs(b, n_public + 1, False),
    )
    write_zkey(tmp_path / "a.zkey", key)
    again = read_zkey(tmp_path / "a.zkey")
    assert again.n_constraints == n_constraints
    padding = [{}] * (again.domain_size - again.rows)
    assert dense_rows(curve, again.a) == dense_rows(curve, key.a) + padding
    assert dense_rows(curve, again.b) == dense_rows(curve, key.b) + padding
    write_zkey(tmp_path / "b.zkey", again)
    assert (tmp_path / "a.zkey").read_bytes() == (tmp_path / "b.zkey").read_bytes()


@each_curve
def test_entries_in_any_order_of_rows(curve):
    n_constraints, inputs, columns = 40, 3, 11
    a, b = (random_csr(curve, n_constraints, columns, seed) for seed in (5, 6))
    a, b = with_inputs(a, inputs, True), with_inputs(b, inputs, False)
    section = bytes(entries(curve, a, b, n_constraints, inputs - 1))
    records = [section[i : i + 44] for i in range(0, len(section), 44)]
    body, tail = records[:-inputs], records[-inputs:]
    random.Random(1).shuffle(body)
    got_a, got_b = native.zkey_matrices(curve, b"".join(body + tail), columns, n_constraints, inputs, 64)
    padding = [{}] * (64 - n_constraints - inputs)
    assert dense_rows(curve, got_a) == dense_rows(curve, a) + padding
    assert dense_rows(curve, got_b) == dense_rows(curve, b) + padding


def test_more_distinct_coefficients_than_the_dictionary_remembers():
    curve, n, distinct = BN254, 200_000, 100_000
    rng = np.random.default_rng(7)
    values = rng.integers(0, 1 << 60, (distinct, 4), dtype=np.uint64)
    table = np.concatenate([coefficient_table(curve.fr, []), values])
    pointer = np.arange(n + 1, dtype=np.uint64)
    chosen = rng.integers(0, distinct + 2, n).astype(np.uint32)
    a = CsrMatrix(np.append(pointer, n + 1).astype(np.uint64), np.zeros(n + 1, np.uint32), np.append(chosen, 0), table)
    b = CsrMatrix(np.zeros(n + 2, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.uint32), table)
    a = dataclasses.replace(a, coef=a.coef.astype(np.uint32))
    got, _ = native.zkey_matrices(curve, entries(curve, a, b, n, 0), 1, n, 1, 1 << 18)
    got_table = np.asarray(got.table)
    np.testing.assert_array_equal(got_table[np.asarray(got.coef)], table[a.coef])
    np.testing.assert_array_equal(got_table[:2], table[:2])
    assert len(got_table) <= n + 2


def test_equal_coefficients_share_an_entry():
    curve, n = BN254, 3000
    table = coefficient_table(curve.fr, list(range(2, 500)))
    lines = [[(0, i % 500)] for i in range(n)]
    a = matrix([*lines, [(0, 0)]], table)
    b = matrix([[]] * (n + 1), table)
    got, _ = native.zkey_matrices(curve, entries(curve, a, b, n, 0), 1, n, 1, 4096)
    assert len(got.table) == 500


def test_faults_and_refused_arguments():
    one = (0).to_bytes(12, "little") + bytes(memoryview(coefficient_table(BN254.fr, [])).cast("B")[:32])
    bad = (9).to_bytes(4, "little") + one[4:]
    assert native.zkey_matrices(BN254, bad, 1, 0, 1, 1) == BadEntry(0, EntryFault.MATRIX)
    a, b = native.zkey_matrices(BN254, one, 1, 0, 1, 1)
    assert (a.nnz, b.nnz, a.rows) == (1, 0, 1)
    for columns, constraints, inputs, n_rows in ((1, 1, 1, 1), (1, 0, 2, 4), (0, 0, 1, 1), (1, 2**64 - 1, 1, 8)):
        with pytest.raises(native.NativeError):
            native.zkey_matrices(BN254, one, columns, constraints, inputs, n_rows)
    with pytest.raises(ValueError, match="multiple of 44"):
        native.zkey_matrices(BN254, one[:-1], 1, 0, 1, 1)
