#!/usr/bin/env bash
# Installs what testing takes, builds with two compilers and three sets of sanitizers, and runs the
# test suite.  The last line is "N passed, N failed, N skipped"; the exit status is 0 if none failed.
#
#     scripts/test.sh [TIER]
#
#     --quick      gcc, the tests of the day: about 17 minutes on two cores
#     (none)       what must pass before a change goes in: about 25 minutes on two cores
#     --nightly    also the tests that take minutes, kernels under the sanitizers, ten minutes a
#                  fuzzer, ten million runs of that of ONNX files, ThreadSanitizer over all tests, valgrind over the unit tests, a build
#                  without OpenCL and CUDA, 500 trainings killed and resumed, ten minutes of soak, how
#                  much of the readers is tested, both commands of the README in a bare Debian 13, and
#                  Debian packages and a wheel, made, installed and used in a bare Debian 12 and 13
#     --release    the same with an hour a fuzzer
#
# By day most tests run once: in the release build, or with the sanitizers for addresses and undefined
# behaviour.  CTest's labels say which (tests/CMakeLists.txt): release-by-day and sanitizers-by-day.  A test
# without these labels is short and runs in both builds.  With --quick, which builds no sanitizers, the
# release build runs the tests of both labels.  By night every test runs in both builds.
#
# A warning is an error only with the pinned compilers, gcc 12 and clang 14.  Other versions warn about
# other code, and a user who has one of them shall not be stopped by a warning.
#
# Environment: DPTRAIN_FUZZ_SECONDS (per fuzzer), DPTRAIN_TEST_BUILD (folder; default build-test).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

tier=ci
for argument in "$@"; do
    case $argument in
    --quick | --nightly | --release) tier=${argument#--} ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: unknown option $argument; see --help" >&2; exit 2 ;;
    esac
done
case $tier in
nightly) fuzz_seconds=600 ;;
release) fuzz_seconds=3600 ;;
*) fuzz_seconds=5 ;; # forty seconds of all
esac
case $tier in
nightly | release) export DPTRAIN_TEST_EVERY=${DPTRAIN_TEST_EVERY:-1} ;; # of what is tried one by one
esac
fuzz_seconds=${DPTRAIN_FUZZ_SECONDS:-$fuzz_seconds}

setup_need_build
setup_need_run
setup_need_fashion_mnist
setup_need_test
case $tier in
nightly | release)
    setup_need_command oclgrind oclgrind "interprets OpenCL kernels, and finds races"
    setup_need_debian
    ;;
esac
setup_install
setup_need_clang_runtime
setup_need_formatter
setup_install

source=$PWD
mkdir -p "${DPTRAIN_TEST_BUILD:-build-test}" || exit 1
work=$(cd "${DPTRAIN_TEST_BUILD:-build-test}" && pwd)
mkdir -p "$work/no-vendors" || exit 1
jobs=$(setup_jobs)
passed=0 failed=0 skipped=0
failures=()
# A missing device skips its tests; the CPU is never missing, and PoCL and MPI are installed above.
export DPTRAIN_TEST_REQUIRE=${DPTRAIN_TEST_REQUIRE:-cpu,opencl,mpi}

# ---- Counting ----------------------------------------------------------------------------------

# check NAME COMMAND...: one test; its output goes to a log that is shown if it fails.  Status 77: it is
# skipped, and the last line of its output is the reason.
check() {
    local name=$1 log start=$SECONDS status
    shift
    log=$work/$(tr -c 'A-Za-z0-9\n' '-' <<<"$name").log
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        printf 'passed   %-58s %4d s\n' "$name" $((SECONDS - start))
    elif [ $status -eq 77 ]; then
        skipped=$((skipped + 1))
        printf 'skipped  %-58s %4d s  (%s)\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$log")"
        return 0
    else
        failed=$((failed + 1))
        failures+=("$name")
        printf 'FAILED   %-58s %4d s  (status %d; %s)\n' "$name" $((SECONDS - start)) $status "$log"
        tail -n 40 "$log" | sed 's/^/    /'
    fi
    return $status
}

# junit FILE ATTRIBUTE: a number of the test suite element; 0 without the file.
junit() {
    local number
    number=$(sed -n "s/.*\b$2=\"\([0-9]*\)\".*/\1/p" "$1" 2>/dev/null | head -n 1)
    echo "${number:-0}"
}

