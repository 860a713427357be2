"""Model files: TOML, read whole and checked key by key. Anything wrong is one line: the file, the key, what to write.

``docs/simulate.md`` describes every key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from prover.errors import InputError
from prover.formats.errors import printable
from prover.model import KnobValue
from prover.pipeline.knobs import KnobError, KnobSpec, spec_of
from prover.simulation.contention import Slowdown
from prover.simulation.model import (
    GIB,
    DeviceModel,
    FinalizingModel,
    MemoryModel,
    Model,
    SynthesisModel,
)
from prover.simulation.spread import Spread, Timing

T = TypeVar("T")
_LARGEST = 4 * 2**20
"""Bytes of a model file."""
_LONGEST_S = 1e6
_NUMBER = "write a number"


class ModelError(InputError):
    """A model that cannot be used."""


def read_model(path: Path, registry: Mapping[str, KnobSpec]) -> Model:
    """The model of a file. Raises ``ModelError``."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ModelError("model file is too large", str(path), "a model has some fifty lines")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelError("model file not found", str(path), "check --model") from None
    except OSError as error:
        raise ModelError("model file cannot be read", str(path), error.strerror or "check the file") from error
    except UnicodeDecodeError as error:
        raise ModelError("model file is no text", f"{path}: byte {error.start}", "write UTF-8") from error
    return parse_model(text, str(path), path.stem, registry)


def parse_model(text: str, source: str, name: str, registry: Mapping[str, KnobSpec]) -> Model:
    """A model written in TOML; ``source`` is named in errors. Raises ``ModelError``."""
    import tomli

    try:
        document = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise ModelError("model file is no TOML", source, " ".join(str(error).split())) from error
    table = _Table(document, source, "")
    model = Model(
        name=table.text("name", name),
        about=table.text("about", ""),
        circuit=table.text("circuit", "modelled"),
        constraints=table.whole("constraints", 0, 0, 2**40),
        partitions=table.whole("partitions", 1, 1, 1024),
        clients=table.whole("clients", 2, 1, 1024),
        seed=table.whole("seed", 1, 0, 2**63 - 1),
        knobs=_knobs(table.table("knobs"), registry),
        synthesis=_synthesis(table.table("synthesis")),
        device=_device(table.table("device")),
        finalizing=_finalizing(table.table("finalizing")),
        memory=_memory(table.table("memory")),
    )
    table.end()
    if not any(
        (model.synthesis.time.seconds(1, 0.5), model.device.ntt.seconds(1, 0.5), model.device.msm.seconds(1, 0.5))
    ):
        raise ModelError("model takes no time", source, "give [synthesis] or [device.msm] seconds")
    return model


def _knobs(table: _Table, registry: Mapping[str, KnobSpec]) -> dict[str, KnobValue]:
    values: dict[str, KnobValue] = {}
    for name in list(table.keys):
        given = table.take(name)
        try:
            spec = spec_of(name, registry)
            values[name] = spec.parse(given) if isinstance(given, str) else spec.check(given)
        except KnobError as error:
            raise table.wrong(name, error.what, error.fix) from None
    return values


def _synthesis(table: _Table) -> SynthesisModel:
    model = SynthesisModel(
        time=table.own_timing(),
        tail=table.timing("tail"),
        slowdown=table.slowdown("slowdown"),
    )
    table.end()
    return model


def _device(table: _Table) -> DeviceModel:
    h2d = table.table("h2d")
    ntt, msm = table.table("ntt"), table.table("msm")
    pageable = h2d.timing("pageable")
    model = DeviceModel(
        name=table.text("name", "modelled GPU"),
        count=table.whole("count", 1, 1, 16),
        memory=table.bytes("memory_gib"),
        slowdown=table.slowdown("slowdown"),
        setup=table.timing("setup"),
        pageable=pageable,
        pinned=h2d.timing("pinned", pageable),
        ntt=ntt.own_timing(),
        msm=msm.own_timing(),
        d2h=table.timing("d2h"),
        ntt_kernels=ntt.number("kernels", 1.0, 0.0, 1.0),
        msm_kernels=msm.number("kernels", 1.0, 0.0, 1.0),
    )
    for each in (h2d, ntt, msm, table):
        each.end()
    return model


def _finalizing(table: _Table) -> FinalizingModel:
    model = FinalizingModel(assembly=table.timing("assembly"), check=table.timing("check"))
    table.end()
    return model


