"""No GPU, and why: each reason its own line. The driver's library is replaced by one that answers as told."""

import importlib.util

import pytest

from prover.device import cuda_probe
from prover.device.cuda_probe import Gpu, probe, require
from prover.device.errors import NoCudaDevice

H200 = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0))
OLD = Gpu(1, "Tesla V100", "GPU-2", (7, 0))


class Answers:
    """A driver of this CUDA version with these GPUs, whose start gives this status."""

    def __init__(self, version=13000, status=0, gpus=(H200,)):
        self._version, self._status, self._gpus = version, status, gpus

    def version(self):
        return self._version

    def initialise(self):
        return self._status

    def count(self):
        return len(self._gpus)

    def gpu(self, ordinal):
        return self._gpus[ordinal]


@pytest.fixture
def machine(monkeypatch):
    def make(answers, cupy=True):
        def library():
            if answers is None:
                raise OSError("libcuda.so.1: cannot open shared object file")
            return answers

        monkeypatch.setattr(cuda_probe, "_Library", library)
        found = importlib.util.spec_from_loader("cupy", None)
        monkeypatch.setattr(cuda_probe.importlib.util, "find_spec", lambda name: found if cupy else None)

    return make


@pytest.mark.parametrize(
    ("answers", "cupy", "line"),
    [
        (None, True, "no NVIDIA driver (libcuda.so.1): cuda: install the GPU's driver, or use --device host"),
        (
            Answers(version=11080),
            True,
            "the driver is too old: CUDA 11.8, 12.0 is needed: cuda: update the GPU's driver, or use --device host",
        ),
        (
            Answers(status=100, gpus=()),
            True,
            "the driver shows no GPU: cuda: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device host",
        ),
        (
            Answers(gpus=()),
            True,
            "the driver shows no GPU: cuda: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device host",
        ),
        (
            Answers(status=999),
            True,
            "the driver does not start (CUDA error 999): cuda: check nvidia-smi, or use --device host",
        ),
        (
            Answers(gpus=(OLD,)),
            True,
            "Tesla V100 is too old: compute capability 7.0, 7.5 is needed: cuda: use a newer GPU, or use --device host",
        ),
        (
            Answers(),
            False,
            "CuPy is not installed: cuda: pip install 'cuzk-top[cuda13]', or use --device host",
        ),
        (
            Answers(version=12040),
            False,
            "CuPy is not installed: cuda: pip install 'cuzk-top[cuda12]', or use --device host",
        ),
    ],
)
def test_each_obstacle_is_one_line(machine, answers, cupy, line):
    machine(answers, cupy)
    assert probe().usable == ()
    with pytest.raises(NoCudaDevice) as caught:
        require("cuda")
    assert str(caught.value) == line
    assert caught.value.exit_code == 3


def test_gpus_are_counted_three_ways(machine):
    machine(Answers(gpus=(H200, OLD)))
    status = probe()
    assert (status.driver, len(status.gpus), len(status.usable)) == (13000, 2, 1)
    assert status.why is None


def test_which_gpu_is_meant(machine):
    newer = Gpu(1, "NVIDIA H200", "GPU-3", (9, 0))
    old_first = Gpu(0, "Tesla V100", "GPU-2", (7, 0))
    machine(Answers(gpus=(old_first, newer)))
    assert require("cuda") == 1
    assert require("cuda:1") == 1
    with pytest.raises(NoCudaDevice, match="Tesla V100 is too old"):
        require("cuda:0")
    with pytest.raises(NoCudaDevice, match="no such GPU, CUDA shows 2: cuda:7: name one of them"):
        require("cuda:7")


def test_this_machine_answers_without_raising():
    status = probe()
    assert (status.why is None) == bool(status.usable)
