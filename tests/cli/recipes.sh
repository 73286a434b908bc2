#!/usr/bin/env bash
# Optimizers, schedules, data options: each does what it says, seen in logs and weights.
. "$SRC/tests/cli/kit.bash"
need_python

small=(--dataset synthetic:8x8x1:3:200 --model mlp --batch-size 64 --quiet --seed 5) # 4 steps an epoch
one=("${small[@]}" --max-steps 1)

# What the checks below import: tensors of a checkpoint and events of a log, without numpy.
cat >recipe.py <<'PYTHON'
import array, json, math, struct
def weights(folder, name="model"):
    data = open(f"{folder}/{name}.safetensors", "rb").read()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: array.array("f", data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in header.items()}
def change(a, b): # tensor by tensor, the differences b - a
    return {k: [y - x for x, y in zip(a[k], b[k])] for k in a}
def norm(tensors):
    return math.sqrt(sum(x * x for t in tensors.values() for x in t))
def events(path, kind):
    return [e for e in map(json.loads, open(path)) if e["event"] == kind]
def values(path, kind, key):
    return [e[key] for e in events(path, kind)]
PYTHON
export PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1

# ---- Schedules ----
train "${small[@]}" --epochs 3 --lr 0.2 --log constant.jsonl
train "${small[@]}" --epochs 3 --lr 0.2 --schedule step --step-every 1 --step-factor 0.5 --log step.jsonl
train "${small[@]}" --epochs 3 --lr 0.2 --schedule cosine --warmup 3 --log cosine.jsonl
train "${small[@]}" --max-steps 10 --lr 0.2 --schedule onecycle --log onecycle.jsonl
train "${small[@]}" --epochs 3 --lr 0.2 --warmup 2epochs --log warmup.jsonl
train "${small[@]}" --max-steps 2 --lr 0.2 --lr-base-batch 32 --log scaled.jsonl
check "learning rates" python3 - <<'PYTHON'
from recipe import *
def near(path, rates):
    got = values(path, "step", "lr")
    assert len(got) == len(rates), (path, got)
    assert all(abs(g - r) < 1e-7 for g, r in zip(got, rates)), (path, got, rates)
near("constant.jsonl", [0.2] * 12)
near("step.jsonl", [0.2] * 4 + [0.1] * 4 + [0.05] * 4)
near("cosine.jsonl", [min(1, (t + 1) / 3) * 0.1 * (1 + math.cos(math.pi * t / 12)) for t in range(12)])
got = values("onecycle.jsonl", "step", "lr")
assert abs(got[0] - 0.2 / 25) < 1e-7 and abs(got[2] - 0.2) < 1e-7 and got[9] < 1e-6, got
near("warmup.jsonl", [0.2 * min(1, (t + 1) / 8) for t in range(12)])
near("scaled.jsonl", [0.4] * 2)
PYTHON

# ---- Optimizers ----
train "${one[@]}" --lr 1e-9 --checkpoint initial
train "${one[@]}" --lr 0.5 --checkpoint sgd
train "${one[@]}" --lr 0.5 --weight-decay 0.25 --checkpoint decayed
train "${one[@]}" --lr 0.5 --weight-decay 0.25 --no-bias-decay --checkpoint partly
train "${one[@]}" --lr 0.5 --clip-norm 0.001 --checkpoint clipped
train "${one[@]}" --lr 0.01 --optimizer adamw --checkpoint adamw
train "${one[@]}" --optimizer adamw --log default.jsonl
train "${one[@]}" --lr 0.01 --optimizer adamw --epsilon 0.5 --checkpoint blunt
train "${one[@]}" --lr 0.01 --optimizer adamw --weight-decay 0.5 --checkpoint decoupled
check "weight decay, clipping, AdamW" python3 - <<'PYTHON'
from recipe import *
initial, sgd = weights("initial"), weights("sgd")
def shrinks(plain, decayed, rate, names): # by rate times the first weights, where it decays
    for name, difference in change(weights(plain), weights(decayed)).items():
        factor = -rate if name.endswith(names) else 0
        assert all(abs(d - factor * w) < 1e-6 for d, w in zip(difference, initial[name])), name
