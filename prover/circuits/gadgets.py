"""Gadgets of general use."""

from __future__ import annotations

from collections.abc import Sequence

from prover.circuits.builder import Number, Recorder
from prover.circuits.expression import Expression


def pack_bits(bits: Sequence[Expression]) -> Expression:
    """The number that these bits are, least significant first. No constraint."""
    total = bits[0]
    for i, bit in enumerate(bits[1:], 1):
        total = total + bit * (1 << i)
    return total


def decompose(recorder: Recorder, x: Number, count: int) -> list[Expression]:
    """The bits of x, least significant first, where x must be below ``2^count``: ``count + 1`` constraints.

    ``count`` must stay below the modulus's length, else two decompositions would exist.
    """
    if not 0 < count < recorder.curve.fr.bits:
        raise ValueError(f"{count} bits: between 1 and {recorder.curve.fr.bits - 1}")
    bits = recorder.bits(x, count)
    recorder.require_equal(pack_bits(bits), x)
    return bits


def insert(
    recorder: Recorder, element: Expression, others: Sequence[Expression], bits: Sequence[Expression]
) -> list[Expression]:
    """The n elements that arise when ``element`` is put among the n-1 ``others`` at the position that the bits say.

    Args:
        recorder: what to write to.
        element: the one to insert.
        others: 1, 3 or 7 others, in order.
        bits: the position, least significant first; booleans already.

    Returns:
        n variables. Constraints: 2, 8 or 22, the published figures of Filecoin's circuits.
    """
    if (len(others), len(bits)) not in ((1, 1), (3, 2), (7, 3)):
        raise ValueError(f"{len(others)} others and {len(bits)} bits do not fit together")
    if len(others) == 1:
        (other,), (bit,) = others, bits
        return [recorder.select(bit, other, element), recorder.select(bit, element, other)]
    both = recorder.product(bits[0], bits[1])
    neither = recorder.product(1 - bits[0], 1 - bits[1])
    if len(others) == 3:
        return _insert_four(recorder, element, others, bits, both, neither)
    low = _insert_four(recorder, element, others[:3], bits, both, neither)
    high = _insert_four(recorder, element, others[4:], bits, both, neither)
    return [recorder.select(bits[2], x, y) for x, y in zip([*others[:4], *high], [*low, *others[3:]], strict=True)]


def _insert_four(
    recorder: Recorder,
    element: Expression,
    others: Sequence[Expression],
    bits: Sequence[Expression],
    both: Expression,
    neither: Expression,
) -> list[Expression]:
    """Six selections: the outer positions by one product of bits each, the inner ones by two nested selections."""
    select, (low, high) = recorder.select, (bits[0], bits[1])
    return [
        select(neither, element, others[0]),
        select(high, others[1], select(low, element, others[0])),
        select(high, select(low, others[2], element), others[1]),
        select(both, element, others[2]),
    ]
