"""A knob's value as a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.knobs import KnobRow, show, turned

GIB = 2**30


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (0, "0"),
        (600_000, "600000"),
        (2**20, "1M"),
        (512 * 2**20, "512M"),
        (GIB, "1G"),
        (3 * GIB // 2, "1.5G"),
        (1023 * GIB, "1023G"),
        (1024 * GIB, "1T"),
        (True, "yes"),
        ("auto", "auto"),
    ],
)
def test_values_in_words(value: int | str, word: str) -> None:
    assert show(value) == word


@given(st.integers(2**20, 999 * 2**40))
def test_a_size_fits_its_cells_and_is_near_the_truth(value: int) -> None:
    word = show(value)
    assert len(word) <= 6 and "e" not in word
    unit = {"M": 2**20, "G": 2**30, "T": 2**40}[word[-1]]
    assert float(word[:-1]) * unit == pytest.approx(value, rel=0.006)


def test_arrows_go_through_sizes_and_words_and_round() -> None:
    row = KnobRow("pool", "auto", choices=(0, GIB, 2 * GIB, "auto"))
    assert [turned(row, value, 1) for value in row.choices] == [GIB, 2 * GIB, "auto", 0]
    assert turned(row, "auto", -1) == 2 * GIB
    ended = KnobRow("pool", "auto", choices=(0, GIB, "auto"), size=True)
    assert (turned(ended, "auto", 1), turned(ended, 0, -1), turned(ended, GIB, 1)) == ("auto", 0, "auto")
