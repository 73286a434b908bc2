#!/usr/bin/env bash
# What people bring, as it is: files of weights of other programs.  Each part says what is brought and what must
# happen.  The files are made here.
. "$SRC/tests/cli/kit.bash"
need_python
weights() { python3 "$SRC/tests/cli/brought_weights.py" "$@"; }

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

# ---- Weights: a prefix that all names share ----------------------------------------------------------

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

# ---- Weights: other types ----------------------------------------------------------------------------

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

# ---- Weights: not finite -----------------------------------------------------------------------------

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

# ---- Weights: tensors too many, too few, of other shapes ---------------------------------------------

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

# ---- Weights: several files with an index ------------------------------------------------------------

mkdir shards
weights $plain shards/model.safetensors.index.json prefix=module. type=F16 shards=3
check "the index: $(loss shards/model.safetensors.index.json)" grep -q ^loss <<<"$(loss shards/model.safetensors.index.json)"
check "the folder has the same" test "$(loss shards)" = "$(loss shards/model.safetensors.index.json)"
check "and both are told: $(cat eval.err)" test "$(grep -cE "begin with module.|stores weights as F16" eval.err)" -eq 2
rm shards/part-2-of-3.safetensors
refuse 1 "shards/part-2-of-3.safetensors" eval --model lenet "${set_of[@]}" --checkpoint shards


# ---- Weights: files of torch.save --------------------------------------------------------------------

pth() { python3 "$SRC/tests/cli/brought_pth.py" "$@"; }
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

# ---- Predictions of outputs that are not finite ------------------------------------------------------

# Weights that are finite, and whose sums are not.
pictures=(--dataset folder:8x8 --data photos)
small=("${pictures[@]}" --model linear --devices cpu:threads=1)
python3 "$SRC/tests/cli/brought_pictures.py" photos
train "${small[@]}" --max-steps 2 --checkpoint small
weights small/model.safetensors huge.safetensors set=fc.weight:0:3e38 set=fc.weight:1:3e38 set=fc.weight:2:3e38
bright=photos/test/red/0.png
refuse 1 "$bright: the outputs of the network are not finite, and tell no class" \
    predict "${small[@]}" --checkpoint huge.safetensors $bright
refuse 1 "photos/test/red/0.png: neither the outputs of the network nor the loss are finite" \
    eval "${small[@]}" --checkpoint huge.safetensors
"$DPTRAIN" predict "${small[@]}" --checkpoint huge.safetensors photos/test/black.ppm $bright >both.out 2>both.err
check "exit status 1" test $? -eq 1
check "an image whose outputs are finite is printed before: $(cat both.out)" \
    test "$(grep -c '^photos/test/black.ppm: ' both.out)-$(wc -l <both.out)" = 1-1
check "and nothing is nan: $(cat both.out both.err)" test -z "$(grep -i '[ :]nan' both.out)"

# ---- A CPU quota -------------------------------------------------------------------------------------

# The tree of control groups is a folder of this test; a process of several cores gets one of them.
groups=$PWD/groups
mkdir -p "$groups"/{half,many,cpu/job,cpuset/job}
echo "50000 100000" >"$groups/half/cpu.max"
echo "99900000 100000" >"$groups/many/cpu.max"
echo 100000 >"$groups/cpu/job/cpu.cfs_quota_us"
echo 100000 >"$groups/cpu/job/cpu.cfs_period_us"
echo 0 >"$groups/cpuset/job/cpuset.effective_cpus"
cores=$(nproc)
# threads_of GROUPS: what the header says of the device.
threads_of() {
    printf '%b' "$1" >"$groups/self"
    DPTRAIN_TEST_CONTROL_GROUPS=$groups "$DPTRAIN" train --dataset synthetic:8x8x1:3:16 --model linear \
        --devices cpu --max-steps 1 2>&1 | grep "^devices"
}
if [ "$cores" -gt 1 ]; then
    for group in "0::/half\n" "4:cpuacct,cpu:/job\n" "3:cpuset:/job\n"; do
        told=$(threads_of "$group")
        check "one thread of $group: $told" grep -q ", 1 thread (.*not bound: its control group grants 1 of $cores cores" <<<"$told"
        check "devices says so too" grep -qE "^cpu .* 1 .*GiB" \
            <(DPTRAIN_TEST_CONTROL_GROUPS=$groups "$DPTRAIN" devices --no-measure 2>&1)
    done
fi
told=$(threads_of "0::/many\n")
check "more than there is limits nothing: $told" grep -q "bound to cores" <<<"$told"
told=$(threads_of "0::/nowhere\n")
check "and neither does no quota: $told" grep -q "bound to cores" <<<"$told"
printf '0::/half\n' >"$groups/self"
check "threads that are asked for are taken" grep -q ", 2 threads" <(DPTRAIN_TEST_CONTROL_GROUPS=$groups \
    "$DPTRAIN" train --dataset synthetic:8x8x1:3:16 --model linear --devices cpu:threads=2 --max-steps 1 2>&1)

# ---- Files beside pictures ---------------------------------------------------------------------------

