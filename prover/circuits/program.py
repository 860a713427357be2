"""Witness programs: what a circuit's gadgets recorded, run natively once per proof.

A program is a flat list of instructions, four 32-bit words each: ``op, dst, a, b``. It works on a file of registers,
each one element of Fr: the first ``n_variables`` are the witness (register 0 is the constant one), the rest are
temporaries. There are no jumps: a circuit's witness takes the same path for every input. Registers and constants are in
Montgomery form while the program runs; inputs come canonical, and the witness leaves canonical.

========================  ========================================================================================
``INPUT dst first count``  ``r[dst + i] = inputs[first + i]`` for i < count; fails on an input not below the modulus
``CONSTANT dst c``         ``r[dst] = k[c]``
``COPY dst a``             ``r[dst] = r[a]``
``ADD dst a b``            ``r[dst] = r[a] + r[b]``
``SUBTRACT dst a b``       ``r[dst] = r[a] - r[b]``
``MULTIPLY dst a b``       ``r[dst] = r[a] * r[b]``
``SCALE dst a c``          ``r[dst] = r[a] * k[c]``
``ACCUMULATE dst a c``     ``r[dst] = r[dst] + r[a] * k[c]``
``OFFSET dst a c``         ``r[dst] = r[a] + k[c]``
``FIFTH dst a``            ``r[dst], r[dst + 1], r[dst + 2] = r[a]^2, r[a]^4, r[a]^5``
``BITS dst a m``           ``r[dst + i] = bit (first + i) of r[a]``, canonical, for i < count; m = first * 2^16 + count
``INVERT dst a``           ``r[dst] = 1 / r[a]``, and 0 if r[a] is 0
``REQUIRE_EQUAL _ a b``    fails unless ``r[a] == r[b]``
``REQUIRE_BOOLEAN _ a``    fails unless ``r[a]`` is 0 or 1
========================  ========================================================================================

Registers that nothing wrote hold 0. The native machine (``kernels/host/program.cpp``) checks every operand's range.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from prover import native
from prover.cancel import CancelToken
from prover.curves import Curve
from prover.errors import InputError

U32Array = npt.NDArray[np.uint32]
U64Array = npt.NDArray[np.uint64]


class Op(IntEnum):
    """The instructions, by number."""

    INPUT = 0
    CONSTANT = 1
    COPY = 2
    ADD = 3
    SUBTRACT = 4
    MULTIPLY = 5
    SCALE = 6
    ACCUMULATE = 7
    OFFSET = 8
    FIFTH = 9
    BITS = 10
    INVERT = 11
    REQUIRE_EQUAL = 12
    REQUIRE_BOOLEAN = 13


def bit_range(first: int, count: int) -> int:
    """The last word of ``BITS``."""
    if not (0 <= first < 1 << 16 and 0 < count < 1 << 16):
        raise ValueError(f"bits {first}..{first + count} cannot be encoded")
    return first << 16 | count


class ProgramError(InputError):
    """An instruction could not be carried out on these inputs.

    Attributes:
        instruction: its index.
    """

    def __init__(self, instruction: int, op: str, why: str) -> None:
        self.instruction = instruction
        where = f"instruction {instruction} ({op})"
        super().__init__(f"no witness for these inputs: {why}", where, "correct the inputs")


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A recorded witness program."""

    curve: Curve
    code: U32Array
    """``uint32[n, 4]``: op, dst, a, b."""
    constants: U64Array
    """``uint64[k, 4]``, Montgomery."""
    n_inputs: int
    n_variables: int
    """Length of the witness, the constant one included."""
    n_values: int
    """Registers: witness and temporaries."""

    def __post_init__(self) -> None:
        if self.code.ndim != 2 or self.code.shape[1] != 4 or self.code.dtype != np.uint32:
            raise ValueError(f"code is {self.code.dtype}{self.code.shape}, not uint32[n, 4]")
        if not 1 <= self.n_variables <= self.n_values:
            raise ValueError(f"{self.n_variables} variables in {self.n_values} registers")

    @property
    def n_instructions(self) -> int:
        """Length of the program."""
        return len(self.code)

    def run(self, inputs: U64Array, cancel: CancelToken | None = None) -> U64Array:
        """The witness for these inputs.

        Args:
            inputs: ``uint64[n_inputs, 4]``, canonical.
            cancel: asks to stop.

        Returns:
            ``uint64[n_variables, 4]``, canonical; element 0 is one.

        Raises:
            ProgramError: if an instruction fails on these inputs.
            prover.cancel.Cancelled: if asked to stop.
        """
        if inputs.shape != (self.n_inputs, 4):
            raise ValueError(f"inputs have shape {inputs.shape}, not ({self.n_inputs}, 4)")
        values = np.empty((self.n_values, 4), dtype=np.uint64)
        fault = native.program_run(self.curve, self.code, self.constants, inputs, values, self.n_variables, cancel)
        if fault is not None:
            instruction, why = fault
            raise ProgramError(instruction, Op(int(self.code[instruction, 0])).name, why)
        return values[: self.n_variables]
