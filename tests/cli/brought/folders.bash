# Folders below folders, and tables of pictures.
row "folders of classes below folders" \
    "folder:HxW:depth=N"

small=(--model linear --devices cpu:threads=1 --batch-size 4 --seed 3)
pictures photos
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
"$DPTRAIN" predict --checkpoint deep-run --devices cpu:threads=1 photos/test/red/0.png >predict.out 2>predict.err
check "predict names paths: $(cat predict.out)" grep -q "colours-of-d/red [0-9]" predict.out

# The classes have the same order.
row "one folder of pictures with a table or a list" "pictures:HxW:FILE.csv:PATH:LABEL, or a list; the losses of the folders"
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
