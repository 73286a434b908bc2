#!/usr/bin/env bash
# What people bring, as it is: data sets in the files that their authors or programs wrote.  Each part says what
# is brought and what must happen.  The files are made here.
. "$SRC/tests/cli/kit.bash"
need_python
make() { python3 "$SRC/tests/cli/brought_data.py" "$@"; }
small=(--model linear --devices cpu:threads=1 --batch-size 8 --seed 3)

# losses LOG: the losses of the steps.
losses() {
    python3 -c "import json, sys
print([line['loss'] for line in map(json.loads, open(sys.argv[1])) if line['event'] == 'step'])" "$1"
}

# ---- Labels that begin at 1 --------------------------------------------------------------------------

make idx one 1 4      # labels 1 to 4
make idx zero 0 4     # the same images with labels 0 to 3
one=("${small[@]}" --dataset idx --data one)
told="the labels of one/train-images-idx3-ubyte are 1 to 4; 0 does not occur, and is a class of its own; --labels-from 1 makes label 1 the first class"
train "${one[@]}" --max-steps 2
check "told once: $(cat train.err)" test "$(grep -cF "$told" train.err)" -eq 1
check "a class more: $(grep ^data train.out)" grep -q "12 + 8 images of 6x4x1, 5 classes" train.out
train "${one[@]}" --epochs 4 --labels-from 1 --checkpoint run --log one.jsonl
check "nothing is told: $(cat train.err)" test -z "$(grep "does not occur" train.err)"
check "four classes: $(grep ^data train.out)" grep -q "idx:labels-from=1, 12 + 8 images of 6x4x1, 4 classes" train.out
train "${small[@]}" --dataset idx --data zero --epochs 4 --log zero.jsonl
check "the losses are those of labels that begin at 0" test "$(losses one.jsonl)" = "$(losses zero.jsonl)"

"$DPTRAIN" eval --checkpoint run --data one --devices cpu:threads=1 >eval.out 2>eval.err
check "eval takes the first label from the weights: $(cat eval.err)" grep -q "of 8 right" eval.out
"$DPTRAIN" eval --checkpoint run --dataset idx --data one --devices cpu:threads=1 >again.out 2>eval.err
check "also if the data set is named: $(cat eval.err)" \
    test "$(grep -o 'loss.*right' again.out)" = "$(grep -o 'loss.*right' eval.out)"
refuse 2 "was trained with --labels-from 1: leave --labels-from 2 out" \
    eval --checkpoint run --dataset idx --data one --labels-from 2
"$DPTRAIN" predict --checkpoint run --devices cpu:threads=1 --top 4 one/t10k-images-idx3-ubyte:0 >predict.out
check "predict prints the labels of the files: $(cat predict.out)" \
    test "$(grep -oE '[:,] (class )?[0-9]+ [0-9]' predict.out | grep -oE '[0-9]+ ' | sort | tr -d '\n')" = "1 2 3 4 "
train "${one[@]}" --epochs 6 --labels-from 1 --checkpoint run --resume
train "${one[@]}" --epochs 8 --checkpoint run --resume
check "so does a resumed training: $(cat train.out train.err)" grep -q "idx:labels-from=1, 12 + 8 images" train.out
refuse 2 "checkpoint-.* was trained with --labels-from 1: leave --labels-from 2 out" \
    train "${one[@]}" --epochs 9 --labels-from 2 --checkpoint run --resume --quiet
rm -rf plain
train "${one[@]}" --epochs 2 --checkpoint plain
refuse 2 "of a training with another model" train "${one[@]}" --epochs 3 --labels-from 1 --checkpoint plain --resume --quiet
"$DPTRAIN" data --dataset idx --data one --labels-from 1 >data.out
check "data names the classes by their labels: $(cat data.out)" grep -qE "^4 +3 +2$" data.out
refuse 1 "the labels of zero/.* are to begin at 1 .*, but sample 0 has label 0" \
    train "${small[@]}" --dataset idx --data zero --labels-from 1
refuse 2 "synthetic:8x8x1:3:9: labels-from is for data sets whose files have numbers as labels" \
    train "${small[@]}" --dataset synthetic:8x8x1:3:9 --labels-from 1
refuse 2 "--labels-from: .*1 to 65535" train "${one[@]}" --labels-from 0

# ---- Data sets with names ----------------------------------------------------------------------------

