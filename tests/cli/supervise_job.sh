#!/usr/bin/env bash
# dptrain supervise: a launcher is started again with the processes and hosts that are left, from a copy in memory.
# Needs an MPI, without fault tolerance.
. "$SRC/tests/cli/kit.bash"

need_mpi
if [ "$(stat -f -c %T /dev/shm)" != tmpfs ]; then
    echo "skipped: /dev/shm is no file system in memory"
    exit 77
fi
memory=/dev/shm/dptrain-test-$$
mkdir -m 700 "$memory"
trap 'rm -rf "$memory" "$memory"-*' EXIT
mpirun=(mpirun --oversubscribe)
task=(--dataset synthetic:28x28x1:10:1024 --model lenet --batch-size 32 --epochs 6 --recipe none --deterministic
    --devices cpu:threads=1 --optimizer adamw --lr 0.001)

# ---- What is not understood

missing=(supervise --processes 2 -- ./no-launcher -n '{processes}' dptrain --checkpoint part)
refuse 2 "cannot start ./no-launcher: No such file" "${missing[@]}"
refuse 2 "supervise starts a launcher: dptrain supervise -- mpirun" supervise
refuse 2 "does not know the launcher sh: write .processes." supervise sh -c true
refuse 2 "does not see how many processes" supervise mpirun dptrain
refuse 2 "there is no word dptrain behind mpirun" supervise mpirun -n 2 ./program
refuse 2 "the number of processes behind -n is not one" supervise mpirun -n two dptrain
refuse 2 "several numbers of processes" supervise mpirun -n 2 -np 3 dptrain
refuse 2 "another one behind ':'" supervise mpirun -n 2 dptrain : -n 1 dptrain
refuse 2 "needs --processes N" supervise mpirun -n '{processes}' dptrain
refuse 2 "goes with .processes." supervise --processes 2 mpirun -n 2 dptrain
refuse 2 "--host has hosts that supervise cannot leave out" supervise mpirun --host a,b -n 2 dptrain
refuse 2 "--nodelist has hosts that" supervise srun --nodelist=a,b -n 2 dptrain
refuse 2 "needs --hosts LIST" supervise mpirun --host '{hosts}' -n 2 dptrain
refuse 2 "'a:b' is not NAME or NAME:SLOTS" supervise --hosts a:b mpirun --host '{hosts}' -n 2 dptrain
refuse 2 "on a disk: give a folder of a file system in memory" supervise --memory / mpirun -n 2 dptrain
(cd "$memory" && exec "$DPTRAIN" supervise --memory . mpirun -n 2 dptrain) 2>refuse.err
check "a path that is not whole: $(cat refuse.err)" grep -q '^dptrain: --memory: give the whole path of [.], from / on$' refuse.err
refuse 2 "--least is 3, and there are 2 processes" supervise --least 3 mpirun -n 2 dptrain
DPTRAIN_JOB=1 refuse 2 "DPTRAIN_JOB is not START:FOLDER" train "${task[@]}" --checkpoint part
DPTRAIN_JOB=1:$PWD refuse 2 "is not a folder that only this user may enter" train "${task[@]}" --checkpoint part
mkdir -m 700 disk "$memory/job"
if [ "$(stat -f -c %T .)" != tmpfs ]; then # as on a host whose folder of this name is on a disk
    DPTRAIN_JOB=1:$PWD/disk refuse 2 "disk is on a disk: give a folder" train "${task[@]}" --checkpoint part
    DPTRAIN_JOB=1:$PWD/disk/job refuse 2 "job is on a disk: give a folder" train "${task[@]}" --checkpoint part
    check "nothing stays on the disk" [ -z "$(find disk -mindepth 1)" ]
fi
DPTRAIN_JOB=1:$memory/job refuse 2 "needs --checkpoint DIR" train "${task[@]}"
DPTRAIN_JOB=1:$memory/job refuse 2 "leave out --supervise" train "${task[@]}" --checkpoint part --supervise
rm -r "$memory/job"

