# Labels that are numbers, several labels of a sample, and classes that are rare.
row "several labels of a row, numbers to predict" \
    "csv:FILE:A,B,C; --loss mse, bce, huber"

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

row "classes that are rare" \
    "--class-weights balanced, a list, or a file"

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
small=(--model linear --devices cpu:threads=1 --batch-size 8 --seed 3)
make idx lettered 1 3
printf '3 5\n' >weights.txt
train "${small[@]}" --dataset idx --data lettered --labels-from 1 --epochs 2 --class-weights weights.txt --log named.jsonl
train "${small[@]}" --dataset idx --data lettered --labels-from 1 --epochs 2 --class-weights 1,1,5 --log listed.jsonl
check "names are the labels of the files" test "$(losses named.jsonl)" = "$(losses listed.jsonl)"
