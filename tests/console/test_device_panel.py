"""The panel of a GPU, of several, and of none: what an H200 answered, on screen."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from fake_feed import FakeFeed
from gpu_feed import OTHER_UUID, UUID, GpuFeed, two_cards
from hypothesis import given
from hypothesis import strategies as st
from pilot_console import drive, same_as_snapshot
from rich.cells import cell_len
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.export.frame_json import frame_document
from console.feeds.nvml.card import CardEvent, CardIdentity, CardProcess, CardState, GpuCard
from console.feeds.nvml.census import Census
from console.frame import Frame
from console.screens import present, present_gpu
from console.screens.arrangement import arrange
from console.screens.plain import screen_text
from console.settings import ConsoleSettings
from prover.model import DeviceSample
from prover.pipeline.knobs import build_registry
from widgets.device_rows import drawn_line
from widgets.glyphs import ASCII, UNICODE

RECORDED_PID = 434
SIZES = [(80, 24), (120, 40), (200, 60)]
MIDST_OF_WAVE = 15.2
"""Seconds into the recording: 300 ms of work and 300 ms of none have alternated for a while."""


@pytest.fixture(autouse=True)
def the_same_machine_everywhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("console.feeds.engine.REGISTRY", build_registry(4))
    monkeypatch.setattr("fakes_console.REGISTRY", build_registry(4))
    monkeypatch.setattr(present, "available_cores", lambda: 4)
    monkeypatch.setattr("console.feeds.engine.available_cores", lambda: 4)
    monkeypatch.setattr("console.feeds.nvml.reader.os.getpid", lambda: RECORDED_PID)


def shown(
    feed: FakeFeed, size: tuple[int, int], window: float = 60.0, settings: ConsoleSettings | None = None
) -> list[str]:
    """The screen's lines."""
    found: list[str] = []

    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        app.window_s = window
        app.tick()
        await pilot.pause()
        found.extend(screen_text(app.screen).splitlines())

    drive(act, size=size, feed=feed, settings=settings)
    assert all(cell_len(line) <= size[0] for line in found)
    return found


def panel(lines: list[str]) -> str:
    """The device panel's part of the screen."""
    end = next(place for place, line in enumerate(lines) if line.startswith("─ Pipeline"))
    return "\n".join(lines[1:end])


def one_gpu(seconds: float = MIDST_OF_WAVE, **faults: Any) -> GpuFeed:
    feed = GpuFeed()
    feed.nvml.faults = faults
    feed.play(seconds)
    return feed


def two_gpus(seconds: float = MIDST_OF_WAVE) -> GpuFeed:
    """CUDA's first is the driver's second."""
    feed = GpuFeed(two_cards(), (UUID, OTHER_UUID))
    feed.play(seconds)
    return feed


# -- on screen --


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_gpu_at_each_size(size: tuple[int, int]):
    same_as_snapshot(f"gpu-{size[0]}x{size[1]}", panel(shown(one_gpu(), size)))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_two_gpus_at_each_size(size: tuple[int, int]):
    same_as_snapshot(f"gpus-{size[0]}x{size[1]}", panel(shown(two_gpus(), size)))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_gpus_that_come_once_the_screen_is_there(size: tuple[int, int]):
    """A hosted prover opens its devices after the first frames; at 80x24 their panel is as high as that of none."""
    feed, found = two_gpus(), []

    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        frame = app.current
        assert frame is not None and len(frame.devices) == 2
        for devices in ((), frame.devices):
            app.overview.show(replace(frame, devices=devices), feed.engine.clock())
            await pilot.pause()
            found.append(panel(screen_text(app.screen).splitlines()))

    drive(act, size=size, feed=feed)
    assert "GPU" not in found[0]
    same_as_snapshot(f"gpus-{size[0]}x{size[1]}", found[1])


def test_a_gpu_in_ascii():
    for feed in (one_gpu(), two_gpus()):
        assert "\n".join(shown(feed, (120, 40), settings=ConsoleSettings(ascii=True))).isascii()


