"""Witness generators: circom's own, against the witnesses of circom and snarkjs; and hostile ones that harm nobody."""

import json
import os
import threading
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.cancel import Cancelled, CancelToken
from prover.circom import sandbox
from prover.circom.compiled_cache import MOST_KEPT, CompiledCache
from prover.circom.generator import WitnessGenerator
from prover.circom.inputs import parse_inputs
from prover.curves import BLS12_381, BN254
from prover.errors import InputError, MachineLacks
from prover.formats.errors import FormatError
from prover.formats.wtns import read_wtns

FIXTURES = Path(__file__).parent.parent / "fixtures"
CIRCOM = FIXTURES / "circom"
wasmtime = pytest.importorskip("wasmtime")


_SHAPES = WitnessGenerator.open(CIRCOM / "shapes.wasm")


@pytest.fixture
def shapes() -> WitnessGenerator:
    return _SHAPES


def shapes_inputs(**changes: object) -> dict[str, object]:
    return {**json.loads((CIRCOM / "shapes.json").read_text()), **changes}


def made(generator: WitnessGenerator, folder: Path, document: object, cancel: CancelToken | None = None):
    path = folder / "input.json"
    path.write_text(json.dumps(document))
    return generator.witness_of_file(path, cancel)


# -- circom's own -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda curve: curve.spelling)
def test_a_witness_is_snarkjs_own_to_the_byte(curve):
    generator = WitnessGenerator.open(CIRCOM / f"mix_8.{curve.spelling}.wasm")
    folder = FIXTURES / "snark" / curve.spelling / "mix_8"
    expected = bytes(read_wtns(folder / "witness.wtns").values)
    assert (generator.curve, generator.wires, generator.inputs) == (curve, 1410, 8)
    assert generator.witness_of_file(folder / "input.json").tobytes() == expected
    assert generator.witness_of_file(folder / "input.json").tobytes() == expected, "instances leave nothing behind"


def test_inputs_of_every_shape(shapes):
    assert shapes.witness_of_file(CIRCOM / "shapes.json").tobytes() == bytes(read_wtns(CIRCOM / "shapes.wtns").values)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**260), 2**260), min_size=17, max_size=17))
