"""Which files of a folder are the former and the next of a log: what rotation renamed, copied or compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_PACKED = r"(?:\.(?:gz|zst))?"
_MARK = r"[.~_-](?:old|bak|prev|save|orig|[0-9][0-9TZ:._+-]*)"
_MOST = 20_000
"""Entries of a folder that are looked at."""


def family_of(path: Path, switched: bool = False) -> re.Pattern[str]:
    """Names that rotation gives to the file ``path``, without its own name.

    ``a.log`` becomes ``a.log.1``, ``a.log-20260313``, ``a.1.log``, ``a.log.old``, each perhaps with ``.gz``. A name
    with another word in it (``a.log.err``) is another log. Of the target of a link that is ``switched`` from one file
    to the next, those with other digits are of the family too.
    """
    name, stem, suffix = path.name, path.stem, path.suffix
    forms = [f"{re.escape(name)}(?:{_MARK})+{_PACKED}", f"{re.escape(stem)}{_MARK}{re.escape(suffix)}{_PACKED}"]
    if switched and re.search(r"\d", name):
        forms.append(re.sub(r"\d+", r"\\d+", re.escape(name)) + f"(?:{_MARK})*{_PACKED}")
    return re.compile(f"(?!{re.escape(name)}$)(?:{'|'.join(forms)})")


def members(path: Path) -> Iterator[tuple[str, int]]:
    """Paths of the family's files in the path's folder, and in that of the file that it links to, with their inodes."""
    places = {path.parent: [(path.name, family_of(path))]}
    real = path.resolve()
    if real != path.absolute():
        places.setdefault(real.parent, []).append((real.name, family_of(real, switched=True)))
    for folder, names in places.items():
        own = {name for name, _ in names}
        try:
            with os.scandir(folder) as entries:
                for _, entry in zip(range(_MOST), entries, strict=False):
                    if entry.name not in own and any(form.fullmatch(entry.name) for _, form in names):
                        yield entry.path, entry.inode()
        except OSError:  # the folder has gone: it has no files
            continue


def rotation_number(name: str) -> int:
    """The number that a rotation counts by (``a.log.12``); 0 without one."""
    found = re.search(r"[.](\d{1,6})(?:\.(?:gz|zst|log))*$", name)
    return int(found[1]) if found else 0
