# What the tests of the command share.  CTest sets DPTRAIN (the command) and SRC (the source folder)
# and runs each test in a scratch folder of its own.
set -uo pipefail
: "${DPTRAIN:?the dptrain command}" "${SRC:?the source folder}"

# What an earlier run of the test has left would be another beginning.
case $PWD in */tests/scratch/?*) find . -mindepth 1 -delete ;; esac

unset DPTRAIN_DATA OPENBLAS_CORETYPE
export DPTRAIN_RECIPE=none # the tests say themselves how they train; model_recipes.sh tests recipes
failures=0
checks=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
}

# check WORDS COMMAND...: counts a check, and a failure unless the command succeeds.
check() {
    local words=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$words"
}

# refuse CODE PATTERN ARGUMENT...: dptrain exits with CODE, prints nothing on stdout and on stderr
# exactly one line, "dptrain: ...", that matches the extended regular expression.
refuse() {
    refuse_listed "$@"
    shift 2
    [ "$(wc -l <refuse.err)" -eq 1 ] || fail "dptrain $*: not one line on stderr: $(cat refuse.err)"
}

# refuse_listed CODE PATTERN ARGUMENT...: as refuse, but lines before the last one list what differs.
refuse_listed() {
    local code=$1 pattern=$2 got
    shift 2
    checks=$((checks + 1))
    "$DPTRAIN" "$@" >refuse.out 2>refuse.err </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "dptrain $*: exit status $got, not $code"
    [ ! -s refuse.out ] || fail "dptrain $*: prints on stdout: $(head -1 refuse.out)"
    [ "$(grep -c '^dptrain: ' refuse.err)" -eq "$(wc -l <refuse.err)" ] ||
        fail "dptrain $*: other lines on stderr: $(cat refuse.err)"
    tail -n 1 refuse.err | grep -qE "^dptrain: .*$pattern" ||
        fail "dptrain $*: no /$pattern/ in: $(tail -n 1 refuse.err)"
}

# train ARGUMENT...: a training that must succeed; output in train.out and train.err.
train() {
    checks=$((checks + 1))
    "$DPTRAIN" train "$@" >train.out 2>train.err </dev/null && return
    fail "dptrain train $*: exit status $?: $(cat train.err)"
}

finish() {
    printf '%d checks, %d failed\n' "$checks" "$failures"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}

need_python() {
    command -v python3 >/dev/null 2>&1 && return
    echo "skipped: there is no python3"
    exit 77
}

# await FILE: waits for it, half a minute at most.
await() {
    local i
    for ((i = 0; i < 300; i++)); do
        if [ -e "$1" ]; then return; fi
        sleep 0.1
    done
}

# await_line PATTERN FILE: waits for a line of it, a minute at most.
await_line() {
    local i
    for ((i = 0; i < 1200; i++)); do
        if grep -q "$1" "$2" 2>/dev/null; then return; fi
        sleep 0.05
    done
}

# trainings: the process numbers of the command that run in this folder, whoever started them.
trainings() {
    local directory
    for directory in /proc/[0-9]*; do
        [ "$directory/cwd" -ef "$PWD" ] && [ "$directory/exe" -ef "$DPTRAIN" ] || continue
        echo "${directory#/proc/}"
    done
}

# kill_rank RANK [SIGNAL]: that process of a job of mpirun's that runs in this folder.
kill_rank() {
    local number
    for number in $(trainings); do
        grep -zqx "OMPI_COMM_WORLD_RANK=$1" "/proc/$number/environ" 2>/dev/null &&
            kill -"${2-KILL}" "$number"
    done
}

# loses_a_process COMMAND...: a training of several that keeps checkpoints, whose second process is killed
# behind the first one: the others end, and what was kept is whole.  Who was killed the caller checks.
loses_a_process() {
    local began
    rm -rf killed
    "$@" --epochs 100000 --checkpoint killed &
    await killed/model.safetensors
    kill_rank 1
    began=$SECONDS
    wait
    check "the others end within 10 s" [ $((SECONDS - began)) -lt 10 ]
    check "the checkpoint is whole" "$DPTRAIN" eval --dataset synthetic:28x28x1:10:700 \
        --devices cpu:threads=1 --checkpoint killed
}

# absent NAME REASON: nothing can be tested; a failure if $DPTRAIN_TEST_REQUIRE asks for NAME.
absent() {
    echo "skipped: $2"
    case ,${DPTRAIN_TEST_REQUIRE-}, in
    *,$1,*) echo "FAIL: DPTRAIN_TEST_REQUIRE asks for it"; exit 1 ;;
    esac
    exit 77
}

# mpi_ready: prepares for mpi, with the folder of the plug-ins in $folder; otherwise the status is 1 and
# $why says what is missing.
mpi_ready() {
    folder=$(dirname "$DPTRAIN")/../lib/dptrain
    if ! command -v mpirun >/dev/null 2>&1; then
        why="there is no mpirun"
    elif [ ! -e "$folder/transports/libdptrain-mpi.so" ]; then
        why="built without MPI"
    elif [ -n "${TSAN_OPTIONS:-}" ]; then
        why="MPI's library is not instrumented for ThreadSanitizer"
    else
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        return 0
    fi
    return 1
}

# need_mpi: as mpi_ready, and skips the test without MPI.
need_mpi() {
    if [ -n "${TSAN_OPTIONS:-}" ]; then
        echo "skipped: MPI's library is not instrumented for ThreadSanitizer"
        exit 77
    fi
    mpi_ready || absent mpi "$why"
    export ASAN_OPTIONS=detect_leaks=0 # what MPI keeps until the process ends
}

# mpi SECONDS ARGUMENT...: mpirun within a time; output in mpi.out and mpi.err, status in $status.
mpi() {
    local seconds=$1
    shift
    ASAN_OPTIONS=detect_leaks=0 timeout "$seconds" mpirun --oversubscribe "$@" >mpi.out 2>mpi.err </dev/null
    status=$?
}

# mpi_each SECONDS COMMAND... : COMMAND... [: COMMAND...]: as mpi, and each process has a command of its own.
# mpirun is given one command for all, which picks: every mpirun that was tried starts that.
mpi_each() {
    local seconds=$1 n=0 word
    shift
    rm -f each.[0-9]*
    : >each.0
    for word in "$@"; do
        if [ "$word" = : ]; then
            n=$((n + 1))
            : >"each.$n"
        else
            printf '%s\0' "$word" >>"each.$n"
        fi
    done
    # shellcheck disable=SC2016
    mpi "$seconds" -n $((n + 1)) bash -c \
        'mapfile -d "" -t words <"each.$OMPI_COMM_WORLD_RANK"; exec "${words[@]}"'
}

# told_of_kill: mpirun has said that the second process was killed, in one line or, as Open MPI 5 does, in two.
told_of_kill() {
    tr '\n' ' ' <mpi.err | grep -q 'rank 1 .*signal 9'
}
