"""The section ``[storage]`` of the configuration: what is kept of a session, where, and how much of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from console.settings import read_section, state_folder
from prover.errors import InputError

if TYPE_CHECKING:
    from prover.pipeline.journal import Journal

JOURNAL_NAME = "journal.sqlite3"
_LIMITS: dict[str, tuple[int, int]] = {
    "jobs": (100, 100_000_000),
    "timings": (0, 1_000_000_000),
    "knob_changes": (0, 100_000_000),
    "days": (1, 36_500),
    "megabytes": (1, 1_000_000),
}
"""What is kept at most of each, least and most."""
_RECORDING: dict[str, tuple[int, int]] = {"recording_megabytes": (1, 100_000), "recordings_kept": (0, 1000)}


@dataclass(frozen=True, slots=True)
class Storage:
    """What is kept of a session."""

    journal: bool = True
    """Whether a journal is kept at all."""
    path: Path | None = None
    """Where; in the state folder if nothing is said."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """What is kept at most, where that was said (``_LIMITS``)."""
    record: bool = False
    """Whether every session is recorded in the state folder."""
    recording_megabytes: int = 64
    """Size at which a recording's file is numbered and another begun."""
    recordings_kept: int = 8
    """Such files that are kept beside the newest."""

    def open(self) -> Journal | None:
        """The journal, if one is kept. Loads SQLite and may wait for the disk: not for the interface's thread."""
        if not self.journal:
            return None
        from prover.pipeline.journal import Journal, Retention

        limits = dict(self.limits)
        megabytes = limits.pop("megabytes", None)
        keep = replace(Retention(), **limits)
        if megabytes is not None:
            keep = replace(keep, nbytes=megabytes << 20)
        return Journal.open(self.path or state_folder() / JOURNAL_NAME, keep)


def read_storage_section(path: Path, *, required: bool) -> Storage:
    """The section ``[storage]`` of a configuration file. Raises ``InputError`` naming the entry."""
    storage = Storage()
    for key, value in read_section(path, "storage", required=required).items():
        storage = _apply(storage, key, value, f"{path}: storage.{key}")
    return storage


def with_journal(storage: Storage, option: str | None) -> Storage:
    """What ``--journal`` makes of it: a path, or ``none``."""
    if option is None:
        return storage
    if option == "none":
        return replace(storage, journal=False)
    return replace(storage, journal=True, path=_path(option, f"--journal {option[:60]}"))


def _apply(storage: Storage, key: str, value: object, where: str) -> Storage:
    if key in ("journal", "record"):
        if isinstance(value, bool):
            return replace(storage, journal=value) if key == "journal" else replace(storage, record=value)
        raise InputError("setting is no boolean", where, "write true or false")
    if key in _RECORDING:
        return _apply_recording(storage, key, value, where)
    if key == "path":
        if isinstance(value, str):
            return replace(storage, path=_path(value, where))
        raise InputError(
            "setting is no text", where, 'write the journal\'s file, as "/var/lib/cuzk-top/journal.sqlite3"'
        )
    if key in _LIMITS:
        least, most = _LIMITS[key]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return replace(storage, limits={**storage.limits, key: value})
        raise InputError("setting is out of range", where, f"write a whole number from {least} to {most}")
    raise InputError(
        "setting is unknown", where, f"journal, path, {', '.join(_LIMITS)}, record, {', '.join(_RECORDING)} exist"
    )


def _apply_recording(storage: Storage, key: str, value: object, where: str) -> Storage:
    least, most = _RECORDING[key]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError("setting is out of range", where, f"write a whole number from {least} to {most}")
    if key == "recordings_kept":
        return replace(storage, recordings_kept=value)
    return replace(storage, recording_megabytes=value)


def _path(text: str, where: str) -> Path:
    path = Path(os.path.expanduser(text))  # noqa: PTH111 - an unknown user's ~ stays as it is, and is refused below
    if not text or "\0" in text or (text.startswith("~") and not path.is_absolute()):
        raise InputError("not a file's name", where, "write the path of the journal's file")
    if path.is_dir():
        raise InputError("the journal is a file", where, f"name one in that folder, as {path / JOURNAL_NAME}")
    return path.absolute()
