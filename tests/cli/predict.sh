#!/usr/bin/env bash
# dptrain predict: pictures and IDX files, the classes that it prints, and what it refuses.
. "$SRC/tests/cli/kit.bash"
need_python

data=synthetic:8x8x1:4:400 pictures=$SRC/tests/fuzz/corpus
train --dataset "$data" --model mlp --epochs 3 --lr 0.02 --batch-size 50 --checkpoint run --quiet
common=(predict --dataset "$data" --model mlp --checkpoint run)

# Grey 8x8 pictures as PNG and the same as IDX, plain and gzipped.
python3 - <<'PYTHON'
import gzip, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, side, rows):
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) +
                   chunk(b"IEND", b""))
images = [[bytes((37 * i + 11 * y * (i + 1) + 5 * x * x) % 256 for x in range(8))
           for y in range(8)] for i in range(12)]
for i, rows in enumerate(images):
    png(f"{i}.png", 8, rows)
png("large.png", 9, [bytes(9)] * 9)
idx = struct.pack(">IIII", 0x803, 12, 8, 8) + b"".join(b"".join(rows) for rows in images)
open("images.idx", "wb").write(idx)
gzip.open("images.gz", "wb").write(idx)
open("large.idx", "wb").write(struct.pack(">IIII", 0x803, 1, 9, 9) + bytes(81))
open("cut.idx", "wb").write(idx[:-1])
open("cut.png", "wb").write(open("0.png", "rb").read()[:60])
PYTHON

for picture in 0.png "$pictures/jpeg/grey.jpg"; do
    if [[ $("$DPTRAIN" "${common[@]}" "$picture" 2>&1) == *"was built without"* ]]; then
        echo "skipped: dptrain was built without libpng or libjpeg"
        exit 77
    fi
done

# predict ARGUMENT...: a prediction that must succeed; output in predict.out.
predict() {
    checks=$((checks + 1))
    "$DPTRAIN" "${common[@]}" "$@" >predict.out 2>predict.err </dev/null && return
    fail "dptrain predict $*: exit status $?: $(cat predict.err)"
}

predict 0.png
check "one line of three classes" grep -qE \
    '^0\.png: class [0-3] [01]\.[0-9]{4}, class [0-3] [01]\.[0-9]{4}, class [0-3] [01]\.[0-9]{4}$' \
    predict.out
check "one line" test "$(wc -l <predict.out)" -eq 1
predict --top 1 0.png
check "--top 1" grep -qE '^0\.png: class [0-3] [01]\.[0-9]{4}$' predict.out
predict --top 9 {0..11}.png images.idx images.gz:3,0,5-7 images.idx:11
check "all classes, in falling order, whose sum is 1; the same from PNG and IDX" python3 - <<'PYTHON'
lines = [line.rstrip("\n").split(": ", 1) for line in open("predict.out")]
names = [name for name, _ in lines]
assert names == [f"{i}.png" for i in range(12)] + [f"images.idx:{i}" for i in range(12)] + \
    [f"images.gz:{i}" for i in (3, 0, 5, 6, 7)] + ["images.idx:11"], names
of = dict(lines)
for text in of.values():
    classes = [part.rsplit(" ", 1) for part in text.split(", ")]
    assert sorted(name for name, _ in classes) == [f"class {c}" for c in range(4)]
    values = [float(p) for _, p in classes]
    assert values == sorted(values, reverse=True) and abs(sum(values) - 1) < 3e-4, values
for i in range(12):
    assert of[f"{i}.png"] == of[f"images.idx:{i}"] == of.get(f"images.gz:{i}", of[f"{i}.png"])
assert len(set(of[f"{i}.png"] for i in range(12))) > 6  # the images matter
PYTHON
predict "$pictures/jpeg/grey.jpg" "$pictures/jpeg/colour.jpg" "$pictures/png/alpha.png" "$pictures/png/deep.png"
check "JPEG, colour, alpha, 16 bits" test "$(wc -l <predict.out)" -eq 4
predict --devices cpu,cpu 0.png
check "on two devices" test "$(wc -l <predict.out)" -eq 1

