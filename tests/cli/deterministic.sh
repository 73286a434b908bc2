#!/usr/bin/env bash
# --deterministic: the same weights, losses and evaluations on other mixes of CPUs, with other
# instruction sets, shares and micro-batches, and through a resume on another mix.
. "$SRC/tests/cli/kit.bash"

# same LOG NAME ARGUMENT...: trains the network of ${net[@]} once more; no step and no epoch differs
# from those of LOG.
same() {
    local log=$1 name=$2
    shift 2
    train "${net[@]}" --deterministic --quiet --log "$name.jsonl" "$@"
    checks=$((checks + 1))
    "$DPTRAIN" compare "$log" "$name.jsonl" >compare.out 2>compare.err
    local code=$?
    [ $code -eq 0 ] && grep -q '^no difference in' compare.out || fail "$name: $code, $(cat compare.out compare.err)"
}

three=cpu:threads=1,cpu:threads=1,cpu:threads=1
for network in lenet resnet18; do
    if [ $network = lenet ]; then
        net=(--model lenet --dataset synthetic:16x16x1:4:140 --batch-size 50 --epochs 2 --momentum 0.9
            --augment crop:2,flip --validation 0.2)
    else
        net=(--model resnet18 --dataset synthetic:8x8x3:4:70 --batch-size 32 --epochs 2 --optimizer adamw
            --clip-norm 1 --label-smoothing 0.1 --augment rotate:20,randaugment,jitter:0.4:0.4:0.4:0.1,mixup:0.4,cutmix)
    fi
    train "${net[@]}" --deterministic --quiet --devices cpu:threads=1 --log $network.jsonl
    same $network.jsonl two --devices cpu:threads=2
    same $network.jsonl parts --devices $three --split 13:2:1
    same $network.jsonl alone --devices $three --split 0:1:0
    same $network.jsonl measured --devices cpu:threads=1,cpu:threads=1:throttle=2
    rm -rf run
    same $network.jsonl resumed --devices $three --checkpoint run
    rm -rf run resumed.jsonl
    train "${net[@]}" --deterministic --quiet --log resumed.jsonl --devices $three --split 2:1:1 --checkpoint run \
        --max-steps 3
    same $network.jsonl resumed --devices cpu:threads=2 --checkpoint run --resume
done
net=(--model lenet --dataset synthetic:16x16x1:4:140 --batch-size 50 --epochs 2 --momentum 0.9 --augment
    crop:2,flip --validation 0.2)
same lenet.jsonl micro --devices cpu:threads=1 --micro-batch 9
train "${net[@]}" --quiet --devices cpu:threads=1,cpu:threads=1 --split 5:3 --log shares.jsonl
same lenet.jsonl replayed --devices cpu:threads=1,cpu:threads=1 --split replay:shares.jsonl
for isa in avx512 avx2 neon portable; do
    DPTRAIN_CPU_ISA=$isa "$DPTRAIN" devices --no-measure >isa.out 2>&1 && grep -q "$isa" isa.out || continue
    DPTRAIN_CPU_ISA=$isa same lenet.jsonl $isa --devices cpu:threads=2
done

if mpi_ready; then
    process=("$DPTRAIN" train "${net[@]}" --deterministic --quiet --devices cpu:threads=1 --split 3:1:2
        --log processes.jsonl)
    mpi_each 120 "${process[@]}" : "${process[@]}" : "${process[@]}"
    check "exit status $status: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "three processes" "$DPTRAIN" compare lenet.jsonl processes.jsonl
fi

# Two batches of 25 are one of 50.
net=(--model lenet --dataset synthetic:16x16x1:4:140 --batch-size 25 --accumulate 2 --epochs 2 --momentum 0.9
    --augment crop:2,flip --validation 0.2)
same lenet.jsonl accumulated --devices $three --split 13:2:1
rm -rf run resumed.jsonl
train "${net[@]}" --deterministic --quiet --log resumed.jsonl --devices $three --split 2:1:1 --checkpoint run \
    --max-steps 3
same lenet.jsonl resumed --devices cpu:threads=2 --checkpoint run --resume

# Evaluations and predictions of the weights have the same bits on every mix, and those of the training.
rm -rf run
train --model lenet --dataset synthetic:16x16x1:4:140 --batch-size 50 --epochs 1 --deterministic --quiet \
    --devices cpu:threads=1 --log tested.jsonl --checkpoint run
loss=$(sed -n 's/.*"test_loss": *\([0-9.e-]*\).*/\1/p' tested.jsonl | tail -1)
check "the training tells the test loss" test -n "$loss"
for devices in cpu:threads=1 cpu:threads=2 $three; do
    "$DPTRAIN" eval --deterministic --model lenet --dataset synthetic:16x16x1:4:140 --checkpoint run \
        --devices $devices >eval.out 2>eval.err
    check "$devices: the loss is $loss: $(cat eval.out eval.err)" grep -q "^test loss $loss accuracy" eval.out
done

# What it cannot be combined with
net=(--model resnet18 --dataset synthetic:8x8x3:4:70 --batch-size 32 --epochs 1)
refuse 2 "deterministic training cannot be combined with batch-norm local" train "${net[@]}" \
    --deterministic --batchnorm local
refuse 2 "deterministic training cannot be combined with several batches in a step" train "${net[@]}" \
    --deterministic --accumulate 2
refuse 2 "batch-norm needs its whole shard" train "${net[@]}" --deterministic --micro-batch 8
# The training of a checkpoint stays what it is.
rm -rf run
train "${net[@]}" --deterministic --quiet --checkpoint run --max-steps 1
refuse 2 "deterministic" train "${net[@]}" --quiet --checkpoint run --resume
if "$DPTRAIN" devices --no-measure | grep -qE '^opencl(:[0-9]+)? +'; then
    refuse 1 "opencl.*does not compute .*with the same bits as other devices" train "${net[@]}" --deterministic \
        --devices opencl:0
fi
finish
