#!/usr/bin/env bash
# Several processes through MPI: the same training as in one, and a clear end whatever goes wrong.
. "$SRC/tests/cli/kit.bash"
need_mpi

one=(--devices cpu:threads=1)
task=(--dataset synthetic:28x28x1:10:700 --batch-size 61 --lr 0.05 --momentum 0.9 --epochs 2)

# fails CODE PATTERN: the run before failed so, and one process has told why, in one line.
fails() {
    check "exit status $status, not $1" [ "$status" -eq "$1" ]
    check "not one line of dptrain's: $(grep ^dptrain: mpi.err)" \
        [ "$(grep -c '^dptrain: ' mpi.err)" -eq 1 ]
    check "no /$2/ in $(cat mpi.err)" grep -qE "^dptrain: .*$2" mpi.err
}

# ---- The same training ---------------------------------------------------------------------------

train "${task[@]}" --devices cpu:threads=1,cpu:threads=1 --split equal --checkpoint one --log one.jsonl
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split equal --checkpoint two --log two.jsonl \
    --plot two.svg --trace two.json
check "two processes: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights" cmp -s one/model.safetensors two/model.safetensors
check "one process prints" [ "$(grep -c '^model ' mpi.out)" -eq 1 ]
check "both devices are shown" [ "$(grep -c 'process [01] on ' mpi.out)" -eq 2 ]
check "the log tells of both" grep -q '"process":1,"host":' two.jsonl
losses() { grep '"event":"step"' "$1" | grep -o '"loss":[^,]*'; }
check "other losses" [ "$(losses one.jsonl)" = "$(losses two.jsonl)" ]
check "other accuracy" [ "$(grep -o '"test_accuracy":[^,]*' one.jsonl)" = \
    "$(grep -o '"test_accuracy":[^,]*' two.jsonl)" ]
check "no plot" [ -s two.svg ]
check "no trace" [ -s two.json ]

# Buckets that travel while backward goes on: the same to the bit.
deep=(--model resnet18 --dataset synthetic:28x28x1:10:40 --batch-size 12 --max-steps 3 --momentum 0.9)
for overlap in on off; do
    mpi 240 -n 2 "$DPTRAIN" "${deep[@]}" "${one[@]}" --split 2:1 --overlap $overlap \
        --checkpoint overlap-$overlap
    check "--overlap $overlap: $(cat mpi.err)" [ "$status" -eq 0 ]
done
check "overlap changes weights" cmp -s overlap-on/model.safetensors overlap-off/model.safetensors
mpi_each 60 "$DPTRAIN" "${task[@]}" "${one[@]}" --overlap on : \
    "$DPTRAIN" "${task[@]}" "${one[@]}" --overlap off
fails 2 "overlap differs: process 0 has on, process 1 has off"
mpi_each 60 "$DPTRAIN" "${task[@]}" "${one[@]}" : "$DPTRAIN" "${task[@]}" "${one[@]}" --max-steps 5
fails 2 "number of steps differs: process 0 has 0, process 1 has 5"

# What is left out is the default, and words are compared as words.
few=("${task[@]}" "${one[@]}" --max-steps 2)
mpi_each 60 "$DPTRAIN" "${few[@]}" --accumulate 1 --split measured --init default --schedule step : \
    "$DPTRAIN" "${few[@]}" --lr-base-batch 61 --schedule step --step-every 30 --step-factor 0.1
check "defaults that are given: $(cat mpi.err)" [ "$status" -eq 0 ]
mpi_each 60 "$DPTRAIN" "${few[@]}" : "$DPTRAIN" "${few[@]}" --nesterov
fails 2 "Nesterov momentum differs: process 0 has off, process 1 has on"
mpi_each 60 "$DPTRAIN" "${few[@]}" : "$DPTRAIN" "${few[@]}" --freeze 'fc1.*'
fails 2 "groups of parameters differs: process 0 has 0, .*process 1 has 1, "
mpi_each 60 "$DPTRAIN" "${few[@]}" : "$DPTRAIN" "${few[@]}" --schedule cosine
fails 2 "schedule differs: process 0 has constant, process 1 has cosine"

