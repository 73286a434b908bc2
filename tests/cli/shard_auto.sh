#!/usr/bin/env bash
# --shard auto: what is chosen, why, and what is told of it; and the least memory that would do, to the
# byte.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
lacks() { ! grep "$@"; } # a pattern that a file does not have
same() { cmp -s "$1/model.safetensors" "$2/model.safetensors"; }
plan() {
    checks=$((checks + 1))
    "$DPTRAIN" plan "$@" >plan.out 2>plan.err </dev/null && return
    fail "dptrain plan $*: exit status $?: $(cat plan.err)"
}
says() { check "plan says $1: $(cat plan.out)" grep -qE -- "$1" plan.out; }

wide=(--dataset synthetic:28x28x1:10:128 --model lenet --batch-size 16 --optimizer adamw --lr 0.002 --split equal)
large=(--dataset synthetic:32x32x1:10:64 --model mlp --batch-size 16 --optimizer adamw --split equal)
two() { printf 'cpu:threads=1:memory=%s,cpu:threads=1:memory=%s' "$@"; }
three() { printf 'cpu:threads=1:memory=%s,cpu:threads=1:memory=%s,cpu:threads=1:memory=%s' "$@"; }
number='[0-9]+'

# Nothing is saved where all fits, and it is said.
plan "${wide[@]}" --devices "$(two 8M 8M)" --shard auto
says '^--shard auto chose --shard none: the training fits as it is$'
says "^--shard none  +cpu:threads=1:memory=8M +$number +8388608  yes"
train "${wide[@]}" --devices "$(two 8M 8M)" --shard auto --max-steps 2 --log none.jsonl
check "nothing is in parts: $(cat train.out)" lacks -q "in parts" train.out
check "the header says so: $(cat train.out)" \
    grep -q '^memory    --shard auto chose --shard none: the training fits as it is$' train.out
check "so does the log: $(head -1 none.jsonl)" grep -q '"event":"run".*"chosen":"--shard none"' none.jsonl
train "${wide[@]}" --max-steps 1 --log plain.jsonl
check "without it the log tells of no choice" lacks -q chosen plain.jsonl

# chooses OPTIONS ARGUMENT...: plan and training choose these options, and the weights are those of a training
# that is given them.
chooses() {
    local options=$1
    shift
    plan "$@" --shard auto
    says "^--shard auto chose $options: with --shard none cpu:threads=1:memory=${number}[KM] needs $number bytes and has $number\$"
    says '^it copies [0-9.]+ MiB in each step.* between host memory and the devices, and computes [0-9.]+ % of the operations again$'
    says "^OPTIONS +DEVICE +NEEDS BYTES +HAS BYTES  FITS\$"
    says "^--shard none +cpu:threads=1:memory=${number}[KM] +$number +$number  no"
    says "^$options +cpu:threads=1:memory=${number}[KM] +$number +$number  yes"
    train "$@" --shard auto --max-steps 3 --checkpoint chosen --log chosen.jsonl
    check "the header says so: $(cat train.out)" grep -q "^memory    --shard auto chose $options: with --shard none " train.out
    check "and what it costs: $(cat train.out)" grep -qE "^ +it copies [0-9.]+ MiB in each step" train.out
    check "so does the log: $(head -1 chosen.jsonl)" grep -q "\"chosen\":\"$options\"" chosen.jsonl
    # shellcheck disable=SC2086
    train "$@" $options --max-steps 3 --checkpoint given
    check "$options: the same weights" same chosen given
}
chooses '--shard optimizer' "${wide[@]}" --devices "$(two 2200K 3M)"
chooses '--shard gradients' "${large[@]}" --devices "$(three 13M 18M 24M)"
chooses '--shard parameters' "${large[@]}" --devices "$(three 8200K 20M 24M)"
says '^it copies [0-9.]+ MiB in each step and [0-9.]+ MiB in each micro-batch between host memory'
check "cheaper ones are listed: $(cat plan.out)" [ "$(grep -c '  no$' plan.out)" -ge 3 ]

# A message that names an option names --shard auto, too.
refuse 1 'the training fits with --shard optimizer, which --shard auto chooses$' plan "${wide[@]}" --devices "$(two 2200K 3M)"

