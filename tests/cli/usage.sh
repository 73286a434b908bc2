#!/usr/bin/env bash
# Mistakes in the command line: one line that says what to do, and exit status 2.
. "$SRC/tests/cli/kit.bash"

small=(--dataset synthetic:8x8x1:3:64 --model linear --max-steps 1 --quiet)

# Commands and options
refuse 2 "unknown command 'trian'; did you mean 'dptrain train'" trian
refuse 2 "unknown command 'zzzzz'; known: train, eval, predict, generate, export, devices" zzzzz
refuse 2 "unknown command 'help'; did you mean 'dptrain --help'" help
refuse 2 "unknown option --modle; did you mean --model" --modle lenet
refuse 2 "unknown option --zzzzzzz; see" --zzzzzzz
refuse 2 "unknown option -x" -x
refuse 2 "unexpected argument" -- lenet
refuse 2 "unknown option --" --=5
refuse 2 "unexpected argument 'lenet'" train lenet
refuse 2 "ambiguous: --max-steps or --max-time" --max 5
refuse 2 "needs a value: --model=NAME" --model
refuse 2 "needs a value: --log=FILE" --log=
refuse 2 "takes no value" --quiet=yes
refuse 2 "does not go with 'dptrain eval'" eval --lr 0.1
refuse 2 "does not go with 'dptrain devices'" devices --model lenet
refuse 2 "needs weights: --checkpoint" eval
refuse 2 "needs --momentum" --nesterov

refuse 2 "unknown model 'a.b.\[1m'" --dataset synthetic:8x8x1:3:64 --model $'a\nb\e[1m'
# What a launcher leaves that is no number
OMPI_COMM_WORLD_SIZE=abc refuse 2 'OMPI_COMM_WORLD_SIZE is "abc", which is no number of processes' \
    "${small[@]}" --devices cpu:threads=1
# Options that do not go together
for option in momentum=0.9 nesterov; do
    refuse 2 "--${option%=*} goes with --optimizer sgd; adamw has --beta1" --optimizer adamw "--$option"
done
for option in beta1=0.8 beta2=0.99 epsilon=1e-6; do
    refuse 2 "--${option%=*} goes with --optimizer adamw" "--$option"
    refuse 2 "--${option%=*} goes with --optimizer adamw" --optimizer sgd "--$option"
done
for option in step-every=3 step-factor=0.5; do
    refuse 2 "--${option%=*} goes with --schedule step" "--$option"
    refuse 2 "--${option%=*} goes with --schedule step" --schedule cosine "--$option"
done
for schedule in cosine onecycle; do
    refuse 2 "--schedule $schedule must know how many steps there are: give --epochs or --max-steps" \
        "${small[@]:0:4}" --schedule $schedule --max-time 5s
done
refuse 2 "--patience needs --validation" --patience 3
refuse 2 "fraction" "${small[@]}" --validation 0.001
refuse 2 "a crop with 9 pixels of padding from images of 8x8" "${small[@]}" --augment crop:9
refuse 2 "cutmix and class weights do not go together" "${small[@]}" --class-weights 1,1,1 --augment cutmix
refuse 2 "RandAugment changes images of bytes with 1 or 3 channels" --model mlp --dataset synthetic:8x8x2:4:200 \
    --augment randaugment
refuse 2 "jitter changes images of bytes with 1 or 3 channels; .* has bytes with 2: leave the jitter out" \
    --model mlp --dataset synthetic:8x8x2:4:200 --augment jitter:0.4
refuse 2 "does not go with 'dptrain eval'" eval --augment flip
refuse 2 "does not go with 'dptrain devices'" devices --normalize

