# Pictures and what lies beside them.
set=(--dataset folder:8x8 --data photos)
small=("${set[@]}" --model linear --devices cpu:threads=1)
pictures photos

row "Thumbs.db, desktop.ini, notes.txt; pictures that are damaged" \
    "passed over and counted; an error, or --skip-unreadable"

for name in Thumbs.db desktop.ini notes.txt; do echo "no picture" >photos/train/red/$name; done
cp photos/train/red/0.png photos/train/red/without-a-name
train "${small[@]}" --max-steps 2
check "three files are passed over: $(cat train.err)" \
    grep -qx "dptrain: photos/train: 3 files are passed over, no pictures by name and content" train.err
check "a picture counts by its content: $(cat train.out)" grep -q "folder:8x8, 13 + 4 images" train.out
"$DPTRAIN" data "${set[@]}" >data.out 2>data.err
check "dptrain data has no errors: $(cat data.err)" test $? -eq 0
echo "no picture" >photos/train/red/broken.jpg
head -c 60 photos/train/blue/1.png >photos/train/blue/cut.png
refuse_listed 1 "photos/train/(red/broken.jpg: neither PNG|blue/cut.png: damaged PNG)" train "${small[@]}" --max-steps 2
train "${small[@]}" --max-steps 2 --skip-unreadable
check "--skip-unreadable leaves them out: $(cat train.err)" \
    grep -q "photos/train: 2 pictures that cannot be read are left out; dptrain data names them" train.err
check "and takes the others: $(cat train.out)" grep -q "folder:8x8, 13 + 4 images" train.out
train "${set[@]/folder:8x8/folder:8x8:stream}" --model linear --devices cpu:threads=1 --max-steps 2 --skip-unreadable
check "so too while training reads: $(cat train.out)" grep -q "folder:8x8, 13 + 4 images" train.out
rm photos/train/red/broken.jpg photos/train/blue/cut.png
refuse 2 "are for pictures in folders" train --dataset synthetic:8x8x1:3:16 --model linear --max-steps 1 --skip-unreadable

row "the orientation of a camera (EXIF)" \
    "honoured; --no-orientation"

# Pictures whose red half is at the left, noted as turned: the network sees it at another side.
pictures turned 6
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

row "JPEG, PNG, WebP, BMP, GIF, TIFF, PPM and PGM" \
    "read"

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
row "sixty files of each format, broken in different ways" "a line for each, no crash, no hang, 4 GiB of memory"
rm -rf formats/train/one
mkdir formats/train/one
n=$(pictures broken "$SRC/tests/fuzz/corpus" formats/train/one)
check "there are at least 60 for each format: $n" test "$n" -ge 420
# A sanitizer for addresses reserves more than any limit.
limit=unlimited
if { (ulimit -v 4194304 && "$DPTRAIN" --version) >/dev/null; } 2>/dev/null; then limit=4194304; fi
(
    ulimit -v $limit
    timeout 120 "$DPTRAIN" data --dataset folder:8x8 --data formats
) >data.out 2>data.err
check "which end in good order" test $? -eq 1
check "which end in good order: $(tail -1 data.err)" grep -q "images cannot be read" data.err
refused=$(grep -cE '^dptrain: formats/train/one/[a-z]*-(cut-[0-8]|magic|text|empty)\.[a-z]*: ' data.err)
check "with a line for each that no reader can take for a picture: $refused" test "$refused" -eq $((7 * 12))
check "and no line of another kind: $(grep -v '^dptrain: ' data.err)" test -z "$(grep -v '^dptrain: ' data.err)"
