"""Model files: what is good is read whole, what is bad costs one clear line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.pipeline.knobs import REGISTRY
from prover.simulation.box import modelled_knobs
from prover.simulation.model import GIB, Model
from prover.simulation.model_file import ModelError, parse_model, read_model
from prover.simulation.presets import preset, preset_names

WHOLE = """
name = "my box"
about = "two GPUs"
circuit = "porep-32g"
constraints = 130_278_869
partitions = 10
clients = 3
seed = 7

[knobs]
slot_size = 0
gpu_lock = "coarse"
pinned_pool_bytes = "16GiB"

[synthesis]
slot_s = 3
partition_s = 3.5
spread = [0.9, 1.0, 1.2]
slowdown = [[1, 1.0], [2, 1.3]]
tail = { partition_s = 0.2 }

[device]
name = "a card"
count = 2
memory_gib = 16
slowdown = [[0, 1], [1, 1.1]]
setup = { slot_s = 0.1 }
h2d = { pageable = { partition_s = 1.5 }, pinned = { partition_s = 0.2 } }
ntt = { partition_s = 0.5, kernels = 0.9 }
msm = { partition_s = 1.5, kernels = 0.5 }
d2h = { slot_s = 0.01 }

[finalizing]
assembly = { slot_s = 0.1 }
check = { slot_s = 0.2 }

