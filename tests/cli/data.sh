#!/usr/bin/env bash
# dptrain data: classes, means and deviations, and all the pictures that cannot be read.
. "$SRC/tests/cli/kit.bash"
need_python

rm -rf pics ./*.out ./*.err
python3 - <<'PYTHON'
import os, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, value):
    header = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    rows = (b"\0" + bytes([value, value])) * 2
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
# More than are read at once: half of them black, half white.
for i in range(700):
    png(f"pics/train/a/{i:03}.png", 0)
    png(f"pics/train/größe/{i:03}.png", 255)
for i in range(3):
    png(f"pics/test/a/{i}.png", 51)
PYTHON

set=(--dataset folder:2x2x1 --data pics)
if [[ $("$DPTRAIN" data "${set[@]}" 2>&1) == *"was built without"* ]]; then
    echo "skipped: dptrain was built without libpng"
    exit 77
fi

# look CODE: what it prints is in look.out and look.err.
look() {
    local got
    checks=$((checks + 1))
    "$DPTRAIN" data "${@:2}" >look.out 2>look.err </dev/null
    got=$?
    [ "$got" -eq "$1" ] || fail "dptrain data ${*:2}: exit status $got, not $1: $(cat look.err)"
}

look 0 "${set[@]}"
check "what there is: $(cat look.out)" diff look.out - <<'TABLE'
folder:2x2x1, images of 2x2x1, 2 classes (pics)

PART          IMAGES  UNREADABLE         MiB  MEAN    DEVIATION
training        1400           0         0.0  0.5000  0.5000
test               3           0         0.0  0.2000  0.0000

CLASS    TRAINING        TEST
a             700           3
größe         700           0
TABLE
check "no word more: $(cat look.err)" test ! -s look.err

# The first and the last, and around 256, beside each other and not; nothing but black is left of 'größe'.
damaged=(a/000 a/254 a/255 a/256 a/257 a/511 a/699 größe/000 größe/699)
for name in "${damaged[@]}"; do
    head -c 40 pics/train/"$name".png >short
    mv short pics/train/"$name".png
done
look 1 "${set[@]}"
check "each is told, in order: $(cat look.err)" diff <(sed -n 's/^dptrain: pics\/train\/\(.*\)\.png: .*/\1/p' look.err) \
    <(printf '%s\n' "${damaged[@]}")
check "and how many: $(tail -n 1 look.err)" grep -q "^dptrain: 9 of 1403 images cannot be read: " look.err
check "no other lines" test "$(wc -l <look.err)" -eq 10
check "of the others: $(cat look.out)" grep -qE "^training +1400 +9 +0\.0 +0\.5018 +0\.5000$" look.out
check "they are counted all the same" grep -qE "^größe +700 +0$" look.out
# Read as they are needed, or not.
DPTRAIN_DATA_MEMORY=0 look 1 --dataset folder:2x2x1:stream --data pics
check "9 again" grep -q "^dptrain: 9 of 1403" look.err
refuse 1 "pics/train/a/000.png: damaged PNG" train "${set[@]}" --model linear --max-steps 1

# A link that leads nowhere is a picture that cannot be read, and ends nothing.
ln -s nowhere pics/train/a/100x.png
ln -s loop.png pics/train/a/loop.png
look 1 "${set[@]}"
check "both are told: $(grep -c "a/100x.png: \|a/loop.png: " look.err)" grep -q "^dptrain: 11 of 1405" look.err
rm pics/train/a/{100x,loop}.png

# Nothing can be read.
for name in 0 1 2; do echo no picture >pics/test/a/$name.png; done
look 1 "${set[@]}"
check "no mean: $(cat look.out)" grep -qE "^test +3 +3 +0\.0 +- +-$" look.out

# Other sets, and what is none.
look 0 --dataset synthetic:4x4x5:3:30
check "too many channels: $(cat look.out)" grep -qE "^training +30 +0 +0\.0 +-     -$" look.out
check "by number" grep -qE "^2 +1[01] +" look.out
mkdir -p two
python3 - <<'PYTHON'
import struct
for part, shape in ("train", (4, 5, 6)), ("t10k", (4, 7, 8)):
    n = shape[0] * shape[1] * shape[2]
    open(f"two/{part}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, *shape) + bytes(n))
    open(f"two/{part}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, 4) + bytes([0, 1, 0, 1]))
PYTHON
look 1 --dataset idx --data two
check "shapes that do not go together: $(cat look.err)" grep -q "test images are 7x8x1 and the training images 5x6x1" look.err
refuse 1 "cannot look for data in nowhere" data --dataset mnist --data nowhere
refuse 2 "unknown data set 'mnits'; did you mean 'mnist'" data --dataset mnits
refuse 2 "devices does not go with 'dptrain data'" data --devices cpu
refuse 2 "unexpected argument 'pics'" data pics
finish
