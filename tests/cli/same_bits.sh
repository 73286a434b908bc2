#!/usr/bin/env bash
# --deterministic, the whole matrix: 200 steps of four networks on every mix that this machine has.  It
# prints the SHA-256 of the weights, for the table of docs/reproducibility.md.
#
#   SAME_BITS_STEPS    steps, a multiple of 4 (default 200)
#   SAME_BITS_BATCH    samples of a step (default 16).  Emulators and interpreters need few
#   SAME_BITS_NETWORKS of "lenet resnet18 vgg11 attention"
#   SAME_BITS_OTHERS   words COMMAND or COMMAND@DEVICES (default cpu:threads=2): other builds of the command,
#                      such as of another compiler, and scripts that start a build in an emulator or with
#                      another driver.  Each finds its plug-ins in ../lib/dptrain or says where they are
#   SAME_BITS_ONLY     1: the first run and the others alone
. "$SRC/tests/cli/kit.bash"

steps=${SAME_BITS_STEPS:-200}
batch=${SAME_BITS_BATCH:-16}
each=$((steps / 4))
three=cpu:threads=1,cpu:threads=1,cpu:threads=1

# The data of a network have `each` batches in an epoch.
choose() {
    local count=$((batch * each))
    case $1 in
    lenet) net=(--model lenet --dataset synthetic:28x28x1:10:$count --lr 0.1) ;;
    resnet18) net=(--model resnet18 --dataset synthetic:16x16x3:10:$count --lr 0.05) ;;
    vgg11) net=(--model vgg11 --dataset synthetic:32x32x3:10:$count --lr 0.01 --augment crop:4,flip) ;;
    attention) net=(--model "$SRC/tests/onnx/trained/vit_default.onnx" --dataset synthetic:8x8x2:3:$count --lr 0.05) ;;
    esac
    net+=(--batch-size $batch --epochs 4 --momentum 0.9 --quiet --deterministic)
}

hash_of() {
    grep -o '"weights_sha256":"[0-9a-f]*"' "$1" | tail -1 | cut -d'"' -f4
}

# same NAME ARGUMENT...: trains ${net[@]} with the command $command; every step and epoch is that of first.jsonl.
same() {
    local name=$1 code
    shift
    checks=$((checks + 1))
    "$command" train "${net[@]}" --log "$name.jsonl" "$@" >train.out 2>train.err </dev/null ||
        { fail "$network, $name: exit status $?: $(cat train.err)"; return; }
    "$DPTRAIN" compare first.jsonl "$name.jsonl" >compare.out 2>compare.err
    code=$?
    [ $code -eq 0 ] && grep -q '^no difference in' compare.out ||
        fail "$network, $name: $code, $(cat compare.out compare.err)"
    printf '%s | %s | %s\n' "$network" "$name" "$(hash_of "$name.jsonl")"
}

# Whether the command can train deterministically on a device.
can() {
    "$DPTRAIN" train --model lenet --dataset synthetic:16x16x1:4:16 --batch-size 16 --epochs 1 --quiet --deterministic \
        --devices "$1" >can.out 2>can.err </dev/null
}

# A run that is killed, and goes on with other devices.
killed() {
    rm -rf run killed.jsonl
    "$command" train "${net[@]}" --log killed.jsonl --devices $three --split 2:1:1 --checkpoint run \
        --checkpoint-every 7steps >train.out 2>train.err </dev/null &
    local number=$!
    await run/model.safetensors
    kill -KILL $number 2>/dev/null
    wait $number 2>/dev/null
    # Few steps may have ended before.
    [ "$?" -eq 137 ] || [ "$steps" -lt 100 ] || fail "$network: the run ended before it was killed"
    same killed --devices cpu:threads=2 --checkpoint run --resume
}

# What $SAME_BITS_OTHERS names.
others() {
    local other
    for other in ${SAME_BITS_OTHERS-}; do
        case $other in *@*) ;; *) other=$other@cpu:threads=2 ;; esac
        command=${other%%@*} DPTRAIN_BACKEND_PATH= same "$other" --devices "${other#*@}"
    done
}

# A device that is lost in the middle of a step: the others compute the step again.
lost() {
    [ -n "${DPTRAIN_FAULT_INNER:-}" ] || return
    DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH same lost --split 1:2:1 \
        --devices "cpu:threads=1,fault:threads=1:after=$((steps / 2)):lost=2,cpu:threads=1"
    check "$network: the device is lost: $(cat train.err)" grep -q 'device fault:.* is lost' train.err
}

for network in ${SAME_BITS_NETWORKS:-lenet resnet18 vgg11 attention}; do
    choose "$network"
    command=$DPTRAIN
    train "${net[@]}" --devices cpu:threads=1 --log first.jsonl
    printf '%s | %s | %s\n' "$network" first "$(hash_of first.jsonl)"
    check "$network learns" [ "$(grep -c '"weights_sha256"' first.jsonl)" -eq 4 ]
    others
    [ "${SAME_BITS_ONLY:-0}" = 1 ] && continue
    same "two threads" --devices cpu:threads=2
    same "three threads" --devices cpu:threads=3
    for isa in avx512 avx2 neon portable; do
        DPTRAIN_CPU_ISA=$isa "$DPTRAIN" devices --no-measure >isa.out 2>&1 && grep -q "$isa" isa.out || continue
        DPTRAIN_CPU_ISA=$isa same "$isa" --devices cpu:threads=2
    done
    same "cpu,cpu,cpu 13:2:1" --devices $three --split 13:2:1
    same "cpu,cpu,cpu 0:1:0" --devices $three --split 0:1:0
    same "shares that change" --devices cpu:threads=1,cpu:threads=1:throttle=2
    if [ "$network" != resnet18 ]; then # a batch-norm takes its whole shard at once
        for most in 1 3 16; do same "micro-batches of $most" --devices cpu:threads=1 --micro-batch $most; done
    fi
    killed
    lost
    for device in opencl:0 cuda:0; do
        can $device || continue
        same "$device" --devices $device
        same "cpu,$device 3:1" --devices cpu:threads=1,$device --split 3:1
    done
    if can opencl:0,opencl:1; then
        same "opencl:0,opencl:1" --devices opencl:0,opencl:1
    fi
    if mpi_ready; then
        process=("$DPTRAIN" train "${net[@]}" --devices cpu:threads=1 --split 3:1:2 --log processes.jsonl)
        mpi_each 1800 "${process[@]}" : "${process[@]}" : "${process[@]}"
        check "exit status $status: $(cat mpi.err)" [ "$status" -eq 0 ]
        check "$network, three processes" "$DPTRAIN" compare first.jsonl processes.jsonl
        printf '%s | %s | %s\n' "$network" "three processes" "$(hash_of processes.jsonl)"
    fi
done
finish
