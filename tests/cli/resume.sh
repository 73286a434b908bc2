# Going on with an interrupted training: signals, what is said, what is refused, the log.
# shellcheck source=tests/cli/kit.bash
. "$SRC/tests/cli/kit.bash"
need_python

common=(--dataset synthetic:12x12x1:4:200 --model mlp --batch-size 32 --momentum 0.9 --lr 0.02
    --devices cpu:threads=1,cpu:threads=1 --split 2:1)
rm -rf whole run second slow wished third fourth other busy full better parts cut ended stray passes ways *.jsonl *.svg

# Mistakes of the command line
refuse 2 "--resume needs --checkpoint DIR" "${common[@]}" --resume
refuse 2 "--checkpoint-every goes with --checkpoint" "${common[@]}" --checkpoint-every 5
refuse 2 "--checkpoint-keep goes with --checkpoint" "${common[@]}" --checkpoint-keep 5
refuse 2 "'5x' is not a number of steps, epochs or seconds" "${common[@]}" --checkpoint run \
    --checkpoint-every 5x
refuse 2 "'0' is not a whole number from 1" "${common[@]}" --checkpoint run --checkpoint-keep 0

refuse 2 "--requeue-exit goes with --checkpoint" "${common[@]}" --requeue-exit 75
refuse 2 "'3' is not a whole number from 4" "${common[@]}" --checkpoint run --requeue-exit 3

# SIGINT, SIGTERM and SIGHUP end in good order, with a checkpoint.
train "${common[@]}" --epochs 30 --checkpoint whole --log whole.jsonl --quiet
check "signals" python3 - "$DPTRAIN" "${common[@]}" <<'PYTHON'
import os, signal, subprocess, sys, time
def start(*more):
    return subprocess.Popen(
        [sys.argv[1], "train"] + sys.argv[2:] + ["--quiet", "--checkpoint=run", "--log=run.jsonl", "--resume",
        "--checkpoint-every=1h"] + list(more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
def steps():
    return open("run.jsonl").read().count('"event":"step"') if os.path.exists("run.jsonl") else 0
before = 0
for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    process = start("--epochs=30")
    for _ in range(3000):
        if steps() > before + 5:
            break
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, (process.returncode, stderr)
    assert stderr == "dptrain: ended early by signal %d; --resume continues\n" % number, stderr
    files = [f for f in os.listdir("run") if f.startswith("checkpoint-")]
    before = max(int(f[11:20]) for f in files)
    assert 5 < before < 150, files
# A second one at once, of the other kind, counts as the first: both are there when the process goes on.
process = start("--max-time=300", "--log=second.jsonl", "--checkpoint=second")
for _ in range(3000):
    if os.path.exists("second.jsonl") and '"step"' in open("second.jsonl").read():
        break
    time.sleep(0.01)
for number in signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT:
    process.send_signal(number)
process.communicate(timeout=60)
assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM), process.returncode
assert any(name.startswith("checkpoint-") for name in os.listdir("second")), os.listdir("second")
# A later one kills.  A step takes longer than the time between the two.
process = start("--max-time=300", "--log=slow.jsonl", "--checkpoint=slow", "--devices=cpu:threads=1:throttle=100000",
    "--split=equal")
while not os.path.exists("slow.jsonl"):
    time.sleep(0.01)
time.sleep(0.5)
process.send_signal(signal.SIGTERM)
time.sleep(4.5)
assert process.poll() is None, process.returncode
process.send_signal(signal.SIGTERM)
process.communicate(timeout=60)
assert process.returncode == -signal.SIGTERM, process.returncode
# Of a terminal that closes there may be several, and nohup has them ignored.
process = start("--max-time=300", "--log=third.jsonl", "--checkpoint=third")
while not (os.path.exists("third.jsonl") and '"step"' in open("third.jsonl").read()):
    time.sleep(0.01)
for number in signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT:
    process.send_signal(number)
process.communicate(timeout=60)
assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGHUP), process.returncode
# SIGUSR1 and SIGUSR2 make a checkpoint, and training goes on; or they end it with a status of the user's.
def checkpoints(folder):
    return [f for f in os.listdir(folder) if f.startswith("checkpoint-")] if os.path.exists(folder) else []
