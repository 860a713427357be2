"""The NVML feed against what an H200 answered."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pynvml
import pytest
from gpu_feed import OTHER_UUID, UUID, two_cards
from hypothesis import given
from hypothesis import strategies as st
from replayed_nvml import ReplayedNvml, phase, recording

from console.feeds.nvml import census, words
from console.feeds.nvml.card import same_gpu
from console.feeds.nvml.census import Census
from console.feeds.nvml.floor import LEAST_MINUTES, LOOK_BACK, MemoryFloor
from console.feeds.nvml.questions import CardGoneError, Questions
from console.feeds.nvml.reader import CardReader
from console.feeds.nvml.sampler import DEADLINE_S, CardSampler, NvmlSampler
from prover.model import DeviceSample

RECORDED_PID = 434
SECOND_PID = 467
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST = 3, 4, 15


class Clock:
    """Seconds of the recording."""

    def __init__(self, at: float = 0.05) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


class Rig:
    """A reader over the replayed driver, driven by hand."""

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self.clock = Clock()
        self.nvml = ReplayedNvml(document or recording(), self.clock)
        self.questions = Questions(self.nvml, self.clock)
        handle = self.questions.ask("nvmlDeviceGetHandleByIndex", 0)
        self.reader = CardReader(self.questions, handle, 0, clock=self.clock, wall=self.nvml.wall)

    def run(self, until: float, period: float = 0.1) -> list[DeviceSample]:
        """Samples until a second of the recording."""
        found = []
        while self.clock.at < until:
            sample = self.reader.sample()
            if sample is not None:
                found.append(sample)
            self.clock.at = round(self.clock.at + period, 6)
        return found

    def jump(self, at: float) -> None:
        """Go to a second of the recording, with the counters' mark just before it."""
        self.clock.at = at - 0.1
        self.reader.sample()
        self.clock.at = at


def within(samples: list[DeviceSample], document: dict[str, Any], name: str) -> list[DeviceSample]:
    """The samples well inside a phase."""
    begin, end = phase(document, name)
    return [sample for sample in samples if begin + 0.4 < sample.at < end - 0.2]


def values(samples: list[DeviceSample], name: str) -> list[float]:
    found = [getattr(sample, name) for sample in samples]
    assert found and None not in found
    return found


# -- what the card does --


def test_the_counters_tell_computing_from_copying_and_a_block_from_a_card():
    rig = Rig()
    samples = rig.run(19.9)
    document = rig.nvml.document
    idle = within(samples, document, "idle")
    assert max(values(idle, "sm")) == 0 and max(values(idle, "pcie_rx")) < 100e6
    block = within(samples, document, "one block")
    assert 0.5 < min(values(block, "sm")) < 1 and max(values(block, "occupancy")) < 0.2
    copies = within(samples, document, "copies")
    assert max(values(copies, "sm")) == 0 and min(values(copies, "pcie_rx")) > 50e9
    whole = within(samples, document, "whole GPU")
    assert min(values(whole, "sm")) > 99 and min(values(whole, "integer_pipe")) > 99
    assert max(values(whole, "fp64_pipe")) == 0 and max(values(whole, "power_w")) > 300
    assert {sample.source for sample in samples} == {"gpm"}


def test_the_driver_says_busy_for_all_of_them():
    rig = Rig()
    found: list[DeviceSample] = []
    for second in range(1, 20):
        rig.clock.at = second + 0.06
        found += rig.reader.driver_samples()
    document = rig.nvml.document
    for name in ("one block", "copies", "whole GPU"):
        assert min(values(within(found, document, name), "driver")) >= 99
    wave = values(within(found, document, "300 ms on and off"), "driver")
    assert min(wave) < 5 and max(wave) > 75, "gaps of 300 ms are seen, and smeared"
    times = [sample.at for sample in found]
    assert times == sorted(times) and len(set(times)) == len(times)
    assert times[0] == pytest.approx(-14, abs=0.5), "the buffer's past comes first"
    assert all(0.19 < later - sooner < 0.22 for sooner, later in itertools.pairwise(times))


