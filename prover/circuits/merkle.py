"""Poseidon Merkle paths: that known leaves stand at public positions of a tree with a public root.

One circuit proves some challenges, each a leaf, its position and its path. The position is one public input, packed
from the path's bits, as in Filecoin's proofs of inclusion; the root is one public input for all challenges.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover.cancel import CancelToken
from prover.circuits.builder import Builder
from prover.circuits.circuit import Circuit, U64Array
from prover.circuits.gadgets import decompose, insert
from prover.circuits.poseidon import poseidon_constraints, poseidon_gadget
from prover.circuits.program import Program
from prover.circuits.template import Template
from prover.curves import Curve
from prover.field import pack, unpack

INSERTION_CONSTRAINTS = {2: 2, 4: 8, 8: 22}
"""By arity: ``gadgets.insert``."""


@dataclass(frozen=True, slots=True)
class MerkleShape:
    """The size of a Merkle-path circuit, with its counts, which need no matrices."""

    curve: Curve
    arity: int
    """2, 4 or 8."""
    depth: int
    """Levels above the leaves."""
    challenges: int

    def __post_init__(self) -> None:
        if self.arity not in INSERTION_CONSTRAINTS:
            raise ValueError(f"arity {self.arity}: 2, 4 or 8")
        if self.depth < 1 or self.challenges < 1 or self.index_bits >= self.curve.fr.bits:
            raise ValueError(f"no tree of depth {self.depth} with {self.challenges} challenges")

    @property
    def level_bits(self) -> int:
        """Bits of a position within a node."""
        return self.arity.bit_length() - 1

    @property
    def index_bits(self) -> int:
        """Bits of a leaf's position."""
        return self.depth * self.level_bits

    @property
    def level_constraints(self) -> int:
        """Constraints of one level of a path: booleans, insertion, hash."""
        return self.level_bits + INSERTION_CONSTRAINTS[self.arity] + poseidon_constraints(self.curve.fr, self.arity)

    @property
    def path_constraints(self) -> int:
        """Constraints of one challenge: its levels, the packed position, the root."""
        return self.depth * self.level_constraints + 2

    @property
    def n_constraints(self) -> int:
        """Without the input rows."""
        return self.challenges * self.path_constraints

    @property
    def n_public(self) -> int:
        """Without the constant one."""
        return 1 + self.challenges

    @property
    def n_variables(self) -> int:
        """With the constant one: every constraint but two a path and the booleans' own allocates one."""
        given = 1 + self.depth * (self.arity - 1)
        return 1 + self.n_public + self.challenges * (self.path_constraints - 2 + given)

    def build(self, name: str) -> Circuit:
        """The circuit."""
        return merkle_circuit(self, name)

    def random_inputs(self, circuit: Circuit, seed: int) -> U64Array:
        """Inputs that satisfy it."""
        return random_inputs(circuit, self, seed)


def merkle_circuit(shape: MerkleShape, name: str = "poseidon-merkle") -> Circuit:
    """The circuit of this shape.

    Inputs: ``root`` and ``index`` (one a challenge) are public; ``leaf`` and ``siblings`` (challenge, level, place
    among the others) are private.
    """
    builder = Builder(shape.curve)
    root = builder.inputs("root", (1,), public=True)
    index = builder.inputs("index", (shape.challenges,), public=True)
    leaf = builder.inputs("leaf", (shape.challenges,))
    siblings = builder.inputs("siblings", (shape.challenges, shape.depth, shape.arity - 1))
    path = _path_template(builder, shape)
    arguments = np.column_stack(
        [np.repeat(root, shape.challenges), index, leaf, siblings.reshape(shape.challenges, -1)],
    )
    builder.stamp(path, arguments, "challenge")
    return builder.finish(name)