assert any(abs(b) > 0.01 for b in initial["fc1.bias"])
shrinks("sgd", "decayed", 0.5 * 0.25, (".weight", ".bias"))
shrinks("sgd", "partly", 0.5 * 0.25, (".weight",))
step = norm(change(initial, sgd))
assert step > 0.5 * 0.01
assert abs(norm(change(initial, weights("clipped"))) / (0.5 * 0.001) - 1) < 1e-2
largest = lambda folder: max(abs(x) for t in change(initial, weights(folder)).values() for x in t)
# The first step of AdamW is lr * g / (|g| + epsilon).
assert abs(largest("adamw") / 0.01 - 1) < 1e-2, largest("adamw")
assert largest("blunt") < 0.005, largest("blunt")
shrinks("adamw", "decoupled", 0.01 * 0.5, (".weight", ".bias"))
assert abs(values("default.jsonl", "step", "lr")[0] - 0.001) < 1e-9
PYTHON
three=("${small[@]}" --max-steps 3 --optimizer adamw --lr 0.01)
train "${three[@]}" --checkpoint betas
train "${three[@]}" --beta1 0.5 --checkpoint beta1
train "${three[@]}" --beta2 0.5 --checkpoint beta2
train "${three[@]}" --beta1 0.9 --beta2 0.999 --epsilon 1e-8 --checkpoint same
check "betas matter" test -n "$(cmp betas/model.safetensors beta1/model.safetensors)" \
    -a -n "$(cmp betas/model.safetensors beta2/model.safetensors)"
check "the defaults are PyTorch's" cmp betas/model.safetensors same/model.safetensors

# ---- Label smoothing, class weights and augmentation: of training alone ----
still=("${small[@]}" --epochs 1 --lr 1e-9)
train "${still[@]}" --log plain.jsonl
for option in label-smoothing=0.2 class-weights=1,5,0.25 augment=crop augment=crop:1 augment=flip augment=erase:1 \
    augment=rotate:30 augment=jitter:0.5 augment=randaugment augment=mixup:0.4 augment=cutmix; do
    train "${still[@]}" "--$option" --log changed.jsonl
    check "--$option changes training, not the test" python3 - <<'PYTHON'
from recipe import *
plain, changed = (values(f"{run}.jsonl", "epoch", "train_loss")[0] for run in ("plain", "changed"))
assert abs(plain - changed) > 1e-6, (plain, changed)
plain, changed = (values(f"{run}.jsonl", "epoch", "test_loss")[0] for run in ("plain", "changed"))
assert abs(plain - changed) < 1e-6, (plain, changed)
PYTHON
done
refuse 2 "2 class weights are given, but model mlp has 3 classes" train "${still[@]}" --class-weights 1,2
for list in 1,,2 1,-2,1 1,2,x; do
    refuse 2 "'$list' is not a list of numbers" train "${still[@]}" "--class-weights=$list"
done
for run in a b; do
    train "${small[@]}" --epochs 1 --augment crop:2,flip,erase:0.5,rotate:9,jitter:0.4:0.4:0.4:0.1 --checkpoint augmented-$run
done
check "augmentation follows the seed" cmp augmented-a/model.safetensors augmented-b/model.safetensors

# ---- Groups of parameters ----
grouped=("${small[@]}" --momentum 0.9 --weight-decay 0.01 --lr 0.1 --freeze 'fc1.*' --group '*.bias:lr=2:decay=0,*:lr=0.5')
train "${grouped[@]}" --epochs 2 --checkpoint grouped
train "${small[@]}" --freeze '*' --max-steps 1 --checkpoint frozen
train "${grouped[@]}" --epochs 2 --devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --split 13:2:1 --checkpoint grouped-mix
train "${grouped[@]}" --epochs 1 --checkpoint grouped-parts
train "${grouped[@]}" --epochs 2 --checkpoint grouped-parts --resume
check "a resumed training with groups has the same weights" cmp grouped/model.safetensors grouped-parts/model.safetensors
check "frozen tensors keep their bits, also on a mix" python3 - <<'PYTHON'
from recipe import *
before, after, mix = weights("frozen"), weights("grouped"), weights("grouped-mix")
frozen = [k for k in before if k.startswith("fc1.")]
assert 0 < len(frozen) < len(before), list(before)
for k in before:
    assert (before[k] == after[k]) == (k in frozen), k
    assert (before[k] == mix[k]) == (k in frozen), k
    assert max(abs(a - b) for a, b in zip(after[k], mix[k])) < 1e-4, k
PYTHON
check "plan says how many parameters are trained" grep -qE '^[0-9]+ of the [0-9]+ parameters are trained' \
    <("$DPTRAIN" plan --dataset synthetic:8x8x1:3:200 --model mlp --freeze 'fc1.*' 2>err.txt)
refuse 2 "pattern fc9.* matches no tensor of model mlp" train "${small[@]}" --freeze 'fc9.*'
for list in a:lr=0 a:lr=x a:rate=1 a, :lr=1 a; do
    refuse 2 "'$list' is not a list of groups" train "${small[@]}" --group "$list"
