"""``prove``, ``verify``, ``setup``, ``vkey`` by the command line: exit codes, one-line errors, no partial files."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import groth16_files as files
import groth16_model as model
import pytest

from console.cli import main
from console.commands.prove import NOT_VALID
from prover.curves import CURVES
from prover.device.host import HostDevice
from prover.formats.r1cs import write_r1cs
from prover.formats.wtns import read_wtns, write_wtns
from prover.groth16.keys import ProvingKey
from prover.host_library import library_path

FIXTURES = Path(__file__).parent.parent / "fixtures" / "snark"
MIX = FIXTURES / "bn128" / "mix_8"
FOLDERS = [FIXTURES / curve / name for curve in ("bls12-381", "bn128") for name in ("mix_8", "pow_255")]
IDS = [f"{folder.parent.name}-{folder.name}" for folder in FOLDERS]


@pytest.fixture(autouse=True)
def own_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


def files_here():
    return sorted(path.name for path in Path().iterdir())


def refused(capsys, code, *arguments):
    """The command's one line on stderr; it left no file and printed nothing else."""
    before = files_here()
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cuzk-top: ")
    assert err.count("\n") == 1, err
    assert files_here() == before
    return err


def prove(folder, *more):
    return main(["prove", str(folder / "circuit.zkey"), str(folder / "witness.wtns"), *more])


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_prove_writes_what_verify_accepts(folder, capsys):
    assert prove(folder, "--r1cs", str(folder / "circuit.r1cs")) == 0
    assert files_here() == ["proof.json", "public.json"]
    assert Path("public.json").read_bytes() == (folder / "public.json").read_bytes()
    key = str(folder / "verification_key.json")
    assert main(["verify", key, "public.json", "proof.json"]) == 0
    assert capsys.readouterr().out == "valid\n"
    public = json.loads(Path("public.json").read_text())
    public[0] = str(int(public[0]) + 1)
    Path("changed.json").write_text(json.dumps(public))
    assert main(["verify", key, "changed.json", "proof.json"]) == 1
    assert capsys.readouterr() == ("not valid\n", "")
    assert main(["verify", "--json", key, "changed.json", "proof.json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"schema": "cuzk-top/verify/1", "valid": False}


def test_prove_reports_in_the_contracts_json(capsys):
    assert prove(MIX, "--json", "--proof", "p.json", "--public", "q.json", "--device", "host", "--check-key") == 0
    assert files_here() == ["p.json", "q.json"]
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert err == ""
    assert set(report) == {"schema", "curve", "constraints", "device", "seconds", "verified"}
    assert report["schema"] == "cuzk-top/prove/1"
    assert (report["curve"], report["constraints"], report["device"], report["verified"]) == (
        "bn128",
        1409,
        "host",
        True,
    )
    seconds = report["seconds"]
    assert list(seconds) == ["load", "synthesis", "ntt", "msm", "finalizing", "total"]
    assert all(value > 0 for value in seconds.values())
    assert sum(seconds.values()) == pytest.approx(2 * seconds["total"])


def wrong_witness(folder, wire):
    witness = read_wtns(folder / "witness.wtns")
    values = files.np.array(witness.values).copy()
    values[wire, 0] ^= files.np.uint64(1)
    write_wtns("wrong.wtns", witness.curve, values)


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_a_wrong_witness_writes_nothing_and_says_the_contracts_sentence(folder, capsys):
    wrong_witness(folder, -1)
    line = refused(capsys, 2, "prove", folder / "circuit.zkey", "wrong.wtns")
    assert line == f"cuzk-top: {NOT_VALID}: wrong.wtns: give --r1cs FILE to name the row\n"
    assert NOT_VALID == "proof does not verify: the witness or the key is wrong"


def test_the_row_is_named_where_the_circuit_is_given(capsys, tmp_path):
    rng = random.Random(2)
    circuit, values = model.sample(CURVES[1], rng, 12, 2, 20)
    write_r1cs("c.r1cs", files.r1cs(circuit))
    assert main(["setup", "c.r1cs", "-o", "c.zkey"]) == 0
    capsys.readouterr()
    wire = next(w for w in range(3, 20) if any(w in row for rows in circuit.constraints for row in rows))
    values[wire] = (values[wire] + 1) % circuit.r
    broken = [i for i, rows in enumerate(circuit.constraints) if not holds(circuit, rows, values)]
    write_wtns("w.wtns", circuit.curve, files.witness(circuit, values))
    line = refused(capsys, 2, "prove", "c.zkey", "w.wtns", "--r1cs", "c.r1cs")
    assert line == f"cuzk-top: {NOT_VALID}: w.wtns breaks row {broken[0]} of c.r1cs: make the witness again\n"


def holds(circuit, rows, values):
    a, b, c = (sum(v * values[w] for w, v in row.items()) for row in rows)
    return (a * b - c) % circuit.r == 0


def test_a_key_of_another_circuit_of_the_same_shape_does_not_prove(capsys):
    rng = random.Random(3)
    first, values = model.sample(CURVES[0], rng, 6, 1, 12)
    second, _ = model.sample(CURVES[0], rng, 6, 1, 12)
    for name, circuit in (("a", first), ("b", second)):
        write_r1cs(f"{name}.r1cs", files.r1cs(circuit))
        assert main(["setup", f"{name}.r1cs", "-o", f"{name}.zkey"]) == 0
    write_wtns("w.wtns", first.curve, files.witness(first, values))
    capsys.readouterr()
    assert main(["prove", "a.zkey", "w.wtns"]) == 0
    line = refused(capsys, 2, "prove", "b.zkey", "w.wtns", "--r1cs", "a.r1cs", "--proof", "new.json")
    assert line == f"cuzk-top: {NOT_VALID}: b.zkey: every row of the circuit is satisfied: use its own key\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prove", "missing.zkey", "w"], "cannot read"),
        (["prove", MIX / "witness.wtns", MIX / "witness.wtns"], "not a zkey file"),
        (["prove", MIX / "circuit.zkey", MIX / "circuit.zkey"], "not a wtns file"),
        (["prove", MIX / "circuit.zkey", FIXTURES / "bls12-381" / "mix_8" / "witness.wtns"], "witness over bls12-381"),
        (["prove", MIX / "circuit.zkey", FIXTURES / "bn128" / "pow_255" / "witness.wtns"], "the key wants 1410"),
        (
            ["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--r1cs", FIXTURES / "bn128/pow_255/circuit.r1cs"],
            "give the circuit of this key",
        ),
        (["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--proof", "no/such/place.json"], "cannot write"),
        (["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--public", "/proc/no.json"], "cannot write"),
        (["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--device", "gpu"], "unknown device: gpu"),
        (
            ["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--public", "./proof.json"],
            "--proof and --public name the same file: ./proof.json",
        ),
        (["setup", MIX / "circuit.r1cs", "-o", "k", "--vkey", "k"], "-o and --vkey name the same file"),
        (["prove", "key", MIX / "witness.wtns", "--proof", "./key"], "ZKEY and --proof name the same file: ./key"),
        (["prove", MIX / "circuit.zkey", "wit", "--public", "wit"], "WTNS and --public name the same file: wit"),
        (["prove", "key", "wit", "--r1cs", "c", "--proof", "c"], "--r1cs and --proof name the same file: c"),
        (["setup", "c.r1cs", "-o", "c.r1cs"], "R1CS and -o name the same file: c.r1cs"),
        (["setup", "c.r1cs", "-o", "k", "--vkey", "c.r1cs"], "R1CS and --vkey name the same file: c.r1cs"),
        (["vkey", "key", "-o", "key"], "ZKEY and -o name the same file: key"),
        (["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--proof", ""], "cannot write: No such file"),
        (["prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--proof", "out/"], "cannot write: out/: Not a dir"),
        (["verify", MIX / "public.json", MIX / "public.json", MIX / "proof.json"], "not a JSON object"),
        (["verify", MIX / "verification_key.json", MIX / "proof.json", MIX / "proof.json"], "not a list"),
        (["vkey", MIX / "circuit.r1cs", "-o", "v.json"], "not a zkey file"),
        (["vkey", MIX / "circuit.zkey", "-o", "no/such/place.json"], "cannot write"),
        (["setup", MIX / "circuit.zkey", "-o", "k.zkey"], "not a r1cs file"),
        (["setup", MIX / "circuit.r1cs", "-o", "no/such/place.zkey"], "cannot write"),
        (["setup", MIX / "circuit.r1cs", "-o", "k.zkey", "--vkey", "no/such/place.json"], "cannot write"),
    ],
)
def test_unusable_input_is_one_line_and_exit_2(capsys, arguments, said):
    assert said in refused(capsys, 2, *arguments)


