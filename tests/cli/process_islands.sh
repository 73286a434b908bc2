#!/usr/bin/env bash
# Several processes whose devices sum gradients among themselves: the same training, and a clear end
# whatever goes wrong.  The devices are the fault backend's, whose collectives go over files.
. "$SRC/tests/cli/kit.bash"
: "${DPTRAIN_BACKEND_PATH:?}" "${DPTRAIN_TEST_FAULT_PATH:?}" "${DPTRAIN_FAULT_INNER:?}"
need_mpi
export DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH
export DPTRAIN_FAULT_REPORT=$PWD/report.txt
rm -f report.txt

island=fault:threads=1:island=1
task=(--dataset synthetic:28x28x1:10:700 --batch-size 61 --lr 0.05 --momentum 0.9 --epochs 2)
among='devices of all [0-9] processes sum gradients among themselves'
through='processes sum gradients through mpi'

# rules_were_kept: by those that the run before has made.
rules_were_kept() {
    check "rules are kept: $(grep order report.txt)" eval '! grep -q "^order" report.txt'
    rm -f report.txt
}

# ends_well WORDS: so has the run before, all that was made is gone.
ends_well() {
    check "$1: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "$1: all leave in good order" [ "$(grep -c ^joined report.txt)" -eq \
        "$(grep -c ^parted report.txt)" ]
    rules_were_kept
}

# ---- The same training ---------------------------------------------------------------------------

train "${task[@]}" --devices cpu:threads=1,cpu:threads=1 --split 2:1 --checkpoint one
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --devices $island --split 2:1 --checkpoint two --log two.jsonl
check "it is told: $(cat mpi.out mpi.err)" grep -qE "$among" mpi.err
check "once" [ "$(grep -cE "$among" mpi.err)" -eq 1 ]
check "the log tells" [ "$(grep '"event":"run"' two.jsonl | grep -o '"island":1' | wc -l)" -eq 2 ]
ends_well "two processes"
check "other weights" cmp -s one/model.safetensors two/model.safetensors

# Four, one of which has two devices and one no samples.
train "${task[@]}" --devices cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1 \
    --split 3:1:0:4:2 --checkpoint five
mpi 120 -n 4 "$DPTRAIN" "${task[@]}" --split 3:1:0:4:2 --devices "@0=$island,$island;@*=$island" \
    --checkpoint four
check "it is told: $(cat mpi.out mpi.err)" grep -qE "$among" mpi.err
ends_well "four processes"
check "other weights in four" cmp -s five/model.safetensors four/model.safetensors

# Resumed.
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices $island --split 2:1 --max-steps 14 --checkpoint halves
ends_well "the first half"
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices $island --split 2:1 --checkpoint halves --resume
ends_well "resuming"
check "other weights after resuming" cmp -s one/model.safetensors halves/model.safetensors

# Resumed by devices that would choose other algorithms, and are prepared anew before they form an island.
mpi_each 60 "$DPTRAIN" "${task[@]}" --devices $island --split 2:1 --log chosen.jsonl --checkpoint chosen \
    : env DPTRAIN_CPU_ALGORITHM=columns "$DPTRAIN" "${task[@]}" --devices $island --split 2:1
ends_well "two algorithms"
rm -rf retaken retaken.jsonl
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices $island --split replay:chosen.jsonl --max-steps 14 --checkpoint retaken
ends_well "the first half of these"
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices $island --split 2:1 --checkpoint retaken --resume --log retaken.jsonl
check "it is told then, too: $(cat mpi.out mpi.err)" grep -qE "$among" mpi.err
check "the log tells then, too" [ "$(grep '"event":"run"' retaken.jsonl | grep -o '"island":1' | wc -l)" -eq 2 ]
ends_well "resuming by two algorithms"
check "other weights by two algorithms" cmp -s chosen/model.safetensors retaken/model.safetensors

# ---- Through MPI ---------------------------------------------------------------------------------

