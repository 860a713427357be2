"""The threads that ask: one that opens the driver, then one a GPU. A question that hangs keeps only its own thread.

Nobody waits for an answer: readers copy rings, and a question that has been out for longer than ``DEADLINE_S`` is told
as "no answer for N s" until it comes back. A thread that hangs in the driver is left behind when the console ends.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from console.feeds.nvml import words
from console.feeds.nvml.card import CardIdentity, CardState, GpuCard, same_gpu
from console.feeds.nvml.census import Census, take_census
from console.feeds.nvml.floor import MemoryFloor
from console.feeds.nvml.gpm import MigPlace
from console.feeds.nvml.questions import CardGoneError, Questions
from console.feeds.nvml.reader import CardReader
from prover.model import DeviceSample

PERIOD_S = 0.1
SURVEY_S = 1.0
SPAN_S = 660.0
FINE_S = 130.0
"""Older samples are kept by the second: a window that reaches so far back shows no less, and costs a tenth."""
DEADLINE_S = 2.0
"""An answer that takes longer is told to be missing."""
RETRY_S = 5.0
"""How long after a GPU was lost it is looked for again."""
_STALE_S = 3.0
FLOOR_POINTS = 12
"""Of the line that shows how the memory's floor went."""


def load_pynvml() -> Any:
    """The binding (``nvidia-ml-py``); raises ``ImportError`` without it."""
    import pynvml

    return pynvml


class CardSampler:
    """One GPU's thread, its rings and how it stands."""

    def __init__(
        self,
        make: Callable[[Questions], CardReader],
        questions: Questions,
        index: int,
        period: float = PERIOD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._questions = questions
        self._clock = clock
        self._period = period
        self._reader: CardReader | None = None
        self._samples: deque[DeviceSample] = deque(maxlen=max(2, round(FINE_S / period)))
        self._seconds: deque[DeviceSample] = deque(maxlen=round(SPAN_S / SURVEY_S))
        self._second: list[DeviceSample] = []
        self._driver: deque[DeviceSample] = deque(maxlen=round(SPAN_S / 0.15))
        self._floor = MemoryFloor()
        self._identity = CardIdentity(index, "", f"GPU {index}")
        self._state = CardState()
        self._surveyed = float("-inf")
        self._gone: str | None = None
        self._broken: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"nvml-gpu{index}", daemon=True)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """No more questions."""
        self._stop.set()

    def ended(self, timeout_s: float) -> bool:
        """Whether the thread ended, waiting at most this long."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def samples(self, since: float) -> tuple[DeviceSample, ...]:
        """Samples after ``since``, oldest first; those long past are means of a second each."""
        fine = _newer(self._samples, since)
        begin = self._samples[0].at if self._samples else float("inf")
        if begin <= since:
            return fine
        seconds = _newer(self._seconds, since)
        return seconds[: bisect_left(seconds, begin, key=lambda sample: sample.at)] + fine

    def driver(self, since: float) -> tuple[DeviceSample, ...]:
        """The driver's own samples after ``since``; where it keeps none, those of its rate."""
        return _newer(self._driver, since) if self._driver else _newer(self._samples, since)

    @property
    def uuid(self) -> str:
        """The GPU's UUID, once it was asked."""
        return self._identity.uuid

    def card(self, now: float) -> GpuCard:
        """The GPU as it stands."""
        newest = self._samples[-1].at if self._samples else None
        return GpuCard(
            identity=self._identity,
            state=self._state,
            at=newest,
            lost=self._gone is not None,
            problem=self._problem(now, newest),
            memory_floor=self._floor.floor,
            memory_floor_line=self._floor.line(FLOOR_POINTS),
            memory_floor_rise=self._floor.rise_an_hour,
        )

    def tick(self) -> None:
        """One period's questions. Raises ``CardGoneError``."""
        if self._reader is None:
            self._reader = self._make(self._questions)
            self._identity = self._reader.identity
        sample = self._reader.sample()
        if sample is not None:
            self._samples.append(sample)
            self._second.append(sample)
            if sample.memory_used is not None:
                self._floor.add(sample.at, sample.memory_used)
        now = self._clock()
        if now - self._surveyed >= SURVEY_S:
            self._surveyed = now
            self._driver.extend(self._reader.driver_samples())
            self._state = self._reader.survey()
            if self._second:
                self._seconds.append(_mean(self._second))
                self._second = []
        self._gone = None

    def lose(self, line: str) -> None:
        """The GPU is gone: forget the handles, keep what was seen."""
        self._gone = line
        self._reader = None

    def _problem(self, now: float, newest: float | None) -> str | None:
        if self._broken is not None:
            return self._broken
        asking = self._questions.asking
        if asking is not None and now - asking[1] > DEADLINE_S:
            return f"the driver has not answered for {now - asking[1]:.0f} s ({asking[0]})"
        if self._gone is not None:
            return self._gone
        if newest is not None and now - newest > _STALE_S:
            return f"no sample for {now - newest:.0f} s"
        return None

    def _run(self) -> None:
        due = self._clock()
        while not self._stop.is_set():
            pause = RETRY_S
            try:
                self.tick()
                due = max(due + self._period, self._clock() - self._period)
                pause = due - self._clock()
            except CardGoneError as gone:
                self.lose(str(gone))
                due = self._clock() + RETRY_S
            except Exception as error:  # noqa: BLE001 - told on the screen; the console goes on without this feed
                self._broken = f"the NVML feed stopped: {type(error).__name__}: {error}"
                return
            self._stop.wait(max(0.0, pause))
        self._close()

    def _close(self) -> None:
        if self._reader is None:
            return
        try:
            self._reader.close()
        except CardGoneError as gone:
            self.lose(str(gone))


