"""Integers and points to arrays of limbs and back."""

from __future__ import annotations

import numpy as np
import pytest
from curve_oracle import Group
from hypothesis import given, settings
from hypothesis import strategies as st

from prover import curves
from prover.curves import CURVES, Curve, PrimeField
from prover.field import Form, convert, coordinates, pack, pack_points, unpack, unpack_points
from prover.native import GroupId, field_id, point_words

FOUR_FIELDS = [pytest.param(f, id=f.name) for f in curves.fields()]
BOTH_CURVES = [pytest.param(c, id=c.name) for c in CURVES]


@pytest.mark.parametrize("field", FOUR_FIELDS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_round_trip(field: PrimeField, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, field.modulus - 1), max_size=20))
    forms: tuple[Form, ...] = ("canonical", "montgomery")
    for form in forms:
        array = pack(values, field, form)
        assert array.shape == (len(values), field.limbs)
        assert array.dtype == np.uint64
        assert unpack(array, field, form) == values
    in_montgomery = [int.from_bytes(row.tobytes(), "little") for row in pack(values, field)]
    assert in_montgomery == [field.to_montgomery(v) for v in values]
    assert np.array_equal(convert(pack(values, field), field, "canonical"), pack(values, field, "canonical"))


@pytest.mark.parametrize("field", FOUR_FIELDS)
def test_convert_in_place(field: PrimeField) -> None:
    array = pack([1, 2, field.modulus - 1], field, "canonical")
    want = pack([1, 2, field.modulus - 1], field)
    assert convert(array, field, "montgomery", out=array) is array
    assert np.array_equal(array, want)


@pytest.mark.parametrize("field", FOUR_FIELDS)
def test_values_out_of_range_are_refused(field: PrimeField) -> None:
    for value in (-1, field.modulus, 1 << 400):
        with pytest.raises(ValueError, match="value 2 is outside"):
            pack([0, 1, value], field)


def test_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="not a field of the host library"):
        field_id(PrimeField("Toy", 97))


@pytest.mark.parametrize("curve", BOTH_CURVES)
@pytest.mark.parametrize("group", [1, 2])
def test_points(curve: Curve, group: GroupId) -> None:
    g = Group(curve, group)
    points = [g.generator, None, g.mul(2, g.generator), g.neg(g.generator)]
    array = pack_points(points, curve, group)
    assert array.shape == (4, point_words(curve, group))
    assert not array[1].any()
    assert unpack_points(array, curve, group) == points
    assert unpack_points(array[2], curve, group) == points[2:3]
    assert unpack(array, curve.fp) == [c for p in points for c in coordinates(p, group)]
    assert pack_points([], curve, group).shape == (0, point_words(curve, group))
