"""The checks behind ``cuzk-top doctor``: each looks at one thing and never raises.

A check that is not ``needed`` may fail without harm: a machine with no GPU proves on its CPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``fix`` says what to do, or is ``None`` when all is well."""

    name: str
    ok: bool
    found: str
    fix: str | None = None
    needed: bool = False


def _python() -> Check:
    return Check(
        "python",
        sys.version_info >= (3, 11),
        f"{platform.python_implementation()} {platform.python_version()}",
        None if sys.version_info >= (3, 11) else "install Python 3.11 or newer",
        needed=True,
    )


def _cpu() -> Check:
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return Check("cpu", True, f"{usable_cores()} cores, {model}")


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> Check:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return Check("memory", True, "not known")
    enough = total >= 1 << 31
    return Check(
        "memory", enough, f"{total / 2**30:.1f} GiB", None if enough else "the built-in circuit wants 2 GiB of memory"
    )


def _host_library() -> Check:
    from prover.errors import ProverError

    try:
        from prover.host_library import cpu_variant

        variant = cpu_variant()
    except ProverError as error:
        return Check("host library", False, error.what, error.fix or "reinstall cuzk-top", needed=True)
    return Check("host library", True, f"loaded, {variant} kernels", needed=True)


_ON_CPU = "proofs run on the CPU; for a GPU: "


def _gpus() -> tuple[Check, Check]:
    """What the driver shows, and the GPUs counted three ways: by the driver, by CUDA, by what a proof can use."""
    from console.gpu_checks import ask_gpus

    report = ask_gpus()
    driver, census = report.driver, report.census
    count = len(driver.gpus)
    shown = f"{driver.version}, {count} GPU{'s' * (count != 1)}"
    found = driver.problem if not driver.version else f"{shown}: {driver.problem}" if driver.problem else shown
    bad = driver.problem is not None
    return (
        Check("driver", not bad, found or "", f"{_ON_CPU}{driver.fix}" if bad else None),
        Check(
            "gpus",
            census.usable > 0,
            census.counts + "".join(f": {why}" for why in (census.why or "; ".join(report.lines),) if why),
            None if census.usable else f"{_ON_CPU}{census.fix or 'see the driver'}",
        ),
    )


def _cupy() -> Check:
    if importlib.util.find_spec("cupy") is None:
        return Check(
            "cupy", False, "not installed", "for a GPU: pip install 'cuzk-top[cuda13]' (CUDA 12 driver: [cuda12])"
        )
    from importlib import metadata

    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return Check("cupy", True, f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return Check("cupy", True, "installed, version not known")


def _wasmtime() -> Check:
    from prover.circom.sandbox import load_wasmtime
    from prover.errors import MachineLacks

    try:
        load_wasmtime()
    except MachineLacks as error:
        return Check("wasmtime", False, error.where, error.fix)
    from importlib import metadata

    return Check("wasmtime", True, f"wasmtime {metadata.version('wasmtime')}, for --wasm")


def nvrtc_library() -> Path | None:
    """The NVRTC that the PyPI wheels install, if any."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(root).glob("**/libnvrtc.so.*"), reverse=True):
            if "alt" not in found.name:
                return found
    return None


def _nvrtc() -> Check:
    path = nvrtc_library()
    if path is None:
        return Check("nvrtc", False, "not installed", "comes with cuzk-top[cuda13] or [cuda12]; only a GPU needs it")
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        ctypes.CDLL(str(path)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    except OSError as error:
        return Check("nvrtc", False, f"does not load ({error})", "reinstall nvidia-cuda-nvrtc")
    return Check("nvrtc", True, f"NVRTC {major.value}.{minor.value}")


def _terminal() -> Check:
    if not sys.stdout.isatty():
        return Check("terminal", True, "standard output is not a terminal", "the console needs one; reports do not")
    size = shutil.get_terminal_size()
    colours = (
        "truecolor" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else os.environ.get("TERM", "unknown")
    )
    unicode = "UTF" in (sys.stdout.encoding or "").upper()
    text = f"{size.columns}x{size.lines}, {colours}, {'Unicode' if unicode else 'no Unicode'}"
    if size.columns < 80 or size.lines < 24:
        return Check("terminal", False, text, "the console wants 80x24 or more")
    return Check("terminal", unicode, text, None if unicode else "use --ascii, or a UTF-8 locale (LANG=C.UTF-8)")


def _folder(name: str, variable: str, default: str) -> Check:
    folder = Path(os.environ.get(variable) or Path.home() / default) / "cuzk-top"
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    ok = os.access(existing, os.W_OK)
    return Check(
        name,
        ok,
        f"{folder}, {free / 2**30:.1f} GiB free" if ok else f"{folder} cannot be written",
        None if ok else f"make it writable, or set {variable}",
        needed=True,
    )


def _cache() -> Check:
    return _folder("cache", "XDG_CACHE_HOME", ".cache")


def _state() -> Check:
    return _folder("state", "XDG_STATE_HOME", ".local/state")


_CHECKS: tuple[Callable[[], Check | tuple[Check, ...]], ...] = (
    _python,
    _cpu,
    _memory,
    _host_library,
    _gpus,
    _cupy,
    _nvrtc,
    _wasmtime,
    _terminal,
    _cache,
    _state,
)


def examine() -> list[Check]:
    """Run every check."""
    found = [check() for check in _CHECKS]
    return [one for checks in found for one in (checks if isinstance(checks, tuple) else (checks,))]


def report(checks: list[Check]) -> str:
    """The checks as a table for people, and what this machine proves on."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = "ok" if check.ok else ("MISSING" if check.needed else "-")
        lines.append(f"{check.name:<{width}}  {mark:<7}  {check.found}")
        if check.fix:
            lines.append(f"{'':<{width}}  {'':<7}  -> {check.fix}")
    by_name = {check.name: check for check in checks}
    if not by_name["host library"].ok:
        lines.append("\nThis machine cannot prove yet.")
    elif by_name["gpus"].ok:
        lines.append("\nThis machine proves on its GPU.")
    else:
        lines.append("\nThis machine proves on its CPU.")
    return "\n".join(lines)
