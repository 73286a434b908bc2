#!/usr/bin/env bash
# The recipe of a model: what it gives, what wins over it, what it is not used for, and --recipe none.
. "$SRC/tests/cli/kit.bash"
unset DPTRAIN_RECIPE

data=(--dataset synthetic:28x28x1:4:300)
short=("${data[@]}" --devices cpu:threads=1 --max-steps 3)

# told: what the header says of the recipe, behind the name.
told() {
    sed -n 's/^recipe    [^ ]*: //p' train.out
}

# gives ARGUMENT...: the recipe that the header shows, as options without a recipe, trains to the same bits.
gives() {
    local options
    train "$@" --checkpoint by-recipe
    check "the recipe of $* is shown" grep -q '^recipe    [a-z0-9:-]*: --' train.out
    read -ra options <<<"$(told | cut -d';' -f1)"
    train "$@" --recipe none "${options[@]}" --checkpoint by-options
    check "$*: ${options[*]} is the recipe" cmp by-recipe/model.safetensors by-options/model.safetensors
    train "$@" --recipe none --checkpoint by-nothing
    check "$*: without a recipe" test -n "$(cmp by-recipe/model.safetensors by-nothing/model.safetensors 2>&1)"
    rm -rf by-recipe by-options by-nothing
}

# ---- What a recipe gives ----
gives "${short[@]}"
gives "${short[@]}" --model linear
gives "${short[@]}" --model mlp --batch-size 40
gives --dataset synthetic:8x8x3:3:40 --devices cpu:threads=1 --max-steps 2 --model resnet18
gives --dataset synthetic:8x8x3:3:40 --devices cpu:threads=1 --max-steps 2 --model resnet18-d2l --accumulate 2 --batch-size 8
head -c 3000 "$SRC/README.md" >text.txt
text=(--dataset text:8 --data text.txt --devices cpu:threads=1 --max-steps 30)
gives "${text[@]}" --model gpt:1:2:16:8:256
gives "${text[@]}" --model llama:1:2:1:16:8:256 --lr 1e-3
gives "${text[@]}" --model lstm:1:16:8:256 --clip-norm 2

# ---- --recipe none: the defaults that help names ----
plain=(--batch-size 256 --optimizer sgd --lr 0.1 --momentum 0 --weight-decay 0 --schedule constant --init default
    --augment none)
train "${short[@]}" --recipe none --checkpoint none
check "nothing is said of a recipe" test "$(grep -c recipe train.out)" -eq 0
train "${short[@]}" "${plain[@]}" --checkpoint plain
check "options win over all of a recipe" cmp none/model.safetensors plain/model.safetensors
check "which is said" grep -q '^nothing, because options say all;' <(told)
DPTRAIN_RECIPE=none train "${short[@]}" --checkpoint variable
check "the variable is the option's default" cmp none/model.safetensors variable/model.safetensors
DPTRAIN_RECIPE=none train "${short[@]}" --recipe default
check "the option wins over the variable" test -n "$(told)"
refuse 2 "--recipe: unknown value 'nune'; did you mean 'none'" "${short[@]}" --recipe nune
DPTRAIN_RECIPE=nune refuse 2 "DPTRAIN_RECIPE: unknown value 'nune'; known: default, none" "${short[@]}"

# ---- What wins over a single setting ----
train "${short[@]}" --lr 0.002 --batch-size 50
check "the rest is the recipe's" grep -qE '^--optimizer adamw --weight-decay [0-9.]+ --schedule onecycle --init he$' <(told)
check "a rate and a batch that are given" grep -q '^training  batch 50, adamw, lr 0.002,' train.out
train "${short[@]}" --model resnet18 --dataset synthetic:8x8x3:3:40 --batch-size 16 --max-steps 1
check "the rate follows the batch of sgd" grep -qE '^training  batch 16, sgd, lr 0.0125 \(0.1 at batch 128\)' train.out

# ---- Groups ----
train "${short[@]}" --optimizer sgd
check "another optimizer takes nothing of the recipe's" grep -q \
    '^training  batch 64, sgd, lr 0.1, momentum 0, weight decay 0, ' train.out
