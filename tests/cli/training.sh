#!/usr/bin/env bash
# A short training as a user sees it: output, log, plot, weights; evaluation, loading and repeating.
. "$SRC/tests/cli/kit.bash"
need_python

data=synthetic:12x12x1:4:1000 # 1000 = 7 * 128 + 104: the last batch is ragged
common=(--dataset "$data" --model mlp --batch-size 128 --lr 0.05 --momentum 0.9)
devices=(--devices cpu:threads=1,cpu:threads=1,cpu:threads=1)

# ---- What is printed and written ----
train "${common[@]}" "${devices[@]}" --split 5:2:1 --epochs 2 --seed 3 \
    --checkpoint first --log first.jsonl --plot first.svg
check "no bar in a pipe" test -z "$(tr -dc '\r\033' <train.out)$(tr -dc '\r\033' <train.err)"
check "nothing on stderr" test ! -s train.err
check "the model is named" grep -qE '^model +mlp, 1202180 parameters' train.out
check "a line for each epoch" test "$(grep -cE \
    '^epoch [12]/2  train loss [0-9.]+ accuracy [0-9.]+  test loss [0-9.]+ accuracy [0-9.]+' \
    train.out)" -eq 2
check "three devices" test "$(grep -c 'cpu:threads=1:' train.out)" -eq 3
check "the end" grep -qE '^trained 16 steps in [0-9.]+ s, [0-9]+ img/s, test accuracy [0-9.]+' train.out
check "what each device has done" test "$(grep -cE \
    '^cpu:threads=1 +[0-9.]+ +[0-9.]+ %( +[0-9.]+ %){3} +[0-9.]+ img/s$' train.out)" -eq 3
check "shares as they were given" test "$(sed -nE \
    's/^cpu:threads=1 +([0-9.]+) +([0-9.]+) %.*/\1 \2/p' train.out | tr '\n' ' ')" = \
    "78.0 62.5 31.2 25.0 15.6 12.5 "
check "and all together" grep -qE \
    '^together +[0-9.]+ img/s, balance [01]\.[0-9]+, scaling [01]\.[0-9]+$' train.out
check "files are named" grep -q 'wrote first/model.safetensors, first.jsonl, first.svg' train.out
check "the plot is SVG" python3 -c '
import sys, xml.etree.ElementTree as x
sys.exit(x.parse("first.svg").getroot().tag != "{http://www.w3.org/2000/svg}svg")'
check "the log" python3 - <<'PYTHON'
import json, math
events = [json.loads(line) for line in open("first.jsonl")]
run, done = events[0], events[-1]
assert run["event"] == "run" and done["event"] == "done"
assert run["model"] == "mlp" and run["parameters"] == 1202180 and run["batch_size"] == 128
assert run["seed"] == 3 and [d["id"] for d in run["devices"]] == ["cpu:threads=1"] * 3
assert all(d["backend"] == "cpu" and d["threads"] == 1 and d["name"] for d in run["devices"])
told = run["settings"]
assert told["lr"] == "0.05" and told["momentum"] == "0.9" and told["optimizer"] == "sgd", told
assert told["model"].startswith("mlp, 1202180 parameters, ") and told["schedule"] == "constant", told
steps = [e for e in events if e["event"] == "step"]
assert [e["step"] for e in steps] == list(range(1, 17))
assert [e["epoch"] for e in steps] == [1] * 8 + [2] * 8
for e in steps:
    assert e["samples"] == (104 if e["step"] % 8 == 0 else 128) == sum(e["shards"])
    assert len(e["device_seconds"]) == 3 and all(s > 0 for s in e["device_seconds"])
    assert len(e["waiting_seconds"]) == 3 and all(s >= 0 for s in e["waiting_seconds"])
    assert all(0 < x < s for x, s in zip(e["exchange_seconds"], e["device_seconds"], strict=True))
    assert math.isfinite(e["loss"]) and e["seconds"] > 0
