"""Every kernel compiles for every architecture that we support, without a GPU: the device's own strings and options."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from prover.device import nvrtc
from prover.device.cuda_kernels import all_modules
from prover.device.errors import KernelCompileError
from prover.device.kernel_cache import default_folder
from prover.device.nvrtc import Nvrtc
from prover.device.source import amalgamated, kernel_folder
from prover.errors import MachineLacks

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
QUICK = "--Ofast-compile=max"
"""The code is not run here; with full optimisation it is what ``bench/gpu.sh`` runs."""


@pytest.fixture(scope="module")
def compilers() -> list[Nvrtc]:
    """NVRTC of each CUDA version that is installed."""
    found = []
    for major in nvrtc.MAJORS:
        try:
            found.append(nvrtc.load(major))
        except MachineLacks:
            continue
    if not found:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    return found


def test_every_module_for_every_architecture(compilers: list[Nvrtc]) -> None:
    def build(job):
        compiler, module, arch = job
        compiled = compiler.compile(module.name, amalgamated(module.file), (*module.options(arch), QUICK))
        return module.name, arch, len(compiled.image), compiled.log

    jobs = [(c, module, arch) for c in compilers for module in all_modules() for arch in ARCHITECTURES]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, arch, size, log in pool.map(build, jobs):
            assert size > 2000, (name, arch)
            assert "warning" not in log, (name, arch, log)


def test_every_kernel_file_belongs_to_a_module() -> None:
    assert {module.file for module in all_modules()} == {path.name for path in kernel_folder().glob("*.cu")}
    names = [module.name for module in all_modules()]
    assert len(set(names)) == len(names)


def test_an_error_names_file_and_line(compilers: list[Nvrtc]) -> None:
    source = amalgamated("vector.cu").replace("canonical_out) value", "canonical_ou) value")
    module = next(module for module in all_modules() if module.file == "vector.cu")
    with pytest.raises(KernelCompileError, match=r'prover/kernels/vector\.cu\(\d+\): error: .*"canonical_ou"'):
        compilers[0].compile(module.name, source, (*module.options("sm_90"), QUICK))


def test_unknown_cuda_versions_are_not_found() -> None:
    with pytest.raises(MachineLacks, match="no NVRTC of CUDA 7"):
        nvrtc.load(7)
    assert default_folder().name == "kernels"
