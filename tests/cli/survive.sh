#!/usr/bin/env bash
# Processes that die while others go on: needs an MPI with ULFM (Open MPI 5), for which dptrain is built.
. "$SRC/tests/cli/kit.bash"

need_mpi
survive=$(dirname "$DPTRAIN")/../tests/bin/test-survive
ft=(--with-ft ulfm)
mpi 60 "${ft[@]}" -n 2 "$survive" 1000 1
if [ "$status" -ne 0 ] && ! grep -q 'process 0 of 1 is right' mpi.out; then
    absent ulfm "this MPI does not go on without a process that has died: $(head -c 200 mpi.err)"
fi

# Exchanges: one process is killed, then another one; the first process is among them.
for victims in "0 2" "3 0 1" "1 1"; do
    microseconds=$((RANDOM * 3))
    left=$((4 - $(wc -w <<<"$victims")))
    # shellcheck disable=SC2086
    mpi 60 "${ft[@]}" -n 4 "$survive" "$microseconds" $victims
    check "processes $victims die after $microseconds us each: status $status, $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the others go on: $(cat mpi.out)" [ "$(grep -c " of $left is right" mpi.out)" -eq "$left" ]
done

# A training goes on at the next step, with the bits of one that nobody disturbs, and its log has each step once.
task=(--dataset synthetic:28x28x1:10:1024 --model lenet --batch-size 32 --epochs 12 --recipe none --deterministic
    --devices cpu:threads=1 --optimizer adamw --lr 0.001)
mpi 60 "${ft[@]}" -n 2 "$DPTRAIN" "${task[@]}" --checkpoint whole --log whole.jsonl
check "undisturbed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the header says what would happen: $(cat mpi.out)" \
    grep -q '^processes 2: if one dies, the training goes on without it$' mpi.out

# course LOG: the steps.  The loss of the step in which a process dies may be that of the others' samples.
course() {
    grep -o '"event":"step","step":[0-9]*,"epoch":[0-9]*' "$1"
}

# loses AFTER COUNT RANK...: of COUNT processes these die, one after another, when the log has so many steps.
loses() {
    local after=$1 count=$2 rank told=0 seen
    shift 2
    rm -rf part part.jsonl
    mpi 60 "${ft[@]}" -n "$count" "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl &
    while [ "$(cat part.jsonl 2>/dev/null | grep -c '"event":"step"')" -lt "$after" ] && kill -0 $! 2>/dev/null; do
        sleep 0.01
    done
    for rank in "$@"; do
        kill_rank "$rank"
        told=$((told + 1))
        while [ "$(grep -c 'on after step' mpi.err)" -lt "$told" ] && kill -0 $! 2>/dev/null; do
            sleep 0.01
        done
        # Some steps: a process that takes the log over goes on behind its last step.
        seen=$(grep -c '"event":"step"' part.jsonl)
        while [ "$(grep -c '"event":"step"' part.jsonl)" -le $((seen + 1)) ] && kill -0 $! 2>/dev/null; do
            sleep 0.01
        done
    done
    wait $!
    check "the others of $count go on without $*: $(cat mpi.err)" grep -q 'go.* on after step' mpi.err
    check "the bits are those of an undisturbed training" cmp whole/model.safetensors part/model.safetensors
    check "the log has each step once: $(diff <(course whole.jsonl) <(course part.jsonl)) $(cat mpi.err)" cmp <(course whole.jsonl) <(course part.jsonl)
    check "it says who has died: $(cat mpi.err)" grep -q "has died" part.jsonl
}

loses 3 2 1
loses 5 3 0
loses $((RANDOM % 40 + 1)) 4 2 0 3
check "each is told" [ "$(grep -c '"event":"device_lost"' part.jsonl)" -eq 3 ]

early=("${task[@]}")
# A split of proportions keeps the numbers of the devices that are left.
task+=(--split 3:1:2)
loses 4 3 1
check "the shards: $(grep '"event":"step","step":60,' part.jsonl)" \
    grep -q '"event":"step","step":60,.*"shards":\[20,12\]' part.jsonl

# A process dies before the first step: the others begin without it.
rm -rf part part.jsonl
mpi 60 "${ft[@]}" -n 3 sh -c \
    'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then (sleep 0.$1; kill -KILL $$) & fi; shift; exec "$0" "$@"' \
    "$DPTRAIN" $((RANDOM % 9)) "${early[@]}" --checkpoint part --log part.jsonl
if [ -e part/model.safetensors ]; then
    check "the bits are those of an undisturbed training" cmp whole/model.safetensors part/model.safetensors
else
    # The others wait in MPI_Init of Open MPI for a process that dies there.
    check "nobody had begun: $(cat mpi.out mpi.err)" eval '! grep -q "^processes" mpi.out'
fi

# stands RANK SECONDS COMMAND...: that process stands still, in the middle of a training, until the command succeeds.
# So many seconds are the limit.
stands() {
    local rank=$1 seconds=$2
    shift 2
    rm -rf part part.jsonl
    mpi 110 "${ft[@]}" --mca mpi_ft_detector true --mca mpi_ft_detector_thread true \
        --mca mpi_ft_detector_period 0.5 --mca mpi_ft_detector_timeout "$((seconds + 1))" -n 3 \
        "$DPTRAIN" "${early[@]}" --checkpoint part --log part.jsonl &
    await part/model.safetensors
    kill_rank "$rank" STOP
    for _ in $(seq 400); do
        "$@" && break
        sleep 0.1
    done
    kill_rank "$rank" CONT
    wait $!
    check "the header says for how long it may: $(cat mpi.out mpi.err)" \
        grep -q "^processes 3: if one dies, or stands still for $seconds s, the training goes on without it\$" mpi.out
}

# A short time delays the others, and no more.
stands 1 60 sleep 0.5
check "it is not left behind: $(cat mpi.err)" eval '! grep -q "stood still" mpi.err'
check "the bits are those of an undisturbed training" cmp whole/model.safetensors part/model.safetensors

# After a long time it is left behind, and ends when it goes on.  Open MPI 5.0.11 then sometimes ends the others.
stands 0 4 grep -q 'processes go on after step' mpi.err
# Open MPI 5.0.7 may end it first, with a line of its own.
check "it says why it ends: $(cat mpi.err)" grep -qE \
    '^dptrain: process 0 stood still for more than 4 s, |I have been reported dead by someone else' mpi.err
check "the others have gone on: $(cat mpi.err)" grep -q '2 processes go on after step' mpi.err
if ! grep -q 'Send error after request freed' mpi.err; then
    check "the bits are those of an undisturbed training" cmp whole/model.safetensors part/model.safetensors
    check "the log has each step once: $(diff <(course whole.jsonl) <(course part.jsonl)) $(cat mpi.err)" \
        cmp <(course whole.jsonl) <(course part.jsonl)
fi

# A detector without a thread would take a process that computes for a dead one.
mpi 60 "${ft[@]}" --mca mpi_ft_detector true -n 2 "$DPTRAIN" "${early[@]}"
check "the detector needs a thread: $(cat mpi.err)" grep -q 'add --mca mpi_ft_detector_thread true' mpi.err

# Without ULFM the training ends, and the header says so.
mpi 60 -n 2 "$DPTRAIN" --dataset synthetic:8x8x1:4:64 --model linear --devices cpu:threads=1 --max-steps 2
check "the header: $(cat mpi.out mpi.err)" grep -q '^processes 2: if one dies, the training ends$' mpi.out
finish