# suite TREE ARGUMENT...: the tests of a build tree, counted one by one.
suite() {
    local tree=$1 result=$work/$1.xml log=$work/$1-tests.log start=$SECONDS status all bad off
    shift
    rm -f "$result"
    # More than there are cores: many wait for a device that hangs, a signal, another process.
    ctest --test-dir "$work/$tree" -j $((jobs + 4)) --output-on-failure --no-tests=error \
        --output-junit "$result" "$@" >"$log" 2>&1 </dev/null
    status=$?
    all=$(junit "$result" tests) bad=$(junit "$result" failures)
    off=$(($(junit "$result" skipped) + $(junit "$result" disabled)))
    if [ ! -e "$result" ] || { [ $status -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        all=1 bad=1 off=0 # nothing ran, or what should run is not there
    fi
    passed=$((passed + all - bad - off)) failed=$((failed + bad)) skipped=$((skipped + off))
    printf '%-8s %-58s %4d s\n' "$([ "$bad" -eq 0 ] && echo passed || echo FAILED)" \
        "$tree: $((all - bad - off)) of $all tests, $off skipped" $((SECONDS - start))
    if [ "$bad" -ne 0 ]; then
        failures+=("$tree: $bad tests")
        # The output of the tests that failed, and their list.
        awk '/^ *[0-9]+\/[0-9]+ Test/ { show = /\*\*\*/ } /^ +Start +[0-9]/ { next }
             /^The following tests/ { show = 1 } show' "$log" | sed 's/^/    /'
    fi
}

# ---- Building ----------------------------------------------------------------------------------

# One generation of cards is enough where no card runs what is compiled; all of them take ten minutes and
# are for the nightly tier.  What no test of a build looks at is not compiled.
one_card=-DDPTRAIN_CUDA_ARCHITECTURES=75
no_card=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
# Where there is no card, kernels are compiled to find their mistakes, and take half the time unoptimised.
quick_kernels=-DDPTRAIN_CUDA_QUICK=ON
if [ -e /dev/nvidiactl ]; then quick_kernels=-UDPTRAIN_CUDA_QUICK; fi

# warnings_are_errors CC: prints ON if CC is one of the pinned compilers, else OFF.
warnings_are_errors() {
    case $1-$("$1" -dumpversion | cut -d. -f1) in
    gcc-12 | clang-14) echo ON ;;
    *) echo OFF ;;
    esac
}

# build TREE CC OPTION...: all of it, or the target $only.
build() {
    local tree=$1 compiler=$2
    shift 2
    cmake -S "$source" -B "$work/$tree" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
        -DDPTRAIN_WERROR="$(warnings_are_errors "$compiler")" "$@" && cmake --build "$work/$tree" -j "$jobs" ${only:+--target $only}
}

# ---- Single checks -----------------------------------------------------------------------------

short_training=(train --dataset synthetic:28x28x1:10:320 --model lenet --batch-size 64 --epochs 1)
tiny_training=(train --dataset synthetic:16x16x1:10:80 --model lenet --batch-size 32 --epochs 1)

# Every version of clang-format formats differently, so one version is pinned (setup_formatter_version).
# The installed one is taken if it is that version; else PyPI's package of it is installed in the build
# folder.  Without either the check is skipped, but where the pinned compiler is: what it finds stops a
# change, as warnings do, and nobody who has another system.
formatter() {
    local bundle=/etc/ssl/certs/ca-certificates.crt program=$work/formatter/bin/clang-format
    if setup_formatter; then return; fi
    if [ ! -x "$program" ]; then
        # The system's certificates, where pip would take its own.
        if [ -e $bundle ]; then export PIP_CERT=${PIP_CERT:-$bundle}; fi
        { python3 -m venv "$work/formatter" &&
            "$work/formatter/bin/pip" install --quiet "clang-format==$setup_formatter_version"; } >&2 ||
            return
    fi
    echo "$program"
}

formatting() {
    local files program
    program=$(formatter) || {
        echo "clang-format $setup_formatter_version is neither installed nor to be had from PyPI"
        if [ "$(warnings_are_errors clang)" = ON ]; then return 1; fi
        return 77
    }
    files=$(git ls-files '*.c' '*.h' '*.cu' 2>/dev/null) || files=
    [ -n "$files" ] || files=$(find cli core models backends examples tests bench -name '*.[ch]' -o -name '*.cu')
    # shellcheck disable=SC2086
    "$program" --dry-run -Werror $files
}

