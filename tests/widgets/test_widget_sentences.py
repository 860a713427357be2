"""Sentences in few rows: what to do is not lost to what explains it."""

from __future__ import annotations

import pytest

from widgets.sentences import Sentence, fitting

FINDING = "Limited by copies: for 67 % of the time data moved and nothing computed."
ADVICE = "Try gpu_lock coarse → narrow: set-up and copies then leave the lock."


def drawn(rows: int, *texts: str) -> str:
    lines = fitting([Sentence(text) for text in texts], 33, rows)
    assert len(lines) <= rows and all(len(text) <= 33 for text, _ in lines)
    return " ".join(text for text, _ in lines)


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (6, f"{FINDING} {ADVICE}"),
        (5, f"{FINDING} Try gpu_lock coarse → narrow."),
        (4, f"{FINDING} Try gpu_lock coarse → narrow."),
        (3, FINDING),
    ],
)
def test_an_advice_stands_without_its_reason_where_there_is_no_room_for_it(rows: int, shown: str) -> None:
    assert drawn(rows, FINDING, ADVICE) == shown


def test_a_sentence_without_a_colon_is_whole_or_not_there() -> None:
    assert drawn(4, FINDING, "A slot takes 1.23 s to synthesise and 4.00 s on the device.") == FINDING
