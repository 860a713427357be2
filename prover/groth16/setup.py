"""A single-party setup, for development: whoever runs it knows the trapdoor and could forge proofs.

The exponents of every query are computed in Fr (``exponents``), then multiplied into the groups by a fixed-base table.
Lagrange polynomials at a point are an inverse transform of the point's powers: interpolation is linear, and the matrix
of an inverse transform is symmetric.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from prover import native
from prover.cancel import CancelToken
from prover.csr import PLUS_ONE, CsrMatrix
from prover.curves import Curve
from prover.device.host import HostDevice
from prover.errors import InputError
from prover.field import convert, pack, pack_points
from prover.fixed_base import FixedBasePlan
from prover.formats.zkey import Zkey
from prover.native import FieldOp, GroupId
from prover.ntt import montgomery_bytes

if TYPE_CHECKING:
    from prover.circuits.circuit import Circuit
    from prover.device.protocol import Device, Stream
    from prover.formats.r1cs import R1cs

Words = npt.NDArray[np.uint64]
Progress = Callable[[str, float | None], None]

_CHUNK = 1 << 15
"""Points of one call, so that progress moves and a cancel is heard."""
_G2_WEIGHT = 3
"""Cost of a point in G2 over one in G1, for progress."""


@dataclass(frozen=True, slots=True)
class ConstraintSystem:
    """A rank-1 constraint system: wire 0 is one, then the public inputs, then the private ones.

    Rows: the constraints, then one for the one and each public input, with coefficient 1 in A and nothing in B and C.
    (They keep the public inputs' polynomials independent of the others.) All three matrices have ``rows`` rows.
    """

    curve: Curve
    n_wires: int
    n_public: int
    n_constraints: int
    a: CsrMatrix
    b: CsrMatrix
    c: CsrMatrix

    @classmethod
    def of_circuit(cls, circuit: Circuit) -> ConstraintSystem:
        """Of a built-in circuit."""
        return cls(
            circuit.curve,
            circuit.n_variables,
            circuit.n_public,
            circuit.n_constraints,
            circuit.a,
            circuit.b,
            circuit.c,
        )

    @classmethod
    def of_r1cs(cls, r1cs: R1cs) -> ConstraintSystem:
        """Of a circom circuit, which has no input rows yet."""
        inputs = r1cs.n_public + 1
        return cls(
            curve=r1cs.curve,
            n_wires=r1cs.n_wires,
            n_public=r1cs.n_public,
            n_constraints=r1cs.n_constraints,
            a=_with_rows(r1cs.a, np.arange(inputs, dtype=np.uint32), 1),
            b=_with_rows(r1cs.b, np.arange(inputs, dtype=np.uint32), 0),
            c=_with_rows(r1cs.c, np.arange(inputs, dtype=np.uint32), 0),
        )

    @property
    def rows(self) -> int:
        """Constraints and input rows."""
        return self.n_constraints + self.n_public + 1

    @property
    def log_n(self) -> int:
        """The domain is the least power of two that holds the rows."""
        return (self.rows - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Trapdoor:
    """The five secrets of a setup. Never stored."""

    tau: int
    alpha: int
    beta: int
    gamma: int
    delta: int

    @classmethod
    def draw(cls, curve: Curve, log_n: int, entropy: bytes | None = None) -> Trapdoor:
        """From the system's generator, or derived from ``entropy`` (tests, and keys that anyone may make again).

        None is zero, and tau is not in the domain.
        """
        seed = os.urandom(64) if entropy is None else entropy
        values: list[int] = []
        counter = 0
        while len(values) < 5:
            block = hashlib.sha512(b"cuzk-top setup 1" + counter.to_bytes(8, "little") + seed).digest()
            counter += 1
            value = int.from_bytes(block, "little") % curve.fr.modulus
            if value and not (not values and pow(value, 1 << log_n, curve.fr.modulus) == 1):
                values.append(value)
        return cls(*values)


@dataclass(frozen=True, slots=True)
class Exponents:
    """Discrete logarithms of a key's queries, canonical, ``uint64[n, 4]``."""

    a: Words
    b: Words
    l: Words  # noqa: E741 - the query's name
    h: Words
    ic: Words


def setup(
    system: ConstraintSystem,
    *,
    entropy: bytes | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    device: Device | None = None,
) -> Zkey:
    """Make a proving key, in memory, in the form of a snarkjs key without contributions.

    Args:
        system: the constraint system.
        entropy: makes the key reproducible by anyone who knows it; random by default.
        threads: processor threads.
        progress: called with what is being made and the share done.
        cancel: asks to stop.
        device: where the queries' points are made; the host by default.

    Raises:
        InputError: if the circuit is larger than any evaluation domain of its curve.
        Cancelled: if asked.
    """
    curve = system.curve
    if system.log_n > curve.fr.two_adicity:
        raise InputError(
            f"{system.n_constraints} constraints are more than a domain of {curve.spelling} holds", "setup", "split it"
        )
    report = progress or (lambda what, share: None)
    report("evaluating the polynomials", None)
    trapdoor = Trapdoor.draw(curve, system.log_n, entropy)
    exponents = query_exponents(system, trapdoor, threads, cancel)
    device = device or HostDevice(threads)
    stream = device.stream("setup", threads, cancel)
    return _commit(system, trapdoor, exponents, device, stream, report)


def query_exponents(
    system: ConstraintSystem, t: Trapdoor, threads: int = 1, cancel: CancelToken | None = None
) -> Exponents:
    """The exponents of every query for these secrets."""
    curve, r = system.curve, system.curve.fr.modulus
    basis = lagrange_at(curve, system.log_n, t.tau, threads, cancel)
    a, b, c = (_columns(system, m, basis, threads, cancel) for m in (system.a, system.b, system.c))
    mixed = _op(curve, FieldOp.ADD, _scale(curve, a, t.beta), _scale(curve, b, t.alpha))
    mixed = _op(curve, FieldOp.ADD, mixed, c)
    split = system.n_public + 1
    return Exponents(
        a=_canonical(curve, a),
        b=_canonical(curve, b),
        l=_canonical(curve, _scale(curve, mixed[split:], pow(t.delta, -1, r))),
        h=_canonical(curve, _h_basis(curve, system.log_n, t, threads, cancel)),
        ic=_canonical(curve, _scale(curve, mixed[:split], pow(t.gamma, -1, r))),
    )


def lagrange_at(curve: Curve, log_n: int, point: int, threads: int = 1, cancel: CancelToken | None = None) -> Words:
    """Every Lagrange polynomial of the domain of 2^log_n points at ``point``: ``uint64[n, 4]``, Montgomery."""
    values = powers(curve, point, 1 << log_n)
    root = montgomery_bytes(curve, curve.root_of_unity(log_n))
    native.ntt(curve, values, root, inverse=True, threads=threads, cancel=cancel)
    return values


def powers(curve: Curve, base: int, n: int) -> Words:
    """``base**0 .. base**(n-1)``, n a power of two: ``uint64[n, 4]``, Montgomery."""
    out = np.zeros((n, curve.fr.limbs), dtype=np.uint64)
    out[0] = _constant(curve, 1)
    size, step = 1, base % curve.fr.modulus
    while size < n:
        native.field_op(native.fr(curve), FieldOp.MUL, out[:size], _repeat(curve, step, size), out[size : 2 * size])
        size, step = 2 * size, step * step % curve.fr.modulus
    return out


def _h_basis(curve: Curve, log_n: int, t: Trapdoor, threads: int, cancel: CancelToken | None) -> Words:
    """Z(tau) L_i(tau / g) / (Z(g) delta): the coset's Lagrange basis at tau, times what division by Z leaves out.

    Z is (g**n - 1) everywhere on the coset of g.
    """
    r, n = curve.fr.modulus, 1 << log_n
    shift = curve.coset_shift(log_n)
    basis = lagrange_at(curve, log_n, t.tau * pow(shift, -1, r) % r, threads, cancel)
    z_tau, z_coset = pow(t.tau, n, r) - 1, pow(shift, n, r) - 1
    return _scale(curve, basis, z_tau * pow(z_coset * t.delta, -1, r) % r)


def _columns(
    system: ConstraintSystem, matrix: CsrMatrix, basis: Words, threads: int, cancel: CancelToken | None
) -> Words:
    """The polynomial of each wire at tau: the transposed matrix times the Lagrange basis, Montgomery."""
    t = _transposed(matrix, system.n_wires)
    vector = _canonical(system.curve, basis[: matrix.rows])
    out = np.empty((system.n_wires, system.curve.fr.limbs), dtype=np.uint64)
    native.spmv(system.curve, t.row_ptr, t.col, t.coef, t.table, vector, out, threads, cancel)
    return out


def _transposed(matrix: CsrMatrix, columns: int) -> CsrMatrix:
    """The transpose, with ``columns`` rows."""
    col, coef = np.frombuffer(matrix.col, dtype=np.uint32), np.frombuffer(matrix.coef, dtype=np.uint32)
    row_ptr = np.frombuffer(matrix.row_ptr, dtype=np.uint64).astype(np.int64)
    row = np.repeat(np.arange(matrix.rows, dtype=np.uint32), np.diff(row_ptr))
    order = np.argsort(col, kind="stable")
    pointers = np.zeros(columns + 1, dtype=np.uint64)
    np.cumsum(np.bincount(col, minlength=columns), out=pointers[1:], dtype=np.uint64)
    return CsrMatrix(pointers, row[order], coef[order], matrix.table)


def _with_rows(matrix: CsrMatrix, columns: npt.NDArray[np.uint32], each: int) -> CsrMatrix:
    """The matrix with a further row for each column: 1 there (``each`` 1), or empty (0)."""
    row_ptr, col = np.frombuffer(matrix.row_ptr, dtype=np.uint64), np.frombuffer(matrix.col, dtype=np.uint32)
    coef = np.frombuffer(matrix.coef, dtype=np.uint32)
    more = row_ptr[-1] + np.arange(1, len(columns) + 1, dtype=np.uint64) * np.uint64(each)
    added = columns[: len(columns) * each]
    return CsrMatrix(
        np.concatenate([row_ptr, more]),
        np.concatenate([col, added]),
        np.concatenate([coef, np.full(len(added), PLUS_ONE, dtype=np.uint32)]),
        matrix.table,
    )


def _commit(
    system: ConstraintSystem, t: Trapdoor, exponents: Exponents, device: Device, stream: Stream, report: Progress
) -> Zkey:
    """Multiply the exponents into the groups."""
    curve = system.curve
    wanted: list[tuple[str, GroupId, Words]] = [
        ("A", 1, exponents.a),
        ("B_G1", 1, exponents.b),
        ("B_G2", 2, exponents.b),
        ("L", 1, exponents.l),
        ("H", 1, exponents.h),
        ("IC", 1, exponents.ic),
    ]
    total = sum(len(scalars) * (_G2_WEIGHT if group == 2 else 1) for _, group, scalars in wanted)
    done = 0
    made: dict[str, Words] = {}
    for name, group, scalars in wanted:
        out = np.empty((len(scalars), native.point_words(curve, group)), dtype=np.uint64)
        for at in range(0, len(scalars), _CHUNK):
            report(f"{name} query", done / total)
            chunk = slice(at, min(at + _CHUNK, len(scalars)))
            out[chunk] = _generated(curve, group, scalars[chunk], device, stream)
            done += (chunk.stop - at) * (_G2_WEIGHT if group == 2 else 1)
        made[name] = out
    report("proving key", 1.0)
    g1 = _multiples(curve, 1, (t.alpha, t.beta, t.delta))
    g2 = _multiples(curve, 2, (t.beta, t.gamma, t.delta))
    return Zkey(
        curve=curve,
        n_vars=system.n_wires,
        n_public=system.n_public,
        n_constraints=system.n_constraints,
        log_n=system.log_n,
        alpha_g1=g1[0:1],
        beta_g1=g1[1:2],
        delta_g1=g1[2:3],
        beta_g2=g2[0:1],
        gamma_g2=g2[1:2],
        delta_g2=g2[2:3],
        ic=made["IC"],
        a_query=made["A"],
        b_g1_query=made["B_G1"],
        b_g2_query=made["B_G2"],
        l_query=made["L"],
        h_query=made["H"],
        a=system.a,
        b=system.b,
    )


def _generated(curve: Curve, group: GroupId, scalars: Words, device: Device, stream: Stream) -> Words:
    """The generator's multiples, made on a device."""
    plan = FixedBasePlan.build(curve, group, len(scalars), device.capability)
    multiples = device.empty(plan.n, plan.words, stream)
    plan.run(device, _generator(curve, group).tobytes(), device.upload(scalars, stream), multiples, stream)
    return np.frombuffer(device.download(multiples, stream), dtype=np.uint64).reshape(plan.n, plan.words)


def _generator(curve: Curve, group: GroupId) -> Words:
    return pack_points([curve.g1 if group == 1 else curve.g2], curve, group)


def _multiples(curve: Curve, group: GroupId, scalars: tuple[int, ...]) -> Words:
    base = _generator(curve, group)
    return cast("Words", native.fixed_base_mul(curve, group, base, pack(scalars, curve.fr, "canonical")))


def _op(curve: Curve, op: FieldOp, a: Words, b: Words) -> Words:
    return cast("Words", native.field_op(native.fr(curve), op, a, b))


def _scale(curve: Curve, values: Words, factor: int) -> Words:
    return _op(curve, FieldOp.MUL, values, _repeat(curve, factor, len(values)))


def _canonical(curve: Curve, values: Words) -> Words:
    return convert(values, curve.fr, "canonical")


def _constant(curve: Curve, value: int) -> Words:
    return np.frombuffer(montgomery_bytes(curve, value), dtype=np.uint64)


def _repeat(curve: Curve, value: int, n: int) -> Words:
    return np.tile(_constant(curve, value), (n, 1))


__all__ = ["ConstraintSystem", "Exponents", "Trapdoor", "lagrange_at", "powers", "query_exponents", "setup"]