# By night the fuzzer of ONNX files makes this many runs, divided among the cores; others run for a time.
onnx_runs=10000000

# New inputs go to a corpus of the build folder; what the project keeps is only read.
fuzzer() {
    local name=${1##*/} corpus kept dict less= limit=-max_total_time=$fuzz_seconds
    corpus=$work/corpus/$name
    kept=$source/tests/fuzz/corpus/${name#fuzz-}
    mkdir -p "$corpus"
    [ -d "$kept" ] || kept=$corpus
    dict=$source/tests/fuzz/${name#fuzz-}.dict
    [ -f "$dict" ] || dict=
    [ -z "${2:-}" ] || limit=-runs=$2
    # A run of the fuzzer of ONNX files frees less than 16 MiB, as a rule.  Keeping no more freed memory, and
    # two functions of each allocation, saves a fifth of the time.  A crash that is run again by hand shows all functions.
    [ "$name" != fuzz-onnx ] || less=:quarantine_size_mb=16:malloc_context_size=2
    # Without -error_exitcode a fault ends with status 77, which would count as a skip.
    (cd "$corpus" && ASAN_OPTIONS=${ASAN_OPTIONS:-}$less "$1" "$limit" -timeout=10 -rss_limit_mb=2048 \
        ${dict:+-dict="$dict"} -print_final_stats=1 -error_exitcode=1 \
        -artifact_prefix="$work/crash-$name-" "$corpus" "$kept")
}

# OpenCL's drivers bring a compiler each, which is not what is to be checked.
memory_check() {
    OCL_ICD_VENDORS=$work/no-vendors valgrind --quiet --fair-sched=try --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$@"
}

# Installs, moves the installation, and builds and runs an example against it, by pkg-config and by
# CMake.
installation() {
    local prefix=$work/installed user=$work/user version
    rm -rf "$prefix" "$prefix-first" "$user"
    mkdir -p "$user"
    cmake --install "$work/gcc-release" --prefix "$prefix-first" && mv "$prefix-first" "$prefix" ||
        return
    # Without a warning: plug-ins have found the programs that lie beside them.
    "$prefix/bin/dptrain" devices 2>"$user/devices.err" || return
    cat "$user/devices.err"
    [ ! -s "$user/devices.err" ] || return
    "$prefix/bin/dptrain" "${short_training[@]}" || return
    local pc
    pc=$(dirname "$(find "$prefix" -name dptrain.pc)")
    version=$(PKG_CONFIG_PATH=$pc pkg-config --modversion dptrain)
    # The SONAME says what find_package says: another minor version may have another API.
    [ -e "$(PKG_CONFIG_PATH=$pc pkg-config --variable=libdir dptrain)/libdptrain.so.${version%.*}" ] ||
        return
    # shellcheck disable=SC2046
    PKG_CONFIG_PATH=$pc gcc -std=c17 examples/scatter_allreduce.c -o "$user/by-pkg-config" \
        $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs dptrain) || return
    LD_LIBRARY_PATH=$(PKG_CONFIG_PATH=$pc pkg-config --variable=libdir dptrain) \
        "$user/by-pkg-config" | grep -F 'all-reduced on cpu: [3 3]' || return
    # The headers in C++, where there is a compiler of it, and a program that fills in a struct.
    if command -v g++ >/dev/null 2>&1; then
        cat >"$user/user.cpp" <<CPP
#include <dptrain_models.h>
#include <cstdio>
int main() {
    dpt_trainer_options options{};
    options.batch_size = 64;
    std::printf("dptrain %s, batches of %zu\\n", dpt_version(), options.batch_size); }
CPP
        # shellcheck disable=SC2046
        g++ -std=c++11 -Wall -Wextra -Wpedantic -Wold-style-cast -Werror "$user/user.cpp" \
            -o "$user/by-c++" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs dptrain) || return
        LD_LIBRARY_PATH=$(PKG_CONFIG_PATH=$pc pkg-config --variable=libdir dptrain) \
            "$user/by-c++" | grep -Fx "dptrain $version, batches of 64" || return
    fi
    [ -e "$prefix/share/doc/dptrain/docs/devices.md" ] || return
    cat >"$user/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(dptrain 0.2 REQUIRED)
add_executable(by-cmake $source/examples/scatter_allreduce.c)
target_link_libraries(by-cmake PRIVATE dptrain::dptrain)
CMAKE
    cmake -S "$user" -B "$user/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$user/build" || return
    "$user/build/by-cmake" | grep -F 'all-reduced on cpu: [3 3]'
}

# An installation without any plug-in says so.
no_plugins() {
    local prefix=$work/installed-bare
    rm -rf "$prefix"
    cp -r "$work/installed" "$prefix" || return
    rm -r "$(find "$prefix" -type d -path '*lib*/dptrain' -not -path '*cmake*')" || return
    local arguments
    for arguments in "devices" "--dataset=synthetic:8x8x1:3:64 --max-steps=1"; do
        # shellcheck disable=SC2086
        "$prefix/bin/dptrain" $arguments >"$prefix/out" 2>"$prefix/err"
        [ $? -eq 1 ] && [ "$(wc -l <"$prefix/err")" -eq 1 ] &&
            grep -q '^dptrain: no backend was found.*DPTRAIN_BACKEND_PATH' "$prefix/err" || return
    done
}

# learns EPOCHS ACCURACY: what the quick start does, for so many epochs, must reach this test accuracy.
learns() {
    local out=$work/learns.out
    "$work/gcc-release/bin/dptrain" train --devices cpu --epochs "$1" | tee "$out"
    awk -v least="$2" '/^trained/ { for (i = 1; i < NF; i++) if ($i == "accuracy") accuracy = $(i + 1) }
         END { exit !(accuracy >= least) }' "$out"
}

# ---- The tiers ---------------------------------------------------------------------------------

# Everything is in functions, so that an edit of this file while it runs does no harm.

# Before a change goes in, not at night.
by_day() {
    [ $tier = quick ] || [ $tier = ci ]
}

run_release_build() {
    local cards='-UDPTRAIN_CUDA_ARCHITECTURES -UDPTRAIN_CUDA_QUICK' less=
    if by_day; then cards="$one_card $quick_kernels" less='-LE nightly'; fi
    if [ $tier = ci ]; then less+='|sanitizers-by-day'; fi
    check "build: gcc, release" \
        build gcc-release gcc -DCMAKE_BUILD_TYPE=Release $cards || return
    # Where calls fail in turn, every third one fails by day, and by night each of them.
    # shellcheck disable=SC2086
    if by_day; then
        DPTRAIN_TEST_STRIDE=3 suite gcc-release $less
    else
        suite gcc-release $less
    fi
    check "installation, pkg-config, CMake package" installation && check "no plug-ins" no_plugins
    if [ $tier = quick ]; then return; fi
    # By day two of the quick start's five epochs, which take a minute on two cores.
    if by_day; then
        check "learns Fashion-MNIST to 0.88 in 2 epochs" learns 2 0.88
    else
        check "learns Fashion-MNIST to 0.90 in 5 epochs" learns 5 0.90
    fi
    check "valgrind: short training" memory_check "$work/gcc-release/bin/dptrain" \
        "${tiny_training[@]}" --devices cpu:threads=1,cpu:threads=2
}

run_addresses() {
    # LeakSanitizer of LLVM 14 crashes at the end of a process that has had more OpenMP threads than
    # cores, over its list of the thread-local storage of shared libraries.  It does without one.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:intercept_tls_get_addr=0
    export UBSAN_OPTIONS=print_stacktrace=1
    # -O1, because the tests train; assertions stay.
    local options=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DDPTRAIN_FUZZ=ON
        -DDPTRAIN_SANITIZE=address,undefined)
    # 130 programs are linked, and this linker takes a third of the time.
    if command -v ld.lld >/dev/null; then options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld); fi
    # By day neither what compiles for cards, which takes two minutes, nor checks in the CPU's kernels,
    # which take as long to compile and to run as all the rest, nor benchmarks, which no test runs.  Of the
    # kernels only those for any processor: the release build compares those of each instruction set.
    if by_day; then
        options+=("$no_card" -DDPTRAIN_SANITIZE_KERNELS=OFF -DDPTRAIN_HAS_AVX2=OFF -DDPTRAIN_HAS_AVX512=OFF
            -DDPTRAIN_BENCH=OFF)
    else
        options+=("$one_card" -DDPTRAIN_SANITIZE_KERNELS=ON -UDPTRAIN_HAS_AVX2 -UDPTRAIN_HAS_AVX512
            -DDPTRAIN_BENCH=ON -UCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit)
    fi
    check "build: clang, debug, address and undefined" build clang-asan clang "${options[@]}" || return
    # Not by day: what compares kernels, which are not checked then; OpenCL, whose kernels no sanitizer sees
    # and which would all be compiled again; and what the release build runs.  Every fifth call fails of
    # those that fail in turn.
    if by_day; then
        DPTRAIN_TEST_STRIDE=5 suite clang-asan -LE 'nightly|release-by-day|conformance|opencl'
    else
        suite clang-asan
    fi
}