# Compressed: close to it, and resumed, after a kill too, the same to the bit; of another number of
# processes what is owed is taken over.
bf16=("${task[@]}" "${one[@]}" --split equal --compress bf16)
mpi 120 -n 2 "$DPTRAIN" "${bf16[@]}" --checkpoint packed --log packed.jsonl
check "compressed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the log tells" grep -q '"event":"run".*"compress":"bf16"' packed.jsonl
check "the header tells" grep -q 'bf16 between processes' mpi.out
check "nothing is rounded" eval '! cmp -s two/model.safetensors packed/model.safetensors'
check "other losses" python3 - two.jsonl packed.jsonl <<'END'
import json, sys
loss = [[json.loads(line) for line in open(path)] for path in sys.argv[1:]]
loss = [[e["loss"] for e in events if e["event"] == "step"] for events in loss]
assert len(loss[0]) == len(loss[1]) > 20 and loss[0] != loss[1]
assert all(abs(a - b) < 0.02 for a, b in zip(*loss)), loss
END
rm -rf packed-killed
mpi 60 -n 2 "$DPTRAIN" "${bf16[@]}" --checkpoint packed-killed --checkpoint-every 3 --checkpoint-keep 3 &
await packed-killed/checkpoint-000000006.safetensors
kill_rank 1
wait
mpi 60 -n 2 "$DPTRAIN" "${bf16[@]}" --checkpoint packed-killed --checkpoint-every 3 --resume
check "resuming: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights after a kill" cmp -s packed/model.safetensors packed-killed/model.safetensors
check "another state after a kill" python3 - packed packed-killed <<'END'
import glob, json, struct, sys
def tensors(folder):
    path = sorted(glob.glob(folder + "/checkpoint-*.safetensors"))[-1]
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
            for k, v in header.items() if k != "__metadata__"}
a, b = map(tensors, sys.argv[1:])
assert a == b and "owed.0.conv1.weight" in a and "owed.1.fc2.bias" in a
assert any(any(v) for k, v in a.items() if k.startswith("owed.1."))
END
rm -rf packed-four # of an earlier run
cp -r packed packed-four
mpi 60 -n 4 "$DPTRAIN" "${bf16[@]}" --epochs 3 --checkpoint packed-four --resume
check "four processes: $(cat mpi.err)" [ "$status" -eq 0 ]
check "it is told: $(cat mpi.out mpi.err)" grep -q 'of 2 processes goes on with the first of 4' mpi.err
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split equal --epochs 3 --checkpoint packed --resume
check "no longer compressed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "it is told: $(cat mpi.out mpi.err)" grep -q 'of 2 processes is dropped' mpi.err
train "${bf16[@]}" --max-steps 2
check "one process tells that it does nothing" grep -q 'warning: .*nothing is compressed' train.err
# Matrices of low rank: they train, and are resumed the same to the bit, also behind a kill.
low=("${task[@]}" "${one[@]}" --split equal --compress lowrank --compress-rank 2)
mpi 120 -n 3 "$DPTRAIN" "${low[@]}" --checkpoint low --log low.jsonl
check "low ranks: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the log tells" grep -q '"event":"run".*"compress":"lowrank","compress_rank":2' low.jsonl
check "the header tells" grep -q 'lowrank between processes (rank 2)' mpi.out
check "it learns" python3 - two.jsonl low.jsonl <<'END'
import json, sys
loss = [[json.loads(line) for line in open(path)] for path in sys.argv[1:]]
loss = [[e["loss"] for e in events if e["event"] == "step"] for events in loss]
assert len(loss[0]) == len(loss[1]) > 20 and loss[0][0] == loss[1][0] and loss[0] != loss[1], loss
assert sum(loss[1][-5:]) < sum(loss[1][:5]), loss
END
rm -rf low-cut
mpi 60 -n 3 "$DPTRAIN" "${low[@]}" --checkpoint low-cut --checkpoint-every 3 --checkpoint-keep 3 &
await low-cut/checkpoint-000000006.safetensors
kill_rank 1
wait
mpi 60 -n 3 "$DPTRAIN" "${low[@]}" --checkpoint low-cut --resume
check "resuming low ranks: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights behind it" cmp -s low/model.safetensors low-cut/model.safetensors
mpi 60 -n 3 "$DPTRAIN" "${low[@]}" --compress-rank 1 --epochs 3 --checkpoint low-cut --resume
check "with another rank: $(cat mpi.err)" [ "$status" -eq 0 ]
mpi 60 -n 3 "$DPTRAIN" "${low[@]}" --compress int8 --compress-rank 1 --epochs 3 --checkpoint low-cut --resume
fails 2 "give compress lowrank, too"
mpi 60 -n 2 "$DPTRAIN" "${bf16[@]}" --epochs 3 --checkpoint packed-killed --resume --compress lowrank
check "from another compression: $(cat mpi.err)" [ "$status" -eq 0 ]
mpi_each 60 "$DPTRAIN" "${low[@]}" : "$DPTRAIN" "${low[@]}" --compress-rank 1
fails 2 "compress rank differs: process 0 has 2, process 1 has 1"
mpi 60 -n 2 "$DPTRAIN" "${low[@]}" --local-steps 5
fails 2 "local steps cannot be combined with compress lowrank"
mpi_each 60 "$DPTRAIN" "${bf16[@]}" : "$DPTRAIN" "${task[@]}" "${one[@]}" --split equal
fails 2 "compression differs: process 0 has bf16, process 1 has none"

