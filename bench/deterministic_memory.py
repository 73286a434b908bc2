#!/usr/bin/env python3
"""Compares the memory of --deterministic with that of the default (bench/results/deterministic.md).

    bench/deterministic_memory.py DPTRAIN [--networks LIST] [--mixes LIST]

Prints the largest resident set in MiB, with several processes the sum of theirs, of a run of three steps, and the
SHA-256 of the weights of the deterministic run.
"""
import argparse
import json
import os
import subprocess
import tempfile

os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say

NETWORKS = {"lenet": (256, "28x28x1:10:768"), "mlp": (256, "28x28x1:10:768"), "vgg11": (64, "32x32x3:10:192"),
            "resnet18": (64, "32x32x3:10:192")}
ONE = "cpu:threads=1"
# The options of each process.
MIXES = {
    "one device": [["--devices", "cpu:threads=2"]],
    "1:1": [["--devices", ",".join(2 * [ONE]), "--split", "1:1"]],
    "13:3": [["--devices", ",".join(2 * [ONE]), "--split", "13:3"]],
    "13:2:1": [["--devices", ",".join(3 * [ONE]), "--split", "13:2:1"]],
    "1:14:1": [["--devices", ",".join(3 * [ONE]), "--split", "1:14:1"]],
    "micro-batches of 1/2": [["--devices", ONE, "--micro-batch", "HALF"]],
    "micro-batches of 1/4": [["--devices", ONE, "--micro-batch", "QUARTER"]],
    "micro-batches of 1/16": [["--devices", ONE, "--micro-batch", "GRAIN"]],
    "processes 13:2:1": 3 * [["--devices", ONE, "--split", "13:2:1"]],
    "processes 1:1:1": 3 * [["--devices", ONE, "--split", "1:1:1"]],
}
REFUSED = {("resnet18", mix) for mix in MIXES if mix.startswith("micro")}  # batch-norm


def run(dptrain, network, mix, extra):
    batch, data = NETWORKS[network]
    fractions = {"HALF": str(batch // 2), "QUARTER": str(batch // 4), "GRAIN": str(batch // 16)}
    with tempfile.TemporaryDirectory() as folder:
        log, peaks = os.path.join(folder, "log.jsonl"), []
        command = []
        for i, options in enumerate(MIXES[mix]):
            peaks.append(os.path.join(folder, f"peak{i}"))
            command += [":"] if i > 0 else []
            command += ["-n", "1"] if len(MIXES[mix]) > 1 else []
            command += ["/usr/bin/time", "-f", "%M", "-o", peaks[-1], dptrain, "train", "--model", network,
                        "--batch-size", str(batch), "--dataset", f"synthetic:{data}", "--epochs", "1", "--log", log,
                        "--lr", "0.01", "--quiet", *[fractions.get(o, o) for o in options], *extra]
        if len(MIXES[mix]) > 1:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(log) as lines:
            hashes = [json.loads(line).get("weights_sha256") for line in lines if "weights_sha256" in line]
        kib = 0
        for peak in peaks:
            with open(peak) as lines:
                kib += int(lines.read().split()[-1])
    return kib / 1024, hashes[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dptrain")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--mixes", default=",".join(MIXES))
    args = parser.parse_args()
    print("| network | mix | default, MiB | deterministic, MiB | ratio | weights |\n|---|---|--:|--:|--:|---|")
    for network in args.networks.split(","):
        for mix in args.mixes.split(","):
            if (network, mix) in REFUSED:
                continue
            default, _ = run(args.dptrain, network, mix, [])
            mine, weights = run(args.dptrain, network, mix, ["--deterministic"])
            print(f"| {network} | {mix} | {default:.0f} | {mine:.0f} | {mine / default:.2f} | {weights[:12]} |",
                  flush=True)


if __name__ == "__main__":
    main()
