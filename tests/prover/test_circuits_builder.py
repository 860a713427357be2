from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from circuit_oracle import dense_rows, interpret, unsatisfied_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.circuits.builder import Builder, Recorder
from prover.circuits.circuit import Circuit, Region, find_region
from prover.circuits.expression import Expression
from prover.circuits.gadgets import decompose, insert, pack_bits
from prover.circuits.program import ProgramError
from prover.curves import BLS12_381, BN254, CURVES, Curve
from prover.errors import InputError
from prover.field import pack, unpack
from prover.formats.r1cs import read_r1cs, write_r1cs

P = BLS12_381.fr.modulus


def witness(circuit: Circuit, **values: object) -> list[int]:
    """The native witness, which the interpreter must agree with."""
    inputs = circuit.pack_inputs(**values)
    native = unpack(circuit.program.run(inputs), circuit.curve.fr, "canonical")
    assert native == interpret(circuit.program, unpack(inputs, circuit.curve.fr, "canonical"))
    assert len(native) == circuit.n_variables
    return native


def elements(curve: Curve = BLS12_381) -> st.SearchStrategy[int]:
    p = curve.fr.modulus
    return st.sampled_from([0, 1, 2, p - 1, p - 2, 2**64]) | st.integers(0, p - 1)


# --- expressions ---


@given(st.lists(elements(), min_size=3, max_size=3), st.lists(st.integers(-5, 5) | elements(), min_size=5, max_size=5))
@settings(deadline=None, max_examples=150)
def test_expressions_are_linear_and_evaluated_alike(x: list[int], c: list[int]) -> None:
    builder = Builder(BLS12_381)
    a, b, d = (builder.variable(i) for i in builder.inputs("x", (3,)))
    plain = a * c[0] - (b + c[1]) * c[2] + (3 - d) * c[3] + a * -c[4]
    expected = (x[0] * c[0] - (x[1] + c[1]) * c[2] + (3 - x[2]) * c[3] - x[0] * c[4]) % P
    combined = builder.combine((c[0], -c[2], c[3], -c[4]), (a, b + c[1], 3 - d, a))
    assert combined.terms == plain.terms
    assert all(0 < coefficient < P for coefficient in plain.terms.values())
    outs = [builder.allocate(plain), builder.allocate(combined), builder.allocate(builder.sum([plain, combined]))]
    w = witness(builder.finish("linear"), x=x)
    columns = builder.columns(np.array([out.variable for out in outs]))
    assert [w[i] for i in columns] == [expected, expected, 2 * expected % P]


def test_what_vanishes_leaves_no_term() -> None:
    builder = Builder(BLS12_381)
    x = builder.input("x")
    assert (x - x).terms == {}
    assert (x * 0).terms == {}
    assert (x * P).terms == {}
    assert (x + 5 - 5).variable == x.variable
    assert (x - x + 7).constant == 7
    assert builder.constant(P).constant == 0
    assert builder.combine((1, -1), (x, x)).terms == {}
    assert (2 * x).variable is None


def test_a_variable_is_not_allocated_again() -> None:
    builder = Builder(BLS12_381)
    x = builder.input("x")
    assert builder.allocate(x) is x
    assert builder.allocate(x + 1).variable != x.variable
    assert builder.finish("one").n_constraints == 1


# --- the two halves agree ---


