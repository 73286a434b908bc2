#!/usr/bin/env bash
# How the CPU backend chooses among its convolutions: by measurement, remembered, the same again.
. "$SRC/tests/cli/kit.bash"

unset DPTRAIN_CPU_ALGORITHM
rm -rf cache first second chosen replayed again direct winograd4 named both1 both2 threads1 threads2
export XDG_CACHE_HOME=$PWD/cache
small=(--dataset synthetic:28x28x1:10:8 --model resnet18-d2l --batch-size 4 --max-steps 1 --quiet)
choices() { cat cache/dptrain/cpu/choices-*.txt | tr -d '\0'; }

# ---- What was measured once is not measured again ----
train "${small[@]}" --devices cpu --checkpoint first
check "choices are written down" grep -qE 'forward 28x28x64 to 64.*	(direct|winograd[24])	.*direct .* ms' <(choices)
check "nothing else is: $(find cache -type f)" test "$(find cache -type f | wc -l)" -eq 1
check "they are the user's alone" test -z "$(find cache/dptrain -perm /077)"
find cache -type f -printf '%p %i %s %T@\n' >first.files
train "${small[@]}" --devices cpu --checkpoint second
find cache -type f -printf '%p %i %s %T@\n' >second.files
check "the second start measures nothing" cmp -s first.files second.files
check "the same bits" cmp -s first/model.safetensors second/model.safetensors

# ---- By name ----
for way in direct winograd4; do
    train "${small[@]}" --devices cpu:algorithm=$way --checkpoint $way
done
find cache -type f -printf '%p %i %s %T@\n' >second.files
check "what is named is not measured" cmp -s first.files second.files
DPTRAIN_CPU_ALGORITHM=winograd4 train "${small[@]}" --devices cpu --checkpoint named
check "the environment means the same" cmp -s winograd4/model.safetensors named/model.safetensors
DPTRAIN_CPU_ALGORITHM=direct train "${small[@]}" --devices cpu:algorithm=winograd4 --checkpoint named
check "the device has the last word" cmp -s winograd4/model.safetensors named/model.safetensors
cmp -s direct/model.safetensors winograd4/model.safetensors &&
    fail "direct and winograd4 give the same bits: the name does nothing"
refuse 2 'algorithm=wino2 is not the beginning of direct, columns, depthwise, winograd2, winograd3, winograd4, blas or packed' \
    train "${small[@]}" --devices cpu:algorithm=wino2
DPTRAIN_CPU_ALGORITHM=best refuse 2 'DPTRAIN_CPU_ALGORITHM=best is not the beginning' \
    train "${small[@]}" --devices cpu

# ---- Products ----
linear=(--dataset synthetic:28x28x1:10:8 --model mlp --batch-size 4 --max-steps 1 --quiet)
for way in blas packed; do
    DPTRAIN_BLAS= train "${linear[@]}" --devices cpu:threads=2:algorithm=$way --log $way.jsonl
    grep -q '"LINEAR_FORWARD","packed"' $way.jsonl || grep -q '"LINEAR_FORWARD","blas"' $way.jsonl ||
        fail "the log has no way of products: $(cat $way.jsonl)"
done
check "our own product by name" grep -q '"LINEAR_BACKWARD_DATA","packed"' packed.jsonl
check "and no other" test -z "$(grep '"blas"' packed.jsonl)"
DPTRAIN_BLAS=none train "${linear[@]}" --devices cpu:algorithm=blas --log none.jsonl
check "our own where there is no BLAS" grep -q '"LINEAR_FORWARD","packed"' none.jsonl
for n in 1 2; do
    train "${linear[@]}" --devices cpu:threads=$n:algorithm=packed --checkpoint threads$n
done
check "the same bits with one thread and with two" \
    cmp -s threads1/model.safetensors threads2/model.safetensors

# ---- A cache that cannot be used ----
find cache -type f -exec truncate -s -7 {} +
train "${small[@]}" --devices cpu
check "a cut file is silent" test ! -s train.err
XDG_CACHE_HOME=/proc/nowhere train "${small[@]}" --devices cpu
check "an unwritable place is silent" test ! -s train.err