done
refuse 2 "'a:lr=1' is not a list of at most 64 patterns" train "${small[@]}" --freeze a:lr=1

# ---- Micro-batches and batch-norm ----
train "${small[@]}" --epochs 2 --log whole.jsonl --checkpoint whole
train "${small[@]}" --epochs 2 --micro-batch 10 --log micro.jsonl --checkpoint micro
check "micro-batches are the same training" python3 - <<'PYTHON'
from recipe import *
pairs = list(zip(values("whole.jsonl", "step", "loss"), values("micro.jsonl", "step", "loss")))
assert len(pairs) == 8 and all(abs(a - b) < 1e-4 * a for a, b in pairs), pairs
PYTHON
# Sums in another order: the passes have been made.
check "micro-batches round differently" test -n "$(cmp whole/model.safetensors micro/model.safetensors)"
norms=(--dataset synthetic:8x8x1:3:32 --model resnet18 --batch-size 16 --max-steps 2 --lr 0.01 --quiet)
two=(--devices cpu:threads=1,cpu:threads=1 --split 3:1)
train "${norms[@]}" --devices cpu:threads=1 --log alone.jsonl
train "${norms[@]}" "${two[@]}" --batchnorm sync --log sync.jsonl
train "${norms[@]}" "${two[@]}" --batchnorm local --log local.jsonl
check "batch-norm over all devices, or over each" python3 - <<'PYTHON'
from recipe import *
alone, sync, local = (values(f"{run}.jsonl", "step", "loss")[0] for run in ("alone", "sync", "local"))
assert abs(sync - alone) < 1e-4, (sync, alone)
assert abs(local - alone) > 1e-3, (local, alone)
PYTHON

# ---- Validation, patience, the best weights ----
# After the second epoch the rate is so low that no weight moves.
train "${small[@]:0:6}" --seed 5 --epochs 20 --schedule step --step-every 1 --step-factor 1e-5 \
    --validation 0.1 --patience 2 --checkpoint best --log best.jsonl
check "validation is shown" grep -qE '^epoch 1/20 .* validation loss [0-9.]+ accuracy [0-9.]+  test loss' \
    train.out
check "its size is shown" grep -qE '^ +and 20 for validation' train.out
check "the end is explained" grep -qx 'ended: no lower validation loss in 2 epochs' train.out
check "the best epoch is told" grep -qE ', best validation loss [0-9.]+ in epoch [0-9]+$' train.out
check "the best weights are named" grep -q 'wrote best/model.safetensors, best/best.safetensors' train.out
check "the best epoch" python3 - <<'PYTHON'
from recipe import *
losses, done = values("best.jsonl", "epoch", "validation_loss"), events("best.jsonl", "done")[0]
assert done["epochs"] == len(losses) < 20
assert done["best_validation_loss"] == min(losses)
assert done["best_epoch"] == losses.index(min(losses)) + 1 == len(losses) - 2
assert [e["samples"] for e in events("best.jsonl", "step")][:3] == [64, 64, 52] # 180 are left
assert weights("best", "best").keys() == weights("best").keys()
PYTHON
for seed in 5 6; do # the same weights, so that only the division differs
    train "${still[@]}" --load initial/model.safetensors --validation 0.1 --seed $seed --log $seed.jsonl
done
check "the seed divides the data" python3 - <<'PYTHON'
from recipe import *
five, six = (values(f"{seed}.jsonl", "epoch", "validation_loss")[0] for seed in (5, 6))
assert abs(five - six) > 1e-5, (five, six)
PYTHON

# ---- Normalisation ----
train "${small[@]}" --epochs 2 --normalize --validation 0.25 --checkpoint normal --log normal.jsonl
evaluate() { # the loss of eval, with further options
    "$DPTRAIN" eval "${small[@]:0:4}" --checkpoint normal "$@" | sed -n 's/.*loss \([0-9.]*\) .*/\1/p'
}
loss=$(python3 -c 'from recipe import *; print("%.4f" % values("normal.jsonl", "epoch", "test_loss")[-1])')
check "eval --normalize gives $loss" test "$(evaluate --normalize)" = "$loss"
check "so does eval without it" test "$(evaluate)" = "$loss"
train "${one[@]}" --log raw.jsonl
train "${one[@]}" --normalize --log scaled.jsonl
check "--normalize changes what is trained" python3 - <<'PYTHON'
from recipe import *
assert values("raw.jsonl", "step", "loss") != values("scaled.jsonl", "step", "loss")
PYTHON
finish
