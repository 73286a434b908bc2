#!/usr/bin/env bash
# OpenCL from the command line: what is listed and refused, drivers that are missing or fail, and the
# cache that makes the second start quick.
. "$SRC/tests/cli/kit.bash"

interpose=${DPTRAIN_TEST_INTERPOSE-} # the library that fails calls of OpenCL
if [ -z "$interpose" ] || ! "$DPTRAIN" devices --no-measure | grep -qE '^opencl(:[0-9]+)? +'; then
    absent opencl "no device of opencl: $("$DPTRAIN" devices --no-measure | grep '^opencl' || echo "there is no such plug-in")"
fi
tiny=(train --dataset synthetic:16x16x1:10:48 --model lenet --batch-size 16 --max-steps 3 --seed 5)
# What is compiled from nothing: a network of few kernels, each of which takes PoCL seconds.
small=(train --dataset synthetic:16x16x1:10:48 --model linear --batch-size 16 --max-steps 3 --seed 5)

# planted FUNCTION:N:CODE COMMAND...: with this call failing.
planted() {
    local what=$1
    shift
    env LD_PRELOAD="$interpose" DPTRAIN_CL_PLANT="$what" "$@"
}

# fails FUNCTION:N:CODE PATTERN [STATUS]: the training on the device ends with one line that matches,
# and with this exit status (1).
fails() {
    planted "$1" "$DPTRAIN" "${tiny[@]}" --devices opencl:0 >fails.out 2>fails.err
    local code=$?
    check "$1 ends the training: status $code" test $code -eq "${3:-1}"
    check "$1 is told in one line: $(head -c 600 fails.err)" test "$(wc -l <fails.err)" -eq 1
    check "$1 is told: no /$2/ in $(head -c 600 fails.err)" grep -qE "^dptrain: .*$2" fails.err
}

# ---- Every function that the plug-in calls can be failed ----
if command -v nm >/dev/null; then
    nm -D --undefined-only "$DPTRAIN_BACKEND_PATH/libdptrain-opencl.so" |
        sed -n 's/.* \(cl[A-Z][A-Za-z]*\).*/\1/p' | sort >called
    nm -D --defined-only "$interpose" | sed -n 's/.* \(cl[A-Z][A-Za-z]*\).*/\1/p' | sort >stood_before
    check "functions are called" test -s called
    check "none is left out: $(comm -23 called stood_before | head -3)" \
        test -z "$(comm -23 called stood_before)"
fi

# ---- What is listed and refused ----
"$DPTRAIN" devices --no-measure >devices.out
check "platform and driver are told" grep -qE '^opencl.*(driver|OpenCL)' devices.out
refuse 2 'opencl:99' "${tiny[@]}" --devices opencl:99
refuse 2 'path=' "${tiny[@]}" --devices opencl:0:path=backwards
refuse 2 'speed=' "${tiny[@]}" --devices opencl:0:speed=9
refuse 2 'precision=bf8 is neither fp32 nor bf16' "${tiny[@]}" --devices opencl:0:precision=bf8
train "${tiny[@]:1}" --devices opencl:0
for devices in opencl:0:path=registers cpu:threads=1,opencl:0 opencl:0:precision=bf16; do
    train "${small[@]:1}" --devices "$devices" --split equal
done
if grep -q 'Portable Computing Language' devices.out; then
    train "${small[@]:1}" --devices opencl:pocl:0
    train "${small[@]:1}" --devices all
    check "all takes the cores once" test "$(grep -cE '^ *(devices *)?opencl:' train.out)" -eq 0
fi

# ---- Devices that cannot train deterministically say why ----
# without double precision, without rounding to the nearest, without subnormal numbers
for told in "0x1032:0 it has no double precision" "0x101b:0x81 its float32 does not round to the nearest" \
    "0x101b:0x86 its float32 has no subnormal numbers"; do
    LD_PRELOAD="$interpose" DPTRAIN_CL_TELL=${told%% *} "$DPTRAIN" "${small[@]}" --devices opencl:0 --deterministic \
        >varies.out 2>varies.err
    check "${told#* }: status" test $? -eq 1
    check "${told#* }: $(cat varies.err)" grep -qE "^dptrain: .*opencl:0.*${told#* }" varies.err
    check "one line" test "$(wc -l <varies.err)" -eq 1