make emnist letters letters
train "${small[@]}" --dataset emnist:letters --data letters --max-steps 2
check "EMNIST's letters have a class N/A: $(cat train.out train.err)" grep -q "6x4x1, 27 classes" train.out
check "which is told" grep -q "are 1 to 26; 0 does not occur" train.err
train "${small[@]}" --dataset emnist:letters --data letters --labels-from 1 --max-steps 2 --checkpoint letter
check "or none: $(cat train.out)" grep -q "6x4x1, 26 classes" train.out
"$DPTRAIN" predict --checkpoint letter --devices cpu:threads=1 --top 26 letters/upright.pgm >predict.out
check "predict names letters: $(cat predict.out)" test "$(grep -oE '[:,] [a-z] ' predict.out | wc -l)" -eq 26
"$DPTRAIN" predict --checkpoint letter --devices cpu:threads=1 --top 26 letters/gzip/emnist-letters-test-images-idx3-ubyte.gz:0 >again.out
check "and takes EMNIST's files as the training did: $(cat again.out)" test "$(sed 's/.*: //' again.out)" = "$(sed 's/.*: //' predict.out)"
"$DPTRAIN" eval --checkpoint letter --data letters --devices cpu:threads=1 >eval.out 2>&1
check "eval: $(cat eval.out)" grep -q "data set emnist:letters:labels-from=1, as letter/" eval.out
make cifar100 hundred
train "${small[@]}" --dataset cifar100 --data hundred --batch-size 2 --max-steps 2
check "CIFAR-100: $(cat train.out)" grep -q "4 + 2 images of 32x32x3, 100 classes" train.out
train "${small[@]}" --dataset cifar100:coarse --data hundred --batch-size 2 --max-steps 2 --checkpoint coarse
check "with its coarse labels: $(cat train.out)" grep -q "32x32x3, 20 classes" train.out
"$DPTRAIN" eval --checkpoint coarse --data hundred --devices cpu:threads=1 >eval.out 2>&1
check "eval: $(cat eval.out)" grep -q "of 2 right" eval.out
refuse 2 "no split of EMNIST" train --dataset emnist:letter

# ---- Arrays of all parts in one file -----------------------------------------------------------------

make npz medical.npz medmnist
train "${small[@]}" --dataset npz:medical.npz --epochs 4 --checkpoint medical
check "MedMNIST's names: $(cat train.out)" grep -q "npz, 12 + 6 images of 6x4x1, 3 classes (medical.npz (train))" train.out
check "the test part is another one" test -z "$(grep "no file of test data" train.out)"
"$DPTRAIN" eval --checkpoint medical --dataset npz:medical.npz --devices cpu:threads=1 >eval.out 2>&1
check "eval: $(cat eval.out)" grep -q "of 6 right" eval.out
"$DPTRAIN" predict --checkpoint medical --model linear --devices cpu:threads=1 medical.npz >predict.out 2>&1
check "predict takes the test part: $(cat predict.out)" test "$(grep -c '^medical.npz:[0-5]: ' predict.out)-$(wc -l <predict.out)" = 6-6
make npz keras.npz keras
train "${small[@]}" --dataset npz:keras.npz --max-steps 2
check "Keras's names: $(cat train.out)" grep -q "npz, 12 + 6 images of 6x4x1, 3 classes" train.out
make npz chest.npz several 5
train "${small[@]}" --dataset npz:chest.npz --loss binary-cross-entropy --epochs 20 --lr 0.5 --checkpoint chest --log chest.jsonl
check "several classes of a sample: $(cat train.out)" grep -q "npz, 20 + 10 images of 6x4x1, 5 " train.out
check "are learned" python3 -c "import json
l = [l['loss'] for l in map(json.loads, open('chest.jsonl')) if l['event'] == 'step']
exit(not l[-1] < 0.7 * l[0])"
"$DPTRAIN" predict --checkpoint chest --model linear --loss binary-cross-entropy --devices cpu:threads=1 chest.npz:0 >predict.out 2>&1
check "predict prints five probabilities: $(cat predict.out)" grep -qE "^chest.npz:0: ([0-9.e+-]+ ?,? ?){5}$" predict.out
refuse 2 "has no labels" train "${small[@]}" --dataset npz:chest.npz --max-steps 2
make kuzushiji k49
train "${small[@]}" --dataset npy:k49-train-imgs.npz:k49-train-labels.npz --data k49 --max-steps 2
check "a file for each array: $(cat train.out)" grep -q "npy, 12 + 6 images of 6x4x1, 3 classes" train.out
refuse 1 "medical.npz has 2 arrays, and npy:IMAGES:LABELS reads one" \
    train "${small[@]}" --dataset npy:medical.npz:medical.npz

