#!/usr/bin/env bash
# The trace of a training: JSON that tells what the log tells, also when the training is cut short.
. "$SRC/tests/cli/kit.bash"
need_python

cat >read_trace.py <<'PYTHON'
"""The events of a trace, checked for what holds of every one."""
import collections, json

class Trace:
    def __init__(self, text):
        self.events = json.loads(text)
        self.names, self.tracks, self.spans = {}, {}, collections.defaultdict(list)
        for e in self.events:
            assert e["pid"] > 0 and e["name"]
            if e["ph"] == "M":
                if e["name"] == "process_name":
                    assert e["pid"] not in self.names
                    self.names[e["pid"]] = e["args"]["name"]
                if e["name"] == "thread_name":
                    assert e["tid"] not in self.tracks
                    self.tracks[e["tid"]] = (e["pid"], e["args"]["name"])
            elif e["ph"] == "X":
                assert self.tracks[e["tid"]][0] == e["pid"] and e["ts"] >= 0 and e["dur"] >= 0
                self.spans[e["tid"]].append(e)
            else:
                assert e["ph"] in "iC" and e["ts"] >= 0, e
        for spans in self.spans.values():
            ends = 0
            for s in spans:  # in nanoseconds, which are whole
                assert round(1e3 * s["ts"]) >= ends, (s, ends)
                ends = round(1e3 * s["ts"]) + round(1e3 * s["dur"])

    def on(self, process, track):
        """The spans of a track; processes are counted from 0, the host."""
        pid = sorted(self.names)[process]
        tids = [t for t, named in self.tracks.items() if named == (pid, track)]
        assert len(tids) == 1, (process, track)
        return self.spans[tids[0]]

    def check_against(self, log):
        """Sums of spans are the log's times, counters its shards, marks its changes."""
        events = [json.loads(line) for line in open(log)]
        steps = [e for e in events if e["event"] == "step"]
        n = len(events[0]["devices"])
        assert [self.names[p] for p in sorted(self.names)] == \
            ["dptrain"] + [d["id"] for d in events[0]["devices"]]
        for i in range(n):
            sums = {k: collections.defaultdict(float) for k in ("compute", "exchange", "waiting")}
            for track, by_step in sums.items():
                for s in self.on(i + 1, track):
                    by_step[s["args"]["step"]] += 1e-6 * s["dur"]
                    assert s["name"] == track or (track, s["name"]) == ("exchange", "upload")
                    assert s["args"]["samples"] == steps[s["args"]["step"] - 1]["shards"][i]
            for e in steps:
                compute, exchange, waiting = (sums[k][e["step"]] for k in sums)
                assert abs(exchange - e["exchange_seconds"][i]) < 1e-6, (e, exchange)
                assert abs(compute + exchange - e["device_seconds"][i]) < 1e-6, (e, compute)
                assert abs(waiting - e["waiting_seconds"][i]) < 1e-6, (e, waiting)
            pid = sorted(self.names)[i + 1]
            counts = [(e["ts"], e["args"]["value"]) for e in self.events
                      if e["ph"] == "C" and e["name"] == "shard" and e["pid"] == pid]
            changes = [e["shards"][i] for k, e in enumerate(steps)
                       if k == 0 or e["shards"][i] != steps[k - 1]["shards"][i]]
            assert [c[1] for c in counts] == changes and counts == sorted(counts, key=lambda c: c[0])
        assert [s["args"]["step"] for s in self.on(0, "steps")] == [e["step"] for e in steps]
        marks = [e["args"] for e in self.events if e["ph"] == "i"]
        assert marks == [{"step": e["step"], "reason": e["reason"]} for e in events
                         if e["event"] == "rebalance"]
        return steps
PYTHON
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD

data=synthetic:12x12x1:4:1000 # 1000 = 7 * 128 + 104: the last batch is ragged
train --dataset "$data" --model mlp --batch-size 128 --validation 0.2 --epochs 2 --checkpoint run \
    --devices cpu:threads=1,cpu:threads=1:throttle=4 --log run.jsonl --trace run.json
check "the file is named" grep -q 'wrote run/model.safetensors, run/best.safetensors, run.jsonl, run.json' train.out
check "measured shares" python3 - <<'PYTHON'
from read_trace import Trace
trace = Trace(open("run.json").read())
steps = trace.check_against("run.jsonl")
assert len(steps) == 14 and any(e["ph"] == "i" for e in trace.events)
host = [(s["name"], s["args"]["epoch"]) for s in trace.on(0, "epochs") if s["name"] != "checkpoint"]
assert host == [(name, epoch) for epoch in (1, 2) for name in ("epoch", "validation", "test")], host
saved = [s for s in trace.on(0, "epochs") if s["name"] == "checkpoint"]
assert len(saved) >= 3  # the model twice, the best at least once
assert len(trace.on(1, "compute")) == 14 * 6  # backward up to each slice of fc2, the rest of it, update
assert {e["args"]["value"] > 0 for e in trace.events if e["name"] == "throughput"} == {True}
PYTHON