# ---- Shown, recorded, taken again ----
rm -rf cache chosen replayed again named.jsonl
"$DPTRAIN" plan --verbose "${small[@]:0:6}" --devices cpu >plan.out
check "the plan shows the choice: $(cat plan.out)" \
    grep -qE '^cpu +layer1\.0\.conv1 +CONV2D_FORWARD +(direct|winograd[24]) +.*direct [0-9.e+]+ ms' plan.out
"$DPTRAIN" plan --verbose "${small[@]:0:6}" --devices cpu >again.out
check "and what was measured, the second time too" \
    cmp -s <(sed -n '/^DEVICE.*MEASURED/,$p' plan.out) <(sed -n '/^DEVICE.*MEASURED/,$p' again.out)
"$DPTRAIN" plan "${small[@]:0:6}" --devices cpu >plan.out
check "without --verbose it does not" test -z "$(grep winograd plan.out)"

train "${small[@]}" --devices cpu:algorithm=winograd2 --checkpoint chosen --log chosen.jsonl
check "the log has choices" grep -qE \
    '^\{"event":"algorithms","device":0,.*\["layer1\.0\.conv1","CONV2D_FORWARD","winograd2"\]' chosen.jsonl
rm -rf cache
train "${small[@]}" --devices cpu --split replay:chosen.jsonl --checkpoint replayed --log replayed.jsonl
check "a replay has the same choices" cmp -s <(grep '"algorithms"' chosen.jsonl) <(grep '"algorithms"' replayed.jsonl)
check "and the same bits" cmp -s chosen/model.safetensors replayed/model.safetensors
check "and measures nothing" test -z "$(find . -path './cache/*' -name 'choices-*')"
cmp -s direct/model.safetensors chosen/model.safetensors &&
    fail "direct and winograd2 give the same bits: the replay shows nothing"
train "${small[@]}" --devices cpu:algorithm=direct --split replay:chosen.jsonl --checkpoint again
check "a replay has the last word" cmp -s chosen/model.safetensors again/model.safetensors
sed 's/"event":"algorithms"/"event":"choices"/' chosen.jsonl >former.jsonl
train "${small[@]}" --devices cpu:algorithm=direct --split replay:former.jsonl --checkpoint again
check "a log with the former name of the event is replayed" cmp -s chosen/model.safetensors again/model.safetensors
sed 's/winograd2/winograd8/' chosen.jsonl >gone.jsonl
refuse 1 "layer .* \(CONV2D.*\): the log that is replayed has 'winograd8', which cannot be had" \
    train "${small[@]}" --devices cpu --split replay:gone.jsonl
grep -v '"algorithms"' gone.jsonl >older.jsonl
train "${small[@]}" --devices cpu:algorithm=direct --split replay:older.jsonl --checkpoint again
check "a log without choices leaves them free" cmp -s direct/model.safetensors again/model.safetensors
train "${small[@]/resnet18-d2l/lenet}" --devices cpu --split replay:gone.jsonl
sed 's/"backend":"cpu"/"backend":"other"/' gone.jsonl >other.jsonl
train "${small[@]}" --devices cpu:algorithm=direct --split replay:other.jsonl --checkpoint again
check "so does one of another backend" cmp -s direct/model.safetensors again/model.safetensors

# ---- Two at once, from nothing, agree ----
rm -rf cache
for i in 1 2; do
    "$DPTRAIN" train "${small[@]}" --devices cpu:threads=1 --checkpoint "both$i" >"both$i.out" 2>&1 &
    pids[i]=$!
done
for i in 1 2; do
    wait "${pids[i]}"
    code=$?
    check "process $i of two: $(cat "both$i.out")" test $code -eq 0
done
check "the same bits from both" cmp -s both1/model.safetensors both2/model.safetensors
check "a choice is written once" test -z "$(choices | sort | uniq -d)"
finish
