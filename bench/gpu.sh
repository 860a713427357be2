#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU: the tests, memory and race checks at small sizes, the benchmarks.
#   bench/gpu.sh [FOLDER]     results go to FOLDER (build/gpu): *.jsonl, what the driver answered (nvml.json), and the logs of what ran
# The host library must be built and CuPy installed (pip install -e '.[dev,cuda13]'). PYTHON names another interpreter.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
out=${1:-build/gpu}
mkdir -p "$out"
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
failed=0

step() {
  local name=$1
  shift
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "$out/$name.log"
  local status=${PIPESTATUS[0]}
  [ "$status" = 0 ] || { echo "== $name failed ($status)"; failed=1; }
}

# A checker that the machine's runtime refuses is no failure of ours; its words are in the log.
check() {
  local tool=$1
  if ! command -v compute-sanitizer >/dev/null; then
    echo "no compute-sanitizer here: $tool is left out" | tee "$out/$tool.log"
    return
  fi
  step "$tool" timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 9 "$python" bench/gpu_small.py
  ! grep -q "Device not supported" "$out/$tool.log" || echo "the runtime refuses compute-sanitizer: not checked"
}

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv | tee "$out/gpu.csv"
step nvml "$python" bench/nvml_record.py --out "$out/nvml.json" --seconds 20
step tests "$python" -m pytest -q -m gpu -p no:cacheprovider tests/prover/test_cuda_*.py
step proofs "$python" bench/gpu_proof.py --out "$out"
step kernels "$python" bench/gpu_kernels.py --out "$out"
step msm timeout 300 "$python" bench/gpu_msm.py --out "$out/msm.json"
step engine "$python" bench/gpu_engine.py --out "$out/engine.json"
check memcheck
check racecheck
exit "$failed"
