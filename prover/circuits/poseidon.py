"""Poseidon: the permutation in Python, and its gadget.

A hash of ``arity`` elements is element 1 of the permutation of ``(tag, inputs...)``, with the tag ``2^arity - 1`` of
Merkle trees: over BLS12-381 Fr that is Filecoin's.
"""

from __future__ import annotations

from collections.abc import Sequence

from prover.circuits.builder import Recorder
from prover.circuits.expression import Expression
from prover.circuits.poseidon_parameters import PoseidonParameters, poseidon_parameters, round_numbers
from prover.curves import PrimeField


def permute(parameters: PoseidonParameters, state: Sequence[int]) -> list[int]:
    """The permutation as the paper defines it: add constants, S-boxes, MDS matrix, round by round."""
    p = parameters.field.modulus
    half, state = parameters.full // 2, list(state)
    for i, constants in enumerate(parameters.constants):
        state = [(x + c) % p for x, c in zip(state, constants, strict=True)]
        is_full = i < half or i >= half + parameters.partial
        state = [pow(x, 5, p) if is_full or j == 0 else x for j, x in enumerate(state)]
        state = [sum(m * x for m, x in zip(row, state, strict=True)) % p for row in parameters.mds]
    return state


def merkle_tag(arity: int) -> int:
    """The tag of hashes in Merkle trees."""
    return (1 << arity) - 1


def poseidon(field: PrimeField, inputs: Sequence[int]) -> int:
    """The hash of a Merkle tree's node from its children."""
    parameters = poseidon_parameters(field, len(inputs))
    return permute(parameters, [merkle_tag(len(inputs)), *inputs])[1]


def poseidon_constraints(field: PrimeField, arity: int) -> int:
    """Constraints of the gadget, without building it.

    Four for each S-box (its input, square, fourth and fifth power); but the tag is a constant (none), the inputs of the
    first round are variables already (three), and the digest is allocated (one).
    """
    width = arity + 1
    full, partial = round_numbers(field.bits, width)
    return 4 * (full * width + partial) - width - 2


def poseidon_gadget(recorder: Recorder, inputs: Sequence[Expression]) -> Expression:
    """The hash of a Merkle tree's node from its children, as a variable.

    Args:
        recorder: what to write to.
        inputs: variables (others are allocated, a constraint each).
    """
    parameters = poseidon_parameters(recorder.curve.fr, len(inputs))
    first, half = parameters.constants[0], parameters.full // 2
    p = recorder.modulus
    tag = pow(merkle_tag(len(inputs)) + first[0], 5, p)
    state = [recorder.constant(tag)]
    state += [recorder.fifth_power(recorder.allocate(x) + c) for x, c in zip(inputs, first[1:], strict=True)]
    for i in range(1, half):
        state = _mix(recorder, parameters.mds, state, parameters.constants[i])
        state = [_s_box(recorder, x) for x in state]
    state = _mix(recorder, parameters.dense, state, (0,) * parameters.width)
    for layer in parameters.sparse:
        head = _s_box(recorder, recorder.combine((1,), (state[0],), layer.constant))
        rest = state[1:]
        state = [recorder.combine(layer.row, [head, *rest])]
        state += [recorder.combine((1, c), (x, head)) for x, c in zip(rest, layer.column, strict=True)]
    state = [recorder.combine((1,), (x,), c) for x, c in zip(state, parameters.residue, strict=True)]
    for constants in (*parameters.constants[half + parameters.partial + 1 :], None):
        state = [_s_box(recorder, x) for x in state]
        if constants is not None:
            state = _mix(recorder, parameters.mds, state, constants)
    return recorder.allocate(recorder.combine(parameters.mds[1], state))


def _s_box(recorder: Recorder, x: Expression) -> Expression:
    return recorder.fifth_power(recorder.allocate(x))


def _mix(
    recorder: Recorder, matrix: Sequence[Sequence[int]], state: Sequence[Expression], constants: Sequence[int]
) -> list[Expression]:
    """The linear layer, with the next round's constants."""
    return [recorder.combine(row, state, c) for row, c in zip(matrix, constants, strict=True)]