# The time of a step is in the table.
plan "${wide[@]}" --devices "$(two 2200K 3M)" --shard auto --measure 0.1
says "^OPTIONS +DEVICE +NEEDS BYTES +HAS BYTES  FITS +STEP MS\$"
says "^--shard none .*  no +-\$"
says "^--shard optimizer .*  yes +[0-9.]+\$"

# What is not divided is not tried: SGD has no state; with --overlap off gradients are not divided.
plan "${wide[@]}" --optimizer sgd --devices "$(two 1200K 3M)" --shard auto
check "SGD has no state: $(cat plan.out)" lacks -q -- '--shard optimizer' plan.out
refuse 1 'the least that would do is ' plan "${wide[@]}" --overlap off --devices "$(two 1100K 1100K)" --shard auto
check "no gradients in parts: $(cat refuse.err)" lacks -q 'shard gradients' refuse.err
plan "${wide[@]}" --devices cpu:threads=1 --shard auto
says '^--shard auto chose --shard none: the training fits as it is$'

# What does not go together.
refuse 2 "--offload and --shard auto: leave one\$" train "${wide[@]}" --devices "$(two 8M 8M)" --shard auto --offload
refuse 2 "unknown value 'automatic'" train "${wide[@]}" --shard automatic

# Nothing fits: the least memory that would do, with the options.  fits_exactly ARGUMENT...: applies the
# message of this command, which is refused, to the devices it names, in their order; one byte less is refused.
limits=()
least() {
    refuse 1 'no choice of --shard, --offload and --recompute fits: the least that would do is memory=' "$@"
    mapfile -t limits < <(grep -o 'memory=[0-9]* for' refuse.err | grep -o '[0-9]*')
    options=$(grep -o ', with --.*$' refuse.err | cut -c 8-)
}
for recompute in auto off; do
    for shard in none optimizer gradients parameters auto; do
        least plan "${wide[@]}" --recompute "$recompute" --devices cpu:threads=1:memory=200K,cpu:threads=1 --shard "$shard"
        check "one device is named: $(cat refuse.err)" [ "${#limits[@]}" -eq 1 ]
        # shellcheck disable=SC2206
        how=("${wide[@]}" --recompute "$recompute" --shard "$shard" $options)
        train "${how[@]}" --devices "cpu:threads=1:memory=${limits[0]},cpu:threads=1" --max-steps 2
        for word in $shard auto; do
            refuse 1 'the least that would do is memory=' train "${how[@]}" --shard "$word" --max-steps 2 \
                --devices "cpu:threads=1:memory=$((limits[0] - 1)),cpu:threads=1"
            check "the same least: $(cat refuse.err)" grep -q "is memory=${limits[0]} for" refuse.err
        done
    done
done
# Two devices with too little: neither number can be a byte lower.
least plan "${wide[@]}" --devices "$(two 200K 300K)" --shard auto
check "two devices are named: $(cat refuse.err)" [ "${#limits[@]}" -eq 2 ]
# shellcheck disable=SC2206
how=("${wide[@]}" $options)
train "${how[@]}" --devices "$(two "${limits[0]}" "${limits[1]}")" --max-steps 2
refuse 1 'the least that would do is ' train "${how[@]}" --devices "$(two $((limits[0] - 1)) "${limits[1]}")" --max-steps 2
refuse 1 'the least that would do is ' train "${how[@]}" --devices "$(two "${limits[0]}" $((limits[1] - 1)))" --max-steps 2
least plan "${wide[@]}" --devices "$(two 200K 200K)" --optimizer sgd --overlap off --shard none
check "devices that are alike: $(cat refuse.err)" grep -q ' for each of the 2 devices cpu:threads=1:memory=200K' refuse.err
least plan "${wide[@]}" --devices cpu:threads=1:memory=200K --shard auto
train "${wide[@]}" --devices "cpu:threads=1:memory=${limits[0]}" --max-steps 2

# Each line of the table: with so much memory the combination fits, and not with a byte less.
# check_table ARGUMENT...: the plan is of a first device with `memory=LIMIT` last, in `first`.
check_table() {
    local rows options needs
    rows=$(awk '$1 ~ /^--/ && $NF == "no" { print }' plan.out)
    check "there are lines: $(cat plan.out)" [ "$(grep -c . <<<"$rows")" -ge "$1" ]
    shift
    while IFS= read -r row; do
        options=$(grep -oE '^(--[a-z]+( [a-z]+)? ?)+' <<<"$row")
        needs=$(awk '{ print $(NF - 2) }' <<<"$row")
        case $options in *--recompute*) ;; *) options="$options --recompute off" ;; esac
        # shellcheck disable=SC2086
        plan "$@" --devices "$first$needs,$others" $options
        # shellcheck disable=SC2086
        refuse 1 'memory= limits it to ' plan "$@" --devices "$first$((needs - 1)),$others" $options
    done <<<"$rows"
}
first=cpu:threads=1:memory= others=cpu:threads=1
plan "${wide[@]}" --devices "${first}1220K,$others" --shard auto
check_table 6 "${wide[@]}"
plan "${wide[@]}" --devices "${first}2200K,$others" --shard auto --deterministic
check_table 6 "${wide[@]}" --deterministic

# A training goes on with what fits on the devices that it finds, with the same bits.
same_data=("${large[@]}" --deterministic --seed 3 --split 2:1:1)
train "${same_data[@]}" --devices cpu:threads=1 --split 1 --max-steps 8 --checkpoint whole
train "${same_data[@]}" --devices "$(three 60M 60M 60M)" --shard auto --max-steps 2 --checkpoint way --log way.jsonl
check "nothing is saved: $(cat train.out)" grep -q 'chose --shard none:' train.out
train "${same_data[@]}" --devices "$(three 14M 20M 24M)" --shard auto --max-steps 4 --checkpoint way --log way.jsonl --resume
train "${same_data[@]}" --devices "$(three 8200K 22M 24M)" --shard auto --max-steps 6 --checkpoint way --log way.jsonl --resume
train "${same_data[@]}" --devices "$(three 30M 30M 30M)" --shard auto --max-steps 8 --checkpoint way --log way.jsonl --resume
check "the same bits" same whole way
check "four choices: $(grep -o '"chosen":"[^"]*"' way.jsonl | tr '\n' ' ')" [ "$(grep -o '"chosen":"[^"]*"' way.jsonl | tr -d '\n')" = \
    '"chosen":"--shard none""chosen":"--shard gradients""chosen":"--shard parameters""chosen":"--shard optimizer"' ]

# Mixes.  Devices of the fault plug-ins stand for cards.
if [ -n "${DPTRAIN_FAULT_INNER:-}" ]; then
    export DPTRAIN_BACKEND_PATH="$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH"
    mix=(--dataset synthetic:12x12x1:4:200 --model mlp --batch-size 32 --optimizer adamw --lr 0.002 --deterministic --seed 5
        --split 1:0)
    first=faultstaged:threads=1:apart=1:memory= others=cpu:threads=1
    train "${mix[@]}" --devices cpu:threads=1 --split 1 --max-steps 4 --checkpoint alone
    train "${mix[@]}" --devices "${first}13M,$others" --shard auto --max-steps 4 --checkpoint offloaded
    check "CPUs hold the parts: $(cat train.out)" grep -q "^memory    --shard auto chose --offload: with --shard none faultstaged" train.out
    check "the same bits on CPUs" same alone offloaded
    train "${mix[@]}" --devices "${first}18M,$others:memory=16M" --shard auto --max-steps 4 --checkpoint divided
    check "a small CPU does not: $(cat train.out)" grep -q "chose --shard optimizer: " train.out
    check "the same bits in parts" same alone divided
    plan "${mix[@]}" --devices "${first}6600K,$others" --shard auto
    order=$(sed -n '/^OPTIONS/,/^$/p' plan.out | grep -oE '^(--[a-z]+( [a-z]+)? )+' | tr -s ' \n' ' ')
    check "each with --offload first: $order" [ "$order" = "--shard none --offload --shard optimizer --shard gradients --offload \
--shard gradients --recompute auto --offload --recompute auto --shard optimizer --recompute auto --shard gradients --offload \
--recompute auto --shard gradients --recompute auto --shard parameters " ]
    check_table 6 "${mix[@]}"
fi

finish
