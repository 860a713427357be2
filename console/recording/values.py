"""Frozen values as bytes, each as its difference from an earlier one. What is not known to both sides is left out.

A value is a tag and what the tag needs. Numbers are varints of differences, floats those of their bit patterns (times
that follow each other differ in few bits), strings and classes are spelled out once and numbered from then on. Encoder
and decoder keep the same tables; both begin anew at a key frame.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import MappingProxyType, ModuleType
from typing import Any

from console.feeds.nvml import card, census
from prover import model

SAME, NONE, FALSE, TRUE, INT, FLOAT, STRING, NEW_STRING, MEMBER, TUPLE, OBJECT, NEW_CLASS, MAP = range(13)

_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<Q")
_WRAP = 1 << 64
_HALF = 1 << 63
_LONGEST = 1 << 22


class UnknownValueError(ValueError):
    """A value of a kind that the format does not know, or bytes that are none."""


def _known(*modules: ModuleType) -> tuple[dict[str, type], dict[str, type[Enum]]]:
    classes: dict[str, type] = {}
    enums: dict[str, type[Enum]] = {}
    for module in modules:
        for name, thing in vars(module).items():
            if isinstance(thing, type) and thing.__module__ == module.__name__:
                if is_dataclass(thing):
                    classes[name] = thing
                elif issubclass(thing, Enum):
                    enums[name] = thing
    return classes, enums


CLASSES, ENUMS = _known(model, card, census)
"""What may be recorded: every frozen class and every choice of the vocabulary, by name."""


def varint(out: bytearray, number: int) -> None:
    """Append a number >= 0: seven bits a byte, the lowest first, the highest bit set while more follow."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def signed(out: bytearray, number: int) -> None:
    """Append a number of either sign: 0, -1, 1, -2, 2 are 0, 1, 2, 3, 4."""
    varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