def test_gaps_of_300_ms_are_seen_in_the_samples():
    rig = Rig()
    samples = within(rig.run(16), rig.nvml.document, "300 ms on and off")
    idle = [sample.sm is not None and sample.sm < 1 for sample in samples]
    busy = [sample.sm is not None and sample.sm > 99 for sample in samples]
    edges = [now for before, now in itertools.pairwise(idle) if now != before]
    assert sum(edges) >= 5 and sum(busy) >= 5


def test_samples_closer_than_the_counters_refresh_are_not_taken():
    rig = Rig()
    samples = rig.run(3, period=0.02)
    assert 24 <= len(samples) <= 30
    assert all(later.at - sooner.at > 0.09 for sooner, later in itertools.pairwise(samples))


def test_memory_power_temperature_and_clock():
    rig = Rig()
    sample = rig.run(9)[-1]
    assert sample.memory_total == 150_754_820_096
    assert sample.memory_used == 822_935_552, "without the driver's own reserve"
    assert sample.power_limit_w == 700 and 40 <= (sample.temperature_c or 0) <= 50 and sample.sm_clock_mhz == 1980


def test_everything_that_is_asked_was_recorded():
    rig = Rig()
    for second in range(1, 20):
        rig.jump(second + 0.5)
        rig.reader.sample()
        rig.reader.driver_samples()
        rig.reader.survey()
    rig.reader.close()
    assert rig.nvml.unrecorded == set()
    assert rig.nvml.sampled == {}, "the driver's buffers are given back"
    assert "nvmlDeviceGetPcieThroughput" not in rig.nvml.calls, "it measures over 20 ms"


