"""What can go wrong on a device."""

from __future__ import annotations

from prover.errors import InputError, MachineLacks, ProverError


class DeviceError(ProverError):
    """A device refused or failed."""

    exit_code = 3


class WrongDevice(DeviceError):
    """An array of one device was given to another."""

    def __init__(self, array: object, device: str) -> None:
        super().__init__(
            "array of another device", f"{type(array).__name__} given to {device}", "upload it there first"
        )


class UnknownOperation(DeviceError):
    """A device has no operation of this name."""

    def __init__(self, operation: str, device: str) -> None:
        super().__init__("no such operation", f"{operation} on {device}")


class OutOfMemory(DeviceError):
    """A device's memory does not suffice. Sizes in bytes."""

    def __init__(self, asked: int, free: int, device: str) -> None:
        self.asked = asked
        self.free = free
        super().__init__(
            f"out of memory: {asked} bytes asked, {free} free", device, "prove fewer partitions at once (slot_size)"
        )


class DeviceLost(DeviceError):
    """A device stopped answering."""


class UnknownDevice(InputError):
    """A device was asked for that cannot be named so."""

    def __init__(self, spec: str) -> None:
        super().__init__("unknown device", spec, "use auto, host, cuda or cuda:N")


class NoCudaDevice(MachineLacks):
    """CUDA was asked for by name and is not available."""

    def __init__(self, spec: str) -> None:
        super().__init__("no CUDA prover in this version", spec, "use --device host")


__all__ = [
    "DeviceError",
    "DeviceLost",
    "NoCudaDevice",
    "OutOfMemory",
    "UnknownDevice",
    "UnknownOperation",
    "WrongDevice",
]
