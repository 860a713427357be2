"""Which devices an engine gets for ``--device``: every GPU that can be used, else the host and one line why."""

import pytest

from prover.device import cuda, cuda_probe, open_devices
from prover.device.cuda_probe import CudaStatus, Gpu
from prover.device.errors import DeviceLost, NoCudaDevice, UnknownDevice


class Opened:
    def __init__(self, spec):
        self.name = spec


@pytest.fixture
def machine(monkeypatch):
    """Sets what the machine has: compute capabilities, and the GPUs that do not open."""

    def has(*capabilities, why=None, broken=(), refused=()):
        gpus = tuple(Gpu(i, "a GPU", f"GPU-{i}", capability) for i, capability in enumerate(capabilities))
        monkeypatch.setattr(cuda_probe, "probe", lambda: CudaStatus(13000, gpus, True, why, "mend it"))

        def open_cuda(spec):
            ordinal = int(spec.partition(":")[2])
            if ordinal in broken:
                raise DeviceLost("uncorrectable ECC error", spec)
            if ordinal in refused:
                raise NoCudaDevice("CUDA refuses", spec, "mend it")
            return Opened(spec)

        monkeypatch.setattr(cuda, "open_cuda", open_cuda)

    return has


@pytest.mark.parametrize("spec", ["auto", "cuda"])
def test_every_usable_gpu(machine, spec):
    machine((9, 0), (7, 0), (8, 6))
    opened = open_devices(spec)
    assert [device.name for device in opened.devices] == ["cuda:0", "cuda:2"]
    assert opened.note is None


@pytest.mark.parametrize("spec", ["auto", "cuda"])
def test_a_gpu_that_does_not_open_is_left_out_in_words(machine, spec):
    machine((9, 0), (9, 0), (9, 0), broken={0}, refused={2})
    opened = open_devices(spec)
    assert [device.name for device in opened.devices] == ["cuda:1"]
    assert opened.note is not None and "\n" not in opened.note
    assert "cuda:0" in opened.note and "uncorrectable ECC error" in opened.note and "CUDA refuses" in opened.note


@pytest.mark.parametrize("have", [{"why": "CuPy is not installed"}, {"broken": {0}}])
def test_without_any_auto_is_the_host_and_cuda_says_why(machine, have):
    machine((9, 0), **have)
    why = have.get("why", "uncorrectable ECC error")
    opened = open_devices("auto")
    assert [device.name for device in opened.devices] == ["host"]
    assert opened.note is not None and opened.note.startswith("proving on the host: ") and why in opened.note
    with pytest.raises(NoCudaDevice, match=why):
        open_devices("cuda")


def test_one_by_name(machine):
    machine((9, 0))
    host = open_devices("host", threads=1)
    assert [device.name for device in host.devices] == ["host"] and host.note is None
    for spec in ("gpu", "cuda:", "host:1", ""):
        with pytest.raises(UnknownDevice):
            open_devices(spec)