def chart(lines: list[str]) -> str:
    """The lowest row of the chart, which a blank leaves only where the GPU did nothing."""
    row = next(line for line, below in pairwise(lines) if below.startswith(" lane"))
    return row[6:109].ljust(103)


@pytest.mark.parametrize("window", [10.0, 60.0])
def test_gaps_of_300_ms_are_seen_in_the_chart(window: float):
    """In the wave of the recording (11.5 s to 15.7 s) each gap leaves its hole; a longer column shows its lowest."""
    row = chart(shown(one_gpu(), (120, 40), window))
    wave = row[-int(3 / window * len(row)) :]
    holes = [hole for hole in "".join(" " if cell in " ▁" else "#" for cell in wave).split("#") if hole]
    if window == 10.0:
        assert len(holes) >= 5, wave
    else:
        assert holes == [wave], "every column of 0.6 s holds a gap"
    assert "█████" in row, "and the work before it stands"


def test_a_window_of_minutes_shows_means_and_says_nothing_of_lowest():
    lines = shown(one_gpu(), (120, 40), 300.0)
    assert "lowest" not in "\n".join(lines) and "last 5 min" in lines[1]


def test_a_lost_gpu_is_told_beside_the_title_and_its_figures_are_not_kept():
    feed = one_gpu(8)
    feed.sampler._cards[0].lose("fell off the bus: the machine needs a reboot")
    feed.engine.advance(5)
    for size in SIZES:
        lines = shown(feed, size)
        assert "fell off the bus" in lines[1]
        assert " W" not in lines[1].partition("kernels")[2] or size != (80, 24)
        assert "– %" in "\n".join(lines[1:6]), "no old value stands as if it were new"


def test_a_foreign_process_and_an_xid_are_told():
    feed = one_gpu(18.3)
    assert "also on it python3" in shown(feed, (120, 40))[1]
    feed.nvml.events = [(8, 79)]
    feed.play(1.2)
    for size in SIZES:
        assert "Xid 79: fell off the bus" in shown(feed, size)[1]


def of_proofs(feed: FakeFeed, good: int, bad: int) -> FakeFeed:
    """The feed, with so many good and bad proofs of its devices."""
    poll = feed.poll

    def counted(window: float) -> Frame:
        frame = poll(window)
        devices = tuple(replace(one, view=replace(one.view, proofs_good=good, proofs_bad=bad)) for one in frame.devices)
        return replace(frame, devices=devices)

    feed.poll = counted  # type: ignore[method-assign]
    return feed


@pytest.mark.parametrize("size", SIZES)
def test_a_device_with_bad_proofs_is_not_overlooked(size: tuple[int, int]):
    for feed in (one_gpu(8), FakeFeed()):
        assert "bad proofs" not in "\n".join(shown(feed, size))
        assert "bad proofs 3 of 1207" in shown(of_proofs(feed, 1204, 3), size)[1]


def test_good_proofs_are_told_where_there_is_room():
    host, gpu = of_proofs(FakeFeed(), 1204, 0), of_proofs(one_gpu(8), 1204, 0)
    for feed in (host, gpu):
        assert "good proofs 1204" in "\n".join(shown(feed, (200, 60)))
        device = frame_document(feed.poll(60.0))["devices"][0]
        assert (device["proofs_good"], device["proofs_bad"]) == (1204, 0)
    gpu.sampler._cards[0].lose("fell off the bus: the machine needs a reboot")  # type: ignore[attr-defined]
    gpu.engine.advance(5)
    line = shown(of_proofs(gpu, 0, 1), (120, 40))[1]
    assert line.index("fell off the bus") < line.index("bad proofs"), "the worst first"