for name in Thumbs.db desktop.ini notes.txt; do echo "no picture" >photos/train/red/$name; done
cp photos/train/red/0.png photos/train/red/without-a-name
train "${small[@]}" --max-steps 2
check "three files are passed over: $(cat train.err)" \
    grep -qx "dptrain: photos/train: 3 files are passed over, no pictures by name and content" train.err
check "a picture counts by its content: $(cat train.out)" grep -q "folder:8x8, 13 + 4 images" train.out
"$DPTRAIN" data "${pictures[@]}" >data.out 2>data.err
check "dptrain data has no errors: $(cat data.err)" test $? -eq 0
echo "no picture" >photos/train/red/broken.jpg
head -c 60 photos/train/blue/1.png >photos/train/blue/cut.png
refuse_listed 1 "photos/train/(red/broken.jpg: neither PNG|blue/cut.png: damaged PNG)" train "${small[@]}" --max-steps 2
train "${small[@]}" --max-steps 2 --skip-unreadable
check "--skip-unreadable leaves them out: $(cat train.err)" \
    grep -q "photos/train: 2 pictures that cannot be read are left out; dptrain data names them" train.err
check "and takes the others: $(cat train.out)" grep -q "folder:8x8, 13 + 4 images" train.out
train "${pictures[@]/folder:8x8/folder:8x8:stream}" --model linear --devices cpu:threads=1 --max-steps 2 --skip-unreadable
check "so too while training reads: $(cat train.out)" grep -q "folder:8x8, 13 + 4 images" train.out
rm photos/train/red/broken.jpg photos/train/blue/cut.png
refuse 2 "are for pictures in folders" train "${net[@]}" --max-steps 1 --skip-unreadable

# ---- The orientation of a camera ---------------------------------------------------------------------

# Pictures whose red half is at the left, noted as turned: the network sees it at another side.
python3 "$SRC/tests/cli/brought_pictures.py" turned 6
train --dataset folder:8x8 --data turned --model linear --devices cpu:threads=1 --lr 0.05 --epochs 20 --checkpoint turned-run
train --dataset folder:8x8 --data turned --model linear --devices cpu:threads=1 --lr 0.05 --epochs 20 --checkpoint unturned-run --no-orientation
check "both are other pictures" test "$(cksum <turned-run/model.safetensors)" != "$(cksum <unturned-run/model.safetensors)"
# score RUN OPTION...: what is predicted for a picture that says that it lies, and for the same turned by hand.
class_of() {
    local run=$1
    shift
    "$DPTRAIN" predict --checkpoint "$run" --devices cpu:threads=1 "$@" 2>predict.err | sed 's/^[^:]*: //'
}
check "predict turns pictures" test "$(class_of turned-run turned/noted.png)" = "$(class_of turned-run turned/by-hand.png)"
check "--no-orientation does not" test "$(class_of turned-run --no-orientation turned/noted.png)" = "$(class_of turned-run turned/plain.png)"
check "and neither do weights that were trained so" \
    test "$(class_of unturned-run turned/noted.png)" = "$(class_of unturned-run turned/plain.png)"
refuse 2 "of a training with another dataset|another dataset" train --dataset folder:8x8 --data turned --model linear \
    --devices cpu:threads=1 --lr 0.05 --epochs 30 --checkpoint unturned-run --resume --quiet

# ---- More formats, and broken files ------------------------------------------------------------------

mkdir -p formats/train/{one,two} formats/test/one
for format in bmp gif tiff pnm webp png jpeg; do
    for file in "$SRC/tests/fuzz/corpus/$format"/*.*; do
        case $file in *truncated* | *huge*) continue ;; esac
        cp "$file" "formats/train/one/$format-${file##*/}"
    done
done
cp formats/train/one/png-colour.png formats/train/two
cp formats/train/one/png-colour.png formats/test/one
"$DPTRAIN" data --dataset folder:8x8 --data formats >data.out 2>data.err
if grep -q "was built without" data.err; then
    check "what has no library says which: $(cat data.err)" test -z "$(grep -vE "was built without|cannot be read" data.err)"
else
    check "all are read: $(cat data.err)" test ! -s data.err
fi
rm -rf formats/train/one
mkdir formats/train/one
n=$(python3 "$SRC/tests/cli/brought_pictures.py" broken "$SRC/tests/fuzz/corpus" formats/train/one)
check "there are at least 60 for each format: $n" test "$n" -ge 420
(
    [ -n "${ASAN_OPTIONS:-}${DPTRAIN_SANITIZED:-}" ] || ! "$DPTRAIN" --version >/dev/null || ulimit -v 4194304
    timeout 120 "$DPTRAIN" data --dataset folder:8x8 --data formats
) >data.out 2>data.err
check "which end in good order" test $? -eq 1
check "which end in good order: $(tail -1 data.err)" grep -q "images cannot be read" data.err
refused=$(grep -cE '^dptrain: formats/train/one/[a-z]*-(cut-[0-8]|magic|text|empty)\.[a-z]*: ' data.err)
check "with a line for each that no reader can take for a picture: $refused" test "$refused" -eq $((7 * 12))
check "and no line of another kind: $(grep -v '^dptrain: ' data.err)" test -z "$(grep -v '^dptrain: ' data.err)"

finish
