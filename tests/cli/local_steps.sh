#!/usr/bin/env bash
# Local steps through MPI: processes take steps by themselves and join what has changed.
. "$SRC/tests/cli/kit.bash"
need_mpi

task=(--dataset synthetic:28x28x1:10:700 --batch-size 61 --lr 0.05 --momentum 0.9 --epochs 2
    --devices cpu:threads=1 --split equal)

# fails CODE PATTERN: the run before failed so, and one process has told why, in one line.
fails() {
    check "exit status $status, not $1" [ "$status" -eq "$1" ]
    check "not one line of dptrain's: $(grep ^dptrain: mpi.err)" \
        [ "$(grep -c '^dptrain: ' mpi.err)" -eq 1 ]
    check "no /$2/ in $(cat mpi.err)" grep -qE "^dptrain: .*$2" mpi.err
}

# ---- What is told --------------------------------------------------------------------------------

# An epoch has 12 steps: rounds end behind 5, 10 and 12.
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 5 --checkpoint local --log local.jsonl
check "two processes: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the header tells: $(cat mpi.out)" grep -q 'rounds of 5 local steps' mpi.out
check "it is told: $(cat mpi.err)" grep -q 'exchange what has changed every 5 steps of an epoch through mpi' mpi.err
check "the log has it" grep -q '"event":"run".*"local_steps":5' local.jsonl
check "and the numbers" grep -q '"local-steps":"5, outer rate 0.699999988, outer momentum 0.899999976"' local.jsonl
ends=$(grep '"round_seconds"' local.jsonl | grep -o '"step":[0-9]*' | tr -d '\n')
check "rounds end elsewhere: $ends" \
    [ "$ends" = '"step":5"step":10"step":12"step":17"step":22"step":24' ]
check "the checkpoint has the outer velocity" grep -q 'optimizer.outer.conv1.weight' local/checkpoint-*
sum=$(tail -c +"$((9 + $(od -An -tu8 -N8 local/model.safetensors)))" local/model.safetensors | sha256sum | cut -c1-64)
check "the weights of the last epoch are others" grep -q "\"epoch\":2.*\"weights_sha256\":\"$sum\"" local.jsonl
mpi 60 -n 2 "$DPTRAIN" eval --checkpoint local --dataset synthetic:28x28x1:10:700 --devices cpu:threads=1
check "they are evaluated: $(cat mpi.err)" [ "$status" -eq 0 ]

# ---- One step is today's -------------------------------------------------------------------------

mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --checkpoint synchronous
mpi 120 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 1 --outer-lr 1 --outer-momentum 0 --checkpoint one
check "one local step: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights" cmp -s synchronous/model.safetensors one/model.safetensors
check "rounds change nothing" eval '! cmp -s synchronous/model.safetensors local/model.safetensors'

# ---- Interrupted ---------------------------------------------------------------------------------

# A process is asked to end: all complete the round, and what is resumed is as if nothing had been.
long=("${task[@]}" --epochs 50 --local-steps 7)
mpi 240 -n 2 "$DPTRAIN" "${long[@]}" --checkpoint whole
check "without an interruption: $(cat mpi.err)" [ "$status" -eq 0 ]
{
    mpi 240 -n 2 "$DPTRAIN" "${long[@]}" --checkpoint halves --log halves.jsonl
    echo "$status" >halves.status
} &
await halves/model.safetensors
kill_rank 1 TERM
wait
check "exit status $(cat halves.status), not 143" [ "$(cat halves.status)" -eq 143 ]
check "it is told: $(cat mpi.err)" grep -qx 'dptrain: process 1: signal 15: ending after this round of local steps' mpi.err
last=$(grep '"event":"step"' halves.jsonl | tail -1 | grep -o '"step":[0-9]*' | cut -d: -f2)
check "it ends within a round, at step $last" [ $((last % 12 % 7)) -eq 0 ]
mpi 240 -n 2 "$DPTRAIN" "${long[@]}" --checkpoint halves --resume
check "resuming: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights after resuming" cmp -s whole/model.safetensors halves/model.safetensors
mpi 60 -n 2 "$DPTRAIN" "${long[@]}" --checkpoint halves --resume --outer-momentum 0.8
fails 2 'another local-steps .*--outer-momentum'