# Open MPI is told to pass on the variable, also to hosts that it knows itself.
mkdir names
cat >names/mpirun <<'END'
#!/bin/sh
[ "$1" = --version ] && exec echo "mpirun (Open MPI) 4.1.4"
echo "$*" >words
END
chmod +x names/mpirun
PATH=$PWD/names:$PATH "$DPTRAIN" supervise --memory "$memory" mpirun -n 2 dptrain
check "the variable is passed on: $(cat words)" [ "$(cat words)" = "-x DPTRAIN_JOB -n 2 dptrain" ]

# supervise OPTION... -- LAUNCHER...: in the background; its number in $supervisor.
supervise() {
    rm -rf part part.jsonl
    timeout 300 "$DPTRAIN" supervise --memory "$memory" "$@" >run.out 2>run.err </dev/null &
    supervisor=$!
}

# ends: waits for the end; the status in $status.
ends() {
    wait "$supervisor"
    status=$?
}

n_steps() { { cat part.jsonl 2>/dev/null || true; } | grep -c '"event":"step"'; }

# steps N: waits for so many more steps in the log.
steps() {
    local until=$(($(n_steps) + $1))
    while [ "$(n_steps)" -lt "$until" ] && kill -0 "$supervisor" 2>/dev/null; do sleep 0.02; done
}

# again N: waits until the job has been started again so often.
again() {
    while [ "$(grep -c 'starting it again' run.err)" -lt "$1" ] && kill -0 "$supervisor" 2>/dev/null; do
        sleep 0.02
    done
}

# course LOG: the steps with their losses.
course() { grep -o '"event":"step","step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' "$1"; }

# is_whole: the training has ended as if nobody had disturbed it.
is_whole() {
    check "$1: status $status, $(cat run.err)" [ "$status" -eq 0 ]
    check "$1: the bits of an undisturbed training" cmp whole/model.safetensors part/model.safetensors
    check "$1: each step once in the log: $(diff <(course whole.jsonl) <(course part.jsonl) | head -5)" \
        cmp <(course whole.jsonl) <(course part.jsonl)
    check "$1: each epoch once" [ "$(grep -c '"event":"epoch"' part.jsonl)" -eq 6 ]
    check "$1: nothing stays in memory: $(find "$memory"*)" [ -z "$(find "$memory"* -mindepth 1)" ]
    check "$1: no process stays: $(trainings)" [ -z "$(trainings)" ]
}

mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --checkpoint whole --log whole.jsonl
check "undisturbed: $(cat mpi.err)" [ "$status" -eq 0 ]

# ---- Processes that are killed

supervise -- "${mpirun[@]}" -n 2 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 3
steps 3
check "only the user may enter: $(ls -l "$memory")" [ "$(stat -c %a "$memory"/dptrain-*)" = 700 ]
ends
check "nobody was lost: $(cat run.err)" eval '! grep -q "the job ended" run.err'
is_whole "without a loss"

for victims in "0" "$((RANDOM % 4)) $((RANDOM % 3)) 0"; do
    supervise "${mpirun[@]}" -n 4 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 1
    told=0
    for rank in $victims; do
        steps $((RANDOM % 20 + 3))
        kill_rank "$rank"
        told=$((told + 1))
        again $told
    done
    ends
    is_whole "processes $victims"
    check "$victims: fewer each time: $(cat run.err)" grep -q "starting it again with $((4 - told)) process" run.err
    check "$victims: from the copy: $(cat run.err)" [ "$(grep -c "resuming from $memory/" run.err)" -eq "$told" ]
done

# By time, without --host-copy, through a launcher that is not known; the last one goes on alone, and is killed, too.
cat >launcher <<'END'
#!/bin/sh
n=$1
shift
exec mpirun --oversubscribe -n "$n" "$@"
END
chmod +x launcher
supervise --processes 2 ./launcher '{processes}' "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl
steps 5
kill_rank 1
again 1
steps 5
kill_rank 0
again 2
ends
is_whole "the last one"
check "the last one is started again: $(cat run.err)" [ "$(grep -c 'again with 1 process$' run.err)" -eq 2 ]

