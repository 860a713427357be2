"""A replay shows what was shown: the same frames at the same instants, forwards, after leaps, and in the console."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from engine_rig import Rig, rig
from fake_feed import WALL, FakeFeed
from gpu_feed import GpuFeed
from textual.pilot import Pilot

from console.actions import REPLAY_ACTIONS, Scope, bindings
from console.cli import main
from console.commands.replay import instant
from console.export.frame_json import frame_document
from console.feeds.engine import EngineFeed
from console.feeds.replay import SPEEDS, Playhead, ReplayFeed
from console.frame import Frame
from console.recording.reader import Recording
from console.recording.recorder import Recorder, description
from console.replay_app import ReplayApp
from console.screens.plain import screen_text
from console.settings import ConsoleSettings
from console.theming import read_themes
from prover.errors import InputError
from prover.model import EventKind, JobState
from prover.pipeline.log import LineFormat

DOCUMENT = description(WALL, simulated=False, version="1")


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class HostedRig:
    """A rig's engine as the feed wants it."""

    ready = True
    idle = True
    failure: BaseException | None = None
    trouble: str | None = None

    def __init__(self, r: Rig) -> None:
        self._engine = r.engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stop(self, timeout_s: float) -> bool:
        return True

    def drain(self, timeout_s: float) -> bool:
        return True


def comparable(frame: Frame) -> Frame:
    """Without what only a live feed has (the state of its log and of its recorder), or only a replay (sources that
    were not there)."""
    feeds = tuple(feed for feed in frame.feeds if feed.name == "engine" or feed.age_s is not None)
    return replace(frame, feeds=feeds, replay="")


def replaying(path: Path) -> ReplayFeed:
    recording = Recording(path)
    return ReplayFeed(recording, Playhead(recording.begin, recording.end, clock=HandClock()))


def polled(feed: ReplayFeed, at: float, window: float = 60.0) -> Frame:
    feed.playhead.seek(at)
    return feed.poll(window)


def a_live_run(path: Path, jobs: int = 8) -> tuple[list[Frame], list[str]]:
    """An engine with failures, withheld proofs and turned knobs, watched four times a second; frames and log lines."""
    frames: list[Frame] = []
    lines: list[str] = []
    with rig({"synthesis_concurrency": 2, "synthesis_lookahead": 2}, devices=2) as r:
        recorder = Recorder(path, r.engine, DOCUMENT, pace=r.time)
        feed = EngineFeed(
            HostedRig(r),  # type: ignore[arg-type]
            clock=r.time,
            wall=lambda: WALL + r.time(),
            recorder=recorder,
        )
        r.faults["msm", 1, 1] = MemoryError("full")
        r.workload.lies[2, 0] = 1
        for inputs in range(jobs):
            r.submit(inputs, 4)
        turns = {4.0: ("synthesis_lookahead", 4), 8.0: ("gpu_lock", "coarse"), 12.0: ("synthesis_concurrency", 3)}
        while not all(future.done() for future in r.futures.values()):
            r.run_for(0.25)
            for after in [after for after in turns if r.time() >= 100 + after]:
                r.set(*turns.pop(after))
            frames.append(feed.poll(60.0))
            recorder.take()
        recorder.stop()
        formats = LineFormat(WALL)
        lines = [line for event in r.events() if event.at <= frames[-1].at for line in formats.lines(event, "info")]
    return frames, lines


def test_every_frame_of_a_replay_is_the_live_one(tmp_path: Path) -> None:
    frames, lines = a_live_run(tmp_path / "x.rec")
    feed = replaying(tmp_path / "x.rec")
    shown: list[str] = []
    for live in frames:
        again = polled(feed, live.at)
        assert comparable(again) == comparable(live)
        assert {**frame_document(again), "replay": False, "feeds": 0} == {**frame_document(live), "feeds": 0}
        shown += feed.take_lines()
    assert [line for line in shown if not line.startswith("--")] == lines
    states = {job.state for frame in frames for job in frame.snapshot.jobs}
    assert {JobState.DONE, JobState.FAILED, JobState.RUNNING, JobState.WAITING} <= states


