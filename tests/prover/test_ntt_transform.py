"""The transforms of the host library against the definition, for every variant that runs here."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.curves import CURVES, Curve, RootConvention
from prover.field import pack, unpack

CONVENTIONS: dict[str, tuple[RootConvention, ...]] = {"bls12-381": ("snarkjs", "bellman"), "bn254": ("snarkjs",)}
DOMAINS = [pytest.param(c, r, id=f"{c.name}-{r}") for c in CURVES for r in CONVENTIONS[c.name]]
BOTH_CURVES = [pytest.param(c, id=c.name) for c in CURVES]


@pytest.fixture(params=native.cpu_variants(), autouse=True)
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def elements(curve: Curve, n: int, seed: int) -> list[int]:
    """Values with the edges of the field among them."""
    rng, p = random.Random(seed), curve.fr.modulus
    edges = [0, 1, p - 1, (p - 1) // 2, 2**256 % p, 2**260 % p, p - 2]
    return [rng.choice(edges) if rng.random() < 0.3 else rng.randrange(p) for _ in range(n)]


def transform(
    curve: Curve,
    values: list[int],
    root: int,
    inverse: bool = False,
    shift: int | None = None,
    threads: int = 1,
) -> list[int]:
    data = pack(values, curve.fr)
    native.ntt(
        curve,
        data,
        pack([root], curve.fr),
        inverse=inverse,
        shift=None if shift is None else pack([shift], curve.fr),
        threads=threads,
    )
    assert native.field_check(native.fr(curve), data) is None
    return unpack(data, curve.fr)


def evaluate(coefficients: list[int], point: int, p: int) -> int:
    result = 0
    for c in reversed(coefficients):
        result = (result * point + c) % p
    return result


@pytest.mark.parametrize(("curve", "convention"), DOMAINS)
@pytest.mark.parametrize("log_n", range(7))
def test_every_output_is_the_evaluation(curve: Curve, convention: RootConvention, log_n: int) -> None:
    p, root = curve.fr.modulus, curve.root_of_unity(log_n, convention)
    x = elements(curve, 1 << log_n, log_n)
    for shift in (None, curve.coset_shift(log_n), 7):
        expected = [evaluate(x, (shift or 1) * pow(root, i, p) % p, p) for i in range(1 << log_n)]
        assert transform(curve, x, root, shift=shift) == expected
        assert transform(curve, expected, root, inverse=True, shift=shift) == x


@pytest.mark.parametrize(("curve", "convention"), DOMAINS)
@pytest.mark.parametrize("log_n", range(7, 13))
def test_random_outputs_are_evaluations(curve: Curve, convention: RootConvention, log_n: int) -> None:
    p, n, root = curve.fr.modulus, 1 << log_n, curve.root_of_unity(log_n, convention)
    x = elements(curve, n, log_n)
    rng = random.Random(log_n)
    for shift in (None, curve.coset_shift(log_n)):
        y = transform(curve, x, root, shift=shift)
        for i in {0, 1, n // 2, n - 1, rng.randrange(n), rng.randrange(n)}:
            assert y[i] == evaluate(x, (shift or 1) * pow(root, i, p) % p, p), f"output {i}"
        assert transform(curve, y, root, inverse=True, shift=shift) == x


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_large_transform(curve: Curve, threads: int) -> None:
    """2^18 elements: one random output by Horner's rule, and the way back."""
    log_n = 18
    p, n, root = curve.fr.modulus, 1 << log_n, curve.root_of_unity(log_n)
    rng = np.random.default_rng(threads)
    data = rng.integers(0, 2**63, size=(n, 4), dtype=np.uint64)
    data[:, 3] >>= np.uint64(3)  # below both moduli
    before = data.copy()
    shift = pack([curve.coset_shift(log_n)], curve.fr)
    native.ntt(curve, data, pack([root], curve.fr), shift=shift, threads=threads)
    index = int(rng.integers(n))
    point = curve.coset_shift(log_n) * pow(root, index, p) % p
    expected = evaluate(unpack(before, curve.fr, "canonical"), point, p)
    assert unpack(data[index], curve.fr, "canonical") == [expected]
    native.ntt(curve, data, pack([root], curve.fr), inverse=True, shift=shift, threads=threads)
    assert np.array_equal(data, before)


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("log_n", [3, 6, 9, 13])
def test_threads_change_nothing(curve: Curve, log_n: int) -> None:
    root, x = curve.root_of_unity(log_n), elements(curve, 1 << log_n, 3)
    outputs = [transform(curve, x, root, shift=curve.coset_shift(log_n), threads=threads) for threads in (1, 2, 3, 16)]
    assert outputs.count(outputs[0]) == len(outputs)


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("log_n", [5, 6, 7, 10])
def test_a_delta_becomes_powers_and_a_constant_becomes_a_delta(curve: Curve, log_n: int) -> None:
    p, n, root = curve.fr.modulus, 1 << log_n, curve.root_of_unity(log_n)
    for at in (0, 1, n - 1):
        delta = [int(i == at) for i in range(n)]
        assert transform(curve, delta, root) == [pow(root, at * i, p) for i in range(n)]
    assert transform(curve, [p - 1] * n, root) == [(p - n) % p] + [0] * (n - 1)
    assert transform(curve, [0] * n, root) == [0] * n


