#!/usr/bin/env bash
# Failures at run time: one line that says what to do, and exit status 1.
. "$SRC/tests/cli/kit.bash"
need_python

export HOME=$PWD/home XDG_CACHE_HOME=$PWD/cache
quick=(--model linear --batch-size 4 --max-steps 1 --quiet)

# pair FOLDER WHAT: an IDX pair of 8 training and 8 test images of 4x4, damaged in one way.
pair() {
    mkdir -p "$1"
    python3 - "$1" "$2" <<'PYTHON'
import gzip, os, struct, sys
folder, what = sys.argv[1:]
def write(name, data):
    path = os.path.join(folder, name)
    for old in (path, path + ".gz"):
        if os.path.exists(old):
            os.remove(old)
    if what.startswith("gzip"):
        data = gzip.compress(data, mtime=0)
        if name.startswith("train-images"):
            if what == "gzip-truncated":
                data = data[:len(data) - 6]
            if what == "gzip-corrupt":
                data = data[:20] + bytes(b ^ 0x5A for b in data[20:28]) + data[28:]
        path += ".gz"
    with open(path, "wb") as file:
        file.write(data)
for part in ("train", "t10k"):
    images = b"\0\0\x08\x03" + struct.pack(">3I", 8, 4, 4) + bytes(range(128))
    labels = b"\0\0\x08\x01" + struct.pack(">I", 8) + bytes([0, 1, 2, 3, 4, 5, 6, 7])
    if part == "train":
        if what == "magic":
            images = b"\x7fELF" + images[4:]
        if what == "truncated":
            images = images[:-1]
        if what == "trailing":
            images += b"\0"
        if what == "disagree":
            labels = b"\0\0\x08\x01" + struct.pack(">I", 7) + bytes(7)
        if what == "range":
            labels = labels[:-1] + b"\x0a"
    elif what == "size":
        images = b"\0\0\x08\x03" + struct.pack(">3I", 8, 2, 8) + bytes(range(128))
    write(f"{part}-images-idx3-ubyte", images)
    write(f"{part}-labels-idx1-ubyte", labels)
PYTHON
}

# The files are right before they are damaged.
for what in sound gzip; do
    pair data $what
    train "${quick[@]}" --dataset fashion-mnist --data data
    check "quiet is quiet" test ! -s train.out
    rm -r data
done

# with_data WHAT PATTERN [CODE]
with_data() {
    pair data "$1"
    refuse "${3-1}" "$2" "${quick[@]}" --dataset fashion-mnist --data data
    rm -r data
}
with_data gzip-truncated "train-images-idx3-ubyte.gz"
with_data gzip-corrupt "train-images-idx3-ubyte.gz"
with_data magic "train-images-idx3-ubyte.*no IDX file"
with_data truncated "train-images-idx3-ubyte"
with_data trailing "train-images-idx3-ubyte"
with_data disagree "8 images.*7 labels"
with_data range "label 10 .*out of range"
with_data size "the test images of data/t10k-images-idx3-ubyte are 2x8x1 .*model linear takes 4x4x1" 2

# Missing data
refuse 1 "mnist.*--data DIR" "${quick[@]}" --dataset mnist
refuse 1 "idx.*--data DIR" "${quick[@]}" --dataset idx
mkdir -p empty
refuse 1 "empty.*train-images" "${quick[@]}" --data empty
refuse 1 "/nowhere" "${quick[@]}" --data /nowhere

# Files that cannot be written
synthetic=("${quick[@]}" --dataset synthetic:8x8x1:3:64)
refuse 1 "/nowhere/log" "${synthetic[@]}" --log /nowhere/log
refuse 1 "/nowhere/plot.svg" "${synthetic[@]}" --plot /nowhere/plot.svg
refuse 1 "/nowhere/deep" "${synthetic[@]}" --checkpoint /nowhere/deep
: >file
refuse 1 "file" "${synthetic[@]}" --checkpoint file
refuse 2 "both.* is to be written twice" "${synthetic[@]}" --log both --plot both
refuse 2 "twice/model.safetensors is to be written twice" "${synthetic[@]}" --checkpoint twice \
    --log twice/model.safetensors
# Behind links that lead to nothing yet, too.
ln -sf made.jsonl link
refuse 2 "made.jsonl is to be written twice" "${synthetic[@]}" --log made.jsonl --trace link
mkdir -p twice
ln -sf model.safetensors twice/link
refuse 2 "twice/link is to be written twice" "${synthetic[@]}" --checkpoint twice --log twice/link
ln -sf twice/checkpoint-000000001.safetensors link
refuse 2 "link has the name of a checkpoint" "${synthetic[@]}" --checkpoint twice --log link
ln -sf made.jsonl link
train "${synthetic[@]}" --log link --trace other.json
check "a log is written through a link" grep -q '"event":"done"' made.jsonl
train "${synthetic[@]}" --log /dev/null --plot /dev/null
if [ -e /dev/full ]; then
    refuse 1 "/dev/full.*[Nn]o space" "${synthetic[@]}" --log /dev/full
    "$DPTRAIN" devices >/dev/full 2>full.err
    check "a full disk behind stdout is a failure" test $? -eq 1
    check "and is told in one line" grep -qE "^dptrain: .*standard output.*[Nn]o space" full.err
