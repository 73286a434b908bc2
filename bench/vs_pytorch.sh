#!/usr/bin/env bash
# Trains the same model on the same data in PyTorch and in dptrain, alternately, and prints images
# per second, their ratio, peak memory and start-up time of both as a Markdown table.
#
#     bench/vs_pytorch.sh [MODEL] [--runs N] [--batch-size N] [--threads N] [--data DIR] [--quick] [--check]
#                         [--deterministic]
#                         [--device cuda:0 [--precision fp32|tf32|bf16,...] [--batch-size N,...]]
#
# --check fails unless dptrain keeps what it claims.
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
command -v g++ >/dev/null 2>&1 ||
    echo "bench: no g++, so torch.compile cannot be measured (apt-get install g++)" >&2
exec "$python" "$root/bench/vs_pytorch.py" --dptrain "$DPTRAIN" "$@"