def test_the_circuit_computes_what_it_says(values):
    one, *row = values[:4]
    grid, pair, pairs = values[4:8], values[8:11], [values[11:14], values[14:17]]
    document = {
        "one": str(one),
        "row": [str(v) for v in row],
        "grid": [[str(v) for v in grid[:2]], [str(v) for v in grid[2:]]],
        "turns": 3,
        "pair": {"left": str(pair[0]), "right": [str(v) for v in pair[1:]]},
        "pairs": [{"left": str(p[0]), "right": [str(v) for v in p[1:]]} for p in pairs],
    }
    total = one + sum((i + 2) * v for i, v in enumerate(row))
    total += sum(weight * v for weight, v in zip((5, 6, 15, 16), grid, strict=True))
    total += 100 * pair[0] + 200 * pair[1] + 300 * pair[2]
    total += sum((i + 7) * p[0] + 11 * p[1] + 13 * p[2] for i, p in enumerate(pairs))
    p = BN254.fr.modulus
    if one % p == 7:
        return
    witness = _SHAPES.witness(parse_inputs(json.dumps(document).encode(), p, "f"))
    assert int.from_bytes(witness[1].tobytes(), "little") == total * one % p


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"one": 7}, "assertion of the circuit does not hold: Error in template Shapes_0 line: 28"),
        ({"row": [1, 2]}, "2 values, the circuit takes 3: {path}, signal row"),
        ({"row": [1, 2, 3, 4]}, "4 values, the circuit takes 3: {path}, signal row"),
        ({"row": []}, "0 values, the circuit takes 3: {path}, signal row"),
        ({"more": 1}, "the circuit has no such input: {path}, signal more"),
        ({"pair": {"left": 1}}, "inputs are missing: 16 of 18 values are given: {path}"),
        ({"pair": {"left": 1, "right": [1, 2], "top": 0}}, "the circuit has no such input: {path}, signal pair.top"),
    ],
)
def test_wrong_inputs_are_one_line(shapes, tmp_path, changes, told):
    with pytest.raises(FormatError) as caught:
        made(shapes, tmp_path, shapes_inputs(**changes))
    assert told.format(path=tmp_path / "input.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_calls_at_once_have_each_their_own(shapes):
    p = shapes.curve.fr.modulus
    found: dict[int, int] = {}

    def work(number: int) -> None:
        signals = parse_inputs(json.dumps(shapes_inputs(turns=20_000 + number)).encode(), p, "f")
        found[number] = int(shapes.witness(signals)[2, 0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: 20_000 + number for number in range(6)}


def test_a_call_that_never_ends_is_cancelled(shapes, tmp_path):
    """That the canceller runs at all shows that the call does not hold the GIL."""
    token = CancelToken()
    canceller = threading.Timer(0.1, token.cancel)
    canceller.start()
    with pytest.raises(Cancelled):
        made(shapes, tmp_path, shapes_inputs(turns=2**40), token)
    canceller.join()
    assert len(made(shapes, tmp_path, shapes_inputs())) == shapes.wires, "the next call is not touched"


def test_a_cancelled_call_does_not_begin(shapes, tmp_path):
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        made(shapes, tmp_path, shapes_inputs(), token)


def test_cancelling_one_call_leaves_others_alone(shapes, tmp_path):
    """Interrupts at any moment, also between calls: those that are meant for others never show."""
    tokens = [CancelToken() for _ in range(40)]

    def run() -> None:
        for token in tokens:
            token.cancel()

    canceller = threading.Thread(target=run)
    (tmp_path / "other").mkdir()
    ends: list[str] = []

    def cancelled() -> None:
        for token in tokens:
            try:
                made(shapes, tmp_path / "other", shapes_inputs(turns=1000), token)
                ends.append("made")
            except Cancelled:
                ends.append("cancelled")

    other = threading.Thread(target=cancelled)
    other.start()
    canceller.start()
    for turns in range(1000, 1020):
        assert made(shapes, tmp_path, shapes_inputs(turns=turns))[2, 0] == turns
    other.join()
    canceller.join()
    assert len(ends) == len(tokens)


def test_a_call_has_a_limited_time(tmp_path):
    generator = WitnessGenerator.open(CIRCOM / "shapes.wasm", time_limit_s=0.2)
    with pytest.raises(InputError, match=r"stopped: it did not end within 0.2 s"):
        made(generator, tmp_path, shapes_inputs(turns=2**40))


def test_without_wasmtime_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wasmtime", None)
    with pytest.raises(MachineLacks, match="pip install wasmtime"):
        sandbox.load_wasmtime()


def test_a_compiled_form_is_kept_and_used(tmp_path):
    """Another circuit's compiled form, in this one's place, is what opens: so nothing was compiled."""
    cache = CompiledCache(tmp_path)
    wasm = CIRCOM / "shapes.wasm"
    assert WitnessGenerator.open(wasm, cache=cache).wires == 20
    WitnessGenerator.open(CIRCOM / "mix_8.bn128.wasm", cache=cache)
    kept = cache.path(wasm.read_bytes())
    kept.write_bytes(cache.path((CIRCOM / "mix_8.bn128.wasm").read_bytes()).read_bytes())
    assert WitnessGenerator.open(wasm, cache=cache).wires == 1410


@pytest.mark.parametrize("damage", ["changed", "cut", "emptied", "another format"])
def test_a_damaged_compiled_form_is_made_again(tmp_path, damage):
    cache = CompiledCache(tmp_path)
    wasm = CIRCOM / "shapes.wasm"
    WitnessGenerator.open(wasm, cache=cache)
    kept = cache.path(wasm.read_bytes())
    content = bytearray(kept.read_bytes())
    if damage == "changed":
        content[len(content) // 2] ^= 1
    elif damage == "another format":
        content[:] = blake2b(b"no module", digest_size=32).digest() + b"no module"
    else:
        del content[0 if damage == "emptied" else 100 :]
    kept.write_bytes(content)
    expected = bytes(read_wtns(CIRCOM / "shapes.wtns").values)
    assert WitnessGenerator.open(wasm, cache=cache).witness_of_file(CIRCOM / "shapes.json").tobytes() == expected
    assert cache.find(wasm.read_bytes()) is not None


def test_a_cache_that_cannot_be_written_is_no_hindrance(tmp_path):
    (tmp_path / "generators").write_text("a file")
    assert WitnessGenerator.open(CIRCOM / "shapes.wasm", cache=CompiledCache(tmp_path)).wires == 20


def test_the_cache_keeps_the_latest(tmp_path):
    cache = CompiledCache(tmp_path)
    for number in range(MOST_KEPT + 3):
        cache.keep(bytes([number]), b"compiled")
        os.utime(cache.path(bytes([number])), ns=(number, number))
    kept = [number for number in range(MOST_KEPT + 3) if cache.find(bytes([number]))]
    assert kept == list(range(3, MOST_KEPT + 3))


# -- hostile ones -----------------------------------------------------------------------------------------------------

PARTS = {
    "imports": "",
    "memory": '(memory (export "memory") 1)',
    "getVersion": "(result i32) (i32.const 2)",
    "getFieldNumLen32": "(result i32) (i32.const 8)",
    "getRawPrime": "",
    "getSharedRWMemoryStart": "(result i32) (i32.const 0)",
    "init": "(param i32)",
    "getInputSize": "(result i32) (i32.const 0)",
    "getInputSignalSize": "(param i32 i32) (result i32) (i32.const 0)",
    "setInputSignal": "(param i32 i32 i32)",
    "getWitnessSize": "(result i32) (i32.const 3)",
    "getWitness": "(param i32) (i64.store (i32.const 0) (i64.const 1)) (call $zero)",
    "getMessageChar": "(result i32) (i32.const 0)",
    "more": "",
}
ENDLESS = "(loop $again (br $again))"


def generator(**changes: str) -> bytes:
    """A generator of three ones, with parts replaced (by none where that is empty and not one of the first)."""
    parts = {**PARTS, **changes}
    prime = BN254.fr.modulus.to_bytes(32, "little")
    words = [int.from_bytes(prime[i : i + 8], "little") for i in range(0, 32, 8)]
    store = "".join(f"(i64.store offset={8 * i} (i32.const 0) (i64.const {word}))" for i, word in enumerate(words))
    if parts["getRawPrime"] == "":
        parts["getRawPrime"] = store
    zero = "".join(f"(i64.store offset={8 * i} (i32.const 0) (i64.const 0))" for i in (1, 2, 3))
    functions = [
        f'(func (export "{name}") {body})'
        for name, body in parts.items()
        if name not in ("imports", "memory", "more") and body != "absent"
    ]
    text = f"(module {parts['imports']} {parts['memory']} (func $zero {zero}) {' '.join(functions)} {parts['more']})"
    return bytes(wasmtime.wat2wasm(text))


def open_(code: bytes) -> WitnessGenerator:
    return WitnessGenerator("bad.wasm", code, time_limit_s=0.3)


def test_the_plain_one_works():
    assert open_(generator()).witness([]).tolist() == [[1, 0, 0, 0]] * 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"imports": '(import "wasi_snapshot_preview1" "fd_write" (func))'}, "imports wasi_snapshot_preview1.fd_write"),
        ({"imports": '(import "runtime" "error" (func))'}, "imports runtime.error"),
        ({"imports": '(import "runtime" "exceptionHandler" (func))'}, "imports runtime.exceptionHandler"),
        ({"imports": '(import "runtime" "exceptionHandler" (memory 1))', "memory": ""}, "imports runtime.exception"),
        ({"imports": '(import "env" "memory" (memory 1))', "memory": ""}, "made by circom 1"),
        ({"getVersion": "(result i32) (i32.const 1)"}, "made by circom 1"),
        ({"getWitness": "absent"}, "exports no getWitness"),
        ({"getWitness": "(param i64)"}, "exports no getWitness of its kind"),
        ({"memory": "(memory 1)"}, "exports no memory"),
        ({"memory": '(memory (export "memory") i64 1)', "getWitness": "(param i32)"}, "WebAssembly module"),
        ({"getRawPrime": "(i64.store (i32.const 0) (i64.const 17))"}, "unknown scalar field"),
        ({"getFieldNumLen32": "(result i32) (i32.const 12)"}, "unknown scalar field"),
        ({"getWitnessSize": "(result i32) (i32.const 0)"}, "witness of 0 values"),
        ({"getWitnessSize": "(result i32) (i32.const -1)"}, "witness of 4294967295 values"),
        ({"getRawPrime": ENDLESS}, "did not end within"),
        ({"more": f"(start $s) (func $s {ENDLESS})"}, "did not end within"),
        ({"more": "(start $s) (func $s unreachable)"}, "the generator failed"),
        ({"more": "(start $s) (func $s (call $s))"}, "the generator failed"),
        ({"getSharedRWMemoryStart": "(result i32) (i32.const -8)"}, "memory out of bounds"),
        ({"more": "(table 2000000 funcref)"}, "cannot be linked"),
        ({"more": "(memory 1) (memory 1) (memory 1) (memory 1)"}, "cannot be linked"),
    ],
)
def test_a_hostile_generator_is_refused_in_one_line(changes, told):
    with pytest.raises((FormatError, InputError)) as caught:
        open_(generator(**changes))
    line = str(caught.value)
    assert told in line
    assert "bad.wasm" in line
    assert "\n" not in line


