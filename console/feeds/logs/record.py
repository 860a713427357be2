"""A log record: one happening as a line told it. Spans and fields are taken apart when somebody asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from console.feeds.logs.values import FieldMap, json_fields, json_spans, meant, split_fields, split_spans, timing_fields
from prover.model import FieldValue


class Form(Enum):
    """How a record was written."""

    TRACING = "tracing"
    JSON = "json"
    TIMELINE = "timeline"
    TIMING = "timing"
    """``CUZK_TIMING`` and ``CUZK_NTT_H``."""
    WORKER = "worker"
    """Lotus and bellperson outside of a daemon."""
    TEXT = "text"
    """Not understood, or a text of no known form."""


class LogRecord:
    """One record. ``at_us`` is microseconds since 1970 (UTC); None where nothing tells."""

    __slots__ = ("_printed", "_rest", "_span_list", "_spans", "at_us", "form", "level", "message", "offset", "target")

    def __init__(
        self,
        form: Form,
        offset: int,
        at_us: int | None,
        level: str,
        target: str,
        message: str,
        rest: str | Mapping[str, Any] = "",
        span_list: str | Sequence[Any] = "",
        printed: Mapping[str, Any] | None = None,
    ) -> None:
        """``rest`` and ``span_list`` are as written: text, or JSON's objects."""
        self.form = form
        self.offset = offset
        """Of the line's first byte in its source."""
        self.at_us = at_us
        """When; of a record without a stamp, that of the latest stamp before it."""
        self.level = level
        self.target = target
        self.message = message
        self._rest = rest
        self._span_list = span_list
        self._printed = printed
        self._spans: tuple[tuple[str, Mapping[str, Any]], ...] | None = None

    def _raw(self) -> Mapping[str, Any]:
        if self._printed is None:
            rest = self._rest
            if not isinstance(rest, str):
                self._printed = json_fields(rest)
            elif self.form is Form.TIMING:
                self._printed = timing_fields(self.message)
            else:
                self._printed = split_fields(self.message, rest) if rest else {}
        return self._printed

    def _raw_spans(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        if self._spans is None:
            spans = self._span_list
            self._spans = split_spans(spans) if isinstance(spans, str) else json_spans(spans)
        return self._spans

    @property
    def fields(self) -> FieldMap:
        """The message's fields."""
        return {key: meant(key, value) for key, value in self._raw().items()}

    @property
    def spans(self) -> tuple[tuple[str, FieldMap], ...]:
        """Name and fields of the spans that it was written in, root first."""
        return tuple(
            (name, {key: meant(key, value) for key, value in fields.items()}) for name, fields in self._raw_spans()
        )

    def get(self, key: str) -> FieldValue:
        """The value of one of the message's fields; None without."""
        value = (self._printed or self._raw()).get(key)
        return value if value is None or type(value) is int else meant(key, value)

    def about(self, key: str) -> FieldValue:
        """A field's value: the message's own, or that of the innermost span that has it; None without."""
        value = self._raw().get(key)
        if value is None and self._span_list:
            for _, fields in reversed(self._raw_spans()):
                value = fields.get(key)
                if value is not None:
                    break
        return None if value is None else meant(key, value)

    def same_event(self) -> tuple[object, ...]:
        """What another format tells of the same happening: everything but where and how it was written."""
        spans = tuple((name, _frozen(fields)) for name, fields in self.spans)
        return (self.at_us, self.level, self.target, self.message, _frozen(self.fields), spans)

    def __repr__(self) -> str:
        return f"LogRecord({self.form.value}, {self.at_us}, {self.level} {self.target}: {self.message} {self.fields})"


def _frozen(fields: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((key, repr(value)) for key, value in fields.items())