run_threads() {
    local devices
    export TSAN_OPTIONS=ignore_noninstrumented_modules=1
    local options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DDPTRAIN_SANITIZE=thread "$no_card") only=
    if by_day; then
        # Kernels are not what is to be checked, so those of one instruction set do.
        only="dptrain-cli dptrain-cpu thread-tests" options+=(-DDPTRAIN_HAS_AVX2=OFF -DDPTRAIN_HAS_AVX512=OFF)
    else
        options+=(-UDPTRAIN_HAS_AVX2 -UDPTRAIN_HAS_AVX512)
    fi
    check "build: clang, thread" build clang-tsan clang "${options[@]}" || return
    for devices in cpu,cpu cpu:threads=2,cpu:threads=2; do
        check "ThreadSanitizer: training on $devices" \
            env OCL_ICD_VENDORS="$work/no-vendors" "$work/clang-tsan/bin/dptrain" \
            "${short_training[@]}" --devices $devices
    done
    # By day what starts threads.  With the label tsan: races that are planted and must be seen.
    # PoCL's threads are not instrumented.
    if by_day; then suite clang-tsan -L 'threads|tsan'; else suite clang-tsan -LE opencl; fi
}

# What a fuzzer in the background came to: its output and its status.
fuzzed() {
    local pid=$1 log=$2 status
    wait "$pid"
    status=$?
    cat "$log"
    return $status
}