@st.composite
def recordings(draw: st.DrawFn) -> Callable[[Recorder, list[Expression]], list[Expression]]:
    """A random gadget that is satisfied by every input."""
    steps = draw(st.lists(st.tuples(st.integers(0, 6), *[st.integers(0, 10**6)] * 4), min_size=1, max_size=12))

    def gadget(recorder: Recorder, known: list[Expression]) -> list[Expression]:
        known = list(known)
        bit = recorder.bits(known[0], 1)[0]
        for kind, *picks in steps:
            x, y = (known[pick % len(known)] * (pick % 3 - 1) + pick % 2 for pick in picks[:2])
            match kind:
                case 0:
                    known.append(recorder.product(x, y))
                case 1:
                    known.append(recorder.allocate(x + y))
                case 2:
                    known.append(recorder.fifth_power(x))
                case 3:
                    known.append(recorder.select(bit, x, y))
                case 4:
                    known.append(recorder.combine((picks[2], 1, -1, picks[3]), (x, y, known[0], recorder.constant(7))))
                case 5:
                    known.append(recorder.sum(recorder.bits(x, 1 + picks[2] % 255)))
                case _:
                    known.append(recorder.product(bit, 1 - bit))
        return known

    return gadget


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_random_gadgets_make_witnesses_that_satisfy_their_constraints(curve: Curve, data: st.DataObject) -> None:
    gadget = data.draw(recordings())
    builder = Builder(curve)
    gadget(builder, [builder.input("x"), builder.input("y", public=True)])
    circuit = builder.finish("random")
    x, y = data.draw(elements(curve)), data.draw(elements(curve))
    assert unsatisfied_rows(circuit, witness(circuit, x=x, y=y)) == []


@settings(max_examples=60, deadline=None)
@given(gadget=recordings(), stamps=st.integers(1, 4), data=st.data())
def test_stamping_a_template_equals_recording_it_again(
    gadget: Callable[[Recorder, list[Expression]], list[Expression]], stamps: int, data: st.DataObject
) -> None:
    direct, stamped = Builder(BLS12_381), Builder(BLS12_381)
    direct_inputs = direct.inputs("x", (stamps, 2))
    for row in direct_inputs:
        gadget(direct, [direct.variable(i) for i in row])
    template = stamped.template("gadget", 2)
    outputs = gadget(template, template.parameters)
    returned = [out for out in outputs if out.variable is not None]
    out = stamped.stamp(template.close(*returned), stamped.inputs("x", (stamps, 2)))
    assert out.shape == (stamps, len(returned))
    one, two = direct.finish("a"), stamped.finish("b")
    assert one.digest == two.digest
    values = data.draw(st.lists(st.tuples(elements(), elements()), min_size=stamps, max_size=stamps))
    assert witness(one, x=values) == witness(two, x=values)


def test_templates_nest_and_keep_their_temporaries_apart() -> None:
    builder = Builder(BLS12_381)
    inputs = builder.inputs("x", (5,))
    inner = builder.template("inner", 2)
    a, b = inner.parameters
    inner_template = inner.close(inner.product(a * 2 + b, b * 3 - a + 1))
    outer = builder.template("outer", 2)
    x, y = outer.parameters
    before = outer.combine((5, 7), (x, y))  # lives in a temporary across the inner stamp
    arguments = np.array([[outer.register(x), outer.register(y)], [outer.register(y), outer.register(x)]])
    first, second = (outer.variable(i) for (i,) in outer.stamp(inner_template, arguments))
    outer_template = outer.close(outer.allocate(before + 1), outer.product(first, second), first)
    top = builder.combine((11, 13), (builder.variable(inputs[0]), builder.variable(inputs[1])))
    outs = builder.stamp(outer_template, np.column_stack([inputs[:-1], inputs[1:]]))
    after = builder.allocate(top)
    circuit = builder.finish("nested")
    x = [3, 5, P - 1, 0, 7]
    w = witness(circuit, x=x)
    assert unsatisfied_rows(circuit, w) == []
    assert w[int(builder.columns(np.array([after.variable]))[0])] == 11 * 3 + 13 * 5
    for row, s, t in zip(builder.columns(outs), x, x[1:], strict=False):
        one, two = (2 * s + t) * (3 * t - s + 1), (2 * t + s) * (3 * s - t + 1)
        assert [w[i] for i in row] == [(5 * s + 7 * t + 1) % P, one * two % P, one % P]


