import math

from hypothesis import given
from hypothesis import strategies as st

from widgets import figures


def test_three_significant_digits():
    shown = {
        0: "0.00",
        0.0412: "0.04",
        2.413: "2.41",
        9.996: "10.0",
        25.04: "25.0",
        99.96: "100",
        412.4: "412",
        5120: "5120",
    }
    assert {value: figures.significant(value) for value in shown} == shown


@given(st.floats(min_value=0.01, max_value=1e6))
def test_significant_digits_are_true_and_short(value: float):
    text = figures.significant(value)
    assert math.isclose(float(text), value, rel_tol=0.006, abs_tol=0.0051)
    assert len(text) <= 7 and "e" not in text


def test_seconds_choose_their_unit():
    assert figures.seconds(0.085) == "85 ms"
    assert figures.seconds(0.0999) == "0.10 s"
    assert figures.seconds(1.934) == "1.93 s"
    assert figures.seconds(599.4) == "599 s"
    assert figures.seconds(600) == "10 min"
    assert figures.seconds(7300) == "2.0 h"
    assert figures.seconds(None) == "– s"
    assert figures.seconds(1.9, 8) == "  1.90 s"


@given(st.floats(min_value=0, max_value=100))
def test_percentages_keep_their_width(value: float):
    assert len(figures.percent(value)) == 5
    assert len(figures.percent(None)) == 5


def test_sizes():
    assert figures.size(None) == "–"
    assert figures.size(512) == "512 B"
    assert figures.size(19_541_264_793) == "18.2 GiB"
    assert figures.used_of(1_288_490_189, 25_769_803_776) == "1.2 of 24.0 GiB"
    assert figures.used_of(None, 25_769_803_776) == "– of 24.0 GiB"
    assert figures.used_of(5, None) == "5 B"
    assert figures.used_of(40_000_000, 20_723_216_384) == "38.1 MiB of 19.3 GiB"
    assert figures.used_of(0, 2**30) == "0.00 of 1.00 GiB"


def test_axis_labels():
    assert figures.ago(60) == "60 s ago"
    assert figures.ago(300) == "5 min ago"
