#!/usr/bin/env bash
# Text and tokens: a network of an ONNX file trained on windows of ids, with the same windows whatever
# the shares and the number of processes, after a resume, with its held-out part, and what is refused.
. "$SRC/tests/cli/kit.bash"
need_python

kept=$SRC/tests/onnx/trained/gpt_default.onnx # 6 ids of 11, with a label for each
if [[ $("$DPTRAIN" plan --model "$kept" 2>&1) == *protobuf-c* ]]; then
    echo "skipped: dptrain was built without protobuf-c"
    exit 77
fi

python3 - <<'PYTHON'
import random, struct
random.seed(3)
ids = [0]
while len(ids) < 4000:
    ids.append((3 * ids[-1] + random.choice([1, 1, 2])) % 10)
for name, part in ("train", ids[:3300]), ("val", ids[3300:]):
    data = struct.pack("<%dH" % len(part), *part)
    with open(name + ".bin", "wb") as file:
        file.write(data)
    with open("llmc_" + name + ".bin", "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, len(part), *[0] * 253) + data)
with open("held.bin", "wb") as file:
    file.write(struct.pack("<50H", *ids[100:150]))
with open("bad.bin", "wb") as file:
    file.write(struct.pack("<100H", *ids[:50], 12, *ids[:49]))
with open("train.txt", "w") as file:
    file.write("the devices divide a batch. " * 40)
PYTHON

# The same windows with any shares, in one process and two, and in a file of llm.c.
some=(--model "$kept" --batch-size 32 --epochs 3 --lr 0.05 --momentum 0.9 --seed 3)
train "${some[@]}" --dataset tokens:6 --data train.bin --devices cpu --log one.jsonl
check "rates of text count tokens" grep -qE '^trained [0-9]+ steps? in [0-9.]+ s, [0-9]+ tok/s' train.out
check "windows are not counted" grep -q "data *tokens:6, 549 + 116 windows of 6, a vocabulary of 10 (train.bin)" train.out
train "${some[@]}" --dataset tokens:6 --data train.bin --devices cpu,cpu,cpu --split 13:2:1 --log three.jsonl
train "${some[@]}" --dataset tokens:6:u16:10 --data llmc_train.bin --devices cpu --log llmc.jsonl
check "other bits with a file of llm.c" "$DPTRAIN" compare one.jsonl llmc.jsonl >compare.out 2>&1
logs=(three)
if mpi_ready; then
    mpi 120 -n 2 "$DPTRAIN" "${some[@]}" --dataset tokens:6 --data train.bin --devices cpu:threads=1 \
        --log processes.jsonl
    check "two processes: status $status: $(tail -3 mpi.err)" test "$status" -eq 0
    logs+=(processes)
fi
check "other losses" python3 - "${logs[@]}" <<'PYTHON'
import json, sys
def events(name, kind):
    return [e for e in map(json.loads, open(name + ".jsonl")) if e["event"] == kind]
one = events("one", "step")
assert len(one) == 54
for other in sys.argv[1:]:
    for a, b in zip(one, events(other, "step"), strict=True):
        assert abs(a["loss"] - b["loss"]) < 1e-5 * a["loss"], (other, a, b)
epochs = events("one", "epoch")
assert len(epochs) == 3 and epochs[-1]["test_loss"] < 0.9 * epochs[0]["train_loss"], epochs
PYTHON

# Resumed in the middle of the third epoch, whose windows are shifted.
train "${some[@]}" --dataset tokens:6 --data train.bin --devices cpu --checkpoint whole
train "${some[@]}" --dataset tokens:6 --data train.bin --devices cpu --checkpoint parts --max-steps 41
train "${some[@]}" --dataset tokens:6 --data train.bin --devices cpu --checkpoint parts --resume
check "other weights after a resume" python3 - <<'PYTHON'
def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    return data[8 + int.from_bytes(data[:8], "little"):]
assert tensors("whole/model.safetensors") == tensors("parts/model.safetensors")
PYTHON

# Evaluation finds the data set in the weights, and takes other test data.
check "no evaluation" "$DPTRAIN" eval --model "$kept" --checkpoint whole --data train.bin --devices cpu >eval.out
check "no evaluation of other data" "$DPTRAIN" eval --model "$kept" --checkpoint whole --data train.bin \
    --test-data held.bin --devices cpu >eval2.out
check "an evaluation's rate, too" grep -qE '[0-9.]+ s  [0-9]+ tok/s$' eval.out
check "not the other test data" grep -q "of 48 right" eval2.out
check "the test part is not the file val.bin" grep -q "of 696 right" eval.out
train "${some[@]}" --dataset tokens:6 --data train.bin --validation 0.1 --test-data llmc_val.bin --devices cpu
check "no part for validation" grep -q "and 55 for validation" train.out
check "the survey" "$DPTRAIN" data --dataset text:8 --data train.txt >data.out
check "the survey does not count windows" grep -q "^text:8, windows of 8 ids of 256" data.out

# The perplexity, and of text the bits for each byte: log2 of it, or less with ids of several bytes.
check "no perplexity of ids" grep -qE "^perplexity [0-9.]+$" eval.out
net=(--model gpt:1:1:8:8 --batch-size 16 --max-steps 3 --devices cpu --quiet)
train "${net[@]}" --dataset text:8 --data train.txt --checkpoint bytes
train "${net[@]}" --dataset text:8 --data train.txt --tokenizer "$SRC/tests/text/gpt2" --checkpoint ids
"$DPTRAIN" eval --checkpoint bytes --data train.txt --devices cpu >bytes.out 2>bytes.err
"$DPTRAIN" eval --checkpoint ids --dataset text:8 --tokenizer "$SRC/tests/text/gpt2" --data train.txt \
    --devices cpu >ids.out 2>ids.err
check "other bits per byte" python3 - <<'PYTHON'
import math, re
def numbers(name):
    with open(name) as file:
        return [float(x) for x in re.search(r"^perplexity (\S+), (\S+) bits per byte$", file.read(), re.M).groups()]
perplexity, bits = numbers("bytes.out")
assert abs(math.log2(perplexity) - bits) < 1e-3, (perplexity, bits)
perplexity, bits = numbers("ids.out")
assert bits < 0.6 * math.log2(perplexity), (perplexity, bits)
PYTHON

# What is refused.
refuse 2 "text:CONTEXT" --dataset text --data train.txt --model "$kept"
refuse 2 "text:8 needs files: give --data PATH" --dataset text:8 --model "$kept"
refuse 1 "cannot read no-such-file" --dataset text:8 --data no-such-file --model "$kept"
refuse 1 "bad.bin: the id at place 50 is out of range: the vocabulary has 11 ids" \
    --dataset tokens:6:11 --data bad.bin --model "$kept" --devices cpu
refuse 2 "gpt_default.onnx has 11 classes, but text:6 has 256" --dataset text:6 --data train.txt --model "$kept" \
    --devices cpu
refuse 2 "gpt_default.onnx takes 1x1x6 images, but those of tokens:5 are 1x1x5" \
    --dataset tokens:5 --data train.bin --model "$kept" --devices cpu
refuse 2 "train.txt has 1120 tokens, and a window of 1120 needs 1121" --dataset text:1120 --data train.txt --model "$kept"
refuse 2 "class weights need the labels in memory" --dataset tokens:6 --data train.bin --model "$kept" --devices cpu \
    --class-weights 1,1,1,1,1,1,1,1,1,1,1
refuse 2 "--tokenizer goes with --dataset" --tokenizer "$SRC/tests/text/gpt2"
refuse 2 "--test-data goes with --dataset" --dataset mnist --test-data x

# A tokenizer's ids.
"$DPTRAIN" data --dataset text:4 --data train.txt --tokenizer "$SRC/tests/text/gpt2" >data.out 2>data.err
check "no survey of ids" grep -q "windows of 4 ids of 600" data.out
refuse 1 "no tokenizer.json, and no vocab.json" data --dataset text:4 --data train.txt --tokenizer .
echo '{"model":{"type":"Unigram","vocab":[]}}' >unigram.json
refuse 1 "unigram.json: its model is Unigram" data --dataset text:4 --data train.txt --tokenizer unigram.json
finish