assert steps[0]["shards"] == [80, 32, 16] and steps[7]["shards"] == [65, 26, 13]
epochs = [e for e in events if e["event"] == "epoch"]
assert [e["epoch"] for e in epochs] == [1, 2]
mean = sum(e["loss"] * e["samples"] for e in steps[8:]) / 1000
assert abs(epochs[1]["train_loss"] - mean) < 1e-6
assert epochs[1]["train_loss"] < epochs[0]["train_loss"]
assert 0.5 < epochs[1]["test_accuracy"] <= 1
assert done["steps"] == 16 and done["test_accuracy"] == epochs[1]["test_accuracy"]
def column(key):
    return [sum(x) for x in zip(*(e[key] for e in steps[1:]))]  # the first is a cold start
assert done["samples"] == column("shards") == [1170, 468, 234]
for key in "device_seconds", "exchange_seconds", "waiting_seconds":
    assert all(math.isclose(a, b, rel_tol=1e-7) for a, b in zip(done[key], column(key), strict=True))
for i in range(3):
    assert math.isclose(done["throughput"][i], done["samples"][i] / done["device_seconds"][i], rel_tol=1e-7)
    assert done["alone_throughput"][i] > 0
rate = sum(done["samples"]) / sum(e["seconds"] for e in steps[1:])
assert math.isclose(done["balance"], rate / sum(done["throughput"]), rel_tol=1e-7)
assert math.isclose(done["scaling"], rate / sum(done["alone_throughput"]), rel_tol=1e-7)
assert done["peak_rss_bytes"] > 2**20 and done["images_per_second"] > 0
PYTHON
check "the weights have PyTorch's names and shapes" python3 - <<'PYTHON'
import json, struct
data = open("first/model.safetensors", "rb").read()
n, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + n])
header.pop("__metadata__", None)
assert {k: v["shape"] for k, v in header.items()} == {
    "fc1.weight": [1024, 144], "fc1.bias": [1024], "fc2.weight": [1024, 1024], "fc2.bias": [1024],
    "fc3.weight": [4, 1024], "fc3.bias": [4]}
assert all(v["dtype"] == "F32" for v in header.values())
PYTHON
check "nothing temporary is left" test "$(ls -A first | grep -cv "^\(model\|checkpoint-0*[0-9]*\)\.safetensors$")" -eq 0

# ---- The same weights, evaluated and loaded ----
accuracy() { # of the last test in a training's output
    sed -n 's/.*test loss [0-9.]* accuracy \([0-9.]*\).*/\1/p' "$1" | tail -1
}
trained=$(accuracy train.out)
for from in first first/model.safetensors; do
    "$DPTRAIN" eval --dataset "$data" --model mlp --checkpoint "$from" >eval.out 2>eval.err
    code=$?
    check "eval of $from succeeds: $(cat eval.err)" test $code -eq 0
    check "eval of $from gives $trained: $(cat eval.out)" test "$(accuracy eval.out)" = "$trained"
done
check "eval on other devices gives the same" test "$("$DPTRAIN" eval --dataset "$data" --model mlp \
    --checkpoint first --devices cpu,cpu | sed -n 's/.*accuracy \([0-9.]*\).*/\1/p')" = "$trained"
train "${common[@]}" --load first/model.safetensors --epochs 1 --lr 1e-9 --momentum 0
check "loaded weights are the saved ones" test "$(accuracy train.out)" = "$trained"

# ---- The same bits ----
same="--epochs 2 --seed 3 --quiet"
train "${common[@]}" "${devices[@]}" --split 5:2:1 $same --checkpoint again
check "the same run gives the same bits" cmp first/model.safetensors again/model.safetensors
train "${common[@]}" "${devices[@]}" --split replay:first.jsonl $same --checkpoint replayed \
    --log replayed.jsonl
check "a replay gives the same bits" cmp first/model.safetensors replayed/model.safetensors
check "a replay has the same shards" python3 - <<'PYTHON'
import json
def shards(path):
    return [e["shards"] for e in map(json.loads, open(path)) if e["event"] == "step"]
