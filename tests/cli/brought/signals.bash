# What a machine says before it ends a training.
set=(--dataset synthetic:8x8x1:3:24 --model linear --batch-size 8 --devices cpu:threads=1)

# begins FOLDER OPTION...: a training without an end; its number in $training, behind the first step.
begins() {
    local folder=$1
    shift
    "$DPTRAIN" train "${set[@]}" --epochs 1000000000 --checkpoint-every 1h --checkpoint "$folder" --log "$folder.jsonl" "$@" \
        >"$folder.out" 2>"$folder.err" </dev/null &
    training=$!
    for _ in {1..300}; do
        ! grep -q '"event":"step"' "$folder.jsonl" 2>/dev/null || return 0
        sleep 0.1
    done
}

# ends STATUS: the training does.
ends() {
    local status=0
    wait $training || status=$?
    check "exit status $status, not $1" test $status -eq "$1"
}

row "SIGUSR1 and SIGUSR2, as Slurm sends them before the end" \
    "a checkpoint, and training goes on; --requeue-exit N ends it"

begins warned
for signal in USR1 USR2; do
    rm -f warned/checkpoint-*
    kill -$signal $training
    for _ in {1..300}; do
        ! compgen -G 'warned/checkpoint-*' >/dev/null || break
        sleep 0.1
    done
    check "$signal writes a checkpoint" compgen -G 'warned/checkpoint-*'
    check "and training goes on" kill -0 $training
done >warned.names
kill -TERM $training
ends 143
begins requeued --requeue-exit 75
kill -USR1 $training
ends 75
check "which a later training continues: $(cat requeued.err)" grep -q "ended early by signal 10; --resume continues" requeued.err
train "${set[@]}" --epochs 1000000000 --max-steps 100000000 --max-time 0.2 --checkpoint requeued --resume

row "SIGTERM twice, as from timeout, Slurm and systemd" \
    "the second one counts as the first: the checkpoint is whole"

for more in "" --supervise; do
    # shellcheck disable=SC2086
    begins twice$more $more
    for signal in STOP TERM INT CONT; do kill -$signal $training; done
    wait $training
    check "$more a checkpoint: $(ls twice$more)" compgen -G "twice$more/checkpoint-*" >twice.names
    check "$more is told: $(cat twice$more.err)" grep -q "ended early by signal" twice$more.err
done

row "SIGTERM while an evaluation runs" \
    "the state is written before; the evaluation breaks off, and is made after resuming"

# The device stalls in a call behind the update of the first epoch's last step.
export DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH
evaluated=(--dataset synthetic:28x28x1:10:60 --batch-size 12 --epochs 3 --quiet --validation 0.2)
train "${evaluated[@]}" --devices cpu:threads=1 --log unbroken.jsonl --checkpoint unbroken
rm -rf broken broken.txt broken.jsonl
DPTRAIN_FAULT_REPORT=broken.txt "$DPTRAIN" train "${evaluated[@]}" --supervise --log broken.jsonl \
    --checkpoint broken --devices fault:threads=1:after=4:entry=run:hang=3:stall=8000 2>broken.err &
training=$!
for _ in {1..300}; do
    ! grep -q fired broken.txt 2>/dev/null || break
    sleep 0.1
done
check "the state of before is written" await broken/checkpoint-000000004.safetensors
kill -TERM $training
ends 143
check "which is told: $(cat broken.err)" grep -q "ended early by signal 15" broken.err
check "nothing is told of the epoch" test "$(grep -c '"event":"epoch"' broken.jsonl)" -eq 0
train "${evaluated[@]}" --devices cpu:threads=1 --log broken.jsonl --checkpoint broken --resume
check "the same as without" "$DPTRAIN" compare unbroken.jsonl broken.jsonl
check "and all of it" test "$(grep -c '"event":"epoch"' broken.jsonl)" -eq 3
check "the same weights" cmp unbroken/model.safetensors broken/model.safetensors
check "and the best" cmp unbroken/best.safetensors broken/best.safetensors
