"""The models that come with the product."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prover.pipeline.knobs import KnobSpec
from prover.simulation.model import Model
from prover.simulation.model_file import ModelError, read_model

DEFAULT = "porep-standard"
_FOLDER = Path(__file__).with_name("presets")


def preset_names() -> tuple[str, ...]:
    """Their names, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def preset(name: str, registry: Mapping[str, KnobSpec]) -> Model:
    """The model of that name. Raises ``ModelError``."""
    if name not in preset_names():
        raise ModelError("no such preset", name[:60], "presets: " + ", ".join(preset_names()))
    return read_model(_FOLDER / f"{name}.toml", registry)
