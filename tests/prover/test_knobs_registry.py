"""The registry: every knob of the contract, its text form, its bounds, the sources and their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.pipeline.knobs import (
    REGISTRY,
    Effect,
    KnobError,
    KnobSet,
    KnobSpec,
    KnobType,
    build_registry,
    load_knobs,
    spec_of,
)

CONTRACT = {
    "synthesis_lookahead": (1, 0, 64, "now", "[pipeline] synthesis_lookahead"),
    "synthesis_concurrency": (1, 1, 64, "now", "[pipeline] synthesis_concurrency"),
    "max_parallel_synthesis": (18, 1, 256, "now", "[pipeline] max_parallel_synthesis"),
    "slot_size": (1, 0, 1024, "next job", "[pipeline] slot_size"),
    "max_gpu_queue_depth": (0, 0, 256, "now", "[pipeline] max_gpu_queue_depth"),
    "gpu_workers_per_device": (2, 1, 8, "next partition", "[gpus] gpu_workers_per_device"),
    "gpu_threads": (0, 0, 6, "next partition", "[gpus] gpu_threads"),
    "threads": (0, 0, 6, "next partition", "[synthesis] threads"),
    "max_batch_size": (1, 1, 64, "next job", "[scheduler] max_batch_size"),
    "max_batch_wait_ms": (10000, 0, 600000, "now", "[scheduler] max_batch_wait_ms"),
    "sort_by_type": (True, None, None, "now", "[scheduler] sort_by_type"),
    "total_budget": ("auto", 0, None, "now", "[memory] total_budget"),
    "pinned_pool_bytes": ("auto", 0, None, "now", None),
    "gpu_lock": ("narrow", None, None, "next partition", None),
    "gpu_devices": ("all", None, None, "next partition", "[gpus] devices"),
    "on_device_lost": ("fail", None, None, "now", None),
    "split_prove": (True, None, None, "next partition", None),
    "self_check": (True, None, None, "next partition", None),
    "drain_timeout_s": (60, 0, 3600, "now", None),
    "log_level": ("info", None, None, "now", "[logging] level"),
    "paused": (False, None, None, "now", None),
}


def test_registry_is_the_contract() -> None:
    registry = build_registry(6)
    found = {s.name: (s.default, s.minimum, s.maximum, str(s.effect), s.daemon_key) for s in registry.values()}
    assert found == CONTRACT


@pytest.mark.parametrize("spec", REGISTRY.values(), ids=lambda spec: spec.name)
def test_every_spec_is_complete(spec: KnobSpec) -> None:
    assert spec.help and not spec.help.endswith(".")
    assert spec.check(spec.default) == spec.default
    assert spec.parse(spec.show(spec.default)) == spec.default
    assert (spec.type is KnobType.CHOICE) == bool(spec.choices)
    if spec.type is KnobType.INT:
        assert spec.minimum is not None and spec.maximum is not None and spec.minimum < spec.maximum


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("synthesis_lookahead", "3", 3),
        ("synthesis_lookahead", " 64 ", 64),
        ("threads", "auto", 0),
        ("threads", "0", 0),
        ("max_gpu_queue_depth", "OFF", 0),
        ("slot_size", "job", 0),
        ("paused", "true", True),
        ("paused", "Off", False),
        ("gpu_lock", "Narrow", "narrow"),
        ("total_budget", "auto", "auto"),
        ("total_budget", "8GiB", 8 * 2**30),
        ("total_budget", "1500m", 1_500_000_000),
        ("total_budget", "123", 123),
        ("total_budget", "1536MiB", 3 << 29),
        ("gpu_devices", "0, 2", "0,2"),
        ("gpu_devices", "all", "all"),
    ],
)
def test_parse(name: str, text: str, value: object) -> None:
    parsed = REGISTRY[name].parse(text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("synthesis_lookahead", "65"),
        ("synthesis_lookahead", "-1"),
        ("synthesis_lookahead", "1.5"),
        ("synthesis_lookahead", "٣"),
        ("synthesis_lookahead", ""),
        ("synthesis_lookahead", "9" * 40),
        ("synthesis_lookahead", "auto"),
        ("synthesis_concurrency", "0"),
        ("paused", "2"),
        ("gpu_lock", "wide"),
        ("total_budget", "8 potatoes"),
        ("total_budget", "-1"),
        ("total_budget", "9999999999GiB"),
        ("gpu_devices", "0,0"),
        ("gpu_devices", "0,"),
        ("gpu_devices", ""),
    ],
)
def test_refused_text_says_where_and_what_to_do(name: str, text: str) -> None:
    with pytest.raises(KnobError) as caught:
        REGISTRY[name].parse(text)
    message = str(caught.value)
    assert name in message and "give" in message and "\n" not in message


@given(
    st.sampled_from(list(REGISTRY.values())), st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats())
)
def test_check_gives_a_value_of_the_knob_or_refuses(spec: KnobSpec, value: object) -> None:
    try:
        checked = spec.check(value)
    except KnobError:
        return
    assert spec.parse(spec.show(checked)) == checked
    if spec.type is KnobType.INT:
        assert isinstance(checked, int) and not isinstance(checked, bool)
        assert spec.minimum is not None and spec.maximum is not None and spec.minimum <= checked <= spec.maximum


@given(st.sampled_from(list(REGISTRY.values())), st.text(max_size=30))
def test_parse_never_raises_anything_else(spec: KnobSpec, text: str) -> None:
    try:
        spec.check(spec.parse(text))
    except KnobError as error:
        assert "\n" not in str(error)


def test_precedence_of_sources() -> None:
    table = {"synthesis_lookahead": 2, "slot_size": 2, "gpu_lock": "coarse"}
    environment = {"CUZK_TOP_SLOT_SIZE": "3", "CUZK_TOP_THREADS": "1", "CUZK_TOP_UNRELATED": "x"}
    knobs = load_knobs(table, environment, ["threads=2", "slot_size=4"], base={"gpu_lock": "narrow", "paused": True})
    assert knobs["synthesis_lookahead"] == 2
    assert knobs["gpu_lock"] == "coarse"
    assert knobs["slot_size"] == 4
    assert knobs["threads"] == 2
    assert knobs["paused"] is True
    assert knobs.generation == 0
    assert set(knobs) == set(REGISTRY)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"table": {"slot_size": "many"}}, "[knobs] of the configuration: slot_size=many"),
        ({"table": {"no_such": 1}}, "[knobs] of the configuration: no_such"),
        ({"table": {"slot_size": True}}, "slot_size=True"),
        ({"environment": {"CUZK_TOP_PAUSED": "maybe"}}, "CUZK_TOP_PAUSED: paused=maybe"),
        ({"assignments": ["paused"]}, "not an assignment"),
        ({"table": {"total_budget": "much"}}, "total_budget=much"),
    ],
)
def test_a_bad_source_is_named(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(KnobError) as caught:
        load_knobs(**arguments)  # type: ignore[arg-type]
    assert named in str(caught.value)


def test_sets_are_immutable_generations() -> None:
    first = KnobSet({"slot_size": 2})
    second = first.replace("slot_size", 5)
    assert (first["slot_size"], second["slot_size"]) == (2, 5)
    assert (first.generation, second.generation) == (0, 1)
    with pytest.raises(TypeError):
        first["slot_size"] = 3  # type: ignore[index]
    with pytest.raises(KnobError):
        first.replace("slot_size", -1)
    with pytest.raises(KnobError):
        KnobSet({"nonsense": 1})


def test_automatic_threads() -> None:
    assert KnobSet().device_threads(8) == 7
    assert KnobSet().device_threads(1) == 1
    assert KnobSet().synthesis_threads(8, shared=True) == 1
    assert KnobSet().synthesis_threads(8, shared=False) == 7
    assert KnobSet({"synthesis_concurrency": 3}).synthesis_threads(8, shared=False) == 2
    assert KnobSet({"threads": 1}).synthesis_threads(8, shared=False) == 1
    assert KnobSet({"gpu_threads": 1}).device_threads(8) == 1
    assert KnobSet({"synthesis_concurrency": 20}).synthesisers == 18


def test_unknown_knob() -> None:
    with pytest.raises(KnobError, match="no such knob: nope: see cuzk-top knobs"):
        spec_of("nope")


def test_effects_are_the_contracts_words() -> None:
    assert {str(effect) for effect in Effect} == {"now", "next partition", "next job"}