def test_stamping_nothing() -> None:
    builder = Builder(BLS12_381)
    template = builder.template("square", 1)
    closed = template.close(template.product(*template.parameters * 2))
    assert builder.stamp(closed, builder.inputs("x", (0, 1))).shape == (0, 1)
    assert builder.finish("empty").n_constraints == 0


def test_misuse_of_templates() -> None:
    builder = Builder(BLS12_381)
    template = builder.template("t", 2)
    with pytest.raises(ValueError, match="output of t is not a variable"):
        template.close(template.parameters[0] + 1)
    with pytest.raises(ValueError, match="takes 2 arguments"):
        builder.stamp(template.close(), builder.inputs("x", (3, 1)))


# --- the matrices ---


def test_the_smallest_circuit_entry_by_entry() -> None:
    builder = Builder(BLS12_381)
    x = builder.input("x")
    y = builder.input("y", public=True)
    builder.require_equal(builder.product(x * 3 - 1, x + y), y * -1)
    circuit = builder.finish("small")
    # Columns: one, y, x, product.
    assert (circuit.n_constraints, circuit.n_public, circuit.n_variables, circuit.rows) == (2, 1, 4, 4)
    assert dense_rows(BLS12_381, circuit.a) == [[(2, 3), (0, P - 1)], [(3, 1)], [(0, 1)], [(1, 1)]]
    assert dense_rows(BLS12_381, circuit.b) == [[(2, 1), (1, 1)], [(0, 1)], [], []]
    assert dense_rows(BLS12_381, circuit.c) == [[(3, 1)], [(1, P - 1)], [], []]
    assert (circuit.log_domain, circuit.domain) == (2, 4)


def test_a_circuit_of_nothing_has_the_row_of_the_constant() -> None:
    circuit = Builder(BN254).finish("nothing")
    assert (circuit.rows, circuit.n_variables, circuit.log_domain) == (1, 1, 0)
    assert witness(circuit) == [1]


def test_public_inputs_come_first_whenever_they_are_declared() -> None:
    builder = Builder(BLS12_381)
    builder.inputs("private", (2,))
    builder.product(builder.input("a", public=True), 2)
    builder.inputs("b", (2,), public=True)
    circuit = builder.finish("order")
    w = witness(circuit, private=[10, 11], a=20, b=[30, 31])
    assert w == [1, 20, 30, 31, 10, 11, 40]
    packed = circuit.pack_inputs(private=[10, 11], a=20, b=[30, 31])
    assert unpack(circuit.public_inputs(packed), BLS12_381.fr, "canonical") == [20, 30, 31]
    assert circuit.unpack(packed, "b") == [30, 31]


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_written_as_r1cs_and_read_again(curve: Curve, tmp_path: object) -> None:
    builder = Builder(curve)
    gadget_inputs = [builder.input("x", public=True), *(builder.variable(i) for i in builder.inputs("y", (3,)))]
    builder.fifth_power(builder.sum(gadget_inputs) * 12345 + 1)
    decompose(builder, gadget_inputs[1], 10)
    circuit = builder.finish("file")
    path = f"{tmp_path}/circuit.r1cs"
    write_r1cs(path, circuit.r1cs())
    read = read_r1cs(path)
    counts = (read.n_constraints, read.n_public, read.n_wires, read.n_private_inputs)
    assert counts == (circuit.n_constraints, 1, circuit.n_variables, 3)
    for ours, theirs in zip((circuit.a, circuit.b, circuit.c), (read.a, read.b, read.c), strict=True):
        assert dense_rows(curve, ours)[: circuit.n_constraints] == dense_rows(curve, theirs)


def test_the_digest_tells_matrices_and_shapes_apart() -> None:
    def build(constant: int, public: bool, spare: int = 0, curve: Curve = BLS12_381) -> Circuit:
        builder = Builder(curve)
        x = builder.input("x", public=public)
        builder.inputs("spare", (spare,))
        builder.product(x, x + constant)
        return builder.finish("d")

    digests = {
        build(1, False).digest,
        build(2, False).digest,
        build(1, True).digest,
        build(1, False, 1).digest,
        build(1, False, 0, BN254).digest,
    }
    assert len(digests) == 5
    assert build(1, False).digest == build(1, False).digest


