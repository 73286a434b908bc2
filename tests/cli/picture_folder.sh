#!/usr/bin/env bash
# A folder of pictures: trained on, resumed, evaluated, predicted by the names of its classes, and what is
# refused.
. "$SRC/tests/cli/kit.bash"
need_python

# Pictures of many sizes in three folders: of one colour, but for noise.
rm -rf photos run whole devices processes ./*.png ./*.jsonl
python3 - <<'PYTHON'
import os, random, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, width, height, colour):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((200 if k == colour else 40) + random.randrange(50)
                                  for x in range(width) for k in range(3)) for y in range(height))
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
random.seed(1)
for part, n in ("train", 20), ("test", 10):
    for colour, name in enumerate(("Ant", "bee", "cow, brown")):
        for i in range(n):
            png(f"photos/{part}/{name}/{i}.png", random.randrange(5, 60), random.randrange(5, 60), colour)
for colour in range(3):
    png(f"new-{colour}.png", 33 + colour, 21, colour)
PYTHON

data=(--dataset folder:16x12 --data photos)
common=("${data[@]}" --model linear --lr 0.001 --batch-size 12 --normalize --validation 0.2
    --devices cpu:threads=1 --quiet)
if [[ $("$DPTRAIN" train "${data[@]}" --max-steps 1 2>&1) == *"was built without"* ]]; then
    echo "skipped: dptrain was built without libpng"
    exit 77
fi

# ---- Training, and going on with it ------------------------------------------------------------------

train "${common[@]}" --epochs 6 --checkpoint whole --log whole.jsonl
train "${common[@]}" --epochs 3 --checkpoint run
train "${common[@]}" --dataset folder:16x12x3 --epochs 6 --checkpoint run --resume
check "resumed, by another spelling, to the same weights" cmp whole/model.safetensors run/model.safetensors
check "the log has the name" grep -q '"dataset":"folder:16x12"' whole.jsonl
train "${common[@]}" --max-steps 3 --split replay:whole.jsonl
train "${data[@]}" --model linear --max-steps 2
check "a header: $(head -2 train.out)" grep -qF \
    "folder:16x12, 60 + 30 images of 16x12x3, 3 classes (photos)" train.out
train --dataset folder:16x12x1 --data photos --model linear --max-steps 2
check "grey" grep -qF "folder:16x12x1, 60 + 30 images of 16x12x1" train.out
DPTRAIN_DATA=photos train "${common[@]:0:2}" --model linear --max-steps 2

# ---- Read as they are needed -------------------------------------------------------------------------

stream=(--dataset folder:16x12:stream --data photos)
rm -rf streamed window windows cut stream.jsonl
train "${common[@]}" "${stream[@]}" --epochs 3 --checkpoint streamed --log stream.jsonl
train "${common[@]}" --epochs 6 --checkpoint streamed --resume
check "begun by reading and resumed in memory, to the same weights" \
    cmp whole/model.safetensors streamed/model.safetensors
check "the log has the same name" grep -q '"dataset":"folder:16x12"' stream.jsonl
train --model linear --max-steps 2 "${stream[@]}"
check "a header that says so" grep -q "^ *images are read as they are needed$" train.out
check "and nothing of memory: $(grep memory train.out)" test -z "$(grep '^memory' train.out)"
# 60 and 30 images of 576 bytes.
DPTRAIN_DATA_MEMORY=34560 train --model linear --max-steps 2 "${data[@]}"
check "what fits is in memory" test -z "$(grep 'are read' train.out)"
DPTRAIN_DATA_MEMORY=17279 train --model linear --max-steps 2 "${data[@]}"
check "both parts" grep -q "^ *images are read" train.out
DPTRAIN_DATA_MEMORY=34559 train --model linear --max-steps 2 "${data[@]}"
check "the larger part alone" grep -q "^ *training images are read as they are needed$" train.out
DPTRAIN_DATA_MEMORY=lots refuse 2 "DPTRAIN_DATA_MEMORY is \"lots\": give the memory" train --max-steps 1 "${data[@]}"
"$DPTRAIN" eval --checkpoint streamed --data photos >eval.memory
DPTRAIN_DATA_MEMORY=0 "$DPTRAIN" eval --checkpoint streamed --data photos >eval.read
check "evaluated alike" diff <(grep -o "loss.*accuracy [0-9.]*" eval.memory) <(grep -o "loss.*accuracy [0-9.]*" eval.read)

crops=("${common[@]}" "${stream[@]}" --augment resized-crop:0.3,flip)
train "${crops[@]}" --epochs 4 --checkpoint window
train "${crops[@]}" --epochs 2 --checkpoint windows
train "${crops[@]}" --epochs 4 --checkpoint windows --resume
check "crops of the same windows after resuming" cmp window/model.safetensors windows/model.safetensors
check "which are others than the middle" test "$(cksum <window/model.safetensors)" != "$(cksum <whole/model.safetensors)"
refuse 2 "with another augment .*resized crop 0.3" train "${common[@]}" "${stream[@]}" --epochs 5 --checkpoint windows --resume
refuse 2 "from pictures in folders that are read as they are" train "${common[@]}" --augment resized-crop --max-steps 1
refuse 2 "resized-crop:2 is not the least part" train "${crops[@]}" --augment resized-crop:2

# A picture that is damaged while training goes on ends it, with a checkpoint of what was before.
head -c 60 photos/train/bee/3.png >damaged.png
cp photos/train/bee/3.png whole.png
"$DPTRAIN" train "${common[@]}" "${stream[@]}" --epochs 1000000 --checkpoint cut --log cut.jsonl >cut.out 2>cut.err &
training=$!
until grep -q '"event":"epoch"' cut.jsonl 2>/dev/null || ! kill -0 $training; do sleep 0.05; done
mv damaged.png photos/train/bee/3.png
wait $training
check "exit status 1" test $? -eq 1
check "which says why: $(cat cut.err)" grep -q "^dptrain: photos/train/bee/3.png: damaged PNG" cut.err
mv whole.png photos/train/bee/3.png
steps=$(grep -c '"event":"step"' cut.jsonl)
train "${common[@]}" "${stream[@]}" --max-steps $((steps + 2)) --checkpoint cut --log cut.jsonl --resume
check "resumed behind step $steps" grep -q "\"event\":\"resume\".*\"step\":$steps," cut.jsonl

mv photos/train/bee/7.png .
cp photos/train/bee/8.png photos/train/bee/7.png
refuse 2 "of a training with another (normalize|dataset)" train "${common[@]}" --epochs 7 --checkpoint run --resume
mv 7.png photos/train/bee

# ---- Evaluating --------------------------------------------------------------------------------------

"$DPTRAIN" eval --checkpoint run --data photos >eval.out 2>eval.err
check "eval takes the set from the weights: $(cat eval.out eval.err)" grep -q "30 of 30 right" eval.out
check "and says so" grep -qF "model linear and data set folder:16x12, as run/model.safetensors says" eval.err
mv photos/test photos/val
"$DPTRAIN" eval --checkpoint run --data photos >val.out 2>/dev/null
check "val is as good as test: $(cat val.out)" grep -q "30 of 30 right" val.out
mv photos/val photos/test
mv photos/train photos/gone
refuse 1 "photos has no folder train: .*say which classes there are" eval "${data[@]}" --model linear --checkpoint run
mkdir -p photos/train/{Ant,bee,"cow, brown"}
"$DPTRAIN" eval --checkpoint run --data photos >names.out 2>/dev/null
check "the names of the classes are enough: $(cat names.out)" grep -q "30 of 30 right" names.out
mv photos/train/bee photos/train/bug
mv photos/test/bee photos/test/bug
refuse 2 "run/model.safetensors was trained with bee as class 1, which is bug in photos" eval "${data[@]}" \
    --model linear --checkpoint run
refuse 2 "trained with bee as class 1, which is bug" predict "${data[@]}" --model linear --checkpoint run new-0.png
mv photos/test/bug photos/test/bee
rm -r photos/train
mv photos/gone photos/train

# ---- Predicting --------------------------------------------------------------------------------------

"$DPTRAIN" predict "${data[@]}" --checkpoint run --top 1 new-{0,1,2}.png >with.out 2>/dev/null
mv photos away
"$DPTRAIN" predict --checkpoint run --top 1 new-{0,1,2}.png >without.out 2>without.err
mv away photos
check "the data may be gone: $(cat without.err)" cmp with.out without.out
check "of another size, by name: $(cat without.out)" test "$(sed 's/ [01]\.[0-9]*$//' without.out)" = \
    $'new-0.png: Ant\nnew-1.png: bee\nnew-2.png: cow, brown'
if "$DPTRAIN" predict --checkpoint run "$SRC/tests/fuzz/corpus/jpeg/colour.jpg" >jpeg.out 2>jpeg.err; then
    check "JPEG" test "$(wc -l <jpeg.out)" -eq 1
else
    check "JPEG: $(cat jpeg.err)" grep -q "was built without libjpeg" jpeg.err
fi

# ---- Several processes -------------------------------------------------------------------------------

if (need_mpi) >/dev/null 2>&1; then
    need_mpi
    both=("${data[@]}" --model linear --lr 0.001 --batch-size 12 --epochs 2 --split equal --quiet)
    train "${both[@]}" --devices cpu:threads=1,cpu:threads=1 --checkpoint devices
    mpi 100 -n 2 "$DPTRAIN" "${both[@]}" --devices cpu:threads=1 --checkpoint processes
    check "two processes: $(cat mpi.err)" test "$status" -eq 0
    check "each reads the same" cmp devices/model.safetensors processes/model.safetensors
    # The partner of a process's last sample is read too, though it is of another process.
    both+=("${stream[@]}" --augment mixup,cutmix)
    rm -rf devices processes
    train "${both[@]}" --dataset folder:16x12 --devices cpu:threads=1,cpu:threads=1 --checkpoint devices
    mpi 100 -n 2 "$DPTRAIN" "${both[@]}" --devices cpu:threads=1 --checkpoint processes
    check "two processes: $(cat mpi.err)" test "$status" -eq 0
    check "each reads its partners" cmp devices/model.safetensors processes/model.safetensors
fi

# ---- What is refused ---------------------------------------------------------------------------------

small=(train --model linear --max-steps 1 --quiet)
refuse 2 "folder:16: write folder:HxW, as in folder:64x64" "${small[@]}" --dataset folder:16 --data photos
refuse 1 "cannot look for data in nowhere" "${small[@]}" --dataset folder:16x16 --data nowhere
refuse 1 "data set folder is not on this machine: pass --data DIR with pictures in DIR/train/CLASS" \
    "${small[@]}" --dataset folder:16x16
printf 'no picture' >$'photos/train/bee/\e[2Jx\n.png'
refuse 1 "photos/train/bee/.\[2Jx..png: neither PNG, JPEG" "${small[@]}" "${data[@]}"
rm photos/train/bee/*x*
head -c 100 photos/test/bee/0.png >photos/test/bee/cut.png
refuse 1 "photos/test/bee/cut.png: damaged PNG" "${small[@]}" "${data[@]}"
rm photos/test/bee/cut.png
mkdir photos/train/cat
refuse 1 "photos/train/cat has no pictures; put some there" "${small[@]}" "${data[@]}"
rmdir photos/train/cat
mkdir photos/test/dog
printf 'no picture' >photos/train/Ant/last # decoded later
refuse 1 "photos/test/dog: photos/train has no such folder" "${small[@]}" "${data[@]}"
rm -r photos/test/dog photos/train/Ant/last
mkdir $'photos/train/\e[2J'
refuse 1 "must be printable UTF-8; rename it" "${small[@]}" "${data[@]}"
rmdir photos/train/*2J
mkdir photos/train/bee/more
refuse 1 "photos/train/bee/more is a folder in the folder of a class" "${small[@]}" "${data[@]}"
rmdir photos/train/bee/more
train "${common[@]}" --max-steps 1
finish
