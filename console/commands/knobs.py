"""``cuzk-top knobs``: the knob registry."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from prover.pipeline.knobs import REGISTRY, Effect, KnobSpec, KnobType

SCHEMA = "cuzk-top/knobs/1"


def configure(parser: argparse.ArgumentParser) -> None:
    """The command has no options of its own."""


def run(args: argparse.Namespace) -> int:
    """Print the registry as JSON or as a table."""
    if args.json:
        from console.cli import print_json

        print_json(document())
    else:
        sys.stdout.write(table())
    return 0


def document() -> dict[str, Any]:
    """The registry in the contract's schema."""
    return {"schema": SCHEMA, "knobs": [_entry(spec) for spec in REGISTRY.values()]}


def table() -> str:
    """The registry for people: what can be turned, and what each knob is for."""
    specs = list(REGISTRY.values())
    lines = [
        "Turn a knob in the console (key k). At the start it is what --set KNOB=VALUE says, else CUZK_TOP_KNOB (upper",
        "case) in the environment, else [knobs] in the configuration. Work that has begun ends under the old value.",
        "",
        *_rows(specs),
        "",
        *(f"{spec.name}: {spec.help}" for spec in specs),
    ]
    return "\n".join(lines) + "\n"


def _rows(specs: Sequence[KnobSpec]) -> list[str]:
    """One line a knob, under a line of heads."""
    rows = [("knob", "default", "range", "a change holds from", "in the daemon's cuzk.toml")]
    rows += [
        (
            spec.name,
            spec.show(spec.default),
            bounds(spec),
            "now" if spec.effect is Effect.NOW else f"the {spec.effect}",
            spec.daemon_key or "-",
        )
        for spec in specs
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def bounds(spec: KnobSpec) -> str:
    """What a knob takes, short."""
    if spec.type is KnobType.BOOL:
        return "true, false"
    if spec.type is KnobType.CHOICE:
        return ", ".join(spec.choices)
    if spec.type is KnobType.BYTES:
        return "auto, bytes"
    if spec.type is KnobType.ORDINALS:
        return "all, ordinals"
    return f"{spec.minimum}..{spec.maximum}"


def _entry(spec: KnobSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "type": str(spec.type),
        "default": spec.default,
        "min": spec.minimum,
        "max": spec.maximum,
        "choices": list(spec.choices) or None,
        "step": spec.step if spec.minimum is not None else None,
        "unit": spec.unit,
        "effect": str(spec.effect),
        "risk": str(spec.risk),
        "daemon_key": spec.daemon_key,
        "help": spec.help,
        "memory": spec.memory,
    }
