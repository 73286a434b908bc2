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

says '^The gradients of a step travel as 258432 bytes [(]0[.]25 MiB[)]$'
plan --dataset $images --model lenet --compress lowrank # of rank 4: 2 * 6580 bytes, and 208 biases
says '^Compression: 1[.]5 MiB of host memory in each of several processes; .* another 0[.]5 MiB in a checkpoint'
says '^The gradients of a step travel as 13992 bytes [(]0[.]01 MiB[)]$'
plan --dataset $images --model lenet --compress lowrank --compress-rank 1
says '^The gradients of a step travel as 4122 bytes [(]0[.]00 MiB[)]$'
refuse 2 'cannot be combined with compress lowrank' plan --dataset $images --model lenet --compress lowrank --local-steps 10
refuse 2 'cannot be combined with compress' plan --dataset $images --model lenet --compress lowrank --deterministic

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
check "one fragment: $(cat plan.out)" [ "$(grep -c 'fragments' plan.out)" -eq 0 ]
plan "${rounds[@]}" --compress int8 --outer-delay 1 --outer-fragments 4
says '^They do so in 4 fragments, of at most 3[23][0-9]{3} bytes [(]0[.]03 MiB[)]$'
says '^Rounds take 1[.]2 MiB of host memory'
plan "${rounds[@]}" --local-steps 1 --outer-lr 1 --outer-momentum 0 --deterministic
check "one that is synchronous: $(cat plan.out)" [ "$(grep -c 'Local steps' plan.out)" -eq 0 ]
refuse 2 'cannot be combined with accumulate' plan "${rounds[@]}" --accumulate 2 --batch-size 32
refuse 2 'cannot be combined with deterministic' plan "${rounds[@]}" --deterministic
refuse 2 'leave shard out' plan "${rounds[@]}" --shard optimizer
refuse 2 'belong to local steps' plan --dataset $images --model lenet --outer-lr 0.5

# What is computed again.
plan --dataset $images --model resnet18 --batch-size 4
check "nothing is computed again: $(cat plan.out)" [ "$(grep -c 'computed again' plan.out)" -eq 0 ]
plan --dataset $images --model resnet18 --batch-size 4 --recompute on
says '^Activations are computed again in the backward pass: [0-9.]+ of the [0-9.]+ GFLOP of a step$'

# The time of a step: figures that go together, whatever they are.
three=(--dataset $images --model mlp --batch-size 50 --devices cpu:threads=1,cpu:threads=1,cpu:threads=1)
check_times() {
    check "$1: $(cat plan.out)" python3 - "$2" <<'PYTHON'
import re, sys
text = open("plan.out").read()
steps, samples, others = map(int, re.search(
    r"^Measured in (\d+) steps of (\d+) samples, after (\d+) others", text, re.M).groups())
rows = re.findall(r"^cpu:threads=1 +(\d+) +([0-9.]+) +([0-9.]+) +([0-9.]+)$", text, re.M)
mean, least, most, rate = map(float, re.search(
    r"^A step takes ([0-9.]+) ms \(([0-9.]+) to ([0-9.]+)\): (\d+) samples/s$", text, re.M).groups())
count, epoch = re.search(r"^An epoch of (\d+) samples takes ([0-9.]+) s, ", text, re.M).groups()
assert samples == 50 and steps >= 5 and (others == 3 if sys.argv[1] == "fixed" else 8 <= others <= 40)
assert len(rows) == 3 and sum(int(row[0]) for row in rows) == 50
assert all(0 < float(busy) and float(exchange) <= float(busy) for _, busy, exchange, _ in rows)
assert 0 < least <= mean <= most and abs(rate - 50e3 / mean) <= 1 + 1e-3 * rate
assert int(count) == 600 and abs(float(epoch) - mean * 600 / 50 / 1e3) <= 0.01 + 1e-3 * float(epoch)
PYTHON
}
plan "${three[@]}" --split 2:1:1 --measure 0.2
check_times "fixed shards" fixed
plan "${three[@]}" --measure 0.2
check_times "measured shards" measured
# A signal ends it early, with what was measured so far.
"$DPTRAIN" plan "${three[@]}" --split equal --measure 600 >plan.out 2>plan.err &
for ((i = 0; i < 300; i++)); do
    if grep -q '^The process itself' plan.out; then break; fi
    sleep 0.1
done
sleep 1
kill -TERM $!
status=0
wait $! || status=$?
check "status $status, not 143" [ $status -eq 143 ]
check "it is told: $(cat plan.err)" grep -qx 'dptrain: ended early by signal 15' plan.err
says '^A step takes '
refuse 2 "'0' is not a time above 0" plan "${three[@]}" --measure 0
refuse 2 "does not go with 'dptrain train'" train "${three[@]}" --measure 1
refuse 1 "cannot look for data in nowhere" plan --dataset idx --data nowhere --measure 1

rm -rf empty && mkdir empty
check "a plan in an empty folder" env -C empty "$DPTRAIN" plan --dataset $images >plan.out
check "nothing is written" [ -z "$(ls empty)" ]
refuse 2 "unknown model" plan --dataset $images --model resnet19
refuse 2 "does not go with 'dptrain plan'" plan --log run.jsonl
refuse 1 "raise the limit or take a smaller batch" plan --dataset $images --model resnet18 --devices cpu:memory=40M
finish
