"""Variables and linear combinations of them, while a circuit is being recorded.

A variable or register is an integer: its space in the high bits, its index below. Which column of the matrices and
which register of the program it becomes is known only when the circuit is finished (public inputs come first then).
"""

from __future__ import annotations

from enum import IntEnum

_INDEX_BITS = 40
INDEX_MASK = (1 << _INDEX_BITS) - 1


class Space(IntEnum):
    """What an identifier counts."""

    PUBLIC = 0
    """The constant one (index 0) and the public inputs. Plain numbers in an instruction also look like this."""
    PRIVATE = 1
    PARAMETER = 2
    """Of a template."""
    TEMPORARY = 3
    """A register of the program that is no variable."""


ONE = 0
"""The variable that is always one."""


def identifier(space: Space, index: int) -> int:
    """The identifier of this index in this space."""
    return space << _INDEX_BITS | index


def space_of(ident: int) -> Space:
    """The space of an identifier."""
    return Space(ident >> _INDEX_BITS)


PRIVATE = identifier(Space.PRIVATE, 0)
PARAMETER = identifier(Space.PARAMETER, 0)
TEMPORARY = identifier(Space.TEMPORARY, 0)


class Expression:
    """A linear combination of variables, with constants as multiples of the variable ``ONE``.

    Immutable but for ``register``: once the witness program has computed the value, it remembers where.
    """

    __slots__ = ("modulus", "register", "terms")

    def __init__(self, modulus: int, terms: dict[int, int], register: int | None = None) -> None:
        self.modulus = modulus
        self.terms = terms
        """Variable to coefficient in [1, r). No zeros."""
        self.register = register

    @property
    def variable(self) -> int | None:
        """The variable that this is (with coefficient one and nothing else), or None."""
        if len(self.terms) == 1:
            ((ident, coefficient),) = self.terms.items()
            if coefficient == 1:
                return ident
        return None

    @property
    def constant(self) -> int | None:
        """The value, if no variable takes part."""
        if not self.terms:
            return 0
        return self.terms[ONE] if self.terms.keys() == {ONE} else None

    def _add(self, other: Expression | int, factor: int) -> Expression:
        terms = dict(self.terms)
        for ident, coefficient in other.terms.items() if isinstance(other, Expression) else ((ONE, other),):
            total = (terms.get(ident, 0) + factor * coefficient) % self.modulus
            if total:
                terms[ident] = total
            else:
                terms.pop(ident, None)
        return Expression(self.modulus, terms)

    def __add__(self, other: Expression | int) -> Expression:
        return self._add(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Expression | int) -> Expression:
        return self._add(other, -1)

    def __rsub__(self, other: int) -> Expression:
        return (-self)._add(other, 1)

    def __mul__(self, factor: int) -> Expression:
        if not factor % self.modulus:
            return Expression(self.modulus, {})
        return Expression(self.modulus, {i: c * factor % self.modulus for i, c in self.terms.items()})

    __rmul__ = __mul__

    def __neg__(self) -> Expression:
        return self * -1


class Pool:
    """Distinct field elements, numbered in the order of their first use."""

    def __init__(self, *first: int) -> None:
        self.values = list(first)
        self._index = {value: i for i, value in enumerate(first)}

    def index(self, value: int) -> int:
        """The number of this value, which must be reduced."""
        found = self._index.get(value)
        if found is None:
            found = self._index[value] = len(self.values)
            self.values.append(value)
        return found
