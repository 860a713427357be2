"""The fixtures, and files small enough that a fuzzer meets every byte of them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from prover.csr import CsrMatrix, coefficient_table
from prover.curves import BLS12_381, BN254, Curve
from prover.field import pack
from prover.formats.points import g1_bytes, g2_bytes
from prover.formats.r1cs import R1cs, write_r1cs
from prover.formats.wtns import write_wtns
from prover.formats.zkey import Zkey, write_zkey

SNARK = Path(__file__).parents[1] / "fixtures" / "snark"
FOLDERS = {BN254: SNARK / "bn128", BLS12_381: SNARK / "bls12-381"}
CASES = [(curve, folder / name) for curve, folder in FOLDERS.items() for name in ("pow_255", "mix_8")]
CASE_IDS = [f"{folder.parent.name}-{folder.name}" for _, folder in CASES]

N_WIRES, N_PUBLIC, N_CONSTRAINTS, LOG_N = 5, 1, 3, 3
WITNESS = [1, 35, 3, 9, 27]
"""x^3 + x + 5 = 35 with x = 3."""


def small_r1cs(curve: Curve) -> R1cs:
    """x*x = x2; x2*x = x3; (x3 + x + 5) * 1 = out. Wires: 1, out, x, x2, x3."""
    table = coefficient_table(curve.fr, [5])
    a = matrix([[(2, 0)], [(3, 0)], [(4, 0), (2, 0), (0, 2)]], table)
    b = matrix([[(2, 0)], [(2, 0)], [(0, 0)]], table)
    c = matrix([[(3, 0)], [(4, 0)], [(1, 0)]], table)
    return R1cs(curve, N_WIRES, 1, 0, 1, a, b, c, N_WIRES)


def small_zkey(curve: Curve) -> Zkey:
    """The shape of that circuit's key; the points are on their curves and mean nothing."""
    r1cs = small_r1cs(curve)
    inputs = [[(s, 0)] for s in range(N_PUBLIC + 1)]
    g1, g2 = g1_bytes(curve, curve.g1), g2_bytes(curve, curve.g2)
    return Zkey(
        curve=curve,
        n_vars=N_WIRES,
        n_public=N_PUBLIC,
        n_constraints=N_CONSTRAINTS,
        log_n=LOG_N,
        alpha_g1=g1,
        beta_g1=g1,
        beta_g2=g2,
        gamma_g2=g2,
        delta_g1=g1,
        delta_g2=g2,
        ic=g1 * (N_PUBLIC + 1),
        a_query=g1 * N_WIRES,
        b_g1_query=g1 * (N_WIRES - 1) + bytes(len(g1)),
        b_g2_query=g2 * (N_WIRES - 1) + bytes(len(g2)),
        l_query=g1 * (N_WIRES - N_PUBLIC - 1),
        h_query=g1 * (1 << LOG_N),
        a=matrix([*rows(r1cs.a), *inputs], r1cs.a.table),
        b=matrix([*rows(r1cs.b), *([[]] * len(inputs))], r1cs.b.table),
    )


def write_small(folder: Path, curve: Curve) -> dict[str, Path]:
    """One small file of each binary format."""
    paths = {kind: folder / f"{curve.name}.{kind}" for kind in ("zkey", "wtns", "r1cs")}
    write_zkey(paths["zkey"], small_zkey(curve))
    write_wtns(paths["wtns"], curve, pack(WITNESS, curve.fr, "canonical"))
    write_r1cs(paths["r1cs"], small_r1cs(curve))
    return paths


def matrix(rows: list[list[tuple[int, int]]], table: object) -> CsrMatrix:
    """Rows of (column, index of the coefficient)."""
    entries = [entry for row in rows for entry in row]
    lengths = [len(row) for row in rows]
    return CsrMatrix(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64),
        np.array([column for column, _ in entries], dtype=np.uint32),
        np.array([coef for _, coef in entries], dtype=np.uint32),
        table,
    )


def rows(m: CsrMatrix) -> list[list[tuple[int, int]]]:
    """The inverse of :func:`matrix`."""
    return [
        [(int(m.col[k]), int(m.coef[k])) for k in range(int(m.row_ptr[i]), int(m.row_ptr[i + 1]))]
        for i in range(m.rows)
    ]


def dense_rows(curve: Curve, m: CsrMatrix) -> list[dict[int, int]]:
    """Rows as column -> canonical value, entries of one column added up."""
    fr = curve.fr
    inverse = pow(fr.r2, -1, fr.modulus)
    data = bytes(memoryview(m.table).cast("B"))
    values = [int.from_bytes(data[i : i + 32], "little") * inverse % fr.modulus for i in range(0, len(data), 32)]
    out = []
    for row in rows(m):
        entry: dict[int, int] = {}
        for column, coef in row:
            entry[column] = (entry.get(column, 0) + values[coef]) % fr.modulus
        out.append(entry)
    return out


def random_csr(curve: Curve, n_rows: int, n_columns: int, seed: int) -> CsrMatrix:
    """Rows of any length, 0 included, with coefficients that repeat, +1 and -1 among them."""
    rng = random.Random(seed)
    table = coefficient_table(curve.fr, [rng.randrange(curve.fr.modulus) for _ in range(rng.randrange(4))])
    return matrix(
        [
            [(rng.randrange(n_columns), rng.randrange(len(table))) for _ in range(rng.choice([0, 1, 1, 2, 7]))]
            for _ in range(n_rows)
        ],
        table,
    )
