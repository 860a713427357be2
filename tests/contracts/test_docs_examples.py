"""Every command line shown in the documentation is one that the program accepts, and every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from console.cli import COMMANDS, build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:\s]+)\)")


def _examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in _FENCE.findall(page.read_text()):
            for line in block.splitlines():
                command = line.removeprefix("$ ").strip()
                if command.startswith("cuzk-top"):
                    found.append((page.name, command))
    return found


def test_there_are_examples() -> None:
    assert len(_examples()) >= 8


@pytest.mark.parametrize(("page", "line"), _examples())
def test_example_is_accepted(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    for end in ("|", ">", "&&", "2>"):
        if end in words:
            words = words[: words.index(end)]
    command = words[0] if words and words[0] in COMMANDS else None
    build_parser(command).parse_args(words[1:] if command else words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []
