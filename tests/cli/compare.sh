#!/usr/bin/env bash
# dptrain compare: the same training twice, a training that was resumed, other trainings, and files
# that are no logs.  weights_sha256: the bytes of model.safetensors behind its header.
. "$SRC/tests/cli/kit.bash"

# compare CODE PATTERN A B: prints a line that matches the extended regular expression.
compare() {
    local code=$1 pattern=$2 got
    shift 2
    checks=$((checks + 1))
    "$DPTRAIN" compare "$@" >compare.out 2>compare.err </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "compare $*: exit status $got, not $code: $(cat compare.err)"
    grep -qE "$pattern" compare.out || fail "compare $*: no /$pattern/ in: $(cat compare.out)"
}

# With batch-norm, so that the file has running statistics and counters of batches.
base=(--dataset synthetic:8x8x1:3:96 --model resnet18 --batch-size 16 --devices cpu:threads=1 --quiet)
train "${base[@]}" --epochs 2 --log a.jsonl --checkpoint a
train "${base[@]}" --epochs 2 --log b.jsonl
compare 0 '^no difference in 12 steps and 2 epochs, of which 2 with weights_sha256$' a.jsonl b.jsonl

header=$(od -An -tu8 -N8 a/model.safetensors | tr -d ' ')
sum=$(tail -c +$((9 + header)) a/model.safetensors | sha256sum | cut -d' ' -f1)
check "the last epoch has the sum of the file" [ \
    "$sum" = "$(sed -n 's/.*"weights_sha256":"\([0-9a-f]*\)".*/\1/p' a.jsonl | tail -n 1)" ]

# A run that ended after an epoch and a half, and was resumed
train "${base[@]}" --epochs 2 --max-steps 9 --log c.jsonl --checkpoint c
compare 0 '^no difference in 9 steps' a.jsonl c.jsonl
check "what only one log has is said" grep -qx 'only in a.jsonl: 3 steps' compare.out
train "${base[@]}" --epochs 2 --log c.jsonl --checkpoint c --resume
compare 0 '^no difference in 12 steps and 2 epochs, of which 2 with weights_sha256$' a.jsonl c.jsonl

# Other trainings
train "${base[@]}" --epochs 2 --lr 0.02 --log d.jsonl
compare 1 '^first difference: step 1, lr$' a.jsonl d.jsonl
check "the setting is named" grep -q 'the two runs have different settings: lr$' compare.err
train "${base[@]}" --epochs 2 --seed 1 --log e.jsonl
compare 1 '^first difference: step 1, loss$' a.jsonl e.jsonl
check "the largest difference is said" grep -qE '^largest difference of losses: [0-9.e-]+ of the loss, in step [0-9]+$' compare.out
sed 's/"weights_sha256":"./"weights_sha256":"x/' a.jsonl >f.jsonl
compare 1 '^first difference: after epoch 1 .step 6., weights_sha256$' a.jsonl f.jsonl

# What cannot be compared
refuse 2 "compare needs two logs" compare
refuse 2 "compare needs two logs" compare a.jsonl
refuse 2 "compare needs two logs" compare a.jsonl b.jsonl c.jsonl
refuse 2 "no-such.jsonl" compare a.jsonl no-such.jsonl
refuse 2 "model.safetensors:1: the line is no JSON" compare a.jsonl a/model.safetensors
: >empty.jsonl
refuse 2 "no run event; this is no log" compare empty.jsonl a.jsonl
refuse 2 "does not go with 'dptrain compare'" compare --devices cpu a.jsonl b.jsonl
sed -n 1,2p a.jsonl >g.jsonl
refuse 2 "no step is in a.jsonl and in g.jsonl" compare a.jsonl g.jsonl
finish
