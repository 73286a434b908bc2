#!/usr/bin/env bash
# --shard optimizer: what is told and refused, memory that a training fits into with it alone, and
# checkpoints that go on with it, without it and on other devices.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
lacks() { ! grep "$@"; } # a pattern that a file does not have
same() { cmp -s "$1/model.safetensors" "$2/model.safetensors"; }

common=(--dataset synthetic:12x12x1:4:200 --model mlp --batch-size 32 --optimizer adamw --lr 0.002
    --deterministic --seed 5)
three=(--devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --split 13:2:1)
two=(--devices cpu:threads=1:memory=200M,cpu:threads=1:memory=60M --split 1:3)

refuse 2 "--shard: unknown value 'weights'; known: none, optimizer" "${common[@]}" --shard weights

# The same weights as without, and what devices hold is told.
train "${common[@]}" --max-steps 12 --devices cpu:threads=1 --checkpoint whole
check "one device holds all" lacks -q "^memory" train.out
train "${common[@]}" --max-steps 12 "${three[@]}" --shard optimizer --checkpoint parts
check "the same weights in parts" same whole parts
check "each device's part is told: $(cat train.out)" [ "$(grep -cE \
    "^memory +cpu:threads=1: holds [0-9.]+ of [0-9.]+ MiB of the optimizer's state$" train.out)" -eq 3 ]
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

# Memory.  The plan says what each device holds with it and without, and a training that does not fit
# says what helps.
wide=(--dataset synthetic:28x28x1:10:128 --model lenet --batch-size 16 --optimizer adamw --lr 0.002 --split equal)
little=(--devices cpu:threads=1:memory=2200K,cpu:threads=1:memory=3M)
refuse 1 "memory=2200K: .* the training fits with --shard optimizer$" plan "${wide[@]}" "${little[@]}"
refuse 1 "memory=2200K: .* the training fits with --shard optimizer$" train "${wide[@]}" "${little[@]}"
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
refuse 1 "memory=1M: [^;]*take a smaller batch$" plan "${wide[@]}" \
    --devices cpu:threads=1:memory=1M,cpu:threads=1:memory=1M

check "help" grep -q -- "--shard=none|optimizer" <("$DPTRAIN" train --help)
finish
