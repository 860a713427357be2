"""What ``cuzk-top doctor`` says of GPUs, over what an H200's driver answered."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_feed import OTHER_UUID, UUID, two_cards
from replayed_nvml import ReplayedNvml, recording

from console import doctor, gpu_checks
from console.gpu_checks import ask_driver, ask_gpus
from prover.device.cuda_probe import CudaStatus, Gpu

NOTHING = CudaStatus(None, (), False, "no NVIDIA driver (libcuda.so.1)", "install the GPU's driver")


def h200(ordinal: int, uuid: str = UUID) -> Gpu:
    return Gpu(ordinal, "NVIDIA H200", uuid, (9, 0))


def replayed(document: dict[str, Any] | None = None, **faults: Any) -> ReplayedNvml:
    nvml = ReplayedNvml(document or recording(), lambda: 1.0)
    nvml.faults = faults
    return nvml


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch):
    """Sets what CUDA shows."""

    def shows(status: CudaStatus) -> None:
        monkeypatch.setattr("prover.device.cuda_probe.probe", lambda: status)

    return shows


def checks(monkeypatch: pytest.MonkeyPatch, nvml: Any, **options: Any) -> tuple[doctor.Check, doctor.Check]:
    monkeypatch.setattr(gpu_checks, "ask_gpus", lambda: ask_gpus(lambda: nvml, **options))
    return doctor._gpus()


def test_the_driver_s_gpus():
    report = ask_driver(replayed)
    assert (report.version, report.problem) == ("580.159.04", None)
    (gpu,) = report.gpus
    assert (gpu.name, gpu.uuid, gpu.memory, gpu.gpm) == ("NVIDIA H200", UUID, 150_754_820_096, True)


def test_a_gpu_that_proves(monkeypatch: pytest.MonkeyPatch, cuda):
    cuda(CudaStatus(13000, (h200(0),), True, None))
    driver, gpus = checks(monkeypatch, replayed())
    assert (driver.ok, driver.found, driver.fix) == (True, "580.159.04, 1 GPU", None)
    assert gpus.ok and gpus.fix is None
    assert gpus.found == ("driver 1, CUDA 1, usable 1: NVIDIA H200 (cuda:0, compute capability 9.0, 140 GiB, GPM)")
    assert "proves on its GPU" in doctor.report([doctor.Check("host library", True, "loaded", needed=True), gpus])


def test_two_orders_are_matched_by_uuid(cuda):
    document = two_cards()
    document["answers"]["nvmlGpmQueryDeviceSupport"]['["gpu0"]'][0][1]["answer"]["struct"]["isSupportedDevice"] = 0
    cuda(CudaStatus(13000, (h200(0, UUID), h200(1, OTHER_UUID)), True, None))
    report = ask_gpus(lambda: replayed(document))
    assert [line.rpartition(", ")[2] for line in report.lines] == ["GPM)", "no GPM)"]


@pytest.mark.parametrize(
    ("nvml", "status", "found", "counts"),
    [
        (replayed(nvmlInit=12), NOTHING, "no NVIDIA driver (libnvidia-ml.so.1)", "driver 0, CUDA 0, usable 0: no NV"),
        (replayed(nvmlInit=9), NOTHING, "the NVIDIA driver is not loaded", "usable 0: the NVIDIA driver is not loaded"),
        (replayed(nvmlInit=4), NOTHING, "the NVIDIA driver refuses this user", "usable 0: the NVIDIA driver refuses"),
        (replayed(nvmlDeviceGetName=15), NOTHING, "a GPU is in trouble: fell off the bus", "usable 0: a GPU is in"),
        (
            replayed(nvmlDeviceGetHandleByIndex=4),
            NOTHING,
            "580.159.04, 0 GPUs: 1 of 1 GPUs cannot be",
            "driver 0, CUDA",
        ),
        (object(), NOTHING, "the module pynvml is not NVIDIA's", "driver 0, CUDA 0, usable 0"),
        (
            replayed(),
            CudaStatus(13000, (h200(0),), False, "CuPy is not installed", "pip install 'cuzk-top[cuda13]'"),
            "580.159.04, 1 GPU",
            "driver 1, CUDA 1, usable 0: CuPy is not installed",
        ),
    ],
)
def test_each_reason_is_its_own_line(
    monkeypatch: pytest.MonkeyPatch, cuda, nvml: Any, status: CudaStatus, found: str, counts: str
):
    cuda(status)
    driver, gpus = checks(monkeypatch, nvml)
    assert driver.found.startswith(found) and counts in gpus.found
    assert not gpus.ok and (gpus.fix or "").startswith("proofs run on the CPU; for a GPU: ")
    assert all("\n" not in text for check in (driver, gpus) for text in (check.found, check.fix or ""))


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_driver_that_hangs_is_told_in_time(monkeypatch: pytest.MonkeyPatch, cuda, released: threading.Event):
    cuda(NOTHING)
    driver, gpus = checks(monkeypatch, replayed(nvmlInit=released.wait), deadline_s=0.05)
    assert not driver.ok and "has not answered" in driver.found and "has not answered" in gpus.found


def test_cuda_that_hangs_is_told_in_time(monkeypatch: pytest.MonkeyPatch, released: threading.Event):
    monkeypatch.setattr("prover.device.cuda_probe.probe", released.wait)
    report = ask_gpus(replayed, deadline_s=0.3)
    assert report.driver.problem is None and "CUDA has not answered" in (report.census.why or "")