# The launcher itself is killed.  That of Open MPI 5 has another name.
supervise "${mpirun[@]}" -n 3 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 1
steps 5
for directory in /proc/[0-9]*; do
    if [ "$directory/cwd" -ef "$PWD" ] && grep -q -s -x 'mpirun\|prterun' "$directory/comm"; then
        kill -KILL "${directory#/proc/}"
    fi
done
again 1
ends
is_whole "a launcher that is killed"
check "with all: $(cat run.err)" grep -q 'ended by signal 9; starting it again with 3 processes' run.err

# ---- Copies

# Killed in the middle of a write: the copy before is whole.  With the processes stopped nobody writes on.
large=(--dataset synthetic:64x64x3:10:256 --model mlp --batch-size 8 --max-steps 100 --recipe none --deterministic
    --devices cpu:threads=1 --optimizer adamw)
mpi 120 -n 2 "$DPTRAIN" "${large[@]}" --checkpoint large --log large.jsonl
check "undisturbed: $(cat mpi.err)" [ "$status" -eq 0 ]
supervise "${mpirun[@]}" -n 3 "$DPTRAIN" "${large[@]}" --checkpoint part --log part.jsonl --host-copy 1
steps 5
caught=
for _ in $(seq 400); do
    for rank in 0 1 2; do kill_rank $rank STOP; done
    caught=$(find "$memory" -type f ! -name lock ! -name 'checkpoint-*')
    [ -n "$caught" ] && break
    for rank in 0 1 2; do kill_rank $rank CONT; done
    sleep 0.00$((RANDOM % 9))
done
check "a copy that is being written" [ -n "$caught" ]
for rank in 0 1 2; do kill_rank $rank; done
again 1
ends
check "killed in a write: status $status, $(cat run.err)" [ "$status" -eq 0 ]
check "the bits of an undisturbed training" cmp large/model.safetensors part/model.safetensors
check "from the copy before: $(cat run.err)" grep -q "resuming from $memory/" run.err
check "each step once" cmp <(course large.jsonl) <(course part.jsonl)
check "nothing stays: $(find "$memory")" [ -z "$(find "$memory" -mindepth 1)" ]

# loses_copies COMMAND...: all processes stop, the command changes the copies, and all are killed.  mpirun lets those
# that are left run on for a while, and one of them would finish a copy that is being written.
loses_copies() {
    supervise "${mpirun[@]}" -n 3 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 1 \
        --checkpoint-every 4steps
    steps 12
    for rank in 0 1 2; do kill_rank $rank STOP; done
    "$@"
    for rank in 0 1 2; do kill_rank $rank; done
    again 1
    ends
}
no_copy='no copy of the training state is left in memory: going on from the last checkpoint'
delete() { rm "$memory"/*/checkpoint-*; }
loses_copies delete
is_whole "no copy"
check "a line says so: $(cat run.err)" grep -q "$no_copy" run.err
check "from the disk: $(cat run.err)" grep -q "resuming from part/checkpoint-" run.err
damage() {
    for file in "$memory"/*/checkpoint-*; do printf x | dd of="$file" bs=1 seek=70000 conv=notrunc 2>/dev/null; done
}
loses_copies damage
is_whole "a damaged copy"
check "a line says so: $(cat run.err)" grep -q "$no_copy" run.err
check "and why: $(cat run.err)" grep -q "$memory/.*checksum\|$memory/.*damaged\|$memory/.*not" run.err

# A copy of another training is refused, and stays.
rm -rf part
train "${task[@]}" --max-steps 40 --checkpoint other
mkdir -m 700 "$memory/job"
cp other/checkpoint-*40.safetensors "$memory/job"
DPTRAIN_JOB=2:$memory/job "$DPTRAIN" train "${task[@]}" --max-steps 40 --lr 0.002 --checkpoint part >run.out 2>run.err
status=$?
check "another training: status $status" [ "$status" -eq 2 ]
check "another training: $(cat run.err)" grep -q "^dptrain: $memory/job/checkpoint-.* is of a training with another lr" run.err
check "no step is trained: $(ls part)" [ -z "$(find part -name '*.safetensors')" ]
check "the copy stays" cmp other/checkpoint-*40.safetensors "$memory"/job/checkpoint-*
rm -r "$memory/job"