def test_who_is_on_the_card(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr("console.feeds.nvml.reader.os.getpid", lambda: RECORDED_PID)
    rig = Rig()
    rig.reader._proc = tmp_path
    rig.jump(5)
    (own,) = rig.reader.survey().processes
    assert own.ours and own.pid == RECORDED_PID and own.memory == 813_694_976
    rig.jump(17.5)
    ours = {process.pid: process for process in rig.reader.survey().processes}
    assert set(ours) == {RECORDED_PID, SECOND_PID}
    assert not ours[SECOND_PID].ours and ours[SECOND_PID].name == "python3"
    rig.jump(19.9)
    assert [process.pid for process in rig.reader.survey().processes] == [RECORDED_PID]


def test_a_process_that_the_driver_does_not_name(tmp_path):
    rig = Rig()
    rig.reader._proc = tmp_path
    rig.nvml.faults = {"nvmlSystemGetProcessName": 6}
    assert [process.name for process in rig.reader.survey().processes] == [f"pid {RECORDED_PID}"]
    (tmp_path / str(RECORDED_PID)).mkdir()
    (tmp_path / str(RECORDED_PID) / "comm").write_text("prover\n")
    assert [process.name for process in rig.reader.survey().processes] == ["prover"]


def test_identity_and_health():
    rig = Rig()
    identity = rig.reader.identity
    assert (identity.uuid, identity.name, identity.gpm, identity.mig) == (UUID, "NVIDIA H200", True, False)
    assert (identity.pcie_generation_max, identity.pcie_width_max) == (5, 16)
    state = rig.reader.survey()
    assert (state.pcie_generation, state.pcie_width) == (5, 16)
    assert (state.ecc_corrected, state.ecc_uncorrected, state.rows_pending, state.rows_failed) == (0, 0, False, False)
    assert state.throttle == () and state.events == () and state.refused == ()


# -- what a card or a driver refuses --


def test_a_card_without_counters_has_the_buffer_and_the_rates():
    document = recording()
    document["answers"]["nvmlGpmQueryDeviceSupport"]['["gpu0"]'][0][1]["answer"]["struct"]["isSupportedDevice"] = 0
    rig = Rig(document)
    samples = rig.run(9)
    assert not rig.reader.identity.gpm and {sample.source for sample in samples} == {"nvml"}
    assert {sample.sm for sample in samples} == {None}
    assert min(values(within(samples, document, "copies"), "driver")) >= 99, "the plain rate"
    assert rig.reader.driver_samples() and rig.run(9.3)[-1].driver == 99


def test_an_old_driver_is_asked_once_and_what_is_left_is_shown():
    rig = Rig()
    missing = {name for name in dir(pynvml) if name.startswith("nvml")} - {
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUtilizationRates",
    }
    rig.nvml.faults = dict.fromkeys(missing, NOT_SUPPORTED)
    rig.reader = CardReader(rig.questions, rig.nvml.handles["gpu0"], 0, clock=rig.clock, wall=rig.nvml.wall)
    rig.nvml.calls.clear()
    for sample in rig.run(8, period=0.5):
        assert sample.memory_used == 822_935_552 and sample.power_w is None and sample.sm is None
        assert rig.reader.survey().processes == ()
        assert rig.reader.driver_samples() == []
    counts = {name: rig.nvml.calls.count(name) for name in rig.nvml.calls}
    assert counts.pop("nvmlDeviceGetMemoryInfo") > 10 and counts.pop("nvmlDeviceGetUtilizationRates") > 10
    assert max(counts.values()) == 1, counts


def test_a_binding_that_is_newer_than_the_driver_is_no_error():
    rig = Rig()

    def mismatch() -> None:
        raise pynvml.NVMLLibraryMismatchError("versions differ")

    rig.nvml.faults = {"nvmlDeviceGetComputeRunningProcesses_v3": mismatch}
    assert [process.pid for process in rig.reader.survey().processes] == [RECORDED_PID]


def test_what_the_user_may_not_ask_is_named():
    rig = Rig()
    rig.nvml.faults = {"nvmlGpmSampleGet": NO_PERMISSION, "nvmlDeviceGetFanSpeed": NO_PERMISSION}
    rig.reader = CardReader(rig.questions, rig.nvml.handles["gpu0"], 0, clock=rig.clock, wall=rig.nvml.wall)
    assert not rig.reader.identity.gpm
    assert rig.reader.survey().refused == ("GPM counters",)


def test_an_xid_is_heard_once():
    rig = Rig()
    rig.nvml.events = [(8, 31), (8, 79)]
    assert [event.xid for event in rig.reader.survey().events] == [31, 79]
    rig.clock.at += 1
    assert [event.xid for event in rig.reader.survey().events] == [31, 79]


@pytest.mark.parametrize(
    ("code", "words_of_it"), [(15, "fell off the bus"), (16, "needs a reset"), (9, "unloaded"), (1, "went away")]
)
def test_a_lost_card_raises_in_words(code: int, words_of_it: str):
    rig = Rig()
    rig.nvml.faults = {"*": code}
    with pytest.raises(CardGoneError, match=words_of_it):
        rig.run(1)


# -- the threads --


def counted(driver: int | None, problem: str | None, fix: str) -> Census:
    return Census(driver, 0, 0, problem, fix)


def sampler_over(document: dict[str, Any]) -> tuple[NvmlSampler, ReplayedNvml, Clock]:
    clock = Clock()
    nvml = ReplayedNvml(document, clock)
    return NvmlSampler(lambda: nvml, counted, clock=clock, wall=nvml.wall), nvml, clock


def drive(sampler: NvmlSampler, clock: Clock, until: float) -> None:
    while clock.at < until:
        for card in sampler._cards:
            card.tick()
        clock.at = round(clock.at + 0.1, 6)


def test_a_device_is_matched_by_uuid_never_by_index():
    sampler, _, clock = sampler_over(two_cards())
    sampler.open()
    drive(sampler, clock, 9)
    assert [card.identity.uuid for card in sampler.cards(clock.at)] == [OTHER_UUID, UUID]
    assert (sampler.samples(UUID, 8)[-1].sm or 0) > 99
    assert sampler.samples(OTHER_UUID, 8)[-1].sm == 0
    assert sampler.samples(UUID.removeprefix("GPU-").upper(), 8), "as CUDA may write it"
    assert sampler.samples("GPU-ffffffff-0000-0000-0000-000000000000", 0) == () == sampler.samples("", 0)
    assert sampler.census == Census(2, 0, 0, None, "check nvidia-smi")


def test_rings_answer_for_a_stretch():
    sampler, _, clock = sampler_over(recording())
    sampler.open()
    drive(sampler, clock, 6)
    late = sampler.samples(UUID, 5)
    assert 8 <= len(late) <= 10 and all(sample.at > 5 for sample in late)
    assert sampler.driver(UUID, 4.8)[-1].driver == 99
    (card,) = sampler.cards(clock.at)
    assert card.problem is None and card.memory_floor == 822_935_552 and card.memory_floor_rise is None


def test_what_is_long_past_is_kept_by_the_second(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.feeds.nvml.sampler.FINE_S", 4.0)
    sampler, _, clock = sampler_over(recording())
    sampler.open()
    drive(sampler, clock, 16)
    past = sampler.samples(UUID, 0)
    steps = [later.at - sooner.at for sooner, later in itertools.pairwise(past)]
    assert all(0.09 < step < 1.2 for step in steps), "no hole, nothing twice"
    assert 11 <= sum(step > 0.5 for step in steps) <= 13 and len(past) < 60
    whole = next(sample for sample in past if 9 < sample.at < 10.5)
    assert (whole.sm or 0) > 99 and whole.memory_used == 822_935_552
    assert all(step < 0.11 for step in steps[-38:])


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def eventually(true: Callable[[], object], within_s: float = 10.0) -> None:
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def real_sampler(document: dict[str, Any], faults: dict[str, Any]) -> tuple[NvmlSampler, ReplayedNvml]:
    """Its threads run, on the real clock, at the head of the recording."""
    begin = time.monotonic()
    nvml = ReplayedNvml(document, lambda: time.monotonic() - begin)
    nvml.faults = faults
    return NvmlSampler(lambda: nvml, counted, period=0.1, wall=nvml.wall), nvml


def test_a_call_that_hangs_is_told_and_holds_up_nobody(released: threading.Event):
    hung = threading.Event()

    def hang() -> None:
        if threading.current_thread().name == "nvml-gpu0" and nvml.calls.count("nvmlDeviceGetPowerUsage") > 3:
            hung.set()
            released.wait()

    sampler, nvml = real_sampler(two_cards(), {"nvmlDeviceGetPowerUsage": hang})
    sampler.start()
    assert hung.wait(20)
    later = time.monotonic() + DEADLINE_S + 1
    eventually(lambda: (sampler.cards(later)[0].problem or "").startswith("the driver has not answered for"))
    assert "nvmlDeviceGetPowerUsage" in (sampler.cards(later)[0].problem or "")
    seen = len(sampler.samples(UUID, 0))
    eventually(lambda: len(sampler.samples(UUID, 0)) > seen)
    assert sampler.cards(time.monotonic())[1].problem is None
    begin = time.monotonic()
    sampler.stop(0.1)
    assert time.monotonic() - begin < 5
    released.set()
    eventually(lambda: not any(card._thread.is_alive() for card in sampler._cards))


def test_a_driver_that_hangs_when_it_is_opened_is_told(released: threading.Event):
    sampler, nvml = real_sampler(recording(), {"nvmlInit": released.wait})
    sampler.start()
    eventually(lambda: "nvmlInit" in nvml.calls)
    sampler._opening = time.monotonic() - DEADLINE_S - 1
    assert "has not answered for 3 s" in (sampler.problem or "")
    assert sampler.cards(time.monotonic()) == ()
    sampler.stop(0.05)


def test_a_card_lost_while_it_runs_is_told_and_comes_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.feeds.nvml.sampler.RETRY_S", 0.02)
    sampler, nvml = real_sampler(recording(), {})
    sampler.start()
    eventually(lambda: sampler.samples(UUID, 0))
    nvml.faults = {"*": GPU_IS_LOST}
    eventually(lambda: sampler.cards(time.monotonic())[0].lost)
    assert "fell off the bus" in (sampler.cards(time.monotonic())[0].problem or "")
    assert sampler.samples(UUID, 0), "what was seen stays"
    nvml.faults = {}
    eventually(lambda: not sampler.cards(time.monotonic())[0].lost)
    sampler.stop(5)
    assert not any(card._thread.is_alive() for card in sampler._cards)


def test_what_nobody_expected_ends_the_feed_in_one_line():
    def broken() -> None:
        raise ValueError("surprise")

    sampler, _ = real_sampler(recording(), {"nvmlDeviceGetPowerUsage": broken})
    sampler.start()
    eventually(lambda: sampler.cards(time.monotonic()) and sampler.cards(time.monotonic())[0].problem)
    assert sampler.cards(time.monotonic())[0].problem == "the NVML feed stopped: ValueError: surprise"
    sampler.stop(5)


def test_a_sampler_that_was_never_started_stops():
    NvmlSampler(lambda: None, counted).stop(0.1)


# -- no driver --


def absent() -> Any:
    raise ImportError("pynvml")


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (12, "no NVIDIA driver (libnvidia-ml.so.1)"),
        (9, "the NVIDIA driver is not loaded"),
        (4, "the NVIDIA driver refuses this user"),
        (18, "the NVIDIA driver's library and kernel module differ in version"),
        (999, "the NVIDIA driver does not answer (Unknown Error)"),
    ],
)
def test_why_nvml_does_not_open(code: int, line: str):
    sampler, nvml, _ = sampler_over(recording())
    nvml.faults = {"nvmlInit": code}
    sampler.open()
    assert sampler.problem == line and sampler.cards(0) == ()
    assert sampler.census is not None and sampler.census.driver is None and sampler.census.fix


