#!/usr/bin/env bash
# Builds Debian packages for the release of Debian or Ubuntu that it runs on, and checks them with lintian:
#
#     scripts/deb.sh [--no-lintian] [FOLDER]   the packages come into FOLDER (default: build-deb/packages)
#     apt install ./build-deb/packages/*.deb
#
# It installs what is missing for building.  The packages are dptrain (the command), libdptrain0, libdptrain-dev,
# and one for each plug-in that can be built here: dptrain-backend-opencl, dptrain-backend-cuda, dptrain-mpi.
# Environment: DPTRAIN_DEB_BUILD (build folder; default build-deb), DPTRAIN_DEB_OPTIONS (options of CMake).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

with_lintian=yes
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --no-lintian) with_lintian=no; shift ;;
    -*) echo "deb.sh: unknown option $1; see --help" >&2; exit 2 ;;
    *) break ;;
    esac
done

setup_need_build
setup_need_opencl
setup_need_mpi
setup_need_packages
[ $with_lintian = no ] || setup_need_lintian
setup_install

build=${DPTRAIN_DEB_BUILD:-build-deb}
packages=${1:-$build/packages}
# The date of the last commit is that of the packages, so that the same sources give the same packages.
if [ -z "${SOURCE_DATE_EPOCH:-}" ] && date=$(git log -1 --format=%ct 2>/dev/null); then
    export SOURCE_DATE_EPOCH=$date
fi
# Debian's loader finds the library without a path in the program.
# shellcheck disable=SC2086
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_SKIP_INSTALL_RPATH=ON -DDPTRAIN_TESTS=OFF -DDPTRAIN_BENCH=OFF -DDPTRAIN_EXAMPLES=OFF \
    ${DPTRAIN_DEB_OPTIONS:-}
cmake --build "$build" -j "$(setup_jobs)"
rm -rf "$packages"
(cd "$build" && cpack -G DEB -B made-packages)
mkdir -p "$packages"
mv "$build"/made-packages/*.deb "$packages/"
rm -r "$build/made-packages"
(cd "$packages" && du -h ./*.deb)
if [ $with_lintian = no ]; then exit; fi
# lintian refuses to run as root unless it is told that it may.
lintian_root=()
if [ "$(id -u)" -eq 0 ]; then lintian_root=(--allow-root); fi
lintian "${lintian_root[@]}" --fail-on error "$packages"/*.deb
