#!/usr/bin/env bash
# --shard over several processes through MPI: the weights of a training without it, what is told, checkpoints
# that go on with other processes, memory that a training fits into with it alone, a process that is killed, and
# what is refused.
. "$SRC/tests/cli/kit.bash"
need_mpi
same() { cmp -s "$1/model.safetensors" "$2/model.safetensors"; }

# fails CODE PATTERN: the run before failed so, and one process has told why, in one line.
fails() {
    check "exit status $status, not $1" [ "$status" -eq "$1" ]
    check "not one line of dptrain's: $(grep ^dptrain: mpi.err)" [ "$(grep -c '^dptrain: ' mpi.err)" -eq 1 ]
    check "no /$2/ in $(cat mpi.err)" grep -qE "^dptrain: .*$2" mpi.err
}

task=(--dataset synthetic:12x12x1:4:200 --model mlp --batch-size 32 --optimizer adamw --lr 0.002 --seed 5)
common=("${task[@]}" --deterministic)
one=(--devices cpu:threads=1)
parts=(--shard optimizer)

# ---- The same training ---------------------------------------------------------------------------

train "${common[@]}" "${one[@]}" --max-steps 12 --checkpoint whole
words=([1]="optimizer's state" [2]="gradients and optimizer's state"
    [3]="parameters, gradients and optimizer's state")
