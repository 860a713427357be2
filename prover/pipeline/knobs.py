"""The knobs: one registry that command line, configuration, widgets, HTTP and docs read, and immutable sets of values.

A ``KnobSpec`` says everything about a knob once. A ``KnobSet`` is a generation of values: workers take one at a
hand-over point and keep it until the next. Values are parsed and checked here and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from prover.errors import InputError
from prover.model import KnobValue

ENVIRONMENT_PREFIX = "CUZK_TOP_"


class KnobType(StrEnum):
    """How a knob's value is written."""

    INT = "int"
    BOOL = "bool"
    CHOICE = "choice"
    BYTES = "bytes"
    """A size in bytes, or ``auto``."""
    ORDINALS = "ordinals"
    """Device ordinals separated by commas, ``all`` or ``none``."""


class Effect(StrEnum):
    """When a change takes effect."""

    NOW = "now"
    NEXT_PARTITION = "next partition"
    NEXT_JOB = "next job"


class Risk(StrEnum):
    """Whether a change should be asked back."""

    FREE = "free"
    CONFIRM = "confirm"


class KnobError(InputError):
    """A knob that does not exist, or a value that it does not take."""


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """All there is to say about a knob. ``minimum`` and ``maximum`` are inclusive, ``None`` where they mean nothing."""

    name: str
    type: KnobType
    default: KnobValue
    help: str
    effect: Effect = Effect.NOW
    risk: Risk = Risk.FREE
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    step: int = 1
    unit: str | None = None
    daemon_key: str | None = None
    """Section and key of the setting in the daemon's TOML file."""
    memory: str | None = None
    """What a larger value costs in memory."""
    zero: str | None = None
    """The word for the value 0 (``auto``, ``off``), accepted as text."""

    def parse(self, text: str) -> KnobValue:
        """The value written as ``text``; raises ``KnobError`` if it is no value of this knob."""
        word = text.strip()
        lowered = word.lower()
        if self.type is KnobType.BOOL:
            if lowered in _TRUE or lowered in _FALSE:
                return lowered in _TRUE
            raise self._wrong(text, "give true or false")
        if self.type is KnobType.CHOICE:
            return self.check(lowered)
        if self.type is KnobType.INT:
            if self.zero is not None and lowered == self.zero:
                return self.check(0)
            if re.fullmatch(r"[+-]?\d{1,18}", word, re.ASCII):
                return self.check(int(word))
            raise self._wrong(text, self.accepts)
        if self.type is KnobType.BYTES:
            return self.check(_parse_bytes(lowered))
        return self.check(lowered.replace(" ", ""))

    def check(self, value: object) -> KnobValue:
        """``value`` if this knob takes it (an integral float counts as an integer); raises ``KnobError`` otherwise."""
        if self.type is KnobType.BOOL:
            if isinstance(value, bool):
                return value
        elif self.type is KnobType.INT:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool) and self._within(value):
                return value
        elif self.type is KnobType.BYTES:
            if value == "auto":
                return "auto"
            if isinstance(value, int) and not isinstance(value, bool) and self._within(value) and value < 2**63:
                return value
        elif isinstance(value, str) and self._named(value):
            return value
        raise self._wrong(value, self.accepts)

    def show(self, value: KnobValue) -> str:
        """The value as a person reads and types it; ``parse(show(v)) == v``."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.type is KnobType.BYTES and isinstance(value, int):
            return show_size(value)
        return self.zero if value == 0 and self.zero is not None else str(value)

    @property
    def accepts(self) -> str:
        """What may be given, in words."""
        if self.type is KnobType.BOOL:
            return "give true or false"
        if self.type is KnobType.CHOICE:
            return "give one of " + ", ".join(self.choices)
        if self.type is KnobType.ORDINALS:
            return "give all, none, or device numbers separated by commas"
        if self.type is KnobType.BYTES:
            return "give auto, or a size such as 8GiB"
        word = f", or {self.zero}" if self.zero is not None else ""
        return f"give a whole number from {self.minimum} to {self.maximum}{word}"

    def _within(self, value: int) -> bool:
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)

    def _named(self, value: str) -> bool:
        if self.type is KnobType.CHOICE:
            return value in self.choices
        if value in ("all", "none"):
            return True
        if not re.fullmatch(r"\d{1,3}(,\d{1,3})*", value, re.ASCII):
            return False
        return len(set(value.split(","))) == len(value.split(","))

    def _wrong(self, value: object, fix: str) -> KnobError:
        shown = " ".join(str(value).split())
        return KnobError("not a value of this knob", f"{self.name}={shown[:60]}", fix)


_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def show_size(nbytes: int) -> str:
    """A size exactly, in the largest binary unit that divides it: ``8GiB``, ``1536MiB``, ``1000``."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes and nbytes % scale == 0:
            return f"{nbytes // scale}{unit}"
    return str(nbytes)