# Several batches a step.
train "${task[@]}" --devices cpu:threads=1,cpu:threads=1 --split 2:1 --accumulate 3 --checkpoint several
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split 2:1 --accumulate 3 --checkpoint several-two
check "several batches a step: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights" cmp -s several/model.safetensors several-two/model.safetensors

# Unequal devices in every process, one of which has nothing to do; and the log's shares again.
mpi 120 -n 4 "$DPTRAIN" "${task[@]}" --devices '@0=cpu:threads=1,cpu:threads=1;@*=cpu:threads=1' \
    --split 3:1:0:4:2 --checkpoint four --log four.jsonl
check "four processes: $(cat mpi.err)" [ "$status" -eq 0 ]
check "shares" grep -q '"shards":\[18,6,0,25,12\]' four.jsonl
mpi 120 -n 5 "$DPTRAIN" "${task[@]}" "${one[@]}" --split replay:four.jsonl --log five.jsonl
check "replay: $(cat mpi.err)" [ "$status" -eq 0 ]
check "replayed shares" grep -q '"shards":\[18,6,0,25,12\]' five.jsonl

# Weights are read by each; evaluation is shared.
"$DPTRAIN" eval --dataset synthetic:28x28x1:10:700 "${one[@]}" --checkpoint one >eval.one
mpi 60 -n 3 "$DPTRAIN" eval --dataset synthetic:28x28x1:10:700 "${one[@]}" --checkpoint one
check "eval in three: $(cat mpi.err)" [ "$status" -eq 0 ]
check "another evaluation" [ "$(cut -d' ' -f1-9 eval.one)" = "$(cut -d' ' -f1-9 mpi.out)" ]
tested=("$DPTRAIN" eval --dataset synthetic:28x28x1:10:700 "${one[@]}")
mpi_each 60 "${tested[@]}" --checkpoint one : "${tested[@]}" --checkpoint packed
fails 2 "process 1 begins with other weights than process 0"
mpi_each 60 "${tested[@]}" --checkpoint one : \
    "${tested[@]}" --dataset synthetic:28x28x1:10:710 --checkpoint one
fails 2 "data differs: process 0 has synthetic:28x28x1:10:700"

# A device of another process whose memory is small.
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices '@*=cpu:threads=1; @1=cpu:threads=1:memory=3M' \
    --split equal --max-steps 2
check "little memory: $(cat mpi.err)" [ "$status" -eq 0 ]
check "it is told: $(cat mpi.out)" grep -qE \
    '^memory    cpu:threads=1:memory=3M of process 1: computes its shard of 30 samples [0-9]+ at a time$' mpi.out

# What is resumed goes on as if it had not been interrupted; only the first process has the folder.
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split equal --max-steps 14 --checkpoint halves
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split equal --checkpoint halves --resume
check "resuming: $(cat mpi.err)" [ "$status" -eq 0 ]
check "it is told once: $(cat mpi.err)" [ "$(cat mpi.out mpi.err | grep -c 'resuming from')" -eq 1 ]
check "other weights after resuming" cmp -s one/model.safetensors halves/model.safetensors

# A clock ends all behind the same step.
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --epochs 100000 --max-time 2 --quiet
check "a limit of time: $(cat mpi.err)" [ "$status" -eq 0 ]
timed=("${task[@]}" "${one[@]}" --epochs 100000 --max-time 1 --quiet --checkpoint timed)
mpi 60 -n 2 "$DPTRAIN" "${timed[@]}"
before=$(ls timed)
mpi 60 -n 2 "$DPTRAIN" "${timed[@]}" --resume
check "resumed when the time was up: $(cat mpi.err)" [ "$status" -eq 0 ]
check "more steps: $before, $(ls timed)" [ "$before" = "$(ls timed)" ]