assert shards("first.jsonl") == shards("replayed.jsonl")
PYTHON
train "${common[@]}" "${devices[@]}" --split 5:2:1 $same --seed 4 --checkpoint other
check "another seed gives other bits" test -n "$(cmp first/model.safetensors other/model.safetensors)"
refuse 2 "first.jsonl is of a run on 3 devices, but this one has 1" "${common[@]}" --devices cpu --split replay:first.jsonl --quiet
refuse 2 "batches of 128, but this one has 100" "${common[@]}" "${devices[@]}" --batch-size 100 \
    --split replay:first.jsonl --quiet
rm -f longer.jsonl
refuse 2 "shards for 16 steps" "${common[@]}" "${devices[@]}" --epochs 3 --split replay:first.jsonl \
    --quiet --log longer.jsonl
check "which is refused before the first step" test ! -e longer.jsonl
ln -sf first.jsonl same.jsonl
for output in log plot trace; do
    refuse 2 "same.jsonl is the log that is replayed, and would be replaced" "${common[@]}" "${devices[@]}" \
        --split replay:first.jsonl $same --$output same.jsonl
done
check "the log that is replayed is still there" grep -q '"event":"done"' first.jsonl
refuse 2 "names no log" "${common[@]}" "${devices[@]}" --split replay: --quiet

# ---- Limits ----
train "${common[@]}" --max-steps 3
check "--max-steps 3" grep -q '^trained 3 steps ' train.out
train "${common[@]}" --devices cpu --max-steps 1
check "no table of one device" test "$(grep -c balance train.out)" -eq 0
check "--max-steps 1" grep -q '^trained 1 step ' train.out
train "${common[@]}" --max-time 1s
check "--max-time 1s" python3 -c '
import re, sys
seconds = float(re.search(r"^trained \d+ steps? in ([\d.]+) s", open("train.out").read(), re.M)[1])
sys.exit(not 0.1 < seconds < 5)'
train --dataset synthetic:8x8x1:3:40 --model linear --max-steps 1 --no-shuffle
check "the default batch fits small data" grep -q '^training  batch 40,' train.out
train --dataset synthetic:8x8x1:3:40 --model linear --max-steps 1 --schedule step --step-factor 0.5
check "a schedule's numbers" grep -qx "schedule  step, times 0.5 after every 30 epochs" train.out

# ---- With other classes ----
five=(--dataset synthetic:12x12x1:5:200 --model mlp --batch-size 50 --max-steps 4 --quiet)
train "${common[@]}" --max-steps 10 --checkpoint four --quiet
refuse 2 "fc3.weight of 4x1024, which is 5x1024 in model mlp \(--fresh" "${five[@]}" --load four/model.safetensors
refuse 2 "model mlp has no layer 'fc' with weights" "${five[@]}" --load four/model.safetensors --fresh fc
refuse 2 "--fresh goes with --load" "${five[@]}" --fresh fc3
train "${five[@]}" --load four/model.safetensors --fresh fc3 --lr 1e-9 --checkpoint five
check "the other layers are the file's" python3 - <<'PYTHON'
import array, json
def tensors(path):
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    return {name: array.array("f", data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in json.loads(data[8:8 + n]).items() if name != "__metadata__"}
four, five = tensors("four/model.safetensors"), tensors("five/model.safetensors")
assert four.keys() == five.keys()
for name in four:
    same = len(four[name]) == len(five[name])
    assert same == ("fc3" not in name), name
    assert not same or all(abs(a - b) < 1e-7 for a, b in zip(four[name], five[name])), name
PYTHON

# ---- Every model of the list ----
models=$("$DPTRAIN" --help | sed -n '/^Models$/,/^$/s/^  \([a-z0-9-]*\) .*/\1/p')
check "help lists models" test "$(wc -w <<<"$models")" -ge 8
for model in $models; do
    case $model in
    gpt*) # cli_text_models trains small ones
        refuse 2 "model $model reads ids of tokens" train --dataset synthetic:32x32x3:10:8 --model "$model"
        continue ;;
    esac
    train --dataset synthetic:32x32x3:10:8 --batch-size 4 --model "$model" --max-steps 2 --quiet
done
finish