class Encoder:
    """Writes values. ``before`` is what the decoder has from an earlier value of the same place."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._classes: dict[type, tuple[int, tuple[str, ...]]] = {}
        self._members: dict[tuple[type, Enum], str] = {}
        self._bits = 0

    def write(self, out: bytearray, value: Any, before: Any) -> None:
        """Append one value."""
        kind = type(value)
        if value is before:
            out.append(SAME)
        elif value is None:
            out.append(NONE)
        elif kind is float:
            if type(before) is float and value == before:
                out.append(SAME)
            else:
                out.append(FLOAT)
                self._float(out, value)
        elif kind is bool:
            out.append(TRUE if value else FALSE)
        elif kind is int:
            if type(before) is int:
                if value == before:
                    out.append(SAME)
                    return
                value -= before
            out.append(INT)
            signed(out, value)
        elif kind is str:
            if type(before) is str and value == before:
                out.append(SAME)
            else:
                self._string(out, value, STRING)
        else:
            self._compound(out, value, before)

    def _compound(self, out: bytearray, value: Any, before: Any) -> None:
        if isinstance(value, Enum):
            name = self._members.get((type(value), value))  # members of two choices may be equal: both are text
            if name is None:
                name = self._members[type(value), value] = f"{type(value).__name__}.{value.name}"
            self._string(out, name, MEMBER)
        elif isinstance(value, tuple):
            self._tuple(out, value, before)
        elif isinstance(value, Mapping):
            self._map(out, value, before if isinstance(before, Mapping) else {})
        elif type(value).__name__ in CLASSES:
            self._object(out, value, before)
        else:
            raise UnknownValueError(f"cannot record a {type(value).__name__}")

    def _float(self, out: bytearray, value: float) -> None:
        (bits,) = _BITS.unpack(_DOUBLE.pack(value))
        change = (bits - self._bits) % _WRAP
        self._bits = bits
        signed(out, change if change < _HALF else change - _WRAP)

    def _string(self, out: bytearray, text: str, tag: int) -> None:
        number = self._strings.get(text)
        if number is None:
            self._strings[text] = len(self._strings)
            data = text.encode("utf-8", "surrogatepass")
            out.append(tag)
            varint(out, 0)
            varint(out, len(data))
            out += data
        else:
            out.append(tag)
            varint(out, number + 1)

    def _tuple(self, out: bytearray, value: tuple[Any, ...], earlier: Any) -> None:
        before: tuple[Any, ...] = earlier if isinstance(earlier, tuple) else ()
        kept = 0
        for one, other in zip(value, before, strict=False):
            if one is not other and (type(one) is not type(other) or one != other):
                break
            kept += 1
        # most views of a picture are equal to the earlier ones, and comparing ends at the parts that they share
        if kept == len(value) == len(before) and before is earlier:
            out.append(SAME)
            return
        out.append(TUPLE)
        varint(out, kept)
        varint(out, len(value) - kept)
        places = {name: place for place, other in enumerate(before) if (name := getattr(other, "id", None)) is not None}
        for place in range(kept, len(value)):
            one = value[place]
            basis = places.get(getattr(one, "id", None), -1) if places else place if place < len(before) else -1
            varint(out, basis + 1)
            other = before[basis] if basis >= 0 else None
            if one is other or (type(one) is type(other) and one == other):
                out.append(SAME)
            else:
                self.write(out, one, other)

    def _object(self, out: bytearray, value: Any, before: Any) -> None:
        kind = type(value)
        known = self._classes.get(kind)
        if known is None:
            names = tuple(field.name for field in fields(kind))
            known = self._classes[kind] = len(self._classes), names
            out.append(NEW_CLASS)
            self._string(out, " ".join((kind.__name__, *names)), STRING)
        number, names = known
        basis = before if type(before) is kind else None
        mask = 0
        parts: list[tuple[Any, Any]] = []
        for place, name in enumerate(names):
            one = getattr(value, name)
            other = getattr(basis, name) if basis is not None else None
            if one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other):
                continue
            mask |= 1 << place
            parts.append((one, other))
        if not mask and basis is not None:
            out.append(SAME)
            return
        out.append(OBJECT)
        varint(out, number)
        varint(out, mask)
        for one, other in parts:
            self.write(out, one, other)

    def _map(self, out: bytearray, value: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        out.append(MAP)
        varint(out, len(value))
        for key, one in value.items():
            self._string(out, key, STRING)
            self.write(out, one, before.get(key))


_PLAIN = frozenset({float, int, str, bool})


class Decoder:
    """Reads what an ``Encoder`` wrote, in the same order."""

    def __init__(self) -> None:
        self._strings: list[str] = []
        self._classes: list[_Class] = []
        self._members: dict[str, Any] = {}
        self._bits = 0
        self._data = b""
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Go on with these bytes; nothing of earlier ones is left."""
        self._data, self._at = data, 0

    @property
    def more(self) -> bool:
        """Whether bytes are left."""
        return self._at < len(self._data)

    def byte(self) -> int:
        """One byte. Raises ``IndexError`` at the end."""
        value = self._data[self._at]
        self._at += 1
        return value

    def varint(self) -> int:
        """A number >= 0."""
        data, at = self._data, self._at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._at = at
                return value
            shift += 7

    def signed(self) -> int:
        """A number of either sign."""
        number = self.varint()
        return -((number + 1) >> 1) if number & 1 else number >> 1

    def read(self, before: Any) -> Any:
        """One value, given the earlier one of its place."""
        tag = self.byte()
        if tag == SAME:
            return before
        if tag == FLOAT:
            self._bits = (self._bits + self.signed()) % _WRAP
            return _DOUBLE.unpack(_BITS.pack(self._bits))[0]
        if tag == OBJECT:
            return self._object(before)
        if tag == INT:
            change = self.signed()
            return before + change if type(before) is int else change
        if tag == STRING:
            return self._string()
        if tag == MEMBER:
            return self._member(self._string())
        if tag == TUPLE:
            return self._tuple(before if isinstance(before, tuple) else ())
        return self._rare(tag, before)

    def _rare(self, tag: int, before: Any) -> Any:
        if tag == NONE:
            return None
        if tag in (TRUE, FALSE):
            return tag == TRUE
        if tag == MAP:
            return self._map(before if isinstance(before, Mapping) else {})
        if tag == NEW_CLASS:
            if self.byte() != STRING:
                raise UnknownValueError("a class without a name")
            self._classes.append(_Class(self._string()))
            return self.read(before)
        raise UnknownValueError(f"tag {tag}")

    def _string(self) -> str:
        number = self.varint()
        if number:
            return self._strings[number - 1]
        length = self.varint()
        end = self._at + length
        if end > len(self._data):
            raise UnknownValueError("a string that is cut off")
        text = self._data[self._at : end].decode("utf-8", "surrogatepass")
        self._at = end
        self._strings.append(text)
        return text

    def _member(self, name: str) -> Any:
        if name not in self._members:
            kind, _, member = name.partition(".")
            try:
                self._members[name] = ENUMS[kind][member]
            except KeyError:
                self._members[name] = None  # of a later version: unknown
        return self._members[name]

    def _tuple(self, before: tuple[Any, ...]) -> tuple[Any, ...]:
        kept, count = self.varint(), self.varint()
        if kept + count > _LONGEST:
            raise UnknownValueError("a row too long")
        if kept > len(before):  # of a field that we no longer have
            before = (*before, *[None] * (kept - len(before)))
        fresh = []
        for _ in range(count):
            basis = self.varint()
            fresh.append(self.read(before[basis - 1] if 0 < basis <= len(before) else None))
        return (*before[:kept], *fresh)

    def _object(self, before: Any) -> Any:
        form = self._classes[self.varint()]
        mask = self.varint()
        basis = form.values(before)
        for place, name in enumerate(form.names):
            if mask >> place & 1:
                basis[name] = self.read(basis.get(name))
        return form.make(basis)

    def _map(self, before: Mapping[str, Any]) -> Mapping[str, Any]:
        made: dict[str, Any] = {}
        for _ in range(self.varint()):
            if self.byte() != STRING:
                raise UnknownValueError("a field without a name")
            key = self._string()
            made[key] = self.read(before.get(key))
        return MappingProxyType(made)


class _Class:
    """A class as the file spells it, and ours of that name."""

    def __init__(self, text: str) -> None:
        name, *self.names = text.split(" ")
        self.kind = CLASSES.get(name)
        self.ours: tuple[str, ...] = ()
        self._needed: set[str] = set()
        if self.kind is not None:
            known = fields(self.kind)
            self.ours = tuple(field.name for field in known)
            self._needed = {
                field.name for field in known if field.default is MISSING and field.default_factory is MISSING
            }
        self._strange = [name for name in self.names if name not in self.ours]

    def values(self, before: Any) -> dict[str, Any]:
        """The fields of the earlier value, or those that are None unless they are told."""
        if self.kind is not None and type(before) is self.kind:
            return {name: getattr(before, name) for name in self.names if name in self.ours}
        return dict.fromkeys(self.names)

    def make(self, values: dict[str, Any]) -> Any:
        """The object; None where we have no such class."""
        if self.kind is None:
            return None
        for name in self._strange:
            values.pop(name, None)
        missing = self._needed.difference(values)
        if missing:
            raise UnknownValueError(f"{self.kind.__name__} without {', '.join(sorted(missing))}")
        return self.kind(**values)