# The first process alone keeps checkpoints; all stop for them behind the same step.  Or else those that are
# ahead would divide the next step otherwise, and wait in it for a process that has ended.
due=("${task[@]}" "${one[@]}" --epochs 100000 --max-time 1 --quiet)
for often in "--checkpoint-every 1" "--host-copy 1"; do
    rm -rf due # of an earlier run
    # shellcheck disable=SC2086
    mpi 60 -n 2 "$DPTRAIN" "${due[@]}" --checkpoint due $often
    check "$often, until the time is up: status $status, $(cat mpi.err)" [ "$status" -eq 0 ]
done
apart=("${task[@]}" --split measured --quiet --checkpoint apart --checkpoint-every 1 --log apart.jsonl)
printf '%s\n' '# one slow process' '@0=cpu:threads=1' "  @$(hostname)=cpu:threads=1:throttle=3  # the other" >unequal
mpi 60 -n 2 "$DPTRAIN" "${apart[@]}" --devices-of unequal
check "measured shares: status $status, $(cat mpi.err)" [ "$status" -eq 0 ]
check "shares never change" grep -q '"event":"rebalance"' apart.jsonl
apart=("${task[@]}" --split replay:apart.jsonl --quiet --checkpoint again)
mpi 60 -n 2 "$DPTRAIN" "${apart[@]}" "${one[@]}"
check "replayed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "a process had other shares than the log" cmp -s apart/model.safetensors again/model.safetensors

# A log has the algorithms of all processes' devices, and they are taken again.
mpi_each 60 "$DPTRAIN" "${task[@]}" "${one[@]}" --split 2:1 --log chosen.jsonl --checkpoint chosen : \
    env DPTRAIN_CPU_ALGORITHM=columns "$DPTRAIN" "${task[@]}" "${one[@]}" --split 2:1
check "two algorithms: $(cat mpi.err)" [ "$status" -eq 0 ]
check "choices of both" [ "$(grep -c '"event":"algorithms"' chosen.jsonl)" -eq 2 ]
check "of the second" grep -q '"algorithms","operations".*"columns".*"device":1\|"device":1.*"columns"' chosen.jsonl
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split replay:chosen.jsonl --checkpoint rerun
check "replayed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights when replayed" cmp -s chosen/model.safetensors rerun/model.safetensors

# So do checkpoints: what is resumed, in one process too, goes on by them, whatever it would choose now.
rm -rf retaken retaken-one retaken.jsonl
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split replay:chosen.jsonl --max-steps 14 --checkpoint retaken
cp -r retaken retaken-one
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split 2:1 --checkpoint retaken --resume --log retaken.jsonl
check "resumed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the choice of the second" eval 'grep "\"device\":1" retaken.jsonl | grep -q columns'
check "not of the first" eval '! grep "\"device\":0" retaken.jsonl | grep -q columns'
check "other weights when resumed" cmp -s chosen/model.safetensors retaken/model.safetensors
train "${task[@]}" --devices cpu:threads=1,cpu:threads=1 --split 2:1 --checkpoint retaken-one --resume
check "other weights when one process resumes" cmp -s chosen/model.safetensors retaken-one/model.safetensors

# The cores that mpirun binds a process to are all that it takes.
if [ "$(nproc)" -ge 2 ]; then
    mpi 60 -n 2 --bind-to core "$DPTRAIN" "${task[@]}" --devices cpu --max-steps 3
    check "bound to a core each: $(cat mpi.out mpi.err)" [ "$(grep -c ' 1 thread ' mpi.out)" -eq 2 ]
fi

# ---- What goes wrong -----------------------------------------------------------------------------

mpi_each 60 "$DPTRAIN" "${task[@]}" "${one[@]}" : "$DPTRAIN" "${task[@]}" "${one[@]}" --seed 5
fails 2 'seed differs: process 0 has 0, process 1 has 5'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --log /dev/full
fails 1 'process 0: cannot write the log'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices '@0=cpu:threads=1;@1=cuda:77'
check "no device in one process: status $status" [ "$status" -ne 0 ]
check "it is told: $(cat mpi.err)" grep -qE '^dptrain: process 1 \(.+\): ' mpi.err
mpi_each 60 "$DPTRAIN" "${few[@]}" --load one/model.safetensors : "$DPTRAIN" "${few[@]}" --load nowhere
check "weights that one process lacks: status $status" [ "$status" -eq 1 ]
check "it is told: $(cat mpi.err)" grep -qE '^dptrain: process 1 \(.+\): .*nowhere' mpi.err

