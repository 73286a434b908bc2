#!/usr/bin/env bash
# --shard optimizer, gradients and parameters, and --offload: what is told and refused, memory that a
# training fits into with one of them alone, and checkpoints that go on with them, without and on other
# devices.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
lacks() { ! grep "$@"; } # a pattern that a file does not have
same() { cmp -s "$1/model.safetensors" "$2/model.safetensors"; }

common=(--dataset synthetic:12x12x1:4:200 --model mlp --batch-size 32 --optimizer adamw --lr 0.002
    --deterministic --seed 5)
three=(--devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --split 13:2:1)
two=(--devices cpu:threads=1:memory=200M,cpu:threads=1:memory=60M --split 1:3)

refuse 2 "--shard: unknown value 'weights'; known: none, optimizer, gradients, parameters" "${common[@]}" --shard weights

# The same weights as without, and what devices hold is told.
train "${common[@]}" --max-steps 12 --devices cpu:threads=1 --checkpoint whole
check "one device holds all" lacks -q "^memory" train.out
train "${common[@]}" --max-steps 12 "${three[@]}" --shard optimizer --checkpoint parts
check "the same weights in parts" same whole parts
check "each device's part is told: $(cat train.out)" [ "$(grep -cE \
    "^memory +cpu:threads=1: holds [0-9.]+ of [0-9.]+ MiB of the optimizer's state$" train.out)" -eq 3 ]
check "the header tells of parts: $(cat train.out)" grep -q "^training .*, optimizer's state in parts, determ" train.out
train "${common[@]}" --max-steps 12 "${three[@]}" --shard gradients --checkpoint gradients --log gradients.jsonl
check "the log tells: $(head -1 gradients.jsonl)" grep -q '"event":"run".*"shard":"gradients"' gradients.jsonl
check "the same weights with gradients in parts" same whole gradients
check "the header tells of gradients: $(cat train.out)" \
    grep -q "^training .*, gradients and optimizer's state in parts, determ" train.out
train "${common[@]}" --max-steps 12 "${three[@]}" --shard parameters --checkpoint parameters --log parameters.jsonl
check "the log tells: $(head -1 parameters.jsonl)" grep -q '"event":"run".*"shard":"parameters"' parameters.jsonl
check "the same weights with parameters in parts" same whole parameters
check "the header tells of parameters: $(cat train.out)" \
    grep -q "^training .*, parameters, gradients and optimizer's state in parts, determ" train.out
train "${common[@]}" --max-steps 2 --devices cpu:threads=1 --shard gradients
check "one device has no parts: $(cat train.out)" lacks -q "in parts" train.out
train "${common[@]}" --max-steps 2 "${two[@]}" --optimizer sgd --momentum 0 --shard optimizer
check "no state has no parts: $(cat train.out)" lacks -q "in parts" train.out
train "${common[@]}" --max-steps 12 "${two[@]}" --shard none --checkpoint none
check "nothing is in parts" lacks -q "optimizer's state" train.out

# An interrupted training goes on with the other one, and on other devices.
train "${common[@]}" --max-steps 5 "${three[@]}" --shard optimizer --checkpoint there
train "${common[@]}" --max-steps 12 --devices cpu:threads=1 --checkpoint there --resume
check "goes on without parts" same whole there
train "${common[@]}" --max-steps 5 "${two[@]}" --checkpoint back
train "${common[@]}" --max-steps 8 "${three[@]}" --shard optimizer --checkpoint back --resume
train "${common[@]}" --max-steps 12 "${two[@]}" --shard optimizer --checkpoint back --resume
check "goes on with parts" same whole back
train "${common[@]}" --max-steps 5 "${two[@]}" --shard gradients --checkpoint way
train "${common[@]}" --max-steps 8 "${three[@]}" --shard optimizer --checkpoint way --resume
train "${common[@]}" --max-steps 10 --devices cpu:threads=1 --checkpoint way --resume
train "${common[@]}" --max-steps 12 "${three[@]}" --shard gradients --checkpoint way --resume
check "goes on with gradients in parts" same whole way
train "${common[@]}" --max-steps 5 "${two[@]}" --shard parameters --checkpoint far
train "${common[@]}" --max-steps 8 "${three[@]}" --shard gradients --checkpoint far --resume
train "${common[@]}" --max-steps 10 --devices cpu:threads=1 --checkpoint far --resume
train "${common[@]}" --max-steps 12 "${three[@]}" --shard parameters --checkpoint far --resume
check "goes on with parameters in parts" same whole far

# Evaluation gathers parameters, too, and the weights that it is told of are those of the file.
for shard in none parameters; do
    train "${common[@]}" --epochs 2 "${three[@]}" --shard "$shard" --checkpoint "eval_$shard" --log "eval_$shard.jsonl"
done
results() { grep '"event":"epoch"' "$1" | grep -o '"test_[a-z]*":[^,}]*'; }
check "the same results: $(results eval_parameters.jsonl)" \
    [ -n "$(results eval_none.jsonl)" -a "$(results eval_none.jsonl)" = "$(results eval_parameters.jsonl)" ]
train "${common[@]}" --load eval_none/model.safetensors --max-steps 3 --devices cpu:threads=1 --checkpoint tuned
train "${common[@]}" --load eval_none/model.safetensors --max-steps 3 "${three[@]}" --shard parameters \
    --checkpoint tuned_parts
check "weights that are loaded" same tuned tuned_parts

# What gradients are not divided with.
refuse 2 "gradients cannot be divided with overlap off: .*; divide the optimizer's state alone$" \
    train "${common[@]}" "${two[@]}" --shard gradients --overlap off
refuse 2 "parameters and gradients cannot be divided with overlap off: .*; divide the optimizer's state alone$" \
    train "${common[@]}" "${two[@]}" --shard parameters --overlap off

# Micro-batches, between which host memory keeps gradients.
train "${common[@]}" --max-steps 12 "${two[@]}" --shard gradients --micro-batch 4 --checkpoint small
check "the same weights in micro-batches" same whole small
train "${common[@]}" --max-steps 12 "${two[@]}" --shard parameters --micro-batch 4 --checkpoint least
check "the same weights in micro-batches with parameters in parts" same whole least

# Weights that two layers share get their gradient in two parts of the backward pass.
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text.txt
tied=(--dataset text:16 --data text.txt --model llama-tied:2:2:1:32:16 --batch-size 16 --max-steps 4
    --optimizer adamw --clip-norm 0.5 "${three[@]}")
train "${tied[@]}" --checkpoint tied
train "${tied[@]}" --checkpoint tied_parts --shard gradients
check "the same shared weights" same tied tied_parts
train "${tied[@]}" --checkpoint tied_all --shard parameters --rows-of-logits 7 --recompute on
train "${tied[@]}" --checkpoint tied_rows --rows-of-logits 7
check "the same shared weights, gathered for chunks of rows" same tied_rows tied_all

# Adapters: no device keeps the base, which is frozen.
train "${tied[@]}" --checkpoint base --max-steps 1
adapted=("${tied[@]}" --load base/model.safetensors --lora 2)
train "${adapted[@]}" --checkpoint adapted
train "${adapted[@]}" --checkpoint adapted_parts --shard parameters
check "the same adapters" cmp -s adapted/adapter_model.safetensors adapted_parts/adapter_model.safetensors
refuse 2 "gradients cannot be divided with deterministic in a model .*weights that several layers share" \
    train "${tied[@]}" --shard gradients --deterministic

# Memory.  The plan says what each device holds with it and without, and a training that does not fit
# says what helps.
wide=(--dataset synthetic:28x28x1:10:128 --model lenet --batch-size 16 --optimizer adamw --lr 0.002 --split equal)
little=(--devices cpu:threads=1:memory=2200K,cpu:threads=1:memory=3M)
refuse 1 "memory=2200K: .* the training fits with --shard optimizer, which --shard auto chooses$" plan "${wide[@]}" "${little[@]}"
refuse 1 "memory=2200K: .* the training fits with --shard optimizer, which --shard auto chooses$" train "${wide[@]}" "${little[@]}"
checks=$((checks + 1))
"$DPTRAIN" plan "${wide[@]}" "${little[@]}" --shard optimizer >plan.out 2>&1 || fail "plan: $(cat plan.out)"
check "the plan tells of parts: $(cat plan.out)" grep -qE \
    "^The optimizer's state is in parts: without --shard optimizer 1.0 MiB on each device; host memory" plan.out
check "each device is within its limit: $(cat plan.out)" \
    awk '/memory=2200K/ { small = $9 } /memory=3M/ { large = $9 }
        END { exit !(small > 0 && small <= 2.15 && large > small && large <= 3) }' plan.out
train "${wide[@]}" "${little[@]}" --shard optimizer --max-steps 3
checks=$((checks + 1))
"$DPTRAIN" plan "${wide[@]}" --devices cpu:threads=1,cpu:threads=1 >plan.out 2>&1 || fail "plan: $(cat plan.out)"
check "the plan tells what parts would save: $(cat plan.out)" grep -q \
    "^The optimizer's state takes 1.0 MiB on each device; with --shard optimizer on all devices together" plan.out
check "the plan tells what parts of gradients would save: $(cat plan.out)" grep -q \
    "^Gradients take 0.5 MiB on each device; with --shard gradients those of a few layers" plan.out

check "the plan tells what parts of parameters would save: $(cat plan.out)" grep -q \
    "^Parameters take 0.5 MiB on each device; with --shard parameters those of a layer" plan.out

# A network of which the smallest device holds the parameters, and not the gradients beside them.
large=(--dataset synthetic:32x32x1:10:64 --model mlp --batch-size 16 --optimizer adamw --split equal)
small=(--devices cpu:threads=1:memory=13M,cpu:threads=1:memory=18M,cpu:threads=1:memory=24M)
for shard in none optimizer; do
    refuse 1 "memory=13M: .* the training fits with --shard gradients, which --shard auto chooses$" plan "${large[@]}" "${small[@]}" \
        --shard "$shard"
done
checks=$((checks + 1))
"$DPTRAIN" plan "${large[@]}" "${small[@]}" --shard gradients >plan.out 2>&1 || fail "plan: $(cat plan.out)"
check "the plan tells of gradients: $(cat plan.out)" grep -qE \
    "^Gradients and the optimizer's state are in parts: without --shard gradients 24.1 MiB on each device; host" plan.out
check "each device is within its limit: $(cat plan.out)" \
    awk '/memory=13M/ { n += $9 <= 13 } /memory=18M/ { n += $9 <= 18 } /memory=24M/ { n += $9 <= 24 }
        END { exit n != 3 }' plan.out
train "${large[@]}" --devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --max-steps 3 --checkpoint unlimited
train "${large[@]}" "${small[@]}" --shard gradients --max-steps 3 --checkpoint limited
check "the same weights within limits" same unlimited limited
checks=$((checks + 1))
"$DPTRAIN" plan "${large[@]}" --devices cpu:threads=1,cpu:threads=1 --shard gradients --micro-batch 4 \
    >plan.out 2>&1 || fail "plan: $(cat plan.out)"
check "what host memory keeps is told: $(cat plan.out)" \
    grep -qE "^Between micro-batches host memory has 1[0-9].[0-9] MiB of gradients$" plan.out

# A network whose parameters alone the smallest device does not hold.
tiny=(--devices cpu:threads=1:memory=8200K,cpu:threads=1:memory=20M,cpu:threads=1:memory=24M)
refuse 1 "memory=8200K: .* the training fits with --shard parameters \(each micro-batch copies [0-9.]+ MiB to a device\), which --shard auto chooses$" \
    plan "${large[@]}" "${tiny[@]}" --shard gradients
checks=$((checks + 1))
"$DPTRAIN" plan "${large[@]}" "${tiny[@]}" --shard parameters >plan.out 2>&1 || fail "plan: $(cat plan.out)"
check "the plan tells of parameters: $(cat plan.out)" grep -qE \
    "^Parameters, gradients and the optimizer's state are in parts: without --shard parameters 32.2 MiB on each device" plan.out
check "the plan tells what is copied: $(cat plan.out)" grep -qE \
    "^Each micro-batch copies parameters from host memory to the devices: at most [0-9.]+ MiB to one, [0-9.]+ MiB to all" plan.out
check "each device is within its limit: $(cat plan.out)" \
    awk '/memory=8200K/ { n += $9 <= 8.01 } /memory=20M/ { n += $9 <= 20 } /memory=24M/ { n += $9 <= 24 }
        END { exit n != 3 }' plan.out
train "${large[@]}" "${tiny[@]}" --shard parameters --max-steps 3 --checkpoint limited_more
check "the same weights within smaller limits" same unlimited limited_more
refuse 1 "memory=1M: [^;]*take a smaller batch; .* the least that would do is memory=[0-9]* for .*, with --shard optimizer$" plan "${wide[@]}" \
    --devices cpu:threads=1:memory=1M,cpu:threads=1:memory=1M

# Offload.  Devices of the fault plug-ins stand for cards.
refuse 2 "offload needs a device that is no CPU, and all devices are CPUs.*leave offload out$" \
    train "${common[@]}" "${two[@]}" --offload
refuse 2 "offload needs a device that is no CPU, .*leave offload out$" plan "${common[@]}" --devices cpu --offload
refuse 2 "--offload and --shard none: leave one$" train "${common[@]}" "${two[@]}" --offload --shard none
if [ -n "${DPTRAIN_FAULT_INNER:-}" ]; then
    export DPTRAIN_BACKEND_PATH="$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH"
    card=faultstaged:threads=1:apart=1
    beside=(--devices "$card,cpu:threads=1" --split 1:0)
    parted=(--devices "$card,cpu:threads=1,$card" --split 3:1:2)
    refuse 2 "offload needs a CPU, which holds .*: add cpu to the devices, or leave offload out$" \
        train "${common[@]}" --devices "$card" --offload
    refuse 2 "offload needs an optimizer with a state.*leave offload out$" \
        train "${common[@]}" "${beside[@]}" --optimizer sgd --momentum 0 --offload
    refuse 2 "gradients cannot be divided with overlap off: " \
        train "${common[@]}" "${beside[@]}" --shard gradients --offload --overlap off
    for shard in optimizer gradients parameters; do
        train "${common[@]}" --max-steps 12 "${beside[@]}" --shard "$shard" --offload --checkpoint "off_$shard" \
            --log off.jsonl
        check "the same weights with --shard $shard --offload" same whole "off_$shard"
        check "the card holds none of the state: $(cat train.out)" \
            grep -qE "^memory +$card: holds 0.0 of [0-9.]+ MiB of the optimizer's state$" train.out
        check "the header tells of CPUs: $(cat train.out)" \
            grep -q "^training .*optimizer's state in parts on CPUs, determ" train.out
        check "the log tells: $(head -1 off.jsonl)" \
            grep -q "\"event\":\"run\".*\"shard\":\"$shard\",\"offload\":true" off.jsonl
    done
    # Without --shard it is --shard optimizer; and a training goes on with it, without and in other parts.
    train "${common[@]}" --max-steps 4 "${beside[@]}" --offload --checkpoint on
    check "--shard optimizer is meant: $(cat train.out)" grep -q "decay 0, optimizer's state in parts on CPUs, " train.out
    train "${common[@]}" --max-steps 6 --devices cpu:threads=1 --checkpoint on --resume
    train "${common[@]}" --max-steps 8 "${parted[@]}" --shard parameters --checkpoint on --resume
    train "${common[@]}" --max-steps 10 "${parted[@]}" --shard gradients --offload --checkpoint on --resume
    train "${common[@]}" --max-steps 12 "${beside[@]}" --offload --checkpoint on --resume
    check "goes on with and without" same whole on

    # The one CPU is lost: the loss says who holds the state now, and nothing is lost.
    train "${common[@]}" --max-steps 12 --offload --split 3:1:2 --checkpoint moved --log moved.jsonl \
        --devices "$card,fault:threads=1:after=4:fail=1,$card"
    check "the loss is told: $(cat train.err)" \
        grep -q "no CPU is left: the other devices hold the optimizer's state now" train.err
    check "the same weights behind a loss" same whole moved

    # The plan, and what is advised.
    checks=$((checks + 1))
    "$DPTRAIN" plan "${common[@]}" "${beside[@]}" --offload >plan.out 2>&1 || fail "plan: $(cat plan.out)"
    check "the plan tells of CPUs: $(cat plan.out)" grep -qE \
        "^CPUs hold the parts for all devices: 9.2 MiB of the optimizer's state; with its copy host memory has 18.3 MiB of it$" \
        plan.out
    check "the plan tells what is copied: $(cat plan.out)" grep -qE \
        "^Behind its update each step copies between host memory and the devices: at most ([0-9.]+) MiB for one, \1 MiB for all$" \
        plan.out
    short=(--devices "$card:memory=13M,cpu:threads=1" --split 1:0)
    small=(--devices "$card:memory=18M,cpu:threads=1:memory=16M" --split 1:0)
    for verb in plan train; do
        refuse 1 "memory=13M: .* the training fits with --offload \(each step copies [0-9.]+ MiB between a device and the host\), which --shard auto chooses$" \
            "$verb" "${common[@]}" "${short[@]}"
        refuse 1 "memory=18M: .* the training fits with --shard optimizer, which --shard auto chooses$" "$verb" "${common[@]}" "${small[@]}"
        refuse 1 "memory=16M: .* the training fits with --shard optimizer and without --offload, which --shard auto chooses$" \
            "$verb" "${common[@]}" "${small[@]}" --offload
    done
    train "${common[@]}" --max-steps 12 "${short[@]}" --offload --checkpoint short
    check "the same weights within the limit" same whole short
fi

check "help" grep -q -- "--shard=none|optimizer|gradients|parameters" <("$DPTRAIN" train --help)
finish
