"""What this machine offers CUDA, asked of the driver's own library: no CuPy, no context, no guess.

Counted three ways: GPUs that CUDA shows, those new enough for our kernels, and whether a proof can use them at all.
"""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass

from prover.device.errors import NoCudaDevice

OLDEST = (7, 5)
"""Compute capability of the oldest GPU that we compile for (Turing)."""
OLDEST_DRIVER = 12000
"""CUDA version of the oldest driver that a CuPy which we support runs on."""
_NO_DEVICE = 100
_MAJOR, _MINOR = 75, 76


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as CUDA numbers it (``CUDA_VISIBLE_DEVICES`` counts)."""

    ordinal: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]

    @property
    def usable(self) -> bool:
        """New enough for our kernels."""
        return self.compute_capability >= OLDEST


@dataclass(frozen=True, slots=True)
class CudaStatus:
    """What was found, and in one line what is missing, if anything."""

    driver: int | None
    """CUDA version of the driver (13000 is 13.0); None without a driver."""
    gpus: tuple[Gpu, ...]
    cupy: bool
    why: str | None
    """Why no proof can run on CUDA here; None if one can."""
    fix: str = ""

    @property
    def usable(self) -> tuple[Gpu, ...]:
        """The GPUs that a proof can use."""
        return () if self.why is not None else tuple(gpu for gpu in self.gpus if gpu.usable)


def probe() -> CudaStatus:
    """Look at driver, GPUs and CuPy; never raises."""
    cupy = importlib.util.find_spec("cupy") is not None
    try:
        cuda = _Library()
    except OSError:
        return CudaStatus(None, (), cupy, "no NVIDIA driver (libcuda.so.1)", "install the GPU's driver")
    version = cuda.version()
    status = cuda.initialise()
    if status == _NO_DEVICE or (status == 0 and cuda.count() == 0):
        return CudaStatus(version, (), cupy, "the driver shows no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
    if status:
        return CudaStatus(version, (), cupy, f"the driver does not start (CUDA error {status})", "check nvidia-smi")
    gpus = tuple(cuda.gpu(ordinal) for ordinal in range(cuda.count()))
    why, fix = _obstacle(version, gpus, cupy)
    return CudaStatus(version, gpus, cupy, why, fix)


def require(spec: str) -> int:
    """The ordinal that ``cuda`` or ``cuda:N`` means.

    Raises:
        NoCudaDevice: in one line, why there is none.
    """
    status = probe()
    if status.why is not None:
        raise NoCudaDevice(status.why, spec, status.fix)
    _, _, number = spec.partition(":")
    if not number:
        return status.usable[0].ordinal
    ordinal = int(number)
    if ordinal >= len(status.gpus):
        raise NoCudaDevice(f"no such GPU, CUDA shows {len(status.gpus)}", spec, "name one of them")
    gpu = status.gpus[ordinal]
    if not gpu.usable:
        raise NoCudaDevice(_too_old(gpu), spec, "use a newer GPU")
    return ordinal


def device_uuid(ordinal: int) -> str:
    """A GPU's UUID as NVML writes it, or nothing if the driver does not say."""
    try:
        cuda = _Library()
    except OSError:
        return ""
    return "" if cuda.initialise() else cuda.gpu(ordinal).uuid


def _obstacle(version: int, gpus: tuple[Gpu, ...], cupy: bool) -> tuple[str | None, str]:
    if version < OLDEST_DRIVER:
        found, wanted = _dotted(version), _dotted(OLDEST_DRIVER)
        return f"the driver is too old: CUDA {found}, {wanted} is needed", "update the GPU's driver"
    if not any(gpu.usable for gpu in gpus):
        return _too_old(gpus[0]), "use a newer GPU"
    if not cupy:
        extra = "cuda13" if version >= 13000 else "cuda12"
        return "CuPy is not installed", f"pip install 'cuzk-top[{extra}]'"
    return None, ""


def _too_old(gpu: Gpu) -> str:
    have, want = (".".join(map(str, pair)) for pair in (gpu.compute_capability, OLDEST))
    return f"{gpu.name} is too old: compute capability {have}, {want} is needed"


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


class _Library:
    """``libcuda``, the driver's library."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def version(self) -> int:
        return self._integer(self._cuda.cuDriverGetVersion)

    def initialise(self) -> int:
        return int(self._cuda.cuInit(0))

    def count(self) -> int:
        return self._integer(self._cuda.cuDeviceGetCount)

    def gpu(self, ordinal: int) -> Gpu:
        device = ctypes.c_int()
        self._cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        name = ctypes.create_string_buffer(256)
        self._cuda.cuDeviceGetName(name, len(name), device)
        raw = (ctypes.c_ubyte * 16)()
        get_uuid = getattr(self._cuda, "cuDeviceGetUuid_v2", self._cuda.cuDeviceGetUuid)
        digits = bytes(raw).hex() if get_uuid(raw, device) == 0 else ""
        capability = tuple(self._attribute(which, device) for which in (_MAJOR, _MINOR))
        return Gpu(ordinal, name.value.decode(errors="replace"), _uuid(digits), (capability[0], capability[1]))

    def _attribute(self, which: int, device: ctypes.c_int) -> int:
        return self._integer(lambda out: self._cuda.cuDeviceGetAttribute(out, which, device))

    @staticmethod
    def _integer(call: object) -> int:
        out = ctypes.c_int()
        call(ctypes.byref(out))  # type: ignore[operator]
        return out.value


def _uuid(digits: str) -> str:
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}" if digits else ""


__all__ = ["OLDEST", "OLDEST_DRIVER", "CudaStatus", "Gpu", "device_uuid", "probe", "require"]
