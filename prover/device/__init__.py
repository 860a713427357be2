"""Devices: the host library and CUDA behind one protocol."""

from __future__ import annotations

import re

from prover.device.errors import DeviceError, NoCudaDevice, UnknownDevice

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
    check_spec(spec)
    if spec.startswith("cuda") or (spec == "auto" and _has_cuda()):
        from prover.device.cuda import open_cuda

        try:
            return open_cuda("cuda" if spec == "auto" else spec)
        except NoCudaDevice:
            if spec != "auto":
                raise
    from prover.device.host import HostDevice

    return HostDevice(threads)


class OpenedDevices:
    """The devices of an engine."""

    def __init__(self, devices: list[Device], note: str | None = None) -> None:
        self.devices = devices
        self.note = note
        """Why not every GPU is among them, or none, in one line; None if nothing was left out."""


def check_spec(spec: str) -> None:
    """Raise ``UnknownDevice`` if ``spec`` names no device. Looks at no machine."""
    if not _SPEC.fullmatch(spec):
        raise UnknownDevice(spec)


def open_devices(spec: str = "auto", threads: int = 0) -> OpenedDevices:
    """The devices that ``spec`` names, for an engine: with ``auto`` and ``cuda`` every GPU that can be used.

    Args:
        spec: ``auto`` is the host where no GPU can be used; ``cuda`` wants one at least.
        threads: processor threads of the host device; 0 = every core.

    Raises:
        UnknownDevice: if it names none.
        NoCudaDevice: if it asks for CUDA by name and there is none; one line says why.
        MachineLacks: if there is no usable host library.
    """
    check_spec(spec)
    if spec not in ("auto", "cuda"):
        return OpenedDevices([open_device(spec, threads)])
    from prover.device.cuda_probe import probe

    status = probe()
    devices: list[Device] = []
    left_out: list[str] = [] if status.why is None else [status.why]
    for gpu in status.usable:
        from prover.device.cuda import open_cuda

        try:
            devices.append(open_cuda(f"cuda:{gpu.ordinal}"))
        except DeviceError as error:
            left_out.append(str(error))
        except NoCudaDevice as error:
            left_out.append(f"{error.where}: {error.what}")
    if not devices and spec == "cuda":
        raise NoCudaDevice("; ".join(left_out), spec, status.fix or "see cuzk-top doctor")
    note = "; ".join(left_out)
    if not devices:
        devices, note = [open_device("host", threads)], f"proving on the host: {note}"
    return OpenedDevices(devices, note or None)


def _has_cuda() -> bool:
    """Whether the driver's library is there at all, and if so, whether a proof can run on one of its GPUs."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    from prover.device.cuda_probe import probe

    return bool(probe().usable)


__all__ = ["OpenedDevices", "check_spec", "open_device", "open_devices"]
