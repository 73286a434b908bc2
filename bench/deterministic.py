#!/usr/bin/env python3
"""Compares the time of a step of --deterministic with that of the default (bench/results/deterministic.md).

    bench/deterministic.py DPTRAIN [--devices LIST] [--runs N]

Runs of both take turns.  The median time of a step of each run counts, without its first two steps, and of the
runs the median.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say

NETWORKS = (("lenet", 256, "28x28x1:10:4096", 60), ("resnet18", 128, "28x28x1:10:1024", 7),
            ("vgg11", 64, "32x32x3:10:512", 8), ("mlp", 256, "28x28x1:10:4096", 60))
WARM_UP = 2


def seconds_of_step(dptrain, network, devices, extra):
    model, batch, data, steps = network
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        subprocess.run([dptrain, "train", "--model", model, "--batch-size", str(batch), "--dataset",
                        f"synthetic:{data}", "--max-steps", str(steps), "--devices", devices, "--log", log,
                        "--quiet", *extra], check=True)
        with open(log) as lines:
            events = [json.loads(line) for line in lines]
    return statistics.median([e["seconds"] for e in events if e["event"] == "step"][WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dptrain")
    parser.add_argument("--devices", default="cpu:threads=2")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    print("| network, batch | default, ms | deterministic, ms | ratio |\n|---|--:|--:|--:|")
    for network in NETWORKS:
        default, deterministic = [], []
        for _ in range(args.runs):
            default.append(seconds_of_step(args.dptrain, network, args.devices, []))
            deterministic.append(seconds_of_step(args.dptrain, network, args.devices, ["--deterministic"]))
        a, b = statistics.median(default), statistics.median(deterministic)
        print(f"| {network[0]}, {network[1]} | {1e3 * a:.1f} | {1e3 * b:.1f} | {a / b:.2f} |", flush=True)


if __name__ == "__main__":
    main()
