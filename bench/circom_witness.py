"""Witnesses from circom's WebAssembly generators: ours by wasmtime, snarkjs, and circom's own calculator in Node.

    python bench/circom_witness.py --tools NODE_MODULES/.bin [--runs 5] [--out FILE.json]

Circuits are compiled from the fixtures' templates by ``circom2`` of the same folder (``pow``: dense; ``mix``: bits),
each for BN254. Measured per witness, in turns, median of the runs: ``ours`` is ``WitnessGenerator.witness_of_file`` in
this process (the input file read each time) with 1 and with 2 threads; ``node`` is circom's ``witness_calculator.js``
in one Node process, its module compiled once; ``snarkjs`` is a whole ``snarkjs wtns calculate``. All give the same
bytes. Wall and processor seconds: on a busy machine the latter are the ones to compare.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reporting import cpu_model, write_report

from prover.circom.generator import WitnessGenerator
from prover.formats.wtns import read_wtns

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "tests" / "fixtures" / "snark" / "circuits" / "own.inc.circom"
RESULTS = Path(__file__).parent / "results"
CASES = {
    "pow of 2^10": ("component main {public [seed]} = PowChain(255);", {"seed": "3", "key": "5"}),
    "pow of 2^14": ("component main {public [seed]} = PowChain(4080);", {"seed": "3", "key": "5"}),
    "mix of 2^11": ("component main {public [w]} = BitMix(8);", {"w": [str(3**n) for n in range(8)]}),
    "mix of 2^15": ("component main {public [w]} = BitMix(180);", {"w": [str(7**n % 2**64) for n in range(180)]}),
}
WITHIN_S = 2.0
"""How long the loops of one measurement take, about."""

NODE = """
const fs = require("fs");
const [wasm, calculator, input, count] = process.argv.slice(2);
require(calculator)(fs.readFileSync(wasm)).then(async (wc) => {
  const read = () => JSON.parse(fs.readFileSync(input, "utf8"));
  await wc.calculateWTNSBin(read(), 0);
  const cpu = process.cpuUsage(), began = process.hrtime.bigint();
  for (let i = 0; i < Number(count); i++) await wc.calculateWTNSBin(read(), 0);
  const wall = Number(process.hrtime.bigint() - began) / 1e9, used = process.cpuUsage(cpu);
  console.log(JSON.stringify([wall / count, (used.user + used.system) / 1e6 / count]));
});
"""

Seconds = tuple[float, float]
"""Wall and processor, a witness."""


def ours(generator: WitnessGenerator, path: Path, count: int, threads: int) -> Seconds:
    """In this process; the wall time is that of all threads together, divided by all witnesses."""

    def work() -> None:
        for _ in range(count):
            generator.witness_of_file(path)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    before, began = time.process_time(), time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    made = count * threads
    return (time.perf_counter() - began) / made, (time.process_time() - before) / made


def process(command: list[str]) -> Seconds:
    """A whole process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compiled(tools: Path, folder: Path, main: str, inputs: dict[str, Any]) -> tuple[Path, Path, Path]:
    """The generator, circom's calculator and the input file of a circuit."""
    folder.mkdir()
    (folder / TEMPLATES.name).write_bytes(TEMPLATES.read_bytes())
    (folder / "c.circom").write_text(f'pragma circom 2.1.0;\ninclude "./{TEMPLATES.name}";\n{main}\n')
    subprocess.run(
        [str(tools / "circom2"), "c.circom", "--wasm", "--O2", "-o", "."], cwd=folder, check=True, capture_output=True
    )
    path = folder / "input.json"
    path.write_text(json.dumps(inputs))
    return folder / "c_js" / "c.wasm", folder / "c_js" / "witness_calculator.js", path


def measure(tools: Path, folder: Path, main: str, inputs: dict[str, Any], runs: int) -> dict[str, Any]:
    """One circuit."""
    wasm, calculator, path = compiled(tools, folder, main, inputs)
    script, wtns = folder / "loop.cjs", folder / "out.wtns"
    script.write_text(NODE)
    began = time.perf_counter()
    generator = WitnessGenerator.open(wasm)
    open_s = time.perf_counter() - began
    one = ours(generator, path, 1, 1)[0]
    count = max(3, int(WITHIN_S / max(one, 1e-4)))
    snarkjs = [str(tools / "snarkjs"), "wtns", "calculate", str(wasm), str(path), str(wtns)]
    node = ["node", str(script), str(wasm), str(calculator), str(path), str(count)]

    def loop() -> Seconds:
        wall, cpu = json.loads(subprocess.run(node, check=True, capture_output=True, text=True).stdout)
        return wall, cpu

    ways: dict[str, Callable[[], Seconds]] = {
        "ours": lambda: ours(generator, path, count, 1),
        "ours, 2 threads": lambda: ours(generator, path, count, 2),
        "node": loop,
        "snarkjs": lambda: process(snarkjs),
    }
    found: dict[str, list[Seconds]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, run in ways.items():
            found[way].append(run())
    assert generator.witness_of_file(path).tobytes() == bytes(read_wtns(wtns).values), "the bytes differ"
    return {
        "wires": generator.wires,
        "inputs": generator.inputs,
        "wasm_bytes": wasm.stat().st_size,
        "open_s": open_s,
        "witnesses_a_run": count,
        "seconds_a_witness": {
            way: {
                "wall": statistics.median(wall for wall, _ in times),
                "processor": statistics.median(cpu for _, cpu in times),
            }
            for way, times in found.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True, help="folder with circom2 and snarkjs")
    parser.add_argument("--runs", type=int, default=5)
    today = datetime.datetime.now(datetime.UTC).date()
    parser.add_argument("--out", type=Path, default=RESULTS / f"circom_witness_{today}.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        circuits = {}
        for number, (name, (source, inputs)) in enumerate(CASES.items()):
            circuits[name] = measure(args.tools.resolve(), Path(folder) / str(number), source, inputs, args.runs)
            print(name, json.dumps(circuits[name]["seconds_a_witness"]))
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    report = {
        "date": str(today),
        "processor": cpu_model(),
        "python": platform.python_version(),
        "wasmtime": version("wasmtime"),
        "node": node,
        "runs": args.runs,
        "circuits": circuits,
    }
    write_report(args.out, report)


if __name__ == "__main__":
    main()
