#!/usr/bin/env bash
# --config and --save-config.  tests/settings tests all options and mistakes within files.
. "$SRC/tests/cli/kit.bash"

cat >run.toml <<'EOF'
# of train, eval and plan
dataset = "synthetic:8x8x1:3:64"
model = "linear"
devices = ["cpu:threads=1"]
batch-size = 10

[train]
max-steps = 6
lr = 1e-2
momentum = 0.5
seed = 7
checkpoint = "out"
EOF

# The options of the file, and those of the command line in their place
train --config run.toml --lr 0.02 --save-config saved.toml
check "the header names the file" grep -qx "settings  run.toml" train.out
check "options of the file and the command line" \
    grep -q "^training  batch 10, sgd, lr 0.02, momentum 0.5, weight decay 0, seed 7$" train.out
check "steps of the file" grep -q "^trained 6 steps" train.out
check "what was saved: $(cat saved.toml)" [ "$(sed 1d saved.toml)" = 'devices = "cpu:threads=1"
model = "linear"
dataset = "synthetic:8x8x1:3:64"
batch-size = 10
max-steps = 6
seed = 7
lr = 0.02
momentum = 0.5
checkpoint = "out"' ]
cp out/model.safetensors first.safetensors
rm -r out

# What was saved is the same run
train --config saved.toml --save-config again.toml
check "the same weights" cmp out/model.safetensors first.safetensors
check "saved again, the same file" cmp saved.toml again.toml
train --config run.toml --lr 0.03 --checkpoint other
check "another rate, other weights" eval '! cmp -s other/model.safetensors first.safetensors'

# Other commands: options that are not theirs do not matter
"$DPTRAIN" eval --config run.toml --checkpoint out >eval.out 2>eval.err
check "eval with the file: $(cat eval.err)" grep -q accuracy eval.out
"$DPTRAIN" plan --config run.toml --save-config plan.toml >plan.out 2>plan.err
check "plan with the file: $(cat plan.err)" grep -q "linear" plan.out
check "a plan saves, without the options of train alone" [ "$(grep -c . plan.toml)" -eq 5 ]

# A pipe is a file, too, but not for --supervise
"$DPTRAIN" --config /dev/stdin <run.toml >pipe.out 2>&1
check "from a pipe: $(cat pipe.out)" grep -q "^trained 6 steps" pipe.out
cat run.toml | "$DPTRAIN" --supervise --config /dev/stdin >pipe.out 2>&1
check "not for --supervise" grep -q "no file that can be read again" pipe.out

# With --supervise the file has no --resume, which a child gets when it starts again
train --supervise --config run.toml --checkpoint supervised --save-config supervised.toml --quiet
check "supervised, without resume: $(cat supervised.toml)" eval '! grep -q resume supervised.toml'
check "supervised is saved" grep -qx "supervise = true" supervised.toml

# What is no file of settings
refuse 2 "config: cannot read missing.toml: No such file" --config missing.toml
refuse 2 "config: \. is a folder, not a file of settings" --config .
: >empty.toml
refuse 2 "empty.toml:1: the file is empty" --config empty.toml
printf 'lr = 1\nlog = "\xe4"\n' >latin.toml
refuse 2 "latin.toml:2: a byte here is not UTF-8" --config latin.toml
head -c 1100000 /dev/zero >zero.toml
refuse 2 "zero.toml is longer than 1 MiB" --config zero.toml
echo 'batch_size = 3' >key.toml
refuse 2 "key.toml:1: unknown option batch_size; did you mean batch-size" --config key.toml
echo 'batch-size = 3' >key.toml
refuse 2 "does not go with 'dptrain devices'" devices --config key.toml
refuse 2 "does not go with 'dptrain eval'" eval --save-config key.toml
refuse 1 "cannot write missing/x.toml: No such file or directory; create the folder first" \
    --config run.toml --save-config missing/x.toml
refuse 2 "value of --log is not UTF-8" --config run.toml --log $'\xe4' --save-config x.toml

# Several processes read the file; the first one writes.
if mpi_ready; then
    mpi 120 -n 2 "$DPTRAIN" --config run.toml --checkpoint both --save-config mpi.toml
    check "two processes: $(tail -3 mpi.err)" grep -q "^trained 6 steps" mpi.out
    check "the first process writes" grep -qx 'checkpoint = "both"' mpi.toml
fi
finish
