# Sourced: sets `root`, DPTRAIN and `python`, an interpreter that has PyTorch.
# DPTRAIN is that of build/bin unless set; PyTorch comes from PyPI into a virtual environment,
# $DPTRAIN_BENCH_VENV, or .venv here.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Settings that slow a BLAS down say nothing about the programs.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_NUM_THREADS MKL_NUM_THREADS
export DPTRAIN_RECIPE=${DPTRAIN_RECIPE-none} # what is measured is what the options say

DPTRAIN=${DPTRAIN:-$root/build/bin/dptrain}
if [ ! -x "$DPTRAIN" ]; then
    echo "bench: no dptrain at $DPTRAIN; build it (scripts/quickstart.sh) or set DPTRAIN" >&2
    exit 1
fi
venv=${DPTRAIN_BENCH_VENV:-$root/.venv}
python=$venv/bin/python
if [ ! -x "$python" ]; then
    echo "bench: creating a virtual environment in $venv" >&2
    python3 -m venv "$venv" || {
        echo "bench: that failed; install it with: apt-get install python3-venv" >&2
        exit 1
    }
fi
if ! "$python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, ("torch", "torchvision", "numpy"))))'; then
    echo "bench: installing torch, torchvision and numpy from PyPI into $venv" >&2
    "$venv/bin/pip" install --quiet torch torchvision numpy
fi