class NvmlSampler:
    """All GPUs of the machine. Every method returns at once."""

    def __init__(
        self,
        load: Callable[[], Any] = load_pynvml,
        count: Callable[[int | None, str | None, str], Census] = take_census,
        period: float = PERIOD_S,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._load = load
        self._count = count
        self._period = period
        self._clock = clock
        self._wall = wall
        self._questions: Questions | None = None
        self._opening: float | None = None
        self._cards: tuple[CardSampler, ...] = ()
        self._problem: str | None = None
        self._census: Census | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why there are no GPUs to be seen, in one line."""
        opening = self._opening
        if opening is not None and self._clock() - opening > DEADLINE_S:
            return f"the NVIDIA driver has not answered for {self._clock() - opening:.0f} s"
        return self._problem

    @property
    def census(self) -> Census | None:
        """The GPUs counted three ways, once that is done."""
        return self._census

    def start(self) -> None:
        """Open the driver and start asking, in threads of their own."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Ask the threads to end, and wait a moment for them; one that hangs in the driver is left behind."""
        self._stop.set()
        for card in self._cards:
            card.ask_to_stop()
        end = self._clock() + timeout_s
        for card in self._cards:
            card.ended(max(0.0, end - self._clock()))
        if self._thread.ident is not None:
            self._thread.join(max(0.0, end - self._clock()))

    def cards(self, now: float) -> tuple[GpuCard, ...]:
        """Every GPU as it stands."""
        return tuple(card.card(now) for card in self._cards)

    def samples(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:
        """A GPU's samples after ``since``, oldest first."""
        card = self._find(uuid)
        return card.samples(since) if card is not None else ()

    def driver(self, uuid: str, since: float) -> tuple[DeviceSample, ...]:
        """What the driver says of a GPU: a kernel or a copy ran."""
        card = self._find(uuid)
        return card.driver(since) if card is not None else ()

    def open(self) -> None:
        """Find the GPUs; what the opening thread does first."""
        self._opening = self._clock()
        driver, problem, fix = self._enumerate()
        self._problem = problem
        self._census = self._count(driver, problem, fix)
        self._opening = None

    def _find(self, uuid: str) -> CardSampler | None:
        return next((card for card in self._cards if same_gpu(uuid, card.uuid)), None)

    def _run(self) -> None:
        try:
            self.open()
        except Exception as error:  # noqa: BLE001 - told on the screen; the console goes on without this feed
            self._problem = f"the NVML feed stopped: {type(error).__name__}: {error}"
            self._opening = None
            return
        for card in self._cards:
            if not self._stop.is_set():
                card.start()

    def _enumerate(self) -> tuple[int | None, str | None, str]:
        """The number of GPUs (``None``: NVML does not open), why there are none, and what to do."""
        try:
            nvml = self._load()
        except ImportError:
            return None, "nvidia-ml-py is not installed", "pip install nvidia-ml-py"
        try:
            nvml.nvmlInit()
            count = int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            return None, *words.closed(int(error.value), str(error))
        self._cards = tuple(
            CardSampler(make, Questions(nvml, self._clock), index, self._period, self._clock)
            for index, make in self._readers(nvml, count)
        )
        return count, None if count else "the driver shows no GPU", "check nvidia-smi"

    def _readers(self, nvml: Any, count: int) -> list[tuple[int, Callable[[Questions], CardReader]]]:
        """What makes the reader of each GPU; of a GPU in MIG mode, of each of its slices."""
        found: list[tuple[int, Callable[[Questions], CardReader]]] = []
        for index in range(count):
            slices = _mig_slices(Questions(nvml, self._clock), index)
            if not slices:
                found.append((index, self._whole(index)))
            found.extend((index, self._slice(index, place)) for place in slices)
        return found

    def _whole(self, index: int) -> Callable[[Questions], CardReader]:
        def make(questions: Questions) -> CardReader:
            return CardReader(questions, _handle(questions, index), index, clock=self._clock, wall=self._wall)

        return make

    def _slice(self, index: int, place: int) -> Callable[[Questions], CardReader]:
        def make(questions: Questions) -> CardReader:
            parent = _handle(questions, index)
            handle = questions.ask("nvmlDeviceGetMigDeviceHandleByIndex", parent, place)
            if handle is None:
                raise CardGoneError("the MIG device is gone")
            instance = questions.ask("nvmlDeviceGetGpuInstanceId", handle)
            mig = MigPlace(parent, int(instance or 0))
            return CardReader(questions, handle, index, mig=mig, clock=self._clock, wall=self._wall)

        return make


def _handle(questions: Questions, index: int) -> Any:
    handle = questions.ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        raise CardGoneError("the driver gives no access to it")
    return handle


def _mig_slices(questions: Questions, index: int) -> list[int]:
    """The places of a GPU's MIG devices; empty where MIG is off or unknown."""
    try:
        handle = _handle(questions, index)
        mode = questions.ask("nvmlDeviceGetMigMode", handle)
        if not mode or not mode[0]:
            return []
        most = int(questions.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
        return [
            place
            for place in range(most)
            if questions.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, place) is not None
        ]
    except CardGoneError:
        return []


def _mean(samples: list[DeviceSample]) -> DeviceSample:
    """The last of some samples, with the means of what was counted."""
    means: dict[str, Any] = {}
    for name in ("sm", "driver", "occupancy", "integer_pipe", "fp64_pipe", "dram", "pcie_rx", "pcie_tx"):
        values = [value for sample in samples if (value := getattr(sample, name)) is not None]
        means[name] = sum(values) / len(values) if values else None
    return replace(samples[-1], **means)


def _newer(ring: deque[DeviceSample], since: float) -> tuple[DeviceSample, ...]:
    rows = tuple(ring.copy())
    return rows[bisect_right(rows, since, key=lambda sample: sample.at) :]
