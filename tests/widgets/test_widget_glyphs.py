import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from prover.model import Cause, Phase
from widgets.glyphs import ASCII, CAUSE_LETTER, PHASE_WORD, UNICODE, Glyphs, to_ascii
from widgets.pens import DEFAULT_COLOURS, STATE_OF_CAUSE


def signs(glyphs: Glyphs) -> list[str]:
    found: list[str] = []
    for field in dataclasses.fields(glyphs):
        value = getattr(glyphs, field.name)
        if field.name == "name":
            continue
        found += (
            list(value.values())
            if field.name in ("hatch", "priority")
            else list(value)
            if isinstance(value, tuple)
            else [value]
        )
    return found


def test_every_glyph_is_one_cell_wide():
    for glyphs in (UNICODE, ASCII):
        assert all(cell_len(sign) == 1 and len(sign) == 1 for sign in signs(glyphs))


def test_the_ascii_set_is_ascii():
    assert "".join(signs(ASCII)).isascii()


def test_meaning_survives_without_colour():
    letters = [CAUSE_LETTER[cause] for cause in Cause]
    assert len(set(letters)) == len(letters)
    # Copies share a hatch on purpose, and so do MSM and a device time that cannot be divided.
    for glyphs in (UNICODE, ASCII):
        told_apart = [glyphs.hatch[phase] for phase in Phase if phase not in (Phase.D2H, Phase.GPU)]
        assert len(set(told_apart)) == len(told_apart)
    assert set(PHASE_WORD) == set(Phase) and set(STATE_OF_CAUSE) == set(Cause)


def test_every_role_of_a_phase_and_a_state_has_a_colour():
    assert {f"phase-{phase.value}" for phase in Phase} <= set(DEFAULT_COLOURS)
    assert {f"state-{state.value}" for state in STATE_OF_CAUSE.values()} <= set(DEFAULT_COLOURS)


@given(st.floats(min_value=0, max_value=1))
def test_a_lane_cell_is_full_only_without_a_gap(share: float):
    for glyphs in (UNICODE, ASCII):
        cell = glyphs.busy_cell(share)
        assert (cell == glyphs.busy[-1]) == (share >= 0.999)
        assert (cell == glyphs.busy[0]) == (share <= 0.001)


@given(st.text())
def test_to_ascii_keeps_the_length(text: str):
    assert to_ascii(text).isascii()
    assert to_ascii("a → b · 3 × 1.2 s …") == "a > b - 3 x 1.2 s ~"
