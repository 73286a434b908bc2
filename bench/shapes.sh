#!/usr/bin/env bash
# Single convolutions of shapes that no model here has, forward and both gradients, in dptrain and in
# PyTorch at its better of contiguous and channels_last, alternately; a Markdown table with the
# geometric mean of the ratios.
#
#     bench/shapes.sh [--threads N] [--batch-size N] [--runs N]
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
ops=${DPTRAIN_BENCH_OPS:-$(dirname "$DPTRAIN")/../bench/bench-ops}
export DPTRAIN_BACKEND_PATH=${DPTRAIN_BACKEND_PATH:-$(dirname "$DPTRAIN")/../lib/dptrain}
exec "$python" "$root/bench/shapes.py" --ops "$ops" "$@"
