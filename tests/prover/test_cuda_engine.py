"""The engine on GPUs that fail: real proofs on emulated ones, whose driver loses the device or has no memory."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager

import groth16_files as files
import groth16_model as model
import pytest
from emulated_gpu import FEW_BUCKETS, EmulatedDriver, cuda_device, emulated_cache
from lazy_gpu import LazyDriver

from prover.curves import BN254
from prover.device.cuda import CudaDevice
from prover.device.cuda_memory import Arena
from prover.device.cuda_msm import Multiplications
from prover.device.errors import DeviceLost, OutOfMemory
from prover.device.host import HostDevice
from prover.groth16.footprint import shape_of_key
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import SlotProof
from prover.groth16.setup import setup
from prover.groth16.witness import assign
from prover.groth16.workload import _KeyedWorkload
from prover.intervals import IntervalSet, length
from prover.model import DeviceState, EventKind, Phase
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import KnobSet
from prover.timeline import Timeline

STEPS = ("setup", "h2d", "ntt", "msm", "d2h")
_now = threading.local()
"""The step that runs in this thread."""


class TellingSlotProof(SlotProof):
    """Says which of its steps runs."""


def _telling(step):
    def run(self):
        _now.step = step
        try:
            return getattr(SlotProof, step)(self)
        finally:
            _now.step = None

    return run


for _step in STEPS:
    setattr(TellingSlotProof, _step, _telling(_step))


class FailingDriver(EmulatedDriver):
    """Loses the device at the first call in the step ``lose_in``; from then on every call fails."""

    lose_in = None

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return functools.partial(self.guarded, found) if name in CALLS else found

    def guarded(self, call, *args):
        name = f"cuda:{self.ordinal}"
        if self.lost is None and self.lose_in is not None and getattr(_now, "step", None) == self.lose_in:
            self.lost = DeviceLost("an illegal memory access was encountered", name)
        if self.lost is not None:
            raise DeviceLost("an illegal memory access was encountered", name)
        return call(*args)


CALLS = frozenset(
    {"allocate", "copy_in", "copy_out", "fill", "create_stream", "create_event", "record", "wait", "launch"}
    | {"synchronize_stream", "synchronize_event", "event_done", "synchronize_device", "elapsed_s", "memory_info"}
)


class Workload(_KeyedWorkload):
    """One small circuit and its witness, over and over."""

    def __init__(self):
        rng = random.Random(7)
        circuit, values = model.sample(BN254, rng, 4, 2, 9)
        key = ProvingKey.from_zkey(setup(files.system(circuit), entropy=b"tests"))
        super().__init__("small", "small", key, shape_of_key(key))
        self._assignment = assign(self.key, files.witness(circuit, values), HostDevice(1))
        self._public = values[1:3]

    def synthesize(self, inputs, partitions, threads, cancel):
        return [self._assignment for _ in partitions]

    def prover(self, synthesis, device, threads, cancel):
        return TellingSlotProof(self.key, synthesis, device, threads, cancel)

    def public_inputs(self, inputs, partition):
        return self._public


@pytest.fixture(scope="module")
def workload():
    return Workload()


def gpu(ordinal=0, driver=FailingDriver):
    device = CudaDevice(driver(ordinal=ordinal, multiprocessors=1), cache=emulated_cache())
    device.multiplications = Multiplications(device, FEW_BUCKETS)
    device.prepare(BN254)
    return device


@contextmanager
def running(workload, devices, **knobs):
    engine = Engine(workload, devices, KnobSet(knobs), cores=2, spare=lambda ordinal: HostDevice(1, ordinal))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def prove(engine, jobs, partitions=2):
    futures = [engine.submit(JobRequest(None, partitions)) for _ in range(jobs)]
    for future in futures:
        future.exception(timeout=120)
    return futures


def events(engine, kind):
    return [event for event in engine.events(0) if event.kind is kind]


def check_once(engine, workload, futures, partitions=2):
    """Every partition of every job came once, and its proof is good."""
    for future in futures:
        result = future.result()
        assert result.verified and workload.verify(None, range(partitions), result.proofs)
    told = Counter((e.job, p) for e in events(engine, EventKind.PARTITION_DONE) for p in e.partitions)
    assert len(told) == len(futures) * partitions and set(told.values()) == {1}


@pytest.mark.parametrize("step", STEPS)
def test_of_two_gpus_one_is_lost_in_any_step(workload, step):
    devices = [gpu(0), gpu(1)]
    devices[1].driver.lose_in = step
    with running(workload, devices, on_device_lost="requeue") as engine:
        futures = prove(engine, 2)
        check_once(engine, workload, futures)
        states = [view.state for view in engine.device_views()]
        if events(engine, EventKind.DEVICE_LOST):  # the other may have been quicker with everything
            assert states[1] is DeviceState.LOST
            assert {e.device for e in events(engine, EventKind.SLOT_REQUEUED)} == {1}
        assert states[0] is not DeviceState.LOST


@pytest.mark.parametrize("step", ["h2d", "msm"])
def test_the_only_gpu_is_lost_and_the_host_goes_on(workload, step):
    device = gpu()
    with running(workload, [device], on_device_lost="requeue") as engine:
        check_once(engine, workload, prove(engine, 1))
        device.driver.lose_in = step
        later = prove(engine, 2)
        assert all(future.result().verified for future in later)
        lost, host = engine.device_views()
        assert lost.state is DeviceState.LOST and (host.kind, host.ordinal) == ("host", 1)
        assert not any(thread.name.startswith("gpu0-") for thread in threading.enumerate())


def test_without_requeue_the_job_fails_and_nothing_else_is_taken(workload):
    device = gpu()
    device.driver.lose_in = "ntt"
    with running(workload, [device], gpu_workers_per_device=1) as engine:
        (failed,) = prove(engine, 1)
        assert "ntt: device lost: an illegal memory access was encountered: cuda:0" in str(failed.exception())


class Shortage(Counter):
    """``shortage[step] = n``: the next n requests for device memory in this step are refused, once ``until`` holds."""

    lock = threading.Lock()
    until = staticmethod(lambda: True)

    def strikes(self):
        step = getattr(_now, "step", None)
        with self.lock:
            short = step is not None and self[step] > 0
            if short:
                self[step] -= 1
        if short:
            give_up = time.monotonic() + 30
            while not self.until() and time.monotonic() < give_up:
                time.sleep(0.001)
        return short


@pytest.fixture
def shortage(monkeypatch):
    found, take = Shortage(), Arena.take

    def refusing(self, nbytes, stream):
        if found.strikes():
            raise OutOfMemory(nbytes, 17, "cuda:0")
        return take(self, nbytes, stream)

    monkeypatch.setattr(Arena, "take", refusing)
    return found


@pytest.mark.parametrize("step", ["setup", "h2d", "msm"])  # so small a transform takes none
def test_memory_that_is_short_in_any_step_and_alone_on_the_gpu(workload, shortage, step):
    """A slot that falls back is proved; where nothing helps the job fails and says what was wanted and free."""
    # what a multiplication works in is taken while the transforms run
    steps = ["ntt", "msm"] if step == "msm" else [step]
    with running(workload, [gpu()], gpu_workers_per_device=1) as engine:
        check_once(engine, workload, prove(engine, 1))
        shortage[steps[0]] = 1
        (future,) = prove(engine, 1)
        if step == "msm":
            assert future.result().verified
        shortage.update(dict.fromkeys(steps, 10_000))
        (future,) = prove(engine, 1)
        assert f", {step}: out of memory: " in str(future.exception())
        assert " bytes asked, 17 free: cuda:0" in str(future.exception())
        shortage.clear()
        assert prove(engine, 1)[0].result().verified
        assert not events(engine, EventKind.DEVICE_LOST)


def test_memory_that_is_short_beside_another_worker(workload, shortage):
    """The slot is made again, and from then on one worker has the GPU to itself."""
    with running(workload, [gpu()], gpu_workers_per_device=2, synthesis_lookahead=3) as engine:
        shortage.until = lambda: engine.device_views()[0].workers_busy == 2
        shortage["setup"] = 1
        check_once(engine, workload, prove(engine, 2, 3), 3)
        (event,) = events(engine, EventKind.SLOT_REQUEUED)
        assert " bytes asked, 17 free: cuda:0" in str(event.fields["error"])
        assert engine.device_views()[0].workers == 1


def test_kernels_lie_within_their_phases_and_make_the_busy_time(workload):
    """Although sums are begun before the transforms are over, and one worker's end when the other's transforms run."""
    late = functools.partial(LazyDriver, 0, 0.0)
    with running(workload, [gpu(0, late), gpu(1, late)]) as engine:
        check_once(engine, workload, prove(engine, 2))
        told = engine.events(0)
    timeline = Timeline(window_s=None)
    timeline.fold(told)
    (run,) = timeline.runs()
    spans = [e for e in told if e.kind is EventKind.SPAN and e.phase in (Phase.NTT, Phase.MSM, Phase.D2H)]
    for device in run.devices:
        wall = sum(e.at - (e.start or 0) for e in spans if e.device == device.ordinal)
        kernels = [e for e in told if e.kind is EventKind.KERNELS and e.device == device.ordinal]
        assert (
            device.gpu_active_s
            == device.busy_s
            == pytest.approx(length(IntervalSet((e.start or 0, e.at) for e in kernels)))
        )
        assert 0 < device.busy_s < wall
        assert 0 < device.utilisation_by["kernels"] <= 1 and 0 < device.utilisation_by["lock"] <= 1
        for event in kernels:
            own = next(s for s in spans if (s.job, s.partitions, s.phase) == (event.job, event.partitions, event.phase))
            assert (own.start or 0) - 0.01 <= (event.start or 0) <= event.at <= own.at
    statistics = timeline.active_statistics()
    assert set(statistics) == {Phase.NTT, Phase.MSM} and statistics[Phase.NTT].count == 4


LOST = """
import ctypes
from prover.circuits.builtin import builtin
from prover.curves import BLS12_381
from prover.device import open_device
from prover.device.cuda_kernels import KernelModule
from prover.device.cuda_memory import CudaArray
from prover.device.host import HostDevice
from prover.groth16.workload import CircuitWorkload
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import KnobSet