class NoGpus:
    """A machine without."""

    problem = "no NVIDIA driver (libnvidia-ml.so.1)"

    def __init__(self, census: Census) -> None:
        self.census = census

    def start(self) -> None: ...

    def stop(self, timeout_s: float) -> None: ...

    def cards(self, now: float) -> tuple[GpuCard, ...]:
        return ()

    def samples(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:
        return ()

    driver = samples


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("census", "words"),
    [
        (Census(None, 0, 0, NoGpus.problem), "driver 0, CUDA 0, usable 0: no NVIDIA driver"),
        (Census(2, 2, 0, "CuPy is not installed"), "driver 2, CUDA 2, usable 0: CuPy is not installed"),
    ],
)
def test_without_a_gpu_it_says_why_in_one_line_and_shows_the_processor(
    size: tuple[int, int], census: Census, words: str
):
    feed = FakeFeed()
    feed.engine.advance(20)
    feed._gpus = NoGpus(census)
    lines = shown(feed, size)
    assert sum(words in line for line in lines) == 1
    assert any(line.startswith(" cpu │") for line in lines)


# -- in the frame --


def test_each_device_has_its_own_counters_whatever_the_order():
    frame = two_gpus().poll(60.0)
    ours, other = frame.devices
    assert ours.card is not None and ours.card.identity.uuid == UUID and ours.card.identity.index == 1
    assert other.card is not None and other.card.identity.index == 0
    assert 0.3 < (ours.utilisation_by["sm"] or 0) < 0.6 and other.utilisation_by["sm"] == 0
    assert 0.6 < (ours.utilisation_by["driver"] or 0) < 0.9
    assert [feed.name for feed in frame.feeds] == ["engine", "host", "nvml"]


def test_the_document_tells_what_the_screen_tells():
    document = frame_document(one_gpu().poll(60.0))
    assert document["gpus"] == {"driver": 1, "cuda": 1, "usable": 1, "why": None, "uuids": [UUID]}
    gpu = document["devices"][0]["gpu"]
    assert gpu["uuid"] == UUID and gpu["memory_total_bytes"] == 150_754_820_096 and 0 <= gpu["sm_percent"] <= 100
    assert gpu["pcie"] == {"generation": 5, "width": 16, "generation_max": 5, "width_max": 16}
    assert gpu["processes"][0]["ours"] and document["devices"][0]["utilisation_by"]["sm"] is not None


def test_a_device_that_nvml_does_not_show():
    feed = GpuFeed(uuids=(OTHER_UUID,))
    feed.play(8)
    frame = feed.poll(60.0)
    assert frame.devices[0].card is None and frame.devices[0].samples == ()
    assert "not seen by NVML" in shown(feed, (80, 24))[1]
    assert frame_document(frame)["devices"][0]["gpu"] is None


def test_counters_that_fall_out_leave_the_driver_s_word():
    feed = one_gpu(9, nvmlGpmQueryDeviceSupport=3)
    lines = shown(feed, (120, 40))
    text = panel(lines)
    assert " drv │" in text and " sm " not in text and "driver" in text and "fp64" not in text


# -- alarms --

HEALTHY = GpuCard(CardIdentity(0, UUID, "NVIDIA H200", 1 << 37, 5, 16, 1980, gpm=True), CardState((), 5, 16))


def told(card: GpuCard, sm: float | None = 90.0, now: float = 100.0) -> list[str]:
    newest = DeviceSample(at=now, ordinal=0, source="gpm", sm=sm)
    return [f"{figure.name} {figure.value}".strip() for figure in present_gpu.alarms(card, newest, now)]


def with_state(**changes: Any) -> GpuCard:
    return replace(HEALTHY, state=replace(HEALTHY.state, **changes))


def test_a_healthy_gpu_has_no_alarm():
    assert told(HEALTHY) == []
    ours = CardProcess(1, "cuzk-top", 1 << 30, True)
    assert told(with_state(processes=(ours,), ecc_corrected=3)) == []


