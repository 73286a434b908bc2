#!/usr/bin/env bash
# Language models beside PyTorch: text.sh --help.
set -euo pipefail
# shellcheck source=bench/venv.bash
. "$(dirname "${BASH_SOURCE[0]}")/venv.bash"
exec "$python" "$root/bench/text.py" --dptrain "$DPTRAIN" "$@"
