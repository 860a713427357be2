"""The shared headers compile for GPUs: NVRTC needs no GPU, and comes as a Python package."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

import pytest

import prover
from prover import curves

HEADERS = ("portable.cuh", "carry.cuh", "params.cuh", "field.cuh", "tower.cuh", "curve.cuh")
KERNEL = """
#include "field.cuh"
#include "tower.cuh"
#include "curve.cuh"
using F = %s;
using Point = czk::Affine<F>;
extern "C" __global__ void laws(const F* in, Point* points, F* out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  F a = F::load(in + 2 * i), b = F::load(in + 2 * i + 1);
  F c = a * b + a.sqr() - b.neg().dbl();
  out[i] = c == F::one() || !c.is_reduced() ? c.to_montgomery() : c.from_montgomery();
  auto sum = czk::Xyzz<F>::from_affine(points[2 * i]);
  sum.add(points[2 * i + 1].neg());
  auto twice = sum.dbl();
  twice.add(sum);
  points[i] = twice.to_affine();
}
"""
TWIST = """
#include "field.cuh"
#include "tower.cuh"
#include "curve.cuh"
using F = czk::Fp2<czk::Field<czk::%s, czk::MulForm::kOutlined>>;
extern "C" __global__ void laws(czk::Affine<F>* points) {
  auto sum = czk::Xyzz<F>::from_affine(points[0]);
  sum.add(points[1]);
  auto twice = sum.dbl();
  twice.add(sum);
  points[0] = twice.to_affine();
}
"""


@cache
def nvrtc() -> ctypes.CDLL:
    """The library from the wheel, of whichever CUDA version is installed."""
    package = importlib.util.find_spec("nvidia")
    folders = [] if package is None else list(package.submodule_search_locations or [])
    found = sorted(p for folder in folders for p in Path(folder).rglob("libnvrtc.so.*"))
    if not found:
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
    return ctypes.CDLL(str(found[-1]))


def compiled_bytes(source: str, arch: str) -> int:
    """Compile for the architecture; the size of the machine code."""
    lib, program = nvrtc(), ctypes.c_void_p()
    kernels = Path(prover.__file__).with_name("kernels")
    texts = (ctypes.c_char_p * len(HEADERS))(*[(kernels / name).read_bytes() for name in HEADERS])
    names = (ctypes.c_char_p * len(HEADERS))(*[name.encode() for name in HEADERS])
    created = lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"laws.cu", len(HEADERS), texts, names)
    assert created == 0
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--Ofast-compile=max"]
    status = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    assert "warning" not in log.value.decode()
    lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return size.value


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("field", [f.name for f in curves.fields()])
def test_fields_and_curves_compile(field: str, arch: str) -> None:
    form = "czk::MulForm::kInline" if field.endswith("Fr") else "czk::MulForm::kOutlined"
    assert compiled_bytes(KERNEL % f"czk::Field<czk::{field}, {form}>", arch) > 10_000


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("field", ["Bls12381Fp", "Bn254Fp"])
def test_twists_compile(field: str, arch: str) -> None:
    assert compiled_bytes(TWIST % field, arch) > 10_000


def test_an_error_in_a_header_is_an_error() -> None:
    """The check would see a header that does not compile."""
    nvrtc()
    with pytest.raises(AssertionError, match="no_such_name"):
        compiled_bytes('#include "field.cuh"\nint broken = czk::no_such_name;\n', "sm_90")
