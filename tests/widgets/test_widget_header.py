"""The first line: what is proved, on what, and what the device does, at every width."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App

from prover.model import DeviceState
from widgets.glyphs import UNICODE
from widgets.header import HeaderData, HeaderLine

SUBJECTS = (
    ("in-process · built-in poseidon-merkle-13, 8 partitions", "NVIDIA H200"),
    ("built-in poseidon-merkle-13, 8 partitions", "NVIDIA H200"),
    ("built-in poseidon-merkle-13, 8 partitions", "H200"),
    ("poseidon-merkle-13", "H200"),
)
SHORT = "computing 61 %, starved 36 %"
WHOLE = f"{SHORT}: nothing synthesised"


def line(width: int, data: HeaderData) -> str:
    header = HeaderLine(data, UNICODE)

    class Stage(App[None]):
        def compose(self):
            yield header

    async def run() -> str:
        async with Stage().run_test(size=(width, 1)):
            (drawn,) = header.draw(width, 1)
            return "".join(segment.text for segment in drawn.segments)

    return asyncio.run(run())


@pytest.mark.parametrize("width", [80, 90, 99, 100, 120, 160, 200])
def test_what_and_on_what_and_the_state_are_there_at_every_width(width: int):
    text = line(width, HeaderData(SUBJECTS, DeviceState.STARVED, WHOLE, "14:31:07", SHORT))
    assert len(text) <= width
    assert "poseidon-merkle-13" in text and "H200" in text and SHORT in text and "14:31" in text
    if width >= 120:
        assert WHOLE in text and "14:31:07" in text


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_subject_keeps_its_form_while_the_sentence_changes(width: int):
    begins = {
        line(width, HeaderData(SUBJECTS, DeviceState.STARVED, sentence, "14:31:07", short)).split("◆")[0].rstrip()
        for sentence, short in (("computing", ""), (WHOLE, SHORT), ("starved for 3 s: nothing synthesised", ""))
    }
    assert len(begins) == 1


def test_a_long_name_is_cut_and_the_device_kept():
    subjects = (("a-circuit-with-a-very-long-name-of-its-own", "GeForce RTX 4090"),)
    text = line(80, HeaderData(subjects, DeviceState.STARVED, WHOLE, "14:31:07", SHORT))
    assert "a-ci" in text and "… · GeForce RTX 4090" in text and "computing 61 %" in text and len(text) <= 80


def test_nothing_is_drawn_of_a_device_that_is_not_there_yet():
    text = line(80, HeaderData((("built-in x, 8 partitions", ""),), DeviceState.IDLE, "starting: keys", "14:31:07"))
    assert " ·" not in text and "starting: keys" in text