@pytest.mark.parametrize(
    ("line", "drawn"), [((3, 3, 3, 3), "▁▁▁▁"), ((1, 2, 3), "▁▄█"), ((3, 1), "█▁"), ((5,), ""), ((), "")]
)
def test_the_floor_of_the_memory_is_a_line_before_its_figure(line: tuple[int, ...], drawn: str):
    card = replace(HEALTHY, memory_floor=3 << 30, memory_floor_line=tuple(point << 30 for point in line))
    newest = DeviceSample(at=100.0, ordinal=0, source="gpm", sm=90.0)
    (figure,) = (figure for figure in present_gpu._health(card, newest) if figure.name == "memory floor")
    assert (figure.value, drawn_line(figure.line, UNICODE)) == ("3.00 GiB", drawn)
    assert drawn_line(figure.line, ASCII).isascii()


def test_the_line_is_on_screen_once_there_is_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.feeds.nvml.floor.MemoryFloor.line", lambda self, points: (1, 2, 3))
    assert "memory floor ▁▄█ " in panel(shown(one_gpu(), (200, 60)))


@pytest.mark.parametrize(
    ("card", "line"),
    [
        (replace(HEALTHY, problem="the driver has not answered for 12 s (x)"), "the driver has not answered for 12 s"),
        (with_state(events=(CardEvent(40.0, 31),)), "Xid 31: memory page fault, 60.0 s ago"),
        (with_state(ecc_uncorrected=2), "2 uncorrected memory errors"),
        (with_state(rows_failed=True, rows_pending=True), "a memory row cannot be replaced"),
        (with_state(rows_pending=True), "a memory row waits for a reset"),
        (with_state(throttle=("power cap", "hot")), "clocks held by power cap, hot"),
        (with_state(pcie_width=8), "PCIe 5×8 of 5×16"),
        (with_state(pcie_generation=3), "PCIe 3×16 of 5×16"),
        (with_state(refused=("processes",)), "no permission for processes"),
        (
            with_state(processes=(CardProcess(7, "trainer", 3 << 30, False), CardProcess(8, "x", None, False))),
            "also on it trainer 3.00 GiB (pid 7) and 1 more",
        ),
        (replace(HEALTHY, memory_floor_rise=float(1 << 30)), "memory floor +1.00 GiB an hour"),
    ],
)
def test_what_must_not_be_overlooked(card: GpuCard, line: str):
    assert any(alarm.startswith(line) for alarm in told(card)), told(card)


def test_the_worst_comes_first_and_what_is_old_is_left_out():
    card = with_state(events=(CardEvent(10.0, 79),), throttle=("hot",), refused=("processes",))
    assert told(replace(card, problem="fell off the bus", lost=True))[0] == "fell off the bus"
    assert told(card)[0].startswith("Xid 79") and told(card, now=5000.0)[0].startswith("clocks")


def test_an_idle_gpu_may_slow_its_bus_down():
    assert told(with_state(pcie_generation=1), sm=0.0) == []
    assert told(with_state(pcie_generation=1), sm=None) == []


# -- arrangement --


@given(
    st.integers(min_value=20, max_value=300),
    st.integers(min_value=10, max_value=120),
    st.integers(min_value=1, max_value=21),
    st.integers(min_value=0, max_value=18),
    st.booleans(),
    st.integers(min_value=1, max_value=32),
)
def test_any_number_of_devices_fits(width: int, height: int, knobs: int, lines: int, tall: bool, devices: int):
    made = arrange(width, height, knobs, lines, tall, devices)
    assert made.total == max(24, height)
    assert made.device >= 6 and made.log >= 2 and min(made.partitions, made.knobs) >= 0
    assert made.device >= min(devices + 2, 10) or devices == 1


def test_eight_gpus_have_a_lane_each_and_thirty_are_counted():
    feed = GpuFeed(uuids=(UUID,) * 8)
    feed.play(3)
    lines = shown(feed, (80, 24))
    assert [line[:6].strip(" │") for line in lines[2:10]] == [str(ordinal) for ordinal in range(8)]
    feed = GpuFeed(uuids=(UUID,) * 30)
    feed.play(3)
    assert " and 23 more" in shown(feed, (80, 24))[9]


def test_a_frame_without_devices_yet():
    feed = GpuFeed(uuids=())
    frame: Frame = feed.poll(60.0)
    assert frame.devices == () and "no device" in present.header(frame, None, frame.at).sentence
