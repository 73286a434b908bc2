#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds, and trains LeNet on
# Fashion-MNIST for 5 epochs on all CPU cores.  Options go to dptrain:
#     scripts/quickstart.sh --epochs 1 --devices cpu,cpu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

setup_need_build
setup_need_run
setup_need_fashion_mnist
setup_install

# Kernels for the cards that are here; for those of all generations they take much longer to compile.
cards=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
if nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -q '[0-9]'; then
    cards=-DDPTRAIN_CUDA_ARCHITECTURES=native
fi

echo "Building in build/"
mkdir -p build
if [ ! -e build/CMakeCache.txt ]; then # an older build folder keeps its own settings
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "$cards" \
          -DDPTRAIN_TESTS=OFF -DDPTRAIN_BENCH=OFF -DDPTRAIN_EXAMPLES=OFF >build/configure.log 2>&1 ||
        { cat build/configure.log >&2; rm -f build/CMakeCache.txt; exit 1; }
fi
cmake --build build -j "$(setup_jobs)"

run=runs/quickstart
mkdir -p "$run"
echo "Training; results go to $run/"
exec build/bin/dptrain --devices cpu --checkpoint "$run" --log "$run/log.jsonl" --plot "$run/plot.svg" "$@"
