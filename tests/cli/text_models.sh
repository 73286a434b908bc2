#!/usr/bin/env bash
# Language models on the command line: what is refused, checkpoints with config.json that the
# command takes up again, weights of two bytes.
. "$SRC/tests/cli/kit.bash"
need_python

# Ids below 61, and the next ones as labels, of which the first of each sample are ignored.
python3 - <<'PYTHON'
import struct, zipfile

def npy(shape, numbers):
    text = "{'descr': '<i4', 'fortran_order': False, 'shape': %s, }" % (shape,)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<%di" % len(numbers), *numbers)

rows = [[i * 7 % 61] for i in range(32)]
for row in rows:
    for _ in range(16):
        row.append((3 * row[-1] + 1) % 61)
with zipfile.ZipFile("ids.npz", "w") as file:
    file.writestr("x.npy", npy((32, 16), [i for row in rows for i in row[:-1]]))
    file.writestr("labels.npy", npy((32, 16), [-100 if k < n % 5 else i for n, row in enumerate(rows)
                                               for k, i in enumerate(row[1:])]))
PYTHON

data=(--dataset npz:ids.npz)
refuse 2 "gpt:2:2:16:8 has a context of 8 tokens, and the samples have 16" --model gpt:2:2:16:8 "${data[@]}"
refuse 2 "has a vocabulary of 5 tokens, and the data one of 61" --model lstm:1:16:16:5 "${data[@]}"
refuse 2 "unknown model 'gpt:2:2:16'; its form is gpt:LAYERS:HEADS:WIDTH:CONTEXT" --model gpt:2:2:16 "${data[@]}"
refuse 2 "unknown model 'llama:2:4:2:16:24:61:0'" --model llama:2:4:2:16:24:61:0 "${data[@]}"
refuse 2 "the width must be a multiple of the heads" --model gpt:2:3:16:24 "${data[@]}"
refuse 2 "the heads a multiple of those of keys" --model llama:2:4:3:16:24 "${data[@]}"
refuse 2 "more than 512 layers" --model gpt:513:2:16:24 "${data[@]}"
refuse 2 "reads ids of tokens, and the data are 28x28x1 images" --model gpt2 --dataset synthetic:28x28x1:10:32

# The folder of a checkpoint says the model, and its evaluation is that of the training.
for model in gpt:2:2:16:24 llama:2:4:2:16:24:61:44 lstm:1:16:24; do
    name=${model%%:*}
    train --model "$model" "${data[@]}" --batch-size 8 --optimizer adamw --lr 0.01 --epochs 2 \
        --checkpoint "$name" --quiet --log "$name.jsonl"
    check "eval of $name" "$DPTRAIN" eval --checkpoint "$name" "${data[@]}" >eval.out 2>eval.err
    check "$name: the same loss" python3 - "$name.jsonl" <<'PYTHON'
import json, re, sys
wanted = [line["test_loss"] for line in map(json.loads, open(sys.argv[1])) if line["event"] == "epoch"][-1]
sys.exit(abs(float(re.search(r"test loss ([0-9.]+)", open("eval.out").read())[1]) - wanted) > 6e-5)
PYTHON
done
check "config.json of gpt" python3 - <<'PYTHON'
import json
config = json.load(open("gpt/config.json"))
assert config["model_type"] == "gpt2" and config["n_positions"] == 24 and config["vocab_size"] == 61
config = json.load(open("llama/config.json"))
assert config["model_type"] == "llama" and config["num_key_value_heads"] == 2 and config["intermediate_size"] == 44
# Release 4 of transformers reads the first place alone, and release 5 the second one first.
assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 10000
PYTHON
check "no config.json of lstm" test ! -e lstm/config.json

# Files of transformers: a folder with an index, and weights of two bytes, which a line names.
files=$SRC/tests/golden/checkpoints
train --model llama:2:4:2:16:24:61:44 "${data[@]}" --batch-size 8 --max-steps 1 --load "$files/llama"
check "BF16 is told" grep -q "stores weights as BF16; each becomes the float32 of its value" train.err
train --model gpt:2:2:16:24 "${data[@]}" --batch-size 8 --max-steps 1 --load "$files/gpt2.safetensors"
check "F32 is no news" test ! -s train.err
refuse 2 "has a tensor transformer.wpe.weight of 24x16, which is 20x16" \
    --model gpt:2:2:16:20 "${data[@]}" --load "$files/gpt2.safetensors"
finish