# Numbers
refuse 2 "'0' is not a whole number from 1 to" --batch-size 0
refuse 2 "'-3' is not a whole number from 1 to" --batch-size=-3
refuse 2 "'1.5' is not a whole number" --epochs 1.5
refuse 2 "'0' is not a whole number from 1" --max-steps 0
refuse 2 "'99999999999999999999' is not a whole number from 0" --seed 99999999999999999999
refuse 2 "'12x' is not a whole number" --seed 12x
refuse 2 "'nan' is not a number from" --lr nan
refuse 2 "'0' is not a number from" --lr 0
refuse 2 "'0x1' is not a number from" --lr 0x1
refuse 2 "'1' is not a number from 0 to 0.9999" --momentum 1
refuse 2 "'inf' is not a number from" --weight-decay inf
refuse 2 "'0' is not a time" --max-time 0
refuse 2 "'5d' is not a time" --max-time 5d
refuse 2 "'5s5' is not a time" --max-time 5s5
refuse 2 "'0' is not a number of steps or epochs" --warmup 0
refuse 2 "'5epoch' is not a number of steps or epochs, such as 500 .steps. or 5epochs" --warmup 5epoch
refuse 2 "'1.5epochs' is not a number of steps" --warmup 1.5epochs
refuse 2 "'0' is not a number from" --step-factor 0 --schedule step
refuse 2 "'2' is not a number from" --step-factor 2 --schedule step
refuse 2 "'0' is not a whole number from 1" --step-every 0 --schedule step
refuse 2 "'1' is not a number from" --beta1 1 --optimizer adamw
refuse 2 "'1' is not a number from" --beta2 1 --optimizer adamw
refuse 2 "'1' is not a number from" --epsilon 1 --optimizer adamw
refuse 2 "'0' is not a number from" --clip-norm 0
refuse 2 "'1' is not a number from 0 to 0.9999" --label-smoothing 1
refuse 2 "'0' is not a whole number from 1" --lr-base-batch 0
refuse 2 "'0' is not a whole number from 1" --micro-batch 0
refuse 2 "'0' is not a whole number from 1" --patience 0 --validation 0.1
refuse 2 "'1' is not a number from" --validation 1
refuse 2 "'0' is not a number from" --validation 0

refuse 2 "'0' is not a whole number from 1" --compress lowrank --compress-rank 0
refuse 2 "give compress lowrank, too" --compress int8 --compress-rank 2

# Words
refuse 2 "--optimizer: unknown value 'adam'; did you mean 'adamw'" --optimizer adam
refuse 2 "--compress: unknown value 'int4'; did you mean 'int8'\? Known: none, bf16, int8, lowrank$" --compress int4
refuse 2 "--schedule: unknown value 'cosinus'; did you mean 'cosine'" --schedule cosinus
refuse 2 "--freeze-batch-norm and --batchnorm local: leave one" --freeze-batch-norm --batchnorm local
refuse 2 "--batchnorm: unknown value 'zzzzzz'; known: sync, local, frozen" --batchnorm zzzzzz
refuse 2 "--augment: crop:0 is not a padding of 1 to" --augment crop:0
refuse 2 "--augment: crop: is not a padding" --augment crop:
refuse 2 "--augment: unknown word 'flipp'; did you mean 'flip'" --augment crop,flipp
refuse 2 "--augment: unknown word ''; known: crop" --augment crop,,flip
refuse 2 "--augment: flip takes no parameter" --augment flip:2
refuse 2 "--augment: erase:0 is not a probability above 0" --augment erase:0
refuse 2 "--augment: erase:1.5 is not a probability" --augment erase:1.5
for angle in rotate rotate: rotate:abc rotate:-5 rotate:0 rotate:181; do
    refuse 2 "--augment: $angle has no angle above 0, up to 180 degrees" --augment $angle
done
for ops in randaugment: randaugment:abc randaugment:0 randaugment:7 randaugment:2: randaugment:2:31 randaugment:2:9:1; do
    refuse 2 "--augment: $ops is not randaugment:OPERATIONS:MAGNITUDE with 1 to 6" --augment $ops
done
for mix in mixup: mixup:abc mixup:0 mixup:-1 cutmix:101; do
    refuse 2 "--augment: $mix is not an alpha of 0.01 to 100" --augment $mix
