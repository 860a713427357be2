"""The quick ``dataclass`` behaves as the standard library's wherever the prover relies on it."""

import copy
import dataclasses
import functools
import pickle

import pytest

from prover import lean_dataclass
from prover.curves import BLS12_381, BN254
from prover.formats.proof import Proof


def define(module, **options):
    @module.dataclass(**options)
    class Point:
        """A point."""

        x: int
        y: int = 2
        note: str | None = module.field(default=None, compare=False)

        @property
        def total(self):
            return self.x + self.y

        @classmethod
        def origin(cls):
            return cls(0, 0)

    return Point


BOTH = [pytest.param(lean_dataclass, id="lean"), pytest.param(dataclasses, id="standard")]
OPTIONS = [
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True, "eq": False},
]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_same_behaviour(module, options):
    cls = define(module, **options)
    a, b = cls(1), cls(x=1, y=2, note="other")
    assert (a.x, a.y, a.note, a.total) == (1, 2, None, 3)
    assert (b.x, b.y, b.note) == (1, 2, "other")
    assert cls.origin().total == 0
    assert cls.__doc__ == "A point."
    assert cls.__name__ == "Point"
    if options.get("eq", True):
        assert a == b, "note is not compared"
        assert a != cls(1, 3)
        assert a != (1, 2, None)
        assert repr(a).endswith("Point(x=1, y=2, note=None)")
        assert (hash(a) == hash(b)) if options.get("frozen") else cls.__hash__ is None
    else:
        assert a != b
        assert len({a, b}) == 2
    if options.get("frozen"):
        with pytest.raises(AttributeError):
            a.x = 5
        with pytest.raises(AttributeError):
            del a.x
    else:
        a.x = 5
        assert a.x == 5
    assert hasattr(a, "__dict__") == (not options.get("slots"))
    for wrong in ((), (1, 2, None, 4)):
        with pytest.raises(TypeError):
            cls(*wrong)
    with pytest.raises(TypeError):
        cls(1, x=1)
    with pytest.raises(TypeError):
        cls(1, z=1)
    match cls(7, 8):
        case cls(x, y):
            assert (x, y) == (7, 8)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_standard_tools_work(options):
    cls = define(lean_dataclass, **options)
    a = cls(1, note="n")
    assert dataclasses.is_dataclass(cls)
    assert [f.name for f in dataclasses.fields(a)] == ["x", "y", "note"]
    assert dataclasses.asdict(a) == {"x": 1, "y": 2, "note": "n"}
    for replace in (dataclasses.replace, lean_dataclass.replace):
        changed = replace(a, y=9)
        assert (changed.x, changed.y, changed.note) == (1, 9, "n")
    with pytest.raises(TypeError):
        lean_dataclass.replace(a, z=9)
    assert copy.copy(a).note == "n"


def test_slotted_and_other_values_are_pickled():
    assert pickle.loads(pickle.dumps(BN254)) == BN254 != BLS12_381
    proof = Proof(BN254, (1, 2), None, None)
    assert pickle.loads(pickle.dumps(proof)) == proof


def test_post_init_and_cached_properties():
    @lean_dataclass.dataclass(frozen=True)
    class Positive:
        value: int

        def __post_init__(self):
            if self.value < 0:
                raise ValueError("negative")

        @functools.cached_property
        def square(self):
            return self.value**2

    assert Positive(3).square == 9
    with pytest.raises(ValueError, match="negative"):
        Positive(-1)
