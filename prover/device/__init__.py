"""Devices: the host library and CUDA behind one protocol."""

from __future__ import annotations

import re

from prover.device.errors import NoCudaDevice, UnknownDevice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prover.device.protocol import Device

_SPEC = re.compile(r"auto|host|cuda(:\d+)?")


def open_device(spec: str = "auto", threads: int = 0) -> Device:
    """The device that ``spec`` names: ``auto``, ``host``, ``cuda`` or ``cuda:N``.

    Args:
        spec: ``auto`` is the first GPU that can be used, or else the host.
        threads: processor threads of the host device; 0 = every core.

    Raises:
        UnknownDevice: if it names none.
        NoCudaDevice: if it asks for CUDA by name and there is none; one line says why.
        MachineLacks: if there is no usable host library.
    """
    if not _SPEC.fullmatch(spec):
        raise UnknownDevice(spec)
    if spec.startswith("cuda") or (spec == "auto" and _has_cuda()):
        from prover.device.cuda import open_cuda

        try:
            return open_cuda("cuda" if spec == "auto" else spec)
        except NoCudaDevice:
            if spec != "auto":
                raise
    from prover.device.host import HostDevice

    return HostDevice(threads)


def _has_cuda() -> bool:
    """Whether the driver's library is there at all, and if so, whether a proof can run on one of its GPUs."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    from prover.device.cuda_probe import probe

    return bool(probe().usable)


__all__ = ["open_device"]