done

# ---- No driver ----
OCL_ICD_VENDORS=/nonexistent "$DPTRAIN" devices >absent.out 2>absent.err
check "no platform is no failure" test $? -eq 0
check "no platform is absence, with the reason" grep -qE '^opencl: absent: .*-1001.*install' absent.out
export OCL_ICD_VENDORS=/nonexistent
refuse 1 'opencl.*-1001.*install' "${tiny[@]}" --devices opencl:0
train "${small[@]:1}" --devices all
unset OCL_ICD_VENDORS
# A loader that cannot be loaded stands for one that is not there.
mkdir -p broken
: >broken/libOpenCL.so.1
LD_LIBRARY_PATH=$PWD/broken "$DPTRAIN" devices >absent.out 2>absent.err
check "no loader is no failure" test $? -eq 0
check "no loader is absence, with the reason" grep -qE '^opencl: absent: .*libOpenCL' absent.out
planted clGetPlatformIDs:1:-1001 "$DPTRAIN" devices >absent.out
check "CL_PLATFORM_NOT_FOUND_KHR" grep -qE '^opencl: absent: .*-1001' absent.out
planted clGetPlatformIDs:1:0 "$DPTRAIN" devices >absent.out
check "no platform at all" grep -qE '^opencl: absent: .*0 platforms' absent.out
for what in clGetDeviceIDs:1:-1 clGetDeviceIDs:1:0 clGetDeviceIDs:1:-5; do
    planted $what "$DPTRAIN" devices >absent.out
    check "$what: no devices" grep -qE '^opencl: absent: .*no device' absent.out
done

# A driver that does not answer one of the questions: listed, and used or refused in one line.  Some
# answers are options of the compiler, so that the programs are compiled anew.  By day every eighth
# question, by night all.
every=${DPTRAIN_TEST_EVERY:-8}
for ((n = 1; n <= 40; n += n < 10 ? every : 3 * every)); do
    for function in clGetDeviceInfo clGetPlatformInfo; do
        planted $function:$n:-5 "$DPTRAIN" "${small[@]}" --max-steps 1 --devices opencl:0 \
            >asked.out 2>asked.err
        code=$?
        check "$function:$n is survived: status $code, $(head -c 300 asked.err)" \
            test $code -eq 0 -o \( $code -eq 1 -a "$(wc -l <asked.err)" -eq 1 \)
        if [ $function = clGetPlatformInfo ] && [ "$n" -gt 3 ]; then break; fi
    done
done

# ---- Failures name the device and the code ----
fails clCreateContext:1:-6 'opencl:0.*CL_OUT_OF_HOST_MEMORY'
fails clCreateCommandQueue:1:-6 'opencl:0.*CL_OUT_OF_HOST_MEMORY'
fails clEnqueueNDRangeKernel:9:-5 \
    'opencl:0: clEnqueueNDRangeKernel of [a-z][a-z0-9_]+: CL_OUT_OF_RESOURCES'
fails clSetKernelArg:9:-6 \
    'opencl:0: clSetKernelArg: argument [0-9]+ of [a-z][a-z0-9_]+: CL_OUT_OF_HOST_MEMORY'
# The memory of a device that is lost is abandoned.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
    fails clFinish:8:-2 'opencl:0.*CL_DEVICE_NOT_AVAILABLE' 3
rm -rf unbuilt
shared_cache=$XDG_CACHE_HOME
export XDG_CACHE_HOME=$PWD/unbuilt
fails clBuildProgram:1:-11 'opencl:0.*CL_BUILD_PROGRAM_FAILURE.*planted.cl:7:3: error: planted.*log'
export XDG_CACHE_HOME=$shared_cache
check "the build log is kept" grep -qrF 'planted.cl:7:3: error: planted' unbuilt/dptrain/opencl

