#!/usr/bin/env bash
# Trains the same model on the same data in PyTorch and in dptrain, alternately, and prints images
# per second, their ratio, peak memory and start-up time of both as a Markdown table.
#
#     bench/vs_pytorch.sh [MODEL] [--runs N] [--batch-size N] [--threads N] [--data DIR] [--check]
#
# Takes the dptrain of build/bin, or $DPTRAIN.  PyTorch comes from PyPI into a virtual environment:
# $DPTRAIN_BENCH_VENV, or .venv here.  --check fails unless dptrain keeps what it claims.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Settings that slow a BLAS down say nothing about the programs.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_NUM_THREADS MKL_NUM_THREADS

DPTRAIN=${DPTRAIN:-$root/build/bin/dptrain}
if [ ! -x "$DPTRAIN" ]; then
    echo "vs_pytorch: no dptrain at $DPTRAIN; build it (scripts/quickstart.sh) or set DPTRAIN" >&2
    exit 1
fi
venv=${DPTRAIN_BENCH_VENV:-$root/.venv}
if [ ! -x "$venv/bin/python" ]; then
    echo "vs_pytorch: creating a virtual environment in $venv" >&2
    python3 -m venv "$venv" || {
        echo "vs_pytorch: that failed; install it with: apt-get install python3-venv" >&2
        exit 1
    }
fi
if ! "$venv/bin/python" -c 'import importlib.util as u, sys
sys.exit(not (u.find_spec("torch") and u.find_spec("numpy")))'; then
    echo "vs_pytorch: installing torch and numpy from PyPI into $venv" >&2
    "$venv/bin/pip" install --quiet torch numpy
fi
command -v g++ >/dev/null 2>&1 ||
    echo "vs_pytorch: no g++, so torch.compile cannot be measured (apt-get install g++)" >&2

exec "$venv/bin/python" "$root/bench/vs_pytorch.py" --dptrain "$DPTRAIN" "$@"
