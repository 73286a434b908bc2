#!/usr/bin/env bash
# Devices that are lost or go astray, and --supervise: a line for each, exit status 3, and going on.
. "$SRC/tests/cli/kit.bash"

export DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH
small=(--dataset synthetic:28x28x1:10:60 --batch-size 12 --max-steps 12 --quiet)
dies=fault:threads=1:after=3:lost=5

# run CODE ARGUMENT...: stderr in run.err
run() {
    local expected=$1 code=0
    shift
    timeout 120 "$DPTRAIN" "$@" >run.out 2>run.err || code=$?
    check "exit status $code, not $expected: $* $(cat run.err)" test $code -eq "$expected"
}

# says TEXT N: so many lines of stderr have it.
says() {
    local n
    n=$(grep -c -- "$1" run.err)
    check "\"$1\" stands there $n times, not $2: $(cat run.err)" test "$n" -eq "$2"
}

# The others go on, and the log tells.
run 0 "${small[@]}" --devices $dies,cpu:threads=1 --log run.jsonl
says "is lost, and step" 1
check 'the log tells' grep -q '"event":"device_lost","step":[45],"device":0' run.jsonl
run 3 "${small[@]}" --devices $dies,cpu:threads=1 --stop-on-loss
run 3 "${small[@]}" --devices $dies

# A device that does not answer, and nobody who is left.
rm -rf hung
run 3 "${small[@]}" --devices fault:threads=1:after=3:hang=5 --device-timeout 1s --checkpoint hung
says "no answer within 1 s" 1
check 'the weights are kept' test -s hung/model.safetensors

# One that comes back, and a log that can be replayed.
long=(--dataset synthetic:28x28x1:10:60 --batch-size 12 --max-steps 300 --quiet)
export DPTRAIN_FAULT_REPORT=report.txt # by which it knows that it has failed before
rm -f report.txt
run 0 "${long[@]}" --devices cpu:threads=1,fault:threads=1:after=3:lost=5:again=1 --readmit 0.001s \
    --log back.jsonl
unset DPTRAIN_FAULT_REPORT
says "is lost, and step" 1
says "is readmitted, and step" 1
check 'the log tells' grep -q '"event":"device_readmitted","step":[0-9]*,"device":1' back.jsonl
run 0 "${long[@]}" --devices cpu:threads=1,cpu:threads=1 --split replay:back.jsonl

# A replica that goes astray; gradients that are not finite on one device.
run 0 "${small[@]}" --devices cpu:threads=1,fault:threads=1:flip=3,cpu:threads=1 \
    --verify-replicas 1 --log stray.jsonl
says "device fault:threads=1:flip=3, before step 4: .*restored from cpu" 1
check 'the log tells' grep -q '"event":"replica_restored","step":4,"device":1' stray.jsonl
run 1 "${small[@]}" --devices cpu:threads=1,fault:threads=1:poison=3
says "device fault:threads=1:poison=3: the gradients of step 3 are not finite there" 1

# Nobody is left whose memory could be read.
rm -rf copied
run 2 "${small[@]}" --devices cpu:threads=1 --host-copy 1
run 3 "${small[@]}" --devices faultstaged:threads=1:after=4:lost=16 --checkpoint copied \
    --checkpoint-every 100steps --host-copy 1
check 'the copy is written' test -s copied/checkpoint-000000004.safetensors
run 0 "${small[@]}" --devices cpu:threads=1 --checkpoint copied --resume

# Each start gets three steps further.
rm -rf again again-events
run 0 "${small[@]}" --devices $dies --checkpoint again --checkpoint-every 1steps --supervise --tensorboard again-events
check "the events of each start" test "$(find again-events -name 'events.out.*' | wc -l)" -ge 3
check "started again" test "$(grep -c 'continuing from the last checkpoint' run.err)" -ge 2
check 'all steps' test -s again/checkpoint-000000012.safetensors

# A driver that hangs when the training is begun again, as drivers do after a crash: once more.
rm -rf hangs
export DPTRAIN_FAULT_REPORT=report.txt # by which it counts its openings
rm -f report.txt
run 0 "${small[@]}" --devices fault:threads=1:after=3:lost=5:again=1,fault:threads=1:entry=open:hang=1:only=2 \
    --stop-on-loss --device-timeout 0.2s --split equal --checkpoint hangs --checkpoint-every 1steps --supervise
