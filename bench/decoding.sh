#!/usr/bin/env bash
# Reads pictures of 500x375 into memory in dptrain and with torchvision's decoder (Pillow where torchvision has none),
# alternately, for each format, and prints pictures per second and their ratios.
#
#     bench/decoding.sh [--pictures N] [--runs N] [--turns N] [--threads N] [--check] [FORMAT...]
#
# --check: exit status 1 unless dptrain has at least 1.0 times the speed for JPEG and 0.8 times for each other format.
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
exec "$python" "$root/bench/decoding.py" --program "$root/build/bench/bench-decoding" "$@"