def test_one_that_wants_more_memory_than_there_is():
    with pytest.raises((MachineLacks, FormatError)) as caught:
        many = " ".join(f'(memory (export "memory{i}") 65536)' for i in range(40))
        open_(generator(more=many))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"getWitness": "(param i32) (i64.store (i32.const 0) (i64.const 2)) (call $zero)"}, "made no witness"),
        ({"getWitness": "(param i32) (i64.store offset=24 (i32.const 0) (i64.const -1))"}, "made no witness"),
        ({"getWitness": f"(param i32) {ENDLESS}"}, "did not end within"),
        ({"init": f"(param i32) {ENDLESS}"}, "did not end within"),
        ({"init": "(param i32) unreachable"}, "the generator failed"),
        (
            {"init": "(param i32) (i32.store (i32.const 100000) (i32.const 1))"},
            "the generator failed: memory out of bounds",
        ),
        (
            {"init": "(param i32) (if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable))"},
            "the generator failed",
        ),
        (
            {
                "imports": '(import "runtime" "exceptionHandler" (func $e (param i32)))',
                "init": "(param i32) (call $e (i32.const 99))",
            },
            "error 99 of the generator",
        ),
        (
            {
                "imports": '(import "runtime" "exceptionHandler" (func $e (param i32)))'
                '(import "runtime" "printErrorMessage" (func $p))',
                "getMessageChar": "(result i32) (i32.const 65)",
                "init": "(param i32) (call $p) (call $p) (call $e (i32.const 4))",
            },
            "an assertion of the circuit does not hold: AAAA",
        ),
        (
            {
                "imports": '(import "runtime" "printErrorMessage" (func $p))',
                "init": "(param i32) (loop $again (call $p) (br $again))",
            },
            "did not end within",
        ),
    ],
)
def test_a_hostile_call_fails_in_one_line(changes, told):
    made_of = open_(generator(**changes))
    with pytest.raises((FormatError, InputError)) as caught:
        made_of.witness([])
    line = str(caught.value)
    assert told in line
    assert "\n" not in line
    assert len(line) < 1000


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_generator_never_harms_the_process(data):
    """Bytes changed and cut: refused, stopped, failing, or, where the change does not matter, right."""
    code = bytearray((CIRCOM / "shapes.wasm").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        code[data.draw(st.integers(8, len(code) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = bytes(code[: data.draw(st.sampled_from([len(code), len(code) // 2, 8]))])
    try:
        found = WitnessGenerator("damaged.wasm", damaged, time_limit_s=0.3)
        found.witness_of_file(CIRCOM / "shapes.json")
    except (FormatError, InputError, MachineLacks) as error:
        assert "\n" not in str(error)