# ---- Compressed ----------------------------------------------------------------------------------

for how in bf16 int8; do
    mpi 240 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 5 --compress $how --checkpoint whole-$how --log $how.jsonl
    check "compressed: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "the log tells" grep -q "\"event\":\"run\".*\"compress\":\"$how\"" $how.jsonl
    check "the checkpoint has what processes owe" grep -q 'owed.1.conv1.weight' whole-$how/checkpoint-*
    check "it changes the weights" eval "! cmp -s local/model.safetensors whole-$how/model.safetensors"
    mpi 240 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 5 --compress $how --checkpoint half-$how --max-steps 12
    mpi 240 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 5 --compress $how --checkpoint half-$how --resume
    check "resumed: $(cat mpi.err)" [ "$status" -eq 0 ]
    check "other weights after resuming" cmp -s whole-$how/model.safetensors half-$how/model.safetensors
done

# ---- Beside steps --------------------------------------------------------------------------------

# Rounds of 5 in an epoch of 12: exchanges start behind 5 and 10, outer steps come behind 7 and 12.
beside=("${task[@]}" --local-steps 5 --outer-delay 2)
mpi 240 -n 2 "$DPTRAIN" "${beside[@]}" --checkpoint beside --log beside.jsonl
check "beside steps: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the header tells: $(cat mpi.out)" grep -q 'rounds of 5 local steps (outer step 2 steps later)' mpi.out
check "it is told: $(cat mpi.err)" grep -q 'every 5 steps of an epoch, beside the next 2, through mpi' mpi.err
check "the log has it" grep -q '"event":"run".*"local_steps":5,"outer_delay":2' beside.jsonl
waits=$(grep '"round_seconds"' beside.jsonl | grep -o '"step":[0-9]*' | cut -d: -f2 | tr '\n' ' ')
check "steps wait elsewhere: $waits" [ "$waits" = "5 7 10 12 17 19 22 24 " ]
check "it changes the weights" eval '! cmp -s local/model.safetensors beside/model.safetensors'
sum=$(tail -c +"$((9 + $(od -An -tu8 -N8 beside/model.safetensors)))" beside/model.safetensors | sha256sum | cut -c1-64)
check "the weights of the last epoch are others" grep -q "\"epoch\":2.*\"weights_sha256\":\"$sum\"" beside.jsonl
mpi 240 -n 2 "$DPTRAIN" "${beside[@]}" --checkpoint parts --epochs 1
mpi 240 -n 2 "$DPTRAIN" "${beside[@]}" --checkpoint parts --resume
check "resumed: $(cat mpi.err)" [ "$status" -eq 0 ]
check "other weights after resuming" cmp -s beside/model.safetensors parts/model.safetensors
mpi 60 -n 2 "$DPTRAIN" "${beside[@]}" --checkpoint parts --resume --outer-delay 3 --outer-lr 0.7
fails 2 'another local-steps .*--outer-delay'
# A process is asked to end: it does not wait for the end of the epoch, of 10000 steps, but joins the round early.
endless=("${beside[@]}" --dataset synthetic:4x4x1:10:640000 --model mlp --batch-size 64)
{
    mpi 240 -n 2 "$DPTRAIN" "${endless[@]}" --epochs 1 --checkpoint signalled --log signalled.jsonl
    echo "$status" >signalled.status
} &
await_line '"step":23,' signalled.jsonl
kill_rank 1 TERM
wait
check "exit status $(cat signalled.status), not 143" [ "$(cat signalled.status)" -eq 143 ]
check "it is told: $(cat mpi.err)" grep -qx \
    'dptrain: process 1: signal 15: ending after this step, which ends its round of local steps early' mpi.err
