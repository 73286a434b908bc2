"""Trains by the textbook's recipe in dptrain and in PyTorch and compares test accuracies.

Called by textbook.sh.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STD, LR, BATCH = "0.01", "0.2", "256"
TOLERANCE = 0.02


def run_dptrain(args, seed):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        subprocess.run(
            [args.dptrain, "train", "--quiet", f"--devices=cpu:threads={args.threads}",
             "--model=lenet", f"--data={args.data}", f"--init=normal:{STD}", f"--lr={LR}",
             f"--batch-size={BATCH}", f"--epochs={args.epochs}", f"--seed={seed}", f"--log={log}"],
            check=True)
        with open(log, encoding="utf-8") as lines:
            return json.loads(lines.readlines()[-1])["test_accuracy"]


def run_pytorch(args, seed):
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "vs_pytorch_train.py"), "--model", "lenet",
         "--data", args.data, "--batch-size", BATCH, "--epochs", str(args.epochs),
         "--threads", str(args.threads), "--seed", str(seed), "--init-std", STD, "--lr", LR,
         "--momentum", "0"], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])["test_accuracy"]


def main():
    parser = argparse.ArgumentParser(prog="textbook.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--dptrain", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    ours, theirs = [], []
    print("| seed | dptrain | PyTorch |")
    print("|---|---|---|")
    for seed in range(args.seeds):
        ours.append(run_dptrain(args, seed))
        theirs.append(run_pytorch(args, seed))
        print(f"| {seed} | {ours[-1]:.4f} | {theirs[-1]:.4f} |", flush=True)
    a, b = statistics.mean(ours), statistics.mean(theirs)
    print(f"| mean | {a:.4f} | {b:.4f} |")
    if not abs(a - b) <= TOLERANCE:
        sys.exit(f"textbook: the means differ by {abs(a - b):.4f}, more than {TOLERANCE}")


if __name__ == "__main__":
    main()