done
for jitter in jitter jitter: jitter:abc jitter:-0.1 jitter:0 jitter:0:0:0:0 jitter:1.1 jitter:0:0:0:0.6 jitter:0.1: \
    jitter:0.1::0.1 jitter:0.1:0.1:0.1:0.1:0.1; do
    refuse 2 "--augment: $jitter is not jitter:BRIGHTNESS" --augment $jitter
done

# Devices
refuse 2 "unknown device .gpu0" "${small[@]}" --devices gpu0
refuse 2 "did you mean .cpu" "${small[@]}" --devices cpuu
refuse 2 "cpu:7.*1 device" "${small[@]}" --devices cpu:7
refuse 2 "threads" "${small[@]}" --devices cpu:threads=0
refuse 2 "threads" "${small[@]}" --devices cpu:threads=99999999
refuse 2 "threds.*did you mean .threads" "${small[@]}" --devices cpu:threds=1
refuse 2 "without a name" "${small[@]}" --devices cpu,,cpu
refuse 2 "space" "${small[@]}" --devices "cpu, cpu"
refuse 2 "memory=lots" "${small[@]}" --devices cpu:memory=lots
refuse 2 "unknown device .gpu0" devices --devices gpu0

# Models, data sets, splits, weights
refuse 2 "unknown model 'lenett'; did you mean 'lenet'\? Known: linear, mlp, lenet" \
    "${small[@]}" --model lenett
refuse 2 "unknown model 'zzzzzz'; known: linear, mlp, lenet" "${small[@]}" --model zzzzzz
refuse 2 "conv2" "${small[@]}" --model lenet
refuse 2 "layer pool2d-[0-9]+: its 2x2 window does not fit the 1x1 input; use larger images" \
    --dataset synthetic:28x28x1:3:64 --model vgg11 --quiet
refuse 2 "fashion-mnst.*did you mean 'fashion-mnist'" --dataset fashion-mnst
refuse 2 "synthetic" --dataset synthetic:8x8:3
refuse 2 "batch of 65 is more than the 64 samples" "${small[@]}" --batch-size 65
refuse 2 "split \"1:2:3\" has 3 parts for 2 devices: give one for each" "${small[@]}" --devices cpu,cpu --split 1:2:3
refuse 2 "split \"0:0\" is all zero" "${small[@]}" --devices cpu,cpu --split 0:0
refuse 2 "unknown split \"sideways\": use" "${small[@]}" --split sideways
refuse 2 "did you mean \"equal\"" "${small[@]}" --split eqal
refuse 2 "init \"norml:0.1\" is not one of default, normal:STD" "${small[@]}" --init norml:0.1
refuse 2 "init \"normal:-1\" is not one of" "${small[@]}" --init normal:-1
refuse 2 "normal:STD \(from 1e-10 to 1000, such as normal:0.01\)" "${small[@]}" --init normal:1e30
refuse 2 "4096x4096x3 is more than the 16777216 values that one may have" plan --model vgg11 \
    --dataset synthetic:4096x4096x3:4:64 --devices cpu
refuse 2 "stop-on-loss ends training .* leave one of them out" "${small[@]}" --stop-on-loss --readmit 5

# The CPU has no other arithmetic than float32's, and a run that asks for another says so.
for precision in tf32 bf16; do
    refuse 2 "no device computes in $precision: cpu computes in fp32" \
        "${small[@]}" --devices cpu --precision $precision
done

# A transport that is not there, which one process asks for.
DPTRAIN_TRANSPORT=foo refuse 1 \
    "this process is to train with others \(DPTRAIN_TRANSPORT=foo\), but cannot: there is no plug-in" \
    "${small[@]}"

# Known, but not in this version
refuse 2 "--precision: unknown value 'fp33'; did you mean 'fp32'" --precision fp33

# Help and version
for verb in train eval predict export devices bench; do
    "$DPTRAIN" $verb --help >help.out 2>help.err
    check "$verb --help succeeds" test $? -eq 0
    check "$verb --help says how it is used" grep -q "^Usage: dptrain $verb" help.out
    check "$verb --help is quiet on stderr" test ! -s help.err
    check "$verb --help fits 80 columns" test "$(awk 'length > 80' help.out | wc -l)" -eq 0
