#!/usr/bin/env bash
# Training on an OpenCL device against this machine's `cpu`, in alternation, and how long the second
# start of a command takes.  Prints two sections of Markdown, "Training" and "Start-up".
#
#     bench/opencl.sh [--runs N] [--device opencl:0] [--only training|start-up] [--check]
#
# --check fails unless dptrain keeps what it claims (on PoCL): 0.25 of the CPU backend's ResNet-18,
# 3 times DLPrimitives' LeNet, a second start below 1 s.
#
# $DPTRAIN_BENCH_DLPRIM: the dlprim_benchmark of a build of DLPrimitives
# (github.com/artyom-beilis/dlprimitives), which then trains the same LeNet on the same device, the
# first of OpenCL's first platform.  With PoCL 3.1 it needs work_group_reduce_add replaced by its own
# reduction (src/kernels/reduce.h), and vstore4 by single stores (src/kernels/random.cl).  Without it that row is left out.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DPTRAIN=${DPTRAIN:-$root/build/bin/dptrain}
if [ ! -x "$DPTRAIN" ]; then
    echo "bench: no dptrain at $DPTRAIN; build it (scripts/quickstart.sh) or set DPTRAIN" >&2
    exit 1
fi
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_NUM_THREADS
export DPTRAIN DPTRAIN_RECIPE=${DPTRAIN_RECIPE-none} # what is measured is what the options say
exec python3 "$root/bench/opencl.py" "$@"
