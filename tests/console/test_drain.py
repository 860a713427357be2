"""What a drain says, waits for, and is cut short by."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace

import pytest
from fake_feed import FakeFeed

from console.drain import SIGNALS, drain, second_signal, told
from console.last_resort import LastResort
from prover.model import KnobView, Snapshot


class DrainingFeed(FakeFeed):
    """Ends what it began when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.engine.advance(3.0)
        self.left = 3
        self.asked: list[str] = []

    def drain(self, timeout_s: float) -> bool:
        self.asked.append("drain" if timeout_s else "begin")
        self.left -= timeout_s > 0
        return self.left <= 0

    def stop(self, timeout_s: float) -> bool:
        self.asked.append("stop")
        return self.left <= 0


@pytest.fixture
def busy() -> Snapshot:
    return DrainingFeed().engine.snapshot()


def with_limit(snapshot: Snapshot, seconds: int) -> Snapshot:
    knobs = tuple(knob for knob in snapshot.knobs if knob.name != "drain_timeout_s")
    return replace(snapshot, knobs=(*knobs, KnobView("drain_timeout_s", seconds, seconds)))


def test_one_line_tells_what_may_end_and_how_to_stop_it(busy: Snapshot) -> None:
    line = told(with_limit(busy, 60), signal.SIGTERM)
    assert line is not None and "\n" not in line
    assert line.startswith("cuzk-top: SIGTERM: ") and line.endswith(
        "may end, for 60 s at most: send a second signal (Ctrl-C) to stop at once"
    )


def test_nothing_is_said_where_nothing_is_waited_for(busy: Snapshot) -> None:
    assert told(with_limit(busy, 0), signal.SIGINT) is None
    assert told(replace(with_limit(busy, 60), jobs=()), signal.SIGINT) is None
    assert told(replace(with_limit(busy, 60), simulated=True), signal.SIGINT) is None


def test_it_waits_until_all_has_ended(capfd: pytest.CaptureFixture[str]) -> None:
    feed = DrainingFeed()
    assert drain(feed, signal.SIGTERM, threading.Event())
    assert feed.asked == ["begin", "drain", "drain", "drain", "stop"]
    assert capfd.readouterr().out == ""


def test_a_second_signal_ends_the_wait() -> None:
    feed = DrainingFeed()
    again = threading.Event()
    again.set()
    assert not drain(feed, signal.SIGTERM, again)
    assert feed.asked == ["begin", "stop"]


def test_signals_set_an_event_and_are_given_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with second_signal() as again:
        assert not again.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert again.is_set()
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with second_signal() as again:
            signal.raise_signal(signal.SIGHUP)
            assert not again.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_last_resort_counts_signals_and_can_be_disarmed() -> None:
    drained: list[int] = []
    resort = LastResort(0, None, lambda number, again: drained.append(number))
    resort(signal.SIGTERM, None)
    assert not resort.again.is_set() and resort._timer is not None
    resort(signal.SIGINT, None)
    assert resort.again.is_set()
    resort.disarm()
    resort._timer.join(10)
    assert drained == [], "the process would have ended"
