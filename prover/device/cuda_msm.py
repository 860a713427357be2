"""Multi-scalar multiplication for a GPU: until there are kernels for it, on the host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prover import native
from prover.curves import Curve

if TYPE_CHECKING:
    from prover.device.cuda import CudaDevice
    from prover.device.cuda_memory import CudaArray
    from prover.device.cuda_stream import CudaStream
    from prover.native import GroupId


def msm(
    device: CudaDevice,
    curve: Curve,
    group: GroupId,
    bases: CudaArray,
    scalars: CudaArray,
    n: int,
    stream: CudaStream,
) -> bytes:
    """The sum of ``scalars[i] * bases[i]`` over n terms, one affine point; waits for the result.

    Raises:
        Cancelled: if the stream's token asked for it.
    """
    words = native.point_words(curve, group)
    host_bases = device.download(device.rows(bases, 0, n, words), stream)
    host_scalars = device.download(device.rows(scalars, 0, n, 4), stream)
    out = bytearray(8 * words)
    threads = len(os.sched_getaffinity(0))
    native.msm(curve, group, host_bases, host_scalars, out, threads, stream.cancel)
    return bytes(out)


__all__ = ["msm"]