process = start("--epochs=200000", "--log=wished.jsonl", "--checkpoint=wished")
for number in signal.SIGUSR1, signal.SIGUSR2:
    before = checkpoints("wished")
    while not (os.path.exists("wished.jsonl") and '"step"' in open("wished.jsonl").read()):
        time.sleep(0.01)
    process.send_signal(number)
    for _ in range(3000):
        if checkpoints("wished") not in ([], before):
            break
        time.sleep(0.01)
    assert checkpoints("wished") not in ([], before), (number, before)
    assert process.poll() is None, process.returncode
process.kill()
process.communicate(timeout=60)
process = start("--epochs=200000", "--log=wished.jsonl", "--checkpoint=wished", "--requeue-exit=75")
time.sleep(0.5)
process.send_signal(signal.SIGUSR1)
_, stderr = process.communicate(timeout=60)
assert process.returncode == 75, (process.returncode, stderr)
assert "ended early by signal 10; --resume continues" in stderr, stderr
# Without a folder there is nothing to write.
process = subprocess.Popen([sys.argv[1], "train"] + sys.argv[2:] + ["--epochs=200000", "--log=bare.jsonl"],
    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
while not (os.path.exists("bare.jsonl") and '"step"' in open("bare.jsonl").read()):
    time.sleep(0.01)
process.send_signal(signal.SIGUSR1)
time.sleep(0.5)
assert process.poll() is None, process.returncode
process.send_signal(signal.SIGTERM)
_, stderr = process.communicate(timeout=60)
assert process.returncode == 143 and "signal 10: no checkpoint is written without --checkpoint" in stderr, stderr
signal.signal(signal.SIGHUP, signal.SIG_IGN)
process = start("--max-steps=400", "--log=fourth.jsonl", "--checkpoint=fourth")
while not (os.path.exists("fourth.jsonl") and '"step"' in open("fourth.jsonl").read()):
    time.sleep(0.01)
process.send_signal(signal.SIGHUP)
process.communicate(timeout=300) # the whole training, on a machine that has other work
assert process.returncode == 0, process.returncode
PYTHON
refuse 2 "run has the checkpoints of a training that was interrupted: resume it" "${common[@]}" \
    --epochs 30 --checkpoint run --quiet
refuse 2 "of a training with another seed \(0, and now it is 1\)" "${common[@]}" --epochs 30 --quiet \
    --checkpoint run --resume --seed 1
refuse 2 "of a training with another batch-size \(32, and now it is 16\)" "${common[@]}" --epochs 30 \
    --quiet --checkpoint run --resume --batch-size 16
refuse 2 "of a training with another lr \(0.02, and now it is 0.03\)" "${common[@]}" --epochs 30 --quiet --checkpoint run --resume \
    --lr 0.03
refuse 2 "of a training with another model" "${common[@]}" --epochs 30 --quiet --checkpoint run \
    --resume --model linear
refuse 2 "of a training with another dataset" "${common[@]}" --epochs 30 --quiet --checkpoint run \
    --resume --dataset synthetic:12x12x1:4:201
refuse 2 "another dataset .*: give the same \(--dataset, --data, --validation\), or .* weights \(--load\)" \
    "${common[@]}" --epochs 30 --quiet --checkpoint run --resume --validation 0.2
refuse 2 "another normalize .*: give the same \(--normalize\), or" "${common[@]}" --epochs 30 --quiet \
    --checkpoint run --resume --normalize
refuse 2 "another loss \(cross-entropy, and now it is cross-entropy, class weights .*\(--loss, --class-weights\)" \
    "${common[@]}" --epochs 30 --quiet --checkpoint run --resume --class-weights 1,2,3,4
refuse 2 "another optimizer \(sgd, and now it is sgd, groups .*\(--optimizer, --freeze, --group\)" \
    "${common[@]}" --epochs 30 --quiet --checkpoint run --resume --freeze '*.bias'
refuse 2 "of a training with another optimizer" "${common[@]:0:6}" --epochs 30 --quiet \
    --checkpoint run --resume --optimizer adamw
check "nothing was lost" test "$(find run -name 'checkpoint-*' | wc -l)" -ge 1

# The rest: the weights of the whole, and a log that is replayed like that of the whole.
train "${common[@]}" --epochs 30 --checkpoint run --log run.jsonl --resume
check "what is resumed is said" grep -q "^dptrain: resuming from run/checkpoint-0" train.err
check "the same weights" cmp run/model.safetensors whole/model.safetensors
check "the log" python3 - <<'PYTHON'
import json, os
def events(path):
    return [json.loads(line) for line in open(path)]
run, whole = events("run.jsonl"), events("whole.jsonl")
assert [e["event"] for e in run].count("run") == 1 and [e["event"] for e in run].count("done") == 1
resumes = [e for e in run if e["event"] == "resume"]
assert len(resumes) == 3 and all(len(e["devices"]) == 2 for e in resumes), resumes
pick = lambda log: [(e["step"], e["loss"], e["shards"]) for e in log if e["event"] == "step"]
assert pick(run) == pick(whole)
pick = lambda log: [(e["epoch"], e["train_loss"], e["test_loss"]) for e in log if e["event"] == "epoch"]
assert pick(run) == pick(whole)
# 7 steps an epoch, a checkpoint behind the first; then one behind each, later where one is still being
# written, and none where it is for the whole of the next; and one behind the last step at any rate.
kept = [e for e in whole if e["event"] == "checkpoint"]
assert kept[0]["step"] == 7 and kept[-1]["step"] == 210, kept
# One that is made before the evaluation may be made again behind it.
kinds = sorted({e["step"] for e in kept})
assert [e["step"] for e in kept] == sorted(e["step"] for e in kept), kept
assert all(a // 7 < b // 7 for a, b in zip(kinds, kinds[1:])), kept
assert all(e["step"] % 7 == 0 for a, e in zip(kept, kept[1:]) if a["step"] == e["step"]), kept
size = os.path.getsize("whole/checkpoint-000000210.safetensors")
for e in kept:
    assert abs(e["bytes"] - size) < 4096, (e, size)
    assert 0 < e["stopped_seconds"] and 0 < e["processor_seconds"] <= e["write_seconds"] + 0.02, e # two clocks
assert run[-1]["steps"] == whole[-1]["steps"] and run[-1]["epochs"] == whole[-1]["epochs"]
PYTHON
train "${common[@]:0:12}" --split replay:run.jsonl --epochs 30 --checkpoint other --quiet
check "the log is replayed" cmp other/model.safetensors whole/model.safetensors

# The weights that it began with are needed until there is a checkpoint, and not after.
rm -rf loaded
refuse 1 "cannot read no.safetensors" "${common[@]}" --load no.safetensors --checkpoint loaded --resume
cp whole/model.safetensors first.safetensors
train "${common[@]}" --load first.safetensors --epochs 2 --checkpoint loaded --resume --quiet
rm first.safetensors
train "${common[@]}" --load first.safetensors --epochs 3 --checkpoint loaded --resume --quiet

# A training that has ended: again, longer, anew.
rm run/model.safetensors
train "${common[@]}" --epochs 30 --checkpoint run --log run.jsonl --resume --quiet --plot all.svg
check "the plot has what the log has" grep -q ", 210 steps, .*</text>" all.svg
check "and its epochs" grep -q ">30</text>" all.svg
check "nothing more to do" cmp run/model.safetensors whole/model.safetensors
train "${common[@]}" --epochs 31 --checkpoint run --resume --quiet --plot more.svg
check "the plot has numbers of the training" grep -q ", steps 211 to 217, .*</text>" more.svg
check "and of its epochs" grep -q ">31</text>" more.svg
rm -rf whole
train "${common[@]}" --epochs 31 --checkpoint whole --quiet
check "more epochs" cmp run/model.safetensors whole/model.safetensors
train "${common[@]}" --epochs 2 --checkpoint run --quiet
check "anew: those of before are gone" test "$(ls run | grep -c checkpoint-)" -eq 2

# Anew, and killed before its first checkpoint: those of before are not taken for its own.
"$DPTRAIN" train "${common[@]}" --max-time 300 --checkpoint run --checkpoint-every 1h --log killed.jsonl \
    --quiet >killed.out 2>&1 &
for ((i = 0; i < 300; i++)); do
    if grep -q '"event":"step"' killed.jsonl 2>/dev/null; then break; fi
    sleep 0.1
done
kill -KILL $!
wait $! 2>/dev/null
check "they have other names" test "$(ls run | grep -c '^old-checkpoint-')" -eq 2 -a \
    "$(ls run | grep -c '^checkpoint-')" -eq 0
refuse 2 "run has checkpoints of an earlier training only: .*leave out --resume to begin the later training again" \
    "${common[@]}" --epochs 2 --checkpoint run --resume --quiet
check "they are kept" test "$(ls run | grep -c '^old-checkpoint-')" -eq 2
train "${common[@]}" --epochs 2 --checkpoint run --quiet
check "they are gone" test "$(ls run | grep -c old-)" -eq 0
train "${common[@]}" --epochs 1 --checkpoint run --quiet
check "it is told that they go" grep -q "warning: run has the checkpoints of a training that ended at step 14" train.err

# A stray training that fails before its first checkpoint leaves what was there, best weights included.
train "${common[@]}" --epochs 2 --validation 0.2 --checkpoint ended --quiet
cp -r ended stray
"$DPTRAIN" train "${common[@]}" --validation 0.2 --epochs 3 --lr 1000 --checkpoint stray --quiet 2>stray.err
check "it fails" test $? -eq 1
check "behind what it would have replaced" test "$(wc -l <stray.err)" -eq 2
check "it says why" grep -q "not finite" stray.err
check "all is as it was" diff -r ended stray
train "${common[@]}" --epochs 3 --validation 0.2 --checkpoint stray --resume
check "and goes on" grep -q "resuming from stray/checkpoint-000000010" train.err
train "${common[@]}" --epochs 1 --checkpoint stray --quiet
check "the best weights of before do not stay beside those of another" test ! -e stray/best.safetensors
check "nor aside" test "$(ls stray | grep -c old-)" -eq 0

# The best weights: of whole epochs where there is one, and missed where they are not there.
best=("${common[@]}" --validation 0.2 --quiet)
train "${best[@]}" --epochs 4 --checkpoint better
train "${best[@]}" --max-steps 8 --checkpoint parts # five an epoch
train "${best[@]}" --max-steps 13 --checkpoint parts --resume
train "${best[@]}" --epochs 4 --checkpoint parts --resume
check "the best weights of parts" cmp better/best.safetensors parts/best.safetensors
rm better/best.safetensors
checks=$((checks + 1))
"$DPTRAIN" train "${best[@]}" --epochs 4 --checkpoint better --resume >train.out 2>train.err
[ $? -eq 1 ] && grep -q "best.safetensors is not that of the best epoch" train.err ||
    fail "best weights that are gone: $(cat train.err)"

# The log of another training is left alone.
sed 's/"batch_size":32/"batch_size":33/' run.jsonl >kept.jsonl
refuse 2 "kept.jsonl is not the log of the training that is resumed" "${common[@]}" --epochs 3 \
    --checkpoint run --resume --quiet --log kept.jsonl
check "untouched" grep -q '"batch_size":33' kept.jsonl

# Another mix goes on.
train "${common[@]:0:10}" --epochs 3 --checkpoint run --resume --quiet --devices cpu:threads=2 --split equal

# One process at a time.
check "a folder in use" python3 - "$DPTRAIN" "${common[@]}" <<'PYTHON'
import os, signal, subprocess, sys, time
command = [sys.argv[1], "train"] + sys.argv[2:] + ["--quiet", "--max-time=300", "--checkpoint=busy",
    "--checkpoint-every=1steps", "--resume"]
first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
for _ in range(3000):
    if os.path.isdir("busy") and any(f.startswith("checkpoint-") for f in os.listdir("busy")):
        break
    time.sleep(0.01)
second = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
assert second.returncode == 1 and "another training writes its checkpoints to busy" in second.stderr, second
first.send_signal(signal.SIGKILL)
first.wait()
PYTHON

# A disk that is full in the middle: a warning, and training goes on; full in the end: a failure.
if command -v prlimit >/dev/null; then
    check "a full disk" python3 - "$DPTRAIN" "${common[@]}" <<'PYTHON'
import os, shutil, signal, subprocess, sys, time
for folder in "full",:
    shutil.rmtree(folder, ignore_errors=True)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN) # inherited: writes fail, as on a full disk
def wait_for(what):
    for _ in range(3000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("waited too long")
process = subprocess.Popen([sys.argv[1], "train"] + sys.argv[2:] + ["--quiet", "--max-steps=400",
    "--checkpoint=full", "--checkpoint-every=2steps"], stderr=subprocess.PIPE, text=True, restore_signals=False)
written = lambda: sorted(f for f in os.listdir("full") if f.startswith("checkpoint-")) \
    if os.path.isdir("full") else []
wait_for(lambda: len(written()) == 2)
limit = lambda n: subprocess.run(["prlimit", "--pid", str(process.pid), "--fsize=%s:" % n], check=True)
limit(5000)
warning = process.stderr.readline() # waits for the first checkpoint that cannot be written
during = written()
assert process.poll() is None and during, (process.poll(), warning)
limit("unlimited")
_, stderr = process.communicate(timeout=120)
stderr = warning + stderr
assert process.returncode == 0, stderr
assert 1 <= stderr.count("warning: cannot write full/") == stderr.count("\n") <= 2, stderr
assert written()[-1] > during[-1] and written()[-1] == "checkpoint-000000400.safetensors", written()
PYTHON
fi
# A log that cannot be written ends training, and what it lacks is told.
few=(--dataset synthetic:8x8x1:2:8000 --model linear --batch-size 16 --devices cpu:threads=1 --quiet)
(ulimit -f 16 && exec "$DPTRAIN" train "${few[@]}" --max-steps 400 --checkpoint cut --log cut.jsonl) >cut.out 2>&1
check "a log that is full: $(cat cut.out)" grep -q "^dptrain: cannot write.*cut.jsonl" cut.out
train "${few[@]}" --max-steps 400 --checkpoint cut --log cut.jsonl --resume
steps=$(grep -c '"event":"step"' cut.jsonl)
check "every step, or a word about the others: $steps, $(cat train.err)" \
    test "$steps" -eq 400 -o "$(grep -c 'cut.jsonl lacks steps [0-9]* to [0-9]*' train.err)" -eq 1

# Steps of several batches: checkpoints are taken between steps.
rm -rf several part
train "${common[@]}" --accumulate 2 --max-steps 9 --quiet --checkpoint several --log several.jsonl
train "${common[@]}" --accumulate 2 --max-steps 5 --quiet --checkpoint part --log part.jsonl
refuse 2 "of a training with another batch-size \(32 x 2, and now it is 32 x 3\)" "${common[@]}" --accumulate 3 --max-steps 9 --quiet \
    --checkpoint part --resume
refuse 2 "of a training with another batch-size \(32 x 2, and now it is 32\)" "${common[@]}" --max-steps 9 --quiet --checkpoint part \
    --resume
train "${common[@]}" --accumulate 2 --max-steps 9 --quiet --checkpoint part --log part.jsonl --resume
check "steps of several batches, resumed" cmp -s several/model.safetensors part/model.safetensors
check "the log has them" grep -q '"batch_size":64,"accumulate":2' several.jsonl
train "${common[@]}" --accumulate 2 --max-steps 9 --quiet --checkpoint again --split replay:several.jsonl
check "and replayed" cmp -s several/model.safetensors again/model.safetensors

# A log that went on in other passes is repeated in those that it began with, and that is said.
train "${common[@]}" --max-steps 4 --micro-batch 32 --quiet --checkpoint passes --log passes.jsonl
train "${common[@]}" --max-steps 8 --micro-batch 4 --quiet --checkpoint passes --log passes.jsonl --resume
train "${common[@]:0:12}" --max-steps 8 --split replay:passes.jsonl
check "other passes are told: $(cat train.err)" \
    grep -q "went on at step 5 with another .*micro_batch.* within rounding, not to the bit" train.err
train "${common[@]:0:12}" --max-steps 4 --split replay:passes.jsonl
check "but where they are repeated: $(cat train.err)" test ! -s train.err
# Or by other algorithms.
export DPTRAIN_CPU_ALGORITHM=direct
train "${common[@]}" --max-steps 4 --quiet --checkpoint ways --log ways.jsonl
train "${common[@]}" --max-steps 6 --quiet --checkpoint ways --log ways.jsonl --resume
train "${common[@]:0:12}" --max-steps 6 --split replay:ways.jsonl
check "the same algorithms: $(cat train.err)" test ! -s train.err
DPTRAIN_CPU_ALGORITHM=packed train "${common[@]}" --max-steps 8 --quiet --checkpoint ways --log ways.jsonl --resume
train "${common[@]:0:12}" --max-steps 8 --split replay:ways.jsonl
check "other algorithms are told: $(cat train.err)" \
    grep -q "went on at step 7 with another .*algorithm.* within rounding, not to the bit" train.err
refuse 2 "a step of 7 batches of 32 is more than the 200 samples" "${common[@]}" --accumulate 7 --quiet
finish
