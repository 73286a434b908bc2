#!/usr/bin/env bash
# run.sh PACKAGE FILE...: runs tests of the Python package by pytest.  PACKAGE is the folder that
# holds the package.
#
# $DPTRAIN_TEST_PYTHON, or else python3 or the distribution's python3, needs numpy, cffi and pytest;
# otherwise the test is skipped.  If the library has a sanitizer, $DPTRAIN_TEST_PRELOAD is the path of
# the address sanitizer's library, or the test is skipped.
set -euo pipefail

needed='import numpy, cffi, pytest'
python=${DPTRAIN_TEST_PYTHON:-python3}
if [[ -z ${DPTRAIN_TEST_PYTHON:-} ]] && ! python3 -c "$needed" 2>/dev/null && /usr/bin/python3 -c "$needed" 2>/dev/null; then
    python=/usr/bin/python3
fi
package=$1
shift
for module in numpy cffi pytest; do
    if ! "$python" -c "import $module" 2>/dev/null; then
        echo "skipped: $python has no $module; set DPTRAIN_TEST_PYTHON to a Python with numpy, cffi and pytest"
        exit 77
    fi
done
if [[ ! -e $package/dptrain/_declarations.py ]]; then
    echo "skipped: there is no package in $package, because CMake found no Python 3"
    exit 77
fi
cd "$(dirname "$0")"
# The package finds the library and the plug-ins of its own build.
unset DPTRAIN_LIBRARY DPTRAIN_BACKEND_PATH
if [[ -n ${DPTRAIN_TEST_PRELOAD:-} ]]; then
    if [[ ! -e $DPTRAIN_TEST_PRELOAD ]]; then
        echo "skipped: the library has a sanitizer that a program without it cannot load"
        exit 77
    fi
    # The interpreter keeps memory until it ends.
    export LD_PRELOAD=$DPTRAIN_TEST_PRELOAD ASAN_OPTIONS=detect_leaks=0
fi
status=0
PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -rs "$@" || status=$?
# pytest's status 5: all tests of the files were skipped or deselected.
[[ $status == 5 ]] && exit 77
exit "$status"
