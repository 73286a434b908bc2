#!/usr/bin/env bash
# Data sets of arrays: networks of ONNX files trained from npz, several inputs, evaluation,
# prediction and resume with them, regression from CSV, and what is refused.
. "$SRC/tests/cli/kit.bash"
need_python

kept=$SRC/tests/onnx/trained several_folder=$SRC/tests/onnx/several
if [[ $("$DPTRAIN" plan --model "$kept/mlp_older.onnx" 2>&1) == *protobuf-c* ]]; then
    echo "skipped: dptrain was built without protobuf-c"
    exit 77
fi

# Writes NumPy files without NumPy: arrays as (type, shape, numbers).
cat >files.py <<'PYTHON'
import struct, sys, zipfile

def npy(kind, shape, numbers):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    code = {"<i8": "q", "<f4": "f", "|u1": "B", "<f8": "d", "|b1": "?"}[kind]
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() +
            struct.pack("<%d%s" % (len(numbers), code), *numbers))

def npz(path, packed=True, **arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            file.writestr(name + ".npy", npy(*array))

def floats(path):
    with open(path, "rb") as file:
        data = file.read()
    return struct.unpack("<%df" % (len(data) // 4), data)
PYTHON

# The samples of two kept networks: ids, and a label for each sample or token.
python3 - "$kept" <<'PYTHON'
import sys
from files import *
for name, labels, count in ("bert", 1, 8), ("gpt", 6, 8):
    ids = [int(x) for x in floats(f"{sys.argv[1]}/{name}.f32")[:48]]
    y = [-100 if labels > 1 and i % 5 == 2 else i % 3 for i in range(count * labels)]
    npz(name + ".npz", name == "gpt", x=("<i8", (8, 6), ids), labels=("<i8", (8, labels), y))
PYTHON

# losses LOG FILE: the last 20 numbers of FILE are the losses of the log's 20 steps.
losses() {
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
from files import floats
want = floats(sys.argv[2])[-20:]
got = [line["loss"] for line in map(json.loads, open(sys.argv[1])) if line["event"] == "step"]
sys.exit(len(got) != 20 or not all(abs(a - b) <= 1e-4 * b for a, b in zip(got, want)))
PYTHON
}

recipe=(--batch-size 8 --lr 0.05 --momentum 0.9 --no-shuffle)
three=(--devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --split 13:2:1)
for file in bert_default bert_older gpt_default gpt_older; do
    name=${file%_*}
    train --model "$kept/$file.onnx" --dataset "npz:$name.npz" "${three[@]}" "${recipe[@]}" \
        --max-steps 20 --log log
    check "$file has the losses of PyTorch" losses log "$kept/$name.f32"
    check "the header says that there are no test data" \
        grep -q "the test samples are the training samples" train.out
done

# Several inputs.
for file in masked_default paired_older tagged_default; do
    name=${file%_*}
    train --model "$several_folder/$file.onnx" --dataset "npz:$name.npz" --data "$several_folder" "${three[@]}" "${recipe[@]}" \
        --max-steps 20 --log log
    check "$file has the losses of PyTorch" losses log "$several_folder/$name.f32"
done

# A checkpoint after ten steps, and the other ten.
rm -rf run log
several=(--model "$several_folder/masked_older.onnx" --dataset "npz:$several_folder/masked.npz")
train "${several[@]}" "${three[@]}" "${recipe[@]}" --epochs 10 --checkpoint run --log log
train "${several[@]}" "${three[@]}" "${recipe[@]}" --epochs 20 --checkpoint run --log log --resume
check "a resumed training has the losses of PyTorch" losses log "$several_folder/masked.f32"

# Evaluation and prediction.
check "eval" "$DPTRAIN" eval "${several[@]}" --checkpoint run --devices cpu >eval.out
check "eval counts the samples" grep -qE "of 8 right" eval.out
check "predict" "$DPTRAIN" predict --model "$several_folder/masked_older.onnx" --checkpoint run \
    "$several_folder/masked.npz:0-2,7" >predict.out
check "predict prints four samples" test "$(grep -c 'class' predict.out)" -eq 4

# A network whose output is integers: the channel in which each pixel of 4x6 is largest.
python3 - "$SRC/tests/onnx/composed/x.f32" <<'PYTHON'
import json, struct, sys
from files import *
x = floats(sys.argv[1])[: 3 * 192]
npz("places.npz", x=("<f4", (3, 8, 4, 6), [x[192 * n + 8 * p + c] for n in range(3) for c in range(8) for p in range(24)]))
header = json.dumps({"scale": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}).encode()
header += b" " * (-len(header) % 8)
open("scale.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<6f", *[1.0] * 6))
with open("places.wanted", "w") as out:
    for n in range(3):
        pixels = [x[192 * n + 8 * p : 192 * n + 8 * p + 8] for p in range(24)]
        print(f"places.npz:{n}: " + ", ".join(str(p.index(max(p))) for p in pixels), file=out)
PYTHON
check "predict of integers" "$DPTRAIN" predict --model "$SRC/tests/onnx/composed/places.onnx" \
    --checkpoint scale.safetensors --top 24 places.npz >places.out
check "predict prints the integers" cmp places.out places.wanted
refuse 2 "the model has several inputs" predict --model "$several_folder/masked_older.onnx" --checkpoint run \
    "$SRC/tests/fuzz/corpus/png/colour.png"
refuse 2 "has no array ids, which model .* its arrays are x" train --model "$several_folder/masked_older.onnx" \
    --dataset npz:bert.npz
refuse 2 "the shape \(6\), but model .* reads" train --model "$kept/attention_older.onnx" \
    --dataset npz:bert.npz
refuse 2 "augmentation" train "${several[@]}" --augment flip

# Images, in the order of PyTorch and with the channels last, and a test part beside the training.
python3 - <<'PYTHON'
from files import *
pixels = [(7 * i * i + 3 * i) % 256 for i in range(16 * 8 * 8)]
labels = [i % 4 for i in range(16)]
for part in "train", "test":
    npz(f"{part}.npz", x=("|u1", (16, 8, 8), pixels), y=("<i8", (16,), labels))
open("x-train.npy", "wb").write(npy("|u1", (16, 8, 8), pixels))
open("y-train.npy", "wb").write(npy("<i8", (16,), labels))
rows = [(i / 16, (i * 7 % 16) / 16) for i in range(64)]
open("line.csv", "w").write("a,b,value\n" + "".join(f"{a},{b},{2 * a - b + 0.5:.6f}\n" for a, b in rows))
open("bad.csv", "w").write("a,b,value\n1,2,3\n1,x,3\n")
PYTHON
for data in npz:train.npz npy:x-train.npy:y-train.npy; do
    train --model mlp --dataset "$data" --epochs 2 --devices cpu --seed 1 --log log
    check "$data: four classes" grep -q "16 + 16 images of 8x8x1, 4 classes" train.out
    python3 -c "import json
print([l['loss'] for l in map(json.loads, open('log')) if l['event'] == 'step'])" >"losses.${data%%:*}"
done
check "npz and npy give the same losses" cmp losses.npz losses.npy
check "data looks at arrays" "$DPTRAIN" data --dataset npz:train.npz >data.out
check "data counts the classes" grep -qE "^3 +4 +4" data.out

# Regression.
line=(--model mlp --dataset csv:line.csv:value --loss squared-error --devices cpu)
train "${line[@]}" --epochs 30 --lr 0.02 --batch-size 16 --checkpoint line --log log
check "the last loss is small" python3 -c "import json
l = [l['loss'] for l in map(json.loads, open('log')) if l['event'] == 'step']
exit(not l[-1] < 0.05 * l[0])"
check "a regression prints no accuracy" bash -c "! grep -q accuracy train.out"
check "eval of a regression" "$DPTRAIN" eval "${line[@]}" --checkpoint line
for loss in absolute "huber --huber-delta 0.5"; do
    # shellcheck disable=SC2086 # the second one has an option
    train --model mlp --dataset csv:line.csv:value --loss $loss --epochs 20 --lr 0.02 --batch-size 16 --devices cpu --log log
    check "$loss: the last loss is small" python3 -c "import json
l = [l['loss'] for l in map(json.loads, open('log')) if l['event'] == 'step']
exit(not l[-1] < 0.5 * l[0])"
done
python3 - <<'PYTHON'
from files import *
rows = [((i * 5 % 16) / 8 - 1, (i * 7 % 16) / 8 - 1) for i in range(64)]
npz("yes.npz", x=("<f4", (64, 2), [v for row in rows for v in row]),
    targets=("<f4", (64, 2), [float(v) for a, b in rows for v in (a > b, a > 0)]))
PYTHON
yes=(--model mlp --dataset npz:yes.npz --loss binary-cross-entropy)
train "${yes[@]}" --epochs 60 --lr 0.5 --batch-size 16 --seed 3 --devices cpu --log one
train "${yes[@]}" --epochs 60 --lr 0.5 --batch-size 16 --seed 3 "${three[@]}" --checkpoint yes --log log
check "a mix has the losses of one device" python3 -c "import json
one, mix = ([l['loss'] for l in map(json.loads, open(f)) if l['event'] == 'step'] for f in ('one', 'log'))
exit(len(one) != len(mix) or max(abs(a - b) for a, b in zip(one, mix)) > 1e-4 or not mix[-1] < 0.3 * mix[0])"
"$DPTRAIN" predict "${yes[@]}" --checkpoint yes yes.npz:0-63 >predict.out
check "predict prints probabilities" python3 -c "
rows = [[float(v) for v in l.rsplit(':', 1)[1].split(',')] for l in open('predict.out')]
want = [(i * 5 % 16 > i * 7 % 16, i * 5 % 16 > 8) for i in range(64)]
right = sum((p > 0.5) == w for row, wanted in zip(rows, want) for p, w in zip(row, wanted))
exit(len(rows) != 64 or any(not 0 <= p <= 1 for row in rows for p in row) or right < 110)"
refuse 2 "a Huber delta is for the Huber loss" train --model mlp --dataset csv:line.csv:value --loss absolute --huber-delta 2
refuse 2 "has no labels, which cross-entropy needs" train --model mlp --dataset csv:line.csv:value
refuse 1 "bad.csv: line 3, column 2: x is no number" train --model mlp --dataset csv:bad.csv:value
refuse 1 "names no column z" train --model mlp --dataset csv:line.csv:z
refuse 2 "write csv:FILE:LABEL" train --model mlp --dataset csv:line.csv
refuse 1 "nowhere.npz" train --model mlp --dataset npz:nowhere.npz
head -c 300 train.npz >cut.npz
refuse 1 "cut.npz: no whole zip file" train --model mlp --dataset npz:cut.npz
finish
