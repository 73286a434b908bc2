#!/usr/bin/env bash
# dptrain export: the written network has the accuracy of the one that was trained, with the same
# checkpoint, and what the command refuses.
. "$SRC/tests/cli/kit.bash"

data=synthetic:12x12x3:4:400
train --dataset "$data" --model mlp --epochs 2 --lr 0.02 --batch-size 50 --devices cpu:threads=1 \
    --checkpoint run --quiet
if [[ $("$DPTRAIN" export --checkpoint run --onnx net.onnx 2>&1) == *"cannot write ONNX files"* ]]; then
    echo "skipped: dptrain was built without protobuf-c"
    exit 77
fi
check "the file is there" test -s net.onnx

# result MODEL: loss, accuracy and the images that are right.
result() {
    "$DPTRAIN" eval --model "$1" --checkpoint run --dataset "$data" --devices cpu:threads=1 \
        2>eval.err | grep -oE "loss .* right"
}
expected=$(result mlp)
check "eval has a result" test -n "$expected"
check "the written network has the same" [ "$(result net.onnx)" = "$expected" ]

# A network of a file, written again by a newer opset.
"$DPTRAIN" export --model net.onnx --checkpoint run --onnx again.onnx --opset 20 >out.txt 2>err.txt
check "a network of a file is written: $(cat err.txt)" test -s again.onnx
check "nothing is printed on stdout" test ! -s out.txt
check "it has the same result" [ "$(result again.onnx)" = "$expected" ]

# A failure leaves the old file.
cp net.onnx before.onnx
head -c 100 run/model.safetensors >cut.safetensors
refuse 1 "cut.safetensors" export --checkpoint cut.safetensors --model mlp --onnx net.onnx \
    --dataset "$data"
refuse 2 "has no tensor conv1.weight" export --checkpoint run --model lenet --onnx net.onnx \
    --dataset synthetic:28x28x1:10:64
check "the old file is whole" cmp net.onnx before.onnx
check "no temporary file is left" test -z "$(find . -name '.dptrain*')"
refuse 1 "cannot write .*none/net.onnx" export --checkpoint run --model mlp --onnx none/net.onnx

# The weights are not written over, under any name.
cp run/model.safetensors weights.safetensors
ln -s run/model.safetensors link.onnx
refuse 2 "is the file of the weights" export --checkpoint run --onnx run/model.safetensors
refuse 2 "is the file of the weights" export --checkpoint run --onnx link.onnx
check "the weights are whole" cmp run/model.safetensors weights.safetensors

refuse 2 "export needs weights" export --onnx net.onnx
refuse 2 "export needs a file to write: --onnx" export --checkpoint run
refuse 2 "opset" export --checkpoint run --onnx net.onnx --opset 12
refuse 2 "opset" export --checkpoint run --onnx net.onnx --opset 26
finish
