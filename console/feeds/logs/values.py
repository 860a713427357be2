"""Fields and their values, in the three ways that a daemon prints them: raw, Rust's Debug, and quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from console.feeds.logs.catalogue import KEYS
from prover.model import FieldValue

FieldMap = dict[str, FieldValue]

_KEY = re.compile(r" ([a-z][a-z0-9_]*+)=")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SPAN = re.compile(r"\b(\w++)(?:\{([^{}]*+)\})?:")
_SPAN_KEY = re.compile(r"(?:^| )([a-z][a-z0-9_]*+)=")
_ESCAPED = re.compile(r"\\(u\{([0-9a-fA-F]{1,6})\}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_SOME = re.compile(r"Some\((.*)\)", re.DOTALL)
_FLOAT = re.compile(r"-?\d{1,30}\.\d{1,40}(?:e-?\d{1,3})?")

_TEXTS = """
addr backtrace circuit circuit_id detail entry error file from gpus handler id invalid_partitions job_id kind listen
logger name note path priority proof_type reason registered_proof request_id summary to url used_by valid_partitions
what who why worker
"""
TEXTS = frozenset(_TEXTS.split())
"""Keys whose values stay texts, even if they look like numbers."""
_FREE = frozenset(
    ("error", "path", "summary", "detail", "note", "reason", "what", "why", "listen", "addr", "new", "old")
)
"""Keys whose raw values may hold blanks and equals signs: what looks like an unknown key in them is theirs."""


def value_of(key: str, text: str) -> FieldValue:
    """A value as it was meant: quotes and ``Some`` off, numbers and booleans as such unless the key is one of texts."""
    if text.isdecimal() and len(text) <= 18 and text.isascii() and key not in TEXTS:
        return int(text)
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        text = unescape(text[1:-1])
        if key in TEXTS or key == "proof_kind":
            return text
    elif key in TEXTS:
        return text
    some = _SOME.fullmatch(text)
    if some is not None:
        return value_of(key, some[1])
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(text)
    if text == "None":
        return None
    if text in ("true", "false"):
        return text == "true"
    return float(text) if _FLOAT.fullmatch(text) else text


def unescape(text: str) -> str:
    """A text that Rust's Debug escaped, as it was."""
    return _ESCAPED.sub(_unescaped, text) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    if found[2] is None:
        return _ESCAPES.get(found[1], found[1])
    code = int(found[2], 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def split_fields(message: str, rest: str) -> dict[str, str]:
    """The fields behind a message, as printed, each value up to the next key that the message is known to have.

    ``rest`` begins with the blank before the first key. Keys that the message is not known to have are taken too,
    except inside a value of free text.
    """
    if '"' not in rest:
        simple = _simple(rest[1:])
        if simple is not None and _FREE.isdisjoint(simple):
            return simple
    return _split(_KEY, rest, KEYS.get(message))


@lru_cache(maxsize=1024)
def split_spans(text: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Names and fields, as printed, of spans as they stand before a target, root first; kept, as lines repeat them."""
    found = []
    for name, inside in _SPAN.findall(text):
        simple = _simple(inside) if '"' not in inside else None
        found.append((name, simple if simple is not None else _split(_SPAN_KEY, inside, None)))
    if text.count("{") == text.count("}:") <= len(found):
        return tuple(found)
    name, _, inside = text.partition("{")  # a value holds a brace: the spans cannot be told apart
    return ((name, _split(_SPAN_KEY, inside.rstrip(":").removesuffix("}"), None)),)


def _simple(text: str) -> dict[str, str] | None:
    """The fields of a text in which no value holds a blank; None if one does."""
    if not text:
        return {}
    try:
        return dict([word.split("=") for word in text.split(" ")])
    except ValueError:
        return None


def _split(pattern: re.Pattern[str], text: str, known: frozenset[str] | None) -> dict[str, str]:
    fields: dict[str, str] = {}
    key, begin, position = "", 0, 0
    while True:
        found = pattern.search(text, position)
        if found is None:
            break
        fresh = found[1]
        position = found.end()
        if not (key in _FREE and known is not None and fresh not in known):
            if key:
                fields[key] = text[begin : found.start()]
            key, begin = fresh, position
            quoted = _QUOTED.match(text, position)
            if quoted is not None:
                position = quoted.end()
    if key:
        fields[key] = text[begin:]
    return fields


_JSON_FRAME = frozenset(("timestamp", "ts", "level", "target", "logger", "caller", "span", "spans"))


def json_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a JSON line; what its frame holds is none of them."""
    return {key: value for key, value in values.items() if key not in _JSON_FRAME}


def json_spans(listed: Sequence[Any]) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Names and fields of a JSON line's spans, root first."""
    return tuple(
        (str(span.get("name", "")), {key: value for key, value in span.items() if key != "name"})
        for span in listed
        if isinstance(span, dict)
    )


def meant(key: str, value: Any) -> FieldValue:
    """A value as it was printed, by text or JSON, as it was meant."""
    if isinstance(value, str):
        # most values are short numbers
        if value.isdecimal() and len(value) <= 18 and key not in TEXTS and value.isascii():
            return int(value)
        return value_of(key, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return json.dumps(value)


_PAIR = re.compile(r"\b(\w++)=(-?\d{1,15})(?:ms)?(?![\w.])")


def timing_fields(text: str) -> dict[str, int]:
    """The numbers of a timing line: milliseconds, with or without their unit."""
    return {key: int(value) for key, value in _PAIR.findall(text)}
