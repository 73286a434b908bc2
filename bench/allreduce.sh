#!/usr/bin/env bash
# All-reduce of float32 between two CPU devices: ours in one process and in two through MPI, beside
# Open MPI's own MPI_Allreduce and PyTorch's gloo between two processes, in turns in one run.
#
#     bench/allreduce.sh [ROUNDS]
#
# Prints a Markdown table of the medians over the rounds (3).
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
exec "$python" "$root/bench/allreduce.py" "$DPTRAIN" "$root/build/bench/bench-allreduce-mpi" "$@"
