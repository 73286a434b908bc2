#!/usr/bin/env bash
# Drivers of OpenCL that end the process: compilers that abort, crash, exit or never return, and a
# platform that aborts when it is asked for its devices.  The training goes on without the device, to
# the weights of a training in which the device is not there; the message has the driver's words; no
# helper process is left.
. "$SRC/tests/cli/kit.bash"

interpose=${DPTRAIN_TEST_INTERPOSE-} # the library that ends the process in a call of OpenCL
if [ -z "$interpose" ] || ! "$DPTRAIN" devices --no-measure | grep -qE '^opencl(:[0-9]+)? +'; then
    absent opencl "no device of opencl: $("$DPTRAIN" devices --no-measure | grep '^opencl' || echo "there is no such plug-in")"
fi
# Nothing is ever in the cache, and the driver is not asked for binaries, which takes PoCL long.
export XDG_CACHE_HOME=/proc/nowhere
words='LLVM ERROR: planted: no fixpoint after 1 iterations' # interpose.c's
small=(train --dataset synthetic:16x16x1:10:48 --model linear --batch-size 16 --epochs 2 --seed 5)

# helpers: the process numbers of helper processes that run in this folder.
helpers() {
    local directory
    for directory in /proc/[0-9]*; do
        [ "$(readlink "$directory/cwd" 2>/dev/null)" = "$PWD" ] || continue
        [[ "$(readlink "$directory/exe" 2>/dev/null)" == */dptrain-opencl-compile ]] || continue
        echo "${directory#/proc/}"
    done
}

# none_left WORDS: no helper is there, or comes to its end within ten seconds.
none_left() {
    local i
    for ((i = 0; i < 100; i++)); do
        [ -z "$(helpers)" ] && break
        sleep 0.1
    done
    check "$1: no helper is left: $(helpers)" test -z "$(helpers)"
}

# ending FUNCTION:N:HOW COMMAND...: with this call ending the process that makes it.
ending() {
    local what=$1
    shift
    env LD_PRELOAD="$interpose" DPTRAIN_CL_END="$what" "$@"
}

# whole: the checkpoint in `went` can be evaluated.
whole() {
    "$DPTRAIN" eval --dataset synthetic:16x16x1:10:48 --devices cpu:threads=1 --checkpoint went \
        >whole.out 2>&1
}

# goes_on FUNCTION:N:HOW PATTERN [ARGUMENT...]: a training beside the cpu loses the device before its
# first step, says so in one line, and has the weights of the cpu alone.
goes_on() {
    local what=$1 pattern=$2
    shift 2
    rm -rf went
    ending "$what" "$DPTRAIN" "${small[@]}" --devices opencl:0,cpu:threads=1 --checkpoint went --log went.log "$@" \
        >went.out 2>went.err
    local code=$?
    check "$what: status $code: $(head -c 600 went.err)" test $code -eq 0
    check "$what: one line: $(head -c 900 went.err)" test "$(wc -l <went.err)" -eq 1
    check "$what: the loss is told: $(head -c 600 went.err)" \
        grep -qE '^dptrain: device opencl:0 is lost, and step 1 is done without it: ' went.err
    check "$what: no /$pattern/ in $(head -c 600 went.err)" grep -qE "$pattern.*$words" went.err
    check "$what: the loss is in the log" grep -q '"device_lost"' went.log
    check "$what: the weights are those without the device" \
        cmp -s without/model.safetensors went/model.safetensors
    check "$what: the checkpoint is whole" whole
    none_left "$what"
}

train "${small[@]:1}" --devices cpu:threads=1 --split equal --checkpoint without

# ---- A compiler that does not survive ----
# (A build, or the first launch: PoCL compiles a kernel then.)
for function in clBuildProgram clEnqueueNDRangeKernel; do
    goes_on $function:1:abort 'did not survive .* by signal 6 \(aborted\): ' --split equal
done
goes_on clBuildProgram:1:exit 'with exit status 7: ' --split equal
goes_on clBuildProgram:1:segv 'by signal 11 \(segmentation fault\): ' --split equal
goes_on clBuildProgram:2:abort 'by signal 6' # shares by measurement
DPTRAIN_OPENCL_COMPILE_TIMEOUT=2 goes_on clBuildProgram:1:hang 'no answer in time: ' --split equal

# In whatever program, later ones too: as long as one is compiled that is the n-th.
for ((n = 3; n < 60; n += n)); do
    rm -rf went
    ending clBuildProgram:$n:abort "$DPTRAIN" "${small[@]}" --devices opencl:0,cpu:threads=1 --split equal \
        --checkpoint went >went.out 2>went.err
    code=$?
    check "program $n: status $code: $(head -c 600 went.err)" test $code -eq 0
    [ -s went.err ] || break
    check "program $n: $(head -c 600 went.err)" grep -qE "opencl:0 is lost.*$words" went.err
    check "program $n: the checkpoint is whole" whole
done
check "all programs are met" test $n -lt 60
none_left "all programs"

