#!/usr/bin/env bash
# Drivers that hang while devices are looked for, opened or measured: every command ends in time, says
# which it is and what to do, and goes on without those that nobody has named.
. "$SRC/tests/cli/kit.bash"

[ -n "${DPTRAIN_FAULT_INNER:-}" ] || absent fault "the fault backend has nothing to wrap"
export DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH
small=(--dataset synthetic:8x8x1:3:64 --model linear)
train "${small[@]}" --batch-size 32 --epochs 1 --devices cpu:threads=1 --quiet --checkpoint weights
printf 'P5 is no picture' >none.png

# run CODE ARGUMENT...: within the time; output in run.out and run.err.
run() {
    local expected=$1 code=0
    shift
    timeout 30 "$DPTRAIN" "$@" >run.out 2>run.err </dev/null || code=$?
    check "exit status $code, not $expected: $* $(cat run.err)" test $code -eq "$expected"
}
# says PATTERN: stderr has such a line.
says() { check "\"$1\" in $(cat run.err)" grep -qE -- "^dptrain: $1" run.err; }

left="1 of the devices did not answer, and is not closed"
advice="\(ten times --device-timeout\): leave it out, or restart its driver"

# Every command that opens devices, on one that does not open.
hangs=fault:entry=open:hang=1
for command in "train ${small[*]} --max-steps 2" "plan ${small[*]}" "bench mix ${small[*]}" \
    "bench allreduce" "eval ${small[*]} --checkpoint weights" \
    "predict ${small[*]} --checkpoint weights none.png" "devices"; do
    run 3 $command --devices cpu:threads=1,$hangs --device-timeout 0.06s
    says "device $hangs: no answer within 0.6 s while it was opened $advice"
    says "$left"
    check "$command: nothing else" test "$(wc -l <run.err)" -eq 2
done

# On a backend that does not tell which devices there are: only who names it waits for it.
for call in load probe describe; do
    export DPTRAIN_FAULT_HANG=fault:$call
    run 3 train "${small[@]}" --max-steps 2 --devices fault --device-timeout 0.06s
    says "device .*fault.*: no answer within 0.6 s when it was asked for its devices $advice"
    run 3 plan "${small[@]}" --devices fault:0 --device-timeout 0.06s
    run 0 plan "${small[@]}" --devices cpu:threads=1 --device-timeout 20m
    check "$call: nothing is said" test ! -s run.err
    run 0 eval "${small[@]}" --checkpoint weights --device-timeout 0.2s
    says "going on without fault.*: no answer within 2 s when it was asked for its devices"
    says "$left"
    run 0 devices --no-measure --device-timeout 0.06s
    check "$call: the others" grep -q "^cpu " run.out
    check "$call: in its place: $(cat run.out)" grep -qE "^fault.*: no answer within 0.6 s .*$advice" run.out
done

# "all" passes over what does not open, and the table has it in its place.
export DPTRAIN_FAULT_HANG=fault:open DPTRAIN_FAULT_APART=1
run 0 train "${small[@]}" --max-steps 2 --batch-size 32 --split equal --device-timeout 0.3s --log all.jsonl
says "going on without fault:0: no answer within 3 s while it was opened"
check "the others train" grep -q '"event":"done"' all.jsonl
run 0 devices --device-timeout 0.4s
check "in its place: $(cat run.out)" grep -qE "^fault:0 .* cannot be opened: no answer within 4 s .*$advice" run.out
check "the processor" grep -qE "^cpu .* [0-9.]+\* " run.out
unset DPTRAIN_FAULT_HANG DPTRAIN_FAULT_APART

# Preparing that takes long is told once, where there is no terminal, but not with --quiet.
slow=fault:threads=1:entry=prepare:hang=1:stall=16500
train "${small[@]}" --batch-size 32 --max-steps 1 --devices $slow
check "what takes long: $(cat train.out)" test "$(grep -c '^preparing takes long' train.out)" -eq 1
train "${small[@]}" --batch-size 32 --max-steps 1 --devices $slow --quiet
check "quiet: $(cat train.out)" test ! -s train.out

# One that hangs while it is measured; the next is measured all the same.
# The limit leaves a busy machine time to measure the processor.
run 0 devices --devices fault:threads=1:entry=run:hang=1,cpu:threads=1 --device-timeout 0.4s
check "in its place: $(cat run.out)" grep -qE "^fault.* not measured: no answer within 4 s while it was measured" run.out
check "the processor" grep -qE "^cpu:threads=1 .* [0-9.]+\* " run.out
says "$left"

# Plans and benchmarks, whose devices hang later on.
run 3 plan "${small[@]}" --devices fault:threads=1:entry=prepare:hang=2 --device-timeout 0.1s
says "device fault:.*: no answer within 1 s \(ten times --device-timeout, while it is prepared\)"
run 1 bench mix "${small[@]}" --devices cpu:threads=1,fault:threads=1:after=4:entry=run:hang=1 \
    --max-steps 5 --max-time 0.1s --repeat 1 --device-timeout 0.3s
check "the table says why: $(cat run.out)" grep -q "no answer within 0.3 s" run.out
says "$left"
for collective in all-reduce broadcast; do
    run 3 bench allreduce --collective $collective --devices cpu:threads=1,fault:threads=1:entry=sync:hang=20 \
        --device-timeout 0.3s
    says "device fault:.*: no answer within 0.3 s"
    says "$left"
done
finish