def test_no_binding_and_no_gpu():
    sampler = NvmlSampler(absent, counted)
    sampler.open()
    assert sampler.problem == "nvidia-ml-py is not installed"
    document = recording()
    document["answers"]["nvmlDeviceGetCount"]["[]"][0][1]["answer"] = 0
    sampler, _, _ = sampler_over(document)
    sampler.open()
    assert sampler.problem == "the driver shows no GPU"


def test_a_foreign_module_called_pynvml_is_no_crash():
    sampler = NvmlSampler(object, counted)
    sampler.start()
    eventually(lambda: sampler.problem)
    assert (sampler.problem or "").startswith("the NVML feed stopped: AttributeError")


def test_the_real_binding_on_this_machine_gives_cards_or_a_reason():
    sampler = NvmlSampler()
    sampler.open()
    assert sampler.census is not None
    assert (sampler.problem is None) == bool(sampler.cards(time.monotonic()))
    assert "\n" not in sampler.census.line and sampler.census.line.startswith("GPUs: driver ")


def test_the_census_tells_the_reason_that_knows_more(monkeypatch: pytest.MonkeyPatch):
    from prover.device.cuda_probe import CudaStatus, Gpu

    old = Gpu(0, "Tesla K80", UUID, (3, 7))
    for status, driver, problem, line in (
        (CudaStatus(None, (), True, "no NVIDIA driver (libcuda.so.1)"), None, "the NVIDIA driver is not loaded",
         "GPUs: driver 0, CUDA 0, usable 0: the NVIDIA driver is not loaded"),
        (CudaStatus(13000, (old,), True, "Tesla K80 is too old"), 1, None,
         "GPUs: driver 1, CUDA 1, usable 0: Tesla K80 is too old"),
        (CudaStatus(13000, (), True, "the driver shows no GPU"), 2, None,
         "GPUs: driver 2, CUDA 0, usable 0: the driver shows no GPU"),
        (CudaStatus(13000, (Gpu(0, "NVIDIA H200", UUID, (9, 0)),), True, None), 1, None,
         "GPUs: driver 1, CUDA 1, usable 1"),
    ):  # fmt: skip
        monkeypatch.setattr("prover.device.cuda_probe.probe", lambda status=status: status)
        assert census.take_census(driver, problem).line == line


