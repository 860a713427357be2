"""A few sentences under a title, wrapped to the panel."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from widgets.canvas import Canvas, Line


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and the role that colours it."""

    text: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class SentencesData:
    """Title and sentences, the most important first."""

    title: str
    sentences: tuple[Sentence, ...] = ()


def fitting(sentences: Iterable[Sentence], columns: int, rows: int) -> list[tuple[str, str]]:
    """Lines and their roles. The first sentence is cut where it must be; another one is there whole, or, if it has a
    colon, with what stands before that (an advice without its reason), or not.
    """
    shown: list[tuple[str, str]] = []
    for sentence in sentences:
        left = rows - len(shown)
        lines = textwrap.wrap(sentence.text, columns)
        if len(lines) > left and shown:
            head, colon, _ = sentence.text.partition(":")
            lines = textwrap.wrap(f"{head}.", columns)
            if not colon or len(lines) > left:
                break
        shown += [(text, sentence.role) for text in lines[:left]]
    return shown


class SentencesPanel(Canvas[SentencesData]):
    """Prose that answers one question."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The panel."""
        yield self.rule(width, self.data.title)
        sentences = [Sentence(self.text(one.text), one.role) for one in self.data.sentences]
        for text, role in fitting(sentences, max(10, width - 2), height - 1):
            yield self.line().add(" ").add(text, role)
