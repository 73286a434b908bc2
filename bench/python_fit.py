#!/usr/bin/env python3
"""Compares `dptrain.fit` with the command: the same training of LeNet on the same arrays, in turns.

    PYTHONPATH=build/python python3 bench/python_fit.py [--runs 5] [--epochs 6] [--devices cpu:threads=1] [--check]

The data are random bytes in NumPy arrays (--samples images of 28x28).  The command reads them from
a file, `fit` has them in memory.  Both train with batch 256, SGD and momentum, and evaluate nothing.  Each run is
a process of its own.  Printed are the medians, over pairs of runs, of the ratios of the command's time to fit's:
the time of training as the library tells it, and the processor time that was used from the call to its end (for the
command, of the whole process).  A ratio of 1 means that fit is as fast as the command.

--check fails if the ratio of processor times is below 0.98.  DPTRAIN names the command (build/bin/dptrain).
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np

os.environ["DPTRAIN_RECIPE"] = "none"  # what is measured is what the options say
BATCH, LR, MOMENTUM, SEED, LEAST = 256, 0.05, 0.9, 1, 0.98
PROGRAM = """
import json, time
import numpy as np, dptrain
with np.load({file!r}) as arrays:
    x, y = arrays["images"], arrays["labels"]
begin = time.process_time()
run = dptrain.fit("lenet", (x, y), devices={devices!r}, epochs={epochs}, batch_size={batch}, lr={lr},
                  momentum={momentum}, seed={seed})
print(json.dumps([run.seconds, time.process_time() - begin, run.train_loss]))
"""


def by_fit(options, file):
    """Seconds of training, processor seconds of the call, and the last training loss."""
    program = PROGRAM.format(file=file, devices=options.devices, epochs=options.epochs, batch=BATCH, lr=LR,
                             momentum=MOMENTUM, seed=SEED)
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def by_command(options, file):
    """The same of the command."""
    log = file + ".jsonl"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([os.environ.get("DPTRAIN", "build/bin/dptrain"), "train", "--quiet", "--log", log,
                    "--model", "lenet", "--dataset", "npz:" + file, "--devices", options.devices,
                    "--epochs", str(options.epochs), "--batch-size", str(BATCH), "--lr", str(LR),
                    "--momentum", str(MOMENTUM), "--seed", str(SEED)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(log) as lines:
        events = [json.loads(line) for line in lines]
    loss = [event["train_loss"] for event in events if event["event"] == "epoch"][-1]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [events[-1]["seconds"], used, loss]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--devices", default="cpu:threads=1")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory(prefix="bench-python-") as folder:
        random = np.random.default_rng(0)
        x = random.integers(0, 256, (options.samples, 28, 28), dtype=np.uint8)
        y = random.integers(0, 10, options.samples)
        file = os.path.join(folder, "train.npz")
        np.savez(file, images=x, labels=y)
        # The command evaluates test samples after each epoch; one sample costs nothing.
        np.savez(os.path.join(folder, "test.npz"), images=x[:1], labels=y[:1])
        for run in range(options.runs):
            turn = [by_command, by_fit] if run % 2 else [by_fit, by_command]
            done = {function: function(options, file) for function in turn}
            pairs.append((done[by_command], done[by_fit]))
            print("command %.3f s, %.3f s of processors; fit %.3f s, %.3f s of processors"
                  % (*pairs[-1][0][:2], *pairs[-1][1][:2]), flush=True)
            if abs(pairs[-1][0][2] - pairs[-1][1][2]) > 1e-6:
                sys.exit("the losses differ: not the same training")
    time, used = (statistics.median(command[i] / fit[i] for command, fit in pairs) for i in (0, 1))
    print(f"fit has {time:.3f} of the command's speed; by processor time {used:.3f}")
    return int(options.check and used < LEAST)


if __name__ == "__main__":
    sys.exit(main())