# -- MIG (made up from the recording: no machine of ours is in MIG mode) --


def test_a_slice_in_mig_mode_is_a_card_of_its_own():
    document = recording()
    answers = document["answers"]
    answers["nvmlDeviceGetMigMode"]['["gpu0"]'][0][1]["answer"] = [1, 1]
    answers["nvmlDeviceGetMaxMigDeviceCount"]['["gpu0"]'][0][1]["answer"] = 2
    answers["nvmlDeviceGetMigDeviceHandleByIndex"] = {
        '["gpu0", 0]': [[0, {"answer": {"handle": "gpu0.mig0"}}]],
        '["gpu0", 1]': [[0, {"error": 6}]],
    }
    answers["nvmlDeviceGetGpuInstanceId"] = {'["gpu0.mig0"]': [[0, {"answer": 3}]]}
    uuid = "MIG-12345678-1234-1234-1234-123456789abc"
    answers["nvmlDeviceGetUUID"]['["gpu0.mig0"]'] = [[0, {"answer": uuid}]]
    answers["nvmlDeviceGetName"]['["gpu0.mig0"]'] = [[0, {"answer": "NVIDIA H200 MIG 3g.71gb"}]]
    answers["nvmlDeviceGetMemoryInfo"]['["gpu0.mig0"]'] = answers["nvmlDeviceGetMemoryInfo"]['["gpu0"]']
    document["samples"]["gpu0.mig0"] = []
    sampler, nvml, clock = sampler_over(document)
    sampler.open()
    drive(sampler, clock, 8.5)
    (card,) = sampler.cards(clock.at)
    assert card.identity.mig and card.identity.name.endswith("3g.71gb")
    assert "nvmlGpmMigSampleGet" in nvml.calls and "nvmlGpmSampleGet" not in nvml.calls
    assert (sampler.samples(uuid.replace("MIG-", "GPU-"), 8)[-1].sm or 0) > 99, "CUDA's prefix may differ"


