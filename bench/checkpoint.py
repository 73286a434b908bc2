#!/usr/bin/env python3
"""What checkpoints in the background cost a training, from what the run says of itself, and from runs
with and without them in turns.

    python3 bench/checkpoint.py [--model resnet18] [--batch-size 64] [--every 20] [--steps 61] [--runs 3] [--check]

A checkpoint costs the time that training stands still while the state is copied, and the processor time
of the thread that writes it, which the CPU's devices lack meanwhile: at worst all of them wait for the one
whose core is taken.  Both are in the log (docs/log.md, `checkpoint`); against the steps between two
checkpoints they are the cost in per cent.  On a machine whose speed varies they tell more than the
difference between runs, which stands beside.

--check fails if the cost is more than one per cent.  DPTRAIN names the program (build/bin/dptrain)."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("DPTRAIN_RECIPE", "none")  # what is measured is what the options say

root = pathlib.Path(__file__).resolve().parent.parent


def run(dptrain, options, folder, every):
    """The steps' seconds but the first's, and the `checkpoint` events of one training."""
    log = folder / "run.jsonl"
    command = [dptrain, "train", "--quiet", "--dataset", "synthetic:32x32x3:10:4096", "--devices", options.devices,
               "--model", options.model, "--batch-size", str(options.batch_size), "--momentum", "0.9", "--lr", "0.001",
               "--max-steps", str(options.steps), "--epochs", "1000", "--log", log]
    if every:
        command += ["--checkpoint", folder / "kept", "--checkpoint-every", f"{every}steps"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    for file in (folder / "kept").glob("*"):
        file.unlink()
    return ([e["seconds"] for e in events if e["event"] == "step"][1:],
            [e for e in events if e["event"] == "checkpoint"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next")
    parser.add_argument("--steps", type=int, default=61)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", help="where checkpoints are written: the disk that is measured (default: here)")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.steps <= 2 * options.every:
        parser.error("--steps must be more than twice --every: the first checkpoint does not count")
    dptrain = os.environ.get("DPTRAIN", str(root / "build/bin/dptrain"))
    if not os.access(dptrain, os.X_OK):
        sys.exit(f"bench: no dptrain at {dptrain}; build it (scripts/quickstart.sh) or set DPTRAIN")
    for name in "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS":
        os.environ.pop(name, None)

    without, between, kept = [], [], []
    with tempfile.TemporaryDirectory(dir=options.folder or ".", prefix="bench-checkpoint-") as name:
        folder = pathlib.Path(name)
        for _ in range(options.runs):
            without.append(statistics.mean(run(dptrain, options, folder, None)[0]))
            seconds, events = run(dptrain, options, folder, options.every)
            between.append(statistics.mean(seconds))
            # The first takes memory for the copy, and the last is waited for.
            kept += [e for e in events[1:] if e["step"] < options.steps]

    step = statistics.median(without)
    stopped = statistics.median(e["stopped_seconds"] for e in kept)
    computing = statistics.median(e["processor_seconds"] for e in kept)
    writing = statistics.median(e["write_seconds"] for e in kept)
    cost = (stopped + computing) / (options.every * step)
    print(f"{options.model}, batch {options.batch_size}, {options.devices}: {len(kept)} checkpoints of "
          f"{kept[0]['bytes'] / 1e6:.0f} MB, one every {options.every} steps\n")
    print("| step | stands still | writes | of it computing | cost | 1 % from every | steps with / without, "
          f"{options.runs} runs each |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    print(f"| {step:.3f} s | {1e3 * stopped:.0f} ms | {1e3 * writing:.0f} ms | {1e3 * computing:.0f} ms | "
          f"{100 * cost:.2f} % | {(stopped + computing) / (0.01 * step):.0f} steps | "
          f"{statistics.median(b / w for b, w in zip(between, without)):.3f} |")
    if options.check and cost > 0.01:
        sys.exit(f"bench: checkpoints cost {100 * cost:.2f} % of the steps, more than 1 %")


main()
