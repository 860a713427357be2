"""What the operator chose for the console: options over environment over the file over defaults."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from prover.errors import InputError
from prover.formats.errors import printable

_LEAST_REFRESH_S, _MOST_REFRESH_S = 0.05, 10.0


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Settings of one session of the console."""

    theme: str = "dark"
    ascii: bool = False
    colour: bool = True
    read_only: bool = False
    refresh_s: float = 0.25
    """Seconds between frames while the terminal has the focus."""
    log_path: Path | None = None
    """A log to follow instead of the engine's own."""


def _xdg(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    root = Path(value) if value.startswith("/") else Path.home() / fallback
    return root / "cuzk-top"


def config_folder() -> Path:
    """Where the configuration lives."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def state_folder() -> Path:
    """Where logs and the journal live."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def cache_problem() -> str | None:
    """Why no proving key can be kept in the cache, in one line, or None."""
    folder = _xdg("XDG_CACHE_HOME", ".cache") / "keys"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        return f"proving keys are not kept: {printable(str(folder))}: {error.strerror}: set XDG_CACHE_HOME"
    return None


def warn_of_cache() -> None:
    """Say on stderr that no proving key can be kept, where that is so."""
    problem = cache_problem()
    if problem is not None:
        sys.stderr.write(f"cuzk-top: {problem}\n")


def config_path(option: str | None) -> Path:
    """The configuration file: the option's, or the default one."""
    return Path(option) if option else config_folder() / "config.toml"


def read_configuration(path: Path, *, required: bool) -> dict[str, object]:
    """A configuration file. A missing one is empty unless ``required``. Raises ``InputError``."""
    if not path.exists():
        if required:
            raise InputError("configuration file not found", str(path), "check --config")
        return {}
    import tomli

    try:
        return dict(tomli.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise InputError("configuration cannot be read", str(path), str(error)) from error


def read_knob_table(option: str | None) -> dict[str, object]:
    """The ``[knobs]`` of the configuration that ``--config`` names, or of the default one. Raises ``InputError``."""
    return read_section(config_path(option), "knobs", required=option is not None)


def read_section(path: Path, name: str, *, required: bool) -> dict[str, object]:
    """A section of a configuration file, empty where it has none. Raises ``InputError`` naming the entry."""
    section = read_configuration(path, required=required).get(name, {})
    if not isinstance(section, dict):
        raise InputError("configuration entry is no table", f"{path}: {name}", f"write [{name}]")
    return section


def read_console_section(path: Path, *, required: bool) -> ConsoleSettings:
    """Settings from the ``[console]`` section of a configuration file. Raises ``InputError`` naming the entry."""
    settings = ConsoleSettings()
    for key, value in read_section(path, "console", required=required).items():
        settings = _apply(settings, key, value, f"{path}: console.{key}")
    return settings


def _apply(settings: ConsoleSettings, key: str, value: object, where: str) -> ConsoleSettings:
    if key == "theme":
        if isinstance(value, str):
            return replace(settings, theme=value)
        raise InputError("setting is no text", where, 'write a theme\'s name, as "dark"')
    if key == "ascii":
        if isinstance(value, bool):
            return replace(settings, ascii=value)
        raise InputError("setting is no boolean", where, "write true or false")
    if key == "read_only":
        if isinstance(value, bool):
            return replace(settings, read_only=value)
        raise InputError("setting is no boolean", where, "write true or false")
    if key == "refresh":
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and _LEAST_REFRESH_S <= value <= _MOST_REFRESH_S:  # type: ignore[operator]
            return replace(settings, refresh_s=float(value))  # type: ignore[arg-type]
        raise InputError(
            "setting is out of range", where, f"write seconds from {_LEAST_REFRESH_S} to {_MOST_REFRESH_S}"
        )
    raise InputError("setting is unknown", where, "theme, ascii, read_only, refresh exist")


def no_colour_wanted(option: bool) -> bool:
    """Whether colour is off: by the option, or by a non-empty ``NO_COLOR``."""
    return option or bool(os.environ.get("NO_COLOR"))
