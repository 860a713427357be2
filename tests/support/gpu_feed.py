"""The modelled pipeline on GPUs whose driver answers as an H200's did: recording and engine run on one clock."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fake_feed import FakeFeed
from fakes_console import START_S, FakeClock, FakeEngine
from replayed_nvml import ReplayedNvml, recording

from console.feeds.nvml.census import Census
from console.feeds.nvml.sampler import NvmlSampler
from prover.model import Snapshot

UUID = "GPU-98c7bf9e-7f6f-a7f7-bf16-15af4e28dec7"
OTHER_UUID = "GPU-00000000-1111-2222-3333-444444444444"


def two_cards() -> dict[str, Any]:
    """The recorded card as the driver's second, and an idle one with another UUID as its first."""
    document = recording()
    answers = document["answers"]
    for by in answers.values():
        for key in [key for key in by if '"gpu0"' in key]:
            by[key.replace('"gpu0"', '"gpu1"')] = copy.deepcopy(by[key])
    for part in ("samples", "gpm"):
        document[part]["gpu1"] = copy.deepcopy(document[part]["gpu0"])
    for row in document["gpm"]["gpu0"]:
        row[2]["2"] = [0, 0.0]
    answers["nvmlDeviceGetCount"]["[]"][0][1]["answer"] = 2
    answers["nvmlDeviceGetHandleByIndex"]["[1]"] = [[0, {"answer": {"handle": "gpu1"}}]]
    answers["nvmlDeviceGetUUID"]['["gpu0"]'][0][1]["answer"] = OTHER_UUID
    return document


class GpuEngine(FakeEngine):
    """``FakeEngine`` whose device is a GPU; further GPUs show the same work."""

    uuids: Sequence[str] = (UUID,)

    def snapshot(self) -> Snapshot:
        made = super().snapshot()
        (view,) = made.devices
        devices = tuple(
            replace(view, ordinal=ordinal, kind="cuda", name="NVIDIA H200", uuid=uuid)
            for ordinal, uuid in enumerate(self.uuids)
        )
        return replace(made, devices=devices)


class GpuFeed(FakeFeed):
    """``FakeFeed`` with a driver. ``play`` moves engine and recording together."""

    def __init__(
        self, document: dict[str, Any] | None = None, uuids: Sequence[str] = (UUID,), begin: float = 0.05
    ) -> None:
        engine = GpuEngine(FakeClock())
        engine.uuids = uuids
        super().__init__(engine)
        clock = engine.clock
        self.nvml = ReplayedNvml(document or recording(), lambda: clock.at - START_S + begin)
        self.sampler = NvmlSampler(
            lambda: self.nvml,
            lambda driver, problem, fix: Census(driver, len(uuids), len(uuids) if driver else 0, problem, fix),
            clock=clock,
            wall=self.nvml.wall,
        )
        self.sampler.open()
        self.sampler.start = lambda: None  # type: ignore[method-assign] - driven by hand, not by threads
        self._gpus = self.sampler

    def play(self, seconds: float) -> None:
        """Let time pass in steps of the sampler's period."""
        for _ in range(round(seconds / 0.1)):
            self.engine.advance(0.1)
            for card in self.sampler._cards:
                card.tick()