[memory]
total_gib = 512
fixed_gib = 50.5
synthesis_gib = 9
filled = 0.5
pinned_gib = 8
device_gib = 1
"""
SMALL = "[synthesis]\npartition_s = 1\n"


def parse(text: str) -> Model:
    return parse_model(text, "box.toml", "box", REGISTRY)


def test_every_key_arrives_where_it_belongs() -> None:
    model = parse(WHOLE)
    assert (model.name, model.about, model.circuit, model.constraints) == ("my box", "two GPUs", "porep-32g", 130278869)
    assert (model.partitions, model.clients, model.seed) == (10, 3, 7)
    assert model.knobs == {"slot_size": 0, "gpu_lock": "coarse", "pinned_pool_bytes": 16 * GIB}
    assert model.synthesis.time.seconds(10, 0.5) == 38.0
    assert model.synthesis.time.seconds(10, 0.0) == pytest.approx(0.9 * 38)
    assert model.synthesis.tail.seconds(10, 0.5) == 2.0
    assert model.synthesis.slowdown.at(2) == 1.3
    device = model.device
    assert (device.name, device.count, device.memory) == ("a card", 2, 16 * GIB)
    assert device.slowdown.at(1) == 1.1
    timings = (device.setup, device.pageable, device.pinned, device.ntt, device.msm, device.d2h)
    assert [timing.seconds(2, 0.5) for timing in timings] == [0.1, 3.0, 0.4, 1.0, 3.0, 0.01]
    assert (device.ntt_kernels, device.msm_kernels) == (0.9, 0.5)
    assert (model.finalizing.assembly.seconds(1, 0), model.finalizing.check.seconds(1, 0)) == (0.1, 0.2)
    memory = model.memory
    assert (memory.total, memory.fixed, memory.synthesis) == (512 * GIB, int(50.5 * GIB), 9 * GIB)
    assert (memory.pinned, memory.device, memory.filled) == (8 * GIB, GIB, 0.5)


def test_a_small_model_is_named_after_its_file_and_pinned_copies_are_as_slow_as_others(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(SMALL + "[device.h2d.pageable]\npartition_s = 2\n")
    model = read_model(path, REGISTRY)
    assert (model.name, model.partitions, model.knobs) == ("tiny", 1, {})
    assert model.device.pinned == model.device.pageable


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_model_with_its_name_and_says_what_it_is(name: str) -> None:
    model = preset(name, REGISTRY)
    assert model.name == name and len(model.about) > 20
    knobs = modelled_knobs(model, assignments=["synthesis_lookahead=5"])
    assert knobs["synthesis_lookahead"] == 5
    assert {knob: knobs[knob] for knob in model.knobs if knob != "synthesis_lookahead"} == {
        knob: value for knob, value in model.knobs.items() if knob != "synthesis_lookahead"
    }


def test_the_presets_that_were_promised_are_there() -> None:
    assert set(preset_names()) == {"porep-standard", "porep-slotted", "snap-coarse", "snap-pinned", "porep-partitions"}
    with pytest.raises(ModelError, match="no such preset: nope: presets: porep-partitions, porep-slotted"):
        preset("nope", REGISTRY)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "model takes no time: box.toml: give [synthesis] or [device.msm] seconds"),
        ("a = \n", "model file is no TOML: box.toml: Invalid value (at line 1, column 5)"),
        (SMALL + "[synthesis]\n", "model file is no TOML: box.toml: Cannot declare ('synthesis',) twice"),
        (SMALL + "partitons = 3\n", "key of the model is unknown: box.toml: synthesis.partitons: known here: "),
        ("colour = 1\n" + SMALL, "key of the model is unknown: box.toml: colour: known here: about, circuit,"),
        (SMALL + "[device.msm]\nkernel = 1\n", "key of the model is unknown: box.toml: device.msm.kernel: known"),
        ("synthesis = 5\n", "entry of the model is no table: box.toml: synthesis: write [synthesis]"),
        ("name = 5\n" + SMALL, "entry of the model is no line of text: box.toml: name: write"),
        ('name = "a\\nb"\n' + SMALL, "entry of the model is no line of text: box.toml: name: write"),
        ("partitions = 0\n" + SMALL, "number of the model is out of range: box.toml: partitions: write a whole number"),
        ("partitions = true\n" + SMALL, "box.toml: partitions: write a whole number from 1 to 1024"),
        ("partitions = 2.0\n" + SMALL, "box.toml: partitions: write a whole number from 1 to 1024"),
        ("[synthesis]\npartition_s = -1\n", "box.toml: synthesis.partition_s: write a number from 0 to 1e+06"),
        ("[synthesis]\npartition_s = nan\n", "box.toml: synthesis.partition_s: write a number from 0 to 1e+06"),
        ("[synthesis]\npartition_s = inf\n", "box.toml: synthesis.partition_s: write a number from 0 to 1e+06"),
        ('[synthesis]\npartition_s = "5"\n', "box.toml: synthesis.partition_s: write a number"),
        (SMALL + "spread = []\n", "entry of the model is no list: box.toml: synthesis.spread: write factors"),
        (SMALL + "spread = [1.1, 1.0]\n", "spread of the model does not rise: box.toml: synthesis.spread: write"),
        (SMALL + "spread = [0]\n", "number of the model is out of range: box.toml: synthesis.spread: write"),
        (SMALL + "slowdown = [1, 2]\n", "slowdown of the model is no list of pairs: box.toml: synthesis.slowdown"),
        (SMALL + "slowdown = [[1, 1.0], [1, 2.0]]\n", "slowdown of the model does not rise: box.toml: synthesis.slow"),
        (SMALL + "slowdown = [[1, 0.5]]\n", "out of range: box.toml: synthesis.slowdown: write a number from 1"),
        (SMALL + "[knobs]\nslot_sise = 1\n", "no such knob: box.toml: knobs.slot_sise: see cuzk-top knobs"),
        (SMALL + "[knobs]\nslot_size = -1\n", "not a value of this knob: box.toml: knobs.slot_size: give a whole"),
        (SMALL + '[knobs]\ngpu_lock = "none"\n', "not a value of this knob: box.toml: knobs.gpu_lock: give one of"),
        (SMALL + "[memory]\npinned_gib = 2\n", "more is pinned than there is: box.toml: memory.pinned_gib: write at"),
        (SMALL + "[memory]\nfilled = 0\n", "out of range: box.toml: memory.filled: write a number from 0.01 to 1"),
        (SMALL + "[device]\ncount = 99\n", "out of range: box.toml: device.count: write a whole number from 1 to 16"),
        (SMALL + "[device.msm]\nkernels = 1.5\n", "box.toml: device.msm.kernels: write a number from 0 to 1"),
    ],
)
def test_a_bad_model_is_told_in_one_line_with_file_key_and_what_to_write(text: str, line: str) -> None:
    with pytest.raises(ModelError) as told:
        parse(text)
    assert line in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    cases = {"missing.toml": "model file not found", "folder": "model file cannot be read", "binary": "is no text"}
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, line in cases.items():
        with pytest.raises(ModelError, match=line):
            read_model(tmp_path / name, REGISTRY)
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (5 << 20))
    with pytest.raises(ModelError, match="model file is too large"):
        read_model(huge, REGISTRY)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_put_in_place_of_whatever_value_is_a_model_or_one_line(data: st.DataObject) -> None:
    """Through the parser's own tables, so that values come that TOML's syntax would not let through either."""
    document = tomli.loads(WHOLE)
    place = document
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], dict) and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(VALUES)
        break
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tomli, "loads", lambda text: document)
        try:
            model = parse("")
        except ModelError as error:
            assert "\n" not in str(error)
        else:
            assert model.synthesis.time.seconds(model.partitions, 0.99) >= 0


def test_the_model_that_the_documentation_shows_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulate.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    model = parse(block)
    assert (model.name, model.device.count, model.memory.filled) == ("my box", 2, 0.6)
    assert model.device.pinned.partition_s == 0.2
