#!/usr/bin/env bash
# The node tests of the package onnx (tests/onnx/node_tests.py), where there is a Python that has it:
# $DPTRAIN_TEST_PYTHON, or python3.  $DPTRAIN_TEST_NODE_DEVICES names the devices of the run.
. "$SRC/tests/cli/kit.bash"

python=${DPTRAIN_TEST_PYTHON:-python3}
if ! "$python" -c 'import numpy, onnx.backend.test' 2>/dev/null; then
    echo "skipped: $python has no numpy and onnx; set DPTRAIN_TEST_PYTHON"
    exit 77
fi
check "no node test has a wrong result" "$python" -B "$SRC/tests/onnx/node_tests.py" \
    "$(dirname "$DPTRAIN")/../tests/bin/test-onnx-predict-list" "${DPTRAIN_TEST_NODE_DEVICES:-cpu}"
finish
