"""The CUDA 12 wheels on a machine without a GPU: CuPy imports, NVRTC 12 compiles a kernel as a device would have it."""

from __future__ import annotations

import sys

import cupy

from prover.device import nvrtc
from prover.device.cuda_kernels import all_modules
from prover.device.source import amalgamated

compiler = nvrtc.load(12)
module = next(module for module in all_modules() if module.file == "ntt.cu")
compiled = compiler.compile(module.name, amalgamated(module.file), module.options("sm_90"))
if compiler.version < (12, 9) or compiled.image[:4] != b"\x7fELF" or compiled.log:
    sys.exit(f"NVRTC {compiler.version}: {len(compiled.image)} bytes: {compiled.log}")
print(f"CuPy {cupy.__version__} imports; NVRTC {compiler.version} compiled {module.name}: {len(compiled.image)} bytes")