# What cannot: another backend, another number, a backend that does not span; and what is compressed.
for other in cpu:threads=1 $island:narrow=1; do
    rm -rf other
    mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices "@0=$island;@1=$other" --split 2:1 --checkpoint other
    ends_well "beside $other"
    check "it is told: $(cat mpi.err)" grep -qE "$through" mpi.err
    check "without a warning: $(cat mpi.err)" eval '! grep -q warning mpi.err'
    check "other weights beside $other" cmp -s one/model.safetensors other/model.safetensors
done
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices $island --split 2:1 --compress bf16 --max-steps 3
ends_well "compressed"
check "what is compressed goes through MPI: $(cat mpi.err)" grep -qE "$through" mpi.err

# A wrong sum at one rank (of other ways to be wrong, tests/fault/test_wide.c): nobody uses it, and the log
# tells.
rm -rf wrong
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices "@0=$island;@1=$island:bug=apart" --split 2:1 \
    --checkpoint wrong --log wrong.jsonl
ends_well "bug=apart"
check "one warning: $(cat mpi.err)" [ "$(grep -c warning mpi.err)" -eq 1 ]
check "it is told: $(cat mpi.err)" grep -qE \
    'warning: the devices .* through mpi, not among themselves: process 1: .* came out wrong' mpi.err
check "the log tells" grep -q '"event":"island_lost".*"error":"the devices of all' wrong.jsonl
check "it is in none" eval '! grep -q "\"island\":" wrong.jsonl'
check "other weights with bug=apart" cmp -s one/model.safetensors wrong/model.safetensors

# ---- What ends the job ---------------------------------------------------------------------------

# does_not_answer DEVICE OTHER PATTERN: the training on a device here and another in the second process ends
# after a limit of a second, and the second process says why.
does_not_answer() {
    local began=$SECONDS
    mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices "@0=$1;@1=$2" --split 2:1 --device-timeout 1
    check "$2 does not end: status $status" [ "$status" -ne 0 ]
    check "$2 ends within some seconds" [ $((SECONDS - began)) -lt 20 ]
    check "$2 is told: $(cat mpi.err)" grep -qE "^dptrain: process 1 .*: device fault:.*$3" mpi.err
    rules_were_kept
}

# A sum in step 2 or later: the trial has made 7.  A call, with an island and without.
does_not_answer $island $island:stick=30 'did not end within 1 s'
does_not_answer $island $island:hang=400 'no answer within 1 s'
does_not_answer fault:threads=1 fault:threads=1:hang=400 'no answer within 1 s'

# Nor in an evaluation, of which all hear.
eval=(eval --dataset synthetic:28x28x1:10:700 --checkpoint one --device-timeout 1s)
for other in "$island:entry=run:hang=1" "$island:entry=upload:hang=2"; do
    began=$SECONDS
    mpi 60 -n 2 "$DPTRAIN" "${eval[@]}" --devices "@0=$island;@1=$other"
    check "$other in an evaluation: status $status" [ "$status" -eq 3 ]
    check "it ends within some seconds" [ $((SECONDS - began)) -lt 30 ]
    check "it is told: $(cat mpi.err)" grep -qE '^dptrain: process 1.*: device fault:.*no answer within 1 s' mpi.err
done

# A device that fails.
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --devices "@0=$island;@1=$island:fail=400" --split 2:1
check "a device that fails: status $status" [ "$status" -ne 0 ]
check "it is told: $(cat mpi.err)" grep -qE '^dptrain: process 1 .*: device fault:.*planted' mpi.err
check "by one process" [ "$(grep -c '^dptrain: process' mpi.err)" -eq 1 ]
rules_were_kept

# A process that is killed.
loses_a_process mpi 100 -n 2 "$DPTRAIN" "${task[@]}" --devices $island
check "mpirun tells who was killed: $(cat mpi.err)" told_of_kill
finish
