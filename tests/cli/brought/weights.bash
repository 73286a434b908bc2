# Files of weights.
set_of=(--dataset synthetic:28x28x1:5:24)
net=(--model lenet "${set_of[@]}" --batch-size 8 --devices cpu:threads=1)
plain=run/model.safetensors

# loss FILE: the loss and the accuracy of a file of weights, to nine digits; stderr in eval.err.
loss() {
    "$DPTRAIN" eval --model lenet "${set_of[@]}" --devices cpu:threads=1 --deterministic --checkpoint "$1" \
        2>eval.err | grep -o "loss [0-9.e+-]* accuracy [0-9.]*" || cat eval.err
}

# lists NUMBER PATTERN: stderr of the last refuse_listed has so many lines of this pattern.
lists() {
    check "$1 lines of /$2/ in: $(cat refuse.err)" test "$(grep -cE "$2" refuse.err)" -eq "$1"
}

train "${net[@]}" --max-steps 2 --lr 0.01 --checkpoint run
whole=$(loss $plain)
check "the weights themselves: $whole" grep -q "^loss [0-9.]* accuracy" <<<"$whole"
check "of which nothing is said: $(cat eval.err)" test -z "$(grep -E 'begin with|stores' eval.err)"

row "weights of nn.DataParallel or torch.compile" \
    "the prefix that all names share is left out, and told"

for prefix in module. _orig_mod. module._orig_mod. model.net.; do
    weights $plain brought.safetensors prefix=$prefix
    check "$prefix is left out: $(loss brought.safetensors)" test "$(loss brought.safetensors)" = "$whole"
    check "and told: $(cat eval.err)" grep -qF "brought.safetensors: all names begin with $prefix, which is left out" eval.err
done
train "${net[@]}" --load brought.safetensors --max-steps 1 --checkpoint again
check "training takes it too: $(cat train.err)" grep -qF "begin with model.net., which is left out" train.err
check "and writes the names of the model" \
    diff <(weights $plain | sort) <(weights again/model.safetensors | sort)
train "${net[@]}" --load brought.safetensors --max-steps 1 --quiet
check "--quiet says nothing: $(cat train.err)" test ! -s train.err
weights $plain brought.safetensors prefix=module. rename=module.fc2.bias:other.fc2.bias
refuse_listed 2 "has a tensor module.conv1.weight of 20x1x3x3 that model lenet does not have" \
    eval --model lenet "${set_of[@]}" --checkpoint brought.safetensors

row "weights in bfloat16, float16, float64" \
    "each is rounded once, told, and written as float32"

weights $plain brought.safetensors type=F64
check "F64 is rounded to the nearest: $(loss brought.safetensors)" test "$(loss brought.safetensors)" = "$whole"
check "and told: $(cat eval.err)" grep -qF "stores weights as F64; each is rounded to the nearest float32" eval.err
train "${net[@]}" --load brought.safetensors --max-steps 1 --lr 1e-9 --checkpoint again
check "and written as F32: $(weights again/model.safetensors | head -1)" \
    diff <(weights $plain | sort) <(weights again/model.safetensors | sort)
for type in F16 BF16; do
    weights $plain brought.safetensors type=$type
    check "$type: $(loss brought.safetensors)" grep -q "^loss" <<<"$(loss brought.safetensors)"
    check "$type is told: $(cat eval.err)" grep -qF "stores weights as $type; each becomes the float32 of its value" eval.err
done
weights $plain brought.safetensors type=F64 set=fc2.bias:2:1e300
refuse 1 "tensor fc2.bias has a value that is not finite: element 2 is infinite as float32" \
    eval --model lenet "${set_of[@]}" --checkpoint brought.safetensors

row "weights that are NaN or infinite" \
    "loading names the tensor and the element"

for value in nan inf -inf; do
    weights $plain brought.safetensors set=conv2.weight:7:$value
    words=NaN
    [ $value = nan ] || words=infinite
    for verb in "eval ${set_of[*]} --checkpoint" "train ${set_of[*]} --max-steps 1 --load"; do
        # shellcheck disable=SC2086
        refuse 1 "brought.safetensors: tensor conv2.weight has a value that is not finite: element 7 is $words" \
            ${verb%% *} --model lenet ${verb#* } brought.safetensors
    done
done

row "tensors too many, too few, of other shapes" \
    "lists of at most ten with the nearest names; --load-partial takes what fits"

others=(rename=fc2.weight:fc3.weight shape=conv1.bias:4x5 drop=conv2.bias)
for i in {1..12}; do others+=("add=extra.$i:3"); done
weights $plain brought.safetensors "${others[@]}"
refuse_listed 2 "has a tensor (fc3.weight|extra.1) of [0-9x]* that model lenet does not have" \
    train "${net[@]}" --max-steps 1 --load brought.safetensors
lists 1 "brought.safetensors has a tensor conv1.bias of 4x5, which is 20 in model lenet"
lists 1 "has no tensor conv2.bias of 50, which model lenet has"
lists 1 "has no tensor fc2.weight of 5x128, which model lenet has; nearest: fc3.weight of 5x128"
lists 1 "has a tensor fc3.weight of 5x128 that model lenet does not have; nearest: fc2.weight of 5x128$"
lists 11 "^dptrain: brought.safetensors has a tensor .* does not have" # ten, and the error itself
lists 1 "differs from model lenet in 3 more tensors"
train "${net[@]}" --max-steps 1 --load brought.safetensors --load-partial --checkpoint again
check "what fits is taken: $(cat train.err)" grep -q "brought.safetensors: 5 tensors of model lenet are taken, and 16 differences left" train.err
check "and the others are listed" grep -q "has no tensor fc2.weight of 5x128" train.err
# A tensor that fits has the values of the file, and one that does not begins anew.
weights $plain brought.safetensors set=conv1.weight:0:123 rename=fc2.weight:head.weight
train "${net[@]}" --seed 7 --max-steps 1 --lr 1e-9 --load brought.safetensors --load-partial --checkpoint again
check "the values are those of the file" python3 - <<'PYTHON'
import json, struct
def values(path, name):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    begin, end = json.loads(data[8:8 + n])[name]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 4}f", data[8 + n + begin:8 + n + end])
def distance(name):
    pairs = zip(values("again/model.safetensors", name), values("run/model.safetensors", name))
    return max(abs(a - b) for a, b in pairs)
