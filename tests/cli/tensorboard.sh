#!/usr/bin/env bash
# --tensorboard: TensorBoard's own loader reads what the log has (tests/unit/test_events.c reads the
# files without it).  A Python that has it is $DPTRAIN_TEST_PYTHON, or python3.
. "$SRC/tests/cli/kit.bash"

# ---- Without TensorBoard --------------------------------------------------------------------------

quick=(--model linear --batch-size 4 --max-steps 2 --quiet --dataset synthetic:8x8x1:3:64
    --devices cpu:threads=1)
rm -rf ./*/
printf 'kept' >file
refuse 1 "cannot make the folder of TensorBoard's events file: there is a file of that name" \
    "${quick[@]}" --tensorboard file
refuse 1 "cannot make the folder of TensorBoard's events no/where: No such file" \
    "${quick[@]}" --tensorboard no/where
refuse 2 "histograms are written to the events for TensorBoard: give tensorboard" "${quick[@]}" \
    --tensorboard-histograms
mkdir closed
chmod a-w closed
if [ "$(id -u)" -ne 0 ]; then
    refuse 1 "cannot write TensorBoard's events closed/events.out.*: Permission denied" "${quick[@]}" \
        --tensorboard closed
fi
# A file that may not grow ends training with one line.
(ulimit -f 4 && "$DPTRAIN" train "${quick[@]}" --max-steps 400 --epochs 100 --tensorboard full >full.out 2>full.err)
check "full: status $?" test -d full
check "full: one line: $(cat full.err)" test "$(wc -l <full.err)" -eq 1
check "full: which says why" grep -q "^dptrain: cannot write TensorBoard's events full/events.*: File too large" full.err
train "${quick[@]}" --tensorboard plain --tensorboard-histograms
check "one file" test "$(find plain -name 'events.out.tfevents.*' | wc -l)" -eq 1

# A folder has one training: another one is refused before it writes anything, and a resumed one adds a file.
train --dataset synthetic:8x8x1:3:64 --devices cpu:threads=1 --model linear --max-steps 1 --tensorboard named
check "the folder is named" grep -q 'wrote named' train.out
train "${quick[@]}" --max-steps 1 --tensorboard twice --checkpoint kept-twice
printf 'kept' >kept.jsonl
before=$(cksum twice/*)
refuse 2 "twice has the events of another training.*choose another folder, resume that training \(--resume\)" \
    "${quick[@]}" --tensorboard twice --log kept.jsonl
check "nothing is written: $(ls twice)" test "$(cksum twice/*) $(cat kept.jsonl)" = "$before kept"
train "${quick[@]}" --tensorboard twice --checkpoint kept-twice --resume
check "another file" test "$(find twice -name 'events.out.tfevents.*' | wc -l)" -eq 2
# What is interrupted before its first checkpoint is begun again by --resume.
train "${quick[@]}" --tensorboard twice --checkpoint none-yet --resume
check "a third file" test "$(find twice -name 'events.out.tfevents.*' | wc -l)" -eq 3
mkdir other
printf 'notes' >other/notes.txt # other files do not matter, nor do folders of other trainings
cp -r twice other/first
train "${quick[@]}" --tensorboard other
if mpi_ready; then
    both=(-n 2 "$DPTRAIN" "${quick[@]}" --checkpoint kept-both --checkpoint-every 1steps --tensorboard both)
    mpi 120 "${both[@]}"
    check "two processes: status $status: $(cat mpi.err)" test "$status" -eq 0
    mpi 120 "${both[@]}" --checkpoint kept-other
    check "both processes end: status $status" test "$status" -ne 0
    check "with the reason: $(cat mpi.err)" grep -q "both has the events of another training" mpi.err
    mpi 120 "${both[@]}" --max-steps 4 --resume
    check "two processes resume: status $status: $(cat mpi.err)" test "$status" -eq 0
    check "the first process writes" test "$(find both -name 'events.out.tfevents.*' | wc -l)" -eq 2
fi

# ---- With it --------------------------------------------------------------------------------------

python=${DPTRAIN_TEST_PYTHON:-python3}
if ! "$python" -c 'import tensorboard' 2>/dev/null; then
    [ $failures -eq 0 ] || finish
    echo "skipped: $python has no tensorboard; set DPTRAIN_TEST_PYTHON"
    exit 77
fi
cat >board.py <<'PYTHON'
"""What TensorBoard's loader reads of a folder, and what the log has."""
import json, math
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

class Board:
    def __init__(self, folder):
        self.events = plugin_event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0})
        self.events.Reload()
        self.tags = self.events.Tags()["tensors"]

    def curve(self, tag):
        return [(e.step, float(tensor_util.make_ndarray(e.tensor_proto)))
                for e in self.events.Tensors(tag)]

    def plugin(self, tag):
        return self.events.SummaryMetadata(tag).plugin_data

    def texts(self, tag):
        assert self.plugin(tag).plugin_name == "text"
        return [(e.step, e.tensor_proto.string_val[0].decode()) for e in self.events.Tensors(tag)]

def read_log(path):
    return [json.loads(line) for line in open(path)]

def alike(curve, expected):
    assert [s for s, _ in curve] == [s for s, _ in expected], (curve, expected)
    for (_, a), (step, b) in zip(curve, expected):
        assert math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9), (step, a, b)

def compare(board, log):
    events = read_log(log)
    steps = [e for e in events if e["event"] == "step"]
    epochs = [e for e in events if e["event"] == "epoch"]
    devices = events[0]["devices"]
    ends = {e["epoch"]: e["step"] for e in steps}  # the last step of each epoch
    alike(board.curve("loss/step"), [(e["step"], e["loss"]) for e in steps])
    alike(board.curve("accuracy/step"), [(e["step"], e["hits"] / e["samples"]) for e in steps])
    alike(board.curve("learning_rate"), [(e["step"], e["lr"]) for e in steps])
    for part in "train", "validation", "test":
        for what in "loss", "accuracy":
            alike(board.curve(f"{what}/{part}"),
                  [(ends[e["epoch"]], e[f"{part}_{what}"]) for e in epochs])
    alike(board.curve("speed/epoch_images_per_second"),
          [(ends[e["epoch"]], e["images_per_second"]) for e in epochs])
    for i, device in enumerate(devices):
        name = f"{i} {device['id']}"
        alike(board.curve(f"share/{name}"), [(e["step"], e["shards"][i] / e["samples"]) for e in steps])
        for tag, key in (("busy_seconds", "device_seconds"), ("exchange_seconds",) * 2,
                         ("waiting_seconds",) * 2):
            alike(board.curve(f"{tag}/{name}"), [(e["step"], e[key][i]) for e in steps])
    return events
PYTHON
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD
data=synthetic:12x12x1:4:1000

train --dataset "$data" --model mlp --batch-size 128 --validation 0.2 --epochs 3 --momentum 0.5 \
    --devices cpu:threads=1,cpu:threads=1 --tensorboard whole --tensorboard-histograms --log whole.jsonl
check "what the log has" "$python" - <<'PYTHON'
from board import *
board = Board("whole")
events = compare(board, "whole.jsonl")
assert board.plugin("loss/step").plugin_name == "scalars"
(step, text), = board.texts("devices")
assert step == 0 and events[0]["devices"][1]["name"] in text
for name, n in ("fc1.weight", 144 * 1024), ("fc3.bias", 4):
    points = board.events.Tensors(f"weights/{name}")
    assert board.plugin(f"weights/{name}").plugin_name == "histograms" and len(points) == 3
    array = tensor_util.make_ndarray(points[-1].tensor_proto)
    assert array.shape[1] == 3 and (array[:, 0] <= array[:, 1]).all(), array
    assert name != "fc3.bias" or array[:, 2].sum() == n
start = metadata.parse_session_start_info_plugin_data(
    board.plugin(metadata.SESSION_START_INFO_TAG).content)
assert start.hparams["optimizer"].string_value == "sgd"
assert start.hparams["momentum"].number_value == 0.5
assert start.hparams["batch-size"].number_value == 128
end = metadata.parse_session_end_info_plugin_data(board.plugin(metadata.SESSION_END_INFO_TAG).content)
assert end.status == 1
experiment = metadata.parse_experiment_plugin_data(board.plugin(metadata.EXPERIMENT_TAG).content)
assert {m.name.tag for m in experiment.metric_infos} <= set(board.tags)
PYTHON

# A killed training leaves curves beyond its last checkpoint, and the resumed one repeats these steps.
killed=(--dataset synthetic:28x28x1:10:6400 --model mlp --batch-size 256 --validation 0.2 --epochs 300 --quiet
    --devices cpu:threads=1 --tensorboard killed --log killed.jsonl --checkpoint kept --checkpoint-every 50)
"$DPTRAIN" train "${killed[@]}" &
await killed.jsonl
for ((i = 0; i < 1000; i++)); do # until there is a checkpoint, and a board of an epoch behind it
    newest=$(find kept -name 'checkpoint-*.safetensors' | sort | tail -1 | tr -dc 0-9)
    n_steps=$(grep -c '"event":"step"' killed.jsonl)
    if [ -n "$newest" ] && [ $((n_steps - 10#$newest)) -ge 25 ]; then break; fi
    sleep 0.02
done
kill -KILL $!
wait $! 2>/dev/null
train "${killed[@]}" --resume --max-steps $((n_steps / 20 * 20 + 60)) # whole epochs of 20 steps
check "resumed" "$python" - <<'PYTHON'
import glob
from board import *
files = sorted(glob.glob("killed/*"))
assert len(files) == 2, files
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
first, second = ([e for e in EventFileLoader(f).Load()] for f in files)
started = [e.step for e in second if e.HasField("session_log")]
assert len(started) == 1 and 1 < started[0] <= max(e.step for e in first), started  # steps are behind it
events = compare(Board("killed"), "killed.jsonl")
assert any(e["event"] == "resume" for e in events)
PYTHON

# A device that is lost is a text; the training of a language model counts tokens.
export DPTRAIN_BACKEND_PATH=$DPTRAIN_BACKEND_PATH:${DPTRAIN_TEST_FAULT_PATH-}
train --dataset synthetic:28x28x1:10:60 --batch-size 12 --max-steps 12 --quiet --tensorboard lost \
    --devices fault:threads=1:after=3:lost=5,cpu:threads=1
check "lost" "$python" - <<'PYTHON'
from board import *
(step, text), = Board("lost").texts("events")
assert step in (4, 5) and text.startswith("device_lost of device 0, fault:threads=1"), (step, text)
PYTHON
for ((i = 0; i < 300; i++)); do echo "a line of text, $i"; done >text.txt
train --dataset text:16 --data text.txt --model gpt:1:2:16:16 --batch-size 8 --max-steps 5 --quiet \
    --devices cpu:threads=1 --tensorboard text --log text.jsonl
check "tokens" "$python" - <<'PYTHON'
from board import *
board = Board("text")
steps = [e for e in read_log("text.jsonl") if e["event"] == "step"]
alike(board.curve("speed/tokens_per_second"), [(e["step"], 8 * 16 / e["seconds"]) for e in steps])
alike(board.curve("accuracy/step"), [(e["step"], e["hits"] / e["labels"]) for e in steps])
assert len(board.curve("loss/test")) == 1 and len(board.curve("accuracy/test")) == 1
PYTHON
finish
