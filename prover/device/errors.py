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
    """A device stopped answering, or a kernel broke its context: nothing on it can be used any more."""

    def __init__(self, what: str, device: str) -> None:
        super().__init__(f"device lost: {what}", device, "prove on another device, or restart the prover")


class CudaFailure(DeviceError):
    """A CUDA call failed, and the device can still be used."""

    def __init__(self, what: str, device: str) -> None:
        super().__init__(what, device)


class LaunchRefused(DeviceError):
    """A kernel asks for more than the device has."""

    def __init__(self, kernel: str, asked: str, limit: str, device: str) -> None:
        super().__init__(f"kernel {kernel} wants {asked}, the limit is {limit}", device)


class KernelCompileError(DeviceError):
    """A kernel module did not compile. ``log`` is the compiler's."""

    def __init__(self, module: str, reason: str, log: str) -> None:
        self.module = module
        self.log = log
        errors = [line.strip() for line in log.splitlines() if "error" in line]
        first = errors[0] if errors else reason
        super().__init__(f"kernel does not compile: {first}", module, "report it with the compiler's version")


class UnknownDevice(InputError):
    """A device was asked for that cannot be named so."""

    def __init__(self, spec: str) -> None:
        super().__init__("unknown device", spec, "use auto, host, cuda or cuda:N")


class NoCudaDevice(MachineLacks):
    """CUDA was asked for by name and is not available."""

    def __init__(self, why: str, spec: str, fix: str) -> None:
        super().__init__(why, spec, f"{fix}, or use --device host")


__all__ = [
    "CudaFailure",
    "DeviceError",
    "DeviceLost",
    "KernelCompileError",
    "LaunchRefused",
    "NoCudaDevice",
    "OutOfMemory",
    "UnknownDevice",
    "UnknownOperation",
    "WrongDevice",
]
