#!/usr/bin/env bash
# The ids of the package tokenizers on text of this machine (tests/text/compare.py), where there is a
# Python that has it: $DPTRAIN_TEST_PYTHON, or python3.
. "$SRC/tests/cli/kit.bash"

python=${DPTRAIN_TEST_PYTHON:-python3}
library=$(dirname "$DPTRAIN")/../lib/libdptrain.so
if ! "$python" -c 'import tokenizers' 2>/dev/null; then
    echo "skipped: $python has no tokenizers; set DPTRAIN_TEST_PYTHON"
    exit 77
fi
if ! "$python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$library" 2>/dev/null; then
    echo "skipped: $python cannot load $library"
    exit 77
fi
check "the ids of tokenizers" "$python" -B "$SRC/tests/text/compare.py" "$library" 2
finish
