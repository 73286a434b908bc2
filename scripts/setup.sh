# Finds out which packages are missing and installs them, saying what and why first.
# Sourced by quickstart.sh and test.sh; knows Debian and Ubuntu, and elsewhere names what is missing.

setup_packages=()  # missing packages
setup_reasons=()   # why each is needed

# setup_want PACKAGE REASON: notes a missing package.
setup_want() {
    setup_packages+=("$1")
    setup_reasons+=("$2")
}

# setup_need_command COMMAND PACKAGE REASON
setup_need_command() {
    command -v "$1" >/dev/null 2>&1 || setup_want "$2" "$3"
}

# setup_need_header HEADER PACKAGE REASON: asks the compiler if there is one, else looks.
setup_need_header() {
    if command -v cc >/dev/null 2>&1; then
        printf '#include <%s>\n' "$1" | cc -E -x c - >/dev/null 2>&1 || setup_want "$2" "$3"
    elif [ ! -e "/usr/include/$1" ]; then
        setup_want "$2" "$3"
    fi
}

# setup_need_library SONAME PACKAGE REASON
setup_need_library() {
    PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -qF "$1" || setup_want "$2" "$3"
}

# setup_need_link NAME PACKAGE REASON: a library that programs can be linked to.
setup_need_link() {
    local file
    for file in /usr/lib*/*/"lib$1.so" /usr/lib*/"lib$1.so" /usr/local/lib*/"lib$1.so"; do
        if [ -e "$file" ]; then return; fi
    done
    setup_want "$2" "$3"
}

# What it takes to build dptrain and to run it on CPUs.
setup_need_build() {
    setup_need_command gcc gcc "the C compiler; brings libgomp, OpenMP's run-time library"
    setup_need_header stdlib.h libc6-dev "the C library's headers"
    setup_need_command cmake cmake "the build system (3.20 or newer)"
    setup_need_command ninja ninja-build "runs the build"
    setup_need_command pkg-config pkg-config "finds libraries"
    setup_need_header libdeflate.h libdeflate-dev "unpacks gzipped data"
    setup_need_header jansson.h libjansson-dev "reads JSON"
    setup_need_header nettle/sha2.h nettle-dev "computes checksums of weights (SHA-256)"
    setup_need_header png.h libpng-dev "reads PNG images"
    setup_need_header jpeglib.h libjpeg-dev "reads JPEG images"
    setup_need_header webp/demux.h libwebp-dev "reads WebP images"
    setup_need_header gif_lib.h libgif-dev "reads GIF images"
    setup_need_header tiffio.h libtiff-dev "reads TIFF images"
    setup_need_header protobuf-c/protobuf-c.h libprotobuf-c-dev "decodes ONNX files"
    setup_need_command protoc protobuf-compiler "reads the schema of ONNX files"
    setup_need_command protoc-gen-c protobuf-c-compiler "makes the decoder of ONNX files"
}

# Any OpenBLAS but Debian's serial one, which is not safe to call from several threads.
setup_need_run() {
    local library
    for library in /usr/lib*/*/openblas-pthread/libopenblas.so.0 \
                   /usr/lib*/*/openblas-openmp/libopenblas.so.0; do
        if [ -e "$library" ]; then return; fi
    done
    if command -v apt-get >/dev/null 2>&1; then
        setup_want libopenblas0-pthread "matrix products on CPUs"
    else
        setup_need_library libopenblas.so.0 openblas "matrix products on CPUs"
    fi
}

setup_need_fashion_mnist() {
    local folder
    for folder in "${DPTRAIN_DATA:+$DPTRAIN_DATA/fashion-mnist}" "${DPTRAIN_DATA:-}" \
                  "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dptrain/fashion-mnist" \
                  /usr/share/datasets/fashion-mnist; do
        if [ -n "$folder" ] && [ -e "$folder/train-images-idx3-ubyte.gz" ]; then return; fi
        if [ -n "$folder" ] && [ -e "$folder/train-images-idx3-ubyte" ]; then return; fi
    done
    setup_want dataset-fashion-mnist "the images to learn"
}

