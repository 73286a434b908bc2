#!/usr/bin/env bash
# dptrain supervise: which state a job goes on from when there are also those of an earlier training, of another job,
# and a later checkpoint on the disk; and what is left when the supervisor itself is killed.  Needs an MPI.
. "$SRC/tests/cli/kit.bash"

need_mpi
if [ "$(stat -f -c %T /dev/shm)" != tmpfs ]; then
    echo "skipped: /dev/shm is no file system in memory"
    exit 77
fi
memory=/dev/shm/dptrain-test-$$
mkdir -m 700 "$memory"
trap 'rm -rf "$memory"' EXIT
other=$memory/dptrain-0000000000000000
task=(--dataset synthetic:28x28x1:10:1024 --model lenet --batch-size 32 --epochs 6 --recipe none --deterministic
    --devices cpu:threads=1 --optimizer adamw --lr 0.001)

# supervise ARGUMENT...: three processes train in the background; the number in $supervisor.
supervise() {
    rm -f part.jsonl
    timeout 300 "$DPTRAIN" supervise --memory "$memory" mpirun --oversubscribe -n 3 "$DPTRAIN" "${task[@]}" \
        --checkpoint part --log part.jsonl "$@" >run.out 2>run.err </dev/null &
    supervisor=$!
}

# shellcheck disable=SC2126
n_steps() { grep -s '"event":"step"' part.jsonl | wc -l; }

# steps N: waits for so many steps in the log.
steps() {
    while [ "$(n_steps)" -lt "$1" ] && kill -0 "$supervisor" 2>/dev/null; do sleep 0.02; done
}

# course LOG: the steps with their losses.
course() { grep -o '"event":"step","step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' "$1"; }

# loses WORDS FOLDER: the second process is killed, unless all are.  The job goes on from a state in FOLDER, and ends as
# if nobody had disturbed it.
loses() {
    kill_rank 1
    wait "$supervisor"
    status=$?
    check "$1: status $status, $(cat run.err)" [ "$status" -eq 0 ]
    check "$1: started again once: $(cat run.err)" [ "$(grep -c 'starting it again with 2 processes' run.err)" -eq 1 ]
    check "$1: where it goes on: $(cat run.err)" grep -q "resuming from $2/checkpoint-" run.err
    check "$1: the bits of an undisturbed training" cmp whole/model.safetensors part/model.safetensors
    check "$1: each step once: $(diff <(course whole.jsonl) <(course part.jsonl) | head -5)" \
        cmp <(course whole.jsonl) <(course part.jsonl)
    check "$1: only its own checkpoints stay: $(ls part)" \
        cmp <(ls whole) <(ls part)
    check "$1: nothing stays in memory: $(find "$memory")" [ -z "$(find "$memory" -mindepth 1 ! -path "$other*")" ]
}

mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --checkpoint whole --log whole.jsonl --checkpoint-keep 1
check "undisturbed: $(cat mpi.err)" [ "$status" -eq 0 ]
last=checkpoint-000000192.safetensors
check "it has ended: $(ls whole)" [ -e whole/$last ]

# behind_another: a training begins in the folder of one that has ended, whose checkpoints are of later steps than the
# copy.  All processes stop.  These checkpoints get their names back, as when a process fails.
behind_another() {
    rm -rf part
    cp -r whole part
    supervise --host-copy 1 --checkpoint-every 1h --checkpoint-keep 1
    steps 9
    for rank in 0 1 2; do kill_rank $rank STOP; done
    check "of this training nothing is on the disk: $(ls part)" eval '! compgen -G "part/checkpoint-*" >/dev/null'
    mv part/old-$last part/$last
    # All are killed: mpirun would let the others run on for a while.
    for rank in 0 1 2; do kill_rank $rank; done
}

# Memory has a copy of another job, too.
mkdir -m 700 "$other"
cp whole/$last "$other"
behind_another
loses "an earlier training" "$memory/dptrain-[0-9a-f]*"
check "not from another job: $(cat run.err)" eval "! grep -q 'resuming from $other' run.err"
check "whose copy has not changed: $(ls "$other")" cmp whole/$last "$other"/$last
rm -r "$other"

# The training that goes on is asked to end: it writes a checkpoint, and those of the earlier training are deleted.
behind_another
await_line "resuming from $memory/" run.err
steps 15
pkill -TERM -P "$supervisor"
wait "$supervisor"
status=$?
check "asked to end: status $status, $(cat run.err)" [ "$status" -eq 143 ]
check "its checkpoint: $(ls part)" eval 'compgen -G "part/checkpoint-*" >/dev/null'
check "the earlier one is deleted: $(ls part)" [ ! -e part/$last ]
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --resume
check "it is resumed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the bits of an undisturbed training" cmp whole/model.safetensors part/model.safetensors

# A checkpoint on the disk is later than the copy.
rm -r part
supervise --host-copy 1000 --checkpoint-every 4steps --checkpoint-keep 1
steps 12
loses "a later checkpoint" part

# The supervisor is killed: its launcher ends, and all processes.
rm -r part
supervise --max-steps 100000 --epochs 100000
steps 5
pkill -KILL -P "$supervisor"
wait "$supervisor" 2>/dev/null
for _ in $(seq 600); do
    [ -z "$(trainings)" ] && break
    sleep 0.1
done
check "no process stays: $(trainings)" [ -z "$(trainings)" ]
finish
