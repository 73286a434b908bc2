#!/usr/bin/env bash
# The textbook's recipe in dptrain and in PyTorch, over several seeds: do both learn alike?
#
#     bench/textbook.sh [--seeds N] [--epochs N] [--threads N] [--data DIR]
#
# LeNet, all weights N(0, 0.01^2), biases 0, batch 256, plain SGD with rate 0.2, 10 epochs.  Prints test
# accuracies as a Markdown table and fails if the means differ by more than 0.02.
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
exec "$python" "$root/bench/textbook.py" --dptrain "$DPTRAIN" "$@"
