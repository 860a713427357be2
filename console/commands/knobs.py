"""``cuzk-top knobs``: the knob registry."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from prover.pipeline.knobs import REGISTRY, KnobSpec, KnobType

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
    """The registry for people: one line a knob, then what each is for."""
    heads = ("knob", "default", "range", "takes effect", "daemon key")
    rows = [
        (spec.name, spec.show(spec.default), bounds(spec), str(spec.effect), spec.daemon_key or "")
        for spec in REGISTRY.values()
    ]
    rows.insert(0, heads)
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append("")
    for spec in REGISTRY.values():
        remark = "" if spec.active else " (not acted on by this engine yet)"
        lines.append(f"{spec.name}: {spec.help}{remark}")
    return "\n".join(lines) + "\n"


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
        "active": spec.active,
    }