@pytest.mark.parametrize("folder", [MIX, FIXTURES / "bls12-381" / "pow_255"], ids=["bn128", "bls12-381"])
def test_spoilt_files_give_one_line_and_no_file(capsys, folder):
    rng = random.Random(1)
    whole = {"k.zkey": (folder / "circuit.zkey").read_bytes(), "k.wtns": (folder / "witness.wtns").read_bytes()}
    for round_ in range(40):
        spoilt = {name: bytearray(data) for name, data in whole.items()}
        data = spoilt["k.zkey" if round_ % 2 else "k.wtns"]
        if round_ % 4 < 2:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        for name, content in spoilt.items():
            Path(name).write_bytes(content)
        code = main(["prove", "k.zkey", "k.wtns"])
        _, err = capsys.readouterr()
        if code == 0:  # what no proof depends on: the history of contributions
            assert (round_ % 4, files_here()) == (1, ["k.wtns", "k.zkey", "proof.json", "public.json"])
            Path("proof.json").unlink()
            Path("public.json").unlink()
        else:
            assert (code, err.count("\n"), files_here()) == (2, 1, ["k.wtns", "k.zkey"]), err


def test_cuda_by_name_is_exit_3(capsys):
    line = refused(capsys, 3, "prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--device", "cuda:1")
    assert "cuda:1" in line


