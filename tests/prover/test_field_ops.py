"""Field operations of every variant, and of the form that the GPU shares, against integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from curve_oracle import Element, Ints, Pairs, element_fields
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover import native
from prover.curves import PrimeField
from prover.field import Words, pack, unpack
from prover.native import FieldId, FieldOp

FIELDS = [pytest.param(*case, id=case[0].name) for case in element_fields()]
ALL_FIELDS = pytest.mark.parametrize(("field", "oracle", "prime"), FIELDS)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=[*native.cpu_variants(), "shared"], autouse=True)
def shared(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the call goes through the GPU's form; else one of the host's variants is selected."""
    before = native.cpu_variant()
    if request.param != "shared":
        native.select_variant(request.param)
    yield request.param == "shared"
    native.select_variant(before)


def edges(prime: PrimeField) -> list[int]:
    """Values at which carries, borrows and reductions turn: they are meant as limbs, in Montgomery form or not."""
    p = prime.modulus
    values = {0, 1, 2, 3, p - 1, p - 2, p - 3, prime.r, prime.r2, p - prime.r, (p - 1) // 2, (p + 1) // 2}
    for bit in range(32, prime.bits, 32):
        values |= {1 << bit, (1 << bit) - 1, (1 << bit) + 1, p - (1 << bit)}
    values |= {(1 << (prime.bits - 1)) - 1, 1 << (prime.bits - 1)}
    return sorted(v for v in values if 0 <= v < p)


def limb_patterns(prime: PrimeField) -> st.SearchStrategy[int]:
    """Values below the modulus, many with words of zeros and ones."""
    word = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1])
    words = st.lists(word, min_size=2 * prime.limbs, max_size=2 * prime.limbs)
    patterned = words.map(lambda ws: sum(w << (32 * i) for i, w in enumerate(ws)) % prime.modulus)
    return st.one_of(st.sampled_from(edges(prime)), patterned, st.integers(0, prime.modulus - 1))


def elements(oracle: Ints | Pairs, prime: PrimeField) -> st.SearchStrategy[Any]:
    base = limb_patterns(prime)
    return base if oracle.degree == 1 else st.tuples(base, base)


def to_limbs(values: list[Element], prime: PrimeField) -> Words:
    """Elements whose limbs in memory are these integers."""
    flat = [c for v in values for c in (v if isinstance(v, tuple) else (v,))]
    degree = 2 if values and isinstance(values[0], tuple) else 1
    return pack(flat, prime, "canonical").reshape(-1, degree * prime.limbs)


def from_limbs(array: Words, oracle: Ints | Pairs, prime: PrimeField) -> list[Element]:
    flat = unpack(array, prime, "canonical")
    return flat if oracle.degree == 1 else list(zip(flat[::2], flat[1::2], strict=True))


def each(value: Element, function: Callable[[int], int]) -> Element:
    """The function of the element's one or two coordinates."""
    return tuple(function(c) for c in value) if isinstance(value, tuple) else function(value)


def expected(op: FieldOp, a: Element, b: Element, oracle: Any, prime: PrimeField) -> Element:
    """What the operation does to limbs in Montgomery form: a product loses a factor R, an inverse gains R^2."""
    down = prime.from_montgomery
    match op:
        case FieldOp.ADD:
            return oracle.add(a, b)
        case FieldOp.SUB:
            return oracle.sub(a, b)
        case FieldOp.MUL:
            return each(oracle.mul(a, b), down)
        case FieldOp.SQR:
            return each(oracle.mul(a, a), down)
        case FieldOp.NEG:
            return oracle.sub(oracle.zero, a)
        case FieldOp.INV:
            return each(oracle.inv(a), lambda c: c * prime.r2 % prime.modulus)
        case FieldOp.TO_MONTGOMERY:
            return each(a, prime.to_montgomery)
        case FieldOp.FROM_MONTGOMERY:
            return each(a, down)


def check(op: FieldOp, pairs: list[tuple[Element, Element]], field: FieldId, oracle: Any, prime: PrimeField,
          shared: bool) -> None:  # fmt: skip
    """All pairs at once against the oracle, and the same with the result written over an operand."""
    a, b = to_limbs([x for x, _ in pairs], prime), to_limbs([y for _, y in pairs], prime)
    second = b if op.binary else None
    got = native.field_op(field, op, a, second, shared=shared)
    assert from_limbs(np.asarray(got), oracle, prime) == [expected(op, x, y, oracle, prime) for x, y in pairs]
    assert native.field_check(field, got) is None
    for overwritten in (a, b) if op.binary else (a,):
        kept = overwritten.copy()
        native.field_op(field, op, a, second, out=overwritten, shared=shared)
        assert np.array_equal(overwritten, got)
        overwritten[:] = kept


OPS = [op for op in FieldOp if op is not FieldOp.INV]


