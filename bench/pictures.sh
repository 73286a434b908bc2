#!/usr/bin/env bash
# Trains on JPEG pictures in folders in PyTorch (ImageFolder and DataLoader) and in dptrain, with images
# in memory and read as they are needed, alternately, and prints images per second and their ratios.
#
#     bench/pictures.sh [MODEL] [--size N] [--batch-size N] [--steps N] [--runs N] [--threads N]
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
exec "$python" "$root/bench/pictures.py" --dptrain "$DPTRAIN" "$@"