check "which is said" grep -q '; not its optimizer, because of --optimizer sgd$' <(told)
train "${short[@]}" --momentum 0.9
check "momentum asks for sgd" grep -q '; not its optimizer, because of --momentum$' <(told)
train "${short[@]}" --model mlp --momentum 0.5
refuse 2 '--momentum goes with --optimizer sgd' "${short[@]}" --optimizer adamw --momentum 0.9
train "${short[@]}" --schedule step
check "another schedule takes nothing of the recipe's" grep -q '^schedule  step, times 0.1 after every 30 epochs$' train.out
train "${text[@]}" --model gpt:1:2:16:8:256 --schedule cosine
check "no warm-up and no least rate either" grep -qx 'schedule  cosine' train.out
train "${data[@]}" --devices cpu:threads=1 --max-time 0.2
check "a schedule that falls needs an end" grep -q '; not its schedule, because of --max-time alone$' <(told)
check "the rate is constant then" test "$(grep -c '^schedule' train.out)" -eq 0
train "${text[@]}" --model gpt:1:2:16:8:256 --max-steps 50
check "a recipe's warm-up is at most a tenth" grep -q 'warm-up over 5 steps' train.out
train "${short[@]}" --checkpoint base
train "${short[@]}" --load base
check "a tenth of the rate for loaded weights" grep -q '; a tenth of its rate, because of --load$' <(told)
check "it is a tenth" grep -q 'adamw, lr 0.0005,' train.out

# ---- Images, and what has no recipe ----
train --model resnet18 "${short[@]}" --dataset synthetic:8x8x3:3:20 --max-steps 1
check "unknown images are not turned" grep -qx 'augment   crop with padding 2' train.out
printf 'a,b,y\n%s' "$(for i in 1 2 3 4 5 6 7 8; do echo "$i,$((i * i % 5)),$((i % 2))"; done)" >table.csv
train --model mlp --dataset csv:table.csv:y --max-steps 1
check "arrays have no recipe" grep -qx 'recipe    none, because arrays need not be images' train.out
check "and train as without one" grep -q '^training  batch 8, sgd, lr 0.1, momentum 0, weight decay 0, ' train.out
sed 's/$/.5/' table.csv | sed '1s/.*/a,b,y/' >targets.csv
train --model mlp --dataset csv:targets.csv:y --max-steps 1 --loss squared-error
check "other losses have none" grep -qx 'recipe    none, because recipes are for cross-entropy' train.out
train --model "$SRC/tests/onnx/trained/vit_default.onnx" --dataset synthetic:8x8x2:3:40 --max-steps 1
check "nor have ONNX files" grep -qx 'recipe    none, because this model has none' train.out

# ---- plan, eval, --resume, several processes ----
check "plan plans what is trained" grep -qE '^cpu:threads=1 +64 ' <("$DPTRAIN" plan "${short[@]}" 2>plan.err)
check "and without a recipe" grep -qE '^cpu:threads=1 +256 ' <("$DPTRAIN" plan "${short[@]}" --recipe none 2>plan.err)
refuse 2 '--recipe does not go with' eval --checkpoint base --recipe none
train "${short[@]}" --recipe none --schedule constant --checkpoint older
"$DPTRAIN" train "${short[@]}" --max-steps 6 --checkpoint older --resume >train.out 2>train.err
check "an older checkpoint is refused" test $? -eq 2
check "with what to do" grep -q '^dptrain: note: .*goes on with --recipe none$' train.err
check "which differs" grep -q 'batch-size' train.err
train "${short[@]}" --max-steps 6 --checkpoint older --resume --recipe none
train "${data[@]}" --devices cpu:threads=1 --epochs 2 --checkpoint whole
timeout -s INT 20 "$DPTRAIN" train "${data[@]}" --devices cpu:threads=1 --epochs 2 --checkpoint whole --resume \
    >train.out 2>train.err
check "a finished training with a recipe resumes" test $? -eq 0
finish