fi

# What is printed to a closed stdout does not get into the log instead.
"$DPTRAIN" --dataset synthetic:8x8x1:3:64 --model linear --batch-size 32 --epochs 2 \
    --log closed.jsonl 2>closed.err >&-
check "a closed stdout is a failure" test $? -eq 1
check "and is told in one line" grep -qE "^dptrain: .*standard output.*Bad file" closed.err
check "the log has events alone" test "$(grep -cv '^{"event":.*}$' closed.jsonl)" -eq 0

# Weights
refuse 1 "/nowhere/weights" "${synthetic[@]}" --load /nowhere/weights
printf 'no safetensors' >damaged.safetensors
refuse 1 "damaged.safetensors" "${synthetic[@]}" --load damaged.safetensors
refuse 1 "damaged.safetensors" eval --dataset synthetic:8x8x1:3:64 --model linear \
    --checkpoint damaged.safetensors
train "${synthetic[@]}" --checkpoint weights
refuse 2 "fc" "${synthetic[@]}" --model mlp --load weights/model.safetensors
head -c -4 weights/model.safetensors >cut.safetensors
refuse 1 "cut.safetensors" "${synthetic[@]}" --load cut.safetensors

# Logs to replay
refuse 1 "/nowhere/log" "${synthetic[@]}" --split replay:/nowhere/log
printf 'this is no log\n' >no.log
refuse 1 "no.log" "${synthetic[@]}" --split replay:no.log

# A loss that is not finite names the step and says what to change.
refuse 1 "loss of step [0-9]+ is not finite.*lower the learning rate" --quiet --model mlp --dataset synthetic:8x8x1:3:640 \
    --batch-size 64 --max-steps 50 --lr 1000

# A device that does not answer while it is closed, or while what it holds is released: all is written by then.
if [ -n "${DPTRAIN_FAULT_INNER:-}" ]; then
    export DPTRAIN_BACKEND_PATH="$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH"
    for entry in close free stream_free; do
        train --dataset synthetic:8x8x1:3:64 --model linear --batch-size 32 --epochs 1 --device-timeout 1 \
            --devices "fault:threads=1:entry=$entry:hang=1:after=2,cpu:threads=1" --split equal \
            --log stuck.jsonl --checkpoint "stuck-$entry"
        check "$entry: it is told: $(cat train.err)" grep -q "1 of the devices did not answer" train.err
        check "$entry: the log has its end" grep -q '"event":"done"' stuck.jsonl
        check "$entry: the weights are there" test -s "stuck-$entry/model.safetensors"
        check "$entry: all is printed" grep -q "^wrote " train.out
    done

    # One that does not answer while it evaluates or predicts: the others do its part, or nobody does.
    pair pictures sound
    small=(--dataset synthetic:4x4x1:3:64 --model linear)
    train "${small[@]}" --batch-size 32 --epochs 1 --devices cpu:threads=1 --quiet --checkpoint hung
    # run CODE DEVICES: $verb on these; output in hung.out and hung.err, without times.
    run() {
        local words=("$verb" "${small[@]}" --checkpoint hung --device-timeout 1s --devices "$2") got
        [ "$verb" = predict ] && words+=(pictures/t10k-images-idx3-ubyte)
        "$DPTRAIN" "${words[@]}" 2>hung.err </dev/null | sed 's/  [0-9.]* s .*//' >hung.out
        got=${PIPESTATUS[0]}
        check "$verb on $2: exit status $got: $(cat hung.err)" test "$got" -eq "$1"
    }
    for verb in eval predict; do
        run 0 cpu:threads=1,cpu:threads=1
        mv hung.out sound.out
        began=$SECONDS
        run 0 fault:threads=1:entry=run:hang=1,cpu:threads=1
        check "$verb waits no longer than that" test $((SECONDS - began)) -lt 30
        check "$verb tells: $(cat hung.err)" grep -qE \
            "^dptrain: device fault:[^ ]* is lost, and the others compute its samples: .*no answer within 1 s" hung.err
        check "$verb says what it says with two devices" cmp sound.out hung.out
        run 3 fault:threads=1:entry=run:hang=1
        check "$verb: it is told: $(cat hung.err)" grep -q "no answer within 1 s" hung.err
        run 3 fault:threads=1:entry=run:fail=1
    done
fi
finish
