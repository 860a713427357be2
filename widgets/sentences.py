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


class SentencesPanel(Canvas[SentencesData]):
    """Prose that answers one question. What does not fit is cut at a sentence's end where that is possible."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The panel."""
        yield self.rule(width, self.data.title)
        left = height - 1
        for sentence in self.data.sentences:
            lines = textwrap.wrap(self.text(sentence.text), max(10, width - 2))
            if len(lines) > left and left < height - 1:
                return
            for text in lines[:left]:
                yield self.line().add(" ").add(text, sentence.role)
            left -= len(lines)
