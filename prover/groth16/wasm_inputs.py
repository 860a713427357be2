"""The circuit of a snarkjs key with its witness generator: a job's inputs are ``input.json`` files."""

from __future__ import annotations

from pathlib import Path

from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.circom.compiled_cache import CompiledCache
from prover.circom.generator import WitnessGenerator
from prover.errors import InputError
from prover.formats.errors import printable
from prover.groth16.keys import ProvingKey
from prover.groth16.workload import Progress, WitnessFiles


class WasmInputs(WitnessFiles):
    """As ``WitnessFiles``, but synthesis begins with the inputs: one call of circom's generator makes the witness."""

    def __init__(self, key: ProvingKey, generator: WitnessGenerator) -> None:
        """Raises ``InputError`` if they are not of one circuit."""
        super().__init__(key)
        where, fix = printable(generator.path), "give the .wasm and the .zkey of one circuit"
        if generator.curve is not key.curve:
            ours, its = key.curve.spelling, generator.curve.spelling
            raise InputError(f"generator over {its}, the key is over {ours}", where, fix)
        if generator.wires != key.n_wires:
            raise InputError(f"generator of {generator.wires} values, the key wants {key.n_wires}", where, fix)
        self._generator = generator
        self.footprint.maker_bytes = generator.memory_bytes

    @classmethod
    def open_with(
        cls,
        path: Path,
        wasm: Path,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        cache: Path | None = None,
    ) -> WasmInputs:
        """Compile the generator, map the key and check its points.

        Raises:
            FormatError, InputError: if one cannot be used, or not with the other.
            MachineLacks: without wasmtime.
            Cancelled: if asked.
        """
        if progress is not None:
            progress("compiling the witness generator", None)
        generator = WitnessGenerator.open(wasm, cache=CompiledCache(cache))
        return cls(cls.open_key(path, threads=threads, progress=progress, cancel=cancel, cache=cache), generator)

    def read(self, path: Path, cancel: CancelToken) -> BufferLike:
        """Make the witness of an input file. Raises as ``WitnessGenerator.witness_of_file``."""
        return self._generator.witness_of_file(path, cancel)


__all__ = ["WasmInputs"]
