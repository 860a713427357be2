"""The real prover fed with files: circom's inputs as a synthesis stage, and witness files that change under it."""

import shutil
from pathlib import Path

import pytest

from prover.cancel import CancelToken
from prover.circom.generator import WitnessGenerator
from prover.device.host import HostDevice
from prover.errors import InputError
from prover.file_input import FileInput
from prover.formats.errors import FormatError
from prover.groth16.wasm_inputs import WasmInputs
from prover.groth16.workload import WitnessFiles
from prover.pipeline.engine import Engine
from prover.pipeline.interfaces import JobRequest
from prover.pipeline.knobs import KnobSet
from prover.pipeline.records import JobFailed

FIXTURES = Path(__file__).parent.parent / "fixtures"
CURVES = ("bn128", "bls12-381")


def mix(curve: str) -> Path:
    return FIXTURES / "snark" / curve / "mix_8"


def wasm(curve: str) -> Path:
    return FIXTURES / "circom" / f"mix_8.{curve}.wasm"


@pytest.fixture(scope="module", params=CURVES)
def workload(request, tmp_path_factory) -> WasmInputs:
    cache = tmp_path_factory.mktemp("cache")
    return WasmInputs.open_with(mix(request.param) / "circuit.zkey", wasm(request.param), cache=cache)


@pytest.fixture
def engine(workload):
    engine = Engine(workload, [HostDevice()], KnobSet({"synthesis_concurrency": 2}))
    engine.start()
    yield engine
    engine.stop()


def test_inputs_are_proved_and_told_as_snarkjs_tells_them(engine, workload):
    folder = mix(workload.key.curve.snarkjs_name.replace("bls12381", "bls12-381"))
    items = [FileInput(folder / "input.json") for _ in range(3)]
    result = engine.submit(JobRequest(items, 3)).result()
    assert result.verified
    assert workload.verify(items, [0, 1, 2], result.proofs)
    for item, proof in zip(items, result.proofs, strict=True):
        assert workload.documents(item, proof)[1] == (folder / "public.json").read_bytes()
    bare = [folder / "input.json"]
    assert workload.public_inputs(bare, 0) == items[0].public, "of a bare path they are made again"


def test_a_wrong_input_fails_its_job_alone_with_its_line(engine, workload, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"w": ["18446744073709551616", 1, 1, 1, 1, 1, 1, 1]}')
    good = tmp_path / "good.json"
    good.write_text('{"w": [1, 2, 3, 4, 5, 6, 7, 8]}')
    item = FileInput(bad)
    failing = engine.submit(JobRequest([item], 1))
    assert engine.submit(JobRequest([good], 1)).result().verified
    with pytest.raises(JobFailed, match="assertion of the circuit does not hold: Error in template Bits"):
        failing.result()
    assert item.fault is not None and item.fault.startswith("an assertion of the circuit does not hold")


def test_a_proof_is_told_of_the_content_that_was_read(tmp_path):
    """The file is replaced after it was read, by one that is no witness at all."""
    workload = WitnessFiles.open(mix("bn128") / "circuit.zkey", cache=tmp_path / "cache")
    path = tmp_path / "a.wtns"
    shutil.copy(mix("bn128") / "witness.wtns", path)
    item = FileInput(path)
    token = CancelToken()
    synthesis = workload.synthesize([item], [0], 1, token)
    with path.open("r+b") as stream:  # cut in place: a mapped file would end the process here
        stream.truncate(100)
    slot = workload.prover(synthesis, HostDevice(), 1, token)
    try:
        for step in (slot.setup, slot.h2d, slot.ntt, slot.msm):
            step()
        [proof] = workload.finish(slot.d2h())
    finally:
        slot.release()
    assert workload.verify([item], [0], [proof])
    assert workload.documents(item, proof)[1] == (mix("bn128") / "public.json").read_bytes()
    with pytest.raises(FormatError):
        workload.documents(FileInput(path), proof)


def test_a_witness_that_is_none_is_its_files_fault(tmp_path):
    """Every value is one of the field's, and one of them is wrong."""
    workload = WitnessFiles.open(mix("bn128") / "circuit.zkey", cache=tmp_path / "cache")
    data = bytearray((mix("bn128") / "witness.wtns").read_bytes())
    data[-32] ^= 1
    path = tmp_path / "wrong.wtns"
    path.write_bytes(data)
    wrong, right = FileInput(path), FileInput(mix("bn128") / "witness.wtns")
    engine = Engine(workload, [HostDevice()], KnobSet({"max_batch_size": 2, "max_batch_wait_ms": 100}))
    engine.start()
    try:
        futures = [engine.submit(JobRequest([item], 1)) for item in (wrong, right)]
        assert futures[1].result().verified
        with pytest.raises(JobFailed, match="does not verify"):
            futures[0].result()
    finally:
        engine.stop()
    assert wrong.fault is not None and "does not verify" in wrong.fault
    assert right.fault is None


def test_key_and_generator_are_of_one_circuit(tmp_path):
    with pytest.raises(InputError, match="generator over bn128, the key is over bls12-381"):
        WasmInputs.open_with(mix("bls12-381") / "circuit.zkey", wasm("bn128"), cache=tmp_path)
    with pytest.raises(InputError, match="generator of 20 values, the key wants 1410"):
        WasmInputs.open_with(mix("bn128") / "circuit.zkey", FIXTURES / "circom" / "shapes.wasm", cache=tmp_path)
    assert WitnessGenerator.open(wasm("bn128")).wires == 1410
