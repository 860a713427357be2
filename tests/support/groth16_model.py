"""Groth16 with its groups replaced by their exponents: what every point of a key and of a proof must be, in Fr.

Written straight from the paper (Groth 2016, section 3.2) with naive polynomial arithmetic: no NTT, no H basis, no
domain tricks, so that it shares nothing with the code under test.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prover.curves import Curve

Row = dict[int, int]


@dataclass(frozen=True)
class Model:
    """An R1CS: wire 0 is one, wires 1..n_public are public."""

    curve: Curve
    n_wires: int
    n_public: int
    constraints: tuple[tuple[Row, Row, Row], ...]

    @property
    def r(self) -> int:
        return self.curve.fr.modulus

    @property
    def rows(self) -> list[tuple[Row, Row, Row]]:
        """Constraints, then an input row for the one and each public wire."""
        return [*self.constraints, *(({s: 1}, {}, {}) for s in range(self.n_public + 1))]

    @property
    def log_n(self) -> int:
        return (len(self.rows) - 1).bit_length()


@dataclass(frozen=True)
class Trapdoor:
    tau: int
    alpha: int
    beta: int
    gamma: int
    delta: int


@dataclass(frozen=True)
class Exponents:
    """Discrete logarithms of a key's points."""

    a: list[int]
    b: list[int]
    l: list[int]  # noqa: E741
    ic: list[int]
    domain_at_tau: int
    """Z(tau)."""


def lagrange_at(model: Model, tau: int) -> list[int]:
    """Every Lagrange polynomial of the domain at tau, by the closed form."""
    r, n = model.r, 1 << model.log_n
    root = model.curve.root_of_unity(model.log_n)
    z = (pow(tau, n, r) - 1) * pow(n, -1, r) % r
    return [z * pow(root, i, r) * pow(tau - pow(root, i, r), -1, r) % r for i in range(n)]


def columns_at(model: Model, tau: int) -> list[list[int]]:
    """For A, B, C: the polynomial of each wire at tau."""
    out = [[0] * model.n_wires for _ in range(3)]
    for u, row in zip(lagrange_at(model, tau), model.rows, strict=False):
        for matrix, entries in zip(out, row, strict=True):
            for wire, value in entries.items():
                matrix[wire] = (matrix[wire] + u * value) % model.r
    return out


def setup(model: Model, t: Trapdoor) -> Exponents:
    r = model.r
    a, b, c = columns_at(model, t.tau)
    mixed = [(t.beta * x + t.alpha * y + z) % r for x, y, z in zip(a, b, c, strict=True)]
    split = model.n_public + 1
    return Exponents(
        a=a,
        b=b,
        l=[x * pow(t.delta, -1, r) % r for x in mixed[split:]],
        ic=[x * pow(t.gamma, -1, r) % r for x in mixed[:split]],
        domain_at_tau=(pow(t.tau, 1 << model.log_n, r) - 1) % r,
    )


def prove(model: Model, t: Trapdoor, witness: list[int], blind_r: int, blind_s: int) -> tuple[int, int, int]:
    """Exponents of A, B, C of the proof."""
    r = model.r
    at = [sum(x * w for x, w in zip(column, witness, strict=True)) % r for column in columns_at(model, t.tau)]
    a = (t.alpha + at[0] + blind_r * t.delta) % r
    b = (t.beta + at[1] + blind_s * t.delta) % r
    key = setup(model, t)
    private = sum(x * w for x, w in zip(key.l, witness[model.n_public + 1 :], strict=True))
    quotient = (at[0] * at[1] - at[2]) * pow(t.delta, -1, r)  # H(tau) Z(tau) / delta
    return a, b, (private + quotient + blind_s * a + blind_r * b - blind_r * blind_s * t.delta) % r


def accepts(model: Model, t: Trapdoor, public: list[int], proof: tuple[int, int, int]) -> bool:
    """The verifying equation, in exponents."""
    ic = setup(model, t).ic
    statement = sum(x * w for x, w in zip(ic, [1, *public], strict=True))
    a, b, c = proof
    return (a * b - t.alpha * t.beta - statement * t.gamma - c * t.delta) % model.r == 0


def satisfied(model: Model, witness: list[int]) -> bool:
    def dot(row: Row) -> int:
        return sum(v * witness[w] for w, v in row.items()) % model.r

    return all((dot(a) * dot(b) - dot(c)) % model.r == 0 for a, b, c in model.constraints)


def sample(
    curve: Curve, rng: random.Random, n_constraints: int, n_public: int, n_wires: int, *, bits: float = 0.3
) -> tuple[Model, list[int]]:
    """A random satisfiable circuit and its witness: a share ``bits`` of the wires is 0 or 1, coefficients are often 1
    or -1, some rows are empty, some wires are in no row."""
    r = curve.fr.modulus
    witness = [1]
    for _ in range(n_wires - 1):
        witness.append(rng.choice([0, 1]) if rng.random() < bits else rng.choice([rng.randrange(r), r - 1, 2]))

    def row(most: int) -> Row:
        wires = rng.sample(range(n_wires), min(n_wires, rng.randint(0, most)))
        return {w: rng.choice([1, r - 1, rng.randrange(1, r)]) for w in wires}

    def dot(entries: Row) -> int:
        return sum(v * witness[w] for w, v in entries.items()) % r

    constraints = []
    for _ in range(n_constraints):
        a, b, c = row(4), row(3), row(2)
        c.pop(0, None)
        rest = (dot(a) * dot(b) - dot(c)) % r
        if rest:
            c[0] = rest
        constraints.append((a, b, c))
    return Model(curve, n_wires, n_public, tuple(constraints)), witness


def trapdoor(curve: Curve, rng: random.Random) -> Trapdoor:
    return Trapdoor(*(rng.randrange(2, curve.fr.modulus) for _ in range(5)))
