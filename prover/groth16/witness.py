"""A witness from a file against a key and its circuit: does it fit, what are a and b, which row does it break."""

from __future__ import annotations

from prover import native
from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.errors import InputError
from prover.formats.wtns import Wtns
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import FR_WORDS, Assignment
from prover.spmv import SpmvPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Device
    from prover.formats.r1cs import R1cs


def check_fits(key: ProvingKey, witness: Wtns) -> None:
    """A witness is over the key's curve and has the key's number of wires.

    Raises:
        InputError: if not.
    """
    where, fix = witness.path or "witness", "give the witness and the key of one circuit"
    if witness.curve is not key.curve:
        raise InputError(f"witness over {witness.curve.spelling}, the key is over {key.curve.spelling}", where, fix)
    if len(witness.values) != key.n_wires:
        raise InputError(f"witness of {len(witness.values)} values, the key wants {key.n_wires}", where, fix)


def assign(
    key: ProvingKey, witness: BufferLike, device: Device, threads: int = 0, cancel: CancelToken | None = None
) -> Assignment:
    """a and b of a witness by the key's own matrices; c is left to be a*b, since a zkey holds no C.

    Args:
        key: the key.
        witness: ``n_wires`` canonical elements.
        device: where the products run.
        threads: processor threads on the host; 0 = the device's own choice.
        cancel: asks to stop.

    Raises:
        Cancelled: if asked.
    """
    stream = device.stream("synthesis", threads, cancel)
    vector = device.upload(witness, stream)
    products = []
    for matrix in key.matrices:
        plan = SpmvPlan.build(key.curve, matrix, device.capability)
        out = device.empty(matrix.rows, FR_WORDS, stream)
        plan.run(device, plan.load(device, matrix, stream), vector, out, stream)
        products.append(device.download(out, stream))
    stream.synchronize()
    return Assignment(witness, *products)


def check_satisfied(r1cs: R1cs, key: ProvingKey, witness: Wtns, what: str, threads: int = 1) -> None:
    """A witness satisfies every constraint of the circuit that the key was made for.

    Args:
        r1cs: the circuit.
        key: the key.
        witness: fits the key.
        what: the error's first words.
        threads: processor threads.

    Raises:
        InputError: if the circuit is not the key's, or naming the first row that does not hold.
    """
    ours = (r1cs.curve, r1cs.n_wires, r1cs.n_public, r1cs.n_constraints)
    if ours != (key.curve, key.n_wires, key.n_public, key.n_constraints):
        raise InputError(
            f"circuit of {r1cs.n_constraints} constraints and {r1cs.n_wires} wires over {r1cs.curve.spelling}, "
            f"the key's has {key.n_constraints} and {key.n_wires} over {key.curve.spelling}",
            r1cs.path or "circuit",
            "give the circuit of this key",
        )
    a, b, c = (
        native.spmv(r1cs.curve, m.row_ptr, m.col, m.coef, m.table, witness.values, threads=threads)
        for m in (r1cs.a, r1cs.b, r1cs.c)
    )
    row = native.first_unsatisfied(r1cs.curve, a, b, c)
    if row is not None:
        raise InputError(what, f"{witness.path} breaks row {row} of {r1cs.path}", "make the witness again")


__all__ = ["assign", "check_fits", "check_satisfied"]