# A file system in memory that is too small, and one that becomes full: the copy before stays, and a line says so.
cat >full <<'END'
mount -t tmpfs -o size="$1" none small || exit 99
shift
"$@" &
if [ "$FILL" ]; then
    while ! grep -q '"event":"step","step":20,' part.jsonl 2>/dev/null; do sleep 0.02; done
    dd if=/dev/zero of=small/fill bs=4096 2>/dev/null
    ls small/*/checkpoint-* >before
fi
wait $!
END
# full SIZE ARGUMENT...: a supervised training of one process with such a file system; its status in $status.
full() {
    local size=$1
    shift
    rm -rf part part.jsonl
    timeout 300 unshare -m sh full "$size" "$DPTRAIN" supervise --memory "$PWD/small" --processes 1 -- \
        env N='{processes}' "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 1 "$@" >run.out 2>run.err </dev/null
    status=$?
}
mkdir small
if unshare -m mount -t tmpfs none small 2>/dev/null; then
    full 1m
    check "too small: status $status, $(cat run.err)" [ "$status" -eq 2 ]
    check "too small: one line: $(cat run.err)" [ "$(grep -c '^dptrain: ' run.err)" -eq 1 ]
    check "too small: $(cat run.err)" grep -q 'has room for 1 MB, and two copies of the training state need' run.err
    FILL=1 full 16m
    check "full: status $status, $(cat run.err)" [ "$status" -eq 0 ]
    check "full: a line says so: $(cat run.err)" grep -q "$PWD/small/.*No space left" run.err
    check "full: a copy stays" [ -s before ]
    check "full: the bits of an undisturbed training" cmp whole/model.safetensors part/model.safetensors
fi

# ---- Slurm, and hosts

# srun as far as it is used here: processes on two hosts, each of which has memory of its own.
mkdir bin hosts
cat >bin/srun <<'END'
#!/usr/bin/env bash
while [[ $1 = -* ]]; do
    case $1 in
    --ntasks=*) n=${1#*=} ;;
    --nodelist=*) export HOSTS=${1#*=} ;;
    --nodes=*) nodes=${1#*=} ;;
    esac
    shift
done
[ "$1" = true ] && exec test -e "hosts/$HOSTS"
[ "$SLURM_KILL_BAD_EXIT" = 1 ] || exit 2
[ "$(tr , '\n' <<<"$HOSTS" | wc -l)" = "$nodes" ] || exit 2
exec mpirun --oversubscribe -n "$n" bash -c '
    hosts=(${HOSTS//,/ })
    host=${hosts[OMPI_COMM_WORLD_RANK * ${#hosts[@]} / OMPI_COMM_WORLD_SIZE]}
    folder=${DPTRAIN_JOB#*:}
    export DPTRAIN_JOB=${DPTRAIN_JOB%%:*}:${folder%/*}-$host-${folder##*/}
    exec "$@"' bash "$@"
END
chmod +x bin/srun
touch hosts/left hosts/right
PATH=$PWD/bin:$PATH supervise --hosts left,right -- srun --nodelist='{hosts}' --nodes='{nodes}' --ntasks=4 \
    "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 1
steps 9
check "each host has a copy: $(ls -d "$memory"*)" [ "$(find "$memory"-*-dptrain-* -name 'checkpoint-*' | wc -l)" -ge 2 ]
# The first host is lost, with its memory.
rm hosts/left
for rank in 0 1 2 3; do kill_rank $rank STOP; done
rm -r "$memory"-left-dptrain-*
for rank in 0 1; do kill_rank $rank; done
again 1
ends
is_whole "a host"
check "it is left out: $(cat run.err)" grep -q 'host left does not answer, and is left out' run.err
check "its processes, too: $(cat run.err)" grep -q 'starting it again with 2 processes' run.err
check "from the neighbour's memory: $(cat run.err)" grep -q "resuming from $memory-right-dptrain-" run.err

