"""Whole `prove` processes side by side on the host: ours, snarkjs, and groth16py (BN254), taken in turns.

    python bench/host_prove.py --snarkjs PATH [--groth16py PYTHON] [--logs 12,15] [--runs 5]

Circuits are the built-in ones at their real sizes (``poseidon-merkle``: dense; ``range-check``: mostly bits) over both
curves, or files given with ``--circuit NAME:R1CS:WTNS``. Keys are made by our own setup; every prover reads the same
.zkey and .wtns and writes its own proof. groth16py is an external peer (GPL): it runs in its own interpreter, with
its own verification, and is never imported here. Times are wall and processor seconds of the process, start to end.
Our first run of a key, which also checks the subgroup of its points, is reported apart (``first``).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from prover import native
from prover.circuits.builtin import builtin
from prover.circuits.evaluator import evaluate
from prover.csr import CsrMatrix
from prover.curves import Curve, curve
from prover.device.host import cores
from prover.formats.r1cs import R1cs, read_r1cs, write_r1cs
from prover.formats.wtns import write_wtns
from prover.formats.zkey import write_zkey
from prover.groth16.setup import ConstraintSystem, setup

KINDS = {"dense": "poseidon-merkle", "bits": "range-check"}
RESULTS = Path(__file__).parent / "results"

GROTH16PY = """
import sys, groth16py
zkey, wtns, out = sys.argv[1:]
pk, vk = groth16py.import_zkey(zkey)
proof = groth16py.prove_wtns(pk, wtns)
data = open(wtns, "rb").read()
values = data[-int.from_bytes(data[60:64], "little") * 32:]
public = [int.from_bytes(values[32 * i : 32 * i + 32], "little") for i in range(1, vk.n_public + 1)]
assert groth16py.Verifier(vk).verify(proof, public)
open(out, "wb").write(proof)
"""


@dataclass(frozen=True)
class Case:
    name: str
    curve: Curve
    constraints: int
    log_n: int
    zkey: Path
    wtns: Path


@dataclass(frozen=True)
class Sample:
    wall_s: float
    cpu_s: float


def without_input_rows(matrix: CsrMatrix, rows: int) -> CsrMatrix:
    end = int(matrix.row_ptr[rows])
    return CsrMatrix(matrix.row_ptr[: rows + 1], matrix.col[:end], matrix.coef[:end], matrix.table)


def make_case(kind: str, log_n: int, over: Curve, folder: Path) -> Case:
    described = builtin(f"{KINDS[kind]}-{log_n}", over)
    circuit = described.build()
    base = folder / f"{kind}-{log_n}-{over.name}"
    r1cs, zkey, wtns = (base.with_suffix(suffix) for suffix in (".r1cs", ".zkey", ".wtns"))
    if not zkey.exists():
        rows = circuit.n_constraints
        a, b, c = (without_input_rows(matrix, rows) for matrix in (circuit.a, circuit.b, circuit.c))
        private = circuit.n_variables - circuit.n_public - 1
        write_r1cs(r1cs, R1cs(over, circuit.n_variables, 0, circuit.n_public, private, a, b, c))
        write_wtns(wtns, over, evaluate(circuit, described.random_inputs(circuit, 1), cores()).witness)
        write_zkey(zkey, setup(ConstraintSystem.of_circuit(circuit), threads=cores()))
    return Case(f"{kind} 2^{log_n} {over.name}", over, circuit.n_constraints, log_n, zkey, wtns)


def given_case(text: str, folder: Path) -> Case:
    name, r1cs_path, wtns = text.split(":")
    r1cs = read_r1cs(r1cs_path)
    zkey = folder / f"{name}.zkey"
    system = ConstraintSystem.of_r1cs(r1cs)
    if not zkey.exists():
        write_zkey(zkey, setup(system, threads=cores()))
    return Case(f"{name} {r1cs.curve.name}", r1cs.curve, r1cs.n_constraints, system.log_n, zkey, Path(wtns))


def measure(command: list[str], environment: dict[str, str]) -> Sample:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr or done.stdout}")
    return Sample(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def provers(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, list[str]]:
    zkey, wtns = str(case.zkey), str(case.wtns)
    own = [*options.own.split(), "prove", zkey, wtns, "--device", "host"]
    own += ["--proof", str(folder / "own.json"), "--public", str(folder / "own_public.json")]
    out = {"ours": own}
    if options.snarkjs:
        theirs = [str(folder / "snarkjs.json"), str(folder / "snarkjs_public.json")]
        out["snarkjs"] = [options.snarkjs, "groth16", "prove", zkey, wtns, *theirs]
    if options.groth16py and case.curve is curve("bn254"):
        out["groth16py"] = [options.groth16py, "-c", GROTH16PY, zkey, wtns, str(folder / "groth16py.bin")]
    return out


def run_case(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, object]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    commands = provers(case, options, folder)
    first = {name: measure(command, environment) for name, command in commands.items()}
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for _ in range(options.runs):
        for name, command in commands.items():
            samples[name].append(measure(command, environment))
    rows = {}
    for name, taken in samples.items():
        walls, cpus = [s.wall_s for s in taken], [s.cpu_s for s in taken]
        rows[name] = {
            "wall_s": statistics.median(walls),
            "cpu_s": statistics.median(cpus),
            "wall_min_s": min(walls),
            "wall_max_s": max(walls),
            "first_wall_s": first[name].wall_s,
            "first_cpu_s": first[name].cpu_s,
            "samples_wall_s": walls,
        }
    return {
        "case": case.name,
        "curve": case.curve.name,
        "constraints": case.constraints,
        "log_n": case.log_n,
        "provers": rows,
    }


def machine() -> dict[str, object]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {
        "cpu": model,
        "cores": cores(),
        "variant": native.cpu_variant(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


def commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def table(cases: list[dict[str, object]]) -> str:
    lines = [
        "| circuit | rows | ours: wall / CPU (first) | snarkjs: wall / CPU | groth16py: wall / CPU "
        "| snarkjs / ours | groth16py / ours |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        by = case["provers"]
        ours = by["ours"]

        def show(name: str, by: dict = by) -> str:
            return f"{by[name]['wall_s']:.3f} / {by[name]['cpu_s']:.3f} s" if name in by else "–"

        def ratio(name: str, by: dict = by, ours: dict = ours) -> str:
            return f"{by[name]['wall_s'] / ours['wall_s']:.1f}" if name in by else "–"

        lines.append(
            f"| {case['case']} | {case['constraints']} | {show('ours')} ({ours['first_wall_s']:.3f} s) "
            f"| {show('snarkjs')} | {show('groth16py')} | {ratio('snarkjs')} | {ratio('groth16py')} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--snarkjs", help="snarkjs's program")
    parser.add_argument("--groth16py", metavar="PYTHON", help="an interpreter that has groth16py")
    parser.add_argument("--own", default=f"{sys.executable} -m console.cli", help="how our command is run")
    parser.add_argument("--logs", default="12,15", help="logarithms of the domains")
    parser.add_argument("--curves", default="bn254,bls12-381")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--circuit", action="append", default=[], metavar="NAME:R1CS:WTNS", help="a further circuit")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("build/bench"), help="where circuits and keys are kept")
    parser.add_argument("--name", default="host_prove", help="of the files in bench/results")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    folder = options.work.resolve()
    cases = [
        make_case(kind, int(log_n), curve(name), folder)
        for log_n in options.logs.split(",")
        if log_n
        for kind in options.kinds.split(",")
        for name in options.curves.split(",")
    ]
    cases += [given_case(text, folder) for text in options.circuit]
    document = {
        "schema": "cuzk-top/bench-host-prove/1",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit(),
        "machine": machine(),
        "runs": options.runs,
        "cases": [],
    }
    for case in cases:
        document["cases"].append(run_case(case, options, folder))
        print(table(document["cases"][-1:]).splitlines()[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{options.name}.json").write_text(json.dumps(document, indent=1) + "\n")
    m = document["machine"]
    text = (
        f"# Whole `prove` processes on the host\n\n{document['date']}, commit {document['commit']}, {m['cpu']}, "
        f"{m['cores']} cores ({m['variant']}), load {m['load_average']:.1f} at the start. Median of {options.runs}, "
        "taken in turns; `first` is the first run of a key, which also checks the subgroups of its points.\n"
        "Made by `bench/host_prove.py`.\n\n"
    )
    (RESULTS / f"{options.name}.md").write_text(text + table(document["cases"]) + "\n")
    print(text + table(document["cases"]))


if __name__ == "__main__":
    main()
