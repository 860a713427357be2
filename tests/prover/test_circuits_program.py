from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from circuit_oracle import Refused, interpret
from hypothesis import given, settings
from hypothesis import strategies as st

from prover import native
from prover.cancel import Cancelled, CancelToken
from prover.circuits.program import Op, Program, ProgramError, bit_range
from prover.curves import BLS12_381, CURVES, Curve
from prover.field import pack, unpack

REGISTERS = 12
VARIABLES = 7


@pytest.fixture(params=native.cpu_variants())
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.cpu_variant()
    native.select_variant(request.param)
    yield request.param
    native.select_variant(before)


def edge_values(curve: Curve) -> list[int]:
    p = curve.fr.modulus
    return [0, 1, 2, p - 1, p - 2, (p - 1) // 2, curve.fr.r, curve.fr.r2, 2**64 - 1, 2**64, 2**128, 2**192 - 1, 2**253]


def elements(curve: Curve) -> st.SearchStrategy[int]:
    return st.sampled_from(edge_values(curve)) | st.integers(0, curve.fr.modulus - 1)


def program(
    curve: Curve,
    code: list[tuple[int, int, int, int]],
    constants: list[int],
    n_inputs: int,
    n_variables: int = VARIABLES,
    n_values: int = REGISTERS,
) -> Program:
    words = np.array(code, dtype=np.uint32).reshape(-1, 4)
    return Program(curve, words, pack(constants, curve.fr), n_inputs, n_variables, n_values)


@st.composite
def instructions(draw: st.DrawFn, n_constants: int, n_inputs: int) -> tuple[int, int, int, int]:
    op = draw(st.sampled_from(list(Op)))
    register = st.integers(0, REGISTERS - 1)
    dst, a = draw(st.integers(1, REGISTERS - 1)), draw(register)
    if op is Op.INPUT:
        first = draw(st.integers(0, n_inputs))
        return op, dst, first, draw(st.integers(0, min(n_inputs - first, REGISTERS - dst)))
    if op is Op.CONSTANT:
        return op, dst, draw(st.integers(0, n_constants - 1)), 0
    if op in (Op.SCALE, Op.ACCUMULATE, Op.OFFSET):
        return op, dst, a, draw(st.integers(0, n_constants - 1))
    if op is Op.FIFTH:
        return op, draw(st.integers(1, REGISTERS - 3)), a, 0
    if op is Op.BITS:
        return op, dst, a, bit_range(draw(st.integers(0, 250)), draw(st.integers(1, min(6, REGISTERS - dst))))
    return op, dst, a, draw(register)


@st.composite
def programs(draw: st.DrawFn, curve: Curve) -> tuple[Program, list[int]]:
    constants = draw(st.lists(elements(curve), min_size=1, max_size=4))
    inputs = draw(st.lists(elements(curve), min_size=1, max_size=5))
    code = draw(st.lists(instructions(len(constants), len(inputs)), max_size=25))
    return program(curve, code, constants, len(inputs)), inputs


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_random_programs_agree_with_the_interpreter(curve: Curve, data: st.DataObject) -> None:
    recorded, inputs = data.draw(programs(curve))
    packed = pack(inputs, curve.fr, "canonical")
    try:
        expected = interpret(recorded, inputs)
    except Refused as refusal:
        with pytest.raises(ProgramError) as caught:
            recorded.run(packed)
        assert caught.value.instruction == refusal.instruction
        return
    assert unpack(recorded.run(packed), curve.fr, "canonical") == expected


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_every_instruction_on_every_pair_of_edge_values(curve: Curve, variant: str) -> None:
    p = curve.fr.modulus
    for x in edge_values(curve):
        for y in edge_values(curve):
            code = [
                (Op.INPUT, 1, 0, 2),
                (Op.CONSTANT, 3, 0, 0),
                (Op.COPY, 4, 1, 0),
                (Op.ADD, 5, 1, 2),
                (Op.SUBTRACT, 6, 1, 2),
                (Op.MULTIPLY, 7, 1, 2),
                (Op.SCALE, 8, 1, 0),
                (Op.COPY, 9, 2, 0),
                (Op.ACCUMULATE, 9, 1, 0),
                (Op.OFFSET, 10, 1, 0),
                (Op.FIFTH, 11, 1, 0),
                (Op.INVERT, 14, 1, 0),
                (Op.BITS, 15, 1, bit_range(0, 255)),
            ]
            recorded = program(curve, code, [y], 2, 270, 270)
            w = unpack(recorded.run(pack([x, y], curve.fr, "canonical")), curve.fr, "canonical")
            assert w[:15] == [
                *(1, x, y, y, x, (x + y) % p, (x - y) % p, x * y % p, x * y % p, (y + x * y) % p, (x + y) % p),
                *(x * x % p, pow(x, 4, p), pow(x, 5, p), pow(x, p - 2, p)),
            ]
            assert sum(bit << i for i, bit in enumerate(w[15:])) == x


def test_an_instruction_may_read_what_it_writes() -> None:
    code = [
        (Op.INPUT, 1, 0, 1),
        (Op.ADD, 1, 1, 1),
        (Op.MULTIPLY, 1, 1, 1),
        (Op.ACCUMULATE, 1, 1, 0),
        (Op.FIFTH, 1, 1, 0),
    ]
    recorded = program(BLS12_381, code, [3], 1, 4, 4)
    x = 4 * 25 * 4
    expected = [1, x**2, x**4, x**5]
    assert unpack(recorded.run(pack([5], BLS12_381.fr, "canonical")), BLS12_381.fr, "canonical") == expected


def test_scratch_memory_starts_at_zero_every_time() -> None:
    recorded = program(BLS12_381, [(Op.OFFSET, 2, 11, 0)], [7], 0)
    for _ in range(3):
        w = unpack(recorded.run(np.zeros((0, 4), np.uint64)), BLS12_381.fr, "canonical")
        assert w == [1, 0, 7, 0, 0, 0, 0]


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("excess", [0, 1, 2**254])
def test_an_input_not_below_the_modulus_is_refused(curve: Curve, excess: int) -> None:
    recorded = program(curve, [(Op.COPY, 2, 0, 0), (Op.INPUT, 1, 0, 2)], [0], 2)
    value = curve.fr.modulus + excess
    inputs = np.frombuffer((5).to_bytes(32, "little") + value.to_bytes(32, "little"), dtype=np.uint64).reshape(2, 4)
    with pytest.raises(ProgramError, match=r"not below the modulus: instruction 1 \(INPUT\)") as caught:
        recorded.run(inputs)
    assert caught.value.instruction == 1
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("op", "why"), [(Op.REQUIRE_BOOLEAN, "neither 0 nor 1"), (Op.REQUIRE_EQUAL, "values differ")])
@pytest.mark.parametrize("value", [0, 1, 2, BLS12_381.fr.modulus - 1])
def test_requirements(op: Op, why: str, value: int) -> None:
    recorded = program(BLS12_381, [(Op.INPUT, 1, 0, 1), (op, 0, 1, 0)], [0], 1)
    inputs = pack([value], BLS12_381.fr, "canonical")
    if value == 1 or (value == 0 and op is Op.REQUIRE_BOOLEAN):
        recorded.run(inputs)
        return
    with pytest.raises(ProgramError, match=rf"{why}: instruction 1 \({op.name}\)"):
        recorded.run(inputs)