done
for verb in train eval predict devices plan; do
    "$DPTRAIN" $verb --help >help.out
    check "$verb --help: all devices" test "$(grep -c 'Default: all$' help.out)" -eq 1
    check "$verb --help: nothing of bench" test \
        "$(sed '/^Examples$/,$d' help.out | grep -c 'bench\|allreduce')" -eq 0
done
# Help speaks of the command's own options, and of no other command.
own() { grep -oE '^ +(-., )?--[a-z0-9-]+' help.out | grep -oE -- '--[a-z0-9-]+' | sort -u; }
spoken_of() { sed '/^Exit status$/,$d' help.out | grep -oE -- '--[a-z0-9-]+' | sort -u; }
for verb in train eval predict devices plan bench; do
    "$DPTRAIN" $verb --help >help.out
    check "$verb --help speaks of $(comm -13 <(own) <(spoken_of))" \
        test -z "$(comm -13 <(own) <(spoken_of))"
    check "$verb --help: --device-timeout once" test "$(grep -c -- ' --device-timeout=' help.out)" -eq 1
    for other in eval predict; do
        check "$verb --help: nothing of $other" test "$(sed '1,/^$/d;/^Exit status$/,$d' help.out |
            grep -cw $other)" -eq 0
    done
done
"$DPTRAIN" eval --help >help.out
check "eval's model is the weights'" grep -q "network that the weights are of" help.out
"$DPTRAIN" bench --help >help.out
# of_benchmark HEADING: the options that help has under it.
of_benchmark() { sed -n "/^$1\$/,/^\$/s/^ .*--\([a-z-]*\).*/\1/p" help.out; }
check "options of both benchmarks" [ "$(of_benchmark "Options of mix and allreduce" | tr '\n' ' ')" = \
    "devices devices-of device-timeout precision json help version " ]
check "of one" test "$(of_benchmark "Options of allreduce")" = collective
check "and of the other" test "$(of_benchmark "Options of mix" | grep -cx 'model\|repeat\|all-only\|max-time')" -eq 4
# The older name of an option: valid, with a note, not in help, and only as a whole.
check "the older name is not in help" eval '! "$DPTRAIN" train --help | grep -q -- "--rest"'
"$DPTRAIN" plan --dataset synthetic:8x8x1:3:64 --model mlp --devices cpu --rest off >older.out 2>older.err
check "the older name is valid: status $?, $(cat older.err)" [ -s older.out ]
check "a note tells the new one: $(cat older.err)" \
    [ "$(cat older.err)" = "dptrain: note: --rest is now --standby; the older name is valid in this release only" ]
refuse 2 "unexpected argument 'off'" train --res off # --resume
"$DPTRAIN" plan --dataset synthetic:8x8x1:3:64 --model mlp --devices cpu --standby off >newer.out 2>newer.err
check "the new one has no note" [ ! -s newer.err ]
"$DPTRAIN" -h >help.out
for word in --devices --model --dataset --batch-size --split --checkpoint --log --plot lenet mlp \
    "Exit status" NO_COLOR; do
    check "help has $word" grep -q -- "$word" help.out
done
for variable in $(grep -rhoE '(getenv|dpti_environment|dpti_environment_trusted)\("DPTRAIN_[A-Z_]+' \
    "$SRC/core" "$SRC/backends" "$SRC/cli" | sed 's/.*"//'); do
    check "help has $variable" grep -q -- "$variable" help.out
    check "docs have $variable" grep -rqF -- "$variable" "$SRC/docs"
done
check "version" test "$("$DPTRAIN" -V)" = "dptrain $(sed -n 's/#define DPT_VERSION "\(.*\)"/\1/p' \
    "$SRC/core/dptrain/context.h")"
check "an option's beginning is enough" "$DPTRAIN" --vers >/dev/null
"$DPTRAIN" --precision fp32 --schedule constant --optimizer sgd "${small[@]}" 2>accepted.err
code=$?
check "values that are there are accepted: $(cat accepted.err)" test $code -eq 0
finish