# Classes by name; over all the test data as many are right as eval says, normalised alike.
fashion=/usr/share/datasets/fashion-mnist
if [ -e $fashion/t10k-images-idx3-ubyte.gz ]; then
    train --model linear --max-steps 200 --lr 0.02 --normalize --quiet --checkpoint fashion
    common_fashion=(--model linear --checkpoint fashion --normalize)
    "$DPTRAIN" predict "${common_fashion[@]}" --top 1 $fashion/t10k-images-idx3-ubyte.gz >predict.out
    "$DPTRAIN" eval "${common_fashion[@]}" >eval.out
    check "predict agrees with eval: $(cat eval.out)" python3 - $fashion <<'PYTHON'
import gzip, re, sys
names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
         "Ankle boot"]
labels = gzip.open(f"{sys.argv[1]}/t10k-labels-idx1-ubyte.gz").read()[8:]
classes = [re.fullmatch(r".*:\d+: (.*) [01]\.\d{4}", line.rstrip("\n"))[1]
           for line in open("predict.out")]
assert len(classes) == len(labels) == 10000
hits = sum(name == names[label] for name, label in zip(classes, labels))
assert hits == int(re.search(r"(\d+) of 10000 right", open("eval.out").read())[1]) > 7000, hits
PYTHON
    for set in fashion-mnist mnist; do
        "$DPTRAIN" predict --model linear --checkpoint fashion --dataset $set --data $fashion \
            $fashion/t10k-images-idx3-ubyte.gz:0 >$set.out 2>$set.err
    done
    check "names of another data set" grep -q "warning: fashion/model.safetensors was trained on fashion-mnist, \
but the names of the classes are those of mnist: give --dataset fashion-mnist" mnist.err
    check "and of the same: $(cat fashion-mnist.err)" test "$(grep -c warning fashion-mnist.err)" -eq 0
fi

# Weights tell how the data were normalised: without the option it is done as in the training, with
# it it must be the same.  A file that does not tell it is taken as it is.
normalized=(--dataset "$data" --model linear --devices cpu:threads=1 --checkpoint normalized)
train "${normalized[@]}" --epochs 2 --lr 0.02 --normalize --quiet
train "${normalized[@]:0:6}" --epochs 2 --lr 0.02 --quiet --checkpoint plain
# evaluate ARGUMENT...: the loss on stdout; stderr in eval.err.
evaluate() { "$DPTRAIN" eval "$@" 2>eval.err | grep -o 'loss [0-9.]*'; }
asked=$(evaluate "${normalized[@]}" --normalize)
check "the option: nothing is said" test -n "$asked" -a ! -s eval.err
check "the same without the option" test "$(evaluate "${normalized[@]}")" = "$asked"
check "and one line says so: $(cat eval.err)" test "$(wc -l <eval.err)" -eq 1 -a \
    "$(grep -c "images are normalised as those that normalized/model.safetensors was trained on" eval.err)" -eq 1
"$DPTRAIN" predict "${normalized[@]}" {0..11}.png >own.out 2>own.err
"$DPTRAIN" predict "${normalized[@]}" --normalize {0..11}.png >asked.out
check "predict does it too: $(cat own.err)" cmp own.out asked.out
check "and says so" test "$(grep -c "images are normalised as" own.err)" -eq 1
refuse 2 "plain/model.safetensors comes from a training without --normalize: leave --normalize out" \
    eval "${normalized[@]:0:6}" --checkpoint plain --normalize
refuse 2 "training with mean [0-9.]* and .*--normalize would take .*leave --normalize out" eval \
    "${normalized[@]}" --dataset synthetic:8x8x1:4:90 --normalize
