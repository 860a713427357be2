"""What proving a circuit takes of this process's memory (``prover.pipeline.footprint.FootprintModel``).

The circuit's matrices lie there for as long as it is loaded. Its key is a mapped file: its pages can be dropped while
nobody reads them, and come back from the file when somebody does.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Mapping

from prover.buffers import BufferLike
from prover.circuits.circuit import Circuit
from prover.groth16.keys import ProvingKey
from prover.pipeline.budget import Kind, Resident
from prover.pipeline.footprint import Footprint
from prover.pipeline.forecast import CircuitShape, Forecast, Load, forecast


class CircuitFootprint:
    """The memory of one circuit under one key."""

    def __init__(self, shape: CircuitShape, name: str, key_file: BufferLike) -> None:
        """``key_file``: the key's bytes as they were mapped; of a key that was never a file nothing can go."""
        self.shape = shape
        self.maker_bytes = 0
        """What makes a witness takes while it does, beside the witness: circom's generator. One at a time in a slot."""
        owner = memoryview(key_file).obj
        self._file = owner if isinstance(owner, mmap.mmap) else None
        self.residents = () if self._file is None else (Resident(f"key of {name}", Kind.KEYS, shape.key_bytes),)

    def fixed(self, device_is_host: bool) -> Mapping[Kind, int]:
        """Matrices, what proving takes of any process, and a key that cannot go."""
        taken = {Kind.MATRICES: self.shape.matrix_bytes, Kind.WORKING: self.shape.workspace_bytes(device_is_host)}
        return taken if self.residents else {**taken, Kind.KEYS: self.shape.key_bytes}

    def slot(self, partitions: int, device_is_host: bool) -> Footprint:
        """What a slot takes."""
        found = self.shape.slot(partitions, device_is_host)
        return Footprint(found.vectors + self.maker_bytes, found.rest)

    def forecast(self, load: Load) -> Forecast:
        """The peak."""
        return forecast(self.shape, load)

    def evict(self, name: str) -> None:
        """Drop the key's pages."""
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):  # locked pages stay; the kernel takes clean ones anyway
                self._file.madvise(mmap.MADV_DONTNEED)


def shape_of_circuit(circuit: Circuit, key: ProvingKey) -> CircuitShape:
    """Of a built-in circuit: its own three matrices and the two that its key holds."""
    a, b = key.matrices
    held = (circuit.a, circuit.b, circuit.c, a, b)
    return CircuitShape(
        key.curve,
        key.n_wires,
        key.n_public,
        circuit.rows,
        key.log_n,
        entries=tuple(matrix.nnz for matrix in held),
        key_entries=a.nnz + b.nnz,
        rows_held=key.domain_size,
        c_made=True,
    )


def shape_of_key(key: ProvingKey) -> CircuitShape:
    """Of a key and nothing else: witnesses come from files."""
    a, b = key.matrices
    return CircuitShape(
        key.curve,
        key.n_wires,
        key.n_public,
        key.n_constraints + key.n_public + 1,
        key.log_n,
        entries=(a.nnz, b.nnz),
        key_entries=a.nnz + b.nnz,
        rows_held=key.domain_size,
    )


__all__ = ["CircuitFootprint", "shape_of_circuit", "shape_of_key"]
