"""Theme files are data from outside: checked before Textual sees them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_feed import FakeFeed
from pilot_console import drive
from textual.color import Color
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.settings import ConsoleSettings
from console.theming import data_folder, read_theme, read_themes, require_theme, stylesheet
from prover.errors import InputError
from widgets.pens import DEFAULT_COLOURS

GOOD = 'title = "Mine"\ndark = true\n[base]\nprimary = "#112233"\nforeground = "#ffffff"\nbackground = "#000000"\n'


def theme_file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_shipped_themes_pass_and_name_every_pen():
    themes, problems = read_themes()
    assert problems == [] and {"dark", "light", "contrast", "colourblind"} <= set(themes)
    for name in ("dark", "light", "contrast", "colourblind"):
        theme = themes[name].theme
        assert {f"pen-{role}" for role in DEFAULT_COLOURS} == set(theme.variables)
    assert stylesheet().is_file() and data_folder().name == "themes"


@pytest.mark.parametrize("name", ["dark", "light", "contrast", "colourblind"])
def test_text_can_be_read_on_its_ground(name: str):
    """WCAG contrast: 4.5 for values and states' words, 3 for labels, 2 for what is meant to be faint."""
    theme = read_themes()[0][name].theme
    assert theme.background is not None
    ground = Color.parse(theme.background)
    least = {"value": 4.5, "name": 4.5, "title": 4.5, "label": 3.0, "good": 4.0, "warn": 4.0, "bad": 4.0, "faint": 2.0}
    for role, ratio in least.items():
        colour = Color.parse(theme.variables[f"pen-{role}"])
        light, dark = sorted((_luminance(colour), _luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= ratio, role


def _luminance(colour: Color) -> float:
    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(part) for part in colour.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not toml [", "mine.toml"),
        (GOOD + 'accent = "#zz"\n', "base.accent"),
        (GOOD + '[pens]\nvalue = "no colour"\n', "pens.value"),
        (GOOD + "[pens]\nvalue = 3\n", "pens.value"),
        (GOOD + '[pens]\nvelue = "#ffffff"\n', "pens.velue"),
        (GOOD.replace("#000000", "#00000080"), "base.background"),
        (GOOD.replace('primary = "#112233"\n', ""), "base.primary"),
        (GOOD.replace("dark = true", 'dark = "yes"'), "dark"),
        (GOOD.replace("title", "titel"), "titel"),
        (GOOD.replace("[base]", "base = 3\n[other]"), "mine.toml"),
    ],
)
def test_a_broken_theme_is_one_clear_line(tmp_path: Path, text: str, told: str):
    with pytest.raises(InputError) as caught:
        read_theme(theme_file(tmp_path, text))
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_broken_theme_of_the_operators_is_told_and_the_rest_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "cuzk-top" / "themes"
    folder.mkdir(parents=True)
    theme_file(folder, GOOD)
    (folder / "broken.toml").write_text(GOOD + 'accent = "#zz"\n')
    themes, problems = read_themes()
    assert "mine" in themes and "broken" not in themes and len(problems) == 1


def test_an_unknown_theme_names_those_there_are():
    with pytest.raises(InputError, match="colourblind"):
        require_theme("nope", read_themes()[0])


def test_a_theme_recolours_what_is_on_screen():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        before = app.overview.header.render_line(0)
        app.theme = "light"
        await pilot.pause()
        after = app.overview.header.render_line(0)
        assert before.text == after.text and list(before) != list(after)

    drive(act)


def test_another_programs_theme_does_not_break_the_pens():
    async def act(pilot: Pilot[Any], app: ConsoleApp, feed: FakeFeed) -> None:
        app.theme = "nord"
        await pilot.pause()
        app.tick()
        await pilot.pause()

    drive(act, settings=ConsoleSettings())


def test_an_installed_package_finds_its_themes_inside(tmp_path: Path):
    """As the wheel lays them: ``console/themes``, and no folder beside."""
    root = Path(__file__).parents[2]
    for package in ("console", "prover", "widgets"):
        shutil.copytree(root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "kernels"))
    shutil.copytree(root / "themes", tmp_path / "console" / "themes")
    program = "from console import theming; print(theming.data_folder(), *theming.read_themes()[0])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],  # -S: an editable install's hook would find the checkout instead
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, *names = done.stdout.split()
    assert Path(folder) == tmp_path / "console" / "themes" and "dark" in names