device = open_device("cuda")
work = CircuitWorkload.open(builtin("poseidon-merkle-14"), threads=4, device=device)
knobs = KnobSet({"on_device_lost": "requeue"})
engine = Engine(work, [device], knobs, spare=lambda ordinal: HostDevice(ordinal=ordinal))
engine.start()
jobs = [engine.submit(JobRequest(work.sample_inputs(number, 6), 6)) for number in range(6)]
jobs[1].result(120)
stream = device.stream("test")
nowhere = CudaArray(None, 4096, 1 << 20)
arguments = [nowhere, nowhere, nowhere, nowhere, ctypes.c_uint32(1 << 15), ctypes.c_uint32(0)]
device.kernels.get(KernelModule("vector.cu", BLS12_381)).launch("mul_sub", 128, 256, arguments, stream)
results = [job.result(300) for job in jobs]
counters = engine.snapshot().counters
print([view.state.value for view in engine.snapshot().devices], device.lost is not None)
print(sum(result.verified for result in results), counters.partitions_done, counters.jobs_failed)
engine.stop()
"""


@pytest.mark.gpu
def test_a_real_gpu_is_lost_and_the_host_goes_on():
    """In a process of its own, for its GPU context is gone afterwards: every job comes, each partition once."""
    cuda_device("real")
    run = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False, timeout=400)
    assert run.returncode == 0, run.stderr
    states, counts = run.stdout.splitlines()
    assert states.startswith("['lost', ") and states.endswith("True")
    assert counts == "6 36 0"