OUT_OF_RANGE = [
    (99, 1, 0, 0),
    (Op.COPY, REGISTERS, 0, 0),
    (Op.COPY, 1, REGISTERS, 0),
    (Op.COPY, 2**32 - 1, 0, 0),
    (Op.ADD, 1, 0, REGISTERS),
    (Op.CONSTANT, 1, 2, 0),
    (Op.SCALE, 1, 0, 2),
    (Op.ACCUMULATE, 1, 0, 2**32 - 1),
    (Op.INPUT, 1, 3, 1),
    (Op.INPUT, 1, 0, 4),
    (Op.INPUT, 1, 2**32 - 1, 2**32 - 1),
    (Op.INPUT, REGISTERS - 1, 0, 2),
    (Op.FIFTH, REGISTERS - 2, 0, 0),
    (Op.BITS, REGISTERS - 1, 0, bit_range(0, 2)),
    (Op.BITS, 1, 0, bit_range(255, 2)),
    (Op.REQUIRE_BOOLEAN, 0, REGISTERS, 0),
]


@pytest.mark.parametrize("word", OUT_OF_RANGE, ids=str)
def test_the_machine_refuses_operands_out_of_range(word: tuple[int, int, int, int], variant: str) -> None:
    recorded = program(BLS12_381, [(Op.COPY, 1, 0, 0), word], [1, 2], 3)
    values = np.zeros((REGISTERS, 4), dtype=np.uint64)
    inputs = pack([0, 0, 0], BLS12_381.fr, "canonical")
    fault = native.program_run(BLS12_381, recorded.code, recorded.constants, inputs, values, VARIABLES)
    assert fault is not None
    assert fault[0] == 1
    assert "out of range" in fault[1] or "unknown" in fault[1]


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_cancelled_before_and_while_it_runs(delay: float) -> None:
    # A million inversions take many seconds: the program cannot end before it is asked to stop.
    code = np.tile(np.array([[Op.INVERT, 1, 1, 0]], dtype=np.uint32), (1 << 20, 1))
    code[0] = Op.CONSTANT, 1, 0, 0
    recorded = Program(BLS12_381, code, pack([3], BLS12_381.fr), 0, 2, 2)
    token = CancelToken()
    if delay:
        threading.Timer(delay, token.cancel).start()
    else:
        token.cancel()
    with pytest.raises(Cancelled):
        recorded.run(np.zeros((0, 4), np.uint64), token)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="not uint32"):
        Program(BLS12_381, np.zeros((3, 3), np.uint32), pack([], BLS12_381.fr), 0, 1, 1)
    with pytest.raises(ValueError, match="5 variables in 4 registers"):
        Program(BLS12_381, np.zeros((0, 4), np.uint32), pack([], BLS12_381.fr), 0, 5, 4)
    with pytest.raises(ValueError, match="inputs have shape"):
        program(BLS12_381, [], [], 2).run(pack([1], BLS12_381.fr, "canonical"))
    for first, count in [(-1, 1), (0, 0), (1 << 16, 1), (0, 1 << 16)]:
        with pytest.raises(ValueError, match="cannot be encoded"):
            bit_range(first, count)
