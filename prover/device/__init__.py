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
        spec: ``auto`` takes the best there is, which today is the host.
        threads: processor threads of the host device; 0 = every core.

    Raises:
        UnknownDevice: if it names none.
        NoCudaDevice: if it asks for CUDA by name.
        MachineLacks: if there is no usable host library.
    """
    if not _SPEC.fullmatch(spec):
        raise UnknownDevice(spec)
    if spec.startswith("cuda"):
        raise NoCudaDevice(spec)
    from prover.device.host import HostDevice

    return HostDevice(threads)


__all__ = ["open_device"]
