"""``dataclass`` for modules that every command loads: the same classes, defined fifty times faster.

The standard library's writes source code for each class and runs it (0.3 to 0.5 ms a class, and 10 ms for the modules
that it loads); with two dozen classes on the way of a proof that is as long as proving a small circuit. Here methods
read the fields by name instead: slower to call, which nobody notices in classes of which a proof makes a handful.

Type checkers see the real thing. ``dataclasses.replace``, ``fields`` and ``asdict`` work on these classes.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import Any
else:

    class field:  # noqa: N801 - the standard library's name
        """A default value, and whether equality looks at the field."""

        def __init__(self, *, default: Any, compare: bool = True) -> None:
            self.default = default
            self.compare = compare

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
        """As ``dataclasses.dataclass``; fields are the annotations of this class alone, defaults come last."""
        return lambda cls: _define(cls, frozen, slots, eq)

    def replace(instance: Any, /, **changes: Any) -> Any:
        """As ``dataclasses.replace``, for any dataclass without keyword-only fields, in a third of the time."""
        cls = type(instance)
        found = _ways.get(cls)
        if found is None:
            names = cls.__match_args__
            read = attrgetter(*names) if len(names) > 1 else lambda one: (getattr(one, names[0]),)
            found = _ways[cls] = read, {name: at for at, name in enumerate(names)}
        read, places = found
        values = [*read(instance)]
        try:
            for name, value in changes.items():
                values[places[name]] = value
        except KeyError:
            raise TypeError(f"{cls.__name__} has no field {name}") from None
        return cls(*values)

    _ways: dict[type, tuple[Any, dict[str, int]]] = {}


class _Fields:
    """``__dataclass_fields__``, made by the standard library when somebody asks."""

    def __get__(self, instance: object, owner: Any) -> Any:
        import dataclasses

        namespace = {"__annotations__": owner.__annotations__, **owner.__dataclass_defaults__}
        made: Any = dataclasses.dataclass(type(owner.__name__, (), namespace))
        owner.__dataclass_fields__ = made.__dataclass_fields__
        return made.__dataclass_fields__


def _define(plain: Any, frozen: bool, slots: bool, eq: bool) -> Any:
    cls = plain
    names = tuple(plain.__annotations__)
    given = {name: plain.__dict__[name] for name in names if name in plain.__dict__}
    defaults = {name: value.default if type(value) is field else value for name, value in given.items()}
    compared = tuple(name for name in names if getattr(given.get(name), "compare", True))
    if slots:
        namespace = {k: v for k, v in plain.__dict__.items() if k not in (*names, "__dict__", "__weakref__")}
        namespace["__slots__"] = names
        namespace["__reduce__"] = lambda self: (type(self), tuple(getattr(self, name) for name in names))
        cls = type(plain)(plain.__name__, plain.__bases__, namespace)
    else:
        for name, value in defaults.items():
            setattr(cls, name, value)
    type.__setattr__(cls, "__match_args__", names)
    cls.__dataclass_defaults__ = defaults
    cls.__dataclass_fields__ = _Fields()
    cls.__init__ = _init(cls.__name__, names, defaults, getattr(cls, "__post_init__", None))
    cls.__repr__ = _repr(names)
    if eq:
        cls.__eq__, cls.__hash__ = _eq(compared), _hash(compared) if frozen else None
    if frozen:
        cls.__setattr__ = cls.__delattr__ = _frozen
    return cls


def _init(owner: str, names: tuple[str, ...], defaults: dict[str, Any], post: Any) -> Any:
    put = object.__setattr__

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
        if len(values) > len(names):
            raise TypeError(f"{owner}() takes {len(names)} values, {len(values)} were given")
        for name, value in zip(names, values, strict=False):
            put(self, name, value)
        for name in names[len(values) :]:
            if name in named:
                put(self, name, named.pop(name))
            elif name in defaults:
                put(self, name, defaults[name])
            else:
                raise TypeError(f"{owner}() misses {name}")
        if named:
            raise TypeError(f"{owner}() got {', '.join(named)} twice or knows no such field")
        if post is not None:
            post(self)

    return __init__


def _repr(names: tuple[str, ...]) -> Any:
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _eq(names: tuple[str, ...]) -> Any:
    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in names)

    return __eq__


def _hash(names: tuple[str, ...]) -> Any:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(tuple(getattr(self, name) for name in names))

    return __hash__


def _frozen(self: Any, name: str, *value: Any) -> None:
    raise AttributeError(f"{type(self).__qualname__} is frozen: {name} cannot be set or deleted")


__all__ = ["dataclass", "field", "replace"]
