"""The operations of a GPU: the names and signatures that every device has, turned into kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from prover.curves import Curve
from prover.device import cuda_vector
from prover.device.cuda_memory import CudaArray, owned
from prover.device.cuda_msm import Operand

if TYPE_CHECKING:
    from prover.device.cuda_stream import CudaStream
    from prover.device.protocol import Array, PendingPoint
    from prover.device.values import MsmTerms
    from prover.native import GroupId


def _owned(stream: CudaStream, *arrays: Array) -> list[CudaArray]:
    return [owned(array, stream.device.name) for array in arrays]


def _ntt(stream: CudaStream, *, curve: Curve, data: Array, root: bytes, inverse: bool, shift: bytes | None) -> None:
    (own,) = _owned(stream, data)
    stream.device.transforms.run(curve, own, root, inverse, shift, stream)


def _msm(stream: CudaStream, *, curve: Curve, group: GroupId, bases: Array, scalars: Array, out: Array) -> None:
    own_bases, own_scalars, own_out = _owned(stream, bases, scalars, out)
    point = stream.device.multiplications.run(curve, group, own_bases, own_scalars, stream)
    stream.device.write(own_out, point, stream)


def _msm_many(
    stream: CudaStream, *, curve: Curve, operands: Sequence[MsmTerms], scalars: Array
) -> Sequence[PendingPoint]:
    name = stream.device.name
    own = [Operand(terms.group, owned(terms.bases, name), terms.absent) for terms in operands]
    own_scalars = owned(scalars, name)
    for array in (own_scalars, *(operand.bases for operand in own)):
        array.used_by(stream)  # it may have come there in another
    return stream.device.multiplications.start(curve, own, own_scalars, stream)


def _spmv(
    stream: CudaStream,
    *,
    curve: Curve,
    row_ptr: Array,
    col: Array,
    coef: Array,
    table: Array,
    vector: Array,
    out: Array,
) -> None:
    matrix = cuda_vector.Csr(*_owned(stream, row_ptr, col, coef, table))
    own_vector, own_out = _owned(stream, vector, out)
    cuda_vector.spmv(stream, curve, matrix, own_vector, own_out)


def _mul_sub(
    stream: CudaStream, *, curve: Curve, a: Array, b: Array, c: Array, out: Array, canonical_out: bool
) -> None:
    own_a, own_b, own_c, own_out = _owned(stream, a, b, c, out)
    cuda_vector.mul_sub(stream, curve, own_a, own_b, own_c, own_out, canonical_out)


def _fixed_base(stream: CudaStream, *, curve: Curve, group: GroupId, base: bytes, scalars: Array, out: Array) -> None:
    own_scalars, own_out = _owned(stream, scalars, out)
    stream.device.fixed_bases.run(curve, group, base, own_scalars, own_out, stream)


OPERATIONS: Mapping[str, Any] = MappingProxyType(
    {
        "ntt": _ntt,
        "msm": _msm,
        "msm_many": _msm_many,
        "spmv": _spmv,
        "mul_sub": _mul_sub,
        "fixed_base": _fixed_base,
    }
)
"""Operation name -> callable: the stream, then the arguments of the step."""

__all__ = ["OPERATIONS"]
