#!/usr/bin/env bash
# Twenty networks from ONNX files, beside PyTorch and ONNX Runtime: networks.sh --help.
set -euo pipefail
. "$(dirname "$0")/venv.bash"
if ! "$python" -c 'import onnx, onnxscript, onnxruntime' 2>/dev/null; then
    echo "bench: installing onnx, onnxscript and onnxruntime from PyPI into $venv" >&2
    "$venv/bin/pip" install --quiet onnx onnxscript onnxruntime
fi
exec "$python" "$root/bench/networks.py" --dptrain "$DPTRAIN" "$@"
