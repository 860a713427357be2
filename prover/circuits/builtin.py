"""The built-in circuits by name: their counts at once, their matrices and inputs when asked for.

``poseidon-merkle-N`` and ``range-check-N`` fill a domain of 2^N rows, 10 <= N <= 20. The first proves Poseidon paths in
binary trees (2^(N-12) of them in a tree of 8192 leaves, 4084 constraints each; below 2^12 one shorter path) and has a
dense witness; that of the second is mostly bits.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prover.circuits.circuit import Circuit, U64Array
from prover.circuits.merkle import MerkleShape
from prover.circuits.range_check import AMOUNT_BITS, RangeCheckShape
from prover.curves import BLS12_381, Curve
from prover.device.values import Capability
from prover.errors import InputError

LOG_SIZES = range(10, 21)
DEFAULT = "poseidon-merkle-13"
DEFAULT_ON_GPU = "poseidon-merkle-18"
"""A partition of the smaller one is over before a GPU's samplers see it."""
_GPU_BYTES = 4 << 30


def default_for(capability: Capability) -> str:
    """The circuit that is proved on such a device if none is named."""
    if capability.kind == "cuda" and capability.memory_bytes >= _GPU_BYTES:
        return DEFAULT_ON_GPU
    return DEFAULT


class Shape(Protocol):
    """A circuit's size, what can be said of it without its matrices, and how it is made."""

    @property
    def n_constraints(self) -> int:
        """Without the input rows."""

    @property
    def n_public(self) -> int:
        """Without the constant one."""

    @property
    def n_variables(self) -> int:
        """With the constant one."""

    def build(self, name: str) -> Circuit:
        """The circuit."""

    def random_inputs(self, circuit: Circuit, seed: int) -> U64Array:
        """Inputs that satisfy it, the same for the same seed."""


@dataclass(frozen=True, slots=True)
class BuiltinCircuit:
    """A circuit that needs no files."""

    name: str
    curve: Curve
    shape: Shape

    @property
    def n_constraints(self) -> int:
        """Without the input rows."""
        return self.shape.n_constraints

    @property
    def n_public(self) -> int:
        """Without the constant one."""
        return self.shape.n_public

    @property
    def n_variables(self) -> int:
        """With the constant one."""
        return self.shape.n_variables

    @property
    def rows(self) -> int:
        """Constraints and input rows."""
        return self.n_constraints + self.n_public + 1

    @property
    def log_domain(self) -> int:
        """Logarithm of the evaluation domain."""
        return (self.rows - 1).bit_length()

    def build(self) -> Circuit:
        """The circuit itself: some tenths of a second at 2^16."""
        return self.shape.build(self.name)

    def random_inputs(self, circuit: Circuit, seed: int) -> U64Array:
        """Inputs of one partition that satisfy the circuit (which ``build`` made), the same for the same seed."""
        return self.shape.random_inputs(circuit, seed)


def _merkle(curve: Curve, log_size: int) -> Shape:
    if log_size < 12:
        return MerkleShape(curve, 2, depth=3 * (log_size - 9), challenges=1)
    return MerkleShape(curve, 2, depth=13, challenges=1 << (log_size - 12))


def _range_check(curve: Curve, log_size: int) -> Shape:
    return RangeCheckShape(curve, ((1 << log_size) - 3) // (AMOUNT_BITS + 1))


_FAMILIES: dict[str, Callable[[Curve, int], Shape]] = {"poseidon-merkle": _merkle, "range-check": _range_check}


def builtin_names() -> list[str]:
    """Every name that ``builtin`` knows."""
    return [f"{family}-{log_size}" for family in _FAMILIES for log_size in LOG_SIZES]


def builtin(name: str, curve: Curve = BLS12_381) -> BuiltinCircuit:
    """The built-in circuit of this name. Building it is another step.

    Raises:
        InputError: if there is none.
    """
    names = builtin_names()
    if name in names:
        family, _, size = name.rpartition("-")
        return BuiltinCircuit(name, curve, _FAMILIES[family](curve, int(size)))
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise InputError("unknown circuit", name, hint)
