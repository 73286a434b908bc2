#!/usr/bin/env bash
# dptrain plan: layers and sums of known networks, every device's share, and the same refusals as
# training.
. "$SRC/tests/cli/kit.bash"

# plan ARGUMENT...: a plan that must succeed, in plan.out.
plan() {
    checks=$((checks + 1))
    "$DPTRAIN" plan "$@" >plan.out 2>plan.err </dev/null && return
    fail "dptrain plan $*: exit status $?: $(cat plan.err)"
}
says() {
    check "plan says $1: $(cat plan.out)" grep -qE "$1" plan.out
}

images=synthetic:28x28x1:10:600
plan --dataset $images --devices cpu:threads=1,cpu:threads=1 --split 3:1 --momentum 0.9
says '^conv1 +conv2d +26x26x20 +200 +121680$'
says '^fc1 +linear +1x1x128 +102528 +102400$'
says '^lenet +a sample +129068 +2250360$'
says '^cpu:threads=1 +192 +[0-9]+ '
says '^cpu:threads=1 +64 +[0-9]+ '

# Deterministic training holds the sums of nodes of grains: none beside the gradients for 1:1.
two=(--dataset synthetic:28x28x1:10:512 --model mlp --batch-size 256 --devices cpu:threads=1,cpu:threads=1)
parameters() { awk '/^cpu/ { sum += $4 } END { print sum }' plan.out; }
plan "${two[@]}" --split 1:1
default=$(parameters)
plan "${two[@]}" --split 1:1 --deterministic
check "1:1 needs no more: $(cat plan.out)" [ "$(parameters)" = "$default" ]
plan "${two[@]}" --split 13:3 --deterministic
check "13:3 needs a bit more: $(cat plan.out)" awk "BEGIN { exit !($(parameters) > $default && $(parameters) < 1.3 * $default) }"

# Long names leave columns where they are.
unlike=cpu:threads=1,cpu:threads=1:throttle=3:memory=1G
plan --dataset $images --devices $unlike
check "columns are straight: $(cat plan.out)" [ \
    "$(awk '/^(DEVICE|cpu)/ { print length }' plan.out | sort -u | wc -l)" -eq 1 ]
plan --dataset $images --devices $unlike --verbose
check "one for each operation, too" [ "$(awk '/GATHER_LABELS/ { print index($0, "GATHER") }' plan.out |
    sort -u | wc -l)" -eq 1 ]

# The textbook counts 11 million parameters and 456 million multiply-adds.
plan --dataset $images --model resnet18-d2l --batch-size 2 --epochs 3 --schedule cosine
says '^resnet18-d2l +a sample +11175818 +4[56][0-9]{7}$'
plan --dataset $images --model resnet18 --batch-size 32 --micro-batch 8
says '^cpu +32 +8 '

plan --dataset $images --model lenet --compress bf16
says "^Compression: 1[.]0 MiB of host memory in each of several processes; .* another 0[.]5 MiB in a checkpoint, .* first one's memory$"

# Rounds of local steps: 129068 parameters and their momentum; two copies of them, and two at the end.
rounds=(--dataset $images --model lenet --local-steps 10 --momentum 0.9)
plan "${rounds[@]}"
says '^Local steps: several processes exchange 10[0-9]{5} bytes [(]0[.]9[89] MiB[)] in a round of 10 steps'
says '^Rounds take 1[.]0 MiB of host memory in each process, and at their end another 1[.]0 MiB$'
plan "${rounds[@]}" --compress int8 --outer-lr 1 --outer-momentum 0
says '^Local steps: several processes exchange 3[89][0-9]{4} bytes '
says '^Rounds take 0[.]5 MiB of host memory'
says '^Compression: 1[.]0 MiB of host memory'
plan "${rounds[@]}" --compress int8 --outer-delay 5
says '^Local steps: several processes exchange 1[23][0-9]{4} bytes '
says '^Rounds take 2[.]0 MiB of host memory'
plan "${rounds[@]}" --local-steps 1 --outer-lr 1 --outer-momentum 0 --deterministic
check "one that is synchronous: $(cat plan.out)" [ "$(grep -c 'Local steps' plan.out)" -eq 0 ]
refuse 2 'cannot be combined with accumulate' plan "${rounds[@]}" --accumulate 2 --batch-size 32
refuse 2 'cannot be combined with deterministic' plan "${rounds[@]}" --deterministic
refuse 2 'leave shard out' plan "${rounds[@]}" --shard optimizer
refuse 2 'belong to local steps' plan --dataset $images --model lenet --outer-lr 0.5

rm -rf empty && mkdir empty
check "a plan in an empty folder" env -C empty "$DPTRAIN" plan --dataset $images >plan.out
check "nothing is written" [ -z "$(ls empty)" ]
refuse 2 "unknown model" plan --dataset $images --model resnet19
refuse 2 "does not go with 'dptrain plan'" plan --log run.jsonl
refuse 1 "raise the limit or take a smaller batch" plan --dataset $images --model resnet18 --devices cpu:memory=40M
finish
