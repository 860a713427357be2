"""Fields and groups once more in Python integers, as slowly and plainly as they can be written: the tests' oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from prover.curves import CURVES, Curve, Fp2Element, PrimeField, fields
from prover.field import Point
from prover.native import FieldId, GroupId

Element = Any
"""An integer, or a pair of them for Fp2."""


@dataclass(frozen=True)
class Ints:
    """The prime field of integers modulo p."""

    p: int
    degree = 1
    zero = 0
    one = 1

    def add(self, a: int, b: int) -> int:
        return (a + b) % self.p

    def sub(self, a: int, b: int) -> int:
        return (a - b) % self.p

    def mul(self, a: int, b: int) -> int:
        return a * b % self.p

    def inv(self, a: int) -> int:
        """The inverse; zero for zero."""
        return pow(a, -1, self.p) if a else 0

    def sqrt(self, a: int) -> int | None:
        """A square root if there is one; p = 3 mod 4."""
        root = pow(a, (self.p + 1) // 4, self.p)
        return root if root * root % self.p == a else None


@dataclass(frozen=True)
class Pairs:
    """Fp2 = Fp[u]/(u^2 + 1)."""

    p: int
    degree = 2
    zero = (0, 0)
    one = (1, 0)

    def add(self, a: Fp2Element, b: Fp2Element) -> Fp2Element:
        return (a[0] + b[0]) % self.p, (a[1] + b[1]) % self.p

    def sub(self, a: Fp2Element, b: Fp2Element) -> Fp2Element:
        return (a[0] - b[0]) % self.p, (a[1] - b[1]) % self.p

    def mul(self, a: Fp2Element, b: Fp2Element) -> Fp2Element:
        return (a[0] * b[0] - a[1] * b[1]) % self.p, (a[0] * b[1] + a[1] * b[0]) % self.p

    def inv(self, a: Fp2Element) -> Fp2Element:
        """The inverse; zero for zero."""
        norm = Ints(self.p).inv((a[0] * a[0] + a[1] * a[1]) % self.p)
        return a[0] * norm % self.p, -a[1] * norm % self.p

    def pow(self, a: Fp2Element, e: int) -> Fp2Element:
        result = self.one
        for bit in bin(e)[2:]:
            result = self.mul(result, result)
            if bit == "1":
                result = self.mul(result, a)
        return result

    def sqrt(self, a: Fp2Element) -> Fp2Element | None:
        """A square root if there is one, by way of the norm's root."""
        base = Ints(self.p)
        norm = base.sqrt((a[0] * a[0] + a[1] * a[1]) % self.p)
        if norm is None:
            return None
        half = pow(2, -1, self.p)
        for n in (norm, -norm):
            c0 = base.sqrt((a[0] + n) * half % self.p)
            if c0 is None:
                continue
            candidates = [(c0, a[1] * half * base.inv(c0) % self.p), (0, base.sqrt(-a[0] % self.p) or 0)]
            for root in candidates:
                if self.mul(root, root) == a:
                    return root
        return None


def element_fields() -> Iterator[tuple[FieldId, Ints | Pairs, PrimeField]]:
    """Every field of the host library, its oracle, and the prime field below it."""
    for index, prime in enumerate(fields()):
        yield FieldId(index), Ints(prime.modulus), prime
    for c in CURVES:
        yield FieldId(4 + c.index), Pairs(c.fp.modulus), c.fp


class Group:
    """The points of a curve (group 1) or of its twist (group 2), affine; None is infinity."""

    def __init__(self, curve: Curve, group: GroupId) -> None:
        self.curve = curve
        self.group = group
        self.f: Any = Ints(curve.fp.modulus) if group == 1 else Pairs(curve.fp.modulus)
        self.b: Element = curve.b if group == 1 else curve.b2
        self.generator = cast("Point", curve.g1 if group == 1 else curve.g2)
        self.r = curve.fr.modulus

    def contains(self, p: Point) -> bool:
        """Whether the point satisfies the equation."""
        return p is None or self.f.mul(p[1], p[1]) == self.right_side(p[0])

    def right_side(self, x: Element) -> Element:
        """x^3 + b."""
        return self.f.add(self.f.mul(self.f.mul(x, x), x), self.b)

    def neg(self, p: Point) -> Point:
        return None if p is None else cast("Point", (p[0], self.f.sub(self.f.zero, p[1])))

    def add(self, p: Point, q: Point) -> Point:
        """Chord and tangent."""
        f = self.f
        if p is None or q is None:
            return q if p is None else p
        if p[0] == q[0]:
            if p[1] != q[1] or p[1] == f.zero:
                return None
            xx = f.mul(p[0], p[0])
            slope = f.mul(f.add(xx, f.add(xx, xx)), f.inv(f.add(p[1], p[1])))
        else:
            slope = f.mul(f.sub(q[1], p[1]), f.inv(f.sub(q[0], p[0])))
        x = f.sub(f.sub(f.mul(slope, slope), p[0]), q[0])
        return cast("Point", (x, f.sub(f.mul(slope, f.sub(p[0], x)), p[1])))

    def mul(self, k: int, p: Point) -> Point:
        """k times p, for any integer k; no reduction modulo the order."""
        if k < 0:
            k, p = -k, self.neg(p)
        result: Point = None
        for bit in bin(k)[2:]:
            result = self.add(result, result)
            if bit == "1":
                result = self.add(result, p)
        return result

    def random_point(self, rng: random.Random) -> Point:
        """A point of the curve, as a rule outside the subgroup of order r."""
        p = self.curve.fp.modulus
        while True:
            x: Element = rng.randrange(p) if self.group == 1 else (rng.randrange(p), rng.randrange(p))
            y = self.f.sqrt(self.right_side(x))
            if y is not None:
                return cast("Point", (x, y))

    @property
    def order(self) -> int:
        """The number of points, from the curve's parameter x alone."""
        p, r, x = self.curve.fp.modulus, self.r, self.curve.x
        if self.curve.name == "bn254":
            return r if self.group == 1 else r * (2 * p - r)  # trace 6x^2 + 1 = p + 1 - r
        return r * self.cofactor_bls(x)

    def cofactor_bls(self, x: int) -> int:
        """The cofactors of the BLS12 family."""
        if self.group == 1:
            return (x - 1) ** 2 // 3
        return (x**8 - 4 * x**7 + 5 * x**6 - 4 * x**4 + 6 * x**3 - 4 * x**2 - 4 * x + 13) // 9

    def cofactor(self) -> int:
        """How many times the order of the curve is that of the subgroup."""
        return self.order // self.r