# Alone it is the end, in one line.
ending clBuildProgram:1:abort "$DPTRAIN" "${small[@]}" --devices opencl:0 >alone.out 2>alone.err
code=$?
check "alone: status $code" test $code -eq 3
check "alone: one line: $(head -c 900 alone.err)" test "$(wc -l <alone.err)" -eq 1
check "alone: the driver's words" grep -qE "^dptrain: device opencl:0: .*$words" alone.err

# A driver that has no binary to give is no failure; the device stays.
rm -rf went
XDG_CACHE_HOME=$PWD/cache ending clGetProgramInfo:1:abort "$DPTRAIN" "${small[@]}" --devices opencl:0 \
    --max-steps 1 >went.out 2>went.err
code=$?
check "a binary that cannot be had: status $code, $(head -c 600 went.err)" test $code -eq 0 -a ! -s went.err

# ---- A platform that does not survive the question ----
for what in clGetDeviceIDs:1:abort clGetDeviceIDs:1:segv clGetPlatformIDs:1:abort clGetDeviceInfo:3:exit; do
    ending $what "$DPTRAIN" devices --no-measure >listed.out 2>listed.err
    code=$?
    check "$what: devices: status $code, $(head -c 600 listed.err)" test $code -eq 0 -a ! -s listed.err
    check "$what: absent: $(head -c 600 listed.out)" grep -qE "^opencl: absent: .*$words" listed.out
    rm -rf went
    ending $what "$DPTRAIN" "${small[@]}" --devices all --split equal --checkpoint went >went.out 2>went.err
    code=$?
    check "$what: all goes on: $(head -c 600 went.err)" test $code -eq 0
    ending $what "$DPTRAIN" "${small[@]}" --devices opencl:0,cpu >named.out 2>named.err
    code=$?
    check "$what: named: status $code" test $code -eq 1 -a "$(wc -l <named.err)" -eq 1
    check "$what: named: $(head -c 600 named.err)" grep -qE "opencl is absent: .*$words" named.err
done
DPTRAIN_OPENCL_COMPILE_TIMEOUT=2 ending clGetDeviceIDs:1:hang "$DPTRAIN" devices --no-measure >listed.out 2>listed.err
check "a platform that hangs is absent" grep -qE "^opencl: absent: .*no answer in time.*$words" listed.out
none_left "platforms"

# ---- Nobody outlives the program ----
# hanging COMMAND...: starts a training whose helper hangs, in a process group of its own, as $pid.
hanging() {
    setsid env LD_PRELOAD="$interpose" DPTRAIN_CL_END=clBuildProgram:1:hang "$DPTRAIN" "${small[@]}" \
        --devices opencl:0,cpu:threads=1 >hanging.out 2>hanging.err &
    pid=$!
    for ((i = 0; i < 300; i++)); do
        grep -qsE '^training ' hanging.out && [ -n "$(helpers)" ] && break
        [ -n "$(helpers)" ] && sleep 0.5 && [ -n "$(helpers)" ] && break
        sleep 0.1
    done
    check "a helper hangs" test -n "$(helpers)"
}
hanging
kill -KILL $pid
wait $pid
none_left "killed"
hanging
kill -INT -- -$pid
kill -TERM -- -$pid
wait $pid
check "two signals to the group end it: status $?" test $? -ne 0
none_left "interrupted"

# ---- Without the helper ----
mkdir -p plugins
cp "$DPTRAIN_BACKEND_PATH"/libdptrain-{cpu,opencl}.so plugins
DPTRAIN_BACKEND_PATH=$PWD/plugins "$DPTRAIN" "${small[@]}" --devices opencl:0 >bare.out 2>bare.err
code=$?
check "without the helper it trains: $(head -c 600 bare.err)" test $code -eq 0
check "without the helper one line warns: $(head -c 900 bare.err)" test "$(wc -l <bare.err)" -eq 1
check "without the helper: $(head -c 900 bare.err)" \
    grep -qE '^dptrain: warning: .*dptrain-opencl-compile does not start' bare.err
check "the device says so" grep -q 'compiled for in this process' bare.out
cp "$(type -P true)" plugins/dptrain-opencl-compile # one that does not answer
DPTRAIN_BACKEND_PATH=$PWD/plugins "$DPTRAIN" devices --no-measure >bare.out 2>bare.err
check "another program is not taken for it: $(head -c 900 bare.err)" \
    grep -qE '^dptrain: warning: .*does not start: .*exit status 0' bare.err
DPTRAIN_OPENCL_CONTAIN=0 DPTRAIN_BACKEND_PATH=$PWD/plugins "$DPTRAIN" devices --no-measure >bare.out 2>bare.err
check "who forbids it is not warned: $(head -c 900 bare.err)" test ! -s bare.err
"$DPTRAIN_BACKEND_PATH/dptrain-opencl-compile" </dev/null >own.out 2>own.err 3<&-
check "by hand the helper says what it is" grep -q 'not for people' own.err
finish
