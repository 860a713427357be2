"""Integers and points to arrays of limbs and back.

An array of n elements is uint64 of shape ``(n, limbs)``, least significant limb first. The form is ``canonical`` (the
integer itself) or ``montgomery`` (times 2^(64*limbs), as the host library and snarkjs keys hold elements).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from prover import native
from prover.curves import Curve, G1Point, G2Point, PrimeField

Form = Literal["canonical", "montgomery"]
Words = npt.NDArray[np.uint64]
Point = G1Point | G2Point


def pack(values: Iterable[int], field: PrimeField, form: Form = "montgomery") -> Words:
    """Canonical integers as an array of shape ``(n, limbs)`` in the given form.

    Raises:
        ValueError: if a value is negative or not below the modulus; the message names its index.
    """
    size = field.bytes
    chunks = []
    for index, value in enumerate(values):
        if not 0 <= value < field.modulus:
            raise ValueError(f"value {index} is outside [0, p) of {field.name}: {value}")
        chunks.append(value.to_bytes(size, "little"))
    array = np.frombuffer(bytearray(b"".join(chunks)), dtype="<u8").reshape(-1, field.limbs)
    return convert(array, field, "montgomery") if form == "montgomery" else array


def unpack(array: npt.ArrayLike, field: PrimeField, form: Form = "montgomery") -> list[int]:
    """The canonical integers of an array of shape ``(n, limbs)`` (or one element) in the given form."""
    words = np.ascontiguousarray(array, dtype=np.uint64).reshape(-1, field.limbs)
    if form == "montgomery":
        words = convert(words, field, "canonical")
    raw, size = words.tobytes(), field.bytes
    return [int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)]


def convert(array: Words, field: PrimeField, form: Form, out: Words | None = None) -> Words:
    """The elements in the given form, from the other one; reduced input expected. ``out`` may be ``array``."""
    op = native.FieldOp.TO_MONTGOMERY if form == "montgomery" else native.FieldOp.FROM_MONTGOMERY
    return cast("Words", native.field_op(native.field_id(field), op, array, out=out))


def pack_points(points: Sequence[Point], curve: Curve, group: native.GroupId) -> Words:
    """Affine points with canonical coordinates as an array of shape ``(n, words)``, Montgomery; None is infinity."""
    flat: list[int] = []
    for point in points:
        flat += coordinates(point, group)
    return pack(flat, curve.fp).reshape(len(points), native.point_words(curve, group))


def unpack_points(array: npt.ArrayLike, curve: Curve, group: native.GroupId) -> list[Point]:
    """The affine points of an array of shape ``(n, words)`` (or of one point), canonical; infinity becomes None."""
    flat = unpack(array, curve.fp)
    width = 2 * group
    return [_point(flat[at : at + width]) for at in range(0, len(flat), width)]


def coordinates(point: Point, group: native.GroupId) -> list[int]:
    """The point's two or four base-field coordinates, all zero at infinity."""
    if point is None:
        return [0] * (2 * group)
    if group == 1:
        return list(cast("tuple[int, int]", point))
    (x0, x1), (y0, y1) = cast("tuple[tuple[int, int], tuple[int, int]]", point)
    return [x0, x1, y0, y1]


def _point(values: list[int]) -> Point:
    if not any(values):
        return None
    if len(values) == 2:
        return values[0], values[1]
    return (values[0], values[1]), (values[2], values[3])