evaluate "${normalized[@]:0:6}" --checkpoint plain >plain.out
check "not normalised: nothing is said" test -s plain.out -a ! -s eval.err
python3 - <<'PYTHON'
import json
file = open("normalized/model.safetensors", "rb").read()
n = int.from_bytes(file[:8], "little")
header = json.loads(file[8:8 + n])
del header["__metadata__"]
text = json.dumps(header).encode()
open("silent.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + file[8 + n:])
PYTHON
check "a file that tells nothing, with the option" test \
    "$(evaluate "${normalized[@]:0:6}" --checkpoint silent.safetensors --normalize)" = "$asked"
evaluate "${normalized[@]:0:6}" --checkpoint silent.safetensors >silent.out
check "and without" test -s silent.out -a ! -s eval.err -a "$(cat silent.out)" != "$asked"

# Model and data set are those of the weights, where the command names none.
"$DPTRAIN" "${common[@]}" 0.png >named.out
"$DPTRAIN" predict --dataset "$data" --checkpoint run 0.png >told.out 2>told.err
check "the weights tell their model" cmp named.out told.out
check "which a line says: $(cat told.err)" \
    [ "$(cat told.err)" = "dptrain: model mlp, as run/model.safetensors says" ]
python3 - <<'PYTHON'
import os, struct
os.makedirs("own", exist_ok=True)
for part, n in ("train", 40), ("t10k", 20):
    labels = [i % 3 for i in range(n)]
    images = b"".join(bytes([90 * label + i % 7] * 30) for i, label in enumerate(labels))
    open(f"own/{part}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, n, 5, 6) + images)
    open(f"own/{part}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, n) + bytes(labels))
PYTHON
train --dataset idx --data own --model linear --batch-size 10 --epochs 3 --checkpoint own/run --quiet
check "and their data" "$DPTRAIN" eval --data own --checkpoint own/run >told.out 2>told.err
check "of which both are told: $(cat told.err)" \
    [ "$(cat told.err)" = "dptrain: model linear and data set idx, as own/run/model.safetensors says" ]
check "the result: $(cat told.out)" grep -q "of 20 right" told.out
refuse 2 "own/run/model.safetensors has .*it is of another model, linear \(--model\)" eval --dataset idx --data own \
    --checkpoint own/run --model mlp

# The weights are enough: of data of any kind, and with the names that the classes had.
gone() { env -u XDG_CACHE_HOME HOME="$PWD/nobody" DPTRAIN_DATA="$PWD/nothing" "$DPTRAIN" "$@"; }
rm -rf nothing wear wear.moved worn
mkdir nothing
python3 - <<'PYTHON'
import os, struct
os.makedirs("wear", exist_ok=True)
for part, n in ("train", 60), ("t10k", 20):
    labels = [i % 10 for i in range(n)]
    images = b"".join(bytes((25 * label + 3 * x + i) % 256 for x in range(64)) for i, label in enumerate(labels))
    open(f"wear/{part}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, n, 8, 8) + images)
    open(f"wear/{part}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, n) + bytes(labels))
PYTHON
train --data wear --model linear --normalize --validation 0.2 --batch-size 12 --epochs 2 --lr 0.05 \
    --checkpoint worn --quiet
for file in worn worn/best.safetensors worn/checkpoint-*8.safetensors; do
    "$DPTRAIN" predict --data wear --checkpoint "$file" {0..11}.png wear/t10k-images-idx3-ubyte:3,5 >with.out
    mkdir wear.moved
    mv wear/*labels* wear/train* wear.moved
    check "$file without the data" gone predict --checkpoint "$file" {0..11}.png \
        wear/t10k-images-idx3-ubyte:3,5 >without.out 2>without.err
    check "$file: the same: $(cat without.err)" cmp with.out without.out
    mv wear.moved/* wear
    rmdir wear.moved
done
check "names of classes: $(head -1 without.out)" grep -qE "(T-shirt/top|Ankle boot|Bag|Shirt) 0" without.out
check "of the data nothing is said: $(cat without.err)" [ "$(cat without.err)" = "\
dptrain: model linear, as $file says
dptrain: images are normalised as those that $file was trained on" ]
"$DPTRAIN" predict --dataset "$data" --model mlp --checkpoint run {0..11}.png >with.out
gone predict --checkpoint run {0..11}.png >without.out 2>without.err
check "synthetic data: $(cat without.err)" cmp with.out without.out
rm -rf own.moved
mv own own.moved
check "IDX files that are gone" gone predict --checkpoint own.moved/run own.moved/t10k-images-idx3-ubyte \
    >without.out 2>without.err
check "all images: $(cat without.err)" test "$(grep -c ': class [012] ' without.out)" -eq 20
checks=$((checks + 1))
gone eval --checkpoint own.moved/run >/dev/null 2>without.err && fail "eval needs data"

# altered FROM TO KEY=VALUE... -KEY...: the file with other metadata, and with a checksum that fits.
altered() {
    python3 - "$@" <<'PYTHON'
import json, sys, zlib
file = open(sys.argv[1], "rb").read()
n = int.from_bytes(file[:8], "little")
header = json.loads(file[8:8 + n])
told = header["__metadata__"]
for change in sys.argv[3:]:
    key, _, value = change.partition("=")
    if change[0] == "-":
        del told[key[1:]]
    else:
        told[key] = value
told["checksum"] = "0" * 16
text = json.dumps(header, separators=(",", ":")).encode()
whole = len(text).to_bytes(8, "little") + text + file[8 + n:]
seal = b"%08x%08x" % (zlib.crc32(whole), zlib.adler32(whole))
open(sys.argv[2], "wb").write(whole.replace(b"0" * 16, seal, 1))
PYTHON
}
altered own.moved/run/model.safetensors old.safetensors -height -width -channels
gone predict --checkpoint old.safetensors 0.png >without.out 2>without.err
check "an older file needs the data" test $? -eq 1 -a ! -s without.out
check "and says so: $(cat without.err)" grep -q \
    "old.safetensors does not tell the size of its images and its classes, .*missing: the data set idx is not on" without.err
mv own.moved own
"$DPTRAIN" predict --data own --checkpoint own/run own/t10k-images-idx3-ubyte >with.out 2>/dev/null
"$DPTRAIN" predict --data own --checkpoint old.safetensors own/t10k-images-idx3-ubyte >without.out 2>/dev/null
check "and takes them" test -s with.out
check "as ever" cmp with.out without.out

# lying PATTERN CHANGE...: run's weights, altered so, are refused as damaged.
lying() {
    local pattern=$1
    shift
    altered run/model.safetensors lying.safetensors "$@"
    refuse 1 "$pattern" predict --model mlp --checkpoint lying.safetensors 0.png
}
lying "its height, width, channels and classes are not whole numbers" height=-8
lying "its height, width, channels and classes are not whole numbers" height=99999999999999999999
lying "images of at most 16777216 values" height=4096 width=4096 channels=2
lying "its class_names are no list of 4 printable names" 'class_names=["a","b","c"]'
lying "its class_names are no list of 4 printable names" $'class_names=["a","b","c","\\u001b[2J"]'
lying "its mean and deviation are of 3 channels, and its images have 1" "mean=1 1 1" "deviation=1 1 1"
lying "the images and classes that the file names needs [0-9]{11}: the file is damaged" classes=16000000
lying "says that it is of this model, for images of this size: damaged" classes=3
altered run/model.safetensors lying.safetensors model=vgg11
refuse 1 "says that it is for 8x8x1 images and 4 classes, and model vgg11 cannot be built for them: .*use larger images" predict --model vgg11 \
    --checkpoint lying.safetensors 0.png
altered run/model.safetensors lying.safetensors model=resnet18 height=4096 width=4096
refuse 1 "model resnet18 cannot be built for them: .*4096x4096x64 is more than" predict --model resnet18 \
    --checkpoint lying.safetensors 0.png
refuse 2 "it is of another model, mlp \(--model\)" predict --model linear --checkpoint run 0.png
refuse 2 "fewer than model resnet50 needs: it is of another model, mlp \(--model\)" predict --model resnet50 \
    --checkpoint run 0.png

refuse 2 "predict needs weights" predict 0.png
refuse 2 "predict needs images" "${common[@]}"
refuse 2 "'0' is not a whole number from 1" "${common[@]}" --top 0 0.png
refuse 1 "missing.png.*No such file" "${common[@]}" 0.png missing.png
refuse 1 "large.png: the image is 9x9 .*but must be 8x8; scale or cut it first" "${common[@]}" 0.png large.png
refuse 2 "large.idx: the images are 9x9x1 .*model takes 8x8x1" "${common[@]}" large.idx
refuse 1 "cut.png: damaged PNG" "${common[@]}" cut.png
refuse 1 "cut.idx" "${common[@]}" cut.idx
refuse 1 "truncated.jpg: damaged JPEG" "${common[@]}" "$pictures/jpeg/truncated.jpg"
refuse 1 "text: no picture that is read, and neither IDX nor npz" "${common[@]}" "$pictures/webp/text"
refuse 1 "cannot read /dev/null: it is not a file" "${common[@]}" /dev/null

# Lines of JSON and CSV, and whole folders.
rm -rf tree lines.*
mkdir -p tree/b tree/a/deep tree/.hidden tree/empty
cp 0.png tree/b/0.png
cp 1.png tree/a/deep/1.png
cp 2.png tree/a/plain # a picture by its first bytes
cp 3.png 'tree/a-3, "three".png'
cp 4.png $'tree/b/caf\xe9.png' # no UTF-8
cp 5.png $'tree/b/\xc3\xa9\n.png'
cp 6.png tree/.hidden/6.png
echo no picture >tree/notes.txt
predict --top 2 {3,1,2,0,4,5}.png
mv predict.out singly.out
predict --top 2 tree
check "files that are no pictures: $(cat predict.err)" grep -qx "dptrain: note: tree: passed over 1 file that is no picture" \
    predict.err
for format in text jsonl csv; do
    predict --top 2 --format $format tree
    cp predict.out "lines.$format"
    predict --top 2 --format $format tree --output lines.out --devices cpu:threads=1,cpu:threads=1
    check "$format: nothing on stdout" test ! -s predict.out
    check "$format: the same in a file, on other devices" cmp lines.out "lines.$format"
done
check "what is written" python3 - <<'PYTHON'
import csv, json
names = [b'a-3, "three".png', b"a/deep/1.png", b"a/plain", b"b/0.png", b"b/caf\xe9.png", b"b/\xc3\xa9\n.png"]
assert names == sorted(names)
text = open("lines.text", "rb").read()
assert all(name + b": class " in text for name in names)
singly = [line.split(": ", 1)[1] for line in open("singly.out")]
rows = [json.loads(line) for line in open("lines.jsonl", encoding="utf-8")]
assert [row["image"] for row in rows] == [name.decode("utf-8", "replace") for name in names]
assert [bytes.fromhex(row["image_bytes"]) for row in rows if "image_bytes" in row] == names[4:5]
tell = lambda row: ", ".join(f"class {c['class']} {c['probability']:.4f}" for c in row["classes"]) + "\n"
assert [tell(row) for row in rows] == singly, (rows, singly)
raw = open("lines.csv", "rb").read()
assert raw.count(b"\r\n") == 7 and b'"a-3, ""three"".png",' in raw and b'"b/\xc3\xa9\n.png",' in raw
table = list(csv.DictReader(open("lines.csv", encoding="latin-1", newline="")))
assert [row["image"].encode("latin-1") for row in table] == names
for row, told in zip(table, rows):
    for i, c in enumerate(told["classes"], 1):
        assert int(row[f"class{i}"]) == c["class"] and float(row[f"probability{i}"]) == c["probability"]
PYTHON
predict --format csv --top 1 images.idx:3 tree/b 0.png
check "names of IDX images, folders and files" test "$(cut -d, -f1 predict.out | tr -d '\r' | head -3 | tr '\n' ' ')" = \
    "image images.idx:3 0.png "
check "CSV with names of classes" grep -q "^image,class1,name1,probability1" <("$DPTRAIN" predict --data wear \
    --checkpoint worn --format csv --top 1 0.png)
check "JSON with names of classes" grep -q '"classes":\[{"class":[0-9],"name":"[A-Z][^"]*","probability":0\.[0-9]*}\]}$' \
    <("$DPTRAIN" predict --data wear --checkpoint worn --format jsonl --top 1 0.png)
cp cut.png tree/b/a.png
refuse_listed 1 "tree/b/a.png: damaged PNG" "${common[@]}" tree
predict --top 2 --skip-unreadable --format jsonl tree cut.png
check "left out" cmp predict.out lines.jsonl
check "and said: $(cat predict.err)" grep -qx "dptrain: note: 2 pictures could not be read and are left out" predict.err
refuse_listed 1 "no image could be read" "${common[@]}" --skip-unreadable cut.png
refuse 1 "there is no picture in tree/empty or below it" "${common[@]}" tree/empty
refuse 2 "--output: 0.png is one of the images" "${common[@]}" 0.png --output 0.png
refuse 2 "--format: unknown value 'xml'" "${common[@]}" 0.png --format xml
ln -s .. tree/empty/up
refuse 1 "folders are nested more than 64 deep; does a link lead back" "${common[@]}" tree/empty
# A reader that ends, and a disk that is full, leave complete lines.
rm tree/empty/up
for ((i = 0; i < 400; i++)); do ln -s "$PWD/0.png" "tree/empty/$i.png"; done
(
    ulimit -f 4
    trap '' XFSZ
    "$DPTRAIN" "${common[@]}" --format jsonl --output full.jsonl tree/empty 2>full.err
)
check "a full disk: status $?" test $? -eq 1 -a -s full.jsonl
check "is told: $(cat full.err)" grep -q "cannot write full.jsonl: " full.err
rm -rf many
check "an interruption leaves whole lines" python3 - "$DPTRAIN" "${common[@]}" <<'PYTHON'
import json, os, signal, subprocess, sys, time
os.mkdir("many")
for i in range(9000):
    os.symlink(os.path.abspath("0.png"), f"many/{i:05}.png")
process = subprocess.Popen(sys.argv[1:] + ["many", "--format=jsonl", "--output=cut.jsonl"], stderr=subprocess.DEVNULL)
while process.poll() is None and not (os.path.exists("cut.jsonl") and os.path.getsize("cut.jsonl")):
    time.sleep(0.001)
process.send_signal(signal.SIGTERM)
assert process.wait(timeout=120) in (0, -signal.SIGTERM), process.returncode
text = open("cut.jsonl").read()
names = [json.loads(line)["image"] for line in text.splitlines()]
assert text.endswith("\n") and names == [f"{i:05}.png" for i in range(len(names))] and names, len(names)
PYTHON
rm -rf many
check "after whole lines" python3 -c 'import json; n = [json.loads(line) for line in open("full.jsonl")]; assert 5 < len(n) < 400
assert open("full.jsonl").read()[-1] == "\n"'
refuse 2 "no image 12; the file has images 0 to 11" "${common[@]}" images.idx:3,12
for list in "" , 1, ,1 1,,2 x 1-x 3-2 -1 1-2-3 99999999999999999999999; do
    refuse 2 "indices such as 0,5,10-19" "${common[@]}" "images.idx:$list"
done
refuse 2 "indices are for IDX and npz files only" "${common[@]}" 0.png:1
refuse 2 "run/model.safetensors has .*it is of another model, mlp \(--model\)" predict --dataset "$data" --model linear \
    --checkpoint run 0.png
finish
