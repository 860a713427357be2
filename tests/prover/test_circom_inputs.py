"""Input files as circom reads them: against a model after its calculator's rules, and under all sorts of rubbish."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.circom.inputs import VALUE_BYTES, InputSignal, fnv_hash, pack, parse_inputs, read_inputs
from prover.curves import BN254
from prover.formats.errors import FormatError

P = BN254.fr.modulus
names = st.text(min_size=1, max_size=8)
integers = st.integers(-(10**80), 10**80)


def spellings(value: int) -> st.SearchStrategy[object]:
    """The ways of writing an integer that a generator's user has."""
    ways: list[object] = [value, str(value), f" {value}\n"]
    if value >= 0:
        ways += [hex(value), oct(value), bin(value), f"00{value}"]
    if value in (0, 1):
        ways.append(bool(value))
    return st.sampled_from(ways)


written = integers.flatmap(lambda value: spellings(value).map(lambda spelled: (value, spelled)))
arrays = st.recursive(written, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def split(tree: object) -> tuple[list[int], object]:
    """The integers of a tree of pairs in order, and the tree as it is written."""
    if isinstance(tree, tuple):
        return [tree[0]], tree[1]
    assert isinstance(tree, list)
    parts = [split(each) for each in tree]
    return [value for values, _ in parts for value in values], [spelled for _, spelled in parts]


def parse(document: object) -> dict[str, tuple[int, ...]]:
    signals = parse_inputs(json.dumps(document).encode(), P, "input.json")
    return {signal.name: signal.values for signal in signals}


@given(st.dictionaries(names, arrays, max_size=5))
def test_arrays_of_any_shape_come_in_order_and_below_the_prime(document):
    parts = {name: split(tree) for name, tree in document.items()}
    expected = {name: tuple(value % P for value in values) for name, (values, _) in parts.items()}
    assert parse({name: spelled for name, (_, spelled) in parts.items()}) == expected


def test_buses_are_signals_of_their_own():
    assert parse({"b": {"x": 1, "y": [2, 3], "z": {"w": "4"}}}) == {"b.x": (1,), "b.y": (2, 3), "b.z.w": (4,)}
    assert parse({"b": [[{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]]}) == {
        "b[0][0].x": (1,),
        "b[0][1].x": (2,),
        "b[1][0].x": (3,),
        "b[1][1].x": (4,),
    }


def test_whole_numbers_may_look_like_fractions():
    assert parse_inputs(b'{"a": [1.0, 2e3, -5E0, 0.5e1]}', P, "f") == [InputSignal("a", (1, 2000, P - 5, 5))]


def test_large_numbers_without_quotes_are_exact():
    assert parse_inputs(b'{"a": 12345678901234567891}', P, "f")[0].values == (12345678901234567891,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
        (b"[1]", "not an object"),
        (b"3", "not an object"),
        (b'{"a": 1.5}', "not a whole number"),
        (b'{"a": 1e-3}', "not a whole number"),
        (b'{"a": 1e999999999999999999999}', "not a whole number"),
        (b'{"a": NaN}', "not a number"),
        (b'{"a": Infinity}', "not a number"),
        (b'{"a": null}', "not a number: null: f, signal a"),
        (b'{"a": ""}', "not a whole number"),
        (b'{"a": "1_000"}', "not a whole number"),
        (b'{"a": "+1"}', "not a whole number"),
        (b'{"a": "-0x1"}', "not a whole number"),
        ('{"a": "١"}'.encode(), "not a whole number"),
        (b'{"a": "0x"}', "not a whole number"),
        (b'{"a": ' + b"1" * 5000 + b"}", "5000 digits"),
        (b'{"a": "' + b"1" * 5000 + b'"}', "not a whole number"),
        (b'{"a": 1, "a": 2}', "given twice"),
        (b'{"a": {"x": 1, "x": 2}}', "given twice"),
        (b'{"a.x": 1, "a": {"x": 2}}', "given twice: f, signal a.x"),
        (b'{"a": [1, {"x": 2}]}', "buses and numbers"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 201 + b"1" + b"]" * 201 + b"}", "nested too deeply"),
        (b'{"a\\nb": "x"}', r"signal a\nb"),
    ],
)
def test_what_cannot_be_used_is_one_line(text, told):
    with pytest.raises(FormatError) as caught:
        parse_inputs(text, P, "f")
    line = str(caught.value)
    assert told in line
    assert "\n" not in line


def test_brackets_in_strings_and_side_by_side_are_not_deep():
    text = b'{"' + b"[" * 300 + b'": [' + b",".join([b"[1]"] * 300) + b"]}"
    (signal,) = parse_inputs(text, P, "f")
    assert signal.values == (1,) * 300


def test_nesting_is_bounded_whatever_the_recursion_limit_is():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(FormatError, match="nested too deeply"):
            parse_inputs(b'{"a": ' + b"[" * 10**6, P, "f")
    finally:
        sys.setrecursionlimit(limit)


@given(st.binary(max_size=80))
def test_rubbish_is_refused_in_one_line(text):
    try:
        parse_inputs(text, P, "f")
    except FormatError as error:
        assert "\n" not in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_any_json_is_taken_or_refused_in_one_line(document):
    try:
        signals = parse_inputs(json.dumps(document).encode(), P, "f")
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        assert all(0 <= value < P for signal in signals for value in signal.values)
        assert len({signal.name for signal in signals}) == len(signals)


def test_the_hash_is_fnv_1a():
    """The published vectors of FNV-1a, 64 bits."""
    assert fnv_hash("") == 0xCBF29CE484222325
    assert fnv_hash("a") == 0xAF63DC4C8601EC8C
    assert fnv_hash("foobar") == 0x85944171F73967E8


@given(names)
def test_names_are_hashed_by_utf_16_units_as_javascript_has_them(name):
    value = 0xCBF29CE484222325
    for character in name:
        code = ord(character)
        units = [code] if code < 0x10000 else [0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code - 0x10000) % 1024]
        for unit in units:
            value = (value ^ unit) * 0x100000001B3 % 2**64
    assert fnv_hash(name) == value


@given(st.lists(st.builds(InputSignal, names, st.lists(st.integers(0, P - 1), max_size=4).map(tuple)), max_size=4))
def test_packed_records_hold_everything(signals):
    data, at = pack(signals), 0
    for signal in signals:
        high, low, count, zero = (int.from_bytes(data[at + 4 * i : at + 4 * i + 4], "little") for i in range(4))
        assert (high << 32 | low, count, zero) == (fnv_hash(signal.name), len(signal.values), 0)
        at += 16
        values = [data[at + VALUE_BYTES * i : at + VALUE_BYTES * (i + 1)] for i in range(count)]
        assert tuple(int.from_bytes(value, "little") for value in values) == signal.values
        at += VALUE_BYTES * count
    assert at == len(data)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(FormatError, match="cannot read"):
        read_inputs(tmp_path / "none.json", P)