def test_a_point_outside_its_group_is_refused_by_name(capsys):
    data = bytearray((MIX / "circuit.zkey").read_bytes())
    at = data.find((5).to_bytes(4, "little") + (1410 * 64).to_bytes(8, "little")) + 12
    assert at > 12
    data[at + 64 * 7] ^= 1
    Path("bad.zkey").write_bytes(data)
    for more in ([], ["--check-key"]):
        line = refused(capsys, 2, "prove", "bad.zkey", MIX / "witness.wtns", *more)
        assert "A query: point 7 is not on the curve: bad.zkey" in line


def test_verify_refuses_numbers_that_are_not_below_the_modulus(capsys):
    public = json.loads((MIX / "public.json").read_text())
    public[0] = str(int(public[0]) + CURVES[1].fr.modulus)
    Path("big.json").write_text(json.dumps(public))
    line = refused(capsys, 2, "verify", MIX / "verification_key.json", "big.json", MIX / "proof.json")
    assert "not below" in line


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_vkey_is_byte_for_byte_that_of_snarkjs(folder):
    assert main(["vkey", str(folder / "circuit.zkey"), "-o", "vk.json"]) == 0
    assert Path("vk.json").read_bytes() == (folder / "verification_key.json").read_bytes()


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_own_setup_proves_and_verifies_and_warns(folder, capsys):
    made = ["setup", str(folder / "circuit.r1cs"), "-o", "own.zkey", "--vkey", "own.json", "--json"]
    assert main(made) == 0
    out, err = capsys.readouterr()
    assert "NOT FOR PRODUCTION" in err
    assert json.loads(out)["zkey"] == "own.zkey"
    assert files_here() == ["own.json", "own.zkey"]
    assert main(["vkey", "own.zkey", "-o", "again.json"]) == 0
    assert Path("again.json").read_bytes() == Path("own.json").read_bytes()
    assert main(["prove", "own.zkey", str(folder / "witness.wtns"), "--check-key"]) == 0
    assert main(["verify", "own.json", "public.json", "proof.json"]) == 0
    assert main(["verify", str(folder / "verification_key.json"), "public.json", "proof.json"]) == 1


def test_setup_replaces_no_key_unless_told_to(capsys):
    circuit = str(MIX / "circuit.r1cs")
    assert main(["setup", circuit, "-o", "own.zkey", "--vkey", "own.json"]) == 0
    before = {name: Path(name).read_bytes() for name in files_here()}
    capsys.readouterr()
    fix = "give another name, or --force to replace it"
    for arguments, path in (
        (["-o", "own.zkey"], "own.zkey"),
        (["-o", "own.zkey", "--vkey", "own.json"], "own.zkey"),
        (["-o", "new.zkey", "--vkey", "own.json"], "own.json"),
    ):
        line = refused(capsys, 2, "setup", circuit, *arguments)
        assert line == f"cuzk-top: key exists already: {path}: {fix}\n"
    assert {name: Path(name).read_bytes() for name in files_here()} == before
    assert main(["setup", circuit, "-o", "own.zkey", "--vkey", "own.json", "--force"]) == 0
    after = {name: Path(name).read_bytes() for name in files_here()}
    assert after.keys() == before.keys() and all(after[name] != before[name] for name in before)
    assert main(["setup", circuit, "-o", "/dev/null"]) == 0


def test_help_names_the_files_that_are_written_by_default(capsys):
    with pytest.raises(SystemExit):
        main(["prove", "--help"])
    text = capsys.readouterr().out
    assert "(proof.json)" in text and "(public.json)" in text


def test_a_key_of_our_own_setup_needs_no_further_check(monkeypatch):
    assert main(["setup", str(MIX / "circuit.r1cs"), "-o", "own.zkey"]) == 0
    monkeypatch.setattr(ProvingKey, "check_combined", lambda *_: pytest.fail("checked again"))
    assert main(["prove", "own.zkey", str(MIX / "witness.wtns")]) == 0
    with pytest.raises(pytest.fail.Exception, match="checked again"):
        prove(MIX)