# ---- Losses of tables --------------------------------------------------------------------------------

# falls LOG PART: the last loss is less than this part of the first.
falls() {
    python3 -c "import json, sys
l = [x['loss'] for x in map(json.loads, open(sys.argv[1])) if x['event'] == 'step']
sys.exit(not l[-1] < float(sys.argv[2]) * l[0])" "$1" "$2"
}
python3 - <<'PYTHON'
rows = [(i / 16 - 2, (7 * i % 16) / 8 - 1) for i in range(64)]
def table(name, head, row):
    with open(name, "w") as out:
        print(head, file=out)
        for a, b in rows:
            print(a, b, *row(a, b), sep=",", file=out)
table("several.csv", "a,b,sum,difference", lambda a, b: (a + b, a - b))
table("counts.csv", "a,b,count", lambda a, b: (20 + round(4 * a + 2 * b),))
table("flags.csv", "a,b,high,wide,odd", lambda a, b: (int(a > 0), int(b > 0), int(a + b > 0)))
table("one.csv", "a,b,high", lambda a, b: (int(a > 0),))
PYTHON
two=(--model linear --devices cpu:threads=1 --batch-size 16 --seed 3 --epochs 40)
train "${two[@]}" --dataset csv:several.csv:difference,sum --loss mse --lr 0.1 --checkpoint several --log several.jsonl
check "two targets are learned" falls several.jsonl 0.05
"$DPTRAIN" eval --checkpoint several --dataset csv:several.csv:difference,sum --devices cpu:threads=1 >eval.out 2>&1
check "eval takes the loss of the training: $(cat eval.out)" grep -qE "^test loss [0-9.e-]+  64 samples" eval.out
python3 - <<'PYTHON'
import struct, zipfile
text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
text += " " * (-(len(text) + 11) % 64) + "\n"
with zipfile.ZipFile("new.npz", "w") as out:
    out.writestr("x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<2f", 1, 0.25))
PYTHON
"$DPTRAIN" predict --checkpoint several --devices cpu:threads=1 new.npz >predict.out 2>&1
check "predict prints the numbers in the order of the list: $(cat predict.out)" python3 -c "
numbers = [float(x) for x in open('predict.out').readlines()[-1].split(': ')[1].split(', ')]
exit(not (abs(numbers[0] - 0.75) < 0.1 and abs(numbers[1] - 1.25) < 0.1))"
train "${two[@]}" --dataset csv:counts.csv:count --loss mse --lr 0.05 --checkpoint counts --log counts.jsonl
check "integers are numbers to predict: $(grep ^data train.out)" grep -q "1x1x2, 1 " train.out
check "and are learned" falls counts.jsonl 0.05
train "${two[@]}" --dataset csv:counts.csv:count --max-steps 2
check "or classes: $(grep ^data train.out)" grep -qE "1x1x2, (2[0-9]|3[0-9]) classes" train.out
train "${two[@]}" --dataset csv:flags.csv:high,wide,odd --loss bce --lr 0.5 --checkpoint flags --log flags.jsonl
check "several classes of a row are learned" falls flags.jsonl 0.6
"$DPTRAIN" predict --checkpoint flags --devices cpu:threads=1 new.npz >predict.out 2>&1
check "predict prints their probabilities: $(cat predict.out)" python3 -c "
numbers = [float(x) for x in open('predict.out').readlines()[-1].split(': ')[1].split(', ')]
exit(not (len(numbers) == 3 and all(0 < x < 1 for x in numbers) and numbers[0] > 0.6 and numbers[2] > 0.6))"
train "${two[@]}" --dataset csv:one.csv:high --loss bce --lr 0.5 --checkpoint flag --log flag.jsonl
check "one class, by one output: $(grep ^data train.out)" grep -q "1x1x2, 1 " train.out
check "is learned" falls flag.jsonl 0.6
train "${two[@]}" --dataset csv:several.csv:sum --loss huber --huber-delta 0.25 --lr 1e-6 --checkpoint huber
for delta in "" "--loss huber --huber-delta 0.25" "--huber-delta 4"; do
    # shellcheck disable=SC2086
    "$DPTRAIN" eval --checkpoint huber --dataset csv:several.csv:sum --devices cpu:threads=1 --deterministic $delta 2>&1 |
        grep -o "loss [0-9.e+-]*" >>huber.out