# An OpenCL driver: any that the loader finds, or PoCL.
setup_need_opencl_driver() {
    local file
    for file in /etc/OpenCL/vendors/*.icd; do
        if [ -e "$file" ]; then return; fi
    done
    setup_want pocl-opencl-icd "OpenCL on this machine's cores, so that its tests need no GPU"
}

# What the OpenCL backend is built with; dptrain builds and runs without.
setup_need_opencl() {
    setup_need_header CL/cl.h opencl-headers "OpenCL's headers"
    setup_need_link OpenCL ocl-icd-opencl-dev "OpenCL's loader, which finds drivers"
    setup_need_header clblast_c.h libclblast-dev "matrix products in OpenCL, beside our own"
}

# A browser that shows reports in tests, where apt has one that is no snap.
setup_need_browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$name" >/dev/null 2>&1; then return; fi
    done
    if apt-cache show chromium >/dev/null 2>&1; then
        setup_want chromium "shows reports of trainings in tests"
    fi
}

# What the whole test suite takes besides.
setup_need_test() {
    setup_need_opencl
    setup_need_opencl_driver
    setup_need_packages
    setup_need_command clang clang "the second compiler; sanitizers and fuzzers"
    setup_need_command llvm-symbolizer llvm "names functions for sanitizers"
    # For PyPI's clang-format, where the distribution's is another version.
    python3 -c 'import ensurepip' >/dev/null 2>&1 ||
        setup_want python3-venv "installs the formatter's pinned version"
    setup_need_command valgrind valgrind "checks memory use"
    setup_need_command python3 python3 "reads logs in tests"
    local module
    for module in numpy cffi pytest; do
        python3 -c "import $module" >/dev/null 2>&1 || /usr/bin/python3 -c "import $module" >/dev/null 2>&1 ||
            setup_want "python3-$module" "tests of the Python package"
    done
    setup_need_mpi
    setup_need_command mpirun openmpi-bin "starts several processes"
    setup_need_command ip iproute2 "makes several hosts of one machine"
    setup_need_command mandoc mandoc "checks man pages"
    setup_need_command zsh zsh "reads its completion"
    setup_need_command fish fish "reads its completion"
    setup_need_browser
    setup_need_command git git "lists the files to check"
}

# What makes a bare Debian of another release, where apt is; elsewhere that test is skipped.
setup_need_debian() {
    if ! command -v apt-get >/dev/null 2>&1; then return; fi
    setup_need_command debootstrap debootstrap "makes a bare Debian 13"
    if [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
        setup_want debian-archive-keyring "the keys that debootstrap checks Debian with"
    fi
}

# What the plug-in for several processes is built with.
setup_need_mpi() {
    setup_need_command mpicc libopenmpi-dev "MPI, for training in several processes"
}

# What makes Python packages.
setup_need_python() {
    setup_need_command python3 python3 "Python"
    python3 -c 'import ensurepip' >/dev/null 2>&1 || setup_want python3-venv "makes environments of Python"
}

# What makes Debian packages, where apt is.
setup_need_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then return; fi
    setup_need_command dpkg-shlibdeps dpkg-dev "finds the packages that a package depends on"
    setup_need_command file file "tells programs from other files, for packages"
}

setup_need_lintian() {
    if ! command -v apt-get >/dev/null 2>&1; then return; fi
    setup_need_command lintian lintian "checks Debian packages"
}

# Every version of clang-format formats differently, so one is pinned.
setup_formatter_version=14.0.6

# setup_formatter: prints the name of the pinned clang-format, if it is installed.
setup_formatter() {
    local name
    for name in clang-format "clang-format-${setup_formatter_version%%.*}"; do
        "$name" --version 2>/dev/null | grep -qF "version $setup_formatter_version" || continue
        echo "$name"
        return
    done
    return 1
}

# Where the distribution has it.  Asked when apt knows its packages; elsewhere it comes from PyPI.
setup_need_formatter() {
    local package=clang-format-${setup_formatter_version%%.*}
    if setup_formatter >/dev/null; then return; fi
    if apt-cache show "$package" 2>/dev/null | grep -q "^Version: .*$setup_formatter_version"; then
        setup_want "$package" "the formatter, in the pinned version"
    fi
}

# Packages whose names carry clang's version, which is known only when clang is there.
setup_need_clang_runtime() {
    local major
    major=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
    if [ -z "$major" ]; then return; fi
    if ! printf 'int main(void){return 0;}\n' |
        clang -fsanitize=address -x c - -o /dev/null >/dev/null 2>&1; then
        # Until version 14.0.0 the run-time libraries were part of the common package.
        if apt-cache show "libclang-rt-$major-dev" >/dev/null 2>&1; then
            setup_want "libclang-rt-$major-dev" "clang's sanitizers and fuzzer"
        else
            setup_want "libclang-common-$major-dev" "clang's sanitizers and fuzzer"
        fi
    fi
    if ! printf 'int main(void){return 0;}\n' |
        clang -fopenmp -x c - -o /dev/null >/dev/null 2>&1; then
        setup_want "libomp-$major-dev" "clang's OpenMP, with the part that ThreadSanitizer needs"
    fi
}

# Installs what was noted, or ends the script with the command to do it.
setup_install() {
    if [ ${#setup_packages[@]} -eq 0 ]; then return; fi
    local i run=()
    printf 'Missing packages:\n'
    for i in "${!setup_packages[@]}"; do
        printf '  %-24s %s\n' "${setup_packages[$i]}" "${setup_reasons[$i]}"
    done
    local install=(apt-get install -y --no-install-recommends "${setup_packages[@]}")
    if ! command -v apt-get >/dev/null 2>&1; then
        printf 'Please install them (the names are Debian'\''s) and try again.\n' >&2
        exit 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            printf 'Neither root nor sudo: please have this run as root, and try again:\n' >&2
            printf '  apt-get update && %s\n' "${install[*]}" >&2
            exit 1
        fi
        run=(sudo)
    fi
    printf 'Installing them: %s\n' "${run[*]:+${run[*]} }${install[*]}"
    if ! { ${run[@]+"${run[@]}"} apt-get -q update &&
           ${run[@]+"${run[@]}"} env DEBIAN_FRONTEND=noninteractive "${install[@]}"; } >&2; then
        printf 'That failed. Please have this run as root, and try again:\n' >&2
        printf '  apt-get update && %s\n' "${install[*]}" >&2
        exit 1
    fi
    setup_packages=()
    setup_reasons=()
}

# What the quick start trains: a recipe that reaches 0.88 in every run (0.885 to 0.895 were seen).
quickstart_recipe=(--model lenet --dataset fashion-mnist --epochs 5 --batch-size 64 --lr 0.03
                   --momentum 0.9 --nesterov --init he)

# Threads to build with: no more than the CPU quota of a container allows.
setup_jobs() {
    local jobs quota= period=
    jobs=$(nproc 2>/dev/null || echo 2)
    if [ -r /sys/fs/cgroup/cpu.max ]; then
        read -r quota period </sys/fs/cgroup/cpu.max || true
    elif [ -r /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
        read -r quota </sys/fs/cgroup/cpu/cpu.cfs_quota_us || true
        read -r period </sys/fs/cgroup/cpu/cpu.cfs_period_us || true
    fi
    case $quota$period in
    *[!0-9]* | '') ;; # "max", and -1: no quota
    *) [ $((quota / period)) -ge "$jobs" ] || jobs=$((quota / period)) ;;
    esac
    [ "$jobs" -ge 1 ] || jobs=1
    echo "$jobs"
}
