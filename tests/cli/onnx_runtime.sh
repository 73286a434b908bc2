#!/usr/bin/env bash
# Exported networks in ONNX Runtime (tests/onnx/check_export.py), where there is a Python that has it:
# $DPTRAIN_TEST_PYTHON, or python3.
. "$SRC/tests/cli/kit.bash"

python=${DPTRAIN_TEST_PYTHON:-python3}
if ! "$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
    echo "skipped: $python has no numpy, onnx and onnxruntime; set DPTRAIN_TEST_PYTHON"
    exit 77
fi
mkdir kept
DPTRAIN_EXPORT_KEEP=$PWD/kept "$(dirname "$DPTRAIN")/../tests/bin/test-train-onnx_export" \
    small files opset >export.txt || fail "$(cat export.txt)"
check "ONNX Runtime computes the same" "$python" -B "$SRC/tests/onnx/check_export.py" kept
finish
