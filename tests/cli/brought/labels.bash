# Data sets in the files that their authors wrote.
small=(--model linear --devices cpu:threads=1 --batch-size 8 --seed 3)

row "labels that begin at 1" \
    "told, and shifted by --labels-from 1"

make idx one 1 4  # labels 1 to 4
make idx zero 0 4 # the same images with labels 0 to 3
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
"$DPTRAIN" predict --checkpoint run --devices cpu:threads=1 --top 4 one/t10k-images-idx3-ubyte:0 >predict.out 2>predict.err
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

row "EMNIST, CIFAR-100" \
    "data sets with names, upright, with the names of their classes"

make emnist letters letters
train "${small[@]}" --dataset emnist:letters --data letters --max-steps 2
check "EMNIST's letters have a class N/A: $(cat train.out train.err)" grep -q "6x4x1, 27 classes" train.out
check "which is told" grep -q "are 1 to 26; 0 does not occur" train.err
train "${small[@]}" --dataset emnist:letters --data letters --labels-from 1 --max-steps 2 --checkpoint letter
check "or none: $(cat train.out)" grep -q "6x4x1, 26 classes" train.out
"$DPTRAIN" predict --checkpoint letter --devices cpu:threads=1 --top 26 letters/upright.pgm >predict.out 2>predict.err
check "predict names letters: $(cat predict.out)" test "$(grep -oE '[:,] [a-z] ' predict.out | wc -l)" -eq 26
"$DPTRAIN" predict --checkpoint letter --devices cpu:threads=1 --top 26 letters/gzip/emnist-letters-test-images-idx3-ubyte.gz:0 >again.out 2>predict.err
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

row "KMNIST (.npz), MedMNIST, Keras (.npz)" \
    "npz:FILE, with its test part"

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
