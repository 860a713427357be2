"""snarkjs's JSON files: ``proof.json``, ``public.json``, ``verification_key.json``, to the byte as snarkjs prints them.

Numbers are decimal strings; points are projective with z = 1, or 0, 1, 0 for infinity; Fp2 elements are c0, c1. Readers
take nothing else: no other spelling of a number, no value that is not below its modulus, no key twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from prover.curves import CURVES, Curve, Fp2Element, G1Point, G2Point
from prover.formats.atomic import write_files
from prover.formats.errors import FormatError, StrPath
from prover.formats.points import g1_on_curve, g2_on_curve
from prover.formats.proof import Proof, VerifyingKey
from prover.formats.small_file import read_small_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ORDER = "give verification_key.json, public.json, proof.json in this order, or make the file again"
PROTOCOL = "groth16"
MAX_PROOF_BYTES = 1 << 16
MAX_KEY_BYTES = 1 << 28
"""Also of the public inputs: room for more than a million points or values."""

_MAX_INTEGER_DIGITS = 18
_MAX_QUOTED = 24


def read_proof(path: StrPath, curve: Curve | None = None) -> Proof:
    """Read a proof; its points are checked to be on the curve. ``curve`` is the one expected, if any.

    Raises:
        FormatError: what is wrong, in which field.
    """
    document = _Document(path, MAX_PROOF_BYTES)
    fields = document.object("pi_a", "pi_b", "pi_c")
    found = document.curve(fields, curve)
    return Proof(
        found,
        document.g1(found, fields["pi_a"], "pi_a"),
        document.g2(found, fields["pi_b"], "pi_b"),
        document.g1(found, fields["pi_c"], "pi_c"),
    )


def read_public(path: StrPath, curve: Curve, n_public: int | None = None) -> list[int]:
    """Read public inputs: scalars of ``curve``, as many as the verifying key wants if that is given.

    Raises:
        FormatError: what is wrong, at which index.
    """
    document = _Document(path, MAX_KEY_BYTES)
    values = document.content
    if not isinstance(values, list):
        raise document.error("not a list of public inputs", fix="give the public.json of the proof")
    if n_public is not None and len(values) != n_public:
        what = f"{len(values)} public inputs, the verifying key has {n_public}"
        raise document.error(what, fix="give the public.json of the proof")
    return [document.number(value, f"[{i}]", curve.fr.modulus) for i, value in enumerate(values)]


def read_verification_key(path: StrPath) -> VerifyingKey:
    """Read a verifying key; its points are checked to be on the curve.

    Raises:
        FormatError: what is wrong, in which field.
    """
    document = _Document(path, MAX_KEY_BYTES)
    fields = document.object("nPublic", "vk_alpha_1", "vk_beta_2", "vk_gamma_2", "vk_delta_2", "IC")
    curve = document.curve(fields, None)
    n_public, ic = fields["nPublic"], fields["IC"]
    if type(n_public) is not int or n_public < 0:
        raise document.error("not a count", "nPublic")
    if not isinstance(ic, list) or len(ic) != n_public + 1:
        found = f"{len(ic)} points" if isinstance(ic, list) else "no list"
        raise document.error(f"{found}, {n_public} public inputs need {n_public + 1}", "IC")
    key = VerifyingKey(
        curve=curve,
        alpha_g1=document.g1(curve, fields["vk_alpha_1"], "vk_alpha_1"),
        beta_g2=document.g2(curve, fields["vk_beta_2"], "vk_beta_2"),
        gamma_g2=document.g2(curve, fields["vk_gamma_2"], "vk_gamma_2"),
        delta_g2=document.g2(curve, fields["vk_delta_2"], "vk_delta_2"),
        ic=tuple(document.g1(curve, point, f"IC[{i}]") for i, point in enumerate(ic)),
        alphabeta=document.alphabeta(curve, fields.get("vk_alphabeta_12")),
    )
    for name, point in (
        ("vk_alpha_1", key.alpha_g1),
        ("vk_beta_2", key.beta_g2),
        ("vk_gamma_2", key.gamma_g2),
        ("vk_delta_2", key.delta_g2),
    ):
        if point is None:
            raise document.error("point at infinity", name)
    return key


def proof_json(proof: Proof) -> bytes:
    """The text of ``proof.json``."""
    return _dump(
        {
            "pi_a": _g1(proof.a),
            "pi_b": _g2(proof.b),
            "pi_c": _g1(proof.c),
            "protocol": PROTOCOL,
            "curve": proof.curve.snarkjs_name,
        }
    )


def public_json(values: Sequence[int]) -> bytes:
    """The text of ``public.json``."""
    return _dump([str(value) for value in values])


def verification_key_json(key: VerifyingKey) -> bytes:
    """The text of ``verification_key.json``. ``vk_alphabeta_12`` is left out where the key does not hold it."""
    fields = {
        "protocol": PROTOCOL,
        "curve": key.curve.snarkjs_name,
        "nPublic": key.n_public,
        "vk_alpha_1": _g1(key.alpha_g1),
        "vk_beta_2": _g2(key.beta_g2),
        "vk_gamma_2": _g2(key.gamma_g2),
        "vk_delta_2": _g2(key.delta_g2),
    }
    if key.alphabeta is not None:
        v = [str(value) for value in key.alphabeta]
        fields["vk_alphabeta_12"] = [[v[i : i + 2] for i in range(6 * half, 6 * half + 6, 2)] for half in (0, 1)]
    fields["IC"] = [_g1(point) for point in key.ic]
    return _dump(fields)


def write_proof(path: StrPath, proof: Proof) -> None:
    """Write ``proof.json`` atomically. (For proof and public inputs together: ``atomic.write_files``.)

    Raises:
        WriteError: if it cannot be written.
    """
    write_files({path: proof_json(proof)})


def write_public(path: StrPath, values: Sequence[int]) -> None:
    """Write ``public.json`` atomically.

    Raises:
        WriteError: if it cannot be written.
    """
    write_files({path: public_json(values)})


def write_verification_key(path: StrPath, key: VerifyingKey) -> None:
    """Write ``verification_key.json`` atomically.

    Raises:
        WriteError: if it cannot be written.
    """
    write_files({path: verification_key_json(key)})


def _g1(point: G1Point) -> list[str]:
    return ["0", "1", "0"] if point is None else [str(point[0]), str(point[1]), "1"]


def _g2(point: G2Point) -> list[list[str]]:
    if point is None:
        return [["0", "0"], ["1", "0"], ["0", "0"]]
    return [[str(c) for c in coordinate] for coordinate in (*point, (1, 0))]


def _dump(content: object) -> bytes:
    return _text(content, "\n").encode()


def _text(content: object, newline: str) -> str:
    """JSON of numbers, lists, objects and strings that need no escape, as snarkjs prints it: indented by one blank, an
    empty list closed on a line of its own. (The json module is slow to load, and every proof would wait for it.)
    """
    if isinstance(content, str):
        return f'"{content}"'
    if isinstance(content, int):
        return str(content)
    inner = newline + " "
    if isinstance(content, dict):
        items = [f'"{name}": {_text(value, inner)}' for name, value in content.items()]
    else:
        assert isinstance(content, list)
        items = [_text(value, inner) for value in content]
    opening, closing = "{}" if isinstance(content, dict) else "[]"
    body = inner + ("," + inner).join(items) if items else ""
    return f"{opening}{body}{newline}{closing}"


class _Document:
    """A parsed JSON file, and strict readings of its parts that know how to complain."""

    def __init__(self, path: StrPath, limit: int) -> None:
        import json  # not at the top: writing does without

        self.path = os.fspath(path)
        text = self._text(limit)
        try:
            self.content: Any = json.loads(
                text,
                object_pairs_hook=_object_without_duplicates,
                parse_int=_short_integer,
                parse_float=_refuse_number,
                parse_constant=_refuse_number,
            )
        except json.JSONDecodeError as error:
            raise FormatError(self.path, f"not JSON: {error.msg}", offset=error.pos) from None
        except ValueError as error:
            raise self.error(str(error)) from None
        except RecursionError:
            raise self.error("nested too deeply") from None

    def _text(self, limit: int) -> str:
        try:
            return read_small_file(self.path, limit).decode()
        except UnicodeDecodeError as error:
            raise FormatError(self.path, "not UTF-8 text", offset=error.start) from None

    def error(self, what: str, field: str = "", **kwargs: Any) -> FormatError:
        return FormatError(self.path, what, section=field, **kwargs)

    def object(self, *required: str) -> dict[str, Any]:
        if not isinstance(self.content, dict):
            raise self.error("not a JSON object", fix=_ORDER)
        protocol = self.content.get("protocol")
        if protocol != PROTOCOL:
            raise self.error(f"protocol {_quote(protocol)}, only {PROTOCOL} is known", "protocol")
        for name in required:
            if name not in self.content:
                raise self.error("missing", name)
        return self.content

    def curve(self, fields: dict[str, Any], expected: Curve | None) -> Curve:
        name = fields.get("curve")
        for candidate in CURVES:
            if isinstance(name, str) and name.lower() in candidate.aliases:
                if expected is not None and candidate is not expected:
                    what = f"curve {candidate.spelling}, the verifying key has {expected.spelling}"
                    raise self.error(what, "curve", fix="give files of one circuit")
                return candidate
        known = " or ".join(c.spelling for c in CURVES)
        raise self.error(f"curve {_quote(name)}, not {known}", "curve")

    def number(self, value: Any, field: str, modulus: int) -> int:
        if not isinstance(value, str) or not (value.isascii() and value.isdigit()):
            raise self.error(f"{_quote(value)} is not a string of decimal digits", field)
        if len(value) > 1 and value[0] == "0":
            raise self.error(f"{_quote(value)} has leading zeros", field)
        if len(value) > len(str(modulus)) or (number := int(value)) >= modulus:
            raise self.error(f"{_quote(value)} is not below the field modulus", field)
        return number

    def numbers(self, value: Any, field: str, count: int, modulus: int) -> list[int]:
        return [self.number(v, f"{field}[{i}]", modulus) for i, v in enumerate(self.list(value, field, count))]

    def list(self, value: Any, field: str, count: int) -> list[Any]:
        if not isinstance(value, list) or len(value) != count:
            found = f"a list of {len(value)}" if isinstance(value, list) else _quote(value)
            raise self.error(f"{found}, not a list of {count}", field)
        return value

    def g1(self, curve: Curve, value: Any, field: str) -> G1Point:
        x, y, z = self.numbers(value, field, 3, curve.fp.modulus)
        if (x, y, z) == (0, 1, 0):
            return None
        if z != 1:
            raise self.error("point is not affine (z is not 1)", field)
        if not g1_on_curve(curve, (x, y)):
            raise self.error("point not on the curve", field)
        return x, y

    def g2(self, curve: Curve, value: Any, field: str) -> G2Point:
        coordinates: list[Fp2Element] = []
        for i, pair in enumerate(self.list(value, field, 3)):
            c0, c1 = self.numbers(pair, f"{field}[{i}]", 2, curve.fp.modulus)
            coordinates.append((c0, c1))
        x, y, z = coordinates
        if (x, y, z) == ((0, 0), (1, 0), (0, 0)):
            return None
        if z != (1, 0):
            raise self.error("point is not affine (z is not 1)", field)
        if not g2_on_curve(curve, (x, y)):
            raise self.error("point not on the curve", field)
        return x, y

    def alphabeta(self, curve: Curve, value: Any) -> tuple[int, ...] | None:
        if value is None:
            return None
        name = "vk_alphabeta_12"
        out: list[int] = []
        for i, half in enumerate(self.list(value, name, 2)):
            for j, pair in enumerate(self.list(half, f"{name}[{i}]", 3)):
                out += self.numbers(pair, f"{name}[{i}][{j}]", 2, curve.fp.modulus)
        return tuple(out)


def _quote(value: Any) -> str:
    """A JSON value, cut short, for a message."""
    import json

    text = "nothing" if value is None else json.dumps(value) if isinstance(value, str | int) else type(value).__name__
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {_quote(twice)} occurs twice")
    return out


def _short_integer(text: str) -> int:
    if len(text) > _MAX_INTEGER_DIGITS:
        raise ValueError(f"integer {text[:_MAX_QUOTED]}... is too long")
    return int(text)


def _refuse_number(text: str) -> Any:
    raise ValueError(f"number {text[:_MAX_QUOTED]} is not an integer")