def _parse_bytes(text: str) -> KnobValue:
    match = re.fullmatch(r"(\d{1,19})\s*([kmgt]i?)?b?", text, re.ASCII)
    return int(match[1]) * _SIZES[match[2] or ""] if match else text


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def build_registry(cores: int) -> Mapping[str, KnobSpec]:
    """The registry for a machine of ``cores`` cores, in the order in which a person reads it."""
    specs = (*_pipeline_knobs(), *_device_knobs(cores), *_scheduling_knobs(), *_memory_knobs(), *_conduct_knobs())
    return MappingProxyType({spec.name: spec for spec in specs})


def _pipeline_knobs() -> tuple[KnobSpec, ...]:
    return (
        KnobSpec(
            "synthesis_lookahead",
            KnobType.INT,
            1,
            "finished slots that may wait for a GPU worker; 0 hands over only to a worker that waits",
            minimum=0,
            maximum=64,
            unit="slots",
            daemon_key="[pipeline] synthesis_lookahead",
            memory="one more synthesised slot a step",
        ),
        KnobSpec(
            "synthesis_concurrency",
            KnobType.INT,
            1,
            "slots synthesised at the same time, at most max_parallel_synthesis",
            minimum=1,
            maximum=64,
            unit="slots",
            daemon_key="[pipeline] synthesis_concurrency",
            memory="one more slot in synthesis a step",
        ),
        KnobSpec(
            "max_parallel_synthesis",
            KnobType.INT,
            18,
            "upper limit of synthesis_concurrency",
            minimum=1,
            maximum=256,
            unit="slots",
            daemon_key="[pipeline] max_parallel_synthesis",
            memory="none by itself; it limits synthesis_concurrency",
        ),
        KnobSpec(
            "slot_size",
            KnobType.INT,
            1,
            "partitions that are synthesised and proved together; 0 takes all of a job's (standard mode)",
            effect=Effect.NEXT_JOB,
            minimum=0,
            maximum=1024,
            unit="partitions",
            daemon_key="[pipeline] slot_size",
            memory="each slot holds this many partitions at once",
            zero="job",
        ),
        KnobSpec(
            "max_gpu_queue_depth",
            KnobType.INT,
            0,
            "paces synthesis to keep about this many slots queued",
            minimum=0,
            maximum=256,
            unit="slots",
            daemon_key="[pipeline] max_gpu_queue_depth",
            zero="off",
        ),
    )