def _path_template(builder: Builder, shape: MerkleShape) -> Template:
    """Parameters: root, index, leaf, then the siblings level by level."""
    others = shape.arity - 1
    level = _level_template(builder, shape)
    path = builder.template("path", 3 + shape.depth * others)
    root, index, leaf, *siblings = path.parameters
    with path.region("index"):
        bits = decompose(path, index, shape.index_bits)
    node = leaf
    for i in range(shape.depth):
        arguments = [
            node,
            *siblings[i * others : (i + 1) * others],
            *bits[i * shape.level_bits : (i + 1) * shape.level_bits],
        ]
        ((digest,),) = path.stamp(level, np.array([[path.register(x) for x in arguments]]), f"level {i}")
        node = path.variable(digest)
    with path.region("root"):
        path.require_equal(node, root)
    return path.close(node)


def _level_template(builder: Builder, shape: MerkleShape) -> Template:
    """Parameters: the node below, its siblings, the bits of its position. Output: the node above."""
    level = builder.template("level", shape.arity + shape.level_bits)
    node, *rest = level.parameters
    siblings, bits = rest[: shape.arity - 1], rest[shape.arity - 1 :]
    with level.region("insertion"):
        children = insert(level, node, siblings, bits)
    with level.region(f"poseidon-{shape.arity}"):
        digest = poseidon_gadget(level, children)
    return level.close(digest)


@functools.lru_cache(maxsize=8)
def _hash_program(curve: Curve, arity: int, count: int) -> tuple[Program, npt.NDArray[np.int64]]:
    """A program that hashes ``count`` nodes at once, and where its witness holds their digests."""
    builder = Builder(curve)
    children = builder.inputs("children", (count, arity))
    template = builder.template("poseidon", arity)
    digest = poseidon_gadget(template, template.parameters)
    digests = builder.stamp(template.close(digest), children)
    return builder.finish("poseidon").program, builder.columns(digests.ravel())


def hash_nodes(curve: Curve, children: U64Array, cancel: CancelToken | None = None) -> U64Array:
    """The nodes above these children, natively.

    Args:
        curve: over whose Fr.
        children: ``uint64[count, arity, 4]``, canonical.
        cancel: asks to stop.

    Returns:
        ``uint64[count, 4]``, canonical.
    """
    count, arity, limbs = children.shape
    program, digests = _hash_program(curve, arity, count)
    return program.run(np.ascontiguousarray(children).reshape(count * arity, limbs), cancel)[digests]


def random_inputs(circuit: Circuit, shape: MerkleShape, seed: int) -> U64Array:
    """Inputs that satisfy the circuit: random leaves at random positions of one random tree, and their paths.

    Only the part of the tree that the paths touch is made; what lies beside them is random. The same seed gives the
    same inputs.
    """
    rng, fr, arity = random.Random(seed), shape.curve.fr, shape.arity
    index = [rng.randrange(arity**shape.depth) for _ in range(shape.challenges)]
    nodes = {position: rng.randrange(fr.modulus) for position in index}
    leaf = [nodes[position] for position in index]
    siblings: list[list[list[int]]] = [[] for _ in index]
    at = index
    for _ in range(shape.depth):
        families = {
            parent: [
                nodes[child] if child in nodes else rng.randrange(fr.modulus)
                for child in range(parent * arity, (parent + 1) * arity)
            ]
            for parent in sorted({position // arity for position in at})
        }
        for path, position in zip(siblings, at, strict=True):
            family, own = families[position // arity], position % arity
            path.append(family[:own] + family[own + 1 :])
        # Always the same number of hashes, so that one program serves every level.
        children = [*families.values(), *([[0] * arity] * (shape.challenges - len(families)))]
        packed = pack([x for family in children for x in family], fr, "canonical").reshape(-1, arity, 4)
        nodes = dict(zip(families, unpack(hash_nodes(shape.curve, packed), fr, "canonical"), strict=False))
        at = [position // arity for position in at]
    return circuit.pack_inputs(root=[nodes[0]], index=index, leaf=leaf, siblings=siblings)
