"""Sparse matrix times vector over Fr as a plan: a, b, c of a witness from the matrices of a circuit."""

from __future__ import annotations

from prover.curves import Curve
from prover.device.values import Capability, Step
from prover.lean_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.csr import CsrMatrix
    from prover.device.protocol import Array, Device, Stream


@dataclass(frozen=True, slots=True)
class DeviceMatrix:
    """A matrix whose arrays lie on a device; see ``prover.csr.CsrMatrix``."""

    rows: int
    nnz: int
    row_ptr: Array
    col: Array
    coef: Array
    table: Array


@dataclass(frozen=True, slots=True)
class SpmvPlan:
    """One product with a matrix of this shape."""

    curve: Curve
    rows: int
    nnz: int

    @classmethod
    def build(cls, curve: Curve, matrix: CsrMatrix, capability: Capability) -> SpmvPlan:
        """A plan for this matrix's shape."""
        return cls(curve, matrix.rows, matrix.nnz)

    def load(self, device: Device, matrix: CsrMatrix, stream: Stream) -> DeviceMatrix:
        """Bring a matrix onto the device, to stay."""
        return DeviceMatrix(
            rows=matrix.rows,
            nnz=matrix.nnz,
            row_ptr=device.resident(matrix.row_ptr, stream),
            col=device.resident(matrix.col, stream),
            coef=device.resident(matrix.coef, stream),
            table=device.resident(matrix.table, stream),
        )

    def step(self, matrix: DeviceMatrix, vector: Array, out: Array) -> Step:
        """``out = matrix * vector``: canonical in, Montgomery out, one element for each row."""
        return Step(
            "spmv",
            {
                "curve": self.curve,
                "row_ptr": matrix.row_ptr,
                "col": matrix.col,
                "coef": matrix.coef,
                "table": matrix.table,
                "vector": vector,
                "out": out,
            },
            multiplications=self.nnz,
            bytes=self.nnz * (8 + self.curve.fr.bytes) + self.rows * self.curve.fr.bytes,
        )

    def run(self, device: Device, matrix: DeviceMatrix, vector: Array, out: Array, stream: Stream) -> None:
        """Write the product into ``out``."""
        device.run(self.step(matrix, vector, out), stream)


__all__ = ["DeviceMatrix", "SpmvPlan"]