# Batch-norm over the whole batch: many segments and exchanges a step.  A device without samples.
train --dataset synthetic:32x32x3:10:12 --batch-size 6 --model resnet18 --max-steps 2 --quiet --split 2:1:0 \
    --devices cpu:threads=1,cpu:threads=1,cpu:threads=1 --log norm.jsonl --trace norm.json
check "many exchanges" python3 - <<'PYTHON'
from read_trace import Trace
trace = Trace(open("norm.json").read())
assert len(trace.check_against("norm.jsonl")) == 2
assert len(trace.on(1, "compute")) == len(trace.on(2, "compute")) > 2 * 40
assert len(trace.on(3, "compute")) == 2  # the updates
PYTHON

# A device that computes its shard in micro-batches.
train --dataset "$data" --model mlp --batch-size 100 --micro-batch 7 --max-steps 3 --quiet \
    --devices cpu:threads=1 --log passes.jsonl --trace passes.json
check "passes" python3 - <<'PYTHON'
from read_trace import Trace
trace = Trace(open("passes.json").read())
assert len(trace.check_against("passes.jsonl")) == 3
assert len(trace.on(1, "compute")) == 3 * (15 + 1) and len(trace.on(1, "waiting")) == 0
PYTHON

rm -f cut.json cut.jsonl
check "an interrupted and a killed run" python3 - "$DPTRAIN" <<'PYTHON'
import os, signal, subprocess, sys, time
from read_trace import Trace
def run(number):
    process = subprocess.Popen(
        [sys.argv[1], "train", "--dataset=synthetic:28x28x1:10:2000", "--model=linear", "--quiet",
         "--batch-size=50", "--max-time=300", "--log=cut.jsonl", "--trace=cut.json",
         "--devices=cpu:threads=1,cpu:threads=1"], stderr=subprocess.DEVNULL)
    for _ in range(600):  # until the file is written to while it trains
        if os.path.exists("cut.json") and os.path.getsize("cut.json") > 100000:
            break
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=60) == (130 if number == signal.SIGINT else -number)
    text = open("cut.json").read()
    os.remove("cut.json")
    return text
assert len(Trace(run(signal.SIGINT)).check_against("cut.jsonl")) > 10
assert len(Trace(run(signal.SIGKILL) + "]").events) > 100
PYTHON

# A failure is no reason for half a file.
refuse 1 "loss of step [0-9]+ is not finite" --quiet --model mlp --dataset synthetic:8x8x1:3:640 \
    --batch-size 64 --max-steps 50 --lr 1000 --trace failed.json
check "a failed run" python3 -c 'from read_trace import Trace; Trace(open("failed.json").read())'

# Files that cannot be written
quick=(--model linear --batch-size 4 --max-steps 1 --quiet --dataset synthetic:8x8x1:3:64)
refuse 1 "/nowhere/trace" "${quick[@]}" --trace /nowhere/trace
printf 'kept' >kept.jsonl
refuse 1 "/nowhere/trace" "${quick[@]}" --trace /nowhere/trace --log kept.jsonl
check "found before another file is touched" test "$(cat kept.jsonl)" = kept
refuse 2 "both.* is to be written twice" "${quick[@]}" --log both --trace both
refuse 2 "both.* is to be written twice" "${quick[@]}" --plot both --trace both
refuse 2 "twice/model.safetensors is to be written twice" "${quick[@]}" --checkpoint twice \
    --trace twice/model.safetensors
refuse 2 "model.safetensors is to be written twice" "${quick[@]}" --checkpoint twice \
    --log twice/../twice/model.safetensors
refuse 2 "checkpoint-000000005.safetensors has the name of a checkpoint" "${quick[@]}" --checkpoint twice \
    --log ./twice/checkpoint-000000005.safetensors
refuse 2 "both is to be written twice" "${quick[@]}" --log both --plot ./both
train "${quick[@]}" --trace /dev/null
if [ -e /dev/full ]; then
    refuse 1 "cannot write the trace /dev/full.*[Nn]o space" "${quick[@]}" --trace /dev/full
fi
finish