unset DPTRAIN_FAULT_REPORT
says "no answer within 2 s while it was opened" 1
says "training ended by exit status 3; continuing from the last checkpoint" 2
check 'all steps' test -s hangs/checkpoint-000000012.safetensors

# One that hangs whenever it is begun is not begun for ever, nor is an answer waited for without --supervise.
rm -rf never
hangs=(--devices fault:entry=open:hang=1 --device-timeout 0.03s --checkpoint never)
run 3 "${small[@]}" "${hangs[@]}" --supervise
says "no answer within 0.3 s while it was opened" 3
says "beginning anew" 2
says "not started again" 1
run 3 "${small[@]}" "${hangs[@]}"
says "no answer within 0.3 s while it was opened" 1

# The end of starting again, where nothing is gained.
rm -rf vain vain-events
run 3 "${small[@]}" --devices fault:threads=1:after=1:lost=1 --checkpoint vain \
    --checkpoint-every 100steps --supervise --tensorboard vain-events
says "beginning anew" 2
says "not started again" 1
check "the events of the last start" test "$(find vain-events -name 'events.out.*' | wc -l)" -eq 1
# An ended training in the same folder is not what is gone on with, and stays.
rm -rf ended
run 0 "${small[@]}" --devices cpu:threads=1 --checkpoint ended
run 3 "${small[@]}" --max-steps 100 --devices fault:threads=1:after=1:lost=1 --checkpoint ended \
    --checkpoint-every 100steps --supervise
says "beginning anew" 2
says "resuming from" 0
check 'it is there' test -s ended/checkpoint-000000012.safetensors
run 2 "${small[@]}" --supervise
says "needs --checkpoint" 1
OMPI_COMM_WORLD_SIZE=2 run 2 "${small[@]}" --supervise --checkpoint none
says "is for one process, and this is one of 2" 1

# However it is written, and whatever stands behind it.
rm -rf short
run 0 "${small[@]}" --devices $dies --checkpoint short --checkpoint-every 1steps --superv --
check "started again" test "$(grep -c 'continuing from the last checkpoint' run.err)" -ge 2

# What is gained is a checkpoint: not weights, and not what somebody else has put there.
rm -rf killed
mkdir killed
: >killed/notes.safetensors
touch -d 2100-01-01 killed/notes.safetensors
"$DPTRAIN" "${small[@]}" --max-steps 1000000 --devices cpu:threads=1 --checkpoint killed \
    --checkpoint-every 1h --supervise >run.out 2>run.err &
supervisor=$!
for i in 1 2 3; do
    rm -f killed/model.safetensors
    await killed/model.safetensors
    for pid in $(trainings); do
        if [ "$pid" -ne $supervisor ]; then kill -KILL "$pid"; fi
    done
done
code=0
wait $supervisor || code=$?
check "killed in vain: status $code, $(cat run.err)" test $code -eq 137
says "not started again" 1
says "beginning anew" 2

# A signal reaches the training, which ends in good order.
for number in 15 1; do
    rm -rf signal
    "$DPTRAIN" "${small[@]}" --max-steps 1000000 --devices cpu:threads=1 --checkpoint signal \
        --supervise >run.out 2>run.err &
    sleep 2
    kill -$number $!
    code=0
    wait $! || code=$?
    check "the exit status: $code" test $code -eq $((128 + number))
    check 'the weights' test -s signal/model.safetensors
done

# `timeout` signals the supervisor and then its group: the training gets SIGTERM twice, and ends in good order.
rm -rf signal
code=0
timeout 3 "$DPTRAIN" "${small[@]}" --max-steps 1000000 --devices cpu:threads=1 --checkpoint signal \
    --checkpoint-every 1h --supervise >run.out 2>run.err || code=$?
check "the status of timeout: $code" test $code -eq 124
for _ in $(seq 300); do
    grep -q 'ended early by signal 15; --resume continues' run.err && break
    sleep 0.1
done
says "ended early by signal 15; --resume continues" 1
check "a checkpoint: $(ls signal)" compgen -G 'signal/checkpoint-*'
finish
