#!/usr/bin/env bash
# Devices that hold neither the data nor their share: said before training, and losses as without.
. "$SRC/tests/cli/kit.bash"
need_python
lacks() { ! grep "$@"; } # a pattern that a file does not have
[ -n "${DPTRAIN_FAULT_INNER:-}" ] || { echo "skipped: there is no device to limit"; exit 77; }
export DPTRAIN_BACKEND_PATH="$DPTRAIN_BACKEND_PATH:$DPTRAIN_TEST_FAULT_PATH"

# 7.5 MiB of images, for which there is no room beside LeNet and its batch.
small=(--dataset synthetic:28x28x1:10:10000 --model lenet --batch-size 64 --max-steps 5 --seed 5)
train "${small[@]}" --devices faultstaged --log whole.jsonl
check "nothing is said of memory" lacks -q '^memory' train.out
train "${small[@]}" --devices faultstaged:memory=11M --log streamed.jsonl
check "streamed data are told" \
    grep -qxE 'memory +faultstaged:memory=11M: its memory does not hold the data; .*' train.out
check "the share fits" lacks -q 'at a time' train.out
train "${small[@]}" --devices cpu --micro-batch 13 --log passes.jsonl
check "passes are told" grep -qx 'memory    cpu: computes its shard of 64 samples 13 at a time' train.out
check "there is no batch-norm" lacks -q 'batch-norm' train.out

# With batch-norm a user should know of what the statistics are, unless they are fixed.
normed=(--dataset synthetic:16x16x3:10:64 --model resnet18 --batch-size 16 --max-steps 1 --devices cpu --micro-batch 5)
train "${normed[@]}"
check "statistics are told" grep -q 'batch-norm takes its statistics over the samples' train.out
train "${normed[@]}" --freeze-batch-norm
check "micro-batches are told" grep -q 'computes its shard of 16 samples 5 at a time' train.out
check "frozen statistics are not told" lacks -q 'batch-norm takes its statistics' train.out
check "the log and the losses" python3 - <<'PYTHON'
import json
def read(name):
    events = [json.loads(line) for line in open(name)]
    losses = [e["loss"] for e in events if e["event"] == "step"]
    return losses, ["streamed" in d for d in events[0]["devices"]]
whole, streamed, passes = read("whole.jsonl"), read("streamed.jsonl"), read("passes.jsonl")
assert whole[1] == [False] and streamed[1] == [True] and passes[1] == [False]
assert len(whole[0]) == 5 and whole[0] == streamed[0]
assert all(abs(a - b) < 1e-5 for a, b in zip(whole[0], passes[0]))
PYTHON
finish