done
check "eval takes huber's delta: $(cat huber.out)" test "$(sort -u huber.out | wc -l)-$(sed -n 1p huber.out)" = "2-$(sed -n 2p huber.out)"
refuse 1 "no column wide" train "${two[@]}" --dataset csv:one.csv:high,wide --loss bce

# ---- Weights of classes ------------------------------------------------------------------------------

# Labels 0, 1 and 2: 40, 16 and 8 times.  scikit-learn: 64 / (3 * 40), 64 / (3 * 16), 64 / (3 * 8).
python3 - <<'PYTHON'
with open("rare.csv", "w") as out:
    print("a,b,kind", file=out)
    for i in range(64):
        print(i % 7, i % 5, 0 if i < 40 else 1 if i < 56 else 2, sep=",", file=out)
PYTHON
rare=(--model linear --devices cpu:threads=1 --batch-size 64 --seed 3 --dataset csv:rare.csv:kind --epochs 3 --lr 0.1)
train "${rare[@]}" --class-weights balanced --log balanced.jsonl
check "the header says so: $(cat train.out)" grep -q "class weights balanced" train.out
train "${rare[@]}" --class-weights 0.533333333,1.33333333,2.66666667 --log listed.jsonl
check "balanced has the weights of scikit-learn" test "$(losses balanced.jsonl)" = "$(losses listed.jsonl)"
train "${rare[@]}" --log plain.jsonl
check "which are no others" test "$(losses balanced.jsonl)" != "$(losses plain.jsonl)"
printf '0.5\n2\n\n3\n' >weights.txt
train "${rare[@]}" --class-weights weights.txt --log file.jsonl
train "${rare[@]}" --class-weights 0.5,2,3 --log listed.jsonl
check "a file of weights" test "$(losses file.jsonl)" = "$(losses listed.jsonl)"
printf '2 3\r\n0  0.5\r\n' >weights.txt
train "${rare[@]}" --class-weights weights.txt --log file.jsonl
train "${rare[@]}" --class-weights 0.5,1,3 --log listed.jsonl
check "a file of classes and weights" test "$(losses file.jsonl)" = "$(losses listed.jsonl)"
rm -rf weighted
train "${rare[@]/64/16}" --class-weights balanced --validation 0.25 --checkpoint weighted
train "${rare[@]/64/16}" --class-weights balanced --validation 0.25 --checkpoint weighted --resume
# refuse_weights PATTERN TEXT: of a file with this text.
refuse_weights() {
    printf '%b' "$2" >weights.txt
    refuse 2 "weights.txt.*$1" train "${rare[@]}" --class-weights weights.txt
}
refuse_weights "has 2 weights without a name, and the data have 3 classes" '1\n2\n'
refuse_weights "line 4 is a weight more" '1\n2\n3\n4\n'
refuse_weights "line 2 does not end with a weight" '1\n-2\n3\n'
refuse_weights "line 1 names no class" 'rare 2\n'
refuse_weights "line 2 is the second weight" '1 2\n1 3\n'
refuse_weights "line 3 is the second weight" '1 2\n7\n8\n'
refuse_weights "has 1 weight without a name" '1 2\n7\n'
refuse_weights "has no weights" '\n'
refuse 2 "is not a list of numbers of at least 0, such as 1,2,0.5, nor balanced, nor a file" \
    train "${rare[@]}" --class-weights balance
refuse 2 "class weights are for cross-entropy|no labels" train "${rare[@]}" --loss mse --class-weights balanced
make idx lettered 1 3
printf '3 5\n' >weights.txt
train "${small[@]}" --dataset idx --data lettered --labels-from 1 --epochs 2 --class-weights weights.txt --log named.jsonl
train "${small[@]}" --dataset idx --data lettered --labels-from 1 --epochs 2 --class-weights 1,1,5 --log listed.jsonl
check "names are the labels of the files" test "$(losses named.jsonl)" = "$(losses listed.jsonl)"

# ---- Folders below folders, and tables of pictures ---------------------------------------------------

