"""The CUDA device keeps the protocol's promises, on an emulated GPU and on a real one where there is one."""

import gc
import inspect
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from emulated_gpu import KINDS, EmulatedDriver, cuda_device, emulated, emulated_cache

from prover.cancel import Cancelled, CancelToken
from prover.curves import BN254
from prover.device.cuda import CudaDevice
from prover.device.cuda_copies import PinnedPool
from prover.device.cuda_kernels import KernelModule
from prover.device.errors import DeviceLost, LaunchRefused, OutOfMemory, UnknownOperation, WrongDevice
from prover.device.host import HostDevice
from prover.device.protocol import Device
from prover.device.values import Step
from prover.field import pack


@pytest.fixture(params=KINDS)
def device(request):
    return cuda_device(request.param)


def products(device, stream, n=8):
    vector = device.upload(pack(range(n), BN254.fr), stream)
    return {"curve": BN254, "a": vector, "b": vector, "c": vector, "out": vector, "canonical_out": False}


def test_every_verb_of_the_protocol_has_the_protocols_parameters():
    for name, declared in inspect.getmembers(Device, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(CudaDevice, name))
            assert list(ours.parameters) == list(inspect.signature(declared).parameters), name


def test_operations_have_one_name_and_one_signature_on_every_device():
    host, cuda = HostDevice(1).ops, emulated().ops
    assert set(host) == set(cuda)
    for name in host:
        ours, theirs = (list(inspect.signature(ops[name]).parameters.values())[1:] for ops in (cuda, host))
        assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs], name


def test_copies_of_every_size(device):
    """Less than a pinned buffer, more than the whole ring of them, nothing."""
    stream = device.stream("test")
    for nbytes in (0, 1, 4095, 11 * device.copies.pinned.chunk + 17):
        data = np.random.default_rng(nbytes).bytes(nbytes)
        array = device.upload(data, stream)
        assert array.nbytes == nbytes
        assert bytes(device.download(array, stream)) == data


def test_copies_of_many_threads_with_few_pinned_buffers():
    """Nobody waits for a second buffer while holding the first."""
    device = emulated()
    device.copies.pinned = PinnedPool(device.handles, chunk=1 << 12, cap=2 << 12)
    data = [bytes([i]) * 50_000 for i in range(8)]

    def copy(i):
        stream = device.stream("test")
        return bytes(device.download(device.upload(data[i], stream), stream)) == data[i]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(copy, range(8)))
    assert device.copies.pinned.nbytes == 2 << 12


def test_the_pinned_pool_grows_as_allowed_and_gives_back_what_is_idle():
    device = emulated()
    asked = []
    pool = PinnedPool(device.handles, chunk=1 << 12, cap=6 << 12)
    pool.allow = lambda nbytes: asked.append(nbytes) is None and len(asked) < 4
    taken = [pool.take(), *(pool.take_more() for _ in range(5))]
    assert [address is not None for address in taken] == [True] * 5 + [False]
    assert (asked, pool.nbytes, pool.idle) == ([1 << 12] * 4, 5 << 12, 0)
    for address in taken[:4]:
        pool.give_back(address)
    assert pool.idle == 3 << 12, "two of the five are always its own"
    assert pool.trim(1) == 1 << 12 and pool.trim(1 << 30) == 2 << 12
    assert (pool.nbytes, pool.idle, pool.least) == (2 << 12, 0, 2 << 12)
    device.driver.allocate_pinned = lambda nbytes: None
    pool.allow, pool.shrunk = lambda nbytes: True, asked.append
    asked.clear()
    assert pool.take() is not None and pool.take_more() is None
    assert asked == [1 << 12], "what the system refused is not counted"


def test_the_pinned_buffers_of_a_lost_device_are_no_trouble_to_the_budget():
    def refuse(*_: object) -> None:
        raise DeviceLost("illegal access", "emulated")

    device = emulated()
    counted = []
    pool = PinnedPool(device.handles, chunk=1 << 12, cap=6 << 12)
    for address in [pool.take(), *(pool.take_more() for _ in range(3))]:
        pool.give_back(address)
    device.driver.free_pinned = device.driver.allocate_pinned = refuse
    assert pool.trim(1 << 30) == 2 << 12
    pool.shrunk = counted.append
    taken = [pool.take(), pool.take_more()]
    with pytest.raises(DeviceLost):
        pool.take_more()
    assert counted == [1 << 12] and None not in taken


def test_no_pinned_memory_at_all_is_said():
    device = emulated()
    device.driver.allocate_pinned = lambda nbytes: None
    with pytest.raises(OutOfMemory, match="pinned host memory"):
        device.upload(b"abc", device.stream("test"))


def test_write_copies_and_clears_the_rest(device):
    stream = device.stream("test")
    array = device.empty(3, 4, stream)
    source = np.arange(4, dtype=np.uint64)
    device.write(array, source, stream)
    source[0] = 9
    expected = [[0, 1, 2, 3], [0] * 4, [0] * 4]
    assert np.frombuffer(device.download(array, stream), np.uint64).reshape(3, 4).tolist() == expected
    device.write(device.rows(array, 1, 2, 4), np.full(4, 7, np.uint64), stream)
    device.write(array, b"", stream)
    assert not any(device.download(array, stream))
    with pytest.raises(ValueError, match="cannot copy 97 bytes into 96"):
        device.write(array, bytes(97), stream)