def _device_knobs(cores: int) -> tuple[KnobSpec, ...]:
    return (
        KnobSpec(
            "gpu_workers_per_device",
            KnobType.INT,
            2,
            "workers that feed one device; a second hides the first one's set-up and copies",
            effect=Effect.NEXT_PARTITION,
            minimum=1,
            maximum=8,
            unit="workers",
            daemon_key="[gpus] gpu_workers_per_device",
            memory="one more slot on the device a step",
        ),
        KnobSpec(
            "gpu_lock",
            KnobType.CHOICE,
            "narrow",
            "what the device's lock covers: narrow = kernels only, coarse = set-up and copies too",
            effect=Effect.NEXT_PARTITION,
            choices=("narrow", "coarse"),
        ),
        KnobSpec(
            "gpu_devices",
            KnobType.ORDINALS,
            "all",
            "devices that prove; one that is left out ends its slots and rests",
            effect=Effect.NEXT_PARTITION,
            daemon_key="[gpus] devices",
        ),
        KnobSpec(
            "gpu_threads",
            KnobType.INT,
            0,
            "CPU threads of a slot on a device; auto = all cores but one on the host device",
            effect=Effect.NEXT_PARTITION,
            minimum=0,
            maximum=cores,
            unit="threads",
            daemon_key="[gpus] gpu_threads",
            memory="one more set of buckets a thread",
            zero="auto",
        ),
        KnobSpec(
            "threads",
            KnobType.INT,
            0,
            "CPU threads of one synthesis; auto = one beside the host device, else the synthesisers share all but one",
            effect=Effect.NEXT_PARTITION,
            minimum=0,
            maximum=cores,
            unit="threads",
            daemon_key="[synthesis] threads",
            zero="auto",
        ),
        KnobSpec(
            "on_device_lost",
            KnobType.CHOICE,
            "fail",
            "what happens to the slots of a device that is lost: fail their jobs, or make them again on another device "
            "(on the host if none is left)",
            choices=("fail", "requeue"),
        ),
        KnobSpec(
            "split_prove",
            KnobType.BOOL,
            True,
            "assemble and verify proofs off the GPU worker",
            effect=Effect.NEXT_PARTITION,
        ),
    )


def _scheduling_knobs() -> tuple[KnobSpec, ...]:
    return (
        KnobSpec(
            "max_batch_size",
            KnobType.INT,
            1,
            "requests proved as one batch",
            effect=Effect.NEXT_JOB,
            minimum=1,
            maximum=64,
            unit="jobs",
            daemon_key="[scheduler] max_batch_size",
            memory="a batch holds all partitions of its jobs",
        ),
        KnobSpec(
            "max_batch_wait_ms",
            KnobType.INT,
            10_000,
            "longest wait for a batch to fill",
            minimum=0,
            maximum=600_000,
            step=100,
            unit="ms",
            daemon_key="[scheduler] max_batch_wait_ms",
        ),
        KnobSpec(
            "sort_by_type",
            KnobType.BOOL,
            True,
            "group requests of one circuit",
            daemon_key="[scheduler] sort_by_type",
        ),
    )


def _memory_knobs() -> tuple[KnobSpec, ...]:
    def size(name: str, what: str, daemon_key: str | None = None) -> KnobSpec:
        return KnobSpec(
            name,
            KnobType.BYTES,
            "auto",
            what,
            minimum=0,
            step=2**30,
            unit="bytes",
            daemon_key=daemon_key,
        )

    return (
        size(
            "total_budget",
            "memory that slots, keys and pinned buffers may take together; auto = what the machine and the control "
            "groups leave, less a margin",
            "[memory] total_budget",
        ),
        size("pinned_pool_bytes", "page-locked memory kept for copies; auto = an eighth of total_budget"),
    )


def _conduct_knobs() -> tuple[KnobSpec, ...]:
    return (
        KnobSpec(
            "self_check",
            KnobType.BOOL,
            True,
            "verify every proof before it is delivered",
            effect=Effect.NEXT_PARTITION,
            risk=Risk.CONFIRM,
        ),
        KnobSpec(
            "drain_timeout_s",
            KnobType.INT,
            60,
            "how long a stop lets running slots end",
            minimum=0,
            maximum=3600,
            step=5,
            unit="s",
        ),
        KnobSpec(
            "log_level",
            KnobType.CHOICE,
            "info",
            "least severe lines that are written to the log",
            choices=("error", "warn", "info", "debug", "trace"),
            daemon_key="[logging] level",
        ),
        KnobSpec("paused", KnobType.BOOL, False, "begin nothing new; what runs ends its slot"),
    )