def test_threads_come_from_the_knob(capsys, monkeypatch):
    used = []
    monkeypatch.setattr("prover.device.open_device", lambda spec, threads: used.append(threads) or HostDevice(threads))
    assert prove(MIX, "--set", "gpu_threads=1") == 0
    monkeypatch.setenv("CUZK_TOP_GPU_THREADS", "2")
    assert prove(MIX) == 0
    assert used == [1, 2]
    capsys.readouterr()
    line = refused(capsys, 2, "prove", MIX / "circuit.zkey", MIX / "witness.wtns", "--set", "nonsense=1")
    assert "nonsense" in line


def test_killed_in_the_middle_nothing_is_left_after_the_next_run():
    circuit, _ = model.sample(CURVES[0], random.Random(1), 1, 1, 4)
    write_r1cs("c.r1cs", files.r1cs(model.Model(circuit.curve, 4, 1, circuit.constraints * (1 << 15))))
    command = [sys.executable, "-m", "console.cli", "setup", "c.r1cs", "-o", "k.zkey"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while len(files_here()) == 1 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert "k.zkey" not in files_here()
    small, _ = model.sample(CURVES[0], random.Random(1), 3, 1, 8)
    write_r1cs("s.r1cs", files.r1cs(small))
    done = subprocess.run([*command[:-3], "s.r1cs", "-o", "k.zkey"], check=False, capture_output=True)
    assert done.returncode == 0
    assert files_here() == ["c.r1cs", "k.zkey", "s.r1cs"]


def snarkjs():
    found = os.environ.get("CUZK_TOP_SNARKJS") or shutil.which("snarkjs")
    if not found:
        pytest.skip("snarkjs is not on the path (nor named by CUZK_TOP_SNARKJS)")
    return found


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_snarkjs_accepts_own_keys_and_proofs(curve):
    program = snarkjs()
    circuit, values = model.sample(curve, random.Random(9), 60, 3, 80)
    write_r1cs("c.r1cs", files.r1cs(circuit))
    write_wtns("c.wtns", curve, files.witness(circuit, values))
    assert main(["setup", "c.r1cs", "-o", "c.zkey", "--vkey", "vk.json"]) == 0
    assert main(["prove", "c.zkey", "c.wtns"]) == 0
    verify = [program, "groth16", "verify", "vk.json"]
    assert subprocess.run([*verify, "public.json", "proof.json"], check=False, capture_output=True).returncode == 0
    public = json.loads(Path("public.json").read_text())
    public[0] = str((int(public[0]) + 1) % circuit.r)
    Path("changed.json").write_text(json.dumps(public))
    assert subprocess.run([*verify, "changed.json", "proof.json"], check=False, capture_output=True).returncode == 1
    theirs = [program, "groth16", "prove", "c.zkey", "c.wtns", "their_proof.json", "their_public.json"]
    assert subprocess.run(theirs, check=False, capture_output=True).returncode == 0
    assert main(["verify", "vk.json", "their_public.json", "their_proof.json"]) == 0
    exported = [program, "zkey", "export", "verificationkey", "c.zkey", "their_vk.json"]
    assert subprocess.run(exported, check=False, capture_output=True).returncode == 0
    assert Path("their_vk.json").read_bytes() == Path("vk.json").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_at_once_and_leaves_nothing(number):
    circuit, _ = model.sample(CURVES[0], random.Random(1), 1, 1, 4)
    big = model.Model(circuit.curve, 4, 1, circuit.constraints * (1 << 15))
    write_r1cs("c.r1cs", files.r1cs(big))
    process = subprocess.Popen(
        [sys.executable, "-m", "console.cli", "setup", "c.r1cs", "-o", "k.zkey"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(files_here()) == 1 and process.poll() is None:  # the key's temporary file is opened before the work
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == "cuzk-top: interrupted\n"
    assert files_here() == ["c.r1cs"]


HEAVY = {"numpy", "textual", "cupy", "json", "asyncio", "logging", "typing", "dataclasses", "pathlib", "hashlib"}
"""Each takes as long to load as a tenth of a small proof, or much longer."""


def test_the_way_of_a_proof_loads_nothing_heavy():
    script = (
        "import sys; before = set(sys.modules); from console.cli import main; "
        f"code = main(['prove', {str(MIX / 'circuit.zkey')!r}, {str(MIX / 'witness.wtns')!r}]); "
        f"heavy = {HEAVY} & set(sys.modules) - before; "
        "sys.exit(f'exit code {code}, loaded {heavy}' if code or heavy else 0)"
    )
    # -S: an editable install's hook would load modules of its own first.
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "CUZK_TOP_LIBRARY": library_path()}
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
