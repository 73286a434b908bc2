#!/usr/bin/env python3
"""Compares the time of a step that `dptrain plan --measure` tells with that of the training.

    bench/plan_time.py DPTRAIN [--runs N] [--measure SECONDS] [--check]

A plan and a training with the same options take turns.  Of a training the mean step of the second half counts,
when shards have settled.  The table has the medians over the runs.  With --check the exit status is 1 if the two
times of a row differ by more than 15 %.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say

MOST = 0.15
TWO = "cpu:threads=1,cpu:threads=1"
# Name, options, steps of the training.
ROWS = (
    ("LeNet 256", "--model lenet --batch-size 256 --devices cpu:threads=2", 120),
    ("LeNet 256, a slow device", f"--model lenet --batch-size 256 --devices {TWO}:throttle=3", 120),
    ("ResNet-18 64", "--model resnet18 --batch-size 64 --devices cpu:threads=2", 16),
    ("ResNet-18 64, --recompute on", "--model resnet18 --batch-size 64 --recompute on --devices cpu:threads=2", 16),
    ("MLP 256, AdamW", f"--model mlp --batch-size 256 --optimizer adamw --devices {TWO}", 120),
    ("the same, --shard optimizer", f"--model mlp --batch-size 256 --optimizer adamw --shard optimizer --devices {TWO}",
     120),
    ("the same, --shard gradients", f"--model mlp --batch-size 256 --optimizer adamw --shard gradients --devices {TWO}",
     120),
)
DATA = ["--dataset", "synthetic:28x28x1:10:8192", "--lr", "0.001"]


def planned(dptrain, options, seconds):
    """Milliseconds of a step."""
    done = subprocess.run([dptrain, "plan", *options, *DATA, "--measure", str(seconds)], check=True,
                          capture_output=True, text=True)
    return float(re.search(r"^A step takes ([0-9.]+) ms", done.stdout, re.M)[1])


def trained(dptrain, options, steps):
    """Milliseconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        subprocess.run([dptrain, "train", *options, *DATA, "--epochs", "1000", "--max-steps", str(steps), "--log", log,
                        "--quiet"], check=True)
        with open(log) as lines:
            events = [e for e in map(json.loads, lines) if e["event"] == "step"]
    whole = [e["seconds"] for e in events[steps // 2:] if e["samples"] == events[0]["samples"]]
    return 1e3 * statistics.mean(whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dptrain")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", type=float, default=2)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    worst = 0
    print("| training | planned, ms | trained, ms | ratio |\n|---|--:|--:|--:|")
    for name, options, steps in ROWS:
        plans, trainings = [], []
        for _ in range(args.runs):
            plans.append(planned(args.dptrain, options.split(), args.measure))
            trainings.append(trained(args.dptrain, options.split(), steps))
        a, b = statistics.median(plans), statistics.median(trainings)
        worst = max(worst, abs(a / b - 1))
        print(f"| {name} | {a:.2f} | {b:.2f} | {a / b:.2f} |", flush=True)
    if args.check and worst > MOST:
        sys.exit(f"a plan is off by {100 * worst:.0f} %, more than {100 * MOST:.0f} %")


if __name__ == "__main__":
    main()
