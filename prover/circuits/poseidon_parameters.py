"""Poseidon's parameters over a prime field: rounds, round constants, MDS matrix, and the matrices in sparse form.

Source: Grassi, Khovratovich, Rechberger, Roy, Schofnegger, "Poseidon: A New Hash Function for Zero-Knowledge Proof
Systems" (USENIX Security 2021; ePrint 2019/458): section 5.5 for the number of rounds, appendix B for the sparse form,
appendix E for the Grain LFSR. The choices that the paper leaves open are those of Filecoin's specification, so that
hashes over BLS12-381 Fr with the tag ``2^arity - 1`` are Filecoin's: security level 128, a margin of two full rounds
and 7.5 % partial rounds, a Cauchy matrix over 0, 1, 2, ...
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from prover.curves import PrimeField

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]

SECURITY_BITS = 128


@functools.cache
def round_numbers(field_bits: int, width: int) -> tuple[int, int]:
    """Full and partial rounds for exponent 5 at 128 bits: the secure pair with the fewest S-boxes, margin included."""
    best: tuple[int, int, int] | None = None
    for full in range(2, 100, 2):
        for partial in range(4, 200):
            if not _is_secure(field_bits, width, full, partial):
                continue
            with_margin = (full + 2, math.ceil(1.075 * partial))
            cost = width * with_margin[0] + with_margin[1]
            if best is None or (cost, with_margin[0]) < (best[0], best[1]):
                best = (cost, *with_margin)
            break  # more partial rounds only cost more
    if best is None:
        raise ValueError(f"no secure number of rounds for {field_bits} bits and width {width}")
    return best[1], best[2]


def _is_secure(n: int, t: int, full: int, partial: int) -> bool:
    """Whether the rounds resist the statistical, interpolation and Groebner-basis attacks, without margin."""
    m = SECURITY_BITS
    bounds = (
        6 if m <= (n - 3) * (t + 1) else 10,
        0.43 * m + math.log2(t) - partial,
        0.21 * n - partial,
        (0.14 * n - 1 - partial) / (t - 1),
    )
    return full >= max(math.ceil(bound) for bound in bounds)


def _grain_bits(seed: int) -> Iterator[int]:
    """The self-shrinking Grain LFSR: of each pair of its bits, the second is used if the first is one.

    Args:
        seed: the initial 80 bits, the first in the lowest place.
    """
    state, mask = seed, (1 << 16) - 1

    def clock() -> int:
        # Bit i+80 depends on bit i+62 and earlier: 16 new bits at once.
        nonlocal state
        new = (state ^ state >> 13 ^ state >> 23 ^ state >> 38 ^ state >> 51 ^ state >> 62) & mask
        state = state >> 16 | new << 64
        return new

    for _ in range(10):
        clock()  # the first 160 bits are thrown away
    while True:
        bits = clock()
        for i in range(0, 16, 2):
            if bits >> i & 1:
                yield bits >> (i + 1) & 1


def round_constants(field: PrimeField, width: int, full: int, partial: int) -> list[Vector]:
    """The constants of each round, by the Grain LFSR; values not below the modulus are skipped."""
    n = field.bits
    fields = ((1, 2), (1, 4), (n, 12), (width, 12), (full, 10), (partial, 10), ((1 << 30) - 1, 30))
    first_bits = "".join(f"{value:0{length}b}" for value, length in fields)
    bits = _grain_bits(int(first_bits[::-1], 2))
    constants: list[int] = []
    while len(constants) < width * (full + partial):
        value = 0
        for _ in range(n):
            value = value << 1 | next(bits)
        if value < field.modulus:
            constants.append(value)
    return [tuple(constants[i : i + width]) for i in range(0, len(constants), width)]


def cauchy_matrix(modulus: int, width: int) -> Matrix:
    """``1 / (x_i + y_j)`` with x = 0, 1, ... and y = width, width+1, ...; symmetric, and MDS."""
    return tuple(tuple(pow(i + width + j, -1, modulus) for j in range(width)) for i in range(width))


@dataclass(frozen=True, slots=True)
class SparseLayer:
    """The linear layer of a partial round in sparse form, which also adds the round's constant before its S-box.

    With x the state after the S-box: ``y_0 = row . x``, ``y_i = column[i-1] * x_0 + x_i``.
    """

    constant: int
    """Added to element 0 before the S-box."""
    row: Vector
    column: Vector


@dataclass(frozen=True, slots=True)
class PoseidonParameters:
    """One instance of the permutation."""

    field: PrimeField
    width: int
    full: int
    """Full rounds, half of them before the partial ones."""
    partial: int
    constants: tuple[Vector, ...]
    """Of each round, added to the state before its S-boxes."""
    mds: Matrix
    dense: Matrix
    """Stands for ``mds`` after the last full round of the first half, where the partial rounds are sparse."""
    sparse: tuple[SparseLayer, ...]
    """The partial rounds."""
    residue: Vector
    """Constants of the first full round of the second half, where the partial rounds are sparse."""


@functools.cache
def poseidon_parameters(field: PrimeField, arity: int) -> PoseidonParameters:
    """The parameters for ``arity`` inputs: width ``arity + 1``."""
    width, p = arity + 1, field.modulus
    full, partial = round_numbers(field.bits, width)
    constants = tuple(round_constants(field, width, full, partial))
    mds = cauchy_matrix(p, width)
    first, last = full // 2, full // 2 + partial
    dense, matrices, blocks = _factor(mds, partial, p)
    sparse, residue = _fold_constants(constants[first:last], matrices, blocks, p)
    after = tuple((c + r) % p for c, r in zip(constants[last], residue, strict=True))
    return PoseidonParameters(field, width, full, partial, constants, mds, dense, sparse, after)


def _factor(mds: Matrix, partial: int, p: int) -> tuple[Matrix, list[tuple[Vector, Vector]], list[Matrix]]:
    """Rewrites the partial rounds' matrix products as sparse ones, from the last round to the first.

    ``M = P Q`` with ``Q = diag(1, M')``, M' being M without its first row and column, leaves P sparse, and Q passes
    through the S-box of element 0 into the round before, whose matrix becomes ``Q M``. Round i then adds ``Q_i c_i``.

    Returns:
        The matrix of the full round before, the first row and column of each P, and each M'.
    """
    matrix, rows, blocks = mds, [], []
    for _ in range(partial):
        block = tuple(row[1:] for row in matrix[1:])
        inverse = _invert(block, p)
        head = matrix[0][1:]
        row = (matrix[0][0], *(_dot(head, column, p) for column in zip(*inverse, strict=True)))
        rows.append((row, tuple(row[0] for row in matrix[1:])))
        blocks.append(block)
        columns = list(zip(*mds, strict=True))
        matrix = (mds[0], *(tuple(_dot(b, c[1:], p) for c in columns) for b in block))
    return matrix, rows[::-1], blocks[::-1]


def _fold_constants(
    constants: tuple[Vector, ...], matrices: list[tuple[Vector, Vector]], blocks: list[Matrix], p: int
) -> tuple[tuple[SparseLayer, ...], Vector]:
    """Moves the constants of the elements without an S-box behind the linear layer, round by round.

    Returns:
        The sparse layers, and what is to be added to the state after them.
    """
    layers: list[SparseLayer] = []
    carried: Vector = (0,) * len(constants[0])
    for (first, *rest), (row, column), block in zip(constants, matrices, blocks, strict=True):
        moved = [(_dot(b, rest, p) + c) % p for b, c in zip(block, carried[1:], strict=True)]
        layers.append(SparseLayer((first + carried[0]) % p, row, column))
        carried = (_dot(row[1:], moved, p), *moved)
    return tuple(layers), carried


def _dot(x: Vector | list[int], y: Vector | list[int], p: int) -> int:
    return sum(a * b for a, b in zip(x, y, strict=True)) % p


def _invert(matrix: Matrix, p: int) -> Matrix:
    """Gauss-Jordan elimination; submatrices of Cauchy matrices and their products here are regular."""
    n = len(matrix)
    rows = [list(row) + [int(i == j) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        factor = pow(rows[i][i], -1, p)
        rows[i] = [x * factor % p for x in rows[i]]
        for k in range(n):
            if k != i and (factor := rows[k][i]):
                rows[k] = [(x - factor * y) % p for x, y in zip(rows[k], rows[i], strict=True)]
    return tuple(tuple(row[n:]) for row in rows)
