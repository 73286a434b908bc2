#!/usr/bin/env python3
"""Test accuracy of local steps beside that of the synchronous training: ResNet-18 on Fashion-MNIST, two processes with
a batch of 64 each, the same learning rate, seeds in turns.

    bench/local_accuracy.py FOLDER [--dptrain FILE] [--seeds N] [--epochs N] [--data FOLDER] [--threads N] [--check]
                            [-- OPTION...]

Runs that have ended stay in FOLDER and are not repeated; one that was interrupted goes on.  OPTIONs are those of
dptrain for the runs with local steps, in place of --local-steps 50 --compress int8 --outer-delay 2.  With --check the
exit status is 1 if the mean of the runs with local steps is more than 0.5 points below that of the others.  With the
defaults a run takes about 20 minutes where a step of two threads takes 0.5 seconds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

MOST_BELOW = 0.005
MODEL = ["--model", "resnet18", "--split", "equal", "--batch-size", "128", "--momentum", "0.9", "--lr", "0.02"]
LOCAL = ["--local-steps", "50", "--compress", "int8", "--outer-delay", "2"]


def accuracy(log):
    """That of the last epoch; None if the training has not ended."""
    if not os.path.exists(log):
        return None
    with open(log) as lines:
        last = [event for event in map(json.loads, lines) if event["event"] == "done"]
    return last[-1]["test_accuracy"] if last else None


def run(arguments, name, seed, options):
    """The accuracy of a run, which is started, or goes on, if it has not ended."""
    log = os.path.join(arguments.folder, f"{name}-{seed}.jsonl")
    if accuracy(log) is None:
        command = ["mpirun", "-n", "2", "--bind-to", "none", "--oversubscribe", arguments.dptrain, "train", *MODEL,
                   "--dataset", "fashion-mnist", "--data", arguments.data, "--epochs", str(arguments.epochs),
                   "--devices", f"cpu:threads={arguments.threads}", "--seed", str(seed), "--log", log, "--checkpoint",
                   os.path.join(arguments.folder, f"{name}-{seed}"), "--resume", "--quiet", *options]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return accuracy(log)


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(usage=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--dptrain", default="build/bin/dptrain")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args(sys.argv[1:split])
    os.makedirs(arguments.folder, exist_ok=True)
    os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say
    kinds = {"synchronous": [], "local": sys.argv[split + 1:] or LOCAL}
    results = {kind: [] for kind in kinds}
    for seed in range(arguments.seeds):
        for kind, options in kinds.items():
            results[kind].append(run(arguments, kind, seed, options))
            print(f"seed {seed}, {kind}: {results[kind][-1]:.4f}", file=sys.stderr, flush=True)
    print(f"| run | test accuracy after {arguments.epochs} epochs | each seed |\n|---|--:|---|")
    means = {kind: statistics.mean(of) for kind, of in results.items()}
    for kind, of in results.items():
        print(f"| {' '.join([kind, *kinds[kind]])} | {means[kind]:.4f} | {', '.join(f'{value:.4f}' for value in of)} |")
    below = means["synchronous"] - means["local"]
    print(f"\nLocal steps are {100 * below:.2f} points below.")
    return 1 if arguments.check and below > MOST_BELOW else 0


if __name__ == "__main__":
    sys.exit(main())