def test_parts_are_views(device):
    stream = device.stream("test")
    array = device.upload(np.arange(12, dtype=np.uint64), stream)
    part = device.rows(array, 1, 3, 4)
    del array
    gc.collect()
    assert np.frombuffer(device.download(part, stream), np.uint64).tolist() == list(range(4, 12))
    assert np.frombuffer(device.download(device.rows(part, 1, 2, 4), stream), np.uint64)[0] == 8
    for start, stop in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(IndexError):
            device.rows(part, start, stop, 4)


def test_arrays_and_streams_of_others_are_refused(device):
    stream, host = device.stream("test"), HostDevice(1)
    array, other = device.empty(1, 4, stream), emulated(ordinal=1)
    with pytest.raises(WrongDevice):
        device.download(np.zeros(4, np.uint64), stream)
    with pytest.raises(WrongDevice):
        device.write(host.empty(1, 4, host.stream("h")), b"", stream)
    with pytest.raises(WrongDevice):
        device.empty(1, 4, other.stream("test"))
    with pytest.raises(WrongDevice):
        stream.record().elapsed_s(other.stream("test").record())
    with pytest.raises(WrongDevice):
        stream.wait(host.stream("h").record())
    with pytest.raises(WrongDevice):
        arguments = products(device, stream) | {"b": np.zeros((8, 4), np.uint64)}
        device.run(Step("mul_sub", arguments), stream)
    del array


def test_events_have_an_order_and_a_clock(device):
    stream = device.stream("test")
    first = stream.record()
    device.run(Step("mul_sub", products(device, stream)), stream)
    second = stream.record()
    other = device.stream("other")
    other.wait(second)
    other.synchronize()
    assert first.done
    assert second.done
    assert first.elapsed_s(second) >= 0


def test_time_of_kernels_is_counted_and_of_copies_not(device):
    stream = device.stream("test")
    device.upload(bytes(1 << 20), stream)
    stream.synchronize()
    assert stream.active_s == 0.0
    arguments = products(device, stream)
    began = time.monotonic()
    for _ in range(2):
        device.run(Step("mul_sub", arguments), stream)
    stream.synchronize()
    assert stream.active_s > 0
    (first,) = stream.take_spans()  # two launches in a row are one span
    assert stream.take_spans() == []
    device.run(Step("mul_sub", arguments), stream)
    device.download(arguments["out"], stream)
    ended = time.monotonic()
    (second,) = stream.take_spans()
    assert stream.active_s == pytest.approx(sum(end - start for start, end in (first, second)))
    assert began - 0.01 <= first[0] < first[1] <= second[0] < second[1] <= ended + 0.01


def test_a_cancelled_stream_runs_nothing(device):
    token = CancelToken()
    stream = device.stream("test", 1, token)
    arguments = products(device, stream)
    token.cancel()
    with pytest.raises(Cancelled):
        device.run(Step("mul_sub", arguments), stream)


def test_unknown_operations_are_named():
    device = emulated()
    with pytest.raises(UnknownOperation, match="no such operation: fold on cuda:0"):
        device.run(Step("fold", {}), device.stream("test"))


def test_memory_is_accounted_and_comes_back(device):
    stream = device.stream("test")
    gc.collect()
    before = device.memory()
    arrays = [device.empty(1000, 4, stream) for _ in range(3)]
    assert device.memory().used >= before.used + 96_000
    assert device.memory().peak >= device.memory().used
    del arrays
    gc.collect()
    assert device.memory().used == before.used


def test_no_memory_is_one_line_with_both_figures():
    device = emulated(memory_cap=1 << 20)
    stream = device.stream("test")
    kept = device.empty(1 << 14, 4, stream)
    with pytest.raises(OutOfMemory, match=r"out of memory: 640000 bytes asked, 524288 free: cuda:0") as caught:
        device.empty(20_000, 4, stream)
    assert (caught.value.asked, caught.value.free) == (640_000, 1 << 19)
    del kept
    gc.collect()
    device.empty(20_000, 4, stream)  # what was cached makes room


def test_a_thousand_rounds_take_no_more_memory_than_one():
    device = emulated()
    stream = device.stream("test")

    def slot():
        arguments = products(device, stream, 100)
        device.run(Step("mul_sub", arguments), stream)
        device.empty(3000, 4, stream)
        stream.synchronize()

    slot()
    free, handles = device.driver.memory_info()[0], device.driver.live_handles()
    for _ in range(1000):
        slot()
    assert device.driver.memory_info()[0] == free
    assert device.driver.live_handles() <= handles + 2
    assert len(stream.take_spans()) > 1000


