"""The gadget builder: constraints and the program that makes the witness, recorded together.

A gadget is a function that takes a ``Recorder`` and expressions, and records both halves through it: ``product``,
``allocate`` and their kin add constraints *and* instructions; ``constrain`` adds a constraint alone. What recurs is
recorded once as a template (``Recorder.template``) and stamped with arrays of arguments, at numpy's speed.

    builder = Builder(BLS12_381)
    root = builder.input("root", public=True)
    x = builder.input("x")
    builder.require_equal(builder.product(x, x + 1), root)
    circuit = builder.finish("example")
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from prover.circuits.circuit import Circuit, InputField, Region
from prover.circuits.expression import (
    INDEX_MASK,
    ONE,
    PARAMETER,
    PRIVATE,
    TEMPORARY,
    Expression,
    Pool,
    Space,
    identifier,
)
from prover.circuits.program import Op, Program, bit_range
from prover.circuits.template import CodeRecorder, I64Array, MatrixRows, RowRecorder, Template
from prover.csr import PLUS_ONE, CsrMatrix, coefficient_table
from prover.curves import Curve
from prover.field import pack

Number = Expression | int


@dataclass(slots=True)
class _Pools:
    """Shared by a builder and its templates."""

    coefficients: Pool
    """Of the matrices."""
    constants: Pool = field(default_factory=Pool)
    """Of the program."""


class Recorder:
    """What gadgets write to."""

    def __init__(self, curve: Curve, pools: _Pools | None = None) -> None:
        self.curve = curve
        self.modulus = curve.fr.modulus
        self._pools = pools or _Pools(Pool(1, self.modulus - 1))
        self._rows = (RowRecorder(), RowRecorder(), RowRecorder())
        self._code = CodeRecorder()
        self._n_rows = 0
        self._n_private = 0
        self._n_temporaries = 0
        self._peak_temporaries = 0
        self._regions: list[Region] = []

    # --- expressions and their values ---------------------------------------------------------------------------------

    def constant(self, value: int) -> Expression:
        """An expression without variables."""
        return Expression(self.modulus, {ONE: value % self.modulus} if value % self.modulus else {})

    def variable(self, ident: int) -> Expression:
        """The expression that is this variable (as ``inputs`` and ``stamp`` return them)."""
        return Expression(self.modulus, {int(ident): 1}, int(ident))

    def _expression(self, number: Number) -> Expression:
        return number if isinstance(number, Expression) else self.constant(number)

    def _new_private(self, count: int = 1) -> int:
        first = PRIVATE + self._n_private
        self._n_private += count
        return first

    def _new_temporary(self, count: int = 1) -> int:
        first = TEMPORARY + self._n_temporaries
        self._n_temporaries += count
        self._peak_temporaries = max(self._peak_temporaries, self._n_temporaries)
        return first

    def _emit_sum(self, dst: int, terms: Sequence[tuple[int, int]], constant: int) -> None:
        """dst = sum of coefficient * register + constant. Coefficients reduced and not zero."""
        emit, constants, minus = self._code.add, self._pools.constants, self.modulus - 1
        if not terms:
            emit(Op.CONSTANT, dst, constants.index(constant), 0)
            return
        # A unit coefficient first: it saves a product.
        ordered = sorted(terms, key=lambda term: term[0] != 1)
        coefficient, register = ordered[0]
        rest = ordered[1:]
        if coefficient != 1:
            emit(Op.SCALE, dst, register, constants.index(coefficient))
            register = dst
        for coefficient, operand in rest:
            if coefficient == 1:
                emit(Op.ADD, dst, register, operand)
            elif coefficient == minus:
                emit(Op.SUBTRACT, dst, register, operand)
            else:
                if register != dst:
                    emit(Op.COPY, dst, register, 0)
                emit(Op.ACCUMULATE, dst, operand, constants.index(coefficient))
            register = dst
        if constant:
            emit(Op.OFFSET, dst, register, constants.index(constant))
        elif register != dst:
            emit(Op.COPY, dst, register, 0)

    def _emit_value(self, dst: int, expression: Expression) -> None:
        """dst = the expression's value."""
        if expression.register is not None:
            self._code.add(Op.COPY, dst, expression.register, 0)
            return
        terms = [(coefficient, ident) for ident, coefficient in expression.terms.items() if ident != ONE]
        self._emit_sum(dst, terms, expression.terms.get(ONE, 0))

    def register(self, expression: Expression) -> int:
        """The register that holds the expression's value, computed now if it was not yet."""
        if expression.register is None:
            variable = expression.variable
            if variable is None:
                variable = self._new_temporary()
                self._emit_value(variable, expression)
            expression.register = variable
        return expression.register

    def sum(self, parts: Iterable[Expression]) -> Expression:
        """The sum of many expressions, in linear time."""
        terms: dict[int, int] = {}
        for part in parts:
            for ident, coefficient in part.terms.items():
                terms[ident] = (terms.get(ident, 0) + coefficient) % self.modulus
        return Expression(self.modulus, {ident: c for ident, c in terms.items() if c})

    def combine(self, weights: Sequence[int], parts: Sequence[Expression], constant: int = 0) -> Expression:
        """``sum weights[i] * parts[i] + constant``, computed from the parts' values instead of from their variables.

        The same expression as by ``+`` and ``*``, and no constraint either; the program is shorter where the parts have
        many terms.
        """
        scaled = [part * weight for weight, part in zip(weights, parts, strict=True)]
        summands = [
            (weight % self.modulus, self.register(part))
            for weight, part in zip(weights, parts, strict=True)
            if part.constant is None and weight % self.modulus
        ]
        offset = sum((part.constant or 0 for part in scaled), constant) % self.modulus
        total = self.sum((*scaled, self.constant(constant)))
        total.register = self._new_temporary()
        self._emit_sum(total.register, summands, offset)
        return total

    # --- constraints --------------------------------------------------------------------------------------------------

    def constrain(self, a: Number, b: Number, c: Number) -> None:
        """The constraint ``a * b = c``, and nothing for the witness program."""
        index = self._pools.coefficients.index
        for rows, number in zip(self._rows, (a, b, c), strict=True):
            terms = self._expression(number).terms
            rows.add(list(terms), [index(coefficient) for coefficient in terms.values()])
        self._n_rows += 1

    def require_equal(self, x: Number, y: Number) -> None:
        """The constraint ``x * 1 = y``."""
        self.constrain(x, 1, y)

    def require_boolean(self, x: Number) -> None:
        """The constraint ``x * (1 - x) = 0``."""
        self.constrain(x, 1 - x, 0)

    def allocate(self, x: Number) -> Expression:
        """A variable of this value: one constraint, none if it is a variable already."""
        x = self._expression(x)
        if x.variable is not None:
            return x
        out = self._new_private()
        self._emit_value(out, x)
        variable = self.variable(out)
        self.constrain(x, 1, variable)
        return variable

    def product(self, x: Number, y: Number) -> Expression:
        """A variable that is ``x * y``: one constraint."""
        x, y = self._expression(x), self._expression(y)
        out = self._new_private()
        self._code.add(Op.MULTIPLY, out, self.register(x), self.register(y))
        variable = self.variable(out)
        self.constrain(x, y, variable)
        return variable

    def fifth_power(self, x: Number) -> Expression:
        """A variable that is ``x^5``: three constraints, by way of ``x^2`` and ``x^4``."""
        x = self._expression(x)
        out = self._new_private(3)
        self._code.add(Op.FIFTH, out, self.register(x), 0)
        square, fourth, fifth = (self.variable(out + i) for i in range(3))
        self.constrain(x, x, square)
        self.constrain(square, square, fourth)
        self.constrain(fourth, x, fifth)
        return fifth

    def inverse(self, x: Number) -> Expression:
        """A variable that is ``1 / x``: one constraint, unsatisfied if x is 0."""
        x = self._expression(x)
        out = self._new_private()
        self._code.add(Op.INVERT, out, self.register(x), 0)
        variable = self.variable(out)
        self.constrain(x, variable, 1)
        return variable

    def select(self, condition: Expression, x: Number, y: Number) -> Expression:
        """A variable that is x where the condition is 1, and y where it is 0: one constraint."""
        x, y = self._expression(x), self._expression(y)
        scaled = self._new_temporary()
        self._code.add(Op.MULTIPLY, scaled, self.register(condition), self.register(self.combine((1, -1), (x, y))))
        out = self._new_private()
        self._code.add(Op.ADD, out, scaled, self.register(y))
        variable = self.variable(out)
        self.constrain(condition, x - y, variable - y)
        return variable

    def bits(self, x: Number, count: int) -> list[Expression]:
        """The ``count`` low bits of x, least significant first, as variables: a boolean constraint each.

        Nothing yet says that they are x's: see ``gadgets.decompose``.
        """
        x = self._expression(x)
        first = self._new_private(count)
        self._code.add(Op.BITS, first, self.register(x), bit_range(0, count))
        bits = [self.variable(first + i) for i in range(count)]
        for bit in bits:
            self.require_boolean(bit)
        return bits

    # --- refusals of the program --------------------------------------------------------------------------------------

    def refuse_unless_equal(self, x: Number, y: Number) -> None:
        """Let the program fail where the values differ: an early and named error, no constraint."""
        x, y = self._expression(x), self._expression(y)
        self._code.add(Op.REQUIRE_EQUAL, ONE, self.register(x), self.register(y))

    def refuse_unless_boolean(self, x: Number) -> None:
        """Let the program fail where the value is neither 0 nor 1: an early and named error, no constraint."""
        self._code.add(Op.REQUIRE_BOOLEAN, ONE, self.register(self._expression(x)), 0)

    # --- structure ----------------------------------------------------------------------------------------------------

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Name the rows recorded inside, for error messages. Regions nest."""
        outer, self._regions = self._regions, []
        first = self._n_rows
        try:
            yield
        finally:
            inner = tuple(_shift(region, -first) for region in self._regions)
            outer.append(Region(first, self._n_rows - first, 1, name, inner))
            self._regions = outer

    def template(self, name: str, parameters: int) -> TemplateBuilder:
        """A recorder for a gadget over parameters, to be ``close``d and then stamped by this recorder."""
        return TemplateBuilder(self.curve, self._pools, name, parameters)

    def stamp(self, template: Template, arguments: I64Array, name: str | None = None) -> I64Array:
        """Record the template once for each row of arguments.

        Args:
            template: made by this recorder's ``template`` (or by that of a recorder with which it shares its pools).
            arguments: ``int64[stamps, n_parameters]``, variables.
            name: of the rows in error messages; the template's by default.

        Returns:
            ``int64[stamps, outputs]``: variables.
        """
        arguments = np.asarray(arguments, dtype=np.int64)
        if arguments.ndim != 2 or arguments.shape[1] != template.n_parameters:
            raise ValueError(f"{template.name} takes {template.n_parameters} arguments, not {arguments.shape}")
        stamps = len(arguments)
        bases = self._n_private + template.n_private * np.arange(stamps, dtype=np.int64)
        *ids, code, outputs = (r.stamp(bases, self._n_temporaries, arguments) for r in template.relocations)
        for recorder, rows, columns in zip(self._rows, template.rows, ids, strict=True):
            recorder.add_rows(
                MatrixRows(np.tile(rows.lengths, stamps), columns.ravel(), np.tile(rows.coefs, stamps)),
            )
        self._code.add_code(code.reshape(-1, 4))
        region = Region(self._n_rows, template.n_rows, stamps, name or template.name, template.regions)
        if region.rows and stamps:
            self._regions.append(region)
        self._n_rows += stamps * template.n_rows
        self._n_private += stamps * template.n_private
        self._peak_temporaries = max(self._peak_temporaries, self._n_temporaries + template.n_temporaries)
        return outputs


def _shift(region: Region, by: int) -> Region:
    return Region(region.first + by, region.rows, region.count, region.name, region.inner)


class TemplateBuilder(Recorder):
    """Records one gadget over parameters."""

    def __init__(self, curve: Curve, pools: _Pools, name: str, parameters: int) -> None:
        super().__init__(curve, pools)
        self.name = name
        self.parameters = [self.variable(PARAMETER + i) for i in range(parameters)]

    def close(self, *outputs: Expression) -> Template:
        """The finished template, which returns these variables.

        Raises:
            ValueError: if an output is no variable (``allocate`` it).
        """
        variables = [out.variable for out in outputs]
        if None in variables:
            raise ValueError(f"an output of {self.name} is not a variable")
        rows = self._rows
        return Template(
            name=self.name,
            n_parameters=len(self.parameters),
            n_private=self._n_private,
            n_temporaries=self._peak_temporaries,
            rows=(rows[0].finish(), rows[1].finish(), rows[2].finish()),
            code=self._code.finish(),
            outputs=np.array(variables, dtype=np.int64),
            regions=tuple(self._regions),
        )


class Builder(Recorder):
    """Records a whole circuit."""

    def __init__(self, curve: Curve) -> None:
        super().__init__(curve)
        self._n_public = 0
        self._inputs: list[InputField] = []
        self._n_inputs = 0

    def inputs(self, name: str, shape: tuple[int, ...], public: bool = False) -> I64Array:
        """Variables that the program takes as inputs: ``int64`` of this shape.

        Inputs are given in the order of these calls, those of one call in row-major order. Public inputs are numbered
        in the same order.
        """
        if any(f.name == name for f in self._inputs):
            raise ValueError(f"there is an input {name!r} already")
        count = math.prod(shape)
        if public:
            first = identifier(Space.PUBLIC, 1 + self._n_public)
            self._n_public += count
        else:
            first = self._new_private(count)
        if count:
            self._code.add(Op.INPUT, first, self._n_inputs, count)
        self._inputs.append(InputField(name, self._n_inputs, shape, public))
        self._n_inputs += count
        return (first + np.arange(count, dtype=np.int64)).reshape(shape)

    def input(self, name: str, public: bool = False) -> Expression:
        """One input."""
        return self.variable(int(self.inputs(name, (), public)))

    def finish(self, name: str) -> Circuit:
        """The circuit as recorded up to now, with its input rows."""
        table = coefficient_table(self.curve.fr, self._pools.coefficients.values[2:])
        a, b, c = (self._matrix(recorder.finish(), table) for recorder in self._rows)
        n_inputs = self._n_public + 1
        a = CsrMatrix(
            np.concatenate([a.row_ptr, a.row_ptr[-1] + np.arange(1, n_inputs + 1, dtype=np.uint64)]),
            np.concatenate([a.col, np.arange(n_inputs, dtype=np.uint32)]),
            np.concatenate([a.coef, np.full(n_inputs, PLUS_ONE, dtype=np.uint32)]),
            table,
        )
        b, c = (
            CsrMatrix(np.concatenate([m.row_ptr, np.full(n_inputs, m.row_ptr[-1])]), m.col, m.coef, table)
            for m in (b, c)
        )
        return Circuit(
            name=name,
            curve=self.curve,
            n_constraints=self._n_rows,
            n_public=self._n_public,
            n_variables=self._n_variables,
            a=a,
            b=b,
            c=c,
            program=self._program(),
            inputs=tuple(self._inputs),
            regions=tuple(self._regions),
        )

    @property
    def _n_variables(self) -> int:
        return 1 + self._n_public + self._n_private

    def columns(self, ids: I64Array) -> I64Array:
        """Where the witness holds these variables, once every input is declared and nothing more is allocated."""
        base = ids & ~np.int64(INDEX_MASK)
        offsets = np.where(base == PRIVATE, 1 + self._n_public, np.where(base == TEMPORARY, self._n_variables, 0))
        return (ids & INDEX_MASK) + offsets

    def _matrix(self, rows: MatrixRows, table: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> CsrMatrix:
        row_ptr = np.zeros(len(rows.lengths) + 1, dtype=np.uint64)
        np.cumsum(rows.lengths, out=row_ptr[1:])
        return CsrMatrix(row_ptr, self.columns(rows.ids).astype(np.uint32), rows.coefs.astype(np.uint32), table)

    def _program(self) -> Program:
        code = self.columns(self._code.finish())
        fr = self.curve.fr
        return Program(
            curve=self.curve,
            code=code.astype(np.uint32),
            constants=pack([fr.to_montgomery(value) for value in self._pools.constants.values], fr, "canonical"),
            n_inputs=self._n_inputs,
            n_variables=self._n_variables,
            n_values=self._n_variables + self._peak_temporaries,
        )
