#!/usr/bin/env bash
# Figures of classes: eval --metrics as text and as JSON, train --metrics in the log, what is refused.
# The values are compared with scikit-learn's in tests/python/test_metrics.py and unit_class_counts.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
need_python

data=(--dataset synthetic:8x8x1:12:600)
rm -rf run text ./*.json ./*.jsonl
train "${data[@]}" --model mlp --batch-size 32 --lr 0.05 --epochs 2 --devices cpu:threads=1 \
    --checkpoint run --log run.jsonl --metrics --validation 0.1 --quiet

# judge FILE ARGUMENT...: an evaluation, with its JSON in FILE and its text in eval.out.
judge() {
    local file=$1
    shift
    checks=$((checks + 1))
    "$DPTRAIN" eval "${data[@]}" --checkpoint run --json "$file" "$@" >eval.out 2>eval.err ||
        fail "eval $*: $(cat eval.err)"
}
judge plain.json --devices cpu:threads=1
check "one line, as ever" test "$(wc -l <eval.out)" -eq 1
judge one.json --metrics --deterministic --devices cpu:threads=1
check "the five most likely" grep -qE "^top-5 accuracy [01]\.[0-9]{4}  [0-9]+ of 100 " eval.out
check "means" grep -qE "^macro    precision 0\.[0-9]+ recall 0\.[0-9]+ F1 0\.[0-9]+$" eval.out
check "an area" grep -qE "^AUC [01]\.[0-9]{4}, the mean of each class against the rest" eval.out
check "the matrix" test "$(grep -A 13 '^confusion matrix' eval.out | wc -l)" -eq 14
judge three.json --metrics --deterministic --devices cpu:threads=1,cpu:threads=2,cpu:threads=1 --split 5:1:0
check "what is told" python3 - <<'PYTHON'
import json
plain, one, three = (json.load(open(name + ".json")) for name in ("plain", "one", "three"))
assert "metrics" not in plain and plain["samples"] == 100 and plain["hits"] == plain["accuracy"] * 100, plain
m = one["metrics"]
assert m == three["metrics"]
n = len(m["confusion"])
assert n == 12 and all(len(row) == n for row in m["confusion"])
assert [sum(row) for row in m["confusion"]] == m["classes"]["support"]
assert [sum(column) for column in zip(*m["confusion"])] == m["classes"]["predicted"]
assert sum(m["confusion"][i][i] for i in range(n)) == m["hits"] == one["hits"]
for i in range(n):
    right, support, predicted = m["confusion"][i][i], m["classes"]["support"][i], m["classes"]["predicted"][i]
    assert m["classes"]["recall"][i] == right / support
    assert m["classes"]["precision"][i] == (right / predicted if predicted else 0)
    assert abs(m["classes"]["f1"][i] - 2 * right / (support + predicted)) < 1e-15
assert abs(m["auc"] - sum(m["classes"]["auc"]) / n) < 1e-12
epochs = [e for e in map(json.loads, open("run.jsonl")) if e["event"] == "epoch"]
assert len(epochs) == 2
assert epochs[1]["test_metrics"]["confusion"] == m["confusion"]
assert epochs[0]["validation_metrics"]["samples"] == 60
PYTHON

# A class that no sample has.
python3 - <<'PYTHON'
import struct
pixels = bytes(range(64)) * 9
for part in "train", "t10k":
    open(part + "-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, 9, 8, 8) + pixels)
    labels = [0, 1, 3] * 3 if part == "t10k" else [0, 1, 2, 3, 0, 1, 2, 3, 0]
    open(part + "-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, 9) + bytes(labels))
PYTHON
idx=(--dataset idx --data . --devices cpu:threads=1)
train "${idx[@]}" --model linear --batch-size 9 --max-steps 1 --checkpoint gap --quiet
"$DPTRAIN" eval "${idx[@]}" --checkpoint gap --metrics >gap.out 2>gap.err
check "no area, and why" grep -qx "AUC: none, because class 2 has no sample" gap.out

# Mistakes
refuse 2 "--metrics goes with --log" train "${data[@]}" --model mlp --metrics
head -c 3000 /dev/urandom >words.txt
text=(--dataset text:8 --data words.txt --devices cpu:threads=1)
train "${text[@]}" --model gpt:1:1:8:8 --max-steps 1 --checkpoint text --quiet
refuse_listed 2 "metrics of classes need cross-entropy as the loss, and one label for each sample" \
    eval "${text[@]}" --checkpoint text --metrics
refuse 1 "cannot write none/e.json: .*create the folder first" eval "${data[@]}" --checkpoint run \
    --json none/e.json
"$DPTRAIN" eval "${text[@]}" --checkpoint text --json text.json >/dev/null 2>&1
check "text has a perplexity" grep -q '"perplexity":[0-9.]*' text.json
finish