python3 "$SRC/tests/cli/brought_pictures.py" photos
if [[ $("$DPTRAIN" train "${small[@]}" --dataset folder:8x8 --data photos --batch-size 2 --max-steps 1 2>&1) == *"was built without"* ]]; then
    echo "without pictures: dptrain was built without libpng"
    finish
fi
small=("${small[@]}" --batch-size 4)
rm -f photos/test/*.*
for part in train test; do
    for class in photos/$part/*; do
        mkdir -p deep/$part/colours-of-"${class: -1}"
        cp -r "$class" deep/$part/colours-of-"${class: -1}"
    done
done
refuse 1 "write :depth=2 behind the size" train "${small[@]}" --dataset folder:8x8 --data deep
train "${small[@]}" --dataset folder:8x8:depth=2 --data deep --epochs 3 --checkpoint deep-run
check "folders below folders: $(cat train.out)" grep -q "folder:8x8:depth=2, .*, $(ls photos/train | wc -l) classes" train.out
"$DPTRAIN" eval --checkpoint deep-run --data deep --devices cpu:threads=1 >eval.out 2>&1
check "eval knows the depth: $(cat eval.out)" grep -q "data set folder:8x8:depth=2, as deep-run" eval.out
"$DPTRAIN" predict --checkpoint deep-run --devices cpu:threads=1 photos/test/red/0.png >predict.out
check "predict names paths: $(cat predict.out)" grep -q "colours-of-d/red [0-9]" predict.out

# The same pictures in one folder, with a table; the classes have the same order.
mkdir pictures
for part in train test; do
    echo "file,colour" >pictures/$part.csv
    for file in photos/$part/*/*; do
        name=$part-$(basename "$(dirname "$file")")-$(basename "$file")
        cp "$file" "pictures/$name"
        echo "$name,$(basename "$(dirname "$file")")" >>pictures/$part.csv
    done
done
table=(--dataset pictures:8x8:train.csv:file:colour --data pictures)
train "${small[@]}" "${table[@]}" --epochs 3 --checkpoint table --log table.jsonl
check "a table: $(cat train.out)" grep -q "pictures:8x8, .* classes (pictures/train.csv)" train.out
check "its test part is another file" test -z "$(grep "no file of test data" train.out)"
train "${small[@]}" --dataset folder:8x8 --data photos --epochs 3 --log photos.jsonl
check "the losses are those of the folders" test "$(losses table.jsonl)" = "$(losses photos.jsonl)"
"$DPTRAIN" eval --checkpoint table "${table[@]}" --devices cpu:threads=1 >eval.out 2>&1
check "eval: $(cat eval.out)" grep -q "right" eval.out
"$DPTRAIN" predict --checkpoint table --devices cpu:threads=1 photos/test/red/0.png >predict.out 2>&1
check "predict scales pictures, and names classes: $(cat predict.out)" grep -q "red [0-9]" predict.out
refuse 2 "of a training with another dataset" train "${small[@]}" "${table[@]}" --epochs 5 --checkpoint table --resume --no-orientation --quiet
"$DPTRAIN" data "${table[@]}" >data.out 2>&1
check "data: $(cat data.out)" grep -qE "^red +[0-9]+ +[0-9]+$" data.out
sed -n '2,$s/,/ /p' pictures/train.csv >pictures/list.txt
train "${small[@]}" --dataset pictures:8x8:list.txt --data pictures --epochs 3 --log list.jsonl
check "a list has the same losses" test "$(losses list.jsonl)" = "$(losses table.jsonl)"
check "and no test part: $(cat train.out)" grep -q "no file of test data" train.out
echo "broken" >pictures/broken.png
echo "broken.png red" >>pictures/list.txt
refuse 1 "pictures/broken.png" train "${small[@]}" --dataset pictures:8x8:list.txt --data pictures --max-steps 2
train "${small[@]}" --dataset pictures:8x8:list.txt --data pictures --epochs 3 --skip-unreadable --log list.jsonl
check "--skip-unreadable leaves it out: $(cat train.err)" grep -q "1 picture that cannot be read is left out" train.err
check "with the same losses" test "$(losses list.jsonl)" = "$(losses table.jsonl)"
refuse 2 "write pictures:HxW:FILE.csv:PATH:LABEL" train "${small[@]}" --dataset pictures:train.csv:file:colour

finish