assert abs(values("again/model.safetensors", "conv1.weight")[0] - 123) < 1e-4
assert distance("conv2.weight") < 1e-6
assert distance("fc2.weight") > 1e-3
PYTHON
weights $plain brought.safetensors prefix=a. rename=a.fc2.bias:b.fc2.bias
refuse_listed 2 "does not have" train "${net[@]}" --max-steps 1 --load brought.safetensors --load-partial
refuse 2 "--load-partial goes with --load" train "${net[@]}" --max-steps 1 --load-partial
refuse 2 "--load-partial and --lora" train "${net[@]}" --max-steps 1 --load-partial --load brought.safetensors --lora 4

# Batch-norm's counters have the prefix too, and count on.
deep=(--model resnet18 --dataset synthetic:8x8x3:5:8 --batch-size 8 --devices cpu:threads=1 --max-steps 1)
train "${deep[@]}" --checkpoint deep
weights deep/model.safetensors brought.safetensors prefix=module.
train "${deep[@]}" --load brought.safetensors --checkpoint deeper
check "a network with counters: $(cat train.err)" grep -qF "begin with module., which is left out" train.err
check "which have counted two batches" python3 - <<'PYTHON'
import json, struct
data = open("deeper/model.safetensors", "rb").read()
(n,) = struct.unpack("<Q", data[:8])
begin, end = json.loads(data[8:8 + n])["bn1.num_batches_tracked"]["data_offsets"]
assert struct.unpack("<q", data[8 + n + begin:8 + n + end]) == (2,)
PYTHON

row "model.safetensors.index.json with its files" \
    "read"

mkdir shards
weights $plain shards/model.safetensors.index.json prefix=module. type=F16 shards=3
check "the index: $(loss shards/model.safetensors.index.json)" grep -q ^loss <<<"$(loss shards/model.safetensors.index.json)"
check "the folder has the same" test "$(loss shards)" = "$(loss shards/model.safetensors.index.json)"
check "and both are told: $(cat eval.err)" test "$(grep -cE "begin with module.|stores weights as F16" eval.err)" -eq 2
rm shards/part-2-of-3.safetensors
refuse 1 "shards/part-2-of-3.safetensors" eval --model lenet "${set_of[@]}" --checkpoint shards

row "a .pth of torch.save" \
    "tensors are read, nothing is executed; others: the line of Python"

for kind in dict plain parameter; do
    pth $plain brought.pth $kind
    check "torch.save of a $kind: $(loss brought.pth)" test "$(loss brought.pth)" = "$whole"
done
weights $plain brought.safetensors prefix=module. type=F64
pth brought.safetensors brought.pth dict
check "with a prefix and doubles: $(loss brought.pth)" test "$(loss brought.pth)" = "$whole"
check "which are told: $(cat eval.err)" test "$(grep -cE "brought.pth: all names begin with module.|brought.pth stores weights as F64" eval.err)" -eq 2
train "${net[@]}" --load brought.pth --max-steps 1
convert="In Python: import torch, safetensors.torch as s; s.save_file\("
refuse_pth() {
    pth $plain brought.pth "$1"
    refuse 1 "brought.pth: a file of PyTorch's torch.save, .*$2.*$convert" eval --model lenet "${set_of[@]}" --checkpoint brought.pth
}
refuse_pth nested "its entry 'epoch' is no tensor"
refuse_pth module "it has a types.SimpleNamespace, and only tensors are read"
refuse_pth call "it has a posix.system, and only tensors are read"
check "nothing is executed" test ! -e executed
refuse_pth old "this one has the format from before PyTorch 1.6"
pth $plain brought.pth dict
cp brought.pth whole.pth
for part in 10 30 50 70 90 99; do
    head -c $(($(wc -c <whole.pth) * part / 100)) whole.pth >brought.pth
    refuse 1 "brought.pth: " eval --model lenet "${set_of[@]}" --checkpoint brought.pth
done
python3 - <<'PYTHON'
data = bytearray(open("whole.pth", "rb").read())
data[len(data) // 2] ^= 1
open("brought.pth", "wb").write(data)
PYTHON
refuse 1 "brought.pth: damaged: a checksum is wrong" eval --model lenet "${set_of[@]}" --checkpoint brought.pth