# The processes share one corpus: each reads what the others have found.
run_onnx_fuzzer() {
    local i pids=()
    for ((i = 0; i < jobs; i++)); do
        fuzzer "$1" $(((onnx_runs + jobs - 1) / jobs)) >"$work/fuzz-onnx-$i.out" 2>&1 </dev/null &
        pids+=($!)
    done
    for ((i = 0; i < jobs; i++)); do
        check "fuzzer: fuzz-onnx, part $((i + 1)) of $onnx_runs runs" fuzzed "${pids[i]}" "$work/fuzz-onnx-$i.out"
    done
}

# As many at once as there are cores.
run_fuzzers() {
    local programs first name i pids
    programs=("$work"/clang-asan/tests/bin/fuzz-*)
    for ((first = 0; first < ${#programs[@]}; first += jobs)); do
        pids=()
        for ((i = first; i < first + jobs && i < ${#programs[@]}; i++)); do
            fuzzer "${programs[i]}" >"$work/${programs[i]##*/}.out" 2>&1 </dev/null &
            pids+=($!)
        done
        for ((i = 0; i < ${#pids[@]}; i++)); do
            name=${programs[first + i]##*/}
            check "fuzzer: $name, $fuzz_seconds s" fuzzed "${pids[i]}" "$work/$name.out"
        done
    done
    by_day || run_onnx_fuzzer "$work/clang-asan/tests/bin/fuzz-onnx"
    check "all fuzzers are there" test ${#programs[@]} -eq "$(find tests/fuzz -name 'fuzz_*.c' | wc -l)"
}

# Without OpenCL's headers, CUDA's toolkit and MPI everything is there but their plug-ins, and their
# tests skip.
run_without_vendors() {
    check "build: without OpenCL, CUDA and MPI" build gcc-bare gcc -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_DISABLE_FIND_PACKAGE_OpenCL=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON \
        -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON || return
    DPTRAIN_TEST_REQUIRE=cpu suite gcc-bare
}

run_valgrind() {
    local program
    export DPTRAIN_BACKEND_PATH=$work/gcc-release/lib/dptrain DPTRAIN_CPU_ISA=avx2 # AVX-512 it cannot
    for program in "$work"/gcc-release/tests/bin/test-unit-*; do
        check "valgrind: ${program##*/}" memory_check "$program"
    done
    unset DPTRAIN_BACKEND_PATH DPTRAIN_CPU_ISA
}

# Trainings that are killed 500 times; the suite does it 24 times.
kills() {
    mkdir -p "$work/kills" || return
    (cd "$work/kills" && DPTRAIN_BACKEND_PATH=$work/gcc-release/lib/dptrain \
        DPTRAIN=$work/gcc-release/bin/dptrain SRC=$source OCL_ICD_VENDORS=$work/no-vendors \
        DPTRAIN_CPU_ALGORITHM=direct DPTRAIN_KILLS=500 bash "$source/tests/cli/kills.sh")
}

# Ten minutes of what the suite does for ten seconds.
soak() {
    mkdir -p "$work/soak" || return
    (cd "$work/soak" && DPTRAIN_BACKEND_PATH=$work/gcc-release/lib/dptrain \
        DPTRAIN_TEST_FAULT_PATH=$work/gcc-release/tests/plugins OCL_ICD_VENDORS=$work/no-vendors \
        DPTRAIN_FAULT_INNER=$work/gcc-release/lib/dptrain/libdptrain-cpu.so \
        DPTRAIN_CPU_ALGORITHM=direct DPTRAIN_SOAK_SECONDS=600 "$work/gcc-release/tests/bin/soak")
}

# The suite fails every tenth call.
deaths() {
    mkdir -p "$work/deaths" || return
    (cd "$work/deaths" && DPTRAIN_BACKEND_PATH=$work/gcc-release/lib/dptrain \
        DPTRAIN_TEST_FAULT_PATH=$work/gcc-release/tests/plugins OCL_ICD_VENDORS=$work/no-vendors \
        DPTRAIN_FAULT_INNER=$work/gcc-release/lib/dptrain/libdptrain-cpu.so \
        DPTRAIN_CPU_ALGORITHM=direct DPTRAIN_TEST_THOROUGH=1 \
        "$work/gcc-release/tests/bin/test-fault-failover" "$1")
}

# Without a card's plug-in, which takes most of the time to compile.
packages() {
    scripts/test_debian.sh "$1" "$work/packages-$1" packages "$(ls "$work"/wheel/*.whl)"
}

run_tier() {
    local failure
    printf 'Testing in %s\n' "$work"
    run_release_build
    check "formatting" formatting
    check "the documents' check finds what is planted" python3 scripts/check_docs.py self-test
    check "links in the documents" python3 scripts/check_docs.py links
    check "errors in the comments of public functions" python3 scripts/check_docs.py headers
    check "the concerns' check finds what is planted" python3 scripts/check_concerns.py self-test
    check "the trainer's concerns stay apart" python3 scripts/check_concerns.py
    check "the includes' check finds what is planted" python3 scripts/check_includes.py self-test
    check "includes follow the layers" python3 scripts/check_includes.py layers
    check "no circles of includes" python3 scripts/check_includes.py circles
    check "the functions' check finds what is planted" python3 scripts/check_functions.py self-test
    check "functions are short" python3 scripts/check_functions.py lines
    check "functions have few arguments" python3 scripts/check_functions.py arguments
    if [ $tier != quick ]; then
        run_addresses
        run_threads
        run_fuzzers
    fi
    if [ $tier = nightly ] || [ $tier = release ]; then
        run_without_vendors
        run_valgrind
        check "500 times kill -9, and resumed" kills
        check "ten minutes of soak" soak
        check "95 % of the readers' lines are tested" scripts/coverage.sh "$work/coverage"
        check "each call of a device that dies" deaths fault
        check "each call of a device that dies, staged" deaths faultstaged
        check "a bare Debian 13" scripts/test_debian.sh trixie "$work/debian-13"
        check "a wheel for Python" env DPTRAIN_WHEEL_OPTIONS="-C cmake.define.${no_card#-D}" scripts/wheel.sh "$work/wheel"
        check "packages in a bare Debian 13" packages trixie
        check "packages in a bare Debian 12" packages bookworm
    fi

    for failure in ${failures[@]+"${failures[@]}"}; do
        printf 'FAILED   %s\n' "$failure"
    done
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

run_tier; exit