def test_closing_gives_everything_back():
    driver = EmulatedDriver()
    device = CudaDevice(driver, cache=emulated_cache())
    stream = device.stream("test")
    device.run(Step("mul_sub", products(device, stream)), stream)
    device.resident(np.arange(5), stream)
    stream.synchronize()
    del stream
    gc.collect()
    device.close()
    assert driver.memory_info()[0] == driver.properties.memory_bytes
    assert driver.live_handles() == 0
    assert not driver._modules


def test_a_lost_device_says_so_ever_after():
    device = emulated()
    stream = device.stream("test")
    arguments = products(device, stream)
    device.driver.fail_launch = "mul_sub"
    with pytest.raises(DeviceLost, match="device lost: illegal access"):
        device.run(Step("mul_sub", arguments), stream)
    device.driver.fail_launch = None
    for attempt in (
        lambda: device.run(Step("mul_sub", arguments), stream),
        lambda: device.empty(1, 4, stream),
        lambda: device.stream("other"),
    ):
        with pytest.raises(DeviceLost, match="it failed before: cuda:0: prove on another device"):
            attempt()
    assert isinstance(device.lost, DeviceLost)
    device.close()  # touches nothing


def test_residents_stay_once_and_go_with_their_host_buffer():
    device = emulated()
    stream = device.stream("test")
    key = np.arange(4000, dtype=np.uint64)
    first = device.resident(key, stream)
    assert device.resident(key, device.stream("other")) is first
    view = memoryview(key)
    assert device.resident(view, stream) is not first
    assert bytes(device.download(device.resident(b"abc", stream), stream)) == b"abc"
    used = device.memory().used
    del first, key, view
    gc.collect()
    device.resident(np.arange(4), stream)  # sweeps
    assert device.memory().used < used


def test_residents_make_room_when_memory_is_short():
    device = emulated(memory_cap=1 << 20)
    stream = device.stream("test")
    keys = [np.full(40_000, i, np.uint64) for i in range(3)]
    held = device.resident(keys[0], stream)
    for key in keys[1:]:
        assert np.frombuffer(device.download(device.resident(key, stream), stream), np.uint64)[7] == key[7]
    device.empty(75_000, 1, stream)  # all of the others must go, and what is held may not
    assert np.frombuffer(device.download(held, stream), np.uint64)[7] == 0
    with pytest.raises(OutOfMemory):
        device.empty(130_000, 1, stream)


def test_many_threads_bring_a_resident_once():
    device = emulated()
    key, found = np.arange(1 << 18, dtype=np.uint64), []
    threads = [
        threading.Thread(target=lambda: found.append(device.resident(key, device.stream("t")))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(array) for array in found}) == 1


def test_impossible_launches_are_refused_with_both_numbers(device):
    stream = device.stream("test")
    module = device.kernels.get(KernelModule("vector.cu", BN254))
    with pytest.raises(LaunchRefused, match="mul_sub wants 2048 threads a block, the limit is 1024"):
        module.launch("mul_sub", 1, 2048, [], stream)
    with pytest.raises(LaunchRefused, match="bytes of shared memory"):
        module.launch("mul_sub", 1, 32, [], stream, shared=1 << 20)
    with pytest.raises(TypeError, match="has no width"):
        module.launch("mul_sub", 1, 32, [3], stream)
    module.launch("mul_sub", 0, 32, [], stream)


ILLEGAL = """
import ctypes
from prover.curves import BN254
from prover.device import open_device
from prover.device.cuda_kernels import KernelModule
from prover.device.cuda_memory import CudaArray
from prover.device.errors import DeviceLost

device = open_device("cuda")
stream = device.stream("test")
nowhere = CudaArray(None, 4096, 1 << 20)
arguments = [nowhere, nowhere, nowhere, nowhere, ctypes.c_uint32(1 << 15), ctypes.c_uint32(0)]
device.kernels.get(KernelModule("vector.cu", BN254)).launch("mul_sub", 128, 256, arguments, stream)
for attempt in (lambda: device.upload(bytes(100), stream), lambda: device.stream("other")):
    try:
        attempt()
    except DeviceLost as error:
        print(error)
device.close()
assert open_device("host").upload(b"abc", None) == b"abc"
"""


@pytest.mark.gpu
def test_an_illegal_access_loses_the_device_and_nothing_else():
    """In a process of its own, for its GPU context is gone afterwards."""
    cuda_device("real")
    run = subprocess.run([sys.executable, "-c", ILLEGAL], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    first, second = run.stdout.splitlines()
    assert first.startswith("device lost: ")
    assert "illegal memory access" in first
    assert second == "device lost: it failed before: cuda:0: prove on another device, or restart the prover"


def test_preparing_loads_what_a_proof_runs_and_tells_how_far_it_is():
    device, told = emulated(), []
    device.prepare(BN254, 2, lambda what, share: told.append((what, share)))
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[0][0].startswith("kernels: ")
    names = {record.cache.name for record in device.kernels.records}
    assert {"ntt-bn254", "vector-bn254", "spmv-bn254"} <= names
    count = len(device.kernels.records)
    device.prepare(BN254)
    assert len(device.kernels.records) == count


def test_importing_the_prover_loads_no_cupy():
    code = "import sys, prover, prover.device, prover.groth16.prove; sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