def _memory(table: _Table) -> MemoryModel:
    model = MemoryModel(
        total=table.bytes("total_gib"),
        fixed=table.bytes("fixed_gib"),
        synthesis=table.bytes("synthesis_gib"),
        filled=table.number("filled", 1.0, 0.01, 1.0),
        device=table.bytes("device_gib"),
        pinned=table.bytes("pinned_gib"),
    )
    if model.pinned > model.synthesis:
        raise table.wrong("pinned_gib", "more is pinned than there is", "write at most synthesis_gib")
    table.end()
    return model


class _Table:
    """A table of the file. Each key is taken once; what is left at the end is unknown."""

    def __init__(self, values: Mapping[str, Any], source: str, path: str) -> None:
        self._values = dict(values)
        self._known: list[str] = []
        self._source = source
        self._path = path

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that were not taken yet."""
        return tuple(self._values)

    def wrong(self, key: str, what: str, fix: str) -> ModelError:
        """The error of a key."""
        where = f"{self._path}.{key}" if self._path else key
        return ModelError(what, f"{self._source}: {printable(where)}", fix)

    def take(self, key: str, default: T | None = None) -> Any:
        """The value of a key."""
        self._known.append(key)
        return self._values.pop(key, default)

    def end(self) -> None:
        """No key may be left."""
        for key in self._values:
            raise self.wrong(key, "key of the model is unknown", "known here: " + ", ".join(sorted(set(self._known))))

    def table(self, key: str) -> _Table:
        """A table within; an absent one is empty."""
        given = self.take(key, {})
        if not isinstance(given, dict):
            raise self.wrong(key, "entry of the model is no table", f"write [{key}]")
        return _Table(given, self._source, f"{self._path}.{key}" if self._path else key)

    def text(self, key: str, default: str) -> str:
        """A line of text."""
        given = self.take(key, default)
        if isinstance(given, str) and given.isprintable() and len(given) <= 200:
            return given
        raise self.wrong(key, "entry of the model is no line of text", 'write "..." of at most 200 signs')

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        given = self.take(key, default)
        if isinstance(given, int) and not isinstance(given, bool) and least <= given <= most:
            return given
        raise self.wrong(key, "number of the model is out of range", f"write a whole number from {least} to {most}")

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """A number."""
        return self._number(key, self.take(key, default), least, most)

    def bytes(self, key: str) -> int:
        """A size that is written in GiB."""
        return round(self.number(key, 0.0, 0.0, 1e6) * GIB)

    def timing(self, key: str, default: Timing | None = None) -> Timing:
        """A timing of its own table; ``default`` where that is absent."""
        if default is not None and key not in self._values:
            self._known.append(key)
            return default
        table = self.table(key)
        timing = table.own_timing()
        table.end()
        return timing

    def own_timing(self) -> Timing:
        """The timing whose keys stand in this table."""
        return Timing(
            slot_s=self.number("slot_s", 0.0, 0.0, _LONGEST_S),
            partition_s=self.number("partition_s", 0.0, 0.0, _LONGEST_S),
            spread=self._spread("spread"),
        )

    def slowdown(self, key: str) -> Slowdown:
        """Pairs of load and factor."""
        fix = "write pairs such as [[1, 1.0], [2, 1.3]], loads and factors rising, factors from 1"
        points = []
        for pair in self._list(key, [[0, 1.0]], fix):
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.wrong(key, "slowdown of the model is no list of pairs", fix)
            points.append((self._number(key, pair[0], 0, 1e6), self._number(key, pair[1], 1.0, 1e6)))
        if any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(points)):
            raise self.wrong(key, "slowdown of the model does not rise", fix)
        return Slowdown(tuple(points))

    def _spread(self, key: str) -> Spread:
        fix = "write factors from the least to the most, such as [0.9, 1.0, 1.2]"
        factors = tuple(self._number(key, factor, 1e-6, 1e6) for factor in self._list(key, [1.0], fix))
        if any(b < a for a, b in pairwise(factors)):
            raise self.wrong(key, "spread of the model does not rise", fix)
        return Spread(factors)

    def _list(self, key: str, default: list[Any], fix: str) -> list[Any]:
        given = self.take(key, default)
        if isinstance(given, list) and 1 <= len(given) <= 1000:
            return given
        raise self.wrong(key, "entry of the model is no list", fix)

    def _number(self, key: str, given: object, least: float, most: float) -> float:
        if (
            isinstance(given, (int, float))
            and not isinstance(given, bool)
            and math.isfinite(given)
            and least <= given <= most
        ):
            return float(given)
        raise self.wrong(key, "number of the model is out of range", f"{_NUMBER} from {least:g} to {most:g}")
