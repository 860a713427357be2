"""Theme files: found, read, checked line by line, turned into Textual themes.

Textual accepts a theme with a colour that it cannot parse and ends the program at the next style computation; so
nothing reaches it unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import tomli
from textual.color import Color, ColorParseError
from textual.theme import Theme

from console.settings import config_folder
from prover.errors import InputError
from widgets.pens import DEFAULT_COLOURS

DEFAULT_THEME = "dark"
_BASE = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "success",
    "warning",
    "error",
)


@dataclass(frozen=True, slots=True)
class ThemeFile:
    """A theme that passed its checks."""

    name: str
    title: str
    theme: Theme


def data_folder() -> Path:
    """The shipped themes: ``console/themes`` of the installed package, ``themes`` beside it in a checkout."""
    package = resources.files("console")
    # An editable install may span several folders; its own files then tell where the checkout is.
    home = package if isinstance(package, Path) else Path(__file__).parent
    installed = home / "themes"
    return installed if installed.is_dir() else home.parent / "themes"


def user_folder() -> Path:
    """The folder of the operator's own themes."""
    return config_folder() / "themes"


def stylesheet() -> Path:
    """The stylesheet of the console's frame."""
    return data_folder() / "console.tcss"


def read_theme(path: Path) -> ThemeFile:
    """Read and check one theme file. Raises ``InputError`` with one line that names file and entry."""
    try:
        document = tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise InputError("theme cannot be read", path.name, str(error)) from error
    unknown = set(document) - {"title", "dark", "base", "pens"}
    if unknown:
        raise InputError("theme has an unknown entry", f"{path.name}: {min(unknown)}", "title, dark, base, pens exist")
    dark = document.get("dark", True)
    if not isinstance(dark, bool):
        raise InputError("theme entry is no boolean", f"{path.name}: dark", "write true or false")
    base = _colours(path, document, "base", _BASE)
    for needed in ("primary", "foreground", "background"):
        if needed not in base:
            raise InputError("theme lacks a colour", f"{path.name}: base.{needed}", 'add it, as "#rrggbb"')
    pens = _colours(path, document, "pens", tuple(DEFAULT_COLOURS))
    theme = Theme(
        name=path.stem,
        dark=dark,
        variables={f"pen-{role}": colour for role, colour in pens.items()},
        **base,  # type: ignore[arg-type]
    )
    theme.to_color_system().generate()
    return ThemeFile(path.stem, str(document.get("title", path.stem)), theme)


def _colours(path: Path, document: dict[str, object], table: str, known: tuple[str, ...]) -> dict[str, str]:
    entries = document.get(table, {})
    if not isinstance(entries, dict):
        raise InputError("theme entry is no table", f"{path.name}: {table}", f"write [{table}]")
    for key, value in entries.items():
        where = f"{path.name}: {table}.{key}"
        if key not in known:
            raise InputError("theme has an unknown entry", where, "see themes/dark.toml for all")
        try:
            if not isinstance(value, str) or Color.parse(value).a < 1:
                raise InputError("theme colour is not opaque text", where, 'write it as "#rrggbb"')
        except ColorParseError as error:
            raise InputError("theme colour cannot be read", where, 'write it as "#rrggbb"') from error
    return {str(key): str(value) for key, value in entries.items()}


def read_themes() -> tuple[dict[str, ThemeFile], list[str]]:
    """All themes by name, and one line for each file that failed. The operator's override the shipped ones."""
    themes: dict[str, ThemeFile] = {}
    problems: list[str] = []
    for folder in (data_folder(), user_folder()):
        for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
            try:
                themes[path.stem] = read_theme(path)
            except InputError as error:
                problems.append(str(error))
    return themes, problems


def require_theme(name: str, themes: Mapping[str, ThemeFile]) -> None:
    """Raise ``InputError`` if there is no theme of this name."""
    if name not in themes:
        raise InputError("unknown theme", name, f"there are {', '.join(sorted(themes))}")
