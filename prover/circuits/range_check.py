"""Secret amounts of 64 bits with a public sum: a circuit whose witness is mostly bits."""

from __future__ import annotations

import random
from dataclasses import dataclass

from prover.circuits.builder import Builder
from prover.circuits.circuit import Circuit, U64Array
from prover.circuits.gadgets import decompose
from prover.curves import Curve

AMOUNT_BITS = 64


@dataclass(frozen=True, slots=True)
class RangeCheckShape:
    """The size of a range-check circuit, with its counts, which need no matrices."""

    curve: Curve
    amounts: int

    @property
    def n_constraints(self) -> int:
        """Without the input rows: 64 booleans and their packing for each amount, and the sum."""
        return self.amounts * (AMOUNT_BITS + 1) + 1

    @property
    def n_public(self) -> int:
        """Without the constant one."""
        return 1

    @property
    def n_variables(self) -> int:
        """With the constant one."""
        return 2 + self.amounts * (AMOUNT_BITS + 1)

    def build(self, name: str) -> Circuit:
        """The circuit. Inputs: ``total``, public; ``amount``, private."""
        builder = Builder(self.curve)
        total = builder.input("total", public=True)
        amounts = builder.inputs("amount", (self.amounts,))
        amount = builder.template("amount", 1)
        decompose(amount, amount.parameters[0], AMOUNT_BITS)
        builder.stamp(amount.close(), amounts[:, None])
        with builder.region("total"):
            builder.require_equal(builder.sum(builder.variable(i) for i in amounts), total)
        return builder.finish(name)

    def random_inputs(self, circuit: Circuit, seed: int) -> U64Array:
        """Inputs that satisfy it."""
        rng = random.Random(seed)
        amounts = [rng.randrange(1 << AMOUNT_BITS) for _ in range(self.amounts)]
        return circuit.pack_inputs(total=sum(amounts), amount=amounts)