# --- gadgets ---


@pytest.mark.parametrize(("arity", "position"), [(arity, i) for arity in (2, 4, 8) for i in range(arity)])
def test_insert(arity: int, position: int) -> None:
    builder = Builder(BLS12_381)
    element = builder.input("element")
    others = [builder.variable(i) for i in builder.inputs("others", (arity - 1,))]
    bits = decompose(builder, builder.input("position"), arity.bit_length() - 1)
    before = builder.finish("before").n_constraints
    out = insert(builder, element, others, bits)
    circuit = builder.finish("insert")
    assert circuit.n_constraints - before == {2: 2, 4: 8, 8: 22}[arity]
    values = list(range(100, 100 + arity - 1))
    w = witness(circuit, element=7, others=values, position=position)
    assert unsatisfied_rows(circuit, w) == []
    columns = builder.columns(np.array([x.variable for x in out]))
    assert [w[i] for i in columns] == [*values[:position], 7, *values[position:]]


def test_insert_wants_a_power_of_two() -> None:
    builder = Builder(BLS12_381)
    x = builder.input("x")
    with pytest.raises(ValueError, match="do not fit"):
        insert(builder, x, [x, x], [x, x])


@pytest.mark.parametrize(
    ("value", "count", "fits"),
    [
        (0, 1, True),
        (1, 1, True),
        (2, 1, False),
        (255, 8, True),
        (256, 8, False),
        (P - 1, 254, False),
        (2**254 - 1, 254, True),
    ],
)
def test_decompose_is_satisfied_exactly_by_what_fits(value: int, count: int, fits: bool) -> None:
    builder = Builder(BLS12_381)
    decompose(builder, builder.input("x"), count)
    circuit = builder.finish("bits")
    assert circuit.n_constraints == count + 1
    assert unsatisfied_rows(circuit, witness(circuit, x=value)) == ([] if fits else [count])


def test_decompose_never_takes_as_many_bits_as_the_modulus() -> None:
    builder = Builder(BLS12_381)
    with pytest.raises(ValueError, match="between 1 and 254"):
        decompose(builder, builder.input("x"), 255)


def test_a_witness_with_a_number_for_a_bit_is_found_out() -> None:
    builder = Builder(BLS12_381)
    bits = decompose(builder, builder.input("x"), 3)
    circuit = builder.finish("bits")
    w = witness(circuit, x=6)
    column = int(builder.columns(np.array([bits[1].variable]))[0])
    w[column], w[column + 1] = 3, 0  # packs to the same number
    assert unsatisfied_rows(circuit, w) == [1]


@pytest.mark.parametrize("x", [1, 2, P - 1, 12345])
def test_inverse(x: int) -> None:
    builder = Builder(BLS12_381)
    out = builder.inverse(builder.input("x") + 0)
    circuit = builder.finish("inverse")
    w = witness(circuit, x=x)
    assert w[int(builder.columns(np.array([out.variable]))[0])] * x % P == 1
    assert unsatisfied_rows(circuit, w) == []
    assert unsatisfied_rows(circuit, witness(circuit, x=0)) == [0]


@pytest.mark.parametrize(("condition", "expected"), [(0, 22), (1, 21)])
def test_select_takes_numbers_too(condition: int, expected: int) -> None:
    builder = Builder(BLS12_381)
    out = builder.select(builder.input("condition"), 21, 22)
    circuit = builder.finish("select")
    w = witness(circuit, condition=condition)
    assert w[int(builder.columns(np.array([out.variable]))[0])] == expected
    assert unsatisfied_rows(circuit, w) == []


