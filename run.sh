#!/usr/bin/env bash
# Everything from a fresh checkout: makes .venv, builds and installs, then runs.
#   ./run.sh [ARGUMENTS]        cuzk-top with these arguments (none: the console on the built-in circuit)
#   ./run.sh test [ARGUMENTS]   the tests, with pytest's arguments
set -euo pipefail
root=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "run.sh: $1" >&2
  exit 3
}

python=""
for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
  if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is missing: install it (Debian: apt-get install python3), or set PYTHON"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "Python's venv module is missing: install it (Debian: apt-get install python3-venv)"
compiler=${CXX:-}
for candidate in c++ g++ clang++; do
  [ -n "$compiler" ] || ! command -v "$candidate" >/dev/null 2>&1 || compiler=$candidate
done
[ -n "$compiler" ] || fail "a C++ compiler is missing: install one (Debian: apt-get install g++)"

want=run
if [ "${1:-}" = test ]; then
  want=test
  shift
fi

# The environment is remade when the interpreter, the metadata or a native source changed since it was made.
digest=$(cd "$root" && { "$python" -VV; cat pyproject.toml prover/kernels/*.* prover/kernels/host/*.*; } | cksum)
have() { [ -f "$root/.venv/.cuzk-top-$1" ] && [ "$(cat "$root/.venv/.cuzk-top-$1")" = "$digest" ]; }

# What takes a while says so, and on a terminal how long it has taken.
patiently() {
  local what=$1 log=$2 began=$SECONDS
  shift 2
  echo "run.sh: $what (its output: $log)" >&2
  "$@" >>"$log" 2>&1 &
  local job=$!
  trap 'kill "$job" 2>/dev/null; exit 130' INT TERM
  while [ -t 2 ] && kill -0 "$job" 2>/dev/null; do
    printf '\r  %d s ' $((SECONDS - began)) >&2
    sleep 1
  done
  local status=0
  wait "$job" || status=$?
  trap - INT TERM
  [ ! -t 2 ] || printf '\r' >&2
  return "$status"
}

prepare() (
  cd "$root"
  if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
    rm -rf .venv
    "$python" -m venv .venv || fail "could not make .venv: see the lines above"
  fi
  extra=""
  [ "$want" = run ] || extra="[dev]"
  log=.venv/install.log
  : >"$log"
  patiently "installing and building the host library, once, one to three minutes" "$log" \
    .venv/bin/python -m pip install --disable-pip-version-check -e ".$extra" || {
    tail -n 25 "$log" >&2
    fail "the installation failed: the whole log is $root/$log"
  }
  rm -f .venv/.cuzk-top-*
  echo "$digest" >.venv/.cuzk-top-run
  [ "$want" = run ] || echo "$digest" >.venv/.cuzk-top-test
)
have "$want" || prepare

if [ "$want" = test ]; then
  cd "$root"
  exec .venv/bin/python -m pytest "$@"
fi
exec "$root/.venv/bin/cuzk-top" "$@"