# ---- What is not started again

# stays CODE WORDS ARGUMENT...: the job ends with CODE, once.
stays() {
    local code=$1 words=$2
    shift 2
    supervise "${mpirun[@]}" -n 2 "$DPTRAIN" "$@" --checkpoint part
    ends
    check "$*: status $status, $(cat run.err)" [ "$status" -eq "$code" ]
    check "$*: it says why: $(cat run.err)" grep -q "$words" run.err
    check "$*: it is not started again" eval '! grep -q "starting it again" run.err'
    check "$*: nothing stays: $(find "$memory")" [ -z "$(find "$memory" -mindepth 1)" ]
}
stays 2 "unknown optimizer\|optimizer" "${task[@]}" --optimizer none
stays 1 "No such file" "${task[@]}" --log missing/folder/log.jsonl

# Nothing is gained: a process is killed before the first step, each time.
supervise "${mpirun[@]}" -n 2 sh -c 'kill -KILL $$' dptrain
ends
check "in vain: status $status, $(cat run.err)" [ "$status" -eq 137 ]
check "three starts: $(cat run.err)" grep -q 'it got no further in 3 starts, and is not started again' run.err
supervise --least 2 "${mpirun[@]}" -n 2 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --host-copy 1
steps 3
kill_rank 1
ends
check "too few: $(cat run.err)" grep -q '1 processes are left, and --least is 2' run.err
last=$(sed -n 's/.*the last state is left in memory, in \([^:]*\): .*/\1/p' run.err)
check "the state is left: $(cat run.err)" [ -s "$last" ]
cp "$last" part/
rm -r "$(dirname "$last")"
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --checkpoint part --log part.jsonl --resume
is_whole "resumed from it"

# A signal between two starts: here the supervisor waits until its line about the next one is read.
cat >dies <<'END'
#!/bin/sh
echo >>starts
kill -KILL $$
END
chmod +x dies
mkfifo told
exec 9<>told
dd if=/dev/zero of=/proc/self/fd/9 bs=4096 oflag=nonblock 2>/dev/null
"$DPTRAIN" supervise --memory "$memory" --processes 2 ./dies '{processes}' 2>&9 </dev/null &
supervisor=$!
until [ -s starts ] && [ -z "$(pgrep -P "$supervisor")" ]; do sleep 0.02; done
sleep 0.2
kill -TERM "$supervisor"
sleep 0.2
dd if=/proc/self/fd/9 of=/dev/null bs=65536 count=1 2>/dev/null
ends
exec 9>&-
check "between two starts: status $status" [ "$status" -eq 143 ]
check "between two starts: one start" [ "$(wc -l <starts)" -eq 1 ]
check "between two starts: nothing stays: $(find "$memory")" [ -z "$(find "$memory" -mindepth 1)" ]

# A signal ends the job with a checkpoint, from which it can be resumed.
for number in 15 1; do
    supervise "${mpirun[@]}" -n 2 "$DPTRAIN" "${task[@]}" --epochs 1000 --checkpoint part --log part.jsonl \
        --checkpoint-every 1h
    steps 5
    pkill -$number -P "$supervisor"
    ends
    check "signal $number: status $status, $(cat run.err)" [ "$status" -eq $((128 + number)) ]
    check "signal $number: a checkpoint: $(ls part)" compgen -G 'part/checkpoint-*'
    check "signal $number: no start: $(cat run.err)" eval '! grep -q "starting it again" run.err'
    check "signal $number: nothing stays: $(find "$memory")" [ -z "$(find "$memory" -mindepth 1)" ]
    check "signal $number: no process stays: $(trainings)" [ -z "$(trainings)" ]
done
finish