# A list for all processes that has none for one of them; two for one; a file that is not there.
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --devices '@0=cpu:threads=1'
fails 2 'process 1 \(.+\): the device list has no entry for process 1 on host .*add @1=LIST'
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --devices '@0=cpu;@*=cpu;@0=cpu'
check "two lists for a process: status $status" [ "$status" -eq 2 ]
check "it is told: $(cat mpi.err)" grep -q 'two entries for one process, @0 and @0: leave one' mpi.err
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices-of nowhere
check "a list that is not there: status $status" [ "$status" -eq 1 ]
check "it is told: $(cat mpi.err)" grep -q 'cannot read the device list nowhere on host .*: No such file' mpi.err
# Each makes a plan of its own devices, as do processes that train for themselves.
mpi 60 -n 2 "$DPTRAIN" plan "${task[@]}" --devices '@0=cpu:threads=1;@1=cpu:threads=1:throttle=2'
check "a plan of each: $(cat mpi.err)" [ "$(grep -cE '^cpu:threads=1(:throttle=2)? ' mpi.out)" -eq 2 ]
check "of the second" grep -q '^cpu:threads=1:throttle=2 ' mpi.out

# Different programs do not wait for each other.
mpi_each 60 "$DPTRAIN" bench allreduce "${one[@]}" : "$DPTRAIN" "${few[@]}"
fails 2 'process 0 is dptrain [0-9.]+ bench allreduce, process 1 is dptrain [0-9.]+ train'
mpi_each 60 "$DPTRAIN" "${few[@]}" : "$DPTRAIN" eval --checkpoint one "${one[@]}"
fails 2 'process 0 is dptrain [0-9.]+ train, process 1 is dptrain [0-9.]+ eval'

# One that is started again could not join the others.
rm -rf supervised
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --checkpoint supervised --supervise
check "--supervise: status $status" [ "$status" -eq 2 ]
check "it is told: $(cat mpi.err)" grep -q 'one of 2: .* supervise the launcher' mpi.err

# Files that the first process is not told of.
rm -rf ignored ignored.jsonl
mpi_each 60 "$DPTRAIN" "${few[@]}" --log first.jsonl : \
    "$DPTRAIN" "${few[@]}" --log ignored.jsonl --checkpoint ignored
check "files of another process: $(cat mpi.err)" [ "$status" -eq 0 ]
check "it is told: $(cat mpi.err)" grep -q 'warning: no checkpoint is written: process 1 was given one' mpi.err
check "that alone: $(cat mpi.err)" [ "$(grep -c 'is written: process' mpi.err)" -eq 1 ]
check "nothing is written" eval '[ ! -e ignored ] && [ ! -e ignored.jsonl ]'

# Another process than the first gets SIGUSR1: the first one writes a checkpoint, and all go on.
rm -rf wished
{
    mpi 120 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --epochs 100000 --checkpoint wished --checkpoint-every 1h
    echo "$status" >wished.status
} &
await wished
sleep 1
kill_rank 1 USR1
for _ in $(seq 600); do
    compgen -G 'wished/checkpoint-*' >/dev/null && break
    sleep 0.1
done
check "a checkpoint is written: $(ls wished)" compgen -G 'wished/checkpoint-*'
kill_rank 1 TERM
wait
check "exit status $(cat wished.status), not 143" [ "$(cat wished.status)" -eq 143 ]
check "it is told: $(cat mpi.err)" grep -qx 'dptrain: process 1: signal 10: .*' mpi.err

# Another process that is asked to end ends all, and the first one says who it was.
rm -rf asked
{
    mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --epochs 100000 --checkpoint asked
    echo "$status" >asked.status
} &
await asked/model.safetensors
kill_rank 1 TERM
wait
check "exit status $(cat asked.status), not 143" [ "$(cat asked.status)" -eq 143 ]
check "it is told at once: $(cat mpi.err)" grep -qx 'dptrain: process 1: signal 15: ending after this step' mpi.err
check "and at the end: $(cat mpi.err)" \
    grep -qx 'dptrain: ended early: process 1 asked for the end because of signal 15; --resume continues' mpi.err
check "what was trained: $(cat mpi.out)" grep -q '^trained ' mpi.out