# ---- The second start compiles nothing ----
# (PoCL marks what it reads in last_accessed, and leaves empty files called tempfile_.)
snapshot() {
    find cache pocl -type f -not -name last_accessed -not \( -name 'tempfile_*' -empty \) \
        -printf '%p %i %s %T@\n' 2>/dev/null | sort
}
rm -rf cache pocl
mkdir pocl
# From here on programs are compiled again and again from nothing, and only what is kept of them is looked
# at.  PoCL does not optimise them, which takes less time.  Optimised kernels have run above, and the suite of
# operators compares them.
export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable
export XDG_CACHE_HOME=$PWD/cache POCL_CACHE_DIR=$PWD/pocl
train "${small[@]:1}" --devices opencl:0 --checkpoint first
snapshot >first.files
check "there is a cache" grep -q 'cache/dptrain/opencl/programs/.*\.bin' first.files
train "${small[@]:1}" --devices opencl:0 --checkpoint second
snapshot >second.files
check "nothing is made anew: $(diff first.files second.files | head -5)" cmp -s first.files second.files
check "the same weights" cmp -s first/model.safetensors second/model.safetensors
planted clCreateProgramWithSource:1:-6 "$DPTRAIN" "${small[@]}" --devices opencl:0 >/dev/null 2>third.err
code=$?
check "no source is compiled: $(cat third.err)" test $code -eq 0
planted clCreateProgramWithBinary:1:-6 "$DPTRAIN" "${small[@]}" --devices opencl:0 --checkpoint fourth >/dev/null 2>fourth.err
code=$?
check "a binary that is refused is compiled: $(cat fourth.err)" test $code -eq 0 -a ! -s fourth.err
check "the same weights" cmp -s first/model.safetensors fourth/model.safetensors
rm -r cache
planted clGetProgramInfo:1:-5 "$DPTRAIN" "${small[@]}" --devices opencl:0 --checkpoint fifth >/dev/null 2>fifth.err
code=$?
check "a binary that is not handed out is not kept: $(cat fifth.err)" test $code -eq 0 -a ! -s fifth.err
check "the same weights" cmp -s first/model.safetensors fifth/model.safetensors

# ---- A cache that cannot be used ----
train "${small[@]:1}" --devices opencl:0 --checkpoint good
same() { # WORDS: a small training, silent and with the same weights
    rm -rf again
    train "${small[@]:1}" --devices opencl:0 --checkpoint again
    check "$1: nothing on stderr: $(cat train.err)" test ! -s train.err
    check "$1: the same weights" cmp -s good/model.safetensors again/model.safetensors
}
find cache -type f -exec truncate -s -7 {} +
same "cut files"
find cache -type f -exec truncate -s 10 {} +
same "files cut at the head"
find cache -type f -exec truncate -s 0 {} +
same "empty files"
find cache -type f | while read -r file; do
    size=$(stat -c %s "$file")
    printf 'garbage' | dd of="$file" bs=1 seek=$((size / 2)) conv=notrunc status=none
done
same "altered files"
find cache -type f | while read -r file; do
    head -c "$(stat -c %s "$file")" /dev/urandom >"$file"
done
same "noise"
rm -r cache/dptrain/opencl
: >cache/dptrain/opencl # a file where the folder should be
same "no folder can be made"
rm -r cache
XDG_CACHE_HOME=/proc/nowhere
same "an unwritable place"
XDG_CACHE_HOME=relative
HOME=$PWD/home same "a relative path is not taken"
check "nothing is written to a relative path" test ! -e relative
export XDG_CACHE_HOME=$PWD/cache

# ---- Two at once, from nothing ----
rm -rf cache pocl
mkdir pocl
for i in 1 2; do
    "$DPTRAIN" "${small[@]}" --devices opencl:0 --checkpoint "both$i" >"both$i.out" 2>"both$i.err" &
    pids[i]=$!
done
for i in 1 2; do
    wait "${pids[i]}"
    code=$?
    check "process $i of two: $(cat "both$i.err")" test $code -eq 0
    check "process $i of two: the same weights" cmp -s good/model.safetensors "both$i/model.safetensors"
done
train "${small[@]:1}" --devices opencl:0
snapshot >first.files
train "${small[@]:1}" --devices opencl:0
snapshot >second.files
check "what two have written is whole" cmp -s first.files second.files
check "no temporary files are left" test -z "$(find cache -name '*.new')"
finish
