"""What the engine proves: a built-in circuit with a key of our own, or a snarkjs key's circuit with witness files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prover.buffers import BufferLike
from prover.cancel import CancelToken
from prover.circuits.builtin import BuiltinCircuit
from prover.circuits.circuit import Circuit, U64Array
from prover.circuits.evaluator import evaluate
from prover.device.host import HostDevice
from prover.errors import InputError
from prover.file_input import FileInput, path_of
from prover.formats.errors import FormatError
from prover.formats.proof import Proof
from prover.formats.proof_bytes import decode_proof, encode_proof
from prover.formats.proof_json import proof_json, public_json
from prover.formats.wtns import read_wtns
from prover.formats.zkey import read_zkey
from prover.groth16.checked_keys import CheckedKeys, check_key
from prover.groth16.footprint import CircuitFootprint, shape_of_circuit, shape_of_key
from prover.groth16.key_cache import KeyCache
from prover.groth16.keys import ProvingKey
from prover.groth16.prove import Assignment, Pending, SlotProof, finish
from prover.groth16.setup import ConstraintSystem, setup
from prover.groth16.verify import Verifier, check_public
from prover.groth16.witness import assign, check_fits

if TYPE_CHECKING:
    from prover.device.protocol import Device
    from prover.pipeline.forecast import CircuitShape

Progress = Callable[[str, float | None], None]

SAMPLES = 8
"""Different inputs that a built-in circuit's jobs draw from: making them is Python's work and no part of a proof."""


class _Recent:
    """The points behind the bytes of the last proofs that were made: to find them again takes square roots."""

    _MOST = 256

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._proofs: OrderedDict[bytes, Proof] = OrderedDict()

    def remember(self, made: Iterable[tuple[bytes, Proof]]) -> None:
        """Keep these, and forget the oldest."""
        with self._lock:
            self._proofs.update(made)
            while len(self._proofs) > self._MOST:
                self._proofs.popitem(last=False)

    def get(self, encoded: bytes) -> Proof | None:
        """The proof that was encoded to these bytes: what decoding them would give."""
        return self._proofs.get(encoded)


class _KeyedWorkload:
    """What both workloads share: the device's work, the assembly, the self-check."""

    def __init__(self, name: str, circuit: str, key: ProvingKey, shape: CircuitShape) -> None:
        self.footprint = CircuitFootprint(shape, circuit, key.source.data)
        self.name = name
        self.circuit = circuit
        self.constraints = key.n_constraints
        self.key = key
        self._verifier = Verifier(key.verifying, key.where)
        self._made = _Recent()

    def refusal(self, inputs: Any, partitions: int) -> str | None:
        """Inputs are a sequence with one entry a partition."""
        if isinstance(inputs, Sized) and len(inputs) != partitions:
            return f"{len(inputs)} inputs for {partitions} partition{'s' if partitions != 1 else ''}"
        return None

    def joined(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> list[Any]:
        """The inputs of partitions of several jobs, in a row."""
        return [inputs[partition] for inputs, partitions in parts for partition in partitions]

    def prover(self, synthesis: Sequence[Assignment], device: Any, threads: int, cancel: CancelToken) -> SlotProof:
        """A prover for one synthesised slot.

        Raises:
            InputError: if an assignment does not fit the key.
        """
        return SlotProof(self.key, synthesis, device, threads, cancel)

    def finish(self, pending: Sequence[Pending]) -> list[bytes]:
        """The slot's proofs in the order of its partitions: 192 bytes each on BLS12-381, 256 on BN254."""
        proofs = [finish(each) for each in pending]
        encoded = [encode_proof(proof) for proof in proofs]
        self._made.remember(zip(encoded, proofs, strict=True))
        return encoded

    def verify(self, inputs: Any, partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        """Whether all verify, by one equation. Bytes that are no proof, such as a broken device's, do not.

        Raises:
            InputError: if public inputs do not fit the key.
        """
        statements = []
        for partition, encoded in zip(partitions, proofs, strict=True):
            public = self.public_inputs(inputs, partition)
            check_public(self.key.verifying, public)
            try:
                proof = self._made.get(encoded) or decode_proof(self.key.curve, encoded)
                self._verifier.check(public, proof)
            except (FormatError, InputError):
                return False
            statements.append((public, proof))
        return self._verifier.verify_batch(statements, checked=True)

    def public_inputs(self, inputs: Any, partition: int) -> list[int]:
        """The public inputs of one partition of a job."""
        raise NotImplementedError


class CircuitWorkload(_KeyedWorkload):
    """A built-in circuit. A job's inputs are a sequence with the packed inputs of each partition."""

    def __init__(self, builtin: BuiltinCircuit, circuit: Circuit, key: ProvingKey) -> None:
        super().__init__(f"builtin:{builtin.name}", builtin.name, key, shape_of_circuit(circuit, key))
        self._builtin = builtin
        self._circuit = circuit
        self._samples: dict[int, U64Array] = {}

    @classmethod
    def open(
        cls,
        builtin: BuiltinCircuit,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        cache: Path | None = None,
        device: Device | None = None,
    ) -> CircuitWorkload:
        """Build the circuit; load its key from the cache or make it.

        Args:
            builtin: the circuit.
            threads: processor threads for the key.
            progress: told what is being done.
            cancel: asks to stop.
            cache: the cache's directory; the user's by default.
            device: where a key is made; the host by default.

        Raises:
            WriteError: if there is no room for a key anywhere.
            Cancelled: if asked.
        """
        report = progress or (lambda what, share: None)
        report("building the circuit", None)
        circuit = builtin.build()

        def make() -> Any:
            if device is not None:
                device.prepare(circuit.curve, progress=report, for_setup=True)
            return setup(
                ConstraintSystem.of_circuit(circuit),
                threads=threads,
                progress=lambda what, share: report(f"making the proving key: {what}", share),
                cancel=cancel,
                device=device,
            )

        zkey = KeyCache(cache).obtain(circuit.digest, make, report, cancel)
        key = ProvingKey.from_zkey(zkey)
        shape = (circuit.curve, circuit.n_variables, circuit.n_public, circuit.n_constraints, circuit.log_domain)
        if shape != (key.curve, key.n_wires, key.n_public, key.n_constraints, key.log_n):
            raise InputError("cached key has another shape than its circuit", key.where, "remove the file")
        report("checking the proving key", None)
        check_key(key, threads=threads, cancel=cancel, checked=CheckedKeys(cache))
        return cls(builtin, circuit, key)

    def sample_inputs(self, job: int, partitions: int) -> list[U64Array]:
        """Inputs for a job's partitions that satisfy the circuit, the same whenever they are asked for; jobs differ in
        where they begin among the samples. There are no more of these than a job has partitions.
        """
        samples = min(SAMPLES, max(partitions, 1))
        return [self._sample((job + partition) % samples) for partition in range(partitions)]

    def _sample(self, number: int) -> U64Array:
        made = self._samples.get(number)
        if made is None:
            made = self._samples[number] = self._builtin.random_inputs(self._circuit, number)
        return made

    def synthesize(
        self, inputs: Sequence[U64Array], partitions: Sequence[int], threads: int, cancel: CancelToken
    ) -> list[Assignment]:
        """Witness and a, b, c of these partitions.

        Raises:
            UnsatisfiedConstraint: naming row and gadget.
            Cancelled: if asked.
        """
        out = []
        for partition in partitions:
            made = evaluate(self._circuit, inputs[partition], threads, cancel)
            out.append(Assignment(made.witness, made.a, made.b))  # c is a*b: evaluation has checked every row
        return out

    def public_inputs(self, inputs: Sequence[U64Array], partition: int) -> list[int]:
        """The public fields of the inputs, in order: the circuit's first variables after the one."""
        public = [f.name for f in self._circuit.inputs if f.public]
        return [value for name in public for value in self._circuit.unpack(inputs[partition], name)]


class WitnessFiles(_KeyedWorkload):
    """The circuit of a snarkjs key. A job's inputs are its partitions' witness files, as paths or as ``FileInput``."""

    def __init__(self, key: ProvingKey) -> None:
        super().__init__(Path(key.where).name, Path(key.where).stem, key, shape_of_key(key))
        self._host = HostDevice()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        cache: Path | None = None,
    ) -> WitnessFiles:
        """Map the key and check its points.

        Raises:
            FormatError, InputError: if the key cannot be used.
            Cancelled: if asked.
        """
        return cls(cls.open_key(path, threads=threads, progress=progress, cancel=cancel, cache=cache))

    @staticmethod
    def open_key(
        path: Path,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        cache: Path | None = None,
    ) -> ProvingKey:
        """Map a key and check its points. Raises as ``open``."""
        key = ProvingKey.from_zkey(read_zkey(path))
        if progress is not None:
            progress("checking the proving key", None)
        check_key(key, threads=threads, cancel=cancel, checked=CheckedKeys(cache))
        return key

    def synthesize(
        self, inputs: Sequence[Path | FileInput], partitions: Sequence[int], threads: int, cancel: CancelToken
    ) -> list[Assignment]:
        """Read the witnesses; multiply the key's matrices.

        Raises:
            FormatError, InputError: if a witness cannot be used.
            Cancelled: if asked.
        """
        return [self._assign(inputs[p], threads, cancel) for p in partitions]

    def verify(self, inputs: Sequence[Path | FileInput], partitions: Sequence[int], proofs: Sequence[bytes]) -> bool:
        """Whether all verify, by one equation. A single one that does not is its file's fault, until it does."""
        good = super().verify(inputs, partitions, proofs)
        items = [inputs[p] for p in partitions]
        for item in items:
            if isinstance(item, FileInput) and (good or len(items) == 1):
                item.fault = None if good else "proof does not verify: the witness does not satisfy the circuit"
        return good

    def public_inputs(self, inputs: Sequence[Path | FileInput], partition: int) -> list[int]:
        """The first values of the witness after the one: of a ``FileInput`` as it was read, else they are read."""
        item = inputs[partition]
        if isinstance(item, FileInput) and item.public is not None:
            return item.public
        return self._public(self.read(path_of(item), CancelToken()))

    def read(self, path: Path, cancel: CancelToken) -> BufferLike:
        """The witness of a file. Its content is copied: the file may be written to while it is proved.

        Raises:
            FormatError, InputError: if it cannot be used.
        """
        witness = read_wtns(path, mapped=False)
        check_fits(self.key, witness)
        return witness.values

    def documents(self, item: FileInput, proof: bytes) -> tuple[bytes, bytes]:
        """The texts of ``proof.json`` and ``public.json``.

        Raises:
            FormatError, InputError: if the file has to be read again, and cannot be.
        """
        proof_text = proof_json(decode_proof(self.key.curve, proof))
        return proof_text, public_json(self.public_inputs([item], 0))

    def _assign(self, item: Path | FileInput, threads: int, cancel: CancelToken) -> Assignment:
        try:
            witness = self.read(path_of(item), cancel)
        except InputError as error:
            if isinstance(item, FileInput):
                item.fault = str(error)
            raise
        if isinstance(item, FileInput):
            item.fault, item.public = None, self._public(witness)
        return assign(self.key, witness, self._host, threads, cancel)

    def _public(self, witness: BufferLike) -> list[int]:
        size = self.key.curve.fr.bytes
        data = memoryview(witness).cast("B")[size : (self.key.n_public + 1) * size]
        return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


__all__ = ["SAMPLES", "CircuitWorkload", "WitnessFiles"]
