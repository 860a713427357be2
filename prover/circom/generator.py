"""circom's witness generator (``.wasm``): inputs in, witness out, one call a witness and no GIL in it.

Nothing of the module is trusted. It runs in a sandbox with a memory that cannot grow, it may import what circom's
generators import and nothing else, it is interrupted when its job is cancelled or its time is over, and every value
that it returns is checked to be below the prime. Each witness is made by a fresh instance.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from prover import native
from prover.cancel import CancelToken
from prover.circom import linkage
from prover.circom.compiled_cache import CompiledCache
from prover.circom.inputs import VALUE_BYTES, InputSignal, pack, read_inputs
from prover.circom.sandbox import Buffer, NotModule, OutOfTime, Sandbox, Trapped
from prover.circuits.circuit import U64Array
from prover.curves import CURVES, Curve
from prover.errors import InputError, MachineLacks
from prover.formats.errors import FormatError, StrPath, printable
from prover.formats.small_file import read_small_file
from prover.memory_limits import memory_limits

TIME_LIMIT_S = 600.0
"""A generator that has not ended by then is taken for one that never will."""
MAX_MODULE_BYTES = 1 << 30
MAX_WIRES = 1 << 26
"""Half of what a 32-bit memory can hold: room for the inputs beside."""
_RECOMPILE = "compile the circuit with circom 2.1 or newer and --wasm"
_CORRECT = "correct the input file"

_EXCEPTIONS = {
    1: "no such input signal",
    2: "too many values of a signal",
    3: "a signal is set twice",
    4: "an assertion of the circuit does not hold",
    5: "the generator's memory does not suffice",
    6: "more values than the signal has",
    7: "an array is read beyond its end",
}
"""What circom's generators mean by the code of their error."""
_ASSERTION = 4


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a generator says of itself."""

    curve: Curve
    wires: int
    inputs: int


class WitnessGenerator:
    """A circuit's generator, ready. Every method may be called from any thread, also at once."""

    def __init__(
        self, path: StrPath, code: bytes, time_limit_s: float = TIME_LIMIT_S, cache: CompiledCache | None = None
    ) -> None:
        """Compile ``code``; ``path`` is for messages. Raises as ``open``."""
        self.path = os.fspath(path)
        self._time_limit_s = time_limit_s
        try:
            self._sandbox = Sandbox(code, cache)
        except NotModule as error:
            reason = f"not a WebAssembly module: {error}"
            raise FormatError(self.path, reason, fix="give the .wasm that circom made") from None
        self._check_interface()
        shape = self._probe()
        self.curve = shape.curve
        """Whose scalars it computes with."""
        self.wires = shape.wires
        """Values of a witness."""
        self.inputs = shape.inputs
        """Values of all its inputs."""

    @property
    def memory_bytes(self) -> int:
        """What a call takes beside the witness that it gives: its memory, and the witness once more."""
        return self._sandbox.memory_bytes + self.wires * VALUE_BYTES

    @classmethod
    def open(
        cls, path: StrPath, time_limit_s: float = TIME_LIMIT_S, cache: CompiledCache | None = None
    ) -> WitnessGenerator:
        """Read and compile a generator, or take its compiled form from the cache.

        Raises:
            FormatError: if it is no generator of circom 2 over one of our curves.
            MachineLacks: without wasmtime, or without the memory that the generator asks for.
        """
        return cls(path, read_small_file(path, MAX_MODULE_BYTES), time_limit_s, cache)

    def witness_of_file(self, path: StrPath, cancel: CancelToken | None = None) -> U64Array:
        """The witness of an input file, ``uint64[wires, 4]``, canonical.

        Raises:
            FormatError, InputError: what is wrong with the inputs, in one line.
            Cancelled: if asked.
        """
        return self.witness(read_inputs(path, self.curve.fr.modulus), path, cancel)

    def witness(
        self, signals: list[InputSignal], where: StrPath = "inputs", cancel: CancelToken | None = None
    ) -> U64Array:
        """The witness of these signals, ``uint64[wires, 4]``, canonical. ``where`` is for messages.

        Raises:
            FormatError, InputError: what is wrong with the inputs, in one line.
            Cancelled: if asked.
        """
        records = pack(signals)
        out = linkage.RECORDS + len(records)
        size = out + self.wires * VALUE_BYTES
        if size >= linkage.MAX_MEMORY:
            raise FormatError(where, f"{len(records)} bytes of values, more than a generator can take", fix=_CORRECT)
        arguments = (len(signals), out, self.wires)
        answer, buffer = self._call("run", arguments, records, size, where, cancel)
        if answer != linkage.OK:
            raise self._refusal(answer, buffer, signals, where)
        values: U64Array = np.frombuffer(buffer.read(out, self.wires * VALUE_BYTES), dtype=np.uint64).reshape(-1, 4)
        if native.field_check(native.fr(self.curve), values) is not None or values[0].tolist() != [1, 0, 0, 0]:
            raise InputError("the generator made no witness", printable(self.path), _RECOMPILE)
        return values

    def _call(
        self,
        function: str,
        arguments: tuple[int, ...],
        records: bytes,
        size: int,
        where: StrPath,
        cancel: CancelToken | None,
    ) -> tuple[int | None, Buffer]:
        try:
            return self._sandbox.call(
                function, arguments, records=records, size=size, cancel=cancel, limit_s=self._time_limit_s
            )
        except Trapped as error:
            if error.exception == 0:
                raise FormatError(self.path, f"the generator failed: {error}", fix=_RECOMPILE) from None
            what = _EXCEPTIONS.get(error.exception, f"error {error.exception} of the generator")
            detail = f"{what}: {error.message}" if error.message else what
            fix = "the inputs do not satisfy the circuit" if error.exception == _ASSERTION else _CORRECT
            raise FormatError(where, detail, fix=fix) from None
        except OutOfTime as error:
            fix = "see whether the circuit's functions end"
            raise InputError(f"the generator was stopped: {error}", printable(os.fspath(where)), fix) from None
        except NotModule as error:
            raise FormatError(self.path, f"cannot be linked: {error}", fix=_RECOMPILE) from None

    def _check_interface(self) -> None:
        """It imports and exports what circom's do, and asks for no more memory than there is."""
        interface = self._sandbox.interface
        for (module, name), kind in interface.imports.items():
            if (module, name) == ("env", "memory"):
                raise FormatError(self.path, "made by circom 1", fix=_RECOMPILE)
            if kind is None or kind != linkage.RUNTIME_IMPORTS.get((module, name)):
                what = f"imports {printable(f'{module}.{name}', 80)}, which no generator of circom 2 does"
                raise FormatError(self.path, what, fix=_RECOMPILE)
        for name, wanted in linkage.GENERATOR_EXPORTS.items():
            if interface.exports.get(name) != wanted:
                raise FormatError(self.path, f"no generator of circom 2: exports no {name} of its kind", fix=_RECOMPILE)
        if not isinstance(interface.exports.get("memory"), int):
            raise FormatError(self.path, "no generator of circom 2: exports no memory", fix=_RECOMPILE)
        limits = memory_limits()
        most = min((each for each in (limits.total, limits.limit) if each is not None), default=None)
        if most is not None and self._sandbox.memory_bytes > most:
            what = f"the generator asks for {self._sandbox.memory_bytes >> 20} MiB, there are {most >> 20}"
            raise MachineLacks(what, printable(self.path), "use a machine with more memory")

    def _probe(self) -> _Shape:
        """Ask it what it is."""
        _, buffer = self._call("probe", (), b"", linkage.RECORDS, self.path, None)
        version = buffer.word(linkage.VERSION)
        if version != linkage.CIRCOM:
            raise FormatError(self.path, f"made by circom {version}", fix=_RECOMPILE)
        prime = int.from_bytes(buffer.read(linkage.PRIME, VALUE_BYTES), "little")
        curve = next((curve for curve in CURVES if curve.fr.modulus == prime), None)
        if curve is None or buffer.word(linkage.FIELD_WORDS) * 4 != VALUE_BYTES:
            known = " and ".join(each.spelling for each in CURVES)
            fix = f"compile the circuit for one of the curves {known}"
            raise FormatError(self.path, "unknown scalar field", fix=fix)
        wires = buffer.word(linkage.WITNESS_SIZE)
        if not 1 <= wires <= MAX_WIRES:
            raise FormatError(self.path, f"a witness of {wires} values is not plausible", fix=_RECOMPILE)
        return _Shape(curve, wires, buffer.word(linkage.INPUT_SIZE))

    def _refusal(self, answer: int | None, buffer: Buffer, signals: list[InputSignal], where: StrPath) -> FormatError:
        """What the driver found wrong with the inputs."""
        if answer == linkage.MISSING:
            given = f"inputs are missing: {buffer.word(linkage.SIZE)} of {self.inputs} values are given"
            return FormatError(where, given, fix=_CORRECT)
        signal = signals[min(buffer.word(linkage.RECORD), len(signals) - 1)]
        section = f"signal {printable(signal.name, 80)}"
        if answer == linkage.UNKNOWN_SIGNAL or not buffer.word(linkage.SIZE):  # 0 of what it does not know
            return FormatError(where, "the circuit has no such input", section=section, fix=_CORRECT)
        counts = f"{len(signal.values)} values, the circuit takes {buffer.word(linkage.SIZE)}"
        return FormatError(where, counts, section=section, fix=_CORRECT)


__all__ = ["MAX_MODULE_BYTES", "TIME_LIMIT_S", "WitnessGenerator"]