def test_pack_bits_adds_nothing() -> None:
    builder = Builder(BLS12_381)
    bits = [builder.variable(i) for i in builder.inputs("bits", (5,))]
    assert pack_bits(bits[:1]).terms == bits[0].terms
    assert list(pack_bits(bits).terms.values()) == [1, 2, 4, 8, 16]
    assert builder.finish("none").n_constraints == 0


def test_the_program_can_refuse_early() -> None:
    builder = Builder(BLS12_381)
    x, y = builder.input("x"), builder.input("y")
    builder.refuse_unless_boolean(x)
    builder.refuse_unless_equal(x + 1, y)
    circuit = builder.finish("refuse")
    assert circuit.n_constraints == 0
    witness(circuit, x=1, y=2)
    with pytest.raises(ProgramError, match="neither 0 nor 1"):
        circuit.program.run(circuit.pack_inputs(x=2, y=3))
    with pytest.raises(ProgramError, match="values differ"):
        circuit.program.run(circuit.pack_inputs(x=1, y=1))


# --- names and inputs ---


def test_rows_know_their_gadget() -> None:
    builder = Builder(BLS12_381)
    x = builder.inputs("x", (3, 1))
    template = builder.template("cube", 1)
    (t,) = template.parameters
    with template.region("square"):
        square = template.product(t, t)
    closed = template.close(template.product(square, t))
    with builder.region("sum"):
        builder.product(builder.variable(int(x[0, 0])), 2)
        with builder.region("check"):
            builder.require_equal(1, 1)
    builder.stamp(closed, x)
    builder.stamp(closed, x[:1], "lone")
    builder.require_equal(0, 0)
    circuit = builder.finish("names")
    expected = ["sum", "sum / check", "cube 0 / square", "cube 0", "cube 1 / square", "cube 1", "cube 2 / square"]
    expected += ["cube 2", "lone / square", "lone", "", "input row"]
    assert [circuit.gadget(row) for row in range(circuit.rows)] == expected


def test_empty_regions_hold_no_row() -> None:
    assert find_region([Region(0, 0, 5, "empty"), Region(0, 1, 1, "full")], 0) == "full"
    assert find_region([], 3) == ""


BAD_INPUTS: Sequence[tuple[dict[str, object], str]] = [
    ({}, "input x is missing"),
    ({"x": [1, 2], "z": 1}, "unknown input z"),
    ({"x": [1]}, r"shape \(1,\), not \(2,\)"),
    ({"x": 1}, r"shape \(\), not \(2,\)"),
    ({"x": [1, P]}, "input x: value 1 is outside"),
    ({"x": [-1, 1]}, "input x: value 0 is outside"),
    ({"x": [1.5, 1]}, "input x"),
    ({"x": ["a", 1]}, "input x"),
    ({"x": [None, 1]}, "input x"),
]


@pytest.mark.parametrize(("values", "message"), BAD_INPUTS, ids=str)
def test_inputs_are_refused_in_one_line(values: dict[str, object], message: str) -> None:
    builder = Builder(BLS12_381)
    builder.inputs("x", (2,))
    circuit = builder.finish("inputs")
    with pytest.raises(InputError, match=message) as caught:
        circuit.pack_inputs(**values)
    assert "\n" not in str(caught.value)


def test_input_names_are_distinct_and_known() -> None:
    builder = Builder(BLS12_381)
    builder.input("x")
    with pytest.raises(ValueError, match="input 'x' already"):
        builder.input("x", public=True)
    with pytest.raises(KeyError, match="no input 'y'"):
        builder.finish("n").field("y")


def test_packed_inputs_are_the_integers() -> None:
    builder = Builder(BLS12_381)
    builder.inputs("x", (2, 2))
    circuit = builder.finish("p")
    expected = pack([1, 2, 3, P - 1], BLS12_381.fr, "canonical")
    assert np.array_equal(circuit.pack_inputs(x=[[1, 2], [3, P - 1]]), expected)