@ALL_FIELDS
def test_all_pairs_of_edge_values(field: FieldId, oracle: Any, prime: PrimeField, shared: bool) -> None:
    values = edges(prime)
    pairs: list[tuple[Element, Element]] = list(itertools.product(values, values))
    if oracle.degree == 2:
        pairs = list(itertools.pairwise(pairs)) + [(p, p) for p in pairs]
    for op in OPS:
        check(op, pairs, field, oracle, prime, shared)


@ALL_FIELDS
@QUICK
@given(data=st.data())
def test_random_values(field: FieldId, oracle: Any, prime: PrimeField, shared: bool, data: st.DataObject) -> None:
    element = elements(oracle, prime)
    pairs = data.draw(st.lists(st.tuples(element, element), max_size=12))
    op = data.draw(st.sampled_from(OPS))
    if pairs:
        check(op, pairs, field, oracle, prime, shared)


@ALL_FIELDS
def test_inversion(field: FieldId, oracle: Any, prime: PrimeField, shared: bool) -> None:
    """Batches of one, of zeros, of everything; the zeros stay where they are."""
    values = edges(prime) if oracle.degree == 1 else list(itertools.pairwise(edges(prime)))
    batches = [values, [oracle.zero], [oracle.zero] * 3, [oracle.zero, *values[:3], oracle.zero], values[-1:]]
    for batch in batches:
        check(FieldOp.INV, [(v, v) for v in batch], field, oracle, prime, shared)


@ALL_FIELDS
@QUICK
@given(data=st.data())
def test_inverse_of_random_values(
    field: FieldId, oracle: Any, prime: PrimeField, shared: bool, data: st.DataObject
) -> None:
    values = data.draw(st.lists(elements(oracle, prime), min_size=1, max_size=20))
    check(FieldOp.INV, [(v, v) for v in values], field, oracle, prime, shared)


@ALL_FIELDS
def test_unaligned_memory(field: FieldId, oracle: Any, prime: PrimeField, shared: bool) -> None:
    """Memory-mapped files give elements at any address."""
    values = edges(prime)[:5]
    flat = to_limbs([(v, v) for v in values] if oracle.degree == 2 else values, prime)
    want = np.asarray(native.field_op(field, FieldOp.MUL, flat, flat, shared=shared))
    for offset in (1, 3, 4):
        raw = bytearray(offset) + flat.tobytes()
        target = bytearray(len(raw))
        a = memoryview(raw)[offset:]
        native.field_op(field, FieldOp.MUL, a, a, out=memoryview(target)[offset:], shared=shared)
        assert target[offset:] == want.tobytes()


@ALL_FIELDS
def test_no_elements(field: FieldId, oracle: Any, prime: PrimeField, shared: bool) -> None:
    empty = np.empty((0, field.words), dtype=np.uint64)
    for op in OPS:
        got = native.field_op(field, op, empty, empty if op.binary else None, shared=shared)
        assert np.asarray(got).size == 0


@ALL_FIELDS
def test_check_finds_the_first_unreduced(field: FieldId, oracle: Any, prime: PrimeField) -> None:
    p, degree, top = prime.modulus, oracle.degree, 1 << (64 * prime.limbs)
    good, bad = edges(prime), [p, p + 1, top - 1, p + (1 << 64 * (prime.limbs - 1))]
    for index in (0, 1, 7):
        for value in bad:
            for position in range(degree):
                flat = (good * 2)[: 10 * degree]
                flat[index * degree + position] = value
                raw = b"".join(v.to_bytes(prime.bytes, "little") for v in flat)
                assert native.field_check(field, raw) == index
    assert native.field_check(field, b"") is None


def test_refused_calls() -> None:
    one = np.zeros((1, 4), dtype=np.uint64)
    with pytest.raises(ValueError, match="two operands"):
        native.field_op(FieldId.BN254_FR, FieldOp.ADD, one)
    with pytest.raises(ValueError, match="one operand"):
        native.field_op(FieldId.BN254_FR, FieldOp.NEG, one, one)
    with pytest.raises(ValueError, match="has 2 elements, not 1"):
        native.field_op(FieldId.BN254_FR, FieldOp.ADD, one, np.zeros((2, 4), dtype=np.uint64))
    with pytest.raises(ValueError, match="rows of 32 bytes, not 48"):
        native.field_op(FieldId.BLS12_381_FP, FieldOp.SQR, np.zeros((3, 4), dtype=np.uint64))
    with pytest.raises(ValueError, match="multiple of 32"):
        native.field_check(FieldId.BN254_FR, b"\0" * 33)
    with pytest.raises(TypeError, match="not integers"):
        native.field_check(FieldId.BN254_FR, np.zeros(4))
    with pytest.raises(ValueError, match="not contiguous"):
        native.field_check(FieldId.BN254_FR, np.zeros((2, 8), dtype=np.uint64)[:, :4])
    with pytest.raises(ValueError, match="read-only"):
        native.field_op(FieldId.BN254_FR, FieldOp.SQR, one, out=bytes(32))