@pytest.mark.parametrize("curve", BOTH_CURVES)
@settings(max_examples=15, deadline=None)
@given(log_n=st.integers(0, 9), seed=st.integers(0, 2**32), factor=st.integers(0, 2**254))
def test_linear_shifting_and_convolving(curve: Curve, log_n: int, seed: int, factor: int) -> None:
    p, n, root = curve.fr.modulus, 1 << log_n, curve.root_of_unity(log_n)
    a, b = elements(curve, n, seed), elements(curve, n, seed + 1)
    fa, fb = transform(curve, a, root), transform(curve, b, root)
    combined = [(x + factor * y) % p for x, y in zip(a, b, strict=True)]
    assert transform(curve, combined, root) == [(x + factor * y) % p for x, y in zip(fa, fb, strict=True)]
    rotated = a[-1:] + a[:-1]
    assert transform(curve, rotated, root) == [x * pow(root, i, p) % p for i, x in enumerate(fa)]
    scaled = [x * pow(3, i, p) % p for i, x in enumerate(a)]
    assert transform(curve, scaled, root) == transform(curve, a, root, shift=3)
    product = transform(curve, [x * y % p for x, y in zip(fa, fb, strict=True)], root, inverse=True)
    k = seed % n
    assert product[k] == sum(a[i] * b[(k - i) % n] for i in range(n)) % p


def test_extreme_inputs_stay_in_range() -> None:
    """All p - 1 in every arrangement that makes sums and differences as large as they get."""
    for curve in CURVES:
        p, log_n = curve.fr.modulus, 12
        n, root = 1 << log_n, curve.root_of_unity(log_n)
        for period in (1, 2, 4, 8, 64, n // 2):
            x = [p - 1 if (i // period) % 2 == 0 else 0 for i in range(n)]
            y = transform(curve, x, root)
            assert transform(curve, y, root, inverse=True) == x
            assert y[0] == (p - 1) * sum(v != 0 for v in x) % p


def test_the_bellman_domain_is_the_snarkjs_domain_in_another_order() -> None:
    curve, log_n = CURVES[0], 6
    x = elements(curve, 1 << log_n, 1)
    ours = transform(curve, x, curve.root_of_unity(log_n))
    theirs = transform(curve, x, curve.root_of_unity(log_n, "bellman"))
    assert sorted(ours) == sorted(theirs)
    assert ours != theirs


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("log_n", [4, 8])
def test_plans_of_other_roots_and_shifts_are_kept_apart(curve: Curve, log_n: int) -> None:
    p, root = curve.fr.modulus, curve.root_of_unity(log_n)
    x = elements(curve, 1 << log_n, 5)
    for power in (1, 3, 5, 3, 1):
        for shift in (None, 1, 2, None):
            z = pow(root, power, p)
            y = transform(curve, x, z, shift=shift)
            assert y[1] == evaluate(x, (shift or 1) * z % p, p)
            assert transform(curve, y, z, inverse=True, shift=shift) == x


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_unaligned_data(curve: Curve) -> None:
    log_n = 7
    x = elements(curve, 1 << log_n, 9)
    root = pack([curve.root_of_unity(log_n)], curve.fr)
    raw = bytearray(3 + 32 * len(x))
    raw[3:] = pack(x, curve.fr).tobytes()
    aligned = pack(x, curve.fr)
    native.ntt(curve, memoryview(raw)[3:], root)
    native.ntt(curve, aligned, root)
    assert raw[3:] == aligned.tobytes()


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_refusals(curve: Curve) -> None:
    x = elements(curve, 256, 2)
    data = pack(x, curve.fr)
    for root in (1, curve.fr.modulus - 1, 0, curve.root_of_unity(7), curve.root_of_unity(9)):
        with pytest.raises(native.NativeError, match="root"):
            native.ntt(curve, data, pack([root], curve.fr))
    with pytest.raises(native.NativeError, match="shift"):
        native.ntt(curve, data, pack([curve.root_of_unity(8)], curve.fr), shift=pack([0], curve.fr))
    with pytest.raises(native.NativeError, match="threads"):
        native.ntt(curve, data, pack([curve.root_of_unity(8)], curve.fr), threads=0)
    assert unpack(data, curve.fr) == x


@pytest.mark.parametrize("curve", BOTH_CURVES)
def test_cancelling(curve: Curve) -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        native.ntt(curve, pack([1] * 256, curve.fr), pack([curve.root_of_unity(8)], curve.fr), cancel=token)