n=0
for shard in optimizer gradients parameters; do
    n=$((n + 1))
    mpi 120 -n 2 "$DPTRAIN" "${common[@]}" "${one[@]}" --shard $shard --split 3:1 --max-steps 12 --checkpoint two_$shard \
        --log two.jsonl
    check "two processes, $shard: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the same weights of two processes, $shard" same whole two_$shard
    check "the header tells of parts: $(cat mpi.out)" grep -q "^training .*, ${words[n]} in parts, determ" mpi.out
    check "the log tells: $(head -1 two.jsonl)" grep -q "\"event\":\"run\".*\"shard\":\"$shard\"" two.jsonl
    check "each device's part is told: $(cat mpi.out)" [ "$(grep -cE \
        "^memory +cpu:threads=1.*: holds [1-9][0-9.]* of [0-9.]+ MiB of the optimizer's state$" mpi.out)" -eq 2 ]
    mpi 120 -n 3 "$DPTRAIN" "${common[@]}" --devices cpu:threads=1,cpu:threads=1 --shard $shard --max-steps 12 \
        --checkpoint three_$shard
    check "three processes, $shard: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the same weights of three processes, $shard" same whole three_$shard
done

# Without --deterministic: those of the same processes without parts.
for shard in none optimizer gradients parameters; do
    mpi 120 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split 3:1 --shard $shard --max-steps 12 \
        --checkpoint "default_$shard" --clip-norm 0.5
    check "--shard $shard: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the same weights by default, $shard" same default_none "default_$shard"
done

# Sums that are compressed.
for shard in none optimizer gradients parameters; do
    mpi 120 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split 3:1 --shard $shard --max-steps 6 \
        --checkpoint "packed_$shard" --compress bf16
    check "--compress, --shard $shard: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the same compressed weights, $shard" same packed_none "packed_$shard"
done

# Matrices of low rank, which are made of whole gradients.
for shard in none optimizer; do
    mpi 120 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --split 3:1 --shard $shard --max-steps 6 \
        --checkpoint "low_$shard" --compress lowrank
    check "--compress lowrank, --shard $shard: $(cat mpi.err)" [ "$status" -eq 0 ]
done
check "the same weights of low ranks" same low_none low_optimizer
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" "${one[@]}" --shard gradients --max-steps 2 --compress lowrank
fails 2 "compress lowrank: .* so take shard optimizer, or compress bf16 or int8"

# ---- Resume --------------------------------------------------------------------------------------

# on N ARGUMENT...: goes on in N processes with the checkpoint `way`.
on() {
    local n=$1
    shift
    mpi 120 -n "$n" "$DPTRAIN" "${common[@]}" "${one[@]}" --checkpoint way --resume "$@"
    check "goes on in $n: $(cat mpi.err)" [ "$status" -eq 0 ]
}
mpi 120 -n 2 "$DPTRAIN" "${common[@]}" "${one[@]}" "${parts[@]}" --max-steps 3 --checkpoint way
check "the first: $(cat mpi.err)" [ "$status" -eq 0 ]
on 3 --shard parameters --max-steps 5
on 2 --max-steps 6
on 3 --shard gradients --max-steps 7
train "${common[@]}" --devices cpu:threads=1,cpu:threads=1 --shard gradients --max-steps 8 --checkpoint way --resume
train "${common[@]}" "${one[@]}" --max-steps 9 --checkpoint way --resume
on 2 "${parts[@]}" --split 1:5 --max-steps 12
check "the same weights behind it" same whole way

# ---- A process that is killed ----------------------------------------------------------------------

# mpirun ends the job.  The checkpoint has all of the state, with that of the process that was killed.
long=(--dataset synthetic:28x28x1:10:700 --model lenet --batch-size 32 --optimizer adamw --lr 0.002 --deterministic)
for shard in optimizer gradients parameters; do
    rm -rf killed killed.jsonl
    mpi 60 -n 3 "$DPTRAIN" "${long[@]}" "${one[@]}" --shard $shard --checkpoint killed --checkpoint-every 3 \
        --checkpoint-keep 1000 --max-steps 100000 &
    await killed/checkpoint-000000006.safetensors
    kill_rank 2
    wait
    last=$(find killed -name 'checkpoint-*.safetensors' | sort | tail -1 | grep -o '[1-9][0-9]*' | head -1)
    check "a checkpoint is left, $shard" [ "${last:-0}" -ge 6 ]
    mpi 60 -n 2 "$DPTRAIN" "${long[@]}" "${one[@]}" --shard $shard --checkpoint killed --resume \
        --max-steps $((last + 4)) --log killed.jsonl
    check "resuming, $shard: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "it goes on behind the checkpoint, $shard: $(cat killed.jsonl)" \
        [ "$(grep -c '"event":"step"' killed.jsonl)" -eq 4 ]
    train "${long[@]}" "${one[@]}" --max-steps $((last + 4)) --checkpoint long
    check "the same weights behind the kill, $shard" same long killed
done

# ---- Memory --------------------------------------------------------------------------------------

# The micro-batches are those of the devices with less memory.
wide=(--dataset synthetic:28x28x1:10:128 --model lenet --batch-size 16 --optimizer adamw --lr 0.002 --split equal
    --micro-batch 1)
little=(--devices '@0=cpu:threads=1:memory=2200K;@1=cpu:threads=1:memory=3M')
mpi 120 -n 2 "$DPTRAIN" "${wide[@]}" "${little[@]}" --max-steps 3
fails 1 "memory=2200K: .* the training fits with --shard optimizer$"
mpi 120 -n 2 "$DPTRAIN" "${wide[@]}" "${little[@]}" --max-steps 3 "${parts[@]}" --checkpoint limited
check "within limits: $(cat mpi.err)" [ "$status" -eq 0 ]
mpi 120 -n 2 "$DPTRAIN" "${wide[@]}" "${one[@]}" --max-steps 3 --checkpoint unlimited
check "without limits: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the same weights within limits" same unlimited limited

# The plan, which runs in one process, tells what several take.
checks=$((checks + 1))
"$DPTRAIN" plan "${wide[@]}" --devices cpu:threads=1,cpu:threads=1 "${parts[@]}" >plan.out 2>&1 ||
    fail "plan: $(cat plan.out)"
check "the plan tells of processes: $(cat plan.out)" grep -qE \
    "^Over several processes parts take 3.0 MiB of host memory in each, and behind the update each sends its part of 1.5 MiB to every other one$" \
    plan.out

# ---- Refusals ------------------------------------------------------------------------------------

few=("${task[@]}" "${one[@]}" --max-steps 2)
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --shard auto
fails 2 "shard auto chooses .* of one process .*: choose optimizer, gradients or parameters, or leave shard out$"
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --shard gradients --overlap off
fails 2 "gradients cannot be divided with .*; divide the optimizer's state alone"
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" "${parts[@]}" --offload
fails 2 "a CPU holds the optimizer's state of other devices within one process, not over several: leave offload out"
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" "${parts[@]}" --local-steps 4
fails 2 "local steps cannot be combined with shard: .*leave shard out$"
mpi_each 60 "$DPTRAIN" "${few[@]}" "${parts[@]}" : "$DPTRAIN" "${few[@]}"
fails 2 "parts differs: process 0 has optimizer, process 1 has none"
mpi 60 -n 2 "$DPTRAIN" "${few[@]}" --optimizer sgd --momentum 0 "${parts[@]}"
check "no state has no parts: $(cat mpi.err)" [ "$status" -eq 0 ]
check "nothing is told of parts: $(cat mpi.out)" eval '! grep -q "in parts" mpi.out'

finish