last=$(grep '"event":"step"' signalled.jsonl | tail -1 | grep -o '"step":[0-9]*' | cut -d: -f2)
mpi 240 -n 2 "$DPTRAIN" "${endless[@]}" --epochs 1 --checkpoint signalled --log signalled.jsonl --resume \
    --max-steps $((last + 8))
check "resumed: $(cat mpi.err)" [ "$status" -eq 0 ]
steps=$(grep '"event":"step"' signalled.jsonl | grep -o '"step":[0-9]*' | cut -d: -f2)
check "a step is missing, or twice" [ "$steps" = "$(seq $((last + 8)))" ]
mpi 240 -n 2 "$DPTRAIN" "${endless[@]}" --epochs 1 --checkpoint timed --log timed.jsonl --max-time 3
check "a time limit: $(cat mpi.err)" [ "$status" -eq 0 ]
check "it has a checkpoint" [ -e timed/model.safetensors ]

# ---- In fragments --------------------------------------------------------------------------------

# Rounds of 6 in an epoch of 12, in three fragments: behind 2, 4 and 6 of each round but the last step of the epoch.
mpi 240 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 6 --outer-delay 1 --outer-fragments 3 --compress int8 --outer-lr 0.7 \
    --checkpoint fragments --log fragments.jsonl
check "in fragments: $(cat mpi.err)" [ "$status" -eq 0 ]
check "the header tells: $(cat mpi.out)" grep -q '6 local steps (outer step 1 steps later, in 3 fragments)' mpi.out
check "it is told: $(cat mpi.err)" grep -q 'every 6 steps of an epoch, in 3 fragments, each beside the next 1, ' mpi.err
check "the log has it" grep -q '"event":"run".*"outer_delay":1,"outer_fragments":3' fragments.jsonl
waits=$(grep '"round_seconds"' fragments.jsonl | grep -o '"step":[0-9]*' | cut -d: -f2 | head -12 | tr '\n' ' ')
check "steps wait elsewhere: $waits" [ "$waits" = "2 3 4 5 6 7 8 9 10 11 12 14 " ]
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 6 --outer-delay 1 --checkpoint fragments --resume --compress int8 --outer-lr 0.7
fails 2 'another local-steps .*--outer-fragments[)]'

# ---- What cannot be combined ---------------------------------------------------------------------

mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 4 --accumulate 2
fails 2 'local steps cannot be combined with accumulate'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 4 --deterministic
fails 2 'local steps cannot be combined with deterministic'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --outer-lr 0.5
fails 2 'belong to local steps'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 4 --outer-delay 4
fails 2 'an outer delay of 4 steps is not less than the 4 local steps .*lower outer-delay'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 4 --outer-delay 2 --outer-fragments 2
fails 2 'an outer delay of 2 steps is not less than the 2 steps from one of 2 outer fragments'
mpi 60 -n 2 "$DPTRAIN" "${task[@]}" --local-steps 4 --outer-fragments 2
fails 2 'give outer-delay, too'
mpi_each 60 "$DPTRAIN" "${task[@]}" --local-steps 4 : "$DPTRAIN" "${task[@]}" --local-steps 8
fails 2 'local steps differs: process 0 has 4, .*process 1 has 8,'
"$DPTRAIN" "${task[@]}" --local-steps 4 >one.out 2>mpi.err
status=$?
fails 2 'several processes, and there is one'
"$DPTRAIN" "${task[@]}" --local-steps 0 >one.out 2>mpi.err
check "--local-steps 0 is refused" [ $? -eq 2 ]
check "a plan: $(cat plan.err)" eval '"$DPTRAIN" plan "${task[@]}" --local-steps 10 --outer-lr 1 --outer-momentum 0 >plan.out 2>plan.err'
check "it tells the bytes: $(cat plan.out)" grep -qE 'exchange [0-9]+ bytes .* in a round of 10 steps' plan.out
finish
