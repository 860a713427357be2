"""Input files (``input.json``) as circom's generators take them: signals by name, values flat and below the prime.

The rules are those of circom 2's own calculator. A value is an integer, a string with one, or ``true`` and ``false``;
it is reduced modulo the prime, negative ones too. Arrays of any shape are flattened in order. An object is a bus: its
fields are signals of the name ``bus.field``, those of an array of buses ``bus[i].field``.

Stricter than JavaScript in what can only be a mistake: no empty string, no name twice. Whole numbers beyond 2^53 are
exact, where JavaScript rounds what is not in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from prover.formats.errors import FormatError, StrPath, printable
from prover.formats.small_file import read_small_file

MAX_BYTES = 1 << 28
"""Of an input file: room for millions of values."""
MAX_DIGITS = 4000
"""Of one number: fifty times what a value below the prime has, and still quick to reduce."""
VALUE_BYTES = 32

_DECIMAL = re.compile(r"-?[0-9]+", re.ASCII)
_PREFIXED = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+", re.ASCII)
_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1
MOST_NESTED = 200
"""Deepest nesting of arrays and objects that is read."""
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)
_FIX = "correct the input file"


@dataclass(frozen=True, slots=True)
class InputSignal:
    """One input signal of the circuit."""

    name: str
    values: tuple[int, ...]
    """Below the prime, in the order of the flattened array."""


def read_inputs(path: StrPath, prime: int) -> list[InputSignal]:
    """Read an input file.

    Raises:
        FormatError: what is wrong, at which signal.
    """
    return parse_inputs(read_small_file(path, MAX_BYTES), prime, path)


def parse_inputs(text: bytes, prime: int, path: StrPath) -> list[InputSignal]:
    """The signals of an input file's text; ``path`` is for messages.

    Raises:
        FormatError: what is wrong, at which signal.
    """
    if _too_deep(text):
        raise FormatError(path, "nested too deeply", fix=_FIX)
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_whole,
            parse_constant=_no_number,
        )
        if not isinstance(document, dict):
            raise FormatError(path, "not an object of input signals", fix='write {"signal": value, ...}')
        return _Flattener(prime, path).signals(document)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"not JSON: {error.msg}", offset=error.pos, fix=_FIX) from None
    except UnicodeDecodeError as error:
        raise FormatError(path, "not JSON: not UTF-8", offset=error.start, fix=_FIX) from None
    except RecursionError:
        raise FormatError(path, "nested too deeply", fix=_FIX) from None
    except FormatError:
        raise
    except ValueError as error:  # of the hooks above
        raise FormatError(path, str(error), fix=_FIX) from None


def _too_deep(text: bytes) -> bool:
    """Whether brackets nest deeper than ``MOST_NESTED``: the decoder recurses on the C stack, whose depth Python's own
    limit guards only as long as nobody has raised that.
    """
    if text.count(b"[") + text.count(b"{") <= MOST_NESTED:
        return False
    depth = 0
    for found in _STRUCTURE.finditer(text):
        sign = found[0]
        if sign in (b"[", b"{"):
            depth += 1
            if depth > MOST_NESTED:
                return True
        elif sign in (b"]", b"}"):
            depth -= 1
    return False


def fnv_hash(name: str) -> int:
    """The 64-bit FNV-1a hash by which a generator knows a signal, over the name's UTF-16 code units."""
    value = _FNV_BASIS
    data = name.encode("utf-16-le", "surrogatepass")
    for low, high in zip(data[::2], data[1::2], strict=True):
        value = ((value ^ (low | high << 8)) * _FNV_PRIME) & _MASK
    return value


def pack(signals: list[InputSignal]) -> bytes:
    """Records for the generator: u32 high and u32 low half of the hash, u32 count, u32 0, then 32 bytes a value, all
    little-endian.
    """
    out = bytearray()
    for signal in signals:
        digest = fnv_hash(signal.name)
        for word in (digest >> 32, digest & 0xFFFFFFFF, len(signal.values), 0):
            out += word.to_bytes(4, "little")
        out += b"".join(value.to_bytes(VALUE_BYTES, "little") for value in signal.values)
    return bytes(out)


class _Flattener:
    """Turns a document into signals, and knows how to complain."""

    def __init__(self, prime: int, path: StrPath) -> None:
        self._prime = prime
        self._path = path

    def signals(self, document: dict[str, Any]) -> list[InputSignal]:
        """All signals of a document, each once."""
        found: dict[str, InputSignal] = {}
        for name, value in document.items():
            for signal in self._of(name, value):
                if signal.name in found:
                    raise self._error("the signal is given twice", signal.name)
                found[signal.name] = signal
        return list(found.values())

    def _of(self, name: str, value: Any) -> Iterator[InputSignal]:
        if isinstance(value, dict):
            for field, inner in value.items():
                yield from self._of(f"{name}.{field}", inner)
            return
        if not isinstance(value, list):
            yield InputSignal(name, (self._number(name, value),))
            return
        flat = list(_flat(value))
        if not any(isinstance(each, dict) for each in flat):
            yield InputSignal(name, tuple(self._number(name, each) for each in flat))
            return
        if not all(isinstance(each, dict) for each in flat):
            raise self._error("buses and numbers in one array", name)
        yield from self._of_array(name, value)

    def _of_array(self, name: str, value: Any) -> Iterator[InputSignal]:
        """Buses: arrays nest as deep as they were declared."""
        if isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self._of_array(f"{name}[{index}]", inner)
        else:
            yield from self._of(name, value)

    def _number(self, name: str, value: Any) -> int:
        if isinstance(value, str):
            value = self._from_text(name, value)
        if not isinstance(value, int):
            raise self._error(f"not a number: {'null' if value is None else type(value).__name__}", name)
        return int(value) % self._prime

    def _from_text(self, name: str, text: str) -> int:
        number = text.strip()
        if len(number) <= MAX_DIGITS:
            if _DECIMAL.fullmatch(number):
                return int(number)
            if _PREFIXED.fullmatch(number):
                return int(number, 0)
        raise self._error(f'not a whole number: "{printable(text, 40)}"', name)

    def _error(self, what: str, signal: str) -> FormatError:
        return FormatError(self._path, what, section=f"signal {printable(signal, 80)}", fix=_FIX)


def _flat(value: list[Any]) -> Iterator[Any]:
    for each in value:
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield each


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f'the name "{printable(twice, 80)}" is given twice')
    return found


def _integer(literal: str) -> int:
    if len(literal) > MAX_DIGITS:
        raise ValueError(f"a number of {len(literal)} digits")
    return int(literal)


def _whole(literal: str) -> int:
    """``1.0`` and ``1e3`` are whole numbers."""
    if len(literal) <= MAX_DIGITS:
        try:
            number = Decimal(literal)
            if number.is_finite() and number.adjusted() <= MAX_DIGITS and number == number.to_integral_value():
                return int(number)
        except InvalidOperation:  # an exponent beyond all bounds
            pass
    raise ValueError(f"not a whole number: {printable(literal, 40)}")


def _no_number(literal: str) -> int:
    raise ValueError(f"not a number: {literal}")


__all__ = ["VALUE_BYTES", "InputSignal", "fnv_hash", "pack", "parse_inputs", "read_inputs"]
