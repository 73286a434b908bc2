#!/usr/bin/env bash
# Checkpoints go to PyTorch and back (tests/golden/check_checkpoints.py), where there is a Python that
# has it: $DPTRAIN_TEST_PYTHON, or python3.
. "$SRC/tests/cli/kit.bash"

python=${DPTRAIN_TEST_PYTHON:-python3}
if ! "$python" -c 'import numpy, safetensors.torch, torch, torchvision' 2>/dev/null; then
    echo "skipped: $python has no torch, torchvision, safetensors and numpy; set DPTRAIN_TEST_PYTHON"
    exit 77
fi
check "checkpoints to PyTorch and back" "$python" -B "$SRC/tests/golden/check_checkpoints.py" \
    "$(dirname "$DPTRAIN")/../tests/bin/test-train-golden_models"
finish
