"""The knobs of a running engine: what is wanted, what is in force, who lags, and the way back.

Every method is called with the engine's lock held; only ``views`` and ``current`` are read without it (each is one
reference that is replaced whole).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from prover.model import EventKind, FieldValue, KnobValue, KnobView
from prover.pipeline.interfaces import Change, Receipt
from prover.pipeline.knobs import KnobError, KnobSet, KnobSpec, spec_of

Laggards = Callable[[str, KnobSet], tuple[str, ...]]
"""Who does not follow the wanted value of a knob yet, by name."""
Announce = Callable[[EventKind, dict[str, FieldValue]], None]


@dataclass(slots=True)
class _Accepted:
    """A change on the way back: undone ones are skipped."""

    name: str
    old: KnobValue
    undone: bool = False


class KnobBook:
    """Proposals in, generations out."""

    HISTORY = 1000
    """Changes that can be undone."""

    def __init__(self, start: KnobSet, laggards: Laggards, announce: Announce, clock: Callable[[], float]) -> None:
        self.current = start
        self._laggards = laggards
        self._announce = announce
        self._clock = clock
        self._history: list[_Accepted] = []
        self._changed_in: dict[str, int] = {}
        self._pending: set[str] = set()
        self.refusals: dict[str, Callable[[KnobValue], str | None]] = {}
        """Why a value cannot be had here and now, in one line, by knob: what the registry cannot know."""
        self.remarks: dict[str, Callable[[KnobValue], str | None]] = {}
        """What is to be said of an accepted value here and now, in one line, by knob."""
        self._views = {name: KnobView(name, value, value) for name, value in start.items()}
        self.views: tuple[KnobView, ...] = tuple(self._views.values())

    def propose(self, change: Change, undo: bool = False) -> Receipt:
        """Accept or refuse a change. An accepted one is wanted from now on and in force once nobody lags."""
        try:
            spec = spec_of(change.name, self.current.registry)
            value = spec.check(change.new)
        except KnobError as error:
            return self._refuse(change, str(error))
        old = self.current[spec.name]
        reason = self._stale(spec, change, old)
        if reason is None and spec.name in self.refusals:
            reason = self.refusals[spec.name](value)
        if reason is not None:
            return self._refuse(change, reason, spec)
        if value == old:
            note = f"{spec.name} is {spec.show(value)} already"
            return Receipt(True, self.current.generation, spec.effect, None, change, note)
        self._accept(spec, old, value, change, undo)
        return Receipt(True, self.current.generation, spec.effect, None, change, self._remark(spec, value))

    def undo(self, who: str) -> Receipt:
        """Propose back the latest accepted change that is neither an undo nor undone."""
        for entry in reversed(self._history):
            if not entry.undone:
                entry.undone = True
                return self.propose(Change(entry.name, entry.old, who=who, why="undo"), undo=True)
        return Receipt(False, self.current.generation, reason="nothing to undo: no change was made")

    def settle(self) -> None:
        """Look again who lags; announce the knobs that have come into force."""
        if not self._pending:
            return
        changed = False
        for name in sorted(self._pending):
            view = self._views[name]
            lagging = self._laggards(name, self.current)
            if not lagging:
                self._land(name)
                changed = True
            elif lagging != view.lagging:
                self._views[name] = replace(view, lagging=lagging)
                changed = True
        if changed:
            self.views = tuple(self._views.values())

    def _accept(self, spec: KnobSpec, old: KnobValue, value: KnobValue, change: Change, undo: bool) -> None:
        self.current = self.current.replace(spec.name, value)
        self._changed_in[spec.name] = self.current.generation
        if not undo:
            self._history.append(_Accepted(spec.name, old))
            del self._history[: -self.HISTORY]
        view = self._views[spec.name]
        self._views[spec.name] = replace(view, wanted=value, changed=self._clock(), landed=None)
        self._announce(
            EventKind.KNOB_PROPOSED,
            {
                "name": spec.name,
                "old": old,
                "new": value,
                "who": change.who,
                "why": change.why,
                "generation": self.current.generation,
                "undo": undo,
            },
        )
        self._pending.add(spec.name)
        self.views = tuple(self._views.values())

    def _land(self, name: str) -> None:
        self._pending.discard(name)
        view = self._views[name]
        now = self._clock()
        self._views[name] = replace(view, in_force=view.wanted, lagging=(), landed=now)
        took = None if view.changed is None else now - view.changed
        self._announce(
            EventKind.KNOB_APPLIED,
            {"name": name, "value": view.wanted, "generation": self._changed_in[name], "seconds": took},
        )

    def _refuse(self, change: Change, reason: str, spec: KnobSpec | None = None) -> Receipt:
        self._announce(
            EventKind.KNOB_REFUSED,
            {"name": change.name, "new": change.new, "who": change.who, "why": change.why, "reason": reason},
        )
        effect = spec.effect if spec is not None else "now"
        return Receipt(False, self.current.generation, effect, reason, change)

    def _stale(self, spec: KnobSpec, change: Change, old: KnobValue) -> str | None:
        now = f"it is {spec.show(old)} now: look again"
        if change.based_on is not None and self._changed_in.get(spec.name, -1) > change.based_on:
            return f"changed meanwhile: {spec.name}: {now}"
        if change.old is not None and change.old != old:
            return f"changed meanwhile: {spec.name}: {now}"
        return None

    def _remark(self, spec: KnobSpec, value: KnobValue) -> str | None:
        remark = self._dependence(spec)
        return self.remarks[spec.name](value) if remark is None and spec.name in self.remarks else remark

    def _dependence(self, spec: KnobSpec) -> str | None:
        """What another knob makes of an accepted value."""
        knobs = self.current
        wanted, limit = knobs.integer("synthesis_concurrency"), knobs.integer("max_parallel_synthesis")
        if spec.name in ("synthesis_concurrency", "max_parallel_synthesis") and wanted > limit:
            return f"synthesis_concurrency {wanted} is limited to {limit} by max_parallel_synthesis"
        return None