# -- small things --


def test_throttle_reasons_in_words():
    assert words.throttle(0) == () == words.throttle(1)
    assert words.throttle(0x4) == ("power cap",)
    assert words.throttle(0x8) == ("hardware slowdown",)
    assert words.throttle(0x48) == ("too hot",)
    assert words.throttle(0x88 | 0x20) == ("hot", "power brake")


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_any_bits_have_words_or_none(bits: int):
    assert all(words.throttle(bits)) and "Xid" in words.xid(bits)


def test_uuids_are_compared_by_their_digits():
    assert same_gpu("GPU-ab", "gpu-AB") and same_gpu("MIG-ab", "GPU-ab")
    assert not same_gpu("", "") and not same_gpu("GPU-ab", "GPU-ac")


def test_a_floor_that_rises():
    floor = MemoryFloor()
    assert floor.floor is None and floor.rise_an_hour is None
    for minute in range(LOOK_BACK + LEAST_MINUTES + 60):
        for second in range(0, 60, 5):
            used = 1_000_000 + 1000 * minute + (500_000_000 if second % 2 else 0)
            floor.add(60.0 * minute + second, used)
    assert floor.floor == 1_000_000 + 1000 * (LEAST_MINUTES + 60)
    assert floor.rise_an_hour == pytest.approx(60_000)
    line = floor.line(12)
    assert len(line) == 11 and list(line) == sorted(line)  # 95 minutes: 8 and 9 of them have room in 12 points
    assert line[-1] == 1_000_000 + 1000 * (LOOK_BACK + LEAST_MINUTES + 60 - 8)


@given(st.lists(st.integers(min_value=0, max_value=100), max_size=200), st.integers(2, 20))
def test_the_line_of_the_floor_ends_with_the_last_minutes(used: list[int], points: int):
    floor = MemoryFloor()
    for minute, value in enumerate(used):
        floor.add(60.0 * minute, value)
    line = floor.line(points)
    assert len(line) <= points and set(line) <= set(used)
    if len(used) >= LOOK_BACK:
        each = max(LOOK_BACK, -(-len(used) // points))
        assert line[-1] == min(used[-each:])


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=400))
def test_the_floor_is_the_least_of_the_last_minutes(used: list[int]):
    floor = MemoryFloor()
    for place, value in enumerate(used):
        floor.add(10.0 * place, value)
    minutes = sorted({int(10.0 * place // 60) for place in range(len(used))})[-LOOK_BACK:]
    assert floor.floor == min(value for place, value in enumerate(used) if int(10.0 * place // 60) in minutes)


def test_a_card_sampler_without_a_reader_says_nothing():
    clock = Clock()
    nvml = ReplayedNvml(recording(), clock)

    def make(questions: Questions) -> CardReader:
        raise CardGoneError("the driver gives no access to it")

    card = CardSampler(make, Questions(nvml, clock), 0, clock=clock)
    with pytest.raises(CardGoneError):
        card.tick()
    card.lose("the driver gives no access to it")
    shown = card.card(0)
    assert shown.lost and shown.at is None and shown.problem == "the driver gives no access to it"
