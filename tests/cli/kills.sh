# kill -9 at random moments, while a checkpoint is being written too: every resume finds a sound one,
# and the end is that of the training that nobody interrupted, to the bit.
#
# DPTRAIN_KILLS: how many (default 24).  DPTRAIN_KILLS_SEED: other moments.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
need_python

kills=${DPTRAIN_KILLS:-24}
RANDOM=${DPTRAIN_KILLS_SEED:-1}
devices=(--devices cpu:threads=1,cpu:threads=1 --split 2:1)

# Several kinds of training, whose checkpoints take longer and shorter to write.
recipe() {
    case $1 in
    0) echo --dataset synthetic:12x12x1:4:200 --model mlp --batch-size 32 --epochs 4 --momentum 0.9 \
        --validation 0.2 --schedule cosine --checkpoint-every 1steps ;;
    1) echo --dataset synthetic:16x16x1:4:160 --model lenet --batch-size 16 --epochs 4 --optimizer adamw \
        --augment crop:1,flip,erase --schedule onecycle --warmup 5 --checkpoint-every 1steps ;;
    2) echo --dataset synthetic:8x8x1:4:400 --model linear --batch-size 16 --epochs 3 --momentum 0.5 \
        --checkpoint-every 3steps --checkpoint-keep 1 ;;
    esac
}

for kind in 0 1 2; do
    rm -rf whole$kind
    # shellcheck disable=SC2046
    train $(recipe $kind) "${devices[@]}" --checkpoint whole$kind --log whole$kind.jsonl --quiet
done

# What a log says of steps and epochs, without times.
course() {
    python3 - "$1" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["event"] == "step":
        print("step", e["step"], e["epoch"], e["loss"], e["lr"], e["hits"], e["shards"])
    if e["event"] == "epoch":
        print("epoch", e["epoch"], e["train_loss"], e["train_accuracy"], e["validation_loss"], e["test_loss"])
PYTHON
}

n=0 writing=0 runs=0 skipped=0
while [ $n -lt "$kills" ]; do
    kind=$((runs % 3))
    runs=$((runs + 1))
    rm -rf cut cut.jsonl
    # shellcheck disable=SC2046
    set -- $(recipe $kind) "${devices[@]}" --checkpoint cut --log cut.jsonl --quiet --resume
    while :; do
        "$DPTRAIN" train "$@" >cut.out 2>cut.err </dev/null &
        pid=$!
        sleep "0.$(printf %03d $((30 + RANDOM % 370)))"
        kill -9 $pid 2>/dev/null && [ $n -lt "$kills" ]
        killed=$?
        wait $pid 2>/dev/null
        status=$?
        [ ! -s cut.err ] || { skipped=$((skipped + 1)); cat cut.err; }
        [ $killed -eq 0 ] && [ $status -eq 137 ] || break
        n=$((n + 1))
        [ -z "$(find cut -name '*.tmp' 2>/dev/null)" ] || writing=$((writing + 1))
        [ $n -lt "$kills" ] || break
    done
    # The rest in peace.
    train "$@"
    check "run $runs: every checkpoint was sound" test ! -s train.err
    check "run $runs: the same weights" cmp cut/model.safetensors whole$kind/model.safetensors
    [ ! -e whole$kind/best.safetensors ] ||
        check "run $runs: the same best weights" cmp cut/best.safetensors whole$kind/best.safetensors
    check "run $runs: nothing temporary is left" test -z "$(find cut -name '*.tmp')"
    course cut.jsonl >cut.course
    course whole$kind.jsonl >whole.course
    check "run $runs: the log has every step once" cmp cut.course whole.course
done
check "no checkpoint was passed over" test $skipped -eq 0
printf '%d kills in %d trainings, %d of them while a checkpoint was being written\n' $n $runs $writing
finish
