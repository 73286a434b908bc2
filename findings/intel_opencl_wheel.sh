#!/usr/bin/env bash
# The wheel intel-opencl-rt 2026.2.0 on PyPI installs an OpenCL driver that no program can load.
#
# Two faults add up.  The files in etc/OpenCL/vendors, which tell the ICD loader where the driver is, name a folder
# that conda replaces when it installs its own package.  The wheel also carries conda's script that replaces the name;
# pip does not run it.  And the driver needs libsvml.so and libimf.so of the package intel-cmplr-lib-rt, which the
# wheel does not declare as a dependency.  With the true path and that package the driver loads.  The wheels 2024.0.3,
# 2024.1.2, 2024.2.2, 2025.0.5, 2025.1.1 and 2025.2.2 have the same two faults.
#
# Guess before the run: `pip install intel-opencl-rt` gives a driver that needs OCL_ICD_VENDORS and nothing more.
#
# Output seen (2026-11-28, Python 3.11, Linux x86-64, glibc 2.36):
#     intel-cpu.icd names /opt/anaconda1anaconda2anaconda3/lib/libintelocl.so, which does not exist
#     by its true path: libimf.so: cannot open shared object file: No such file or directory
#     with intel-cmplr-lib-rt: the driver loads
#
# What it means for dptrain: docs/devices.md says which packages to install, and how to point OCL_ICD_VENDORS and
# LD_LIBRARY_PATH to them.  A driver that cannot be loaded is reported as absent, with the loader's words.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed, 2 if the packages cannot be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet intel-opencl-rt==2026.2.0 || exit 2

named=$(cat "$folder/venv/etc/OpenCL/vendors/intel-cpu.icd")
[ ! -e "$named" ] || { echo "intel-cpu.icd names $named, which exists"; exit 1; }
echo "intel-cpu.icd names $named, which does not exist"

# Opens the driver as the ICD loader would if the file named it.
load() {
    LD_LIBRARY_PATH="$folder/venv/lib" "$folder/venv/bin/python" - "$folder"/venv/lib/libintelocl.so.[0-9]* <<'PYTHON'
import ctypes
import sys

try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(f"{error}")
PYTHON
}

if words=$(load 2>&1); then
    echo "by its true path: the driver loads"
    exit 1
fi
echo "by its true path: $words"
case $words in *libimf.so* | *libsvml.so*) ;; *) exit 1 ;; esac

"$folder/venv/bin/pip" install --quiet intel-cmplr-lib-rt==2026.2.0 || exit 2
words=$(load 2>&1) || { echo "with intel-cmplr-lib-rt: $words"; exit 1; }
echo "with intel-cmplr-lib-rt: the driver loads"
