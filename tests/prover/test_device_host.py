"""The host device keeps the protocol's promises: ordering, views, accounting, named operations, one-line refusals."""

import gc
import inspect

import numpy as np
import pytest

from prover.cancel import Cancelled, CancelToken
from prover.curves import BN254
from prover.device import open_device
from prover.device.cuda_probe import probe
from prover.device.errors import NoCudaDevice, OutOfMemory, UnknownDevice, UnknownOperation, WrongDevice
from prover.device.host import HostDevice, HostEvent, HostStream
from prover.device.protocol import Device, Step
from prover.field import pack, unpack

WITHOUT_GPU = pytest.mark.skipif(bool(probe().usable), reason="this machine has a GPU")


@pytest.fixture
def device():
    return HostDevice(1)


def test_every_verb_of_the_protocol_has_the_protocols_parameters(device):
    for name, declared in inspect.getmembers(Device, inspect.isfunction):
        if name.startswith("_"):
            continue
        ours = inspect.signature(getattr(HostDevice, name))
        assert list(ours.parameters) == list(inspect.signature(declared).parameters), name


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param("cuda", NoCudaDevice, marks=WITHOUT_GPU),
        ("cuda:99", NoCudaDevice),
        ("gpu", UnknownDevice),
        ("cuda:x", UnknownDevice),
        ("", UnknownDevice),
    ],
)
def test_devices_that_cannot_be_opened_say_so_in_one_line(spec, error):
    with pytest.raises(error) as caught:
        open_device(spec)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == (3 if error is NoCudaDevice else 2)


@pytest.mark.parametrize("spec", [pytest.param("auto", marks=WITHOUT_GPU), "host"])
def test_auto_falls_back_to_the_host(spec):
    device = open_device(spec)
    assert device.capability.kind == "host"
    assert device.capability.multiprocessors >= 1
    assert device.capability.memory_bytes > 1 << 28


def test_upload_and_download_are_views(device):
    stream = device.stream("s")
    array = np.arange(8, dtype=np.uint64).reshape(2, 4)
    uploaded = device.upload(array, stream)
    array[1, 3] = 77
    assert np.asarray(device.download(uploaded, stream))[1, 3] == 77
    assert np.asarray(device.rows(uploaded, 1, 2, 4)).tolist() == [[4, 5, 6, 77]]


def test_write_copies_and_clears_the_rest(device):
    stream = device.stream("s")
    array = device.empty(3, 4, stream)
    np.asarray(array)[:] = 5
    source = np.arange(4, dtype=np.uint64)
    device.write(array, source, stream)
    source[0] = 9
    assert np.asarray(array).tolist() == [[0, 1, 2, 3], [0] * 4, [0] * 4]


def test_memory_is_accounted_until_the_last_view_goes(device):
    stream = device.stream("s")
    before = device.memory()
    array = device.empty(1000, 4, stream)
    small = device.empty(2, 4, stream)
    assert device.memory().used == before.used + 32_000 + 64
    part = device.rows(array, 0, 1, 4)
    del array, small
    gc.collect()
    assert device.memory().used == before.used + 32_000
    del part
    gc.collect()
    assert device.memory().used == before.used
    assert device.memory().peak >= 32_064
    assert device.memory().free > 0


def test_too_much_memory_is_refused_and_not_counted(device):
    with pytest.raises(OutOfMemory, match="slot_size"):
        device.empty(1 << 50, 4, device.stream("s"))
    assert device.memory().used == 0


def test_events_are_in_order_and_done(device):
    stream = device.stream("s")
    first = stream.record()
    second = stream.record()
    stream.wait(second)
    stream.synchronize()
    assert first.done
    assert second.done
    assert first.elapsed_s(second) >= 0
    with pytest.raises(WrongDevice):
        first.elapsed_s(object())


def test_operations_by_name(device):
    stream = device.stream("s", 2)
    assert isinstance(stream, HostStream)
    assert isinstance(stream.record(), HostEvent)
    a, b, c = (pack(values, BN254.fr) for values in ([3, 5], [7, 11], [1, 2]))
    out = device.empty(2, 4, stream)
    arguments = {"curve": BN254, "a": a, "b": b, "c": c, "out": out, "canonical_out": True}
    device.run(Step("mul_sub", arguments), stream)
    assert unpack(out, BN254.fr, "canonical") == [20, 53]
    assert set(device.ops) == {"ntt", "msm", "msm_many", "spmv", "mul_sub", "fixed_base"}
    with pytest.raises(UnknownOperation, match="no such operation: fold on host"):
        device.run(Step("fold", {}), stream)
    with pytest.raises(WrongDevice):
        device.download(object(), stream)
    with pytest.raises(WrongDevice):
        device.write(object(), b"", stream)


def test_a_streams_token_stops_its_operations(device):
    token = CancelToken()
    stream = device.stream("s", 1, token)
    token.cancel()
    vector = device.empty(1 << 12, 4, stream)
    arguments = {"curve": BN254, "a": vector, "b": vector, "c": vector, "out": vector, "canonical_out": False}
    with pytest.raises(Cancelled):
        device.run(Step("mul_sub", arguments), stream)
