"""What the driver's numbers mean, in words: errors, throttle reasons, Xids."""

from __future__ import annotations

UNINITIALISED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 9, 12, 13
GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, ARGUMENT_VERSION, GPU_NOT_FOUND = 15, 16, 18, 25, 28
DEPRECATED = 26

NEVER = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, ARGUMENT_VERSION, DEPRECATED})
"""Errors after which a question is not asked again."""

_GONE = {
    GPU_IS_LOST: "fell off the bus: the machine needs a reboot",
    GPU_NOT_FOUND: "fell off the bus: the machine needs a reboot",
    RESET_REQUIRED: "needs a reset (nvidia-smi --gpu-reset)",
    UNINITIALISED: "the driver went away",
    DRIVER_NOT_LOADED: "the driver was unloaded",
    VERSION_MISMATCH: "the driver was updated: reboot",
}

_CLOSED = {
    LIBRARY_NOT_FOUND: ("no NVIDIA driver (libnvidia-ml.so.1)", "install its driver"),
    DRIVER_NOT_LOADED: ("the NVIDIA driver is not loaded", "load it (modprobe nvidia) or reboot"),
    NO_PERMISSION: ("the NVIDIA driver refuses this user", "check the permissions of /dev/nvidia*"),
    VERSION_MISMATCH: ("the NVIDIA driver's library and kernel module differ in version", "reboot"),
    GPU_IS_LOST: ("a GPU fell off the bus", "reboot the machine"),
}

_THROTTLE = (
    (0x04, "power cap"),
    (0x40, "too hot"),
    (0x20, "hot"),
    (0x80, "power brake"),
    (0x08, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x02, "clocks set by hand"),
)
_NAMED_SLOWDOWN = 0x40 | 0x80

_XIDS = {
    13: "a kernel's fault",
    31: "memory page fault",
    32: "broken command stream",
    43: "a kernel was stopped",
    45: "contexts torn down",
    48: "memory error (double bit)",
    61: "internal error",
    62: "internal halt",
    63: "a memory row was replaced",
    64: "a memory row cannot be replaced",
    69: "graphics engine fault",
    74: "NVLink error",
    79: "fell off the bus",
    92: "many memory errors",
    94: "memory error, contained",
    95: "memory error, not contained",
    109: "context switch timeout",
    119: "GSP timeout",
    120: "GSP error",
}

_ASKED = {
    "nvmlGpmSampleGet": "GPM counters",
    "nvmlGpmMigSampleGet": "GPM counters",
    "nvmlDeviceGetSamples": "utilisation samples",
    "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
    "nvmlDeviceRegisterEvents": "Xid events",
}


def gone(code: int) -> str | None:
    """What an error says of the GPU, if it says that the GPU does not answer any more."""
    return _GONE.get(code)


def closed(code: int, text: str) -> tuple[str, str]:
    """Why NVML does not open, and what to do."""
    return _CLOSED.get(code, (f"the NVIDIA driver does not answer ({text})", "check it with nvidia-smi"))


def throttle(bits: int) -> tuple[str, ...]:
    """Why the clocks are held down. An idle GPU clocks down too, which is no reason to worry."""
    if bits & _NAMED_SLOWDOWN:
        bits &= ~0x08  # the hardware's slowdown, whose reason is named beside it
    return tuple(word for bit, word in _THROTTLE if bits & bit)


def xid(code: int) -> str:
    """An Xid with what it means."""
    return f"Xid {code}: {_XIDS[code]}" if code in _XIDS else f"Xid {code}"


def question(name: str) -> str | None:
    """What a function of NVML asks, where an operator would miss the answer."""
    return _ASKED.get(name)
