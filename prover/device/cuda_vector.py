"""Vectors and sparse matrices over Fr on the GPU."""

from __future__ import annotations

from ctypes import c_uint32
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.curves import Curve
from prover.device.cuda_kernels import KernelModule
from prover.device.cuda_memory import CudaArray

if TYPE_CHECKING:
    from prover.device.cuda_stream import CudaStream

_BYTES = 32
"""Of an element of Fr."""
_BLOCK = 256
_BLOCKS_PER_MULTIPROCESSOR = 16


@dataclass(frozen=True, slots=True)
class Csr:
    """A sparse matrix on the device; see ``prover.csr.CsrMatrix``."""

    row_ptr: CudaArray
    col: CudaArray
    coef: CudaArray
    table: CudaArray


def mul_sub(
    stream: CudaStream,
    curve: Curve,
    a: CudaArray,
    b: CudaArray,
    c: CudaArray,
    out: CudaArray,
    canonical_out: bool,
) -> None:
    """``a*b - c`` element-wise; ``out`` may be an operand.

    Raises:
        ValueError: if the lengths differ.
    """
    n = _elements("a", a)
    for name, array in (("b", b), ("c", c), ("out", out)):
        if array.nbytes != a.nbytes:
            raise ValueError(f"{name} has {array.nbytes} bytes, a has {a.nbytes}")
    most = stream.device.capability.multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
    module = stream.device.kernels.get(KernelModule("vector.cu", curve))
    arguments = [a, b, c, out, c_uint32(n), c_uint32(canonical_out)]
    module.launch("mul_sub", min(-(-n // _BLOCK), most), _BLOCK, arguments, stream)


def spmv(stream: CudaStream, curve: Curve, matrix: Csr, vector: CudaArray, out: CudaArray) -> None:
    """``out = matrix * vector``; the arguments are those of the operation ``spmv``. Indices are not checked.

    Raises:
        ValueError: if the lengths do not go together.
    """
    rows = matrix.row_ptr.nbytes // 8 - 1
    if matrix.row_ptr.nbytes % 8 or rows < 0:
        raise ValueError(f"row_ptr has {matrix.row_ptr.nbytes} bytes, not whole offsets")
    if matrix.col.nbytes != matrix.coef.nbytes:
        raise ValueError(f"coef has {matrix.coef.nbytes} bytes, col has {matrix.col.nbytes}")
    if _elements("out", out) != rows:
        raise ValueError(f"out has {out.nbytes // _BYTES} elements, the matrix {rows} rows")
    _elements("table", matrix.table)
    _elements("vector", vector)
    module = stream.device.kernels.get(KernelModule("spmv.cu", curve))
    arguments = [matrix.row_ptr, matrix.col, matrix.coef, matrix.table, vector, out, c_uint32(rows)]
    module.launch("spmv", -(-rows // _BLOCK), _BLOCK, arguments, stream)


def _elements(name: str, array: CudaArray) -> int:
    if array.nbytes % _BYTES:
        raise ValueError(f"{name} has {array.nbytes} bytes, not whole elements")
    return array.nbytes // _BYTES


__all__ = ["Csr", "mul_sub", "spmv"]