REGISTRY: Mapping[str, KnobSpec] = build_registry(available_cores())
"""The registry of this machine."""


class KnobSet(Mapping[str, KnobValue]):
    """One generation of values, immutable. Every knob of its registry has a value."""

    __slots__ = ("_values", "generation", "registry")

    def __init__(
        self,
        values: Mapping[str, KnobValue] | None = None,
        generation: int = 0,
        registry: Mapping[str, KnobSpec] = REGISTRY,
    ) -> None:
        merged = {name: spec.default for name, spec in registry.items()}
        for name, value in (values or {}).items():
            merged[name] = spec_of(name, registry).check(value)
        self._values = merged
        self.generation = generation
        self.registry = registry

    def __getitem__(self, name: str) -> KnobValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"KnobSet(generation={self.generation}, {self._values})"

    def replace(self, name: str, value: KnobValue) -> KnobSet:
        """The next generation, with one value changed."""
        return KnobSet({**self._values, name: value}, self.generation + 1, self.registry)

    def integer(self, name: str) -> int:
        """The value of a knob of type ``int``."""
        return int(self._values[name])

    def flag(self, name: str) -> bool:
        """The value of a knob of type ``bool``."""
        return bool(self._values[name])

    def text(self, name: str) -> str:
        """The value of a knob of type ``choice``."""
        return str(self._values[name])

    @property
    def synthesisers(self) -> int:
        """Slots that are synthesised at once."""
        return min(self.integer("synthesis_concurrency"), self.integer("max_parallel_synthesis"))

    def synthesis_threads(self, cores: int, shared: bool) -> int:
        """CPU threads of one synthesis, ``auto`` resolved: one where a device proves on the same ``cores``
        (``shared``), else the synthesisers' part of all but one.
        """
        return self.integer("threads") or (1 if shared else max(1, (cores - 1) // self.synthesisers))

    def device_threads(self, cores: int) -> int:
        """CPU threads of a slot on the host device, ``auto`` resolved: all ``cores`` but the one that synthesises."""
        return self.integer("gpu_threads") or max(1, cores - 1)


def spec_of(name: str, registry: Mapping[str, KnobSpec] = REGISTRY) -> KnobSpec:
    """The spec of a knob; raises ``KnobError`` if there is none of that name."""
    try:
        return registry[name]
    except KeyError:
        raise KnobError("no such knob", name[:60], "see cuzk-top knobs") from None


def parse_assignment(text: str, registry: Mapping[str, KnobSpec] = REGISTRY) -> tuple[str, KnobValue]:
    """A ``knob=value`` as given to ``--set``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise KnobError("not an assignment", text[:60], "write knob=value")
    spec = spec_of(name.strip(), registry)
    return spec.name, spec.parse(value)


def load_knobs(
    table: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
    base: Mapping[str, KnobValue] | None = None,
    registry: Mapping[str, KnobSpec] = REGISTRY,
) -> KnobSet:
    """The first generation: defaults, then ``base`` (a command's own defaults), then the configuration's ``[knobs]``
    table, then ``CUZK_TOP_<KNOB>`` of ``environment``, then ``knob=value`` assignments; later ones win.

    Raises ``KnobError``, with the source named, for a value that cannot be used.
    """
    values: dict[str, KnobValue] = dict(base or {})
    for name, given in (table or {}).items():
        values[name] = _from_source("[knobs] of the configuration", name, given, registry)
    for name in registry:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if environment and variable in environment:
            values[name] = _from_source(variable, name, environment[variable], registry)
    for assignment in assignments:
        name, value = parse_assignment(assignment, registry)
        values[name] = value
    return KnobSet(values, registry=registry)


def _from_source(source: str, name: str, given: object, registry: Mapping[str, KnobSpec]) -> KnobValue:
    try:
        spec = spec_of(name, registry)
        value = spec.parse(given) if isinstance(given, str) else spec.check(given)
    except KnobError as error:
        raise KnobError(error.what, f"{source}: {error.where}", error.fix) from None
    return value