def test_a_frame_after_a_leap_is_the_one_of_a_console_that_looks_for_the_first_time(tmp_path: Path) -> None:
    frames, _ = a_live_run(tmp_path / "x.rec")
    forward = replaying(tmp_path / "x.rec")
    leaping = replaying(tmp_path / "x.rec")
    polled(leaping, frames[-1].at)
    for live in reversed(frames[:: max(1, len(frames) // 12)]):
        again = polled(leaping, live.at)
        assert again.snapshot == live.snapshot
        assert again.markers == live.markers
        assert [one.view for one in again.devices] == [one.view for one in live.devices]
        first = polled(replaying(tmp_path / "x.rec"), live.at)
        assert comparable(again) == comparable(first)
    assert polled(forward, frames[-1].at).snapshot == frames[-1].snapshot


def test_what_is_shown_between_two_pictures_is_no_older_than_a_moment(tmp_path: Path) -> None:
    frames, _ = a_live_run(tmp_path / "x.rec")
    feed = replaying(tmp_path / "x.rec")
    for before, after in pairwise(frames):
        middle = (before.at + after.at) / 2
        again = polled(feed, middle)
        assert again.at == again.snapshot.at == middle
        assert before.snapshot.counters.partitions_done <= again.snapshot.counters.partitions_done
        assert again.snapshot.counters.partitions_done <= after.snapshot.counters.partitions_done


def test_gpus_and_samples_are_replayed(tmp_path: Path) -> None:
    feed = GpuFeed()
    recorder = Recorder(
        tmp_path / "x.rec", feed.engine, DOCUMENT, machine=feed._sampler, gpus=feed.sampler, pace=feed.engine.clock
    )
    feed._recorder = recorder
    frames = []
    for _ in range(24):
        feed.play(0.5)
        frames.append(feed.poll(60.0))
        recorder.take()
    recorder.stop()
    again = replaying(tmp_path / "x.rec")
    for live in frames:
        shown = polled(again, live.at)
        assert shown.devices[0].samples == live.devices[0].samples
        assert shown.devices[0].driver == live.devices[0].driver
        assert shown.cards == live.cards and shown.census == live.census
        assert comparable(shown) == comparable(live)


# -- the playhead -----------------------------------------------------------------------------------------------------


def test_the_playhead_moves_at_its_speed_and_stops_at_the_end() -> None:
    clock = HandClock()
    head = Playhead(100.0, 110.0, 2.0, clock)
    assert head.at == 100.0 and not head.playing and head.words == "0 % paused"
    head.play()
    clock.at = 3.0
    assert head.at == 106.0 and head.playing and head.words == "×2 60 %"
    head.pause()
    clock.at = 9.0
    assert head.at == 106.0 and not head.playing
    head.play()
    clock.at = 20.0
    assert head.at == 110.0 and not head.playing and head.words == "100 % end"
    head.play()
    assert head.at == 100.0 and head.playing


def test_speeds_go_up_and_down_without_a_leap() -> None:
    clock = HandClock()
    head = Playhead(0.0, 1000.0, 3.0, clock)
    head.play()
    clock.at = 10.0
    head.faster(1)
    assert head.speed == 4.0 and head.at == 30.0
    head.faster(-1)
    assert head.speed == 2.0
    for _ in SPEEDS:
        head.faster(-1)
    assert head.speed == SPEEDS[0]
    for _ in SPEEDS:
        head.faster(1)
    assert head.speed == SPEEDS[-1] and head.leaps == 0


def test_steps_stop_at_each_happening_and_back(tmp_path: Path) -> None:
    a_live_run(tmp_path / "x.rec", jobs=2)
    feed = replaying(tmp_path / "x.rec")
    moments = sorted({event.at for event in feed.recording.events() if event.at <= feed.playhead.end})
    feed.playhead.seek(feed.playhead.begin)
    seen = [feed.playhead.at]
    while feed.playhead.at < feed.playhead.end:
        feed.step(1)
        seen.append(feed.playhead.at)
    assert seen == sorted({*moments, feed.playhead.end})
    back = [feed.playhead.at]
    while feed.playhead.at > feed.playhead.begin:
        feed.step(-1)
        back.append(feed.playhead.at)
    assert back == list(reversed(seen))


# -- the console ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "x.rec"
    a_live_run(path)
    return path


def in_the_console(path: Path, work: Callable[[ReplayApp, Pilot[None]], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        themes, _ = read_themes()
        app = ReplayApp(replaying(path), ConsoleSettings(), themes)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            await work(app, pilot)

    asyncio.run(go())


def test_every_key_of_a_replay_does_what_it_says(recorded: Path) -> None:
    async def work(app: ReplayApp, pilot: Pilot[None]) -> None:
        head = app.replay.playhead
        app.tick()
        assert "REPLAY ×1 0 %" in screen_text(app.screen)
        await pilot.press("space")
        assert not head.playing and "paused" in screen_text(app.screen)
        await pilot.press("right")
        assert head.at == head.begin + 10.0
        await pilot.press("right", "left")
        assert head.at == head.begin + 10.0
        await pilot.press("full_stop")
        stepped = head.at
        assert stepped > head.begin + 10.0
        await pilot.press("comma")
        assert head.at < stepped
        await pilot.press("plus")
        assert head.speed == 2.0
        await pilot.press("minus", "minus")
        assert head.speed == 0.5
        await pilot.press("end")
        assert head.at == head.end
        await pilot.press("pageup")
        assert head.at == head.begin
        await pilot.press("pagedown")
        assert head.at == head.end
        await pilot.press("home", "space")
        assert head.at == head.begin and head.playing

    in_the_console(recorded, work)


def test_nothing_is_changed_and_it_says_why(recorded: Path) -> None:
    async def work(app: ReplayApp, pilot: Pilot[None]) -> None:
        await pilot.press("u")
        await pilot.pause()
        assert "a replay: what happened stays as it was" in screen_text(app.screen)
        app.propose("synthesis_lookahead", 3)
        assert app.replay.propose("paused", True).reason == app.UNCHANGEABLE
        assert app.replay.undo().reason == app.UNCHANGEABLE
        await pilot.press("p")
        assert not app.feed.poll(60.0).snapshot.paused

    in_the_console(recorded, work)


def test_help_and_palette_list_the_keys_of_a_replay_and_none_that_change(recorded: Path) -> None:
    async def work(app: ReplayApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        text = app.screen.query_one("#help-text").render().plain  # type: ignore[union-attr]
        assert Scope.REPLAY.value in text and all(action.description in text for action in REPLAY_ACTIONS)
        assert "Begin nothing new" not in text
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Replay: faster" in titles and "Undo" not in titles

    in_the_console(recorded, work)


def test_no_key_is_claimed_twice() -> None:
    keys = [key for action in REPLAY_ACTIONS for key in action.keys]
    assert len(keys) == len(set(keys)) and len(bindings(Scope.REPLAY)) == len(REPLAY_ACTIONS)


def test_the_picture_of_a_replay_is_the_live_one(tmp_path: Path) -> None:
    """Cell for cell, but for the first line, which says that it is a replay, and the last, which has its keys."""
    feed = FakeFeed()
    recorder = Recorder(tmp_path / "x.rec", feed.engine, DOCUMENT, machine=feed._sampler, pace=feed.engine.clock)
    feed._recorder = recorder
    for _ in range(40):
        feed.engine.advance(0.5)
        live = feed.poll(60.0)
        recorder.take()
    recorder.stop()
    again = replaying(tmp_path / "x.rec")
    for _ in range(2):
        shown = polled(again, live.at)
    from console.once import plain_screen

    pictures = [
        plain_screen(frame, [], ConsoleSettings(), (120, 40), feed).splitlines() for frame in (live, replace(shown))
    ]
    assert "REPLAY" in pictures[1][0] and "REPLAY" not in pictures[0][0]
    assert pictures[0][1:] == pictures[1][1:]


# -- the command ------------------------------------------------------------------------------------------------------


def test_one_frame_of_a_recording(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recorded), "--once", "--json"]) == 0
    last = json.loads(capsys.readouterr().out)
    assert last["replay"] is True and last["throughput"]["failed"] == 1
    assert main(["replay", str(recorded), "--once", "--json", "--at", "3"]) == 0
    early = json.loads(capsys.readouterr().out)
    assert early["throughput"]["proofs"] < last["throughput"]["proofs"]
    assert main(["replay", str(recorded), "--once"]) == 0
    text = capsys.readouterr().out
    assert "REPLAY 100 % end" in text and "partition GPU prove complete" in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--once", "--at", "9999"], "not in the recording: --at 9999: it is "),
        (["--once", "--at", "-9999"], "not in the recording"),
        (["--once", "--at", "noon"], "not a time: --at noon"),
        (["--once", "--at", "25:00"], "not a time"),
        (["--once", "--at", "nan"], "not a time"),
        (["--once", "--speed", "0"], "speed is out of range"),
        (["--once", "--log", "x"], "a replay has its own log"),
        ([], "no terminal"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    recorded: Path, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(recorded), *options]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and told in said.err


def test_a_file_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("hello")
    assert main(["replay", str(tmp_path / "x"), "--once"]) == 2
    assert "file is no recording" in capsys.readouterr().err


def test_times_name_instants(recorded: Path) -> None:
    import time

    recording = Recording(recorded)
    assert instant(recording, "2.5") == recording.begin + 2.5
    assert instant(recording, "-2.5") == recording.end - 2.5
    assert instant(recording, "-0") == recording.end
    assert instant(recording, None) is None
    moment = int(recording.begin + recording.wall_offset_s) + 5
    text = time.strftime("%H:%M:%S", time.localtime(moment))
    assert instant(recording, text) == pytest.approx(moment - recording.wall_offset_s)
    with pytest.raises(InputError, match="not a time"):
        instant(recording, "1:2:3:4")
    assert any(event.kind is EventKind.JOB_FAILED for event in recording.events())