# A signal of --requeue-exit reaches one process alone, and every process has its status.
rm -rf asked
{
    mpi 60 -n 2 sh -c '"$0" "$@"; echo $? >"asked.$OMPI_COMM_WORLD_RANK"' \
        "$DPTRAIN" "${task[@]}" "${one[@]}" --epochs 100000 --checkpoint asked --requeue-exit 75
} &
await asked/model.safetensors
kill_rank 1 USR2
wait
check "statuses: $(cat asked.0 asked.1) $(cat mpi.err)" [ "$(cat asked.0 asked.1 | tr '\n' ' ')" = '75 75 ' ]

# Without the plug-in a process that is one of several trains nothing.
mkdir -p without
cp "$folder/libdptrain-cpu.so" without
cp "$DPTRAIN" without
cp "$(dirname "$DPTRAIN")"/../lib/libdptrain.so* without
DPTRAIN_BACKEND_PATH=$PWD/without LD_LIBRARY_PATH=$PWD/without mpi 60 -n 2 ./without/dptrain \
    "${task[@]}" "${one[@]}"
check "it must not train without MPI: $(cat mpi.out)" [ "$status" -eq 1 ]
check "nothing is trained" [ ! -s mpi.out ]
check "it says what is missing" grep -q 'are to train together .*libdptrain-mpi' mpi.err
DPTRAIN_TRANSPORT=none mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --max-steps 2
check "told to train alone" [ "$status" -eq 0 ]
check "each does" [ "$(grep -c '^model ' mpi.out)" -eq 2 ]

# Processes that srun has started, and MPI does not know.
separate() {
    status=0
    env -u OMPI_COMM_WORLD_RANK -u PMI_RANK SLURM_STEP_NUM_TASKS=2 "$@" "$DPTRAIN" "${few[@]}" \
        >/dev/null 2>separate.err || status=$?
    check "one of several alone: $(cat separate.err)" [ "$status" -eq 0 ]
}
separate SLURM_PROCID=0
check "it is told: $(cat separate.err)" \
    grep -q 'warning: srun has started 2 processes, .* --mpi=pmix' separate.err
for quiet in SLURM_PROCID=1 "SLURM_PROCID=0 DPTRAIN_TRANSPORT=none" \
    "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"; do
    # shellcheck disable=SC2086
    separate $quiet
    check "$quiet: $(cat separate.err)" [ ! -s separate.err ]
done

# A delay of what arrives changes when things happen, and nothing else; log and header tell it.
for delay in 0s 2ms; do
    DPTRAIN_TRANSPORT_DELAY=$delay mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --split equal \
        --checkpoint "delay-$delay" --log "delay-$delay.jsonl"
    check "a delay of $delay: $(cat mpi.err)" [ "$status" -eq 0 ]
done
check "the header tells: $(cat mpi.out mpi.err)" \
    grep -q 'processes sum gradients through mpi, delayed by 2 ms$' mpi.err
check "the log tells" grep -q '"event":"run".*"transport_delay_seconds":\[0.002[0-9e-]*,0.002' delay-2ms.jsonl
check "none is none" eval '! grep -q transport_delay delay-0s.jsonl'
check "a delay changes weights" cmp -s delay-0s/model.safetensors delay-2ms/model.safetensors
mpi_each 60 env DPTRAIN_TRANSPORT_DELAY=1ms "$DPTRAIN" "${few[@]}" : "$DPTRAIN" "${few[@]}"
check "one process is delayed: $(cat mpi.err)" grep -q 'through mpi, delayed by 0 to 1 ms$' mpi.err
for delay in 5 5min -1ms 11s; do
    DPTRAIN_TRANSPORT_DELAY=$delay mpi 60 -n 2 "$DPTRAIN" "${few[@]}"
    check "a delay of $delay: status $status" [ "$status" -eq 2 ]
    check "it is told: $(cat mpi.err)" grep -q "DPTRAIN_TRANSPORT_DELAY is \"$delay\".*as in 500us" mpi.err
done
mpi_each 60 env DPTRAIN_TRANSPORT_DELAY=late "$DPTRAIN" "${few[@]}" : "$DPTRAIN" "${few[@]}"
fails 2 'DPTRAIN_TRANSPORT_DELAY is "late"'

# A process that is killed ends the others, and the last checkpoint is whole.
loses_a_process mpi 100 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}"
check "mpirun tells who was killed: $(cat mpi.err)" told_of_kill
finish
