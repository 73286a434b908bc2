#!/usr/bin/env bash
# dptrain from Python beside DataParallel, Lightning and Keras (docs/python.md, "Side by side").
#
#     bench/python_peers.sh [PROGRAM...] [--runs N] [--check]     time, memory and accuracy, in turns
#     bench/python_peers.sh refusals                              uneven shares, devices of two kinds
#
# Packages that are missing come from PyPI into the virtual environment of bench/venv.bash.
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
export PYTHONPATH=${DPTRAIN_BENCH_PACKAGE:-$root/build/python} KERAS_BACKEND=torch JAX_PLATFORMS=cpu
missing=$("$python" -c 'import importlib.util as u
print(*[p for p in ("cffi", "onnxscript", "lightning", "keras", "jax") if u.find_spec(p) is None])')
if [ -n "$missing" ]; then
    echo "bench: installing $missing from PyPI into $venv" >&2
    # shellcheck disable=SC2086 # a list of names
    "$venv/bin/pip" install --quiet $missing
fi
if [ "${1-}" = refusals ]; then
    exec "$python" "$root/bench/python_refusals.py"
fi
exec "$python" "$root/bench/python_programs.py" "$@"
